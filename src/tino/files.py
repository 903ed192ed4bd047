"""Files that are written whole or not at all."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tino.errors import TinoError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; on success it becomes ``path``, on any error it is removed.

    The name ends in the process's number, so two writers never meet, and the rename is atomic: a reader, or
    a run killed at any moment, sees the old file, the new one, or none, never a part.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for stale in path.parent.glob(f".{path.name}.*.part"):
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


def make_folder(folder: Path) -> None:
    """Make sure that files can be written into the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise TinoError(f"cannot write into {folder}: {error.strerror or error}") from error


def _alive(part: Path) -> bool:
    """Whether the process that names a temporary file still runs (on this machine)."""
    number = part.suffixes[-2].lstrip(".") if len(part.suffixes) >= 2 else ""
    if not number.isdigit():
        return True
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
