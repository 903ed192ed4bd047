"""What a model saw in training: the range of its inputs, and the offsets of its outputs and initial states.

An offset is a constant for each channel. A model learns outputs without their offset, and adds it to its answers, so it
stays causal, autonomous and at rest. Inputs are never shifted: physical zero stays zero.
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tino.channels import Channel, Channels, split_channels
from tino.data import Dataset, Signals
from tino.errors import TinoError, TinoWarning

OFFSET = 10.0  # standard deviations: a mean that is farther from zero is an offset
FAR = 0.5  # of the largest magnitude: values farther outside the range are far, as are those a whole range outside
SMALLEST, LARGEST = 1e-15, 1e15  # sizes whose squares, and sums of squares, float32 can hold
FEW, JUMP, ROUNDING = 16, 100.0, 1e-7  # points of a grid; a factor between neighbours' sizes; zero beside another size

Range = tuple[float, float]


@dataclass(frozen=True)
class Seen:
    """The least and the largest value of each input channel and of each quantity in ic, and their offsets.

    Offsets are empty where there are none, and 0 for a channel that is not shifted.
    """

    inputs: tuple[Range, ...] = ()
    states: tuple[Range, ...] = ()
    output_offset: tuple[float, ...] = ()
    state_offset: tuple[float, ...] = ()

    @staticmethod
    def of(train: Dataset) -> "Seen":
        """An error if a channel's size is beyond float32, a warning if the points of a grid look like channels."""
        ranges = check_sizes(train)
        _check_points(train)
        states = () if train.ic is None else _offsets(train.ic[:, None], len(ranges["states"]), None)
        return Seen(ranges["inputs"], ranges["states"], output_offset(train), states)

    def centred(self, data: Dataset) -> Dataset:
        """The data without the offsets; the same object if there are none."""
        if not self.output_offset and not self.state_offset:
            return data
        ic = None if data.ic is None else shifted(data.ic, column(self.state_offset), -1)
        return replace(data, u=shifted(data.u, column(self.output_offset), -1), ic=ic)

    def far_outside(self, signals: Signals, f: Tensor, ic: Tensor | None) -> str | None:
        """What of f (..., m) and ic (b, k) is far outside the ranges, in words; None if nothing is."""
        told = []
        states = () if ic is None else state_channels(signals, ic.shape[-1])
        for channels, values, seen in ((signals.input_channels, f, self.inputs), (states, ic, self.states)):
            if values is None or not seen:
                continue
            for channel, (low, high), (least, most) in zip(channels, seen, _ranges(values, len(seen)), strict=True):
                size = max(abs(low), abs(high))
                room = min(FAR * size, high - low) + ROUNDING * size
                if least < low - room or most > high + room:
                    told.append(f"{channel} from {least:.3g} to {most:.3g}, seen {low:.3g} to {high:.3g}")
        return "; ".join(told) or None

    def check_counts(self, signals: Signals, numbers: int) -> None:
        """Check that a record has one number, or none, for each channel."""
        states = len(signals.output_channels) if numbers == signals.output_size else numbers
        expected = {"inputs": len(signals.input_channels), "states": states, "state_offset": states}
        expected["output_offset"] = len(signals.output_channels)
        for name, count in expected.items():
            if len(getattr(self, name)) not in (0, count):
                raise ValueError(f"{name} has {len(getattr(self, name))} channels, expected {count}")

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Seen":
        inputs, states = (tuple((float(low), float(high)) for low, high in record[key]) for key in ("inputs", "states"))
        offsets = (tuple(map(float, record[key])) for key in ("output_offset", "state_offset"))
        return Seen(inputs, states, *offsets)


def state_channels(signals: Signals, numbers: int) -> Channels:
    """The quantities in an initial state: the outputs' channels if it has their size, else each number is one."""
    if numbers == signals.output_size:
        return tuple(replace(channel, name=f"ic of {channel.name}") for channel in signals.output_channels)
    return tuple(Channel(f"ic number {i + 1}") for i in range(numbers))


def column(offset: tuple[float, ...]) -> Tensor | None:
    """(channels, 1), to be added to (..., channels, points); None if there is no offset."""
    return torch.tensor(offset)[:, None] if offset else None


def shifted(values: Tensor, offset: Tensor | None, sign: int) -> Tensor:
    """(..., c x) plus or minus an offset (c, 1)."""
    if offset is None:
        return values
    return torch.add(split_channels(values, len(offset)), offset, alpha=sign).flatten(-2)


def _sides(data: Dataset) -> Iterator[tuple[str, str, Channels, Tensor]]:
    yield "inputs", "the input ", data.input_channels, data.f
    yield "outputs", "the output ", data.output_channels, data.u
    if data.ic is not None:
        yield "states", "", state_channels(data, data.ic.shape[1]), data.ic


def check_sizes(data: Dataset) -> dict[str, tuple[Range, ...]]:
    """The ranges of inputs, outputs and states, by channel; an error if float32 cannot hold a channel's squares."""
    found: dict[str, tuple[Range, ...]] = {"states": ()}
    for side, word, channels, values in _sides(data):
        found[side] = _ranges(values, len(channels))
        for channel, (low, high) in zip(channels, found[side], strict=True):
            size = max(abs(low), abs(high))
            if size and not SMALLEST <= size <= LARGEST:
                raise TinoError(f"{word}{channel} is of size {size:.0e}, float32 takes 1e-15 to 1e15: change its unit")
    return found


def _ranges(values: Tensor, count: int) -> tuple[Range, ...]:
    """The least and the largest value of each channel of (..., c x)."""
    ends = torch.stack([torch.stack(part.aminmax()) for part in split_channels(values, count).unbind(-2)])
    return tuple((low, high) for low, high in ends.tolist())


def output_offset(data: Dataset) -> tuple[float, ...]:
    """Of each output channel; empty if there is none."""
    return _offsets(data.u, len(data.output_channels), data.mask)


def _offsets(values: Tensor, count: int, mask: Tensor | None) -> tuple[float, ...]:
    """The mean of each channel of (n, t, c x) where it exceeds ten standard deviations, else 0; empty if all are 0.

    Rounded to float32, so that a model has the same offset in every precision.
    """
    parts = values.split(64) if mask is None else values[mask][None].split(4096, 1)
    near = split_channels(values[:1, :1], count).double()[..., :1]  # sums of differences lose no digits
    sums = torch.zeros(2, count, dtype=torch.float64)
    for part in parts:
        apart = split_channels(part, count).double() - near
        sums += torch.stack([apart.sum((0, 1, 3)), apart.square().sum((0, 1, 3))]).cpu()
    times = values.shape[0] * values.shape[1] if mask is None else int(mask.sum())
    first, second = sums / (times * (values.shape[-1] // count))
    mean, variance = near.flatten().cpu() + first, (second - first.square()).clamp_min(0.0)
    found = torch.where(mean.square() > OFFSET**2 * variance, mean, 0.0).float().tolist()
    return tuple(found) if any(found) else ()


def _check_points(data: Dataset) -> None:
    """Warn if neighbours on a grid of few points differ by a large factor: they look like different quantities."""
    for (_, word, channels, values), grid in zip(_sides(data), (data.inputs, data.outputs), strict=False):
        if len(grid.shape) != 1 or grid.size > FEW:
            continue
        sizes = split_channels(values, len(channels)).double().square().mean((0, 1)).sqrt()  # (c, x)
        less, more = torch.minimum(sizes[:, 1:], sizes[:, :-1]), torch.maximum(sizes[:, 1:], sizes[:, :-1])
        if bool(((more > JUMP * less) & (less > ROUNDING * more)).any()):
            told = f"neighbouring points of {word}{channels[0].name} differ {JUMP:.0f}-fold in size or more"
            warnings.warn(f"{told}: give different quantities as channels", TinoWarning, stacklevel=4)
