"""Runs that are killed, resumed, shared between processes, and benched."""

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

import tino
from tino.bench import cells, run_cell
from tino.cli import run
from tino.files import read_json
from tino.folders import adopt, alone_in
from tino.options import DataOptions
from tino.results import Cell
from tino.runs import read_run, train_run
from tino.sources import Source
from tino.subjects import Found, Subject
from tino.training.signals import stop_signals

SMALL = ["--train", "24", "--test", "4", "--n-t", "40", "--batch-size", "8", "--times", "8", "--device", "cpu"]


SMALL_DATA = DataOptions(train=24, test=4, n_t=40)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tino", *arguments, *SMALL]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache with the data in it, so that what is timed and killed is the training; children hear SIGHUP, also where
    the tests run under nohup."""
    monkeypatch.setenv("TINO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert run(["generate", "duffing", *SMALL[:6]]) == 0
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_killed_at_random_and_resumed_to_the_same_bytes(cache, tmp_path):
    """SIGKILL, which nothing can catch; benchmarks/kills.py does it twenty times."""
    options = ["--epochs", "60", "--save-every", "0.05"]
    whole = subprocess.run(command("train", "duffing", "trtino", *options, "--out", str(tmp_path / "whole")))
    assert whole.returncode == 0
    kills, chance, folder = 0, random.Random(0), tmp_path / "killed"
    for _ in range(30):
        resumed = ["--resume"] if kills else []
        arguments = command("train", "duffing", "trtino", *options, "--out", str(folder), *resumed)
        with open(tmp_path / f"said-{kills}", "w") as said:
            child = subprocess.Popen(arguments, stderr=said)
        begun, deadline = time.time(), time.monotonic() + 60
        checkpoint = folder / "checkpoint.safetensors"
        while kills < 2 and time.monotonic() < deadline:  # until this child has written one
            if checkpoint.exists() and checkpoint.stat().st_mtime > begun:
                break
            time.sleep(0.01)
        try:
            child.wait(0.3 * chance.random() if kills < 2 else None)
            break
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            kills += 1
    assert kills == 2
    resumed_at = [int((tmp_path / f"said-{i}").read_text().split("resuming after step ")[1].split()[0]) for i in (1, 2)]
    assert 0 < resumed_at[0] < resumed_at[1]
    assert (folder / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert not (folder / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_the_state(number, cache, tmp_path, capfd):
    folder = tmp_path / "run"
    options = ["train", "duffing", "trtino", "--epochs", "100000", "--out", str(folder), "--save-every", "0"]
    child = subprocess.Popen(command(*options))
    deadline = time.monotonic() + 60
    while not (folder / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(number)
    assert child.wait(30) == 128 + number
    said = capfd.readouterr().err
    assert "progress is saved, continue with --resume" in said
    assert "Traceback" not in said
    assert run([*options, *SMALL]) == 1  # without --resume nothing is overwritten
    assert "holds an unfinished run: continue it with --resume" in capfd.readouterr().err


def test_a_closed_terminal_leaves_a_checkpoint(cache, tmp_path):
    """Every later write to it fails, that of the progress bar too."""
    folder = tmp_path / "run"
    options = ["--epochs", "100000", "--out", str(folder), "--save-every", "1000"]
    script = f"""
import os, pty
child, terminal = pty.fork()
if child == 0:
    os.execv({sys.executable!r}, {command("train", "duffing", "trtino", *options)})
said = b""
while b"steps/s" not in said:  # training has begun
    said += os.read(terminal, 1000)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == f"{128 + signal.SIGHUP}\n", done.stderr
    assert (folder / "checkpoint.safetensors").exists()


def test_nohup_is_respected():
    handler = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals(True):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, handler)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.filterwarnings("default::tino.TinoWarning")
def test_a_run_is_kept_whatever_its_certificate_finds(cache, tmp_path, monkeypatch, capsys):
    """A trained model may magnify rounding so far that a proved property does not show."""

    def denied(subject: Subject, u: object, found: Found) -> None:
        found.defect.holds, found.defect.number = False, 1.0

    monkeypatch.setattr("tino.probes._shift", denied)
    assert run(["train", "duffing", "linear", *SMALL[:6], "--out", str(tmp_path / "run")]) == 0
    assert "should be time-invariant by its parts, but measures otherwise" in capsys.readouterr().err
    assert not read_run(tmp_path / "run").result.time_invariant


def test_a_finished_run_is_not_overwritten_unless_forced(cache, tmp_path, capsys):
    folder = tmp_path / "run"
    train = ["train", "duffing", "tino", "--out", str(folder), *SMALL]
    assert run([*train, "--epochs", "2"]) == 0
    before = contents(folder)
    capsys.readouterr()
    assert run([*train, "--epochs", "3"]) == 1
    assert "holds a finished run: use another folder, or replace it with --force" in capsys.readouterr().err
    with pytest.raises(
        tino.TinoError, match="holds a finished run: use another folder, or replace it with force = True"
    ):
        train_run(Source("duffing"), "tino", folder, DataOptions(), tino.TrainConfig())
    assert contents(folder) == before
    assert run([*train, "--epochs", "3", "--force"]) == 0
    assert read_run(folder).result.epochs == 3
    assert set(contents(folder)) == set(before)  # figures too, and nothing else
    assert not (folder / ".new").exists()


def test_a_replacement_that_fails_leaves_the_old_run(cache, tmp_path, capsys):
    folder = tmp_path / "run"
    train = ["train", "duffing", "tino", "--out", str(folder), *SMALL, "--epochs", "2"]
    assert run(train) == 0
    before = contents(folder)
    assert run([*train, "--force", "--lr", "1e30"]) == 1
    assert contents(folder) == before


def test_an_interrupted_replacement_goes_on(cache, tmp_path, capsys):
    """The old run is whole until the new one is; --force --resume goes on with that."""
    folder = tmp_path / "run"
    train = ["train", "duffing", "trtino", "--optimizer", "adam", "--out", str(folder), *SMALL]
    assert run([*train, "--epochs", "2"]) == 0
    before = contents(folder)
    longer = ["--epochs", "40", "--force", "--save-every", "0"]
    child = subprocess.Popen([sys.executable, "-m", "tino", *train, *longer])
    deadline = time.monotonic() + 60
    while not (folder / ".new" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    child.kill()
    child.wait()
    now = contents(folder)
    now.pop(".lock", None)  # an empty file, which locks nothing any more
    assert now == before
    assert read_run(folder).result.epochs == 2
    capsys.readouterr()
    assert run([*train, *longer]) == 1
    assert ".new holds an unfinished run: continue it with --resume, or delete" in capsys.readouterr().err
    assert run([*train, "--epochs", "40", "--resume"]) == 1
    assert "its replacement is not: continue that with --force and --resume" in capsys.readouterr().err
    assert run([*train, *longer, "--resume"]) == 0
    assert "resuming after step" in capsys.readouterr().err
    assert read_run(folder).result.epochs == 40
    assert set(contents(folder)) == set(before)
    assert not (folder / ".new").exists()


def test_a_replacement_killed_while_it_moves_in(cache, tmp_path):
    """Reading the folder does the rest."""
    for epochs in (2, 3):
        config = tino.TrainConfig(epochs=epochs, batch_size=8, device="cpu")
        train_run(Source("duffing"), "tino", tmp_path / str(epochs), SMALL_DATA, config)
        (tmp_path / str(epochs) / "tensorboard").mkdir()
        (tmp_path / str(epochs) / "tensorboard" / f"events-{epochs}").touch()
    expected, move = contents(tmp_path / "3"), os.replace
    for moved in range(len(expected) + 1):
        folder = shutil.copytree(tmp_path / "2", tmp_path / f"killed-{moved}")
        shutil.copytree(tmp_path / "3", folder / ".new")
        left = iter(range(moved))

        def killed(source, target, left=left):
            next(left)
            move(source, target)

        with pytest.MonkeyPatch.context() as patched, suppress(StopIteration):
            patched.setattr("os.replace", killed)
            adopt(folder)
        assert (folder / ".new" / "run.json").exists()
        assert read_run(folder).result.epochs == 3
        assert contents(folder) == expected
        assert [path.name for path in (folder / "tensorboard").iterdir()] == ["events-3"]


def test_a_replacement_that_only_has_to_move_in_is_not_trained_again(cache, tmp_path, monkeypatch):
    """Killed between its run.json and its move: resuming takes it, and so does a bench; its checkpoint goes."""
    config = tino.TrainConfig(epochs=2, batch_size=8, device="cpu")
    cell = Cell("duffing", "tino", 0)
    first = tmp_path / "runs" / cell.path.with_suffix("")
    train_run(Source("duffing"), "tino", first, SMALL_DATA, config)
    folder = shutil.copytree(first, tmp_path / "again")
    shutil.copytree(first, folder / ".new")
    (folder / ".new" / "checkpoint.safetensors").touch()
    monkeypatch.setattr("tino.runs._train", None)  # nothing may be trained
    assert train_run(Source("duffing"), "tino", folder, SMALL_DATA, config, resume=True, force=True) is not None
    assert not (folder / "checkpoint.safetensors").exists()
    (first / ".new").mkdir()
    for path in [path for path in first.iterdir() if path.name != ".new"]:
        shutil.move(path, first / ".new")
    assert run_cell(cell, tmp_path / "results", tmp_path / "runs", SMALL_DATA, config).epochs == 2


def test_one_process_trains_in_a_folder(cache, tmp_path, capsys):
    folder = tmp_path / "runs" / "duffing" / "tino-0"
    script = f"""
import time
from pathlib import Path
from tino.folders import alone_in
with alone_in(Path({str(folder)!r})):
    print("here", flush=True)
    time.sleep(600)
"""
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"here\n"
    train = ["train", "duffing", "tino", "--epochs", "2", "--out", str(folder), *SMALL]
    for options in ([], ["--resume"], ["--force"]):
        assert run([*train, *options]) == 1
        assert f"another process trains in {folder}: wait for it" in capsys.readouterr().err
    cell = ["bench", "--problems", "duffing", "--models", "tino", "--epochs", "2", *SMALL]
    assert run([*cell, "--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]) == 1
    assert "failed: another process trains in" in capsys.readouterr().err
    other.kill()
    other.communicate()
    assert contents(folder) == {".lock": b""}  # which locks nothing any more
    assert run(train) == 0
    assert ".lock" not in contents(folder)


def test_a_lock_that_was_just_removed_locks_nothing(tmp_path):
    """A process may open the file before its holder removes it, and lock it after."""
    folder, taken = tmp_path / "run", []
    lock = fcntl.flock

    def late(file, how):
        if not taken:
            (folder / ".lock").unlink()
        taken.append(file)
        lock(file, how)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fcntl.flock", late)
        with alone_in(folder):
            assert len(taken) == 2
            patched.undo()
            with pytest.raises(tino.TinoError, match="another process"), alone_in(folder):
                pass
    assert not folder.exists()  # nothing was written


def test_a_lock_that_vanishes_is_closed(tmp_path):
    """Its folder may be removed between locking it and looking at it again."""
    folder, opened, closed = tmp_path / "run", [], []
    lock, close = fcntl.flock, os.close

    def late(file, how):
        opened.append(file)
        if len(opened) == 1:
            (folder / ".lock").unlink()
            folder.rmdir()
        lock(file, how)

    def closing(file):
        closed.append(file)
        close(file)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fcntl.flock", late)
        patched.setattr("os.close", closing)
        with alone_in(folder):
            pass
    assert len(opened) == 2
    assert closed == opened


def test_two_processes_train_as_one(cache, tmp_path):
    """torchrun with gloo: the weights of one process on the same global batches, to rounding."""
    options = ["--epochs", "8", "--optimizer", "adam", "--lr", "0.001"]
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert subprocess.run(command("train", "duffing", "trtino", *options, "--out", str(alone))).returncode == 0
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tino"]
    arguments = ["train", "duffing", "trtino", *options, "--out", str(together), *SMALL]
    done = subprocess.run([*launch, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert read_json(together / "environment.json")["processes"] == 2
    one, two = (tino.load(folder).state_dict() for folder in (alone, together))
    start = tino.build("trtino", tino.dataset(tino.problem("duffing", n_t=40), train=24, test=4)[0]).state_dict()
    for name in one:
        assert torch.allclose(one[name], two[name], rtol=1e-4, atol=1e-5), name
    assert any(not torch.allclose(one[name], start[name], atol=1e-3) for name in one)
    history = [(folder / "history.csv").read_text().splitlines()[-1].split(",")[1] for folder in (alone, together)]
    assert float(history[0]) == pytest.approx(float(history[1]), rel=1e-3)


def test_a_run_folder_can_be_read(cache, tmp_path, capsys):
    folder = tmp_path / "run"
    assert run(["train", "duffing", "tino", "--epochs", "2", "--out", str(folder), *SMALL]) == 0
    names = {path.name for path in folder.iterdir()}
    expected = "config.json environment.json history.csv scores.json certificate.json run.json"
    assert names == {
        *expected.split(),
        "model.json",
        "model.safetensors",
        "example.safetensors",
        "loss.png",
        "errors.png",
        "example.png",
    }
    environment = read_json(folder / "environment.json")
    assert environment["versions"]["torch"] == torch.__version__
    assert {"device", "commit", "cores"} <= set(environment)
    assert read_json(folder / "config.json")["training"]["epochs"] == 2
    assert environment["processes"] == 1
    for name, key in (("config", "epochs"), ("scores", "mse_mean"), ("certificate", "leak"), ("run", "parameters")):
        path = folder / f"{name}.json"
        kept = path.read_text()
        path.write_text(kept.replace(f'"{key}": ', f'"{key}": 1', 1))
        assert path.read_text() != kept
        with pytest.raises(tino.TinoError, match=rf"{name}\.json was changed or damaged .*: train again$"):
            read_run(folder)
        path.write_text(kept)
    assert read_run(folder).result.model == "tino"
    assert run(["train", "duffing", "tino", "--epochs", "2", "--out", str(folder), "--resume", *SMALL]) == 1
    assert f"the run of tino in {folder} is finished: there is nothing to resume" in capsys.readouterr().err


def test_a_full_disk_is_found_before_training(cache, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 2**20}))
    assert run(["train", "duffing", "tino", "--out", str(tmp_path / "run"), *SMALL]) == 1
    assert "has no room for this run: it needs about" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_another_problem_s_checkpoint_is_refused(cache, tmp_path, capsys):
    folder = tmp_path / "run"
    options = ["trtino", "--epochs", "100000", "--out", str(folder), "--save-every", "0"]
    child = subprocess.Popen(command("train", "duffing", *options))
    deadline = time.monotonic() + 60
    while not (folder / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    child.kill()
    child.wait()
    kept = (folder / "config.json").read_text()
    assert run(["train", "gradient-flow", *options, *SMALL, "--resume"]) == 1
    assert "belongs to a run with problem = duffing, not gradient-flow" in capsys.readouterr().err
    assert (folder / "config.json").read_text() == kept


def test_an_unwritable_folder_is_found_before_training(cache, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["train", "duffing", "tino", "--out", str(tmp_path / "file" / "run"), *SMALL]) == 1
    assert "cannot write into" in capsys.readouterr().err


def test_tensorboard_is_an_extra(cache, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert run(["train", "duffing", "tino", "--tensorboard", "--out", str(tmp_path / "run"), *SMALL]) == 1
    assert "TensorBoard is not installed: pip install 'tino[tensorboard]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_log_for_tensorboard_belongs_to_its_run(cache, tmp_path, monkeypatch, capsys):
    """A run that replaces another has its own, and one that fails leaves the old one's."""

    class Writer:
        def __init__(self, folder: str) -> None:
            self.path = Path(folder) / f"events-{len(written)}"
            written.append(self.path)
            self.path.parent.mkdir(exist_ok=True)
            self.path.touch()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def add_scalar(self, *values):
            self.path.write_text(str(values))

    def events() -> dict[str, str]:
        return {path.name: path.read_text() for path in (folder / "tensorboard").iterdir()}

    written: list[Path] = []
    module = type(sys)("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # pyright: ignore
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    folder = tmp_path / "run"
    train = ["train", "duffing", "tino", "--tensorboard", "--out", str(folder), "--epochs", "2", *SMALL]
    assert run(train) == 0
    first = events()
    assert list(first) == ["events-0"]
    assert "loss" in first["events-0"] or "validation" in first["events-0"]
    assert run([*train, "--force", "--lr", "1e30"]) == 1
    assert events() == first
    assert written[-1].parent == folder / ".new" / "tensorboard"
    assert run([*train, "--force"]) == 0
    assert list(events()) == ["events-2"]
    assert run([*[word for word in train if word != "--tensorboard"], "--force"]) == 0
    assert not (folder / "tensorboard").exists()


def test_a_bench_skips_what_is_finished_and_goes_on_after_a_failure(cache, tmp_path, capsys):
    places = ["--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    many = ["bench", "--problems", "duffing", "--models", "tino", "unet", "don", "--epochs", "1", *places, *SMALL]
    assert run(many) == 1
    said = capsys.readouterr().err
    assert "failed: unet needs outputs in space" in said
    assert "1 of 3 cells failed: (duffing, unet, seed 0)" in said
    kept = read_json(tmp_path / "results" / "duffing" / "don-0.json")
    keys = "problem model seed mse_mean mse_sd rel_l2_mean rel_l2 parameters epochs steps optimizer train_seconds"
    more = "peak_memory_bytes causal time_invariant device versions dataset_sha256 commit"
    assert {*keys.split(), *more.split()} <= set(kept)
    assert len(kept["rel_l2"]) == 4
    before = Path(tmp_path / "results" / "duffing" / "tino-0.json").stat().st_mtime_ns
    few = ["bench", "--problems", "duffing", "--models", "tino", "--epochs", "1", "--json", *places, *SMALL]
    assert run(few) == 0
    captured = capsys.readouterr()
    assert "already finished" in captured.err
    assert json.loads(captured.out)["results"][0]["model"] == "tino"
    assert Path(tmp_path / "results" / "duffing" / "tino-0.json").stat().st_mtime_ns == before
    changes = ((["--epochs", "2"], "epochs = 1, not 2"), (["--n-t", "30"], "n_t = 40, not 30"))
    for changed, said in (*changes, (["--train", "20"], "train = 24, not 20")):
        other = [*few]
        other[other.index(changed[0]) + 1] = changed[1]
        assert run(other) == 1
        assert f"tino-0.json was trained with {said}: choose another folder, or" in capsys.readouterr().err
        other[other.index("--out") + 1] = str(tmp_path / "elsewhere")
        assert run(other) == 1
        assert f"was trained with {said}: choose another folder of runs" in capsys.readouterr().err


def test_shards_share_the_cells():
    whole = cells(["duffing", "lorenz"], ["tino", "don", "fno"], [0, 1], (1, 1))
    assert len(whole) == 12
    parts = [cells(["duffing", "lorenz"], ["tino", "don", "fno"], [0, 1], (i, 5)) for i in range(1, 6)]
    assert sorted(map(str, whole)) == sorted(str(cell) for part in parts for cell in part)
    assert Cell("duffing", "tino", 1).path == Path("duffing/tino-1.json")
    with pytest.raises(tino.TinoError, match="the shard is 6/5"):
        cells(["duffing"], ["tino"], [0], (6, 5))
    with pytest.raises(tino.TinoError, match="no model named 'tina'"):
        cells(["duffing"], ["tina"], [0], (1, 1))


@pytest.mark.parametrize(
    ("model", "where", "told"),
    [
        ("tino", "certify", "stopped while certifying; the trained model is saved: continue with --resume"),
        ("tino", "evaluate", "stopped while scoring; the trained model is saved: continue with --resume"),
        (
            "linear",
            "certify",
            "stopped while certifying; there is no checkpoint of the fit, which is done again: continue",
        ),
        ("linear", "fit", "stopped while fitting; there is no checkpoint of that: run the same command again"),
    ],
)
def test_ctrl_c_tells_what_is_kept(model, where, told, cache, tmp_path, capsys, monkeypatch):
    """A trained model is neither lost nor overwritten without a word."""
    folder = tmp_path / "run"
    train = ["train", "duffing", model, "--out", str(folder), *SMALL, "--epochs", "2"]

    def stop(*_: object, **__: object):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"tino.runs.{where}", stop)
        assert run(train) == 130
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"tino: {told}")
    if where == "fit":
        assert run(train) == 0
        return
    weights = (folder / "model.safetensors").read_bytes()
    assert run([*train, "--epochs", "3"]) == 1
    assert "holds an unfinished run: continue it with --resume, or delete" in capsys.readouterr().err
    with monkeypatch.context() as patched:
        patched.setattr("tino.training.state.Training.draw", stop)  # no step is taken again
        assert run([*train, "--resume"]) == 0
    assert (folder / "model.safetensors").read_bytes() == weights
    assert not (folder / "checkpoint.safetensors").exists()
