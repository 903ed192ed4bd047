"""``tino predict``: new inputs from a file, matched by name and checked; and scattered points as a grid."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

import tino
from tino.cli import run
from tino.grids import grid_from_record, grid_record
from tino.importing.options import ImportOptions
from tino.importing.prediction import respond
from tino.report.responses import draw_response

N, STEP = 150, 0.05


def made(seed: int, n: int = N) -> np.ndarray:
    """Time, a force, a torque, and what they drive."""
    f, g = np.random.default_rng(seed).normal(size=(2, n))
    u = np.zeros(n)
    for i in range(1, n):
        u[i] = 0.8 * u[i - 1] + f[i] + 0.5 * g[i]
    return np.stack([STEP * np.arange(n), f, g, u], 1)


def write(name: str, rows: np.ndarray, head: str = "t [s],force [N],torque [Nm],path [mm]") -> str:
    np.savetxt(name, rows, "%.17g", ",", header=head, comments="")
    return name


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run of ``linear`` on one long record, and one of ``don``, which is not causal."""
    folder = tmp_path_factory.mktemp("runs")
    write(str(folder / "long.csv"), made(0))
    options = ["--input", "force", "torque", "--output", "path", "--out", str(folder / "long.h5")]
    assert run(["import", str(folder / "long.csv"), *options]) == 0
    train, test = tino.load_dataset(folder / "long.h5")
    assert run(["train", str(folder / "long.h5"), "linear", "--out", str(folder / "linear")]) == 0
    model = tino.build("don", train, modes=3, mixer_width=4, branch_width=4, trunk_width=4)
    model.save(folder / "don")
    assert test.burn_in > 0
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys, arguments: list[str]) -> str:
    assert run(["predict", *arguments, "--force"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_the_response_is_the_model_s(trained, place, capsys):
    rows = made(1, 700)
    turned = rows[:, [0, 2, 1]]  # another order of columns, another length
    write("new.csv", turned, "t [s],torque [Nm],force [N]")
    assert run(["predict", str(trained / "linear"), "new.csv"]) == 0
    assert "1 record of 700 times" in capsys.readouterr().out
    head, *lines = Path("response.csv").read_text().splitlines()
    assert head == "time [s],path [mm]"
    found = np.array([[float(v) for v in line.split(",")] for line in lines])
    model = tino.load(trained / "linear")
    expected = tino.predict(model, torch.tensor(rows[None, :, 1:3]).float())[0, :, 0]
    assert np.allclose(found[:, 0], rows[:, 0])
    assert np.allclose(found[:, 1], expected, rtol=1e-6, atol=1e-7)
    assert Path("response.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_with_outputs_is_scored(trained, place, capsys):
    write("new.csv", made(2))
    arguments = ["predict", str(trained / "linear"), "new.csv", "--out", "answer.npz", "--json", "--no-plot"]
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scores"]["fit"] > 80
    assert not Path("answer.png").exists()
    data = tino.read_arrays("answer.npz")  # the file is one that tino reads
    assert [str(c) for c in data.output_channels] == ["path [mm]"]
    assert 100 * (1 - np.std(made(2)[:, 3] - data.u[0, :, 0].numpy()) / np.std(made(2)[:, 3])) > 80


def test_several_records(trained, place):
    rows = np.concatenate([made(3, 60), made(4, 90)])
    rows = np.concatenate([np.repeat([1, 2], [60, 90])[:, None], rows], 1)
    write("new.csv", rows[:, :4], "run,t,force,torque")
    assert run(["predict", str(trained / "linear"), "new.csv", "--record", "run", "--no-plot"]) == 0
    head, *lines = Path("response.csv").read_text().splitlines()
    assert head == "record,time,path [mm]"
    assert [line.split(",")[0] for line in lines] == ["1"] * 60 + ["2"] * 90
    model = tino.load(trained / "linear")
    expected = tino.predict(model, torch.tensor(rows[None, 60:, 2:4]).float())[0, :, 0]
    assert np.allclose([float(line.split(",")[2]) for line in lines[60:]], expected, rtol=1e-6, atol=1e-7)


def table(name: str = "response.csv") -> tuple[str, np.ndarray]:
    """The names and the numbers of a response."""
    head, *lines = Path(name).read_text().splitlines()
    return head, np.array([[float(cell) for cell in line.split(",")] for line in lines])


def test_times_of_a_clock_keep_their_digits(trained, place):
    """Seconds since 1970."""
    write("new.csv", made(3, 60) + np.array([1.7e9, 0, 0, 0]))
    assert run(["predict", str(trained / "linear"), "new.csv", "--no-plot"]) == 0
    assert np.allclose(table()[1][:, 0] - 1.7e9, STEP * np.arange(60), atol=1e-4, rtol=0)


def test_a_piece_after_a_cut_is_noted(trained, place, capsys):
    rows = made(3, 120)
    rows[60:, 0] += 1
    assert run(["predict", str(trained / "linear"), write("new.csv", rows), "--cut"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "note 1 piece after a cut is answered from rest: the first values are wrong, until" in said
    assert run(["predict", str(trained / "linear"), write("new.csv", made(3)), "--cut", "--force"]) == 0
    assert "after a cut" not in capsys.readouterr().out


def test_the_picture_says_which_record_and_which_unit(trained, place):
    model = tino.load(trained / "linear")
    write("new.csv", np.concatenate([made(3, 60), made(4, 60)]))
    figure = draw_response(respond(model, Path("new.csv"), (), (), ImportOptions(cut=True)), "linear")
    assert figure.get_suptitle() == "the first of 2 records"
    assert {axes.get_xlabel() for axes in figure.axes if axes.get_visible()} == {"t [s]"}


def test_a_temperature_is_no_time(place):
    """A model of T, and a file with Q and T but no times."""
    rows = made(0)
    write("rod.csv", rows[:, [0, 1, 3]], "t,Q,T")
    assert run(["import", "rod.csv", "--input", "Q", "--output", "T", "--burn-in", "9"]) == 0
    train, _ = tino.load_dataset("rod.h5")
    model = tino.build("linear", train)
    tino.fit(model, train, show_progress=False)
    write("bare.csv", rows[:, [1, 3]], "Q,T")
    assert respond(model, Path("bare.csv"), (), (), ImportOptions(dt=STEP)).scores is not None


def test_times_and_labels_are_those_of_the_file(trained, place):
    """Records numbered 7 and 3, which begin at 12.5 and at 100."""
    parts = [made(3, 60) + np.array([12.5, 0, 0, 0]), made(4, 90) + np.array([100, 0, 0, 0])]
    rows = np.concatenate([np.repeat([7, 3], [60, 90])[:, None], np.concatenate(parts)], 1)
    write("new.csv", rows[:, :4], "run,t,force,torque")
    command = ["predict", str(trained / "linear"), "new.csv", "--record", "run", "--no-plot"]
    assert run(command) == 0
    head, found = table()
    assert head == "record,time,path [mm]"
    assert np.allclose(found[:, :2], rows[:, :2], rtol=0, atol=1e-9)
    assert run([*command, "--out", "new.npz"]) == 0
    assert run(["predict", str(trained / "linear"), "new.npz", "--no-plot", "--out", "again.csv"]) == 0
    again = table("again.csv")[1]
    assert np.allclose(again, found, rtol=1e-6, atol=1e-6)
    write("one.csv", rows[:60, 1:4], "t,force,torque")
    assert run(["predict", str(trained / "linear"), "one.csv", "--out", "one-response.csv"]) == 0
    assert np.allclose(table("one-response.csv")[1][:, 0], rows[:60, 1], rtol=0, atol=1e-9)


def test_a_record_that_is_too_short_is_an_error(trained, place, capsys):
    rows = np.concatenate([np.repeat([1, 2], [60, 5])[:, None], made(3, 65)], 1)
    write("new.csv", rows, "run,t,force,torque,path")
    told = said(capsys, [str(trained / "linear"), "new.csv", "--record", "run"])
    assert "new.csv, record 2 has 5 times, at least 8 are needed" in told


def test_no_file_is_replaced_unless_asked(trained, place, capsys):
    write("new.csv", made(1))
    command = ["predict", str(trained / "linear"), "new.csv", "--out", "mine.csv"]
    for name in ("mine.csv", "mine.png"):
        Path(name).write_text("mine")
        assert run(command) == 1
        assert f"{name} exists: give another name with --out, or replace it with --force" in capsys.readouterr().err
        assert Path(name).read_text() == "mine"
        assert run([*command, "--force"]) == 0
        assert Path(name).stat().st_size > 100
        for one in ("mine.csv", "mine.png"):
            Path(one).unlink()


def test_outputs_that_are_not_scored_are_told(trained, place, capsys):
    write("new.csv", made(2), "t,force,torque,weg")
    command = ["predict", str(trained / "linear"), "new.csv", "--no-plot", "--force"]
    assert run(command) == 0
    told = "note      the outputs are not scored: new.csv has no 'path', it has weg: name them with output"
    assert told in capsys.readouterr().out
    assert run([*command, "--output", "weg", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["fit"] > 80


def test_missing_values(trained, place, capsys):
    """A missing output is not scored; a missing input is an error, with a repair that the command has."""
    rows, command = made(2), ["predict", str(trained / "linear"), "new.csv", "--no-plot", "--force", "--json"]
    rows[50, 3] = np.nan
    write("new.csv", rows)
    assert run(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scores"] is None
    told = "the outputs are not scored: new.csv, line 52 (time 2.5), column 'path': no value"
    assert found["notes"][0].startswith(told)
    assert len(table()[1]) == N
    assert run([*command, "--fill"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["fit"] > 80
    rows[50, 1] = np.nan
    write("new.csv", rows)
    assert "column 'force': no value: repair it with --fill, --cut or --drop" in said(capsys, command[1:])
    for repair, count in (("--fill", N), ("--cut", N - 1)):
        assert run([*command, repair]) == 0
        assert len(table()[1]) == count
        assert len(json.loads(capsys.readouterr().out)["repaired"]) == 1


def test_another_unit_of_time(trained, place, capsys):
    """Numbers with the step of the training, in another unit."""
    write("new.csv", made(2), "t [ms],force,torque,path")
    model = str(trained / "linear")
    told = (
        "the times are in ms in new.csv, linear was trained with s: convert them, or if the label is wrong give --units"
    )
    assert told in said(capsys, [model, "new.csv"])
    assert run(["predict", model, "new.csv", "--units", "t=s", "--no-plot"]) == 0


# -- the files that were imported ----------------------------------------------------------------------------


def rig(records: int = 8, n: int = 120) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """t (n,), f (records, n, 2), u (records, n, 1)."""
    parts = [made(seed, n) for seed in range(records)]
    whole = np.stack(parts)
    return parts[0][:, 0], whole[..., 1:3], whole[..., 3:]


def as_npz() -> list[str]:
    t, f, u = rig()
    np.savez("rig.npz", t=t, force=f, path=u[..., 0])
    return ["rig.npz", "--input", "force", "--output", "path"]


def as_known_npz() -> list[str]:
    t, f, u = rig()
    np.savez("rig.npz", t=t, f=f, u=u, f_names=["force", "torque"], u_names=["path"])
    return ["rig.npz"]


def as_groups() -> list[str]:
    t, f, u = rig()
    with h5py.File("rig.h5", "w") as file:
        for name, values in (("time", t), ("force", f[..., 0]), ("torque", f[..., 1]), ("path", u[..., 0])):
            file[f"run/{name}"] = values
    return ["rig.h5", "--input", "run/force", "run/torque", "--output", "run/path", "--out", "mine.h5"]


def as_cells() -> list[str]:
    io = pytest.importorskip("scipy.io")
    t, f, u = rig()
    cells = {name: np.empty((1, 8), object) for name in ("u", "y", "t")}
    for i in range(8):
        n = 120 - 5 * i
        cells["t"][0, i], cells["u"][0, i], cells["y"][0, i] = t[:n], f[i, :n], u[i, :n]
    io.savemat("rig.mat", cells)
    return ["rig.mat", "--input", "u", "--output", "y"]


def as_initial_states() -> list[str]:
    decay = 0.9 ** np.arange(60)
    np.savez("rig.npz", t=STEP * np.arange(60), u=np.random.default_rng(0).normal(size=(12, 1)) * decay)
    return ["rig.npz", "--input", "none", "--output", "u", "--ic"]


@pytest.mark.parametrize("make", [as_npz, as_known_npz, as_groups, as_cells, as_initial_states])
def test_the_file_that_was_imported_is_read_again(make, place, capsys):
    command = make()
    assert run(["import", *command]) == 0
    own = "mine.h5" if "--out" in command else "rig.h5"
    assert run(["train", own, "linear", "--out", "run"]) == 0
    train, test = tino.load_dataset(own)
    for source, count in ((command[0], len(train) + len(test)), (own, len(test)), ("response.npz", None)):
        capsys.readouterr()
        out = "again.csv" if source == "response.npz" else "response.npz"
        assert run(["predict", "run", source, "--out", out, "--no-plot", "--force", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["notes"] == []
        assert found["scores"]["fit"] > 80
        assert count is None or len(tino.read_arrays(out)) == count


def test_what_does_not_match_is_one_line(trained, place, capsys):
    rows, model = made(5), str(trained / "linear")
    write("new.csv", rows[:, :2], "t,force")
    assert "new.csv has no column 'torque': known: force, t" in said(capsys, [model, "new.csv"])
    write("new.csv", rows[:, :3], "t,force [kN],torque")
    told = "'force' is in kN in new.csv, linear was trained with N: convert it, or if the label is wrong give --units"
    assert told in said(capsys, [model, "new.csv"])
    assert run(["predict", model, "new.csv", "--units", "force=N", "--no-plot"]) == 0
    capsys.readouterr()
    write("new.csv", rows[:, :3] * [2, 1, 1], "t,force,torque")
    assert "the time step is 0.1 in new.csv, linear was trained with 0.05: use --resample" in said(
        capsys, [model, "new.csv"]
    )
    assert run(["predict", model, "new.csv", "--resample", "--no-plot", "--force"]) == 0
    assert len(Path("response.csv").read_text().splitlines()) == 2 * N
    capsys.readouterr()
    write("new.csv", rows[:, :3], "a,b,c")
    assert run(["predict", model, "new.csv", "--time", "a", "--input", "b", "c", "--no-plot", "--force"]) == 0
    capsys.readouterr()
    wrong = [model, "new.csv", "--time", "a", "--input", "b"]
    assert "gives 1 input, linear has 2" in said(capsys, wrong)
    assert "--out is r.txt, expected a name that ends in .csv or .npz" in said(
        capsys, [model, "new.csv", "--out", "r.txt"]
    )


def test_a_model_of_one_length_says_so(trained, place):
    model = tino.load(trained / "don")
    with pytest.raises(tino.TinoError, match="don takes records of exactly 120 times, because it is not causal"):
        respond(model, Path(write("new.csv", made(6))), (), (), ImportOptions())
    assert respond(model, Path(write("new.csv", made(6)[:120])), (), (), ImportOptions()).scores is not None


@pytest.mark.filterwarnings("default::tino.TinoWarning")
def test_inputs_far_outside_are_noted(trained, place, capsys):
    write("new.csv", made(7) * [1, 100, 1, 1])
    assert run(["predict", str(trained / "linear"), "new.csv", "--no-plot"]) == 0
    assert "force [N] reaches" in capsys.readouterr().err


# -- scattered points ----------------------------------------------------------------------------------------


def scattered(dimensions: int) -> tino.Dataset:
    chance = np.random.default_rng(0)
    places = chance.random((9, dimensions))
    f = chance.normal(size=(10, 30))
    u = np.cumsum(f, 1)[..., None] * (1 + places.sum(1))
    return tino.from_arrays(f.astype("f4"), u.astype("f4"), dt=0.1, output_points=places)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("name", ["tino", "pod-tino", "trtino", "don", "linear"])
def test_models_work_on_scattered_points(name, dimensions, tmp_path):
    data = scattered(dimensions)
    assert isinstance(data.outputs, tino.Points)
    model = tino.build(name, data)
    tino.fit(model, data, tino.TrainConfig(epochs=1))
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert again.frame.outputs == data.outputs
    assert torch.equal(tino.predict(again, data.f), tino.predict(model, data.f))
    y = data.outputs.points[[2, 5]]
    assert torch.allclose(model.query(data.f, y=y), tino.predict(model, data.f)[..., [2, 5]], atol=1e-5)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_scattered_points_are_drawn_and_kept(dimensions, tmp_path):
    from tino.report.figures import draw_samples, png

    data = scattered(dimensions)
    assert png(draw_samples(data.take(slice(2)))).startswith(b"\x89PNG")
    tino.save_dataset(tmp_path / "points.h5", data, data)
    assert tino.load_dataset(tmp_path / "points.h5")[0].outputs == data.outputs
    record = json.loads(json.dumps(grid_record(data.outputs)))
    assert grid_from_record(record) == data.outputs


@pytest.mark.parametrize("name", ["fno", "unet", "fno-step"])
def test_networks_on_a_grid_refuse_scattered_points(name):
    with pytest.raises(tino.TinoError, match=f"{name} needs a grid, own data has scattered"):
        tino.build(name, scattered(2))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (5, "got 5"),
        (((0.0,),), "got 1"),
        (((0.0, 1.0), (2.0,)), "as many for one as for another"),
        ((("a",), ("b",)), "a coordinate of a point is 'a'"),
        (((0.0,), (float("nan"),)), "is nan, expected a finite number"),
        (((0.0, 1, 2, 3), (1, 2, 3, 4)), "1 to 3 coordinates"),
        (((1.0, 2.0), (1.0, 2.0)), "share a place"),
    ],
)
def test_points_that_make_no_sense(given, words):
    with pytest.raises(tino.TinoError, match=words):
        tino.Points(given)


def test_arrays_whose_channels_the_file_names(place):
    """Named inputs keep their names and units under --input too; a file that lists them in another order is refused."""
    rows = np.stack([made(seed, 60) for seed in range(12)])
    about = {"f_names": ["force", "torque"], "f_units": ["N", "Nm"], "u_names": ["path"], "u_units": ["mm"]}
    arrays = {"f": rows[..., 1:3], "u": rows[..., 3:], **about}
    np.savez("named.npz", **arrays)
    train, _, _ = tino.import_records("named.npz", "f", "u", options=ImportOptions(dt=STEP))
    assert train.input_channels == (tino.Channel("force", "N"), tino.Channel("torque", "Nm"))
    assert train.output_channels == (tino.Channel("path", "mm"),)
    model = tino.build("linear", train)
    tino.fit(model, train, show_progress=False)
    found = respond(model, Path("named.npz"), (), (), ImportOptions(dt=STEP))
    assert found.scores is not None
    assert found.scores.fit > 99.9
    np.savez("turned.npz", **{**arrays, "f_names": ["torque", "force"]})
    with pytest.raises(tino.TinoError, match="has no column 'force'"):
        respond(model, Path("turned.npz"), (), (), ImportOptions(dt=STEP))
    np.savez("few.npz", **{**arrays, "f_names": ["force"]})
    with pytest.raises(tino.TinoError, match=r"few.npz has 1 f_names for 2 channels"):
        tino.import_records("few.npz", "f", "u", options=ImportOptions(dt=STEP))
