"""Where datasets come from: a problem by name, a saved dataset, or records of your own in an .npz file."""

import hashlib
import os
import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tino.channels import INPUT, OUTPUT, Channel, Channels, numbered
from tino.data import Dataset
from tino.errors import TinoError, TinoWarning, counted, in_short, nearest
from tino.generation import dataset
from tino.grids import Grid, Interval, Point, TimeGrid
from tino.options import DataOptions
from tino.problems import problem, problem_names
from tino.split import split_records
from tino.storage import IMPORT, kind_of, load_dataset, read_npz, read_record

MANY = 4  # channels of points without coordinates: these may be two axes of a field
KNOWN = ("f", "u", "t", "ic", "lengths", "title", "starts", "labels")
KNOWN += tuple(f"{name}_{what}" for name in ("f", "u") for what in ("points", "names", "units"))


@dataclass(frozen=True)
class Source:
    """The name of a problem, or the path of a file."""

    text: str

    @property
    def is_problem(self) -> bool:
        return self.text in problem_names()

    @property
    def name(self) -> str:
        """The problem's name, or the file's without its extension: the name used in runs and results."""
        return self.text if self.is_problem else file_name(self.text)

    @property
    def place(self) -> str:
        """The source as seen from any folder: a file's absolute path."""
        return self.text if self.is_problem else str(Path(self.text).resolve())

    def fingerprint(self) -> str | None:
        """A hash of the file's current contents; None for a problem, which is determined by its options."""
        if self.is_problem:
            return None
        return _checksum(read_npz(self.text)) if self.text.endswith(".npz") else str(read_record(self.text)["checksum"])

    def check(self, options: DataOptions) -> None:
        """Everything that can be checked before data are made or read."""
        if self.is_problem:
            options.problem(self.text)
            return
        path = Path(self.text)
        if not path.exists():
            if near := [f"{self.text}{end}" for end in (".npz", ".h5") if Path(f"{self.text}{end}").exists()]:
                raise TinoError(f"no problem named '{self.text}': did you mean the file {near[0]}?")
            if path.suffix not in (".npz", ".h5"):
                problem(self.text)  # raises an error that names the nearest one
            raise TinoError(f"no file {self.text}")
        if path.suffix not in (".npz", ".h5") and (found := kind_of(path)) != "HDF5":
            if found == "zip":
                raise TinoError(f"{path} looks like an .npz file: rename it to {path.name}.npz")
            raise TinoError(f"{path} {found}: {IMPORT}")
        if options.overrides():
            raise TinoError(f"n_t, resolution and set apply to problems only, {self.text} is a file")

    def load(
        self, options: DataOptions, seed: int = 0, device: torch.device | str = "cpu", show_progress: bool = True
    ) -> tuple[Dataset, Dataset]:
        """The training and the test set; the seed generates a problem's data, or draws the test records of an .npz."""
        self.check(options)
        if self.is_problem:
            chosen = options.problem(self.text)
            train, test = dataset(chosen, seed, *options.counts(), options.cache, device, show_progress)
            about = {"title": chosen.title}
            return _with_meta(train, about), _with_meta(test, about)
        if self.text.endswith(".npz"):
            return split_records(read_arrays(self.text), options.train, options.test, seed)
        train, test = load_dataset(self.text)
        # the file has its own name, and its data may differ from those of the problem it was made from
        about = {"title": str(train.meta.get("title", train.name)), "problem": self.name, "parameters_sha256": None}
        sets = zip((train, test), (options.train, options.test), strict=True)
        train, test = (replace(_first(d, count), meta={**d.meta, **about}) for d, count in sets)
        return train, test


def file_name(path: str) -> str:
    """The file's name without its extension, valid as a folder name and never the name of a problem."""
    name = re.sub(r"[^\w.-]", "_", Path(path).stem).lstrip(".") or "data"
    return f"{name}-file" if name in problem_names() else name


def fingerprint(data: Dataset) -> str:
    """A hash that identifies the data: of a problem's parameters, the same on every machine, or of all bytes."""
    return str(data.meta.get("parameters_sha256") or data.meta["checksum"])


def _with_meta(data: Dataset, about: dict[str, str]) -> Dataset:
    return replace(data, meta={**about, **data.meta})


def _first(data: Dataset, count: int | None) -> Dataset:
    if count is None:
        return data
    if not 1 <= count <= len(data):
        raise TinoError(f"{count} samples were asked for, {data.name} has {len(data)}")
    return data.take(slice(count))


# -- records of your own -------------------------------------------------------------------------------------


def read_arrays(path: str | os.PathLike[str]) -> Dataset:
    """Your own records from an .npz file.

    Required: f and u as (records, times), (records, times, channels) or (records, times, points, channels), and the
    times t; a single record may lack the first axis. If the third axis is points rather than channels, f_points or
    u_points hold their coordinates. Optional: ic (records, k), lengths (records,) if records end early, f_names,
    f_units, u_names, u_units, and a title. Starts and labels (records,), as predict writes them, are checked but not
    kept.
    """
    arrays = read_npz(path)
    if missing := [name for name in ("f", "u", "t") if name not in arrays]:
        lacks = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        raise TinoError(f"{path} lacks {lacks}, it holds {in_short(', '.join(arrays)) or 'nothing'}: {IMPORT}")
    if unused := [name for name in arrays if name not in KNOWN]:
        raise TinoError(f"{path} holds an array '{unused[0]}' that tino does not know: {nearest(unused[0], KNOWN)}")
    time, checksum, arrays = _times(path, arrays["t"]), _checksum(arrays), _as_records(path, arrays)
    lengths = _lengths(path, arrays) if "lengths" in arrays else None
    f, inputs, input_channels = _signal(path, arrays, "f", INPUT, time.n)
    u, outputs, output_channels = _signal(path, arrays, "u", OUTPUT, time.n)
    for values, channels in ((f, input_channels), (u, output_channels)):
        _check_finite(path, values, channels, time, lengths)
    for name in ("starts", "labels"):
        if name in arrays and (
            arrays[name].shape != f.shape[:1] or not bool(_numbers(path, arrays, name).isfinite().all())
        ):
            raise TinoError(f"{name} of {path} has shape {arrays[name].shape}, expected a number for each record")
    about = {"problem": file_name(str(path)), "checksum": checksum}
    if "title" in arrays:
        about["title"] = _texts(path, arrays, "title")[0]
    ic = _numbers(path, arrays, "ic") if "ic" in arrays else None
    return Dataset(f, u, time, inputs, outputs, ic, about, input_channels, output_channels, lengths)


def _as_records(path: Any, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """With an axis of records before that of the times, where f and u have none."""
    n_t, sides = len(arrays["t"]), {name: arrays[name] for name in ("f", "u")}
    if any(one.ndim == 0 or (one.ndim > 1 and one.shape[1] == n_t) for one in sides.values()):
        return arrays
    wrong = [name for name, one in sides.items() if len(one) != n_t]
    if len(wrong) == 1 or (wrong and all(one.ndim == 1 for one in sides.values())):
        raise TinoError(f"{path}: {wrong[0]} has {len(sides[wrong[0]])} times, t has {n_t}")
    return arrays if wrong else {**arrays, **{name: one[None] for name, one in sides.items()}}


def _times(path: Any, t: np.ndarray) -> TimeGrid:
    if t.dtype.kind not in "iuf" or t.ndim != 1 or len(t) < 2:
        raise TinoError(f"t of {path} has shape {t.shape} and dtype {t.dtype}, expected two times or more, (times,)")
    if not np.isfinite(t).all():
        raise TinoError(f"t of {path} has NaN or infinite values")
    steps = np.diff(t.astype(float))
    if not np.allclose(steps, steps.mean(), rtol=1e-3, atol=0):
        told = f"the steps of t in {path} range from {steps.min():.3g} to {steps.max():.3g}"
        raise TinoError(f"{told}: resample to equal steps, e.g. with np.interp")
    return TimeGrid(float(t[0]), float(t[-1]), len(t))


def _numbers(path: Any, arrays: dict[str, np.ndarray], name: str) -> Tensor:
    values = arrays[name]
    try:
        found = torch.from_numpy(values.astype(values.dtype.newbyteorder("=")))
    except TypeError as error:
        raise TinoError(f"{name} of {path} has dtype {in_short(values.dtype)}, expected numbers") from error
    return found if found.dtype in (torch.float32, torch.float64) or found.is_complex() else found.to(torch.float32)


def _texts(path: Any, arrays: dict[str, np.ndarray], name: str) -> list[str]:
    """The strings in an array of any shape; empty if it is absent."""
    try:
        return [str(one) for one in arrays.get(name, np.array([])).astype(str).ravel()]
    except (TypeError, ValueError) as error:
        raise TinoError(f"{name} of {path} has dtype {in_short(arrays[name].dtype)}, expected strings") from error


def _lengths(path: Any, arrays: dict[str, np.ndarray]) -> Tensor:
    """Whole numbers, one per record."""
    lengths, records = arrays["lengths"], {len(arrays[name]) for name in ("f", "u") if arrays[name].ndim}
    if records != {lengths.size} or lengths.ndim != 1 or lengths.dtype.kind not in "iuf" or (lengths % 1).any():
        given = f"lengths of {path} has shape {lengths.shape} and dtype {lengths.dtype}"
        raise TinoError(f"{given}, expected a whole number for each record of f and u")
    return torch.from_numpy(lengths.astype(np.int64))


def _signal(
    path: Any, arrays: dict[str, np.ndarray], name: str, default: Channels, n_t: int
) -> tuple[Tensor, Grid, Channels]:
    """Values (n, t, channels x points), the grid and the channels of f or u."""
    values, points = _numbers(path, arrays, name), arrays.get(f"{name}_points")
    if values.ndim not in (2, 3, 4):
        shapes = "(times,), (records, times), (records, times, channels) or (records, times, points, channels)"
        raise TinoError(f"{path}: {name} has shape {tuple(values.shape)}, expected {shapes}")
    if values.shape[1] != n_t:
        expected = ", ".join(["records", str(n_t), *map(str, values.shape[2:])])
        given = f"{path}: {name} has shape {tuple(values.shape)}"
        raise TinoError(f"{given}, but t has {n_t} times: expected ({expected})")
    values = values[..., None] if values.ndim == 2 or (values.ndim == 3 and points is not None) else values
    grid: Grid = Point()
    if values.ndim == 4:
        grid = _line(path, arrays, name, values.shape[2])
    names, units = (_texts(path, arrays, f"{name}_{what}") for what in ("names", "units"))
    count = values.shape[-1]
    for what, given in (("names", names), ("units", units)):
        if len(given) not in (0, count):
            raise TinoError(f"{path} has {len(given)} {name}_{what} for {count} channels")
    named = names or [channel.name for channel in numbered(default, count)]
    channels = tuple(Channel(one, unit) for one, unit in zip(named, units or [""] * count, strict=True))
    if values.ndim == 4 and count >= MANY and points is None and not names:
        told = f"{name} of {path} is read as {values.shape[2]} points with {count} channels"
        field = f"of a field in 2-D, say so: tino import {path} --input f --output u --axes {name}=record,time,x,y"
        warnings.warn(f"{told}: {field}", TinoWarning, stacklevel=3)
    return values.movedim(-1, 2).flatten(2) if values.ndim == 4 else values, grid, channels


def _check_finite(path: Any, values: Tensor, channels: Channels, time: TimeGrid, lengths: Tensor | None) -> None:
    """An error that says where the first value is missing, as that of an import does."""
    bad = ~values.isfinite()
    if lengths is not None and lengths.shape == values.shape[:1]:
        bad &= (torch.arange(values.shape[1]) < lengths[:, None])[..., None]
    if not bool(bad.any()):
        return
    record, row, column = bad.nonzero()[0].tolist()
    others = int(bad.any(2).sum()) - 1
    more = f" (and in {counted(others, 'other row')})" if others else ""
    name = channels[column * len(channels) // values.shape[2]].name
    place = f"{path}, record {record + 1}, row {row + 1} (time {float(time.points[row]):.6g}), column '{name}'"
    fix = f"repair it with tino import {path} --input f --output u and --fill, --cut or --drop"
    raise TinoError(f"{place}: no value{more}, counted from 1: {fix}")


def _line(path: Any, arrays: dict[str, np.ndarray], name: str, count: int) -> Grid:
    """Points on a line, at the given coordinates or numbered."""
    points = arrays.get(f"{name}_points")
    if points is not None and points.dtype.kind not in "iuf":
        raise TinoError(f"{name}_points of {path} has dtype {points.dtype}, expected numbers")
    x = np.arange(count, dtype=float) if points is None else points.astype(float).squeeze()
    if x.shape != (count,) or count < 2 or not np.allclose(np.diff(x), (x[-1] - x[0]) / (count - 1), rtol=1e-3, atol=0):
        told = f"{name}_points of {path} must be {count} coordinates on a line, rising in equal steps"
        raise TinoError(f"{told}: for other points use {_import_with(path, arrays, name)}")
    return Interval(float(x[0]), float(x[-1]), count)


def _import_with(path: Any, arrays: dict[str, np.ndarray], name: str) -> str:
    """The command that reads an array at any points, where the other one has none."""
    told = {side: ["record", "time", "point", "channel"][: arrays[side].ndim] for side in ("f", "u")}
    other = "u" if name == "f" else "f"
    if arrays[other].ndim == 3 and f"{other}_points" not in arrays:
        told[other] = ["record", "time", "channel"]
    axes = " ".join(f"{side}={','.join(told[side])}" for side in ("f", "u"))
    return f"tino import {path} --input f --output u --points {name}_points --axes {axes}"


def _checksum(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
