"""Which reader a file needs, by its first bytes; numpy's own files, and tino's, are read here."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tino.errors import TinoError, in_short
from tino.importing.content import Content, Variable, split_unit
from tino.importing.outside import OUTSIDE
from tino.importing.table import read_table
from tino.storage import END, array_header, is_workbook, read_npz

HDF5 = b"\x89HDF\r\n\x1a\n"
NPZ = (b"PK\x03\x04", b"PK\x05\x06")


def open_file(path: Path) -> Content:
    """What the file holds."""
    kind = kind_of(path)
    if kind == "npz":
        return _of_arrays(path, read_npz(path))
    if kind == "npy":
        return _of_one_array(path)
    if kind == "text":
        return read_table(path)
    found = OUTSIDE.read(path, kind)
    if not found.variables:
        raise TinoError(f"{path} holds no arrays of numbers")
    return replace(found, more=partial(_more, path, kind))


def _more(path: Path, kind: str, names: list[str]) -> Mapping[str, np.ndarray]:
    return OUTSIDE.read(path, kind, names).values


def kind_of(path: Path) -> str:
    """npz, npy, hdf5, netcdf3, mat, or text."""
    try:
        if path.is_dir():
            raise TinoError(f"{path} is a folder, expected a file: name those in it, such as {path}/*.csv")
        if not path.is_file():
            raise TinoError(f"no file {path}" if not path.exists() else f"{path} is not a plain file")
        with open(path, "rb") as file:
            start = file.read(520)
    except OSError as error:
        raise TinoError(f"cannot read {path}: {error.strerror or error}") from error
    if not start:
        raise TinoError(f"{path} is empty")
    if start.startswith(NPZ):
        if is_workbook(path):
            raise TinoError(f"{path} is an Excel workbook: save its sheet as CSV, and import that")
        return "npz"
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith(HDF5) or start[512:520] == HDF5:  # MATLAB 7.3 puts a text before it
        return "hdf5"
    if start.startswith((b"CDF\x01", b"CDF\x02")):
        return "netcdf3"
    if start.startswith(b"MATLAB 5.0 MAT-file") or path.suffix.lower() == ".mat":
        return "mat"
    return "text"


def is_own(path: Path) -> bool:
    """Whether it is a dataset file that tino wrote."""
    with open(path, "rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - len(END)))
        return file.read() == END


def _of_arrays(path: Path, arrays: dict[str, np.ndarray]) -> Content:
    kept = {name: array for name, array in arrays.items() if array.dtype.kind in "fiub" and array.size}
    if not kept:
        raise TinoError(f"{path} holds no arrays of numbers")
    names = {name: split_unit(name) for name in kept}
    first: dict[str, str] = {}
    for name, (plain, _) in names.items():
        if (other := first.setdefault(plain, name)) != name:
            both = f"'{in_short(other, 40)}' and '{in_short(name, 40)}'"
            raise TinoError(f"{path} has two arrays named '{in_short(plain, 40)}', {both}: rename one")
    variables = {
        plain: Variable(kept[name].shape, unit, ("",) * kept[name].ndim, *_of_channels(arrays, name))
        for name, (plain, unit) in names.items()
    }
    values = {plain: floats(kept[name]) for name, (plain, _) in names.items()}
    return Content(str(path), {name: one.as_vector() for name, one in variables.items()}, _as_vectors(values))


def _of_channels(arrays: dict[str, np.ndarray], name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names and the units of an array's channels, as in f_names and f_units."""
    names, units = (arrays.get(f"{name}_{what}", np.array([])) for what in ("names", "units"))
    both = (tuple(one.ravel().tolist()) if one.dtype.kind == "U" else () for one in (names, units))
    return next(both), next(both)


def _as_vectors(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array.reshape(Variable(array.shape).as_vector().shape) for name, array in values.items()}


def floats(array: np.ndarray) -> np.ndarray:
    """float32 where that holds them, else float64: whole numbers may be large."""
    return array.astype(np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64)


def _of_one_array(path: Path) -> Content:
    """(times,), (times, columns) or (records, times, columns); the columns are numbered."""
    try:
        with open(path, "rb") as file:
            shape, dtype, header = array_header(file)
        if dtype.kind not in "fiub":
            raise ValueError(f"it holds {in_short(dtype, 40)}, expected numbers")
        if min(shape, default=0) < 1 or header + math.prod(shape) * dtype.itemsize > path.stat().st_size:
            raise ValueError(f"it claims shape {in_short(shape, 40)}, which is more than it holds, or nothing")
        array = floats(np.load(path, allow_pickle=False))
    except Exception as error:  # numpy's parser of headers raises many kinds
        raise TinoError(f"{path} is not a readable .npy file ({in_short(error)})") from error
    if array.ndim > 3:
        raise TinoError(f"{path} has shape {array.shape}, expected (times,), (times, columns) or with records first")
    array = array[:, None] if array.ndim == 1 else array
    axes = ("time",) if array.ndim == 2 else ("record", "time")
    columns = {str(j + 1): array[..., j] for j in range(array.shape[-1])}
    return Content(str(path), {name: Variable(one.shape, "", axes) for name, one in columns.items()}, columns)
