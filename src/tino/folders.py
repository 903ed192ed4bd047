"""Run folders: one process at a time, and a finished run stays until another one can take its place."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tino.errors import TinoError, in_short
from tino.files import read_json

RUN = "run.json"  # written last: its presence means that the run is finished
CHECKPOINT = "checkpoint.safetensors"
CONFIG, WEIGHTS, SCORES = "config.json", "model.safetensors", "scores.json"  # written in this order
FIGURES = ("loss.png", "errors.png", "example.png")  # drawn after the run is finished
READOUT, BAND, CARD = "readout.json", "band.json", ("card.md", "card.html")  # measured after it, when asked for
RESPONSES = ("impulse.png", "frequency.png", "second-order.png", "band.png")
AFTERWARDS = (*FIGURES, READOUT, BAND, *CARD, *RESPONSES)  # of another run, once a new one is in its place
TENSORBOARD = "tensorboard"  # a folder of its own
NEW = ".new"  # where a run is trained that replaces a finished one
LOCK = ".lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder, and keep other processes out of it for the time of a block.

    The system lets go of the lock when the process ends, even if it is killed. A folder made here goes again if it is
    empty in the end.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        held = _lock(folder)
    except OSError as error:
        raise TinoError(f"cannot write into {folder}: {error.strerror or error}") from error
    try:
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)
        os.close(held)
        for place in made:
            with suppress(OSError):
                place.rmdir()


def _lock(folder: Path) -> int:
    """An open, locked file in the folder."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            if folder.exists():
                raise  # a file of that name
            continue  # it was a folder, which has just been removed
        with suppress(FileNotFoundError):  # whoever was here has just left, and removed its lock and an empty folder
            held, is_ours = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR), False
            try:
                is_ours = _locked(held, folder)
            finally:
                if not is_ours:
                    os.close(held)
            if is_ours:
                return held


def _locked(held: int, folder: Path) -> bool:
    """Whether the lock is ours; not if its file was removed after we opened it."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TinoError(f"another process trains in {folder}: wait for it, or use another folder") from None
    except OSError:  # a file system without locks
        return True
    return os.path.samestat(os.fstat(held), os.stat(folder / LOCK))


def place_to_train(folder: Path, resume: bool, force: bool) -> Path:
    """The folder itself, or, if it holds a finished run that is to be replaced, a hidden one inside it."""
    finished = (folder / RUN).exists()
    if finished and not force:
        if not resume:
            raise TinoError(f"{folder} holds a finished run: use another folder, or replace it with force = True")
        if (folder / NEW / CHECKPOINT).exists():
            raise TinoError(
                f"{folder} is finished; its replacement is not: continue that with force = True and resume = True"
            )
        raise TinoError(f"the run{_model(folder)} in {folder} is finished: there is nothing to resume")
    place = folder / NEW if finished else folder
    kept = [str(place / name) for name in (CHECKPOINT, WEIGHTS) if (place / name).exists()]
    if kept and not (resume or (place / RUN).exists()):
        told = f"{place} holds an unfinished run: continue it with resume = True"
        raise TinoError(f"{told}, or delete {' and '.join(kept)}")
    return place


@contextmanager
def stoppable(place: Path) -> Iterator[None]:
    """Ctrl-C in a block that trains in this folder tells what was being done, and what is kept of it."""
    try:
        yield
    except KeyboardInterrupt:
        if not (place / CONFIG).exists():  # nothing has begun
            raise
        doing = "certifying" if (place / SCORES).exists() else "scoring" if (place / WEIGHTS).exists() else "fitting"
        go_on = f"continue with {'force = True and ' * (place.name == NEW)}resume = True"
        if (place / CHECKPOINT).exists():
            told = f"{'progress' if doing == 'fitting' else 'the trained model'} is saved: {go_on}"
        elif doing == "fitting":
            told = "there is no checkpoint of that: run the same command again"
        else:
            told = f"there is no checkpoint of the fit, which is done again: {go_on}"
        raise KeyboardInterrupt(f"stopped while {doing}; {told}") from None


def _model(folder: Path) -> str:
    """Of which model a finished run is, if it can be read."""
    try:
        return f" of {in_short(read_json(folder / RUN)['model'], 40)}"
    except (TinoError, LookupError, TypeError):
        return ""


def is_finished(folder: Path) -> bool:
    """Whether it holds a finished run, or one that only has to move in."""
    return (folder / RUN).is_file() or (folder / NEW / RUN).is_file()


def adopt(folder: Path) -> bool:
    """Put a finished new run in the place of the old one -> whether there was one.

    If this is interrupted, the next call does the rest.
    """
    new = folder / NEW
    if not (new / RUN).exists():
        return False
    (new / CHECKPOINT).unlink(missing_ok=True)
    if (folder / RUN).exists() and (folder / TENSORBOARD).exists():  # still the old run's: run.json moves in last
        shutil.rmtree(folder / TENSORBOARD)
    for name in (RUN, *AFTERWARDS):  # without run.json, a mixture of files is not taken for a run
        (folder / name).unlink(missing_ok=True)
    for path in new.glob("[!.]*"):
        if path.name != RUN:
            os.replace(path, folder / path.name)
    os.replace(new / RUN, folder / RUN)
    shutil.rmtree(new, ignore_errors=True)
    return True
