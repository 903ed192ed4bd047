"""Channels: what is measured at each point, by name and unit.

Values of c channels at x points are stored flat, (..., c x), channel after channel: one channel of a field is (..., x),
channels of a time-only signal are (..., c).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from tino.errors import TinoError, in_short, of_kind
from tino.text import check_text


@dataclass(frozen=True)
class Channel:
    """A name such as force, and a unit such as N; the unit may be left out."""

    name: str
    unit: str = ""

    def __post_init__(self) -> None:
        for word, text in (("name", self.name), ("unit", self.unit)):
            check_text(f"channel's {word}", of_kind(text, str, f"the {word} of a channel"))

    def __str__(self) -> str:
        return f"{self.name} [{self.unit}]" if self.unit else self.name


Channels = tuple[Channel, ...]
INPUT: Channels = (Channel("f"),)
OUTPUT: Channels = (Channel("u"),)


def numbered(default: Channels, count: int) -> Channels:
    """Names where none are given: f, or f1, f2, ..."""
    (only,) = default
    return default if count == 1 else tuple(Channel(f"{only.name}{i}") for i in range(1, count + 1))


def channels_record(channels: Channels) -> list[dict[str, str]]:
    return [asdict(channel) for channel in channels]


def channels_from_record(record: Any) -> Channels:
    try:
        return tuple(Channel(one["name"], one["unit"]) for one in record)
    except (TypeError, KeyError) as error:
        given = in_short(repr(record))
        raise TinoError(f"{given} does not describe channels: expected a list of names and units") from error


def split_channels(values: Tensor, count: int) -> Tensor:
    """(..., c x) -> (..., c, x)."""
    return values.unflatten(-1, (count, -1))


def channel_sizes(values: Tensor, count: int, mask: Tensor | None = None) -> Tensor:
    """The root mean square of each channel of (n, t, c x) over the valid times, (c,), in float64.

    A channel that is zero throughout has size 1: it is not scaled.
    """
    sizes = channel_means(values, count, mask, torch.square).sqrt()
    return torch.where(sizes > 0, sizes, 1.0)


def channel_means(values: Tensor, count: int, mask: Tensor | None, of: Callable[[Tensor], Tensor]) -> Tensor:
    """The mean of each channel of ``of(values)``, over the valid times and all points, in float64.

    ``values`` is (n, t, c x); ``of`` maps some of its records, (k, t, c, x), to the numbers whose means are wanted.
    """
    parts = values.split(64) if mask is None else values[mask][None].split(4096, 1)
    sums = torch.stack([of(split_channels(part, count).double()).sum((0, 1, 3)) for part in parts])
    times = values.shape[0] * values.shape[1] if mask is None else int(mask.sum())
    return sums.sum(0) / (times * (values.shape[-1] // count))


def check_channels(channels: Sequence[Channel], word: str) -> None:
    if not channels or not all(isinstance(channel, Channel) for channel in channels):
        given = in_short(repr(channels))
        raise TinoError(f"the {word} channels are {given}, expected a tuple of tino.Channel(name, unit)")
    names = [channel.name for channel in channels]
    if len(set(names)) < len(names):
        raise TinoError(f"the {word} channels {in_short(', '.join(names))} share a name: give each its own")
