"""Files that are written whole or not at all, and carry a checksum that tells whether they were changed since."""

import glob
import hashlib
import json
import os
import platform
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tino.errors import TinoError, in_short

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
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TinoError(f"no file {path}") from None
    except (OSError, ValueError) as error:
        raise TinoError(f"{path} is not readable JSON: {in_short(error)}") from error


def parse_json(text: str) -> Any:
    """As Python reads it, but a key that comes twice, a number beyond 64 bits or deep nesting is a ValueError too."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_int=_int64)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _int64(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
        raise ValueError(f"{in_short(digits, 20)} is too large a number")
    return int(digits)


# -- JSON with a checksum ------------------------------------------------------------------------------------

SEAL = "sha256"


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its own checksum, which does not depend on the order of keys or on white space."""
    plain = json.loads(json.dumps(record))  # as it will be read back
    return {**plain, SEAL: _sha256(plain)}


def _sha256(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check_seal(record: Any, path: Path, fix: str, version: int | None = None) -> dict[str, Any]:
    """The record without its checksum; an error, with what to do, if it is of another version or was changed."""
    if not isinstance(record, dict):
        raise TinoError(f"{path} is not a record of tino: {fix}")
    if version is not None and record.get("format") != version:
        held = in_short(repr(record.get("format", "unknown")))
        raise TinoError(f"{path} has format {held}, this version reads {version}: {fix}")
    plain = {key: value for key, value in record.items() if key != SEAL}
    if record.get(SEAL) != _sha256(plain):
        raise TinoError(f"{path} was changed or damaged (its checksum differs): {fix}")
    return plain


def write_sealed(path: Path, record: dict[str, Any]) -> None:
    write_json(path, sealed(record))


def read_sealed(path: Path, fix: str, version: int | None = None) -> dict[str, Any]:
    return check_seal(read_json(path), path, fix, version)


# -- safetensors with a checksum -----------------------------------------------------------------------------

STAMP = {SEAL: "0" * 64}  # belongs into the metadata of a file that will be stamped
_MARK = f'"{SEAL}":"'.encode()
_LONGEST = 100_000_000  # bytes of a header, as safetensors has it


def stamp(file: BinaryIO) -> None:
    """Write the checksum of all bytes of a safetensors file into its empty stamp."""
    place, _, found = _stamp(file)
    file.seek(place)
    file.write(found)


def check_stamp(path: Path, fix: str) -> None:
    """Whether a stamped safetensors file is as it was written; an error, with what to do, if not."""
    try:
        with open(path, "rb") as file:
            _, held, found = _stamp(file)
    except FileNotFoundError:
        raise TinoError(f"no file {path}") from None
    except (OSError, ValueError) as error:
        raise TinoError(f"{path} is damaged or of another kind: {fix}") from error
    if held != found:
        raise TinoError(f"{path} was changed or damaged (its checksum differs): {fix}")


def _stamp(file: BinaryIO) -> tuple[int, bytes, bytes]:
    """Where the stamp is, what it says, and what it should say: the SHA-256 of all bytes but its own."""
    file.seek(0)
    size = file.read(8)
    head = size + file.read(min(int.from_bytes(size, "little"), _LONGEST))
    place = head.index(_MARK) + len(_MARK)
    digest = hashlib.sha256(head[:place] + head[place + 64 :])
    while piece := file.read(2**20):
        digest.update(piece)
    return place, head[place : place + 64], digest.hexdigest().encode()
