"""Reports of a bench: ranks, marks and sums by hand, three languages, and the examples they draw."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tino
from tino.bench import paper_cells, paper_config, run_cell
from tino.cli import run
from tino.evaluation import samples_per_second
from tino.files import read_json, write_json
from tino.metrics import METRICS, Metric
from tino.options import DataOptions
from tino.paper import PAPER, RECIPE, TABLES
from tino.preview import Preview, read_preview, take_preview, write_preview
from tino.report.comparison import break_even, recipe, sections, solver_rates
from tino.report.figures import box_plots, draw_preview, draw_samples
from tino.report.markup import Line, Markup
from tino.report.tables import print_table, short
from tino.results import Cell, Result, read_result, read_results
from tino.training import TrainConfig

ROOT = Path(__file__).parent.parent


def record(problem: str, model: str, mse: float, seed: int = 0, **others: Any) -> dict[str, Any]:
    """A result as a bench writes it."""
    return {
        "problem": problem,
        "model": model,
        "seed": seed,
        "mse_mean": mse,
        "mse_sd": 2 * mse,
        "rel_l2_mean": mse**0.5,
        "rel_l2": [mse**0.5, 2 * mse**0.5],
        "parameters": 1_500_000,
        "epochs": 10,
        "steps": 50,
        "batch_size": 200,
        "lr": 5e-3,
        "optimizer": "soap",
        "training": {"epochs": 10, "times": 0, "precision": "tf32", "weight_decay": 0.0},
        "train_seconds": 20.0,
        "seconds_per_epoch": 1.5,
        "samples_per_second": 1000.0,
        "causal": model != "fno",
        "time_invariant": False,
        "device": "cpu",
        "data": {"train": 8, "test": 2, "options": {}},
        **others,
    }


@pytest.fixture
def folder(tmp_path):
    """Results of three models on duffing, one of them from two seeds, and of one on burgers-0.1."""
    kept = tmp_path / "paper"
    for one in (
        record("duffing", "fno", 3e-6),
        record("duffing", "don", 1e-3),
        record("duffing", "trtino", 1e-6),
        record("duffing", "trtino", 3e-6, seed=1),
        record("burgers-0.1", "spod-trtino", 1e-7),
    ):
        write_json(kept / one["problem"] / f"{one['model']}-{one['seed']}.json", one)
    rates = {"cost": {"duffing": 10.0, "burgers-0.1": 10.0, "navier-stokes-ic": 2.0}}
    rates["gpu_cost"] = {"duffing": 5.0, "burgers-0.1": 40.0}
    machines = {"cost": {"device": "cpu", "cores": 2}, "gpu_cost": {"device": "a GPU", "cores": 16}}
    measured = {
        key: {
            "machine": machines[key],
            "sets": {name: {"trajectories_per_second": rate} for name, rate in sets.items()},
        }
        for key, sets in rates.items()
    }
    write_json(tmp_path / "problems.json", measured)
    return kept


def test_cells_are_ranked_ours_among_ours_and_the_paper_s_among_its_own(folder):
    part = sections(read_results(folder))[0]
    assert (part.name, part.problems) == ("ode", ("duffing",))
    rows = {row[0][0].text: row for row in part.errors.rows}
    assert list(rows) == ["fno", "don", "pod-don", "tc-don", "trtino"]  # the paper's order
    assert rows["trtino"][1] == (
        Line("2.00e-6 ± 4.00e-6", "best"),  # the mean of the seeds
        Line("2 seeds: 1.00e-6 … 3.00e-6", quiet=True),
        Line("paper 3.93e-5 ± 6.32e-5", "second", quiet=True),
    )
    assert rows["fno"][1][0].mark == "second"
    assert rows["fno"][1][1] == Line("paper 8.18e-6 ± 1.41e-5", "best", quiet=True)
    assert [line.mark for line in rows["don"][1]] == ["", ""]
    assert [cell[0].text for cell in rows["fno"][2:]] == ["no", "no"]
    assert [cell[0].text for cell in rows["trtino"][2:]] == ["yes", "no"]
    assert rows["tc-don"][1:] == ((Line("paper 1.48e-3 ± 2.54e-3", quiet=True),), (Line("–"),), (Line("–"),))
    assert part.notes[1].startswith(
        "No result of ours yet: pod-don on duffing, tc-don on duffing, fno on gradient-flow"
    )


def test_the_paper_s_best_is_its_own_where_we_have_no_result(folder):
    (folder / "duffing" / "fno-0.json").unlink()
    rows = {row[0][0].text: row for row in sections(read_results(folder))[0].errors.rows}
    assert rows["fno"][1] == (Line("paper 8.18e-6 ± 1.41e-5", "best", quiet=True),)
    assert [line.mark for line in rows["trtino"][1]] == ["best", "", "second"]
    (folder / "duffing" / "don-0.json").unlink()
    alone = {row[0][0].text: row for row in sections(read_results(folder))[0].errors.rows}
    assert alone["trtino"][1][0].mark == ""  # there is no other model


def test_a_model_trained_for_another_length_says_so(folder):
    short = record("duffing", "fno", 3e-6, epochs=4, steps=20)
    short["training"]["epochs"] = 4
    write_json(folder / "duffing" / "fno-0.json", short)
    part = sections(read_results(folder))[0]
    rows = {row[0][0].text: row for row in part.errors.rows}
    assert Line("4 epochs", quiet=True) in rows["fno"][1]
    assert not any("epochs" in line.text for model in ("don", "trtino") for line in rows[model][1])
    alike = "of batches of 200 ({} steps) at all times, soap at rate 0.005, tf32"
    assert part.notes[0] == f"Recipe. duffing: 10 epochs {alike.format(50)}; fno: 4 epochs {alike.format(20)}."
    by_budget = record("duffing", "fno", 3e-6, epochs=4, steps=20)  # the same length was asked for
    write_json(folder / "duffing" / "fno-0.json", by_budget)
    assert not any("epochs" in line.text for row in sections(read_results(folder))[0].errors.rows for line in row[1])


def test_costs_and_the_break_even_by_hand(folder):
    results = read_results(folder)
    assert {name: (found.rate, found.device) for name, found in solver_rates(results).items()} == {
        "duffing": (10.0, "2 cores"),
        "burgers-0.1": (40.0, "a GPU"),  # the faster one
    }
    rows = [[cell[0].text for cell in row] for row in sections(results)[0].costs.rows]
    assert rows[0] == ["duffing", "fno", "1.73e-3", "1.50 M", "20", "1.500", "1,000", "cpu"]
    assert rows[-1] == ["duffing", "reference solver", "–", "–", "–", "–", "10", "2 cores"]
    write_json(folder / "duffing" / "fno-0.json", record("duffing", "fno", 3e-6, compiled=True))
    assert sections(read_results(folder))[0].costs.rows[0][-1][0].text == "cpu, trained compiled"
    payoff = break_even(results)
    assert payoff is not None
    # ten samples at 10 per second, 20 s of training, and 1/10 - 1/1000 s saved per response
    after = -int(-(1.0 + 20.0) // (1 / 10 - 1 / 1000))
    assert [cell[0].text for cell in payoff.rows[0]] == [
        *("duffing", "trtino", "1.0", "20", "1,000", "10", "2 cores", f"{after:,}")
    ]
    assert "10 epochs of batches of 200 (50 steps) at all times, soap at rate 0.005, tf32" in recipe(
        results, ["duffing"]
    )


def test_a_slow_model_never_pays_off_and_another_grid_has_no_solver(folder):
    slow = record("duffing", "trtino", 1e-6, samples_per_second=5.0)
    for seed in (0, 1):
        write_json(folder / "duffing" / f"trtino-{seed}.json", {**slow, "seed": seed})
    payoff = break_even(read_results(folder))
    assert payoff is not None
    assert payoff.rows[0][-1][0].text == "never"
    coarse = record("duffing", "trtino", 1e-6, data={"train": 8, "test": 2, "options": {"n_t": 10}})
    write_json(folder / "duffing" / "trtino-0.json", coarse)
    assert "duffing" not in solver_rates(read_results(folder))
    (folder.parent / "problems.json").unlink()
    assert break_even(read_results(folder)) is None


def test_a_window_takes_its_share_of_a_trajectory(folder):
    one = record("navier-stokes-ic", "spod-trtino", 1e-5)
    write_json(folder / "navier-stokes-ic" / "spod-trtino-0.json", one)
    solver = solver_rates(read_results(folder))["navier-stokes-ic"]
    assert (solver.trajectories_per_second, solver.rate) == (2.0, 10.0)


def test_a_table_in_three_languages():
    cells = ((Line("a_b & c"),), (Line("1 ± 2", "best"), Line("paper 3", "second", quiet=True)), (Line("–"),))
    table = Markup("t", "50 % <of> all", ("model", "x", "y"), (cells,))
    assert table.markdown().splitlines()[1:] == [
        "| :--- | ---: | ---: |",
        r"| a\_b &amp; c | **1 ± 2**<br><sub><ins>paper 3</ins></sub> | – |",
    ]
    assert Markup("t", "", ("|x|",), (((Line("a|b"),),),)).markdown().splitlines()[2] == r"| a\|b |"
    page = table.html()
    assert "50 % &lt;of&gt; all" in page
    assert '<td><b>1 ± 2</b><br><span class="small"><u>paper 3</u></span></td>' in page
    written = table.latex()
    assert r"a\_b \& c & " in written
    assert r"\textbf{1 $\pm$ 2} \\ {\small \underline{paper 3}}\end{tabular} & -- \\" in written
    assert r"\caption{50 \% $<$of$>$ all}" in written
    assert written.count("{") == written.count("}")
    many = Markup("t", "long", ("model", "x"), (((Line("a^b"),), (Line("1"),)),) * 30).latex()
    assert many.startswith(r"\begin{longtable}{lr}")
    assert many.count(r"a\textasciicircum{}b & 1 \\") == 30


def test_a_bench_s_report_is_a_page_markdown_and_latex(folder, tmp_path, capsys, small_data):
    train, test = small_data("duffing")
    write_preview(folder / "duffing" / "trtino-0.safetensors", take_preview(tino.build("trtino", train), test))
    assert run(["report", str(folder), "--out", str(tmp_path / "report")]) == 0
    assert "page: " in capsys.readouterr().out
    made = {path.name for path in (tmp_path / "report").iterdir()}
    assert made == {"index.html", "report.md", "tables.tex", "relative-l2.png", "duffing.png"}
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:)', page)  # self-contained
    assert page.count("<img") == 2
    assert "No result of ours yet: pod-don on duffing" in page
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "![duffing](duffing.png)" in text
    assert "No result of ours yet: pod-don on duffing" in text
    assert run(["report", str(folder), "--out", str(tmp_path / "report"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == 5


def test_the_page_of_runs_says_only_what_it_shows(tmp_path):
    """Several channels have no line for the test error, and other data no figure in the paper."""
    for count, dashed in ((1, True), (2, False)):
        path, folder = tmp_path / f"rig{count}.npz", tmp_path / f"run{count}"
        u = np.random.default_rng(0).normal(size=(12, 20, count))
        np.savez(path, f=u[..., :1], u=u, t=np.linspace(0, 1, 20))
        assert run(["train", str(path), "tino", "--epochs", "1", "--device", "cpu", "--out", str(folder)]) == 0
        assert run(["report", str(folder), "--out", str(tmp_path / "report")]) == 0
        page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
        assert ("dashed: test error" in page) == dashed
        assert "paper" not in page
        assert "10 training and 2 test pairs, seed 0; 1 epochs of batches of" in page


def test_several_channels_have_no_error_of_mixed_units(tmp_path, capsys):
    """A dash, or no column, for the MSE, RMSE and largest error of all; each channel has its own, in its unit."""
    path, folders = tmp_path / "rig.npz", []
    u = np.random.default_rng(0).normal(size=(12, 20, 2)) * [1, 1e3]
    np.savez(path, f=u[..., :1], u=u, t=np.linspace(0, 1, 20), u_names=["angle", "strain"], u_units=["rad", "%"])
    for model in ("tino", "trtino"):
        folders.append(str(tmp_path / model))
        assert run(["train", str(path), model, "--epochs", "1", "--device", "cpu", "--out", folders[-1]]) == 0
        said = capsys.readouterr().out
        assert "MSE ±" not in said
        assert "rel. L2" in said
        numbers = json.loads((tmp_path / model / "scores.json").read_text(encoding="utf-8"))["channels"]
        rows = {line.split("]")[0]: line.split() for line in said.splitlines()}
        assert short(numbers["angle"]["rmse"]) in rows["angle [rad"]
        assert rows["strain [%"][-1] == short(numbers["strain"]["max_error"])
        assert max(map(len, said.splitlines()[:-1])) <= 80
    assert run(["report", *folders, "--out", str(tmp_path / "report")]) == 0
    assert "MSE ±" not in capsys.readouterr().out
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    whole, by_channel = page.split("angle [rad]</td>")[0].split("<table>")[1:]
    assert "relative L2" in whole
    assert not any(word in whole for word in (">MSE<", ">RMSE<", "largest"))
    assert "RMSE" in by_channel
    bench = ["bench", "--problems", str(path), "--models", "tino", "trtino", "--epochs", "1", "--device", "cpu"]
    assert run([*bench, "--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]) == 0
    part = sections(read_results(tmp_path / "results"))[-1]
    assert all(row[1][0].text.endswith(" relative L2") for row in part.errors.rows)
    assert not {"RMSE", "largest error"} & set(part.costs.head)


def test_an_invalid_result_is_one_line(folder, tmp_path, capsys):
    (folder / "duffing" / "don-0.json").write_text('{"problem": "duffing"}')
    assert run(["report", str(folder), "--out", str(tmp_path / "report")]) == 1
    said = capsys.readouterr().err
    assert "don-0.json is not a result of this version: it lacks model, seed, rel_l2" in said
    assert len(said.strip().splitlines()) == 1
    with pytest.raises(tino.TinoError, match="no results in"):
        read_results(tmp_path / "report")
    write_json(folder / "duffing" / "don-0.json", record("duffing", "don", 1e-3, seed=1))
    with pytest.raises(tino.TinoError, match=r"don-0.json holds the result of \(duffing, don, seed 1\)"):
        read_results(folder)
    write_json(folder / "duffing" / "don-0.json", {**record("duffing", "don", 1e-3), "mse_mean": "small"})
    with pytest.raises(tino.TinoError, match="mse_mean is 'small', expected a number"):
        read_results(folder)
    write_json(folder / "duffing" / "don-0.json", record("duffing", "don", float("nan")))
    with pytest.raises(tino.TinoError, match="mse_mean is nan, expected a number"):
        read_results(folder)
    write_json(folder / "duffing" / "don-0.json", record("duffing", "don", 1e-3, rel_l2=["x"]))
    with pytest.raises(tino.TinoError, match="rel_l2 holds values that are not numbers"):
        read_results(folder)


def test_a_relative_error_may_be_infinite_and_a_damaged_example_leaves_nothing(folder, tmp_path, capsys):
    odd = record("duffing", "don", 1e-3, rel_l2=[float("inf"), 0.1], rel_l2_mean=float("inf"))
    write_json(folder / "duffing" / "don-0.json", odd)
    assert run(["report", str(folder), "--out", str(tmp_path / "report")]) == 0
    (folder / "duffing" / "trtino-0.safetensors").write_bytes(b"cut")
    assert run(["report", str(folder), "--out", str(tmp_path / "other")]) == 1
    assert "trtino-0.safetensors is not a readable example" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        (["paper/duffing"], "nothing to report in .*paper/duffing: .* such as .*paper"),
        (["nowhere"], "nothing to report in .*nowhere: expected a folder written by 'tino train', or a results folder"),
        (["paper", "paper"], "give either one results folder or run folders, not both"),
    ],
)
def test_a_folder_without_results_is_one_line(folders, message, folder, tmp_path, capsys):
    assert run(["report", *[str(tmp_path / name) for name in folders], "--out", str(tmp_path / "report")]) == 1
    assert re.search(message, capsys.readouterr().err)


def test_a_model_of_one_s_own_has_its_row(folder):
    write_json(folder / "duffing" / "mine-0.json", record("duffing", "mine", 1e-9))
    part = sections(read_results(folder))[0]
    assert part.errors.rows[-1][0][0].text == "mine"
    assert part.errors.rows[-1][1] == (Line("1.00e-9 ± 2.00e-9", "best"),)


def test_data_of_one_s_own_have_their_section(folder):
    write_json(folder / "rig" / "don-0.json", record("rig", "don", 1e-3))
    part = sections(read_results(folder))[-1]
    assert (part.title, part.problems, part.costs.head[0]) == ("Your data", ("rig",), "data")


def test_tino_s_problems_beyond_the_paper_have_their_section(folder):
    for name in ("rig", "pendulum"):
        write_json(folder / name / "don-0.json", record(name, "don", 1e-3))
    beyond, own = sections(read_results(folder))[-2:]
    assert (beyond.title, beyond.problems, beyond.costs.head[0]) == ("Beyond the paper", ("pendulum",), "problem")
    assert (own.title, own.problems) == ("Your data", ("rig",))
    assert "paper" not in beyond.errors.caption


def test_models_are_ranked_by_the_means_that_the_table_shows(tmp_path):
    """By seed 0 alone, fno would be first beside a smaller mean of don."""
    for model, seed, mse in (("fno", 0, 2e-3), ("don", 0, 3e-3), ("don", 2, 5e-4)):
        write_json(tmp_path / "duffing" / f"{model}-{seed}.json", record("duffing", model, mse, seed))
    results = read_results(tmp_path)
    assert [entry.model for entry in results.ranked("duffing")] == ["don", "fno"]
    rows = {row[0][0].text: row[1][0] for row in sections(results)[0].errors.rows if row[1]}
    assert rows["don"] == Line("1.75e-3 ± 3.50e-3", "best")


def test_the_table_of_a_bench_fits_80_columns_with_a_seed_beside_the_longest_name(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    longest = max((model for row in PAPER.values() for model in row), key=len)
    one = record("advection-diffusion-3d", longest, 1e-5, seed=1, train_seconds=1234.0, fit=99.5)
    print_table([Result.from_record(one, Path("one.json"))])
    shown = capsys.readouterr().out
    assert f"{longest}-1" in shown
    assert "1.00e-5 ± 2.00e-5" in shown
    assert "…" not in shown


@pytest.mark.parametrize("seconds", [1.0, 12345.0])
def test_a_model_s_name_is_not_broken_within_a_word(seconds, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    one = record("duffing", "polynomial-clock", 1e-5, seed=12, train_seconds=seconds, fit=99.5, parameters=123_456_789)
    print_table([Result.from_record(one, Path("one.json"))])
    shown = capsys.readouterr().out
    assert "polynomial-clock-12" in shown
    assert "1.00e-5 ± 2.00e-5" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_suite_knows_the_94_cells_and_one_recipe_per_problem():
    cells = paper_cells((), (), (0,), (1, 1))
    assert len(cells) == 94
    assert {(cell.problem, cell.model) for cell in cells} == {(p, m) for p, row in PAPER.items() for m in row}
    assert sorted(name for table in TABLES for name in table.problems) == sorted(PAPER)
    with pytest.warns(tino.TinoWarning, match="left out: the paper has no figure for unet on duffing"):
        few = paper_cells(("duffing",), ("fno", "unet", "trtino"), (0, 1), (1, 1))
    assert [(cell.model, cell.seed) for cell in few] == [("fno", 0), ("trtino", 0), ("fno", 1), ("trtino", 1)]
    shards = [paper_cells((), (), (0,), (i, 4)) for i in range(1, 5)]
    assert sorted(map(str, cells)) == sorted(str(cell) for shard in shards for cell in shard)
    config = paper_config(Cell("duffing", "fno", 0), {})
    assert config == TrainConfig(**{**RECIPE, "lr": 5e-3, "epochs": 600})  # pyright: ignore[reportArgumentType]
    asked = paper_config(Cell("duffing", "fno", 0), {"epochs": 7, "device": "cpu"})
    assert (asked.epochs, asked.device, asked.times) == (7, "cpu", 0)
    adam = paper_config(Cell("duffing", "fno", 0), {"optimizer": "adam"})
    assert adam.rate == 2e-3  # its own, not the recipe's for soap
    cell = Cell("navier-stokes", "fno", 0)
    assert paper_config(cell, {}).weight_decay == 0.3  # the table's
    assert paper_config(Cell("fitting-time", "don", 0), {}).lr == 2e-2
    assert paper_config(cell, {"weight_decay": 1.0}).weight_decay == 1.0
    assert paper_config(cell, {"optimizer": "adamw"}).weight_decay == 0.0
    plain = {"weight_decay": 0.0, "epochs": 500, "precision": "float32"}  # the general defaults, but given
    assert {key: getattr(paper_config(cell, plain), key) for key in plain} == plain
    with pytest.raises(tino.TinoError, match="no problem named 'duffin'"):
        paper_cells(("duffin",), (), (0,), (1, 1))
    with pytest.raises(tino.TinoError, match="the paper has no figure for unet on duffing"):
        paper_cells(("duffing",), ("unet",), (0,), (1, 1))


def test_a_bench_needs_cells(capsys):
    assert run(["bench", "--problems", "duffing"]) == 1
    assert "give --problems and --models, or --suite paper" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["duffing", "burgers-0.1", "heat-triangle", "navier-stokes-ic"])
def test_an_example_is_kept_whole_and_drawn(name, small_data, tmp_path):
    train, test = small_data(name)
    model = tino.build("tino", train)
    kept = take_preview(model, test)
    size = test.u.square().mean((1, 2))
    assert int((size < size[kept.sample]).sum()) == len(test) // 2  # of median size
    assert kept.data.time == test.time  # 19 or 23 intervals cannot be thinned out
    assert torch.allclose(kept.prediction[0], tino.predict(model, test.f, test.ic)[kept.sample], atol=1e-6)
    write_preview(tmp_path / "example.safetensors", kept)
    again = read_preview(tmp_path / "example.safetensors")
    assert torch.equal(again.prediction, kept.prediction)
    assert torch.equal(again.data.u, kept.data.u)
    assert (again.data.time, again.data.outputs, again.sample) == (kept.data.time, kept.data.outputs, kept.sample)
    assert len(draw_preview(again, "tino").axes) > 2


def test_fields_are_kept_at_a_few_times():
    grid = tino.Periodic(1.0, (4, 4))
    u = torch.rand(3, 100, grid.size)
    data = tino.Dataset(u, u, tino.TimeGrid(0, 1, 100), grid, grid)
    kept = take_preview(torch.nn.Identity(), data)
    assert kept.data.time == tino.TimeGrid(0, 1, 10)
    assert torch.equal(kept.data.u[0], u[kept.sample, ::11])


def test_a_damaged_example_is_one_line(tmp_path):
    path = tmp_path / "example.safetensors"
    path.write_bytes(b"\x00" * 40)
    with pytest.raises(tino.TinoError, match="is not a readable example"):
        read_preview(path)
    with pytest.raises(tino.TinoError, match="no file"):
        read_preview(tmp_path / "other.safetensors")


def test_figures_name_the_channel_they_show():
    time, force = tino.TimeGrid(0, 1, 10), tino.Channel("force", "N")
    outputs = (tino.Channel("angle", "rad"), tino.Channel("rate"))
    u = torch.rand(1, 10, 8)
    names: Any = {"input_channels": (force,), "output_channels": outputs[:1]}
    signals = tino.Dataset(u[..., :1], u[..., :1], time, tino.Point(), tino.Point(), **names)
    titles = [axes.get_title() for axes in draw_preview(Preview(signals, signals.u, 0), "don").axes]
    assert titles == ["input force [N]", "response angle [rad]", "absolute error"]
    field = tino.Dataset(u[..., :1], u, time, tino.Point(), tino.Interval(0, 1, 4), output_channels=outputs)
    titles = [axes.get_title() for axes in draw_preview(Preview(field, u, 0), "don").axes if axes.get_title()]
    assert titles == ["input f(t)", "ground truth angle [rad]", "don prediction", "absolute error"]
    titles = [axes.get_title() for axes in draw_samples(field).axes if axes.get_title()]
    assert titles == ["input f(t)", "response angle [rad]"]


def test_box_plots_have_a_box_per_model():
    figure = box_plots({"duffing": {"fno": [0.1, 0.2], "trtino": [0.3, 0.1]}, "lorenz": {"fno": [0.1, 0.4]}})
    assert [axes.get_title() for axes in figure.axes] == ["duffing", "lorenz"]
    assert [len(axes.get_xticks()) for axes in figure.axes] == [2, 1]


def test_speed_counts_all_samples(small_data, monkeypatch):
    """A model that takes half a second for the whole set, whatever the machine."""
    _, test = small_data("duffing")
    clock = iter(range(100))
    monkeypatch.setattr("tino.evaluation.time.perf_counter", lambda: 0.5 * next(clock))
    assert samples_per_second(torch.nn.Identity(), test) == len(test) / 0.5


TOLERANCE = 0.01  # relative, of the mean errors; the same processor gives the same bits, others round differently


@pytest.mark.parametrize("path", sorted((ROOT / "results" / "small").rglob("*.json")), ids=lambda path: path.stem)
def test_a_small_cell_comes_out_as_stored(path, tmp_path):
    """Generated, trained, scored and certified again, from the options in the file."""
    stored = read_json(path)
    options = stored["data"]["options"]
    data = DataOptions(stored["data"]["train"], stored["data"]["test"], **options)
    config = TrainConfig(**stored["training"], device="cpu")
    cell = Cell(stored["problem"], stored["model"], stored["seed"])
    again = run_cell(cell, tmp_path / "out", tmp_path / "runs", data, config)
    assert again.parameters_sha256 == stored["parameters_sha256"]
    for key in ("mse_mean", "mse_sd", "rel_l2_mean"):
        assert again.scores[key] == pytest.approx(stored[key], rel=TOLERANCE)
    assert again.rel_l2 == pytest.approx(stored["rel_l2"], rel=10 * TOLERANCE)
    for key in ("parameters", "epochs", "steps", "causal", "time_invariant"):
        assert getattr(again, key) == stored[key]


def test_the_two_small_cells_are_there():
    assert len(list((ROOT / "results" / "small").rglob("*.json"))) == 2


def test_examples_take_any_module():
    u = torch.rand(3, 10, 1)
    data = tino.Dataset(u, u, tino.TimeGrid(0, 1, 10), tino.Point(), tino.Point())
    kept = take_preview(torch.nn.Identity(), data)
    assert isinstance(kept, Preview)
    assert torch.equal(kept.prediction[0], u[kept.sample])


def test_every_metric_has_its_column_and_what_is_absent_a_dash(folder, tmp_path, monkeypatch):
    """A new metric is one entry; results from before it show a dash."""
    monkeypatch.setitem(METRICS, "typical", Metric("typical error", lambda c: 0.5))
    write_json(folder / "duffing" / "fno-0.json", record("duffing", "fno", 3e-6, nrmse=0.25, fit=75.0, typical=0.5))
    costs = sections(read_results(folder))[0].costs
    assert costs.head[2:6] == ("relative L2", "NRMSE", "fit %", "typical error")
    rows = {row[1][0].text: [cell[0].text for cell in row[2:6]] for row in costs.rows}
    assert rows["fno"] == ["1.73e-3", "2.50e-1", "75.00", "5.00e-1"]
    assert rows["don"][1:] == ["–", "–", "–"]
    assert len({len(row) for row in costs.rows}) == 1  # the solver's row too


def test_a_result_of_the_wrong_types_is_one_line(folder):
    for key, wrong, word in (
        ("parameters", "many", "a number"),
        ("causal", 1.0, "true or false"),
        ("training", [], "an object"),
        ("rel_l2", {}, "a list"),
        ("device", None, "text"),
        ("fit", "good", "a number"),
    ):
        write_json(folder / "duffing" / "don-0.json", {**record("duffing", "don", 1e-3), key: wrong})
        with pytest.raises(tino.TinoError, match=rf"don-0.json: {key} is .*, expected {word}") as caught:
            read_results(folder)
        assert "\n" not in str(caught.value)


def test_committed_results_read_and_write_the_same():
    """The record of today reads results of every age, and loses nothing of them."""
    for path in [*(ROOT / "results").glob("paper/*/*.json"), *(ROOT / "results").glob("small/*/*.json")]:
        stored, again = read_json(path), read_result(path).record()
        assert {key: again[key] for key in stored} == stored, path
