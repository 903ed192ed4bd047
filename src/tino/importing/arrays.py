"""Datasets from arrays in memory: numpy's, torch's, lists of records of different lengths, xarray's."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tino.channels import Channel
from tino.data import Dataset
from tino.errors import TinoError, TinoWarning, counted, in_short
from tino.importing.choice import same_side
from tino.importing.content import Content, Variable
from tino.importing.options import ImportOptions
from tino.importing.plain import floats
from tino.importing.records import CHANNELS, RECORDS, TIMES, Record, Side, read_records
from tino.importing.repairs import SAME, repaired
from tino.importing.whole import together

WHERE = "the dataset"
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
    resample: bool = False,
    cut: bool = False,
    drop: bool = False,
    fill: bool = False,
) -> Dataset:
    """Inputs f and outputs u -> a dataset.

    f and u are (times,), (records, times), (records, times, channels) or (records, times, points, channels), or lists
    of records without the first axis, which may differ in length. With points (n,) or (n, d), the axis after the times
    is points. xarray's arrays and datasets keep their names, units and coordinates. Give the times t or the step dt.
    resample, cut, drop and fill are the repairs of ``ImportOptions``. What was repaired or left out is a warning.
    """
    repairs = ImportOptions(resample=resample, cut=cut, drop=drop, fill=fill)
    options = replace(repairs, dt=dt, periodic=periodic, burn_in=burn_in, time=None if t is None else "t")
    records: list[Record] = []
    sides: tuple[Side, Side] | None = None
    count = _count(f, u, t)
    for i in range(count):
        inputs, outputs = _part(f, "f", input_points, i), _part(u, "u", output_points, i)
        if t is None:
            _check_coordinates(inputs, outputs)
        if dt is None and t is None and inputs.time is None and outputs.time is None:
            raise TinoError("f and u have no times: give dt, the time step, or t, the times")
        if clash := [name for name in inputs.channels if name in outputs.channels]:
            raise TinoError(f"'{clash[0]}' is the name of an input and of an output: rename one")
        values = {**inputs.values, **outputs.values}
        variables = {**inputs.variables, **outputs.variables}
        if t is not None:
            values["t"] = _plain(t[i] if _listed(t) and _listed(f) and np.ndim(t[0]) else t, "t")
            variables["t"] = Variable(values["t"].shape, "", ("record", "time")[-values["t"].ndim :])
        content = Content(WHERE, variables, values)
        found, *both = read_records(content, inputs.channels, outputs.channels, options)
        records += [replace(record, number=i + 1) if count > 1 else record for record in found]
        sides = sides or (both[0], both[1])
        same_side(sides[0], both[0], "record 1", f"record {i + 1}", "inputs")
        same_side(sides[1], both[1], "record 1", f"record {i + 1}", "outputs")
    if sides is None:
        raise TinoError("f has no records")
    first = _named(sides[0], input_names, input_units, "input")
    second = _named(sides[1], output_names, output_units, "output")
    fixed, step, notes = repaired(records, first, second, options)
    advice = (line for record in fixed for line in record.content.advice)
    for note in dict.fromkeys([*notes, *advice]):
        warnings.warn(note, TinoWarning, stacklevel=2)
    return together(fixed, first, second, step, options)


@dataclass(frozen=True)
class Part:
    """The variables of f or u, with what xarray knows of their axes, and which of them are channels."""

    channels: list[str]
    variables: dict[str, Variable] = field(default_factory=dict)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    begins: dict[str, Any] = field(default_factory=dict)  # of axes that are dates: the first

    def add(self, name: str, values: np.ndarray, axes: tuple[str, ...], unit: str = "") -> None:
        self.variables[name], self.values[name] = Variable(values.shape, unit, axes), values

    @property
    def time(self) -> str | None:
        """The variable with the times."""
        return next((name for name in self.values if name.lower() in TIMES and name not in self.channels), None)


def _listed(side: Any) -> bool:
    return isinstance(side, list | tuple)


def _count(f: Any, u: Any, t: Any) -> int:
    """The number of records in the lists; 1 if there are none."""
    if _listed(f) != _listed(u):
        one, other = ("f", "u") if _listed(f) else ("u", "f")
        raise TinoError(f"{one} is a list of records, {other} is one array: give two lists, or two arrays")
    if not _listed(f):
        return 1
    if len(f) != len(u):
        raise TinoError(f"f has {counted(len(f), 'record')}, u has {len(u)}: give each input its output")
    if _listed(t) and len(t) and np.ndim(t[0]) and len(t) != len(f):
        raise TinoError(f"t has the times of {counted(len(t), 'record')}, f has {len(f)}")
    return len(f)


def _part(side: Any, name: str, points: Any, i: int) -> Part:
    one = side[i] if _listed(side) else side
    if hasattr(one, "data_vars"):
        arrays = {str(key): value for key, value in one.data_vars.items()}
    elif hasattr(one, "dims") and hasattr(one, "coords"):
        arrays = {str(one.name or name): one}
    else:
        return _of_numpy(_plain(one, name), name, points, _listed(side))
    found = Part(list(arrays))
    for key, array in arrays.items():
        dims = tuple(map(str, array.dims))
        if not any(axis.lower() in TIMES for axis in dims):
            k = next((k for k, axis in enumerate(dims) if axis.lower() not in (*RECORDS, *CHANNELS)), 0)
            dims = (*dims[:k], "time", *dims[k + 1 :])
        found.add(key, _plain(array.values, key), dims, str(array.attrs.get("units", "")))
        for axis, own in zip(dims, map(str, array.dims), strict=True):
            if own in array.coords and np.ndim(array.coords[own]) == 1:
                places = array.coords[own].values
                found.add(axis, _numbers(places), (axis,), str(array.coords[own].attrs.get("units", "")))
                if places.dtype.kind == "M" and len(places):
                    found.begins[axis] = places[0]
    return found


def _numbers(values: np.ndarray) -> np.ndarray:
    """Numbers as they are, dates as seconds after the first."""
    if values.dtype.kind == "M":
        return (values - values[0]) / np.timedelta64(1, "s")
    return values.astype(float) if values.dtype.kind in "fiu" else np.arange(len(values), dtype=float)


def _check_coordinates(inputs: Part, outputs: Part) -> None:
    """An error if the times of the inputs are not those of the outputs, or if an axis of both has two meanings."""
    aside = (*inputs.channels, *CHANNELS)
    shared = [(name, name) for name in inputs.values if name in outputs.values and name.lower() not in aside]
    for one, other in dict.fromkeys([(inputs.time, outputs.time), *shared]):
        if one is None or other is None:
            continue
        first, second = inputs.values[one], outputs.values[other]
        near = SAME * np.abs(np.diff(first)).min() if len(first) > 1 else 0.0
        same = first.shape == second.shape and np.allclose(first, second, rtol=0.0, atol=near, equal_nan=True)
        if same and inputs.begins.get(one) == outputs.begins.get(other):
            continue
        if one != inputs.time:
            raise TinoError(f"the axis '{one}' of f and that of u have different coordinates: rename one of them")
        told = f"f has {_span(inputs, one)}, u has {_span(outputs, other)}"
        raise TinoError(f"the times of f and u differ: {told}: interpolate one at the times of the other")


def _span(part: Part, name: str) -> str:
    values, begin = part.values[name], part.begins.get(name)
    ends = (f"{values[0]:g}", f"{values[-1]:g}") if begin is None else (str(begin), f"{values[-1]:g} s later")
    return f"{len(values)} from {ends[0]} to {ends[1]}" if len(values) else "none"


def _of_numpy(values: np.ndarray, name: str, points: Any, listed: bool) -> Part:
    ndim = values.ndim + listed
    if ndim not in AXES or (listed and ndim == 1):
        shapes = "(times,), (records, times), with channels, or with points and channels"
        raise TinoError(f"{name} has shape {values.shape}, expected {shapes}")
    axes = AXES[ndim]
    if points is not None and ndim == 3:
        axes = ("record", "time", "x")
    axes = tuple(f"{name}-{axis}" if axis == "x" else axis for axis in axes[listed:])
    found = Part([name])
    found.add(name, values, axes)
    if points is not None:
        places = _plain(points, f"points of {name}").astype(float)
        if f"{name}-x" not in axes or len(places) != values.shape[axes.index(f"{name}-x")]:
            raise TinoError(f"{len(places)} points do not fit {name} of shape {values.shape}")
        found.add(f"{name}-x", places, (f"{name}-x", "")[: places.ndim])
    return found


def _plain(values: Any, name: str) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        found = np.asarray(values)
        return floats(found) if found.dtype.kind in "fiub" else np.asarray(found, float)
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
