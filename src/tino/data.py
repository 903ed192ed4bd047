"""Datasets: what they hold, how they are checked, and the HDF5 files that store them.

A file holds ``train`` and ``test`` groups with contiguous arrays ``f`` (n, t, m), ``u`` (n, t, x) and, if there are
any, initial states ``ic`` (n, k) and ``lengths`` (n,), and one JSON record in the attribute ``tino`` with everything
that determined them. Behind the end of the HDF5 part, the same record follows once more, with the places of the arrays
and a checksum of its own: that is what is read. Then come the record's length in bytes (8 of them) and a mark.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from tino.channels import INPUT, OUTPUT, Channels, channels_from_record, channels_record, check_channels
from tino.errors import TinoError, in_short, shown, whole
from tino.files import check_seal, check_writable, parse_json, sealed, whole_file
from tino.grids import Grid, TimeGrid, grid_from_record, grid_record
from tino.progress import progress
from tino.text import check_text
from tino.version import VERSION

DATA_FORMAT = 2  # version of the file layout
END = b"tino\r\n\x1a\n"  # the last bytes of a file
SPLITS, ARRAYS = ("train", "test"), ("f", "u", "ic", "lengths")
TYPES = ("<f2", "<f4", "<f8", "|i1", "|u1", "<i2", "<i4", "<i8")  # of the arrays in a file
FIX = "generate it again"
LARGE = 2**29  # bytes; reading more than this takes seconds, so a progress bar is shown


class Signals:
    """Inputs and outputs: channels on grids."""

    inputs: Grid
    outputs: Grid
    input_channels: Channels
    output_channels: Channels

    @property
    def input_size(self) -> int:
        """m: numbers in the input at one time, all channels at all points."""
        return len(self.input_channels) * self.inputs.size

    @property
    def output_size(self) -> int:
        """x: numbers in the output at one time."""
        return len(self.output_channels) * self.outputs.size


@dataclass(frozen=True)
class Dataset(Signals):
    """Pairs on fixed grids: f (n, t, m) -> u (n, t, x), with or without initial states ic (n, k).

    m and x count all channels at all points of their grids, channel after channel. Records of different lengths are
    padded to the longest, and ``lengths`` (n,) is the number of valid times of each.
    """

    f: Tensor
    u: Tensor
    time: TimeGrid
    inputs: Grid
    outputs: Grid
    ic: Tensor | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    input_channels: Channels = INPUT
    output_channels: Channels = OUTPUT
    lengths: Tensor | None = None

    def __post_init__(self) -> None:
        for name, values in (("f", self.f), ("u", self.u), ("ic", self.ic)):
            if name != "ic" or values is not None:
                check_tensor(values, name)
        check_text("dataset's name", self.name)
        check_text("dataset's title", self.meta.get("title", ""))
        check_channels(self.input_channels, "input")
        check_channels(self.output_channels, "output")
        if self.lengths is not None:
            self._end_records(self.lengths)
        self._check("f", self.f, len(self.input_channels), self.inputs.size)
        self._check("u", self.u, len(self.output_channels), self.outputs.size)
        if len(self.u) != len(self):
            raise TinoError(f"u has {len(self.u)} records, f has {len(self)}")
        if self.ic is not None:
            check_values(self.ic, "ic")
            if self.ic.ndim != 2 or self.ic.shape[0] != len(self):
                raise TinoError(
                    f"ic has shape {tuple(self.ic.shape)}, expected ({len(self)}, numbers): f has {len(self)} records"
                )

    def _end_records(self, lengths: Tensor) -> None:
        """Set f and u to zero after the end of each record, so that padding is never read by mistake."""
        check_lengths(lengths, len(self), self.time.n)
        for name in ("f", "u"):
            values: Tensor = getattr(self, name)
            if values.shape[:2] == (len(self), self.time.n) and values.is_floating_point():
                ended = (torch.arange(self.time.n) >= lengths[:, None]).view(
                    *values.shape[:2], *[1] * (values.ndim - 2)
                )
                if bool((values.masked_fill(~ended, 0.0) != 0).any()):
                    object.__setattr__(self, name, values.masked_fill(ended, 0.0))

    def _check(self, name: str, values: Tensor, channels: int, points: int) -> None:
        given, expected = tuple(values.shape), f"(records, {self.time.n}, {channels * points})"
        if given[2:] != (channels * points,):
            raise TinoError(f"{name} has shape {given}, expected {expected}: channels x points = {channels} x {points}")
        if given[1] != self.time.n:
            raise TinoError(f"{name} has shape {given}, but the time grid has {self.time.n} times: expected {expected}")
        check_values(values, name)

    def __len__(self) -> int:
        return self.f.shape[0]

    @property
    def name(self) -> str:
        """The problem it came from, the file's name, or 'own data'."""
        return str(self.meta.get("problem", "own data"))

    @property
    def mask(self) -> Tensor | None:
        """Which times of each record are valid, (n, t); None if all are."""
        return None if self.lengths is None else torch.arange(self.time.n) < self.lengths[:, None]

    def rows(self, values: Tensor) -> Tensor:
        """The valid times of (n, t, ...), one record after another."""
        return values.flatten(0, 1) if self.mask is None else values[self.mask]

    def take(self, samples: slice | Tensor) -> "Dataset":
        """A dataset of only the given samples."""
        ic, lengths = (None if v is None else v[samples] for v in (self.ic, self.lengths))
        return replace(self, f=self.f[samples], u=self.u[samples], ic=ic, lengths=lengths)


def grids_record(owner: Any) -> dict[str, Any]:
    """The grids and channels of a dataset or a frame, as plain JSON values."""
    return {
        "time": asdict(owner.time),
        **{side: grid_record(getattr(owner, side)) for side in ("inputs", "outputs")},
        **{key: channels_record(getattr(owner, key)) for key in ("input_channels", "output_channels")},
    }


def grids_from_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that ``grids_record`` described; older records without channels get the default ones."""
    if not isinstance(record, Mapping) or "time" not in record:
        raise TinoError(f"{in_short(record, 40)} does not describe grids")
    time = record["time"]
    return {
        "time": TimeGrid(**time) if isinstance(time, dict) else TimeGrid(*time),
        **{side: grid_from_record(record.get(side)) for side in ("inputs", "outputs")},
        **{key: channels_from_record(record[key]) for key in ("input_channels", "output_channels") if key in record},
    }


def check_tensor(values: Any, name: str) -> None:
    if not isinstance(values, Tensor):
        raise TinoError(f"{name} must be a torch tensor, got {type(values).__name__}: wrap arrays in torch.as_tensor")


def check_values(values: Tensor, name: str) -> None:
    """Check for a floating-point type, at least one record, and no NaN or inf."""
    if not values.is_floating_point():
        given = str(values.dtype).removeprefix("torch.")
        raise TinoError(f"{name} has dtype {given}, expected a floating type such as float32")
    if values.shape[:1] == (0,):
        raise TinoError(f"{name} has no records")
    rows = values.reshape(len(values), -1)
    finite = torch.cat([torch.isfinite(part).all(1) for part in rows.split(64)])  # in parts, to save memory
    if not bool(finite.all()):
        bad = int((~finite).sum())
        first = int((~finite).nonzero()[0])
        told = f"{name} has NaN or infinite values in {bad} of {len(values)} records, first in record {first}"
        raise TinoError(f"{told}, counted from 0: leave it out or fill the gap")


def check_dataset(data: Any, name: str) -> None:
    if not isinstance(data, Dataset):
        raise TinoError(f"{name} is {shown(data)}, expected a tino.Dataset")


def check_lengths(lengths: Tensor, samples: int, n_t: int) -> None:
    if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.shape != (samples,):
        shape = tuple(lengths.shape) if isinstance(lengths, Tensor) else type(lengths).__name__
        raise TinoError(f"lengths is {shape}, expected whole numbers, one for each of {samples} records")
    if not bool(((lengths >= 2) & (lengths <= n_t)).all()):
        wrong = int(lengths[(lengths < 2) | (lengths > n_t)][0])
        raise TinoError(f"a record has {wrong} times, expected 2 to {n_t}")


# -- files ---------------------------------------------------------------------------------------------------


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
            sets.append(Dataset(**tensors, meta={**record, "split": split}, **grids))
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
    for name in ("time", "inputs", "outputs", "input_channels", "output_channels"):
        if getattr(train, name) != getattr(test, name):
            raise TinoError(f"the training and the test set differ in their {name}: {path} can hold one only")
    check_writable(path.parent)
    with new_file(path) as (file, record):
        for split, data in zip(SPLITS, (train, test), strict=True):
            for name in ARRAYS:
                if (values := getattr(data, name)) is not None:
                    file.create_dataset(f"{split}/{name}", data=values.cpu().numpy())
        record |= {
            **{
                key: value for key, value in train.meta.items() if key not in ("split", "checksum", "parameters_sha256")
            },
            "format": DATA_FORMAT,
            "problem": train.meta.get("problem", path.stem),
            **grids_record(train),
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
                    "generate it again, or give your own data as .npz"
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
