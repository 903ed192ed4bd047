"""Checks of the numbers in training data: whether they vary, whether float32 can hold them, whether points share a
size."""

import warnings
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from tino.channels import Channel, Channels, split_channels
from tino.data import Dataset, Signals
from tino.errors import TinoError, TinoWarning

SMALLEST, LARGEST = 1e-15, 1e15  # sizes whose squares, and sums of squares, float32 can hold
FEW, JUMP, ROUNDING = 16, 100.0, 1e-7  # points of a grid; a factor between neighbours' sizes; zero beside another size

PART = 4_000_000  # numbers that are copied to float64 at once

Range = tuple[float, float]


def mean_square(values: Tensor, weights: Tensor | float = 1.0) -> float:
    """The mean of (weights · values)² in float64, summed over parts of the first axis: a copy of all would be large."""
    rows = max(1, PART * len(values) // max(1, values.numel()))
    total = sum(float((part.double() * weights).square().sum()) for part in values.split(rows))
    return total / max(1, values.numel())


def state_channels(signals: Signals, numbers: int) -> Channels:
    """The quantities in an initial state: the outputs' channels if it has their size, else each number is one."""
    if numbers == signals.output_size:
        return tuple(replace(channel, name=f"ic of {channel.name}") for channel in signals.output_channels)
    return tuple(Channel(f"ic number {i + 1}") for i in range(numbers))


def ranges(values: Tensor, count: int) -> tuple[Range, ...]:
    """The least and the largest value of each channel of (..., c x)."""
    ends = torch.stack([torch.stack(part.aminmax()) for part in split_channels(values, count).unbind(-2)])
    return tuple((low, high) for low, high in ends.tolist())


def _sides(data: Dataset) -> Iterator[tuple[str, str, Channels, Tensor]]:
    """The valid values of each, (..., c x)."""
    yield "inputs", "the input ", data.input_channels, data.rows(data.f)
    yield "outputs", "the output ", data.output_channels, data.rows(data.u)
    if data.ic is not None:
        yield "states", "", state_channels(data, data.ic.shape[1]), data.ic


def check_variation(data: Dataset) -> None:
    """An error if the inputs or the outputs are zero throughout, or if no output ever changes."""
    for word, values in (("inputs", data.f), ("outputs", data.u)):
        if not values.any():
            by_state = word == "inputs" and data.ic is not None and bool(data.ic.any())
            fix = "as only ic drives it, set f to 1, as an import with inputs = 'none' and ic = True does"
            raise TinoError(
                f"the {word} of {data.name} are all zero: {fix if by_state else 'there is nothing to learn from'}"
            )
    held = ranges(data.rows(data.u), len(data.output_channels))
    if all(low == high for low, high in held):
        told = ", ".join(f"{c} is {low:g}" for c, (low, _) in zip(data.output_channels, held, strict=True))
        raise TinoError(f"the output of {data.name} never changes ({told}): there is nothing to learn")


def check_sizes(data: Dataset) -> dict[str, tuple[Range, ...]]:
    """The ranges of inputs, outputs and states, by channel; an error if float32 cannot hold a channel's squares."""
    found: dict[str, tuple[Range, ...]] = {"states": ()}
    for side, word, channels, values in _sides(data):
        found[side] = ranges(values, len(channels))
        for channel, (low, high) in zip(channels, found[side], strict=True):
            size = max(abs(low), abs(high))
            if size and not SMALLEST <= size <= LARGEST:
                raise TinoError(f"{word}{channel} is of size {size:.0e}, float32 takes 1e-15 to 1e15: change its unit")
    return found


def check_points(data: Dataset) -> None:
    """Warn if neighbours on a grid of few points differ by a large factor: they look like different quantities."""
    for (_, word, channels, values), grid in zip(_sides(data), (data.inputs, data.outputs), strict=False):
        if len(grid.shape) != 1 or grid.size > FEW:
            continue
        sizes = split_channels(values, len(channels)).double().square().mean(0).sqrt()  # (c, x)
        less, more = torch.minimum(sizes[:, 1:], sizes[:, :-1]), torch.maximum(sizes[:, 1:], sizes[:, :-1])
        if bool(((more > JUMP * less) & (less > ROUNDING * more)).any()):
            told = f"neighbouring points of {word}{channels[0].name} differ {JUMP:.0f}-fold in size or more"
            warnings.warn(f"{told}: give different quantities as channels", TinoWarning, stacklevel=4)
