"""Proper orthogonal decomposition: snapshots -> mean and orthonormal modes, in float64."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError

CUT = 1e-6  # modes with sigma_i / sigma_max below it are dropped (eq_SVD_eta)
LONG = 1500  # snapshots and points: beyond it an exact decomposition takes minutes
MARGIN = 0.1  # of the cut, below which the random projections must reach
ROWS = 4096  # snapshots in float64 at a time


@dataclass(frozen=True)
class Pod:
    """x ~ mean + Σ_j a_j modes_j with orthonormal rows: modes (J, x), sigmas (J,), all float64."""

    mean: Tensor
    modes: Tensor
    sigmas: Tensor
    energy: float  # Σ |x - mean|² over the snapshots

    @property
    def left(self) -> float:
        """The relative L2 error of the snapshots on the kept modes: what the cut loses."""
        kept = float(self.sigmas.square().sum())
        return math.sqrt(max(0.0, 1 - kept / self.energy))

    def modes_for(self, share: float) -> int | None:
        """How many modes hold that share of the energy; None where all that were kept hold less."""
        held = self.sigmas.square().cumsum(0) / self.energy
        return int((held < share).sum()) + 1 if bool(held[-1] >= share) else None


def pod(snapshots: Tensor, subtract_mean: bool = True, cut: float = CUT) -> Pod:
    """POD of snapshots (n, x), in float64 throughout: a float32 Gram matrix cannot resolve the cut.

    Exactly, by a thin QR of the tall side and the SVD of its small factor; where both sides are long, by random
    projections, where the spectrum has fallen well below the cut after few modes.
    """
    n, x = snapshots.shape
    mean = _sum(snapshots) / n if subtract_mean else torch.zeros(x, dtype=torch.float64, device=snapshots.device)
    found = _few_modes(snapshots, mean, cut) if min(n, x) > LONG else None
    sigmas, modes = found or _all_modes(snapshots, mean)
    if not sigmas[0] > 0:
        raise TinoError(f"POD needs snapshots that differ, all {n} given (of {x} points) are the same or zero")
    keep = sigmas >= cut * sigmas[0]
    return Pod(mean, modes[keep].contiguous(), sigmas[keep], _energy(snapshots, mean))


def input_pod(data: Dataset, weights: Tensor | None = None) -> Pod:
    """Of the inputs at all times, times weights (m,), no mean subtracted: physical zero stays zero."""
    return pod(_weighted(data.rows(data.f), weights), subtract_mean=False)


def output_pod(data: Dataset, snapshots: str, weights: Tensor | None = None) -> Pod:
    """Of the outputs, times weights (x,), as functions of y at the first "quartile" of time or at "all" times, or "of
    (t, y)"."""
    if snapshots == "of (t, y)":
        return pod(_weighted(data.u, weights).flatten(1))
    if snapshots == "all" or data.lengths is not None:
        return pod(_weighted(data.rows(data.u), weights))
    return pod(
        _weighted(data.u[:, round((data.time.n - 1) / 4)], weights)
    )  # the grid time nearest to T_0 + (T - T_0) / 4


def _weighted(values: Tensor, weights: Tensor | None) -> Tensor:
    return values if weights is None else values * weights.to(values)


def _all_modes(snapshots: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """All singular values and right singular vectors (J, x) of snapshots - mean."""
    data = snapshots.double() - mean
    n, x = data.shape
    if n >= x:
        _, sigmas, modes = torch.linalg.svd(torch.linalg.qr(data, mode="r").R, full_matrices=False)
        return sigmas, modes
    q, r = torch.linalg.qr(data.T)
    u, sigmas, _ = torch.linalg.svd(r, full_matrices=False)
    return sigmas, (q @ u).T


def _few_modes(snapshots: Tensor, mean: Tensor, cut: float) -> tuple[Tensor, Tensor] | None:
    """The same for the leading modes, by one subspace iteration from random directions; None if they are not few.

    It orthonormalises on both sides, so that directions of size 1e-6 are not lost in the rounding of large ones.
    """
    n, x = snapshots.shape
    generator = torch.Generator().manual_seed(0)
    for count in (64, 512):
        if 4 * count > min(n, x):
            break
        v = torch.randn(x, count, generator=generator, dtype=torch.float64).to(mean.device)
        q = torch.linalg.qr(_times(snapshots, mean, v)).Q
        v = torch.linalg.qr(_transposed_times(snapshots, mean, q)).Q
        r = torch.linalg.qr(_times(snapshots, mean, v), mode="r").R
        _, sigmas, w = torch.linalg.svd(r)
        # the rest is a margin, well below the cut: without it the last modes are inexact
        if sigmas[3 * count // 4] < MARGIN * cut * sigmas[0]:
            return sigmas, w @ v.T
    return None


def _sum(snapshots: Tensor) -> Tensor:
    return torch.stack([part.double().sum(0) for part in snapshots.split(ROWS)]).sum(0)


def _energy(snapshots: Tensor, mean: Tensor) -> float:
    """Σ |x - mean|², in parts: the set may be large."""
    return sum(float((part.double() - mean).square().sum()) for part in snapshots.split(ROWS))


def _times(snapshots: Tensor, mean: Tensor, v: Tensor) -> Tensor:
    return torch.cat([(part.double() - mean) @ v for part in snapshots.split(ROWS)])


def _transposed_times(snapshots: Tensor, mean: Tensor, q: Tensor) -> Tensor:
    total = torch.zeros(snapshots.shape[1], q.shape[1], dtype=torch.float64, device=q.device)
    for part, rows in zip(snapshots.split(ROWS), q.split(ROWS), strict=True):
        total += (part.double() - mean).T @ rows
    return total
