"""Files that are written whole or not at all."""

import glob
import json
import os
import platform
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tino.errors import TinoError

HOST = platform.node().replace(".", "-") or "here"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; on success it becomes ``path``, on any error it is removed.

    The name ends in the machine's and the process's, so two writers never meet, and the rename is atomic: a reader,
    or a run killed at any moment, sees the old file, the new one, or none, never a part.
    """
    part = path.with_name(f".{path.name}.{HOST}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for stale in path.parent.glob(f".{glob.escape(path.name)}.{HOST}.*.part"):
            if not _alive(stale):
                stale.unlink(missing_ok=True)
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise TinoError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            part.unlink()


def check_writable(folder: Path) -> None:
    """Whether files can be written into the folder, or into the nearest one above it that exists."""
    nearest = folder
    while not nearest.exists():
        nearest = nearest.parent
    try:
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise TinoError(f"cannot write into {folder}: {error.strerror or error}") from error


def _alive(part: Path) -> bool:
    """Whether the process that names a temporary file of this machine still runs."""
    number = part.name.split(".")[-3]
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_text(path: Path, text: str) -> None:
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TinoError(f"no file {path}") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TinoError(f"{path} is not readable JSON: {error}") from error
