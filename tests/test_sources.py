"""Data of one's own: what an .npz file may hold, how it is split, and the way from it to a report."""

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import tino
from tino.cli import run
from tino.options import DataOptions
from tino.sources import Source, fingerprint

T = np.linspace(0, 2, 30)


def arrays(records: int = 12, **changes):
    """Two inputs and two outputs of very different sizes."""
    f = np.random.default_rng(0).standard_normal((records, 30, 2)) * [1, 1e3]
    u = np.cumsum(f / [1, 1e3], 1) @ np.array([[1.0, 1e-3], [0.5, -2e-3]])
    return {"f": f, "u": u, "t": T, **changes}


@pytest.fixture
def write(tmp_path):
    def save(name: str = "rig", **content):
        path = tmp_path / f"{name}.npz"
        np.savez(path, **content)
        return path

    return save


def test_a_third_axis_is_channels_with_names_and_units(write):
    named = {"f_names": ["force", "torque"], "f_units": ["N", "Nm"], "u_names": ["x", "angle"], "title": "A rig"}
    data = tino.read_arrays(write(**arrays(**named)))
    assert (data.inputs, data.outputs) == (tino.Point(), tino.Point())
    assert data.input_channels == (tino.Channel("force", "N"), tino.Channel("torque", "Nm"))
    assert [str(channel) for channel in data.output_channels] == ["x", "angle"]
    assert (data.name, data.meta["title"], data.time) == ("rig", "A rig", tino.TimeGrid(0, 2, 30))
    assert [c.name for c in tino.read_arrays(write(**arrays())).input_channels] == ["f1", "f2"]


def test_float64_as_numpy_writes_it_is_converted_or_named(write):
    """``predict`` and ``query`` convert; ``model(f)``, ``start`` and ``step`` name the fix."""
    data = tino.read_arrays(write(**arrays()))
    assert data.f.dtype == torch.float64
    model = tino.build("tino", data)
    u = tino.predict(model, data.f)
    assert torch.allclose(model.query(data.f), u, atol=1e-5 * float(u.abs().max()))
    for call in (model, lambda f: model.start(f[:, 0]), lambda f: model.step(model.start(f[:, 0].float())[0], f[:, 1])):
        with pytest.raises(tino.TinoError, match=r"^f is float64, the model is float32: pass f\.float\(\)$"):
            call(data.f)
    assert torch.allclose(model(data.f.float()), u, atol=1e-5 * float(u.abs().max()))


def test_coordinates_make_it_points(write):
    data = tino.read_arrays(write(**arrays(u=np.ones((12, 30, 5)), u_points=np.linspace(0, 1, 5))))
    assert (data.outputs, len(data.output_channels)) == (tino.Interval(0, 1, 5), 1)
    field = np.arange(12 * 30 * 5 * 2, dtype=float).reshape(12, 30, 5, 2)
    data = tino.read_arrays(write(**arrays(u=field)))
    assert (data.outputs, len(data.output_channels)) == (tino.Interval(0, 4, 5), 2)
    assert np.array_equal(data.u[:, :, 5:], field[..., 1])  # channel after channel


@pytest.mark.parametrize("channels", [(), (1,), (2,)])
def test_points_anywhere_are_read_by_the_command_that_the_error_names(channels, write, monkeypatch):
    places = np.array([0.0, 0.1, 0.3, 0.35, 1.0])
    path = write(**arrays(u=np.random.default_rng(0).normal(size=(12, 30, 5, *channels)), u_points=places))
    with pytest.raises(tino.TinoError, match="rising in equal steps: for other points use tino import") as caught:
        tino.read_arrays(path)
    monkeypatch.chdir(path.parent)
    assert run([*str(caught.value).partition("use tino ")[2].split(), "--out", "any.h5"]) == 0
    found = tino.load_dataset("any.h5")[0]
    assert isinstance(found.outputs, tino.Points)
    assert (len(found.input_channels), len(found.output_channels)) == (2, *(channels or (1,)))


def test_a_missing_value_is_named_as_by_an_import(write):
    """Records, rows and columns are counted from 1; and the command that the error names repairs it."""
    content = arrays(u_names=["x", "angle"])
    content["u"][3, 17, 1] = np.inf
    content["u"][5, 2:4] = np.nan
    path = write(**content)
    place = f"{path}, record 4, row 18 (time 1.17241), column 'angle': no value"
    with pytest.raises(tino.TinoError) as read:
        tino.read_arrays(path)
    fix = f"counted from 1: repair it with tino import {path} --input f --output u and --fill, --cut or --drop"
    assert str(read.value) == f"{place} (and in 2 other rows), {fix}"
    with pytest.raises(tino.TinoError) as imported:
        tino.import_records(path, "f", "u")
    assert str(imported.value) == f"{place}, counted from 1: repair it with fill, cut or drop"
    assert len(tino.import_records(path, "f", "u", options=tino.ImportOptions(drop=True))[0]) == 9
    field = np.ones((12, 30, 5, 2))
    field[0, 1, 0, 1] = np.nan
    with pytest.raises(tino.TinoError, match=r"record 1, row 2 .*column 'u2'"):
        tino.read_arrays(write(**arrays(u=field)))


def test_two_axes_of_space_are_not_taken_for_channels_in_silence(write):
    square = np.random.default_rng(0).normal(size=(12, 30, 4, 4))
    path = write(**arrays(u=square))
    with pytest.warns(tino.TinoWarning, match="read as 4 points with 4 channels: .* --axes u=record,time,x,y"):
        assert len(tino.read_arrays(path).output_channels) == 4
    tino.read_arrays(write(**arrays(u=square, u_names=list("abcd"))))  # pytest turns warnings into errors
    tino.read_arrays(write(**arrays(u=square, u_points=np.arange(4))))


def test_what_follows_the_end_of_a_record_does_not_count(write):
    lengths = np.where(np.arange(12) < 4, 20, 30)
    content = arrays(lengths=lengths)
    content["f"][:4, 20:] = np.nan
    content["u"][:4, 20:] = np.nan
    data = tino.read_arrays(write(**content))
    assert data.mask is not None
    assert data.mask.sum(1).tolist() == lengths.tolist()
    assert not data.u[:4, 20:].any()
    assert len(data.rows(data.u)) == lengths.sum()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"f_names": ["force"]}, "has 1 f_names for 2 channels"),
        ({"f_names": ["force", "force"]}, "the input channels force, force share a name"),
        ({"u_points": np.linspace(0, 1, 7), "u": np.ones((12, 30, 5))}, "u_points of .* must be 5 coordinates"),
        ({"lengths": np.full(12, 31)}, "a record has 31 times, expected 2 to 30"),
        ({"lengths": np.full(12, 20.5)}, "expected a whole number for each record"),
        ({"u": np.full((12, 30), "x")}, "u of .* has dtype <U1, expected numbers"),
        ({"u": np.ones(12)}, r"u has shape \(12,\), expected \(times,\), \(records, times\)"),
        ({"t": T[::-1]}, "a time grid must run forward"),
        ({"t": T**2}, "the steps of t in .* range from 0.00476 to 0.271: resample to equal steps, e.g. with np.interp"),
        ({"t": T * np.nan}, "t of .* has NaN or infinite values"),
        ({"t": T[:, None]}, r"t of .* has shape \(30, 1\) and dtype float64, expected two times or more, \(times,\)"),
        ({"f": np.ones((30, 12))}, r"f has shape \(30, 12\), but t has 30 times: expected \(records, 30\)"),
        ({"u": np.ones((12, 29, 2))}, r"u has shape \(12, 29, 2\), but t has 30 times: expected \(records, 30, 2\)"),
        ({"u": np.ones((12, 30), complex)}, "u has dtype complex128, expected a floating type such as float32"),
        ({"u": np.where(np.arange(12)[:, None] == 3, np.nan, T)}, "record 4, row 1 .time 0., column 'u': no value"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(changes, message, write):
    with pytest.raises(tino.TinoError, match=message) as caught:
        tino.read_arrays(write(**arrays(**changes)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"x": T, "y": T}, "lacks f, u and t, it holds x, y: read it with tino import"),
        ({"f": T, "y": T}, "lacks u and t, it holds f, y:"),
        ({}, "lacks f, u and t, it holds nothing:"),
    ],
)
def test_arrays_that_a_file_lacks_are_named(held, message, write):
    with pytest.raises(tino.TinoError, match=message):
        tino.read_arrays(write(**held))


def test_a_single_array_is_no_dataset(tmp_path):
    np.save(tmp_path / "one.npy", T)
    with pytest.raises(tino.TinoError, match="holds one array, expected several"):
        tino.read_arrays(tmp_path / "one.npy")


def test_read_arrays_says_what_else_a_file_is(tmp_path):
    (tmp_path / "data.csv").write_text("f,u\n1,2\n")
    (tmp_path / "garbage.npz").write_bytes(b"PK and then something else")
    (tmp_path / "empty.npz").write_bytes(b"")
    made = tino.dataset(tino.problem("duffing", n_t=20), train=3, test=1, show_progress=False)
    tino.save_dataset(tmp_path / "made.h5", *made)
    for name, message in (
        ("data.csv", "data.csv is neither an .npz file nor a dataset of tino's: read it with tino import"),
        ("garbage.npz", "garbage.npz is neither an .npz file nor a dataset of tino's: read it with tino import"),
        ("empty.npz", "empty.npz is empty: read it with tino import"),
        ("made.h5", "made.h5 is an HDF5 file: tino.load_dataset reads those that tino wrote"),
        (".", "is a folder, expected a file"),
    ):
        with pytest.raises(tino.TinoError, match=re.escape(message)):
            tino.read_arrays(tmp_path / name)


def test_the_seed_draws_the_test_records(write):
    path = write(**arrays())
    train, test = Source(str(path)).load(DataOptions())
    assert (len(train), len(test)) == (10, 2)
    kept = {tuple(row) for part in (train, test) for row in part.f[:, 0].tolist()}
    assert len(kept) == 12  # each record once
    again, _ = Source(str(path)).load(DataOptions())
    other, _ = Source(str(path)).load(DataOptions(), seed=1)
    assert torch.equal(again.f, train.f)
    assert not torch.equal(other.f, train.f)
    few, one = Source(str(path)).load(DataOptions(train=3, test=1))
    assert (len(few), len(one)) == (3, 1)
    for options, message in (
        (DataOptions(train=12, test=1), "rig has 12 records, too few for 12 training and 1 test records"),
        (DataOptions(test=100), "rig has 12 records, test = 100 leaves none for training"),
        (DataOptions(test=12), "rig has 12 records, test = 12 leaves none for training"),
        (DataOptions(test=0), "test is 0, expected 1 or more"),
        (DataOptions(train=0), "train is 0, expected 1 or more"),
    ):
        with pytest.raises(tino.TinoError, match=message):
            Source(str(path)).load(options)
    one = {name: value if name == "t" else value[:1] for name, value in arrays().items()}
    path = write("one", **one)
    with pytest.warns(tino.TinoWarning, match="more than the 24 times before the test"):  # it is noise
        train, test = Source(str(path)).load(DataOptions())  # the last fifth of the time
    n, whole = len(one["t"]), tino.read_arrays(path)
    assert (train.time.n, train.burn_in) == (n - n // 5, 0)
    assert test.time.n - test.burn_in == n // 5
    assert torch.equal(train.u, whole.u[:, : n - n // 5])
    assert torch.equal(test.f, whole.f[:, -test.time.n :])
    assert test.time.stop == pytest.approx(one["t"][-1])
    bare = {name: value if name == "t" else value[0] for name, value in one.items()}  # without an axis of records
    assert torch.equal(tino.read_arrays(write("bare", **bare)).u, whole.u)
    signals = {**bare, "f": bare["f"][:, 0]}
    assert tino.read_arrays(write("signals", **signals)).f.shape == (1, n, 1)
    with pytest.raises(tino.TinoError, match="one has 1 record, of which the last fifth is for the test: leave out"):
        Source(str(path)).load(DataOptions(test=1))
    short = {name: value[:15] if name == "t" else value[:, :15] for name, value in one.items()}
    with pytest.raises(tino.TinoError, match="short has 1 record of 15 times, expected 20 or more"):
        Source(str(write("short", **short))).load(DataOptions())


def test_a_saved_dataset_is_a_source_too(write, tmp_path):
    train, test = Source(str(write(**arrays(lengths=np.full(12, 25), u_units=["mm", "rad"])))).load(DataOptions())
    path = tmp_path / "saved.h5"
    tino.save_dataset(path, train, test)
    again, other = Source(str(path)).load(DataOptions())
    assert (again.name, again.meta["title"], again.output_channels) == ("saved", "rig", train.output_channels)
    assert torch.equal(again.u, train.u)
    assert other.lengths is not None
    assert other.lengths.tolist() == [25] * len(test)
    assert fingerprint(again) != fingerprint(train)  # all bytes of both sets count
    moved = tino.Dataset(test.f, test.u, tino.TimeGrid(0, 3, 30), tino.Point(), tino.Point(), None, {}, *channels(test))
    with pytest.raises(tino.TinoError, match="differ in their time"):
        tino.save_dataset(path, train, moved)


def channels(data: tino.Dataset):
    return data.input_channels, data.output_channels


def test_the_whole_way_with_two_channels_and_two_lengths(write, tmp_path, capsys):
    """Train, evaluate, certify, bench and report using only the commands."""
    lengths = np.where(np.arange(12) % 2, 20, 30)
    path = str(
        write(
            **arrays(
                lengths=lengths,
                f_names=["force", "torque"],
                u_names=["x", "angle"],
                u_units=["m", "rad"],
                title="A rig",
            )
        )
    )
    folder = tmp_path / "run"
    assert run(["train", path, "tino", "--epochs", "3", "--device", "cpu", "--out", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "fit %" in said
    assert re.search(r"^all +– +– +\S+ +– +\S+ +\S+ +– *$", said, re.MULTILINE)  # no errors of both units together
    assert re.search(r"^angle \[rad\] +\d[^–]*$", said, re.MULTILINE)
    record = json.loads((folder / "run.json").read_text())
    assert (record["problem"], record["title"]) == ("rig", "A rig")
    assert record["data"] == {"options": {}, "train": 10, "test": 2}
    assert {"rmse", "nrmse", "fit", "max_error"} <= set(record)
    assert run(["evaluate", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rmse"] == pytest.approx(record["rmse"])
    assert run(["evaluate", str(folder)]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert [line in said for line in lines if line.startswith(("all", "x [m]", "angle [rad]"))] == [True] * 3
    assert run(["certify", str(folder)]) == 0
    assert "tino: causal" in capsys.readouterr().out
    places = ["--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    bench = ["bench", "--problems", path, "--models", "tino", "trtino", "--epochs", "1", "--device", "cpu", *places]
    assert run(bench) == 0
    capsys.readouterr()
    assert run(bench) == 0
    assert capsys.readouterr().err.count("already finished") == 2
    for given in (folder, tmp_path / "results"):
        assert run(["report", str(given), "--out", str(tmp_path / "report")]) == 0
        page = (tmp_path / "report" / "index.html").read_text()
        assert "A rig" in page
        assert "<img" in page
    np.savez(path, **arrays(u=arrays()["u"] + 1))
    assert run(["evaluate", str(folder)]) == 1
    assert "has changed since" in capsys.readouterr().err
    Path(path).unlink()
    assert run(["evaluate", str(folder)]) == 1
    assert "which is gone: put it back" in capsys.readouterr().err


def member(header: str, data: bytes = b"") -> bytes:
    """An array of an .npz file, with any header."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


FORGED = {
    "objects": member("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}\n", bytes(16)),
    "more than it holds": member("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000,)}\n", bytes(16)),
    "no numbers at all": member("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 99999999999)}\n"),
    "a negative size": member("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}\n", bytes(16)),
    "5000 digits": member("{'descr': '<f8', 'fortran_order': False, 'shape': (%s,)}\n" % ("7" * 5000)),
    "deep nesting": member("(" * 3000),
    "an open bracket": member("{'descr': '<f8', 'fortran_order': False, 'shape': (\n"),
    "texts": member("{'descr': '<U3', 'fortran_order': False, 'shape': (12, 30)}\n", bytes(12 * 30 * 12)),
    "fields": member("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (12, 30)}\n", bytes(12 * 30 * 8)),
    "nothing": b"",
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_array_is_one_line(how, write):
    path = write(**{name: values for name, values in arrays().items() if name != "u"})
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("u.npy", FORGED[how])
    with pytest.raises(tino.TinoError) as caught:
        tino.read_arrays(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_an_npz_that_unpacks_to_far_more_than_its_size_is_refused(write):
    path = write(**arrays())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file, file.open("title.npy", "w") as bomb:
        for _ in range(2**6 + 1):
            bomb.write(bytes(2**24))
    with pytest.raises(tino.TinoError, match="unpacks to 1 GiB, more than 200 times its own size"):
        tino.read_arrays(path)


def test_a_damaged_list_of_arrays_hides_none(write):
    """One byte, the length of a comment, and what follows in the list of a zip file is gone: here the lengths."""
    path = write(**arrays(lengths=np.full(12, 20)))
    raw = path.read_bytes()
    place = raw.rindex(b"PK\x01\x02", 0, raw.rindex(b"PK\x01\x02")) + 32
    path.write_bytes(raw[:place] + b"\xff" + raw[place + 1 :])
    assert "lengths.npy" not in zipfile.ZipFile(path).namelist()
    with pytest.raises(tino.TinoError, match="its list of arrays is damaged"):
        tino.read_arrays(path)


def test_big_endian_numbers_are_read(write):
    plain = arrays()
    data = tino.read_arrays(write(**{name: values.astype(">f8") for name, values in plain.items()}))
    assert np.array_equal(data.u, plain["u"])
    assert data.time == tino.TimeGrid(0, 2, 30)


@pytest.mark.parametrize("ending", ["npz", "h5"])
def test_a_file_that_is_not_there_is_one_line(ending, capsys):
    for command in (
        ["train", f"nowhere.{ending}", "tino"],
        ["bench", "--problems", f"nowhere.{ending}", "--models", "tino"],
    ):
        assert run(command) == 1
        assert capsys.readouterr().err.strip() == f"tino: no file nowhere.{ending}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": np.full(9, 20)}, "expected a whole number for each record"),
        ({"lengths": np.array(20)}, "expected a whole number for each record"),
        ({"u_points": np.full(5, "x"), "u": np.ones((12, 30, 5))}, "u_points of .* has dtype <U1, expected numbers"),
        ({"u_names": np.array([b"\xff", b"\xfe"])}, "u_names of .* has dtype .*, expected strings"),
        ({"F_names": ["force", "torque"]}, "an array 'F_names' that tino does not know: did you mean 'f_names'"),
        (
            {"length": np.full(12, 20)},
            "rig.npz holds an array 'length' that tino does not know: did you mean 'lengths'",
        ),
    ],
)
def test_odd_arrays_are_one_line(changes, message, write):
    with pytest.raises(tino.TinoError, match=message) as caught:
        tino.read_arrays(write(**arrays(**changes)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [np.float16, np.int16, ">f8", np.uint8, bool])
def test_numbers_of_any_kind_are_read(kind, write):
    content = arrays(lengths=np.full(12, 25, np.uint16), title=["A rig"])
    content["f"] = (10 * content["f"]).astype(kind)
    data = tino.read_arrays(write(**content))
    assert data.f.dtype in (torch.float32, torch.float64)
    assert np.array_equal(data.f[:, :25], content["f"][:, :25].astype(float))
    assert data.meta["title"] == "A rig"


def test_a_file_never_takes_a_problem_s_name(write, tmp_path):
    named = Source(str(write("burgers-0.1", **arrays())))
    assert named.name == "burgers-0.1-file"
    train, _ = named.load(DataOptions())
    assert train.name == "burgers-0.1-file"
    made = tino.dataset(tino.problem("duffing", n_t=20), train=3, test=1, show_progress=False)
    tino.save_dataset(tmp_path / "copy.h5", *made)
    again, _ = Source(str(tmp_path / "copy.h5")).load(DataOptions())
    assert (again.name, again.meta["title"]) == ("copy", "duffing")
    assert fingerprint(again) == again.meta["checksum"] != fingerprint(made[0])


def test_a_bench_never_mixes_up_two_files(write, tmp_path, capsys):
    one = write("x", **arrays())
    (tmp_path / "other").mkdir()
    np.savez(tmp_path / "other" / "x.npz", **arrays(u=arrays()["u"] + 1))
    places = ["--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    options = ["--models", "tdnn", "--epochs", "1", "--device", "cpu", *places]
    assert run(["bench", "--problems", str(one), str(tmp_path / "other" / "x.npz"), *options]) == 1
    assert "would both have results named x: rename one of them" in capsys.readouterr().err
    assert run(["bench", "--problems", str(one), *options]) == 0
    np.savez(one, **arrays(u=arrays()["u"] + 1))
    assert run(["bench", "--problems", str(one), *options]) == 1
    assert f"tdnn-0.json was trained on other contents of {one}: choose another" in capsys.readouterr().err


def test_the_name_without_its_ending_is_near(write, monkeypatch, capsys):
    monkeypatch.chdir(write(**arrays()).parent)
    assert run(["train", "rig", "tino"]) == 1
    assert "no problem named 'rig': did you mean the file rig.npz?" in capsys.readouterr().err
