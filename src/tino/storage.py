"""Dataset files, and files of plain arrays by name, .npz.

A dataset file is HDF5. It holds ``train`` and ``test`` groups with contiguous arrays ``f`` (n, t, m), ``u`` (n, t, x)
and, if there are any, initial states ``ic`` (n, k) and ``lengths`` (n,), and one JSON record in the attribute ``tino``
with everything that determined them. Behind the end of the HDF5 part, the same record follows once more, with the
places of the arrays and a checksum of its own: that is what is read. Then come the record's length in bytes (8 of them)
and a mark.
"""

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, BinaryIO

import h5py
import numpy as np
import torch

from tino.data import Dataset, grids_from_record, grids_record, same_steps
from tino.errors import TinoError, in_short, whole
from tino.files import check_seal, check_writable, parse_json, sealed, whole_file
from tino.grids import TimeGrid
from tino.progress import progress
from tino.version import VERSION

DATA_FORMAT = 2  # version of the file layout
END = b"tino\r\n\x1a\n"  # the last bytes of a file
SPLITS, ARRAYS = ("train", "test"), ("f", "u", "ic", "lengths")
TYPES = ("<f2", "<f4", "<f8", "|i1", "|u1", "<i2", "<i4", "<i8")  # of the arrays in a file
OF_A_FILE = ("split", "checksum", "parameters_sha256", "test_time", "burn_in")  # not carried over to another file
FIX = "generate it again"
IMPORT = "read it with tino import, and use the dataset that it writes"
MAKE = "write your arrays with np.savez('mine.npz', f=..., u=..., t=...)"
UNPACKED = 2**30  # bytes of an unpacked .npz file, if they are more than 200 times its own
HEADER = 2**14  # bytes of an array's header; numpy refuses more than 10 000
LARGE = 2**29  # bytes; reading more than this takes seconds, so a progress bar is shown


@contextmanager
def new_file(path: Path) -> Iterator[tuple[h5py.File, dict[str, Any]]]:
    """A dataset file, to be filled with the arrays of each split, and its record, with all that determined them."""
    record: dict[str, Any] = {}
    with whole_file(path) as part:
        with h5py.File(part, "w") as file:
            yield file, record
            arrays: dict[str, Any] = {f"{s}/{name}": file[f"{s}/{name}"] for s in SPLITS for name in sorted(file[s])}  # pyright: ignore
            places = {name: [a.id.get_offset(), list(a.shape), a.dtype.str] for name, a in arrays.items()}
            record |= {"version": VERSION, "checksum": _checksum(arrays.values())}
            file.attrs["tino"] = json.dumps(record, ensure_ascii=False)
        tail = json.dumps(sealed({"format": DATA_FORMAT, "record": record, "arrays": places})).encode()
        with open(part, "ab") as end:
            end.write(tail + len(tail).to_bytes(8, "little") + END)


def _checksum(arrays: Iterable[Any], advance: Callable[[int], None] = lambda size: None) -> str:
    """The SHA-256 of all arrays, read in pieces. ``advance`` is called with the size of each piece in bytes."""
    digest = hashlib.sha256()
    for array in arrays:
        for first in range(0, len(array), 64):
            piece = array[first : first + 64]
            digest.update(piece)
            advance(piece.nbytes)
    return digest.hexdigest()


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The metadata record of a dataset file, without reading its arrays."""
    return _tail(Path(path))[0]


def load_dataset(path: str | os.PathLike[str]) -> tuple[Dataset, Dataset]:
    """Read and check a dataset file -> (train, test)."""
    path = Path(path)
    record, places = _tail(path)
    try:
        arrays = {name: _mapped(path, *places[name]) for name in places}
        size = sum(array.nbytes for array in arrays.values())
        with progress(f"checking {path.name}", size, show=size > LARGE) as advance:
            if _checksum(arrays.values(), advance) != record["checksum"]:
                raise ValueError("its checksum differs")
        grids, sets = grids_from_record(record), []
        for split in SPLITS:
            held = {name: arrays[f"{split}/{name}"] for name in ARRAYS if f"{split}/{name}" in arrays}
            tensors = {name: torch.from_numpy(array) for name, array in held.items()}
            own: dict[str, Any] = {"burn_in": record.get("burn_in", {}).get(split, 0)}
            if split == "test" and "test_time" in record:
                own["time"] = TimeGrid(**record["test_time"])
            sets.append(Dataset(**tensors, meta={**record, "split": split}, **grids | own))
        return sets[0], sets[1]
    except (TinoError, OSError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise TinoError(f"{path} is damaged ({in_short(error)}): {FIX}") from error


def _mapped(path: Path, offset: int, shape: list[int], dtype: str) -> np.ndarray:
    """An array as it lies in the file: read on access, copied on write. It never reaches beyond the file's end."""
    if dtype not in TYPES or not isinstance(shape, list) or not 1 <= len(shape) <= 3:
        raise ValueError(f"an array of type {in_short(dtype, 20)} and shape {in_short(shape, 40)}")
    count = math.prod(whole("a size", n, 1, 2**48) for n in shape) * np.dtype(dtype).itemsize
    whole("the place of an array", offset, 0, path.stat().st_size - count)
    return np.memmap(path, dtype, "c", offset, tuple(shape))


def save_dataset(path: str | os.PathLike[str], train: Dataset, test: Dataset) -> None:
    """Write both sets into one file, whole or not at all; ``load_dataset`` reads it."""
    path = Path(path)
    for name in ("inputs", "outputs", "input_channels", "output_channels"):
        if getattr(train, name) != getattr(test, name):
            raise TinoError(f"the training and the test set differ in their {name}: {path} can hold one only")
    if not same_steps(train.time, test.time):
        raise TinoError(f"the training and the test set differ in their time step: {path} can hold one only")
    check_writable(path.parent)
    with new_file(path) as (file, record):
        for split, data in zip(SPLITS, (train, test), strict=True):
            for name in ARRAYS:
                if (values := getattr(data, name)) is not None:
                    file.create_dataset(f"{split}/{name}", data=values.cpu().numpy())
        record |= {
            **{key: value for key, value in train.meta.items() if key not in OF_A_FILE},
            "format": DATA_FORMAT,
            "problem": train.meta.get("problem", path.stem),
            **grids_record(train),
            **({} if test.time == train.time else {"test_time": asdict(test.time)}),
            "burn_in": {split: data.burn_in for split, data in zip(SPLITS, (train, test), strict=True)},
        }


def _tail(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record at the end of a dataset file, and where each array lies. HDF5 itself is not read: a damaged or
    forged file could keep its library busy for ever, or lead it to other files."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16))
            end = file.read()
            length = int.from_bytes(end[:8], "little")
            if end[8:] != END or length > size - 16:
                raise TinoError(
                    f"{path} is not a whole dataset file of this version (truncated, changed, older, or another kind): "
                    "generate it again, or read your own file with tino import"
                )
            file.seek(size - 16 - length)
            text = file.read(length)
        tail = check_seal(parse_json(text.decode()), path, FIX, DATA_FORMAT)
    except FileNotFoundError:
        raise TinoError(f"no dataset file {path}") from None
    except (OSError, ValueError) as error:
        raise TinoError(f"{path} is damaged ({in_short(error)}): {FIX}") from error
    record, places = tail.get("record"), tail.get("arrays")
    if not isinstance(record, dict) or not isinstance(places, dict) or "checksum" not in record:
        raise TinoError(f"{path} is not a dataset of this version: {FIX}")
    return record, places


# -- arrays by name ------------------------------------------------------------------------------------------


def kind_of(path: str | os.PathLike[str]) -> str:
    """zip or HDF5 by the file's first bytes; of others, what is wrong with them."""
    if Path(path).is_dir():
        raise TinoError(f"{path} is a folder, expected a file or the name of a problem")
    with open(path, "rb") as file:
        start = file.read(8)
    if start == b"\x89HDF\r\n\x1a\n":
        return "HDF5"
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "is an Excel workbook" if is_workbook(path) else "zip"
    if start.startswith(b"\x93NUMPY"):
        return "holds one array, expected several"
    return "is neither an .npz file nor a dataset of tino's" if start else "is empty"


def is_workbook(path: str | os.PathLike[str]) -> bool:
    """Whether a zip file holds the sheets of Excel's."""
    try:
        with zipfile.ZipFile(path) as file:
            return any(name.startswith("xl/") and not name.endswith(".npy") for name in file.namelist())
    except Exception:  # of a damaged file; zipfile raises many kinds
        return False


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of the file by name, after a check of what it claims to hold."""
    try:
        if (found := kind_of(path)) == "HDF5":
            raise TinoError(f"{path} is an HDF5 file: tino.load_dataset reads those that tino wrote")
        if found != "zip":
            raise TinoError(f"{path} {found}: {IMPORT}")
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            _check_claims(file.zip, raw)
            return {name: np.asarray(file[name]) for name in file.files}
    except FileNotFoundError:
        raise TinoError(f"no file {path}") from None
    except TinoError:
        raise
    except Exception as error:  # zip, zlib, and numpy's parser of headers raise many kinds
        reason = "it holds Python objects" if "Object arrays" in str(error) else in_short(error)
        raise TinoError(f"{path} is not a readable .npz file of plain arrays ({reason}): {MAKE}") from error


def _check_claims(file: zipfile.ZipFile, raw: BinaryIO) -> None:
    """Before anything is unpacked: a damaged or forged file may list fewer arrays than it has, or claim more than it
    holds, or than a memory holds."""
    size = raw.seek(0, os.SEEK_END)
    raw.seek(max(0, size - 2**16))
    end = raw.read().rpartition(b"PK\x05\x06")[2]  # zip's last record: it counts the members, which zipfile ignores
    if int.from_bytes(end[6:8], "little") not in (len(file.infolist()), 2**16 - 1):
        raise ValueError("its list of arrays is damaged")
    if (total := sum(member.file_size for member in file.infolist())) > max(UNPACKED, 200 * size):
        raise ValueError(f"it unpacks to {total / 2**30:.0f} GiB, more than 200 times its own size")
    for member in file.infolist():
        with file.open(member) as array:
            shape, dtype, _ = array_header(array)
        if min(shape, default=0) < 0 or math.prod(shape) * max(1, dtype.itemsize) > member.file_size:
            raise ValueError(f"{member.filename} claims shape {shape}, which is more than it holds")


def array_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, dtype and the header's length in bytes of an array in numpy's format. A forged header may claim 4 GiB, so
    no more is read than numpy accepts in a header."""
    start = io.BytesIO(file.read(HEADER))
    version = np.lib.format.read_magic(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(start)
    return shape, dtype, start.tell()
