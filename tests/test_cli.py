"""The command line, as a user types it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tino
from tino.cli import run
from tino.report.tables import short

SMALL = ["--train", "12", "--test", "4", "--n-t", "24"]
QUICK = [*SMALL, "--epochs", "2", "--batch-size", "6", "--times", "4"]
CELL = ["--problems", "duffing", "--models", "tino", "don", *QUICK]
COMMANDS = ["problems", "models", "show", "generate", "import", "diagnose", "train", "bench", "evaluate", "predict"]
COMMANDS += ["certify", "report"]
COMMANDS += ["readout", "calibrate", "card"]
COMMANDS += ["stream", "export"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two finished runs on a small Duffing set."""
    folder = tmp_path_factory.mktemp("runs")
    for model in ("don", "tino"):
        assert run(["train", "duffing", model, *QUICK, "--out", str(folder / model)]) == 0
    return folder


def answer(capsys) -> str:
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as left:
        run([command, "--help"])
    assert left.value.code == 0
    text = answer(capsys)
    assert f"usage: tino {command}" in text
    assert "--json" in text
    assert "None" not in text  # how Python spells it


def test_no_command_shows_help(capsys):
    with pytest.raises(SystemExit):
        run([])
    text = answer(capsys)
    assert all(command in text for command in COMMANDS)


def test_lists(capsys):
    assert run(["problems"]) == 0
    assert "burgers-0.1" in answer(capsys)
    assert run(["models", "--json"]) == 0
    assert json.loads(answer(capsys))["spod-trtino"]["mixer"] == "delay"
    assert run(["problems", "--json"]) == 0
    assert {p["problem"] for p in json.loads(answer(capsys))} >= {"duffing", "fitting-space"}


def test_generate_says_where(capsys, tmp_path):
    arguments = ["generate", "fitting-space", *SMALL, "--resolution", "9", "--cache", str(tmp_path)]
    assert run(arguments) == 0
    path = Path(answer(capsys).splitlines()[0])
    assert path.parent == tmp_path
    assert run([*arguments, "--json"]) == 0
    assert json.loads(answer(capsys))["path"] == str(path)


@pytest.mark.filterwarnings("default::tino.TinoWarning")
def test_a_coarse_grid_gets_a_note(capsys, tmp_path):
    arguments = ["generate", "burgers-0.1", *SMALL, "--resolution", "16", "--cache", str(tmp_path)]
    assert run(arguments) == 0
    note = "tino: note: burgers-0.1: 16 input points cannot resolve the forcing's modes 8 (its sine vanishes), 9 (seen"
    assert note in capsys.readouterr().err


def test_other_readings_on_the_command_line(capsys, tmp_path):
    arguments = ["generate", "duffing", *SMALL, "--cache", str(tmp_path), "--set", "damping=0.5", "--json"]
    assert run(arguments) == 0
    assert json.loads(answer(capsys))["options"] == {"n_t": 24, "damping": 0.5}


def test_shards_on_the_command_line(capsys, tmp_path):
    arguments = ["generate", "duffing", *SMALL, "--cache", str(tmp_path)]
    assert run([*arguments, "--shard", "1/2"]) == 0
    assert "waits for the others" in answer(capsys)
    assert run([*arguments, "--shard", "2/2", "--json"]) == 0
    assert json.loads(answer(capsys))["seed"] == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("duffing", []),
        ("burgers-0.1", ["--resolution", "24"]),
        ("heat-triangle", []),
        ("navier-stokes", ["--resolution", "24"]),
    ],
)
def test_show_draws(name, options, capsys, tmp_path):
    out = tmp_path / "picture.png"
    assert run(["show", name, *options, "--n-t", "12", "--samples", "2", "--pod", "4", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    said = answer(capsys)
    assert str(out) in said
    assert ("outputs u(y), quartile" in said) == (name != "duffing")


@pytest.mark.parametrize("name", ["duffing", "burgers-0.1", "heat-triangle", "navier-stokes-ic"])
def test_show_without_a_table(name, capsys, tmp_path):
    """As documented: --pod 0 means no table."""
    grid = [] if name == "duffing" else ["--resolution", "24"]
    assert run(["show", name, *grid, "--samples", "1", "--pod", "0", "--out", str(tmp_path / "picture.png")]) == 0
    assert "POD" not in answer(capsys)


def test_show_prints_the_energy_of_the_modes(capsys, tmp_path):
    command = ["show", "burgers-0.1", "--resolution", "32", "--n-t", "16", "--pod", "12", "--json"]
    assert run([*command, "--out", str(tmp_path / "picture.png")]) == 0
    rows = {row["snapshots"]: row for row in json.loads(answer(capsys))["pod"]}
    inputs = rows["inputs f(x), all times"]
    counts = list(inputs["modes_for_energy"].values())
    assert counts == sorted(counts)
    assert inputs["kept"] == 12  # each forcing is a factor of time times a sum of waves: twelve samples, twelve modes
    assert inputs["lost"] < 1e-6
    assert rows["outputs u(t, y)"]["points"] == 16 * 32
    assert rows["outputs u(t, y)"]["kept"] <= 12


def test_a_run_folder_says_what_was_asked_for(finished):
    record = json.loads((finished / "tino" / "run.json").read_text())
    assert record["training"]["epochs"] == 2
    assert record["data"]["options"] == {"n_t": 24}


def test_evaluate_repeats_the_scores(finished, capsys):
    assert run(["evaluate", str(finished / "tino"), "--json"]) == 0
    scores = json.loads(answer(capsys))
    kept = json.loads((finished / "tino" / "scores.json").read_text())
    assert scores["mse"] == pytest.approx(kept["mse"])
    assert run(["evaluate", str(finished / "tino")]) == 0
    lines = answer(capsys).splitlines()
    assert lines[0] == "tino on duffing, 4 test samples"
    data = ["--data", "duffing", "--n-t", "24", "--train", "4", "--test", "1"]
    assert run(["evaluate", str(finished / "tino"), *data]) == 0
    assert answer(capsys).splitlines()[0] == "tino on duffing, 1 test sample"
    assert max(map(len, lines)) <= 80
    assert re.search(rf"^all +{short(scores['mse_mean'])} +{short(scores['mse_sd'])} ", lines[-1].strip())
    assert short(scores["max_error"]) in lines[-1]


def test_certify_prints_a_few_lines_each(finished, capsys):
    assert run(["certify", str(finished / "don"), str(finished / "tino")]) == 0
    lines = answer(capsys).splitlines()
    first, second = (line for line in lines if not line.startswith(" "))
    assert first.startswith("don: not causal")
    assert second == "tino: causal, autonomous, at rest, time-invariant"
    assert sum(line.startswith("  time-invariant: proved by construction, and measured to ") for line in lines) == 1
    assert max(map(len, lines)) <= 80
    assert run(["certify", str(finished / "tino"), "--json"]) == 0
    assert json.loads(answer(capsys))[0]["time_invariant"] is True


def test_report_writes_a_page(finished, capsys, tmp_path):
    runs = [str(finished / "don"), str(finished / "tino")]
    assert run(["report", *runs, "--out", str(tmp_path)]) == 0
    text = answer(capsys)
    assert "MSE ± SD" in text
    assert "1.48e-3" in text  # the paper's figure for DON stands beside ours
    page = (tmp_path / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 4  # loss curves, errors over time, and an example of each model
    assert "http" not in page.replace("http-equiv", "")  # self-contained
    assert {p.name for p in tmp_path.glob("*.png")} == {
        "duffing-loss.png",
        "duffing-errors.png",
        "duffing-don.png",
        "duffing-tino.png",
    }
    assert run(["report", *runs, "--out", str(tmp_path), "--json"]) == 0
    assert len(json.loads(answer(capsys))["runs"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "duffin", "tino"], "no problem named 'duffin': did you mean 'duffing'?"),
        (["train", "duffing", "tina", *QUICK], "no model named 'tina': did you mean 'tino'?"),
        (["train", "duffing", "spod-don", *QUICK], "needs outputs in space"),
        (["train", "duffing", "tino", "--epochs", "0"], "epochs is 0, expected 1 or more"),
        (["train", "duffing", "tino", "--device", "tpu9"], "no device 'tpu9'"),
        (["generate", "burgers-0.1", "--resolution", "2"], "4 points or more, got shape (2,)"),
        (["generate", "allen-cahn", "--set", "boundary=open"], "boundary is 'open', expected one of neumann, frozen"),
        (["generate", "allen-cahn", "--set", "boundary"], "options are given as name=value"),
        (["generate", "allen-cahn", "--set", "colour=red"], "allen-cahn has no option 'colour'"),
        (["generate", "duffing", "--set", "damping=much"], "damping is 'much', expected a number"),
        (["generate", "duffing", "--shard", "half"], "the shard is 'half', expected i/n"),
        (["generate", "duffing", "--shard", "3/2"], "expected i/n with 1 <= i <= n"),
        (["show", "duffing", "--seed", "-1"], "the seed must be 0 or more"),
        (["show", "duffing", "--samples", "0"], "samples is 0, expected 1 to 8"),
        (["generate", "duffing", "--resolution", "8"], "duffing has no option 'resolution'"),
        (["evaluate", "nowhere"], "no finished run in nowhere"),
        (["generate", "duffing", "--train", "0"], "at least one training and one test pair, got 0 and 200"),
        (["diagnose", "duffing", "--train", "0"], "at least one training and one test pair, got 0 and 1"),
        (["train", "duffing", "tino", "--test", "0"], "at least one training and one test pair, got 1000 and 0"),
        (["train", "duffing", "TINO"], "no model named 'TINO': did you mean 'tino'?"),
        (["bench", "--suite", "paper", "--problems", "duffing", "--models", "tdnn"], "no figure for tdnn on duffing"),
        (["bench", *CELL, "--resolution", "9"], "duffing has no option 'resolution'"),
        (["report", "nowhere"], "nothing to report in nowhere"),
        (["certify"], "name at least one folder"),
        (["report"], "name at least one folder"),
        (["train", "duffing", "tino", *QUICK, "--device", "mps"], "tino runs on cpu or cuda, not on 'mps'"),
        (["generate", "duffing", "--seed", "99999999999999999999"], "the seed must be 0 or more"),
        (["train", "duffing", "tino", *QUICK, "--out", "/dev/null/run"], "cannot write into /dev/null/run"),
        (["train", "duffing", "tino", *QUICK, "--out", ""], "the name of a file or folder is empty"),
        (["train", "duffing", "tino", *QUICK, "--out="], "the name of a file or folder is empty"),
        (["generate", "duffing", "--cache", ""], "the name of a file or folder is empty"),
        (["bench", *CELL, "--seeds"], "give --seeds one number or more"),
        (["bench", *CELL, "--runs", ""], "the name of a file or folder is empty"),
        (["show", "duffing", "--out", ""], "the name of a file or folder is empty"),
        (["report", "", "--out", "here"], "the name of a file or folder is empty"),
        (["bench", *CELL, "--out", "/dev/null"], "cannot write into /dev/null"),
        (["bench", *CELL, "--runs", "/dev/null"], "cannot write into /dev/null"),
        (["show", "duffing", "--out", "."], ". is a folder, expected the name of a picture"),
        (["show", "duffing", "--out", "/dev/null/x.png"], "cannot write into /dev/null"),
        (["report", "nowhere", "--out", "/dev/null"], "cannot write into /dev/null"),
        (["generate", "duffing", "--cache", "/dev/null"], "cannot write into /dev/null"),
        (["generate", "duffing", "--n-t", "99999999999"], "GiB of memory, this machine has"),
        (["diagnose", "nope"], "no problem named 'nope': known: "),
        (["train", "duffing", "nope"], "no model named 'nope': known: "),
        (["bench", *CELL, "--device", "mps"], "tino runs on cpu or cuda, not on 'mps'"),
        (["evaluate", "nowhere", "--device", "mps"], "tino runs on cpu or cuda, not on 'mps'"),
        (["diagnose", "/"], "/ is a folder, expected a file or the name of a problem"),
    ],
)
def test_mistakes_get_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 1
    error = capsys.readouterr().err.strip()
    assert message in error
    assert error.startswith("tino: ")
    assert "\n" not in error
    assert list(tmp_path.iterdir()) == []  # and nothing is left behind


@pytest.mark.parametrize("name", ["run", "scores", "certificate"])
@pytest.mark.parametrize("text", ["{}", "[]", "{"])
def test_a_damaged_run_is_one_line(name, text, finished, tmp_path, capsys):
    folder = shutil.copytree(finished / "tino", tmp_path / "copy")
    (folder / f"{name}.json").write_text(text)
    assert run(["report", str(folder), "--out", str(tmp_path / "report")]) == 1
    error = capsys.readouterr().err.strip()
    assert f"{name}.json" in error
    assert "\n" not in error


def test_a_diverged_training_is_not_kept_as_finished(tmp_path, capsys):
    folder = tmp_path / "wild"
    assert run(["train", "duffing", "tino", *QUICK, "--lr", "1e30", "--out", str(folder)]) == 1
    assert capsys.readouterr().err.strip().endswith(": try a smaller lr")  # there is no checkpoint: the folder is free
    assert not (folder / "run.json").exists()


def test_a_run_cut_short_is_not_taken_for_finished(finished, tmp_path, capsys):
    (tmp_path / "model.json").write_text("{}")
    assert run(["certify", str(tmp_path)]) == 1
    assert "no finished run" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["evaluate", "certify", "report", "stream", "export"])
def test_an_unfinished_run_is_said_to_be_one(command, finished, tmp_path, capsys):
    folder = shutil.copytree(finished / "tino", tmp_path / "copy")
    (folder / "run.json").unlink()
    options = ["--out", str(tmp_path / "report")] if command == "report" else []
    assert run([command, str(folder), *options]) == 1
    said = f"tino: the run in {folder} is not finished: continue it with 'tino train' and --resume"
    assert capsys.readouterr().err.strip() == said


def test_report_finds_the_runs_below_and_takes_each_once(finished, tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    for folder, below in ((finished, "*"), (finished.parent, "*/*")):
        assert run(["report", str(folder), *out]) == 1
        assert f"{folder} holds runs: give them as {folder}/{below}" in capsys.readouterr().err
    twice = [str(finished / "tino"), str(finished / "don"), str(finished / "don" / ".." / "tino")]
    assert run(["report", *twice, *out, "--json"]) == 0
    assert [one["model"] for one in json.loads(answer(capsys))["runs"]] == ["tino", "don"]


@pytest.mark.parametrize(("name", "fix"), [("resource", "tino runs on Linux and macOS"), ("rich", "pip install rich")])
def test_a_missing_module_is_one_line(name, fix, capsys, monkeypatch):
    def lacking(arguments):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("tino.cli._read", lacking)
    assert run(["problems"]) == 2
    assert capsys.readouterr().err.strip().endswith(fix)


def test_an_existing_run_is_refused_before_torch_is_loaded(finished):
    script = f"""
import sys
from tino.cli import run
assert run(["train", "duffing", "tino", "--out", {str(finished / "tino")!r}]) == 1
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False"], done.stderr
    assert "holds a finished run" in done.stderr


def test_it_runs_from_the_source_folder():
    source = Path(__file__).parent.parent / "src"
    done = subprocess.run(
        [sys.executable, "-m", "tino", "--version"],
        env={"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("tino ")


def test_unknown_flags_are_refused():
    with pytest.raises(SystemExit) as left:
        run(["train", "duffing", "tino", "--epoch", "3"])
    assert left.value.code == 2


@pytest.fixture
def own_file(tmp_path):
    """Sixty records of a low-pass filter, driven by noise."""
    f = np.random.default_rng(0).standard_normal((60, 48))
    kernel = np.exp(-np.arange(12) / 4)
    u = np.stack([np.convolve(record, kernel)[:48] for record in f])
    path = tmp_path / "own.npz"
    np.savez(path, f=f, u=u, t=np.linspace(0, 1, 48))
    return path


def test_diagnose_reads_one_s_own_records(own_file, capsys):
    assert run(["diagnose", str(own_file), "--json"]) == 0
    found = json.loads(answer(capsys))
    assert found["causal"]
    assert found["time_invariant"]
    assert (found["model"], found["network"]) == ("polynomial", "tino")
    assert run(["diagnose", str(own_file)]) == 0
    assert "begin with      polynomial; of the networks, tino" in answer(capsys)


def test_diagnose_reads_a_generated_set(capsys):
    options = ["--train", "24", "--test", "1", "--n-t", "40"]
    assert run(["generate", "duffing", *options, "--json"]) == 0
    path = json.loads(answer(capsys))["path"]
    assert run(["diagnose", path, "--json"]) == 0
    by_file = json.loads(answer(capsys))
    assert run(["diagnose", "duffing", *options, "--json"]) == 0
    assert json.loads(answer(capsys)) == {**by_file, "name": "duffing"}  # a file has its own name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: {k: v for k, v in a.items() if k != "t"}, "lacks t, it holds f, u: read it with tino import"),
        (lambda a: {**a, "t": a["t"] ** 2}, "resample to equal steps, e.g. with np.interp"),
        (lambda a: {**a, "u": a["u"][:50]}, "u has 50 records, f has 60"),
        (lambda a: {**a, "f": a["f"].astype(object)}, "is not a readable .npz file of plain arrays"),
        (lambda a: {**a, "f": a["f"] * np.nan}, "column 'f': no value"),
        (lambda a: {k: v[:20] if k == "t" else v[:5, :20] for k, v in a.items()}, "diagnosing needs 20 records, or"),
    ],
)
def test_what_diagnose_refuses(change, message, own_file, capsys):
    with np.load(own_file) as file:
        arrays = dict(file)
    np.savez(own_file, **change(arrays))
    assert run(["diagnose", str(own_file)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("damage", [lambda b: b[:4], lambda b: b[: len(b) // 2], lambda b: b[:300] + b"x" + b[301:]])
def test_a_damaged_npz_is_one_line(damage, own_file, capsys):
    own_file.write_bytes(damage(own_file.read_bytes()))
    assert run(["diagnose", str(own_file)]) == 1
    assert "is not a readable .npz file" in capsys.readouterr().err


def test_diagnose_says_what_is_near(capsys):
    assert run(["diagnose", "dufing"]) == 1
    assert "did you mean 'duffing'" in capsys.readouterr().err
    assert run(["diagnose", "nowhere.npz"]) == 1
    assert "no file nowhere.npz" in capsys.readouterr().err
    assert run(["diagnose", "nowhere.h5"]) == 1
    assert "no file nowhere.h5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.csv", "x.csv is neither an .npz file nor a dataset of tino's: read it with tino import"),
        ("x.npy", "x.npy holds one array, expected several: read it with tino import"),
        ("array.npz", "array.npz holds one array, expected several: read it with tino import"),
        ("csv.npz", "csv.npz is neither an .npz file nor a dataset of tino's: read it with tino import"),
        ("own.zip", "own.zip looks like an .npz file: rename it"),
    ],
)
def test_other_kinds_of_files_get_one_line(name, message, own_file, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros((3, 4)))
    (tmp_path / "x.csv").write_text("f,u\n1,2\n")
    shutil.copy(tmp_path / "x.npy", tmp_path / "array.npz")
    shutil.copy(tmp_path / "x.csv", tmp_path / "csv.npz")
    shutil.copy(own_file, tmp_path / "own.zip")
    for command in (["diagnose"], ["train"]):
        assert run([*command, str(tmp_path / name), *(["tino"] if command == ["train"] else [])]) == 1
        said = capsys.readouterr().err.strip()
        assert message in said
        assert "\n" not in said


def test_a_problem_s_options_are_not_for_files(own_file, capsys):
    for command in (["diagnose"], ["train"]):
        model = ["tino"] if command == ["train"] else []
        assert run([*command, str(own_file), *model, "--n-t", "30"]) == 1
        assert "n_t, resolution and set apply to problems only" in capsys.readouterr().err


# -- help ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns_and_shows_no_empty_defaults(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        run([command, "--help"] if command else ["--help"])
    text = answer(capsys)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "left out'" not in text
    assert "(default: )" not in text
    assert "(default: False)" not in text
    assert ("(default: 500)" in text) == (command in ("train", "bench"))  # the others are shown


def test_boxes_of_help_have_no_empty_lines():
    """In a process of its own: under pytest tyro draws no boxes."""
    wide = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    told = subprocess.run([sys.executable, "-m", "tino", "bench", "--help"], env=wide, capture_output=True, text=True)
    assert "│ --n-t INT" in told.stdout
    assert not re.search(r"^[│|] +[│|]$", told.stdout, re.MULTILINE)


def test_help_says_what_can_be_repeated_and_what_generate_takes(capsys):
    for command, usage in (("certify", "RUN [RUN ...]"), ("report", "FOLDER [FOLDER ...]")):
        with pytest.raises(SystemExit):
            run([command, "--help"])
        assert f"usage: tino {command} [-h] {usage}" in " ".join(answer(capsys).split())
    with pytest.raises(SystemExit):
        run(["generate", "--help"])
    text = answer(capsys)
    assert "npz" not in text
    assert "data options" not in text


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--epochs", "2.5"], "--epochs: '2.5' is not a whole number"),
        (["--train", "many"], "--train: 'many' is not a whole number"),
        (["--lr", "small"], "--lr: 'small' is not a number"),
    ],
)
@pytest.mark.parametrize("command", [["train", "duffing", "tino"], ["bench"]])
def test_a_wrong_value_is_told_in_plain_words(command, option, message, capsys):
    with pytest.raises(SystemExit) as left:
        run([*command, *option])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert f"tino {command[0]} --help" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["train", "--help"],
        ["bench", "--help"],
        ["--version"],
        ["train", "duffing", "--epoch", "3"],
        ["nope"],
    ],
)
def test_help_and_wrong_calls_do_not_wait_for_torch(arguments):
    """Nor for the other packages that take long to import."""
    heavy = "torch", "h5py", "matplotlib", "numpy", "safetensors"
    script = f"""
import sys
from tino.cli import run
try:
    run({arguments})
except SystemExit:
    pass
print([name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


# -- options of a bench --------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The training options of the first cell of a bench called like this."""
    monkeypatch.chdir(tmp_path)
    seen = []

    def run_bench(todo, out, runs, options, config_of):
        seen.append(config_of(todo[0]))
        return [], {}

    def ask(*arguments: str) -> tino.TrainConfig:
        assert run(["bench", *arguments]) == 0
        return seen[-1]

    monkeypatch.setattr("tino.bench.run_bench", run_bench)
    return ask


def test_options_given_win_over_the_recipe_whatever_their_value(asked):
    paper = ["--suite", "paper", "--problems", "fitting-time", "--models", "don"]
    recipe = asked(*paper)
    assert (recipe.weight_decay, recipe.epochs, recipe.precision, recipe.times) == (0.3, 600, "tf32", 0)
    given = ["--weight-decay", "0", "--epochs", "500", "--precision", "float32", "--times", "32"]
    plain = asked(*paper, *given)
    assert (plain.weight_decay, plain.epochs, plain.precision, plain.times) == (0.0, 500, "float32", 32)
    assert plain.lr == recipe.lr  # the others stay the recipe's
    assert asked(*paper, "--lr=0.01", "--weight_decay=0").lr == 0.01


def test_a_bench_of_one_s_own_has_the_general_defaults(asked):
    own = ["--problems", "duffing", "--models", "don"]
    assert asked(*own) == tino.TrainConfig()
    assert asked(*own, "--compile", "--patience", "3", "--validation", "0.2") == tino.TrainConfig(
        compile=True, patience=3, validation=0.2
    )


@pytest.mark.filterwarnings("default::tino.TinoWarning")
def test_a_bench_of_the_paper_says_what_it_leaves_out(asked, own_file, capsys):
    assert asked("--suite", "paper", "--problems", "duffing", "--models", "tdnn", "trtino").epochs == 600
    assert "note: left out: the paper has no figure for tdnn on duffing\n" in capsys.readouterr().err
    asked("--suite", "paper", "--models", "trtino", "unet")  # all their problems, not the same for both
    assert "left out" not in capsys.readouterr().err
    assert run(["bench", "--suite", "paper", "--problems", str(own_file)]) == 1
    assert f"{own_file} is not one of the paper's problems: " in capsys.readouterr().err


def test_a_bench_checks_its_data_options_beforehand(own_file, capsys, tmp_path):
    places = ["--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    assert run(["bench", "--problems", "duffing", str(own_file), "--models", "tino", *QUICK, *places]) == 1
    assert "n_t, resolution and set apply to problems only" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_ends_a_bench_at_once(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(["bench", "--suite", "paper", "--device", "cuda"]) == 1
    said = capsys.readouterr().err.strip()
    assert said.startswith("tino: device 'cuda' was asked for, but torch sees no GPU here")
    assert "\n" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_bench_has_seeds_not_a_seed(capsys):
    """A --seed would be overridden by each cell's own."""
    with pytest.raises(SystemExit) as left:
        run(["bench", "--problems", "duffing", "--models", "don", "--seed", "3"])
    assert left.value.code == 2
    assert "--seeds" in capsys.readouterr().err
