"""Datasets: reproducible to the byte, written whole, and clear about what is wrong with a file."""

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from conftest import small_problem

import tino
from tino.files import sealed
from tino.generation import cache_folder, generate
from tino.storage import load_dataset, read_record


def whole(problem: tino.Problem, seed: int, train: int, test: int, cache: Path) -> Path:
    path = generate(problem, seed, train, test, cache, show_progress=False)
    assert path is not None
    return path


def make(folder: Path, name: str = "burgers-0.1", seed: int = 0) -> Path:
    return whole(small_problem(name), seed, 5, 3, folder)


@pytest.mark.parametrize("name", tino.problem_names())
def test_same_seed_same_bytes_other_seed_other_data(name, tmp_path):
    first, again = make(tmp_path / "a", name), make(tmp_path / "b", name)
    assert first.read_bytes() == again.read_bytes()
    (train, test), (other, _) = load_dataset(first), load_dataset(make(tmp_path, name, seed=1))
    assert not torch.equal(train.f, other.f)
    samples = torch.cat([train.f, test.f]).flatten(1)
    assert len(torch.unique(samples, dim=0)) == len(samples) >= 8  # train and test share none, and none repeats


@pytest.mark.parametrize("name", tino.problem_names())
def test_a_sample_depends_on_seed_and_index_alone(name, tmp_path):
    problem = small_problem(name)
    few, _ = load_dataset(whole(problem, 0, 2, 1, tmp_path))
    many, _ = load_dataset(whole(problem, 0, 7, 1, tmp_path))
    n = len(few)
    assert torch.equal(few.f, many.f[:n])
    assert torch.allclose(few.u, many.u[:n], rtol=1e-6, atol=1e-6)


def test_stored_values_are_the_problem_s(tmp_path):
    problem = small_problem("burgers-0.1")
    train, test = load_dataset(make(tmp_path))
    forcing = problem.law.sample(0, 1, range(3))
    assert torch.allclose(test.u, problem.solve(forcing).float(), rtol=1e-6, atol=1e-6)
    t, x = problem.time.points[7], problem.inputs.points[5, 0]
    p = {k: v[2].flatten().numpy() for k, v in forcing.params.items()}
    n = np.arange(1, 11)
    shape = (p["a_1"] * np.sin(2 * np.pi * n * x.item()) + p["b_1"] * np.cos(2 * np.pi * n * x.item())) / n**2
    f = p["A"] * np.sin(p["b"] * t.item() + p["c"]) * shape.sum()
    assert float(test.f[2, 7, 5]) == pytest.approx(float(f[0]), rel=1e-5)
    assert train.f.dtype == torch.float32


def test_record_names_everything(tmp_path):
    record = read_record(make(tmp_path))
    assert record["problem"] == "burgers-0.1"
    assert record["options"] == {"nu": 0.1, "n_t": 24, "resolution": 24}
    assert record["seed"] == 0
    assert record["solver"]["steps_per_output"] > 0
    assert record["version"] == tino.__version__
    assert len(record["checksum"]) == 64
    assert record["input"]["ranges"]["A"] == [0.1, 1.0]


def test_an_option_changes_the_file(tmp_path):
    one = whole(tino.problem("duffing", n_t=24), 0, 2, 1, tmp_path)
    two = whole(tino.problem("duffing", n_t=24, damping=0.5), 0, 2, 1, tmp_path)
    assert one != two


def test_second_call_reads_the_cache(tmp_path):
    path = make(tmp_path)
    before = path.stat().st_mtime_ns
    assert make(tmp_path) == path
    assert path.stat().st_mtime_ns == before


def edited(how: str):
    """What another program may do to an HDF5 file."""

    def big_endian(file):
        values = file["train/u"][()]
        del file["train/u"]
        file["train/u"] = values.astype(">f4")

    def text(file):
        del file["train/u"]
        file["train/u"] = np.full((5, 24, 24), "a", dtype="S1")

    def bomb(file):
        del file["train/u"]
        file.create_dataset("train/u", (10**6, 10**6), "f4", compression="gzip", fillvalue=1.0)

    edits = {
        "a number changed": lambda file: file["train/u"].write_direct(np.ones((5, 24, 24), "f4")),
        "an array missing": lambda file: file.__delitem__("test"),
        "an extra group": lambda file: file.create_group("train/more"),
        "links in a circle": lambda file: file.__setitem__("train/again", h5py.SoftLink("/train/again")),
        "a link to another file": lambda file: file.__setitem__("train/ic", h5py.ExternalLink("/etc/passwd", "/")),
        "big-endian": big_endian,
        "text": text,
        "a compression bomb": bomb,
        "other data": lambda file: file.attrs.modify("tino", json.dumps({"format": 2, "seed": 7})),
        "an older format": lambda file: None,
    }
    return edits[how]


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "cut in half":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "no dataset":
        path.write_text("not a dataset")
    elif how == "a bit flipped":
        with h5py.File(path) as file:
            place = file["train/u"].id.get_offset() + 4001  # pyright: ignore
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    elif how == "a later end":  # of the time grid, in the record that is read
        assert data.count(b'"stop": 4.0') == 2
        path.write_bytes(data.replace(b'"stop": 4.0', b'"stop": 7.0'))
    elif how == "foreign":
        with h5py.File(path, "w") as file:
            file["tensor"] = np.zeros(3)
    else:
        with h5py.File(path, "r+") as file:
            edited(how)(file)


WAYS = "cut in half, empty, no dataset, a bit flipped, a later end, foreign, a number changed, an array missing"
WAYS += ", an extra group, links in a circle, a link to another file, big-endian, text, a compression bomb, other data"
WAYS += ", an older format"


@pytest.mark.parametrize("how", WAYS.split(", "))
def test_a_damaged_or_foreign_file_gets_one_line_and_is_left_alone(how, tmp_path):
    path = make(tmp_path)
    damage(path, how)
    left = path.read_bytes()
    with pytest.raises(tino.TinoError, match="generate it again") as caught:
        load_dataset(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == left


@pytest.mark.parametrize("how", ["cut in half", "a bit flipped", "a later end", "foreign", "a number changed"])
def test_a_damaged_file_of_the_cache_is_made_again_with_a_note(how, tmp_path):
    path = make(tmp_path)
    whole = path.read_bytes()
    damage(path, how)
    with pytest.warns(tino.TinoWarning, match=r"\.h5 .*; it is made again now"):
        train, _ = tino.dataset(small_problem("burgers-0.1"), 0, 5, 3, cache=tmp_path, show_progress=False)
    assert path.read_bytes() == whole
    assert torch.equal(train.u, load_dataset(path)[0].u)


def forge(path: Path, change) -> None:
    """Change the record and the places of the arrays, under a fresh checksum."""
    data = path.read_bytes()
    size = int.from_bytes(data[-16:-8], "little")
    tail = json.loads(data[-16 - size : -16])
    del tail["sha256"]
    change(tail)
    text = json.dumps(sealed(tail)).encode()
    path.write_bytes(data[: -16 - size] + text + len(text).to_bytes(8, "little") + data[-8:])


FORGED = {
    "more samples than the file holds": lambda tail: tail["arrays"].update({"train/u": [4096, [10**9, 24, 24], "<f4"]}),
    "a size beyond all numbers": lambda tail: tail["arrays"].update({"train/u": [4096, [2**62, 24, 24], "<f4"]}),
    "a negative size": lambda tail: tail["arrays"]["train/u"][1].__setitem__(0, -5),
    "half a sample": lambda tail: tail["arrays"]["train/u"][1].__setitem__(0, 2.5),
    "a negative place": lambda tail: tail["arrays"]["train/u"].__setitem__(0, -8),
    "a place beyond the end": lambda tail: tail["arrays"]["train/u"].__setitem__(0, 2**40),
    "big-endian": lambda tail: tail["arrays"]["train/u"].__setitem__(2, ">f4"),
    "texts": lambda tail: tail["arrays"]["train/u"].__setitem__(2, "S4"),
    "objects": lambda tail: tail["arrays"]["train/u"].__setitem__(2, "|O"),
    "fields": lambda tail: tail["arrays"]["train/u"].__setitem__(2, [["a", "<f4"]]),
    "another rank": lambda tail: tail["arrays"]["train/u"].__setitem__(1, [5]),
    "an array less": lambda tail: tail["arrays"].pop("test/f"),
    "no places": lambda tail: tail.pop("arrays"),
    "no record": lambda tail: tail.update(record=[1]),
    "no grids": lambda tail: tail["record"].pop("inputs"),
    "ten million times": lambda tail: (
        tail["record"]["time"].__setitem__(-1, 10**7)
        if isinstance(tail["record"]["time"], list)
        else tail["record"]["time"].update(n=10**7)
    ),
    "a later format": lambda tail: tail.update(format=99),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_file_is_one_line(how, tmp_path):
    path = make(tmp_path)
    forge(path, FORGED[how])
    with pytest.raises(tino.TinoError, match="generate it again") as caught:
        load_dataset(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_checksum_is_that_of_all_arrays_and_the_file_is_hdf5(tmp_path):
    """Committed results refer to the checksum, and other programs may read the file."""
    path = make(tmp_path)
    (train, test), record = load_dataset(path), read_record(path)
    arrays = (train.f, train.u, test.f, test.u)
    assert record["checksum"] == hashlib.sha256(b"".join(a.numpy().tobytes() for a in arrays)).hexdigest()
    with h5py.File(path) as file:
        assert json.loads(str(file.attrs["tino"])) == record
        assert np.array_equal(file["test/u"][()], test.u.numpy())  # pyright: ignore


def test_the_cache_folder_can_be_chosen(tmp_path, monkeypatch):
    assert cache_folder(tmp_path) == tmp_path
    monkeypatch.setenv("TINO_CACHE", str(tmp_path / "from-variable"))
    assert cache_folder() == tmp_path / "from-variable"
    monkeypatch.delenv("TINO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tino"


def test_an_unwritable_cache_is_one_line(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(tino.TinoError, match="cannot write"):
        make(blocked)


def test_a_place_that_takes_no_file_is_one_line():
    with pytest.raises(tino.TinoError, match=r"^cannot write into /proc: No such file or directory$"):
        tino.save_dataset("/proc/x.h5", a_dataset(), a_dataset())


def test_a_failing_solver_leaves_nothing(tmp_path):
    problem = small_problem("duffing")

    def explode(*_):
        raise KeyboardInterrupt

    object.__setattr__(problem, "evolution", explode)
    with pytest.raises(KeyboardInterrupt):
        generate(problem, 0, 2, 1, tmp_path, show_progress=False)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


KILLED = """
import dataclasses, sys, tino
problem = dataclasses.replace(tino.problem("burgers-0.1", n_t=40, resolution=64), chunk=8)
print("ready", flush=True)
tino.generate(problem, 0, 60, 20, cache=sys.argv[1])
"""


def killed_once(folder: Path, delay: float) -> None:
    """Generate in a process of its own, kill it after the delay, and read whatever file there is."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, stderr=-3)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    for path in folder.glob("*.h5"):
        load_dataset(path)  # raises if it is not whole


@pytest.fixture(scope="module")
def many_chunks() -> tino.Problem:
    return dataclasses.replace(tino.problem("burgers-0.1", n_t=40, resolution=64), chunk=8)


_UNBROKEN: list[bytes] = []


def unbroken(problem: tino.Problem) -> bytes:
    """The file of a run that nobody killed, made once."""
    if not _UNBROKEN:
        with tempfile.TemporaryDirectory() as folder:
            _UNBROKEN.append(whole(problem, 0, 60, 20, Path(folder)).read_bytes())
    return _UNBROKEN[0]


KILLS = int(os.environ.get("TINO_KILLS", "2"))  # make verify takes more


@pytest.mark.parametrize("delay", [round(1.2 * (i + 0.5) / KILLS, 3) for i in range(KILLS)])
def test_a_kill_leaves_a_whole_file_or_none_and_the_next_run_goes_on(delay, tmp_path, many_chunks):
    killed_once(tmp_path, delay)
    path = whole(many_chunks, 0, 60, 20, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]  # the killed run's parts are cleared away
    assert path.read_bytes() == unbroken(many_chunks)


def test_two_processes_may_make_one_set(tmp_path, many_chunks):
    processes = [
        subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=-3, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == unbroken(many_chunks)


def a_dataset(**changes) -> tino.Dataset:
    values = {
        "f": torch.zeros(3, 5, 2),
        "u": torch.zeros(3, 5, 1),
        "time": tino.TimeGrid(0, 1, 5),
        "inputs": tino.Interval(0, 1, 2),
        "outputs": tino.Point(),
    }
    return tino.Dataset(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"f": torch.zeros(3, 5, 3)},
            r"f has shape \(3, 5, 3\), expected \(records, 5, 2\): channels x points = 1 x 2",
        ),
        (
            {"f": torch.zeros(3, 4, 2)},
            r"f has shape \(3, 4, 2\), but the time grid has 5 times: expected \(records, 5, 2\)",
        ),
        ({"f": torch.zeros(3, 5)}, r"f has shape \(3, 5\), expected \(records, 5, 2\)"),
        ({"f": torch.zeros(())}, r"f has shape \(\), expected \(records, 5, 2\)"),
        ({"f": torch.zeros(3, 5, 2, dtype=torch.int64)}, "f has dtype int64, expected a floating type such as float32"),
        ({"f": np.zeros((3, 5, 2))}, "f must be a torch tensor, got ndarray"),
        (
            {"f": torch.full((3, 5, 2), torch.nan)},
            "in 3 of 3 records, first in record 0, counted from 0: leave it out or fill the gap",
        ),
        ({"u": torch.full((3, 5, 1), torch.inf)}, "u has NaN or infinite"),
        (
            {"u": torch.zeros(3, 5, 2)},
            r"u has shape \(3, 5, 2\), expected \(records, 5, 1\): channels x points = 1 x 1",
        ),
        ({"u": torch.zeros(2, 5, 1)}, "u has 2 records, f has 3"),
        ({"f": torch.zeros(0, 5, 2), "u": torch.zeros(0, 5, 1)}, "f has no records"),
        ({"ic": torch.zeros(2, 4)}, r"ic has shape \(2, 4\), expected \(3, numbers\): f has 3 records"),
    ],
)
def test_data_are_checked_at_the_border(changes, message):
    with pytest.raises(tino.TinoError, match=message):
        a_dataset(**changes)


def test_impossible_requests_are_one_line(tmp_path):
    with pytest.raises(tino.TinoError, match=r"did you mean 'burgers-0\.1'"):
        tino.problem("burger-0.1")
    with pytest.raises(tino.TinoError, match="no option 'resolution': it takes n_t, damping"):
        tino.problem("duffing", resolution=3)
    with pytest.raises(tino.TinoError, match="at least 2 points"):
        tino.problem("duffing", n_t=1)
    with pytest.raises(tino.TinoError, match="at least one training"):
        generate(tino.problem("duffing"), 0, 0, 1, tmp_path)
    with pytest.raises(tino.TinoError, match="seed must be 0"):
        generate(tino.problem("duffing"), -1, 1, 1, tmp_path)


@pytest.fixture
def chunked():
    """A problem of seven chunks."""
    return dataclasses.replace(small_problem("burgers-0.1"), chunk=3)


def test_shards_give_the_bytes_of_one_run(chunked, tmp_path):
    one = whole(chunked, 0, 13, 5, tmp_path / "one")
    for i in (3, 1):
        assert generate(chunked, 0, 13, 5, tmp_path / "many", show_progress=False, shard=(i, 3)) is None
    joined = generate(chunked, 0, 13, 5, tmp_path / "many", show_progress=False, shard=(2, 3))
    assert joined is not None
    assert joined.read_bytes() == one.read_bytes()
    assert [p.name for p in (tmp_path / "many").iterdir()] == [joined.name]


def test_a_stopped_run_goes_on_where_it_was(chunked, tmp_path):
    one = whole(chunked, 0, 13, 5, tmp_path / "one")
    assert generate(chunked, 0, 13, 5, tmp_path / "two", show_progress=False, shard=(1, 2)) is None
    assert len(list((tmp_path / "two").rglob("*.safetensors"))) == 4
    solved = []
    evolution = chunked.evolution

    def counting(forcing, *rest):
        solved.append(forcing.batch)
        return evolution(forcing, *rest)

    object.__setattr__(chunked, "evolution", counting)
    assert whole(chunked, 0, 13, 5, tmp_path / "two").read_bytes() == one.read_bytes()
    assert len(solved) == 3  # seven chunks, four were kept


def test_a_damaged_chunk_is_one_line(chunked, tmp_path):
    assert generate(chunked, 0, 13, 5, tmp_path, show_progress=False, shard=(1, 2)) is None
    chunk = next(tmp_path.rglob("*.safetensors"))
    chunk.write_bytes(chunk.read_bytes()[:100])
    with pytest.raises(tino.TinoError, match=r"was changed or damaged .*: delete it and generate again"):
        generate(chunked, 0, 13, 5, tmp_path, show_progress=False)


def test_parameters_are_hashed_beside_the_arrays(tmp_path):
    record = read_record(make(tmp_path))
    other = read_record(make(tmp_path, seed=1))
    assert len(record["parameters_sha256"]) == 64
    assert record["parameters_sha256"] != other["parameters_sha256"]


@pytest.mark.parametrize("shard", [(0, 2), (3, 2), (1, 0)])
def test_impossible_shards_are_one_line(shard, tmp_path):
    with pytest.raises(tino.TinoError, match="expected i/n"):
        generate(small_problem("duffing"), 0, 1, 1, tmp_path, shard=shard)


def test_threads_are_given_back():
    before = torch.get_num_threads()
    make(Path(os.environ["TINO_CACHE"]) / "threads")
    assert torch.get_num_threads() == before


def test_a_file_of_another_kind_is_told_which_is_read(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("t,f,u\n0,1,2\n")
    with pytest.raises(tino.TinoError, match="read your own file with tino import"):
        load_dataset(path)
