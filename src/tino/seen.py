"""What a model saw in training: the range of its inputs, and the offsets of its outputs and initial states.

An offset is a constant for each channel. A model learns outputs without their offset, and adds it to its answers, so it
stays causal, autonomous and at rest. Inputs are never shifted: physical zero stays zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tino.channels import channel_means, split_channels
from tino.data import Dataset, Signals
from tino.sizes import ROUNDING, Range, check_points, check_sizes, ranges, state_channels

OFFSET = 10.0  # standard deviations: a mean that is farther from zero is an offset
FAR = 0.75  # of the largest magnitude: values farther outside the range are far, as are those a whole range outside


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
        found = check_sizes(train)
        check_points(train)
        states = () if train.ic is None else _offsets(train.ic[:, None], len(found["states"]), None)
        return Seen(found["inputs"], found["states"], output_offset(train), states)

    def centred(self, data: Dataset) -> Dataset:
        """The data without the offsets; the same object if there are none."""
        if not self.output_offset and not self.state_offset:
            return data
        ic = None if data.ic is None else shifted(data.ic, column(self.state_offset), -1)
        return replace(data, u=shifted(data.u, column(self.output_offset), -1), ic=ic)

    def outside(self, signals: Signals, f: Tensor, ic: Tensor | None, far: float = FAR) -> str | None:
        """What of f (..., m) and ic (b, k) is far outside the ranges, in words; None if nothing is.

        With ``far`` 0 whatever is outside, beyond rounding.
        """
        told = []
        states = () if ic is None else state_channels(signals, ic.shape[-1])
        for channels, values, seen in ((signals.input_channels, f, self.inputs), (states, ic, self.states)):
            if values is None or not seen:
                continue
            for channel, (low, high), (least, most) in zip(channels, seen, ranges(values, len(seen)), strict=True):
                size = max(abs(low), abs(high))
                room = min(far * size, high - low) + ROUNDING * size
                beyond, given, known = max((low - least, least, low), (most - high, most, high))
                if beyond > room:
                    digits = 3 if beyond > 1e-2 * size else 8
                    told.append(f"{channel} reaches {given:.{digits}g}, {known:.{digits}g} in training")
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


def column(offset: tuple[float, ...]) -> Tensor | None:
    """(channels, 1), to be added to (..., channels, points); None if there is no offset."""
    return torch.tensor(offset)[:, None] if offset else None


def shifted(values: Tensor, offset: Tensor | None, sign: int) -> Tensor:
    """(..., c x) plus or minus an offset (c, 1)."""
    if offset is None:
        return values
    return torch.add(split_channels(values, len(offset)), offset.to(values.device), alpha=sign).flatten(-2)


def output_offset(data: Dataset) -> tuple[float, ...]:
    """Of each output channel; empty if there is none."""
    return _offsets(data.u, len(data.output_channels), data.mask)


def _offsets(values: Tensor, count: int, mask: Tensor | None) -> tuple[float, ...]:
    """The mean of each channel of (n, t, c x) where it exceeds ten standard deviations, else 0; empty if all are 0.

    Rounded to float32, so that a model has the same offset in every precision.
    """
    near = split_channels(values[:1, :1], count).double()[..., :1]  # sums of differences lose no digits

    def moments(part: Tensor) -> Tensor:  # (..., c, x) -> (..., 2c, x)
        return torch.cat([part - near, (part - near).square()], -2)

    first, second = channel_means(values, count, mask, moments).cpu().view(2, count)
    mean, variance = near.flatten().cpu() + first, (second - first.square()).clamp_min(0.0)
    found = torch.where(mean.square() > OFFSET**2 * variance, mean, 0.0).float().tolist()
    return tuple(found) if any(found) else ()
