"""Regressions that tell what explains what, on held-out samples: fit on one half, test on the other, then swap."""

import math

import torch
from torch import Tensor

from tino.channels import channel_sizes
from tino.errors import TinoError
from tino.pod import pod

MODES_IN, MODES_OUT, ENERGY, SNAPSHOTS = 8, 32, 0.9999, 1000  # POD coefficients: at most, or this share of the energy
WAVES = 6  # cosines of the clock
RIDGES = (1e-9, 1e-5, 1e-2, 1e-1, 1.0, 10.0)
ROWS, STARTS = 2400, 24  # samples x windows, windows of a sample, at most
SURE = 3.0  # standard errors, of a signed-rank statistic over samples


def _snapshots(values: Tensor) -> Tensor:
    rows = values.flatten(0, 1)
    return rows[torch.linspace(0, len(rows) - 1, min(SNAPSHOTS, len(rows))).long()]


def varies(values: Tensor) -> bool:
    """Are the snapshots that the POD of (n, t, x) is made of not all the same?"""
    some = _snapshots(values)
    return bool((some != some[0]).any())


def coefficients(values: Tensor, name: str, channels: int, most: int, subtract_mean: bool) -> Tensor:
    """The leading POD coefficients of (n, t, x) -> (n, t, j), in float64; several channels are scaled to one size."""
    values = values.cpu()
    if channels > 1:
        values = values - values.mean((0, 1)) if subtract_mean else values
        sizes = channel_sizes(values, channels).to(values)
        values = values / sizes.repeat_interleave(values.shape[-1] // channels)
    some = _snapshots(values)
    if not varies(values):
        raise TinoError(f"{name} is the same in all samples at all times: there is nothing to diagnose")
    found = pod(some, subtract_mean)
    modes = found.modes[: min(most, found.modes_for(ENERGY) or most)]
    return ((values - found.mean.to(values)) @ modes.T.to(values)).double()


def unit(block: Tensor) -> Tensor:
    """Centred, and of mean square 1 over its last axis together: blocks of features weigh the same."""
    block = block - block.mean((0, 1))
    return block / block.square().sum(-1).mean().sqrt().clamp_min(1e-30)


def waves(s: Tensor) -> Tensor:
    """cos(π k s), k = 1..WAVES, at the clock times s in [0, 1] of windows, (n, w) -> (n w, k)."""
    k = torch.arange(1, min(WAVES, s.shape[1] - 1) + 1)
    return unit(torch.cos(math.pi * k * s[..., None])).flatten(0, 1)


def kernel_of(parts: list[Tensor]) -> Tensor:
    """Of blocks (n, s, d): linear and quadratic functions first, bumps of three widths after them -> (n s, n s)."""
    x = torch.cat(parts, -1).flatten(0, 1)
    x = x / x.square().sum(1).mean().sqrt().clamp_min(1e-30)
    squares = x.square().sum(1)

    def against_all(some: Tensor) -> Tensor:
        products = some @ x.T
        bump = torch.exp(products - squares / 2 - some.square().sum(1)[:, None] / 2)  # exp(-|x - x'|² / 2)
        narrow = bump**8
        return 100 * (1 + products) + 10 * products.square() + 3 * bump + narrow + 0.3 * narrow**10

    return torch.cat([against_all(some) for some in x.split(256)])  # in parts: temporaries that fit a cache


def left_over(kernel: Tensor, targets: list[Tensor], half: Tensor) -> list[Tensor]:
    """Residuals of each target by kernel ridge regression fitted on the other half, with the best ridge for each."""
    half = half.repeat_interleave(len(kernel) // len(half))
    values, size = torch.cat(targets, 1), kernel.diagonal().mean()
    left = torch.zeros(len(RIDGES), *values.shape, dtype=values.dtype)
    for fit in (half, ~half):
        gram, across, mean = kernel[fit][:, fit], kernel[~fit][:, fit], values[fit].mean(0)
        diagonal = gram.diagonal().clone()
        for i, ridge in enumerate(RIDGES):
            gram.diagonal().copy_(diagonal + ridge * size)
            factor, failed = torch.linalg.cholesky_ex(gram)
            answer = across @ torch.cholesky_solve(values[fit] - mean, factor)
            left[i, ~fit] = torch.inf if failed else values[~fit] - mean - answer
    parts = left.split([target.shape[1] for target in targets], 2)
    return [part[part.square().sum((1, 2)).nan_to_num(torch.inf).argmin()] for part in parts]


def gained(before: Tensor, after: Tensor, samples: int) -> tuple[float, float]:
    """The share of the squares ``before`` that is gone ``after``, and the signed-rank z of the samples' gains."""
    old, new = (left.square().view(samples, -1).sum(1) for left in (before, after))
    gain = old - new
    rank = gain.abs().argsort(stable=True).argsort(stable=True).double() + 1
    sure = (rank * gain.sign()).sum() / rank.square().sum().sqrt()
    return float(gain.sum() / old.sum().clamp_min(1e-30)), float(sure)
