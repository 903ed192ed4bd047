"""Run folders: one process at a time, and a finished run stays until another one can take its place."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tino.errors import TinoError

RUN = "run.json"  # written last: its presence means that the run is finished
CHECKPOINT = "checkpoint.safetensors"
FIGURES = ("loss.png", "example.png")  # drawn after the run is finished
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
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # whoever was here has just left, and removed its lock and an empty folder
            held = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(held)
                raise TinoError(f"another process trains in {folder}: wait for it, or use another folder") from None
            except OSError:  # a file system without locks
                return held
            if os.path.samestat(os.fstat(held), os.stat(folder / LOCK)):
                return held
            os.close(held)


def place_to_train(folder: Path, resume: bool, force: bool) -> Path:
    """The folder itself, or, if it holds a finished run that is to be replaced, a hidden one inside it."""
    finished = (folder / RUN).exists()
    if finished and not force:
        if not resume:
            raise TinoError(f"{folder} holds a finished run: use another folder, or force=True to replace it")
        interrupted = (folder / NEW / CHECKPOINT).exists()
        hint = "; the one to replace it is not, force=True resumes that" if interrupted else ""
        raise TinoError(f"the run in {folder} is finished: there is nothing to resume{hint}")
    place = folder / NEW if finished else folder
    if (place / CHECKPOINT).exists() and not resume:
        raise TinoError(f"{place} holds an unfinished run: resume it, or delete {place / CHECKPOINT}")
    return place


def adopt(folder: Path) -> None:
    """Put a finished new run in the place of the old one. If this is interrupted, the next call does the rest."""
    new = folder / NEW
    if not (new / RUN).exists():
        return
    for name in (RUN, *FIGURES):  # without run.json, a mixture of files is not taken for a run
        (folder / name).unlink(missing_ok=True)
    for path in new.glob("[!.]*"):
        if path.name != RUN:
            os.replace(path, folder / path.name)
    os.replace(new / RUN, folder / RUN)
    shutil.rmtree(new, ignore_errors=True)
