"""Proper orthogonal decomposition: snapshots -> mean and orthonormal modes, in float64."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tino.errors import TinoError

CUT = 1e-6  # modes with sigma_i / sigma_max below it are dropped (eq_SVD_eta)


@dataclass(frozen=True)
class Pod:
    """x ~ mean + Σ_j a_j modes_j with orthonormal rows: modes (J, x), sigmas (J,), all float64."""

    mean: Tensor
    modes: Tensor
    sigmas: Tensor


def pod(snapshots: Tensor, subtract_mean: bool = True, cut: float = CUT) -> Pod:
    """POD of snapshots (n, x), exactly: a thin QR of the tall side, then the SVD of its small factor.

    Float64 throughout: a float32 Gram matrix cannot resolve the cut.
    """
    data = snapshots.double()
    mean = data.mean(0) if subtract_mean else torch.zeros_like(data[0])
    if subtract_mean:
        data = data - mean
    n, x = data.shape
    if n >= x:
        _, sigmas, modes = torch.linalg.svd(torch.linalg.qr(data, mode="r").R, full_matrices=False)
    else:
        q, r = torch.linalg.qr(data.T)
        u, sigmas, _ = torch.linalg.svd(r, full_matrices=False)
        modes = (q @ u).T
    if not sigmas[0] > 0:
        raise TinoError(f"POD needs snapshots that differ, all {n} given (of {x} points) are the same or zero")
    keep = sigmas >= cut * sigmas[0]
    return Pod(mean, modes[keep].contiguous(), sigmas[keep])
