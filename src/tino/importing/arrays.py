"""Datasets from arrays in memory: numpy's, torch's, lists of records of different lengths, xarray's."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tino.channels import Channel
from tino.data import Dataset
from tino.errors import TinoError, in_short
from tino.importing.content import Content, Variable
from tino.importing.options import ImportOptions
from tino.importing.records import CHANNELS, RECORDS, TIMES, Record, Side, read_records, same_side
from tino.importing.repairs import repaired
from tino.importing.whole import together

WHERE = "the arrays"
AXES = {1: ("time",), 2: ("record", "time"), 3: ("record", "time", "channel"), 4: ("record", "time", "x", "channel")}


def from_arrays(
    f: Any,
    u: Any,
    *,
    dt: float | None = None,
    t: Any = None,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    input_units: Sequence[str] = (),
    output_units: Sequence[str] = (),
    input_points: Any = None,
    output_points: Any = None,
    periodic: bool = False,
    burn_in: int = 0,
) -> Dataset:
    """Inputs f and outputs u -> a dataset.

    f and u are (times,), (records, times), (records, times, channels) or (records, times, points, channels), or lists
    of records without the first axis, which may differ in length. With points (n,) or (n, d), the axis after the times
    is points. xarray's arrays and datasets keep their names, units and coordinates. Give the times t or the step dt.
    """
    options = ImportOptions(dt=dt, periodic=periodic, burn_in=burn_in)
    records: list[Record] = []
    sides: tuple[Side, Side] | None = None
    count = len(f) if isinstance(f, list | tuple) else 1
    for i in range(count):
        parts = [
            _variables(side, name, points, i)
            for side, name, points in ((f, "f", input_points), (u, "u", output_points))
        ]
        variables: dict[str, tuple[Variable, np.ndarray]] = {**parts[0][0], **parts[1][0]}
        if clash := [name for name in parts[0][1] if name in parts[1][1]]:
            raise TinoError(f"'{clash[0]}' is the name of an input and of an output: rename one")
        if t is not None:
            given = _plain(
                t[i] if isinstance(t, list | tuple) and isinstance(f, list | tuple) and np.ndim(t[0]) else t, "t"
            )
            variables["t"] = Variable(given.shape, "", ("time",) if given.ndim == 1 else ("record", "time")), given
        content = Content(
            WHERE, {name: about for name, (about, _) in variables.items()}, {k: v for k, (_, v) in variables.items()}
        )
        found, *both = read_records(content, parts[0][1], parts[1][1], options)
        records += [replace(record, number=i + 1) if count > 1 else record for record in found]
        sides = sides or (both[0], both[1])
        same_side(sides[0], both[0], "record 1", f"record {i + 1}", "inputs")
        same_side(sides[1], both[1], "record 1", f"record {i + 1}", "outputs")
    if sides is None:
        raise TinoError("f has no records")
    first = _named(sides[0], input_names, input_units, "input")
    second = _named(sides[1], output_names, output_units, "output")
    fixed, step, _ = repaired(records, first, second, options)
    return together(fixed, first, second, step, options)


def _variables(side: Any, name: str, points: Any, i: int) -> tuple[dict[str, tuple[Variable, np.ndarray]], list[str]]:
    """The variables of f or u, with what xarray knows of their axes, and which of them are channels."""
    listed = isinstance(side, list | tuple)
    if listed and i >= len(side):
        raise TinoError(f"{name} has {len(side)} records, fewer than the other side")
    one = side[i] if listed else side
    if hasattr(one, "data_vars"):
        arrays = {str(key): value for key, value in one.data_vars.items()}
    elif hasattr(one, "dims") and hasattr(one, "coords"):
        arrays = {str(one.name or name): one}
    else:
        return _of_numpy(_plain(one, name), name, points, listed), [name]
    found: dict[str, tuple[Variable, np.ndarray]] = {}
    for key, array in arrays.items():
        dims = tuple(map(str, array.dims))
        if not any(axis.lower() in TIMES for axis in dims):
            k = next((k for k, axis in enumerate(dims) if axis.lower() not in (*RECORDS, *CHANNELS)), 0)
            dims = (*dims[:k], "time", *dims[k + 1 :])
        unit = str(array.attrs.get("units", ""))
        values = _plain(array.values, key)
        found[key] = (Variable(values.shape, unit, dims), values)
        for axis, own in zip(dims, map(str, array.dims), strict=True):
            if own in array.coords and np.ndim(array.coords[own]) == 1:
                steps = _times(array.coords[own].values)
                found[axis] = (Variable(steps.shape, str(array.coords[own].attrs.get("units", "")), (axis,)), steps)
    return found, list(arrays)


def _times(values: np.ndarray) -> np.ndarray:
    """Numbers as they are, dates as seconds after the first."""
    if values.dtype.kind == "M":
        return (values - values[0]) / np.timedelta64(1, "s")
    return values.astype(float) if values.dtype.kind in "fiu" else np.arange(len(values), dtype=float)


def _of_numpy(values: np.ndarray, name: str, points: Any, listed: bool) -> dict[str, tuple[Variable, np.ndarray]]:
    ndim = values.ndim + listed
    if ndim not in AXES or (listed and ndim == 1):
        shapes = "(times,), (records, times), with channels, or with points and channels"
        raise TinoError(f"{name} has shape {values.shape}, expected {shapes}")
    axes = AXES[ndim]
    if points is not None and ndim == 3:
        axes = ("record", "time", "x")
    axes = tuple(f"{name}-{axis}" if axis == "x" else axis for axis in axes[listed:])
    found = {name: (Variable(values.shape, "", axes), values)}
    if points is not None:
        places = _plain(points, f"points of {name}").astype(float)
        if f"{name}-x" not in axes or len(places) != values.shape[axes.index(f"{name}-x")]:
            raise TinoError(f"{len(places)} points do not fit {name} of shape {values.shape}")
        found[f"{name}-x"] = (Variable(places.shape, "", (f"{name}-x", "")[: places.ndim]), places)
    return found


def _plain(values: Any, name: str) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        found = np.asarray(values)
        kind = np.float64 if found.dtype == np.float64 else np.float32
        return found.astype(kind) if found.dtype.kind in "fiub" else np.asarray(found, float)
    except (TypeError, ValueError) as error:
        raise TinoError(f"{name} is not an array of numbers: {in_short(error)}") from error


def _named(side: Side, names: Sequence[str], units: Sequence[str], word: str) -> Side:
    names = [names] if isinstance(names, str) else list(names)
    units = [units] if isinstance(units, str) else list(units)
    for what, given in (("names", names), ("units", units)):
        if given and len(given) != len(side.channels):
            raise TinoError(
                f"{word}_{what} has {len(given)} entries, expected {len(side.channels)}: one for each channel"
            )
    names = names or [channel.name for channel in side.channels]
    units = units or [channel.unit for channel in side.channels]
    return replace(side, channels=tuple(Channel(*pair) for pair in zip(names, units, strict=True)))
