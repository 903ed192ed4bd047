"""Datasets: the Dataset record, its checks, and reading HDF5 and .npz files.

An HDF5 file has groups ``train`` and ``test`` with contiguous float32 arrays ``f`` (n, t, m), ``u`` (n, t, x) and,
optionally, ``ic`` (n, k). Its attribute ``tino`` is a JSON record of everything that determined them.
"""

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from tino.errors import TinoError
from tino.grids import Grid, Interval, Point, TimeGrid, grid_from_record
from tino.progress import progress

DATA_FORMAT = 1  # version of the file layout
SPLITS = ("train", "test")
LARGE = 2**29  # bytes; reading more than this takes seconds, so a progress bar is shown


@dataclass(frozen=True)
class Dataset:
    """Pairs on fixed grids: f (n, t, m) -> u (n, t, x), optionally with initial states ic (n, k)."""

    f: Tensor
    u: Tensor
    time: TimeGrid
    inputs: Grid
    outputs: Grid
    ic: Tensor | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.f, Tensor) or not isinstance(self.u, Tensor):
            given = f"{type(self.f).__name__} and {type(self.u).__name__}"
            raise TinoError(f"f and u must be torch tensors, got {given}: wrap arrays in torch.as_tensor")
        check_input(self.f, self.time, self.inputs, "f")
        check_values(self.u, "u")
        expected = (self.f.shape[0], self.time.n, self.outputs.size)
        if tuple(self.u.shape) != expected:
            raise TinoError(f"u has shape {tuple(self.u.shape)}, expected {expected} = (samples, times, points)")
        if self.ic is not None:
            if not isinstance(self.ic, Tensor):
                raise TinoError(f"ic must be a torch tensor, got {type(self.ic).__name__}")
            check_values(self.ic, "ic")
            if self.ic.ndim != 2 or self.ic.shape[0] != self.f.shape[0]:
                raise TinoError(f"ic has shape {tuple(self.ic.shape)}, expected ({self.f.shape[0]}, state size)")

    def __len__(self) -> int:
        return self.f.shape[0]

    @property
    def name(self) -> str:
        """The name of the problem, or 'own data'."""
        return str(self.meta.get("problem", "own data"))

    def take(self, samples: slice | Tensor) -> "Dataset":
        """A dataset of only the given samples."""
        ic = None if self.ic is None else self.ic[samples]
        return replace(self, f=self.f[samples], u=self.u[samples], ic=ic)


def check_values(values: Tensor, name: str) -> None:
    """Check for a floating-point type, at least one sample, and no NaN or inf."""
    if not values.is_floating_point():
        raise TinoError(f"{name} has dtype {values.dtype}, expected a floating type such as torch.float32")
    if values.shape[:1] == (0,):
        raise TinoError(f"{name} has no samples")
    rows = values.reshape(len(values), -1)
    finite = torch.cat([torch.isfinite(part).all(1) for part in rows.split(64)])  # in parts, to save memory
    if not bool(finite.all()):
        bad = int((~finite).sum())
        first = int((~finite).nonzero()[0])
        raise TinoError(f"{name} has NaN or infinite values in {bad} of {len(values)} samples, first in {first}")


def check_input(f: Tensor, time: TimeGrid, inputs: Grid, name: str = "f") -> None:
    """Check a forcing from outside: finite, with shape (n, t, m) on the given grids."""
    if f.ndim != 3:
        raise TinoError(f"{name} has shape {tuple(f.shape)}, expected (samples, {time.n} times, {inputs.size} sensors)")
    if f.shape[2] != inputs.size:
        raise TinoError(f"{name} has {f.shape[2]} sensors, expected {inputs.size}")
    if f.shape[1] != time.n:
        raise TinoError(f"{name} has {f.shape[1]} times, expected {time.n}")
    check_values(f, name)


def _arrays(file: h5py.File) -> dict[str, dict[str, h5py.Dataset]]:
    """The arrays of each split, by name."""
    groups: Any = file  # h5py's type hints do not cover nested groups
    return {split: {name: groups[split][name] for name in sorted(groups[split])} for split in SPLITS}


def _mapped(path: str | os.PathLike[str], array: h5py.Dataset) -> Tensor:
    """The array as a memory-mapped tensor: read on access, copied on write."""
    offset = array.id.get_offset()
    if offset is None:
        raise KeyError(f"{array.name} is not stored in one piece")
    return torch.from_numpy(np.memmap(path, array.dtype, "c", offset, array.shape))


def checksum(file: h5py.File, advance: Callable[[int], None] = lambda size: None) -> str:
    """The SHA-256 of all arrays, read in pieces. ``advance`` is called with the size of each piece in bytes."""
    digest = hashlib.sha256()
    for arrays in _arrays(file).values():
        for array in arrays.values():
            for first in range(0, len(array), 64):
                piece = array[first : first + 64]
                digest.update(piece)
                advance(piece.nbytes)
    return digest.hexdigest()


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The metadata record of a dataset file, without reading its arrays."""
    with _open(Path(path)) as (_, record):
        return record


def load_dataset(path: str | os.PathLike[str]) -> tuple[Dataset, Dataset]:
    """Read and check a dataset file -> (train, test)."""
    with _open(Path(path)) as (file, record):
        size = Path(path).stat().st_size
        with progress(f"checking {Path(path).name}", size, show=size > LARGE) as advance:
            found = checksum(file, advance)
        if found != record["checksum"]:
            raise TinoError(f"{path} is damaged (its checksum differs): delete it and generate it again")
        arrays = {s: {k: _mapped(path, a) for k, a in v.items()} for s, v in _arrays(file).items()}
    try:
        time = TimeGrid(**record["time"])
        inputs, outputs = grid_from_record(record["inputs"]), grid_from_record(record["outputs"])
    except (KeyError, TypeError) as error:
        raise TinoError(f"{path} has a damaged record ({error}): delete it and generate it again") from error
    train, test = (
        Dataset(a["f"], a["u"], time, inputs, outputs, a.get("ic"), {**record, "split": split})
        for split, a in arrays.items()
    )
    return train, test


def read_arrays(path: str | os.PathLike[str]) -> Dataset:
    """Read your own data from an .npz file: f (n, t, m) or (n, t), u likewise, times t (t,), and optionally ic (n, k).

    The positions of sensors and points are not needed; they are numbered 0, 1, 2, ...
    """
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            found = {name: np.asarray(file[name]) for name in file.files}
            arrays = {k: torch.from_numpy(v.astype(v.dtype.newbyteorder("="))) for k, v in found.items()}
    except FileNotFoundError:
        raise TinoError(f"no file {path}") from None
    except (OSError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise TinoError(f"{path} is not a readable .npz file of plain arrays: {error}") from error
    if missing := [name for name in ("f", "u", "t") if name not in arrays]:
        raise TinoError(f"{path} lacks {' and '.join(missing)}: it needs arrays f (n, t, m), u (n, t, x) and t (t,)")
    f, u, t = arrays["f"], arrays["u"], arrays["t"].double()
    for name, values in (("f", f), ("u", u)):
        if values.ndim not in (2, 3):
            raise TinoError(
                f"{name} has shape {tuple(values.shape)}, expected (samples, times) or (samples, times, points)"
            )
    f, u = (values[..., None] if values.ndim == 2 else values for values in (f, u))
    if t.ndim != 1 or len(t) < 2 or not torch.allclose(t.diff(), (t[-1] - t[0]) / (len(t) - 1), rtol=1e-3, atol=0):
        raise TinoError(f"the times t of {path} must be one-dimensional, rising in equal steps")
    grids = [Point() if v.shape[-1] == 1 else Interval(0, v.shape[-1] - 1, v.shape[-1]) for v in (f, u)]
    time = TimeGrid(float(t[0]), float(t[-1]), len(t))
    return Dataset(f, u, time, grids[0], grids[1], arrays.get("ic"), {"problem": Path(path).name})


@contextmanager
def _open(path: Path) -> Iterator[tuple[h5py.File, dict[str, Any]]]:
    """Open a dataset file -> the file and its record. Anything wrong with it raises a one-line error."""
    if not path.is_file():
        raise TinoError(f"no dataset file {path}")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise TinoError(
            f"{path} is not a complete dataset file (truncated, or another kind): move it away to generate it again, "
            "or give your own data as .npz"
        ) from error
    with file:
        try:
            record = json.loads(str(file.attrs["tino"]))
            found = record["format"]
        except (KeyError, ValueError, TypeError, OSError) as error:
            raise TinoError(f"{path} is an HDF5 file but not a tino dataset: move it away") from error
        if found != DATA_FORMAT:
            raise TinoError(f"{path} has dataset format {found}, this version reads format {DATA_FORMAT}")
        try:
            yield file, record
        except (OSError, KeyError) as error:
            raise TinoError(f"{path} is damaged ({error}): delete it and generate it again") from error
