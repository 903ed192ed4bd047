"""Exponential time differencing: the stiff linear part is exact, the rest is fourth-order Runge-Kutta."""

from collections.abc import Callable

import torch
from torch import Tensor

from tino.errors import TinoError
from tino.solvers.march import Step

Nonlinear = Callable[[float, Tensor], Tensor]  # (t, v) -> N(t, v), forcing included


def etdrk4(linear: Tensor, nonlinear: Nonlinear, h: float) -> Step:
    """The step (t, v) -> v(t + h) for v' = L v + N(t, v), with L diagonal, real and <= 0.

    The scheme is Cox & Matthews'. The closed forms of its coefficients cancel near zero, so they are averaged over a
    circle around each h L, after Kassam & Trefethen. N evaluates the forcing at t, t + h/2 and t + h.
    """
    if linear.is_complex():
        raise TinoError("the linear part must be real and <= 0: move oscillating terms into the nonlinear part")
    lh = h * linear
    e, e_half = torch.exp(lh), torch.exp(lh / 2)
    angles = torch.pi * (torch.arange(32, dtype=torch.float64, device=linear.device) + 0.5) / 32
    z = lh[..., None] + torch.exp(1j * angles)  # the other half of the circle is the complex conjugate
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
