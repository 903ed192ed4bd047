"""Exact eigenfunctions of convection-diffusion on an interval, u_t + v u_x = D u_xx on [0, 1]."""

import numpy as np
import torch
from torch import Tensor


def convection_modes(diffusion: float, velocity: float, boundary: str, count: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """Decay rates (k,) and eigenfunctions (k, x) at the points x (x,). With p = v / 2D they are

    for u_x = 0 at the ends ("neumann"): 1, and e^{px} (cos nπx - p/(nπ) sin nπx);
    for u = 0 at the ends ("frozen"): e^{px} sin nπx,

    each up to a factor. They are orthogonal with the weight e^{-2px}.
    """
    p = velocity / (2 * diffusion)
    n = torch.arange(1, count + 1, dtype=torch.float64)[:, None]
    rate = diffusion * (n[:, 0] * torch.pi) ** 2 + velocity**2 / (4 * diffusion)
    angle, growth = n * torch.pi * x, torch.exp(p * (x - 1))
    if boundary == "frozen":
        return rate, growth * torch.sin(angle)
    waves = growth * (torch.cos(angle) - p / (n * torch.pi) * torch.sin(angle))
    return torch.cat([torch.zeros(1).double(), rate]), torch.cat([torch.ones(1, len(x)).double(), waves])


def gauss_panels(panels: int, order: int = 32) -> tuple[Tensor, Tensor]:
    """Nodes and weights of composite Gauss-Legendre quadrature on [0, 1], with equal panels."""
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(order))
    starts = torch.arange(panels, dtype=torch.float64)[:, None]
    return ((starts + (nodes + 1) / 2) / panels).flatten(), (weights / (2 * panels)).repeat(panels)


def convection_projection(
    diffusion: float, velocity: float, boundary: str, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Quadrature nodes x (m,), decay rates (k,), and the projection (m, k) from values at x to coefficients."""
    x, weights = gauss_panels(count // 8)
    rate, values = convection_modes(diffusion, velocity, boundary, count, x)
    weighted = values * weights * torch.exp(-velocity / diffusion * (x - 1))
    return x, rate, weighted.T / (weighted * values).sum(1)
