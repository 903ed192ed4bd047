"""Arrays in, the same kind out: numpy arrays, and xarray's with their coordinates.

A model takes f (n, t, m). Here f may also be one record, with its points and channels on axes of their own. xarray is
imported by whoever gives an object of it, never here.
"""

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tino.channels import Channel, Channels, split_channels
from tino.data import Signals
from tino.errors import TinoError, TinoWarning, in_short
from tino.frame import Frame
from tino.grids import Grid, Point, Triangle

Predict = Callable[[Tensor, Tensor | None], Tensor]
TIMES, CHANNELS = ("time", "t"), ("channel", "channels")
RECORDS = ("record", "records", "sample", "samples", "case", "run")
AXES = ("x", "y", "z")
SLACK = 1e-3  # of a time step, by which steps of measured times may differ


def answered(frame: Frame, f: Any, ic: Any, predict: Predict) -> Any:
    """The model's answer to an array, in its kind; ``predict`` maps tensors f (n, t, m), ic (n, k) to u (n, t, x)."""
    if isinstance(f, np.ndarray):
        return _on_numpy(frame, f, ic, predict)
    kinds = [(one.__module__.partition(".")[0], one.__name__) for one in type(f).__mro__]
    if ("xarray", "Dataset") in kinds:
        return _on_xarray(frame, _stacked(frame, f), ic, predict)
    if ("xarray", "DataArray") in kinds:
        return _on_xarray(frame, f, ic, predict)
    raise TinoError(f"f is a {type(f).__name__}, expected a torch tensor, a numpy array or an xarray.DataArray")


# -- numpy ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The axes of one time: none, one of all numbers, or those of the grid, with or without one for channels."""

    axes: tuple[int, ...]
    flat: bool

    @staticmethod
    def all_of(signals: Signals) -> tuple["Layout", ...]:
        """Every way to write an input, the plainest first."""
        shape, count, size = signals.inputs.shape, len(signals.input_channels), signals.input_size
        found = [Layout((), True)] if size == 1 else []
        found.append(Layout((size,), True))
        found += [Layout(shape, False)] if shape and count == 1 else []
        return (*found, Layout((*shape, count), False)) if shape else tuple(found)

    def read(self, values: Tensor, signals: Signals) -> Tensor:
        """(n, t, *axes) -> (n, t, m), channel after channel."""
        if not self.flat and len(self.axes) > len(signals.inputs.shape):
            values = values.movedim(-1, 2)
        return values.flatten(2) if values.ndim > 2 else values[..., None]

    def write(self, u: Tensor, signals: Signals) -> Tensor:
        """(n, t, x) -> the outputs with axes like those of the inputs."""
        shape, count = signals.outputs.shape, len(signals.output_channels)
        if self.flat:
            return u[..., 0] if not self.axes and u.shape[-1] == 1 else u
        u = split_channels(u, count).unflatten(-1, shape or (1,))  # (n, t, c, *shape)
        u = u.movedim(2, -1) if shape else u[..., 0]
        return u[..., 0] if count == 1 and len(self.axes) == len(signals.inputs.shape) else u


def _on_numpy(frame: Frame, f: np.ndarray, ic: Any, predict: Predict) -> np.ndarray:
    for layout in Layout.all_of(frame):
        lead = f.ndim - len(layout.axes)
        if (lead == 1 or (lead == 2 and layout.axes)) and f.shape[
            lead:
        ] == layout.axes:  # (n, t) could be (t, channels)
            break
    else:
        known = [
            f"({', '.join(['times', *map(str, one.axes)])}{'' if one.axes else ','})" for one in Layout.all_of(frame)
        ]
        raise TinoError(
            f"f has shape {f.shape}, expected {' or '.join(known)}, or several records (records, times, ...)"
        )
    u = layout.write(_answer(frame, f if lead == 2 else f[None], ic, layout, predict), frame).numpy()
    return (u if lead == 2 else u[0]).astype(_kind(f), copy=False)


def _answer(frame: Frame, f: np.ndarray, ic: Any, layout: Layout, predict: Predict) -> Tensor:
    """f (n, t, *axes) -> u (n, t, x)."""
    states = None if ic is None else np.asarray(ic)
    if states is not None:
        states = _tensor(states[None] if len(f) == 1 and states.ndim == 1 else states, "ic")
    return predict(layout.read(_tensor(f, "f"), frame), states)


def _kind(f: Any) -> Any:
    """The type of the answer's numbers."""
    return f.dtype if f.dtype.kind == "f" else np.float32


def _tensor(values: np.ndarray, name: str) -> Tensor:
    """On the CPU, float32 or float64; whole numbers become float32."""
    if values.dtype.kind not in "fiub":
        raise TinoError(f"{name} has dtype {in_short(values.dtype)}, expected real numbers")
    wide = values.dtype.kind == "f" and values.dtype.itemsize > 4
    return torch.from_numpy(values.astype(np.float64 if wide else np.float32))


# -- xarray --------------------------------------------------------------------------------------------------


def _stacked(frame: Frame, f: Any) -> Any:
    """A Dataset with a variable for each channel, as one DataArray."""
    names, held = [channel.name for channel in frame.input_channels], list(f.data_vars)
    names = held if len(names) == len(held) == 1 else names
    if lacking := [name for name in names if name not in held]:
        expected = f"it holds {in_short(', '.join(map(str, held))) or 'nothing'}"
        raise TinoError(f"the Dataset lacks the input '{lacking[0]}': {expected}, the model reads {', '.join(names)}")
    for name, channel in zip(names, frame.input_channels, strict=True):
        _check_unit(f[name], channel)
    return f[names[0]] if len(names) == 1 else f[names].to_array(CHANNELS[0])


def _on_xarray(frame: Frame, f: Any, ic: Any, predict: Predict) -> Any:
    time, record, others, layout = _dims(frame, f)
    _check_steps(f, time, frame.time.step)
    if len(frame.input_channels) == 1:
        _check_unit(f, frame.input_channels[0])
    elif others and others[-1] in f.coords:
        f = _in_order(f, others[-1], frame.input_channels)
    values = f.transpose(*([] if record is None else [record]), time, *others).values
    u = _answer(frame, values if record is not None else values[None], ic, layout, predict)
    return _labelled(frame, f, u.numpy().astype(_kind(f), copy=False), time, record, others)


def _dims(frame: Frame, f: Any) -> tuple[str, str | None, list[str], Layout]:
    """The names of the time, of the records if there are several, and of the rest, channels last."""
    time = next((name for name in TIMES if name in f.dims), f.dims[0] if f.dims else "")
    others = [name for name in f.dims if name != time]
    sizes = dict(zip(f.dims, f.shape, strict=True))
    unnamed = [name for name in others if name not in (*CHANNELS, *AXES)]
    likely = [name for name in others if name in RECORDS] or unnamed
    for record in (None, *likely):
        rest = sorted((name for name in others if name != record), key=lambda name: name in CHANNELS)
        axes = tuple(sizes[name] for name in rest)
        if found := [layout for layout in Layout.all_of(frame) if layout.axes == axes and time]:
            return time, record, rest, found[0]
    given = ", ".join(f"{name}: {size}" for name, size in sizes.items())
    shape, count = frame.inputs.shape, len(frame.input_channels)
    parts = ["time", *map(str, shape), *([f"channel: {count}"] if count > 1 else [])]
    raise TinoError(
        f"f has the dimensions ({in_short(given)}), the model reads ({', '.join(parts)}), or several records"
    )


def _in_order(f: Any, dim: str, channels: Channels) -> Any:
    """The channels in the model's order, where f names them."""
    held, names = [str(name) for name in f[dim].values], [channel.name for channel in channels]
    if f[dim].dtype.kind not in "UOT" or held == names or len(held) != len(names):
        return f
    if sorted(held) != sorted(names):
        given = in_short(", ".join(held))
        raise TinoError(f"the channels of f are {given}, the model was built for {', '.join(names)}")
    return f.isel({dim: [held.index(name) for name in names]})


def _check_unit(f: Any, channel: Channel) -> None:
    given = str(f.attrs.get("units", ""))
    if given and channel.unit and given != channel.unit:
        told = f"{channel.name} is in {in_short(given)}, the model was trained with {channel.unit}"
        warnings.warn(told, TinoWarning, stacklevel=2)


def _check_steps(f: Any, time: str, step: float) -> None:
    """The time coordinate, where there is one, must have the model's step; dates are read in seconds."""
    t = np.asarray(f[time].values) if time in f.coords else np.empty(0)
    if len(t) < 2 or t.dtype.kind not in "iufmM":
        return
    dates = t.dtype.kind in "mM"
    steps = (np.diff(t).astype("timedelta64[ns]") if dates else np.diff(t)).astype(float) * (1e-9 if dates else 1.0)
    if not np.allclose(steps, step, rtol=SLACK, atol=0):
        low, high = steps.min(), steps.max()
        given = f"{low:g}" if math.isclose(low, high, rel_tol=SLACK) else f"{low:g} to {high:g}"
        raise TinoError(f"the steps of f along {time} are {given}, the model's are {step:g}: interpolate f to these")


def _labelled(frame: Frame, f: Any, u: np.ndarray, time: str, record: str | None, others: Sequence[str]) -> Any:
    """u (n, t, x) as a DataArray, or of several channels as a Dataset, with coordinates and units."""
    xarray = sys.modules["xarray"]
    lead = [name for name in f.dims if name in (time, record)]
    own = others[: len(frame.inputs.shape)] if frame.inputs == frame.outputs else ()
    space, coords = _space(frame.outputs, own)
    kept = {name: one for name, one in f.coords.items() if set(one.dims) <= set(lead) and name not in coords}
    blocks = u.reshape(*u.shape[:2], len(frame.output_channels), *frame.outputs.shape)
    blocks = blocks if record is not None else blocks[0]
    blocks = blocks.swapaxes(0, 1) if lead[-1] == record else blocks
    made = {
        channel.name: xarray.DataArray(
            np.take(blocks, i, axis=len(lead)),
            {**kept, **coords},
            [*lead, *space],
            channel.name,
            {"units": channel.unit} if channel.unit else {},
        )
        for i, channel in enumerate(frame.output_channels)
    }
    return xarray.Dataset(made) if len(made) > 1 else next(iter(made.values()))


def _space(grid: Grid, own: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The dimensions of a grid, by these names where they fit, and their coordinates."""
    points = grid.points.numpy()
    if isinstance(grid, Point):
        return [], {}
    if isinstance(grid, Triangle):
        return ["point"], {name: ("point", points[:, i]) for i, name in enumerate(AXES[:2])}
    names = list(own if len(own) == len(grid.shape) else AXES[: len(grid.shape)])
    table = points.reshape(*grid.shape, -1)
    lines = [np.moveaxis(table[..., i], i, 0).reshape(n, -1)[:, 0] for i, n in enumerate(grid.shape)]
    return names, {name: (name, line) for name, line in zip(names, lines, strict=True)}
