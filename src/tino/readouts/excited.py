"""The frequencies at which training inputs had power: elsewhere a model's response is a guess."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from tino.channels import split_channels
from tino.data import Dataset

SHARE = 1e-3  # of the largest power: below, a frequency counts as not excited


@dataclass(frozen=True)
class Excited:
    """The power of each input channel by angular frequency ω, (channels, w), and its size about its mean, (channels,).

    Averaged over the records (and points), each under a Hann window, after the mean of the channel is subtracted.
    """

    frequency: Tensor  # (w,), from 0 to π / dt
    power: Tensor
    rms: Tensor

    @staticmethod
    def of(train: Dataset) -> "Excited":
        n, count = train.time.n, len(train.input_channels)
        ends = torch.full((len(train),), n) if train.lengths is None else train.lengths
        valid = (torch.arange(n) < ends[:, None])[:, :, None, None]  # (n, t, 1, 1); a burn-in is an input as well
        f = split_channels(train.f.double().cpu(), count)
        total = valid.sum() * f.shape[-1]
        f = (f - torch.where(valid, f, 0.0).sum((0, 1, 3), keepdim=True) / total) * valid
        rms = (f.square().sum((0, 1, 3)) / total).sqrt()
        inside = torch.arange(n).double() / (ends[:, None] - 1)  # 0 to 1 over each record
        window = (0.5 - 0.5 * torch.cos(2 * torch.pi * inside))[:, :, None, None]
        power = torch.fft.rfft(f * window, dim=1).abs().square().mean((0, 3)).T  # (channels, w)
        step = 2 * torch.pi / (n * train.time.step)
        return Excited(step * torch.arange(power.shape[1], dtype=torch.float64), power, rms)

    @property
    def lines(self) -> Tensor:
        """Which of the frequencies were excited, (channels, w); none of a channel that never varied."""
        peak = self.power.amax(1, keepdim=True)
        return (self.power >= SHARE * peak) & (peak > 0)

    def at(self, frequency: Tensor) -> Tensor:
        """Whether each of other frequencies (k,) was excited, by the nearest line: (channels, k)."""
        step = float(self.frequency[1])
        nearest = (frequency / step).round().long()
        return self.lines[:, nearest.clamp(max=len(self.frequency) - 1)] & (nearest < len(self.frequency))

    def bands(self, channel: int) -> list[tuple[float, float]]:
        """The excited bands of a channel, from the lowest line to the highest of each."""
        marked = zip(self.lines[channel].tolist(), self.frequency.tolist(), strict=True)
        runs = [[w for _, w in run] for on, run in groupby(marked, key=lambda one: one[0]) if on]
        return [(run[0], run[-1]) for run in runs]

    def record(self) -> dict[str, Any]:
        return {"step": float(self.frequency[1]), "power": self.power.tolist(), "rms": self.rms.tolist()}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Excited":
        power, rms = (torch.tensor(record[key], dtype=torch.float64) for key in ("power", "rms"))
        if power.ndim != 2 or power.shape[1] < 2 or rms.shape != power.shape[:1]:
            raise ValueError(f"power has shape {tuple(power.shape)}, rms {tuple(rms.shape)}")
        return Excited(float(record["step"]) * torch.arange(power.shape[1], dtype=torch.float64), power, rms)
