"""Exponential time differencing: the stiff linear part exactly, the rest by Runge-Kutta of order four."""

from collections.abc import Callable

import torch
from torch import Tensor

from tino.errors import TinoError
from tino.solvers.march import Step

Nonlinear = Callable[[float, Tensor], Tensor]  # (t, v) -> N(t, v), forcing included


def etdrk4(linear: Tensor, nonlinear: Nonlinear, h: float) -> Step:
    """The step (t, v) -> v(t + h) of v' = L v + N(t, v), with L diagonal and real, its entries <= 0.

    Cox & Matthews' scheme; its coefficients are means over a circle around each h L, as Kassam & Trefethen
    do it, because the closed forms cancel near zero. N sees the forcing at t, t + h/2 and t + h.
    """
    if linear.is_complex():
        raise TinoError("the linear part of an equation must be real and <= 0; move what oscillates into the rest")
    lh = h * linear
    e, e_half = torch.exp(lh), torch.exp(lh / 2)
    angles = torch.pi * (torch.arange(32, dtype=torch.float64, device=linear.device) + 0.5) / 32
    z = lh[..., None] + torch.exp(1j * angles)  # half a circle: the other half is its mirror image
    ez = torch.exp(z)

    def mean(values: Tensor) -> Tensor:
        return h * values.mean(-1).real

    half = mean((torch.exp(z / 2) - 1) / z)
    w1 = mean((-4 - z + ez * (4 - 3 * z + z**2)) / z**3)
    w2 = mean((2 + z + ez * (-2 + z)) / z**3)
    w3 = mean((-4 - 3 * z - z**2 + ez * (4 - z)) / z**3)

    def step(t: float, v: Tensor) -> Tensor:
        n_v = nonlinear(t, v)
        a = e_half * v + half * n_v
        n_a = nonlinear(t + h / 2, a)
        b = e_half * v + half * n_a
        n_b = nonlinear(t + h / 2, b)
        c = e_half * a + half * (2 * n_b - n_v)
        n_c = nonlinear(t + h, c)
        return e * v + w1 * n_v + 2 * w2 * (n_a + n_b) + w3 * n_c

    return step
