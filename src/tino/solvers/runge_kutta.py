"""Runge-Kutta for forced ordinary differential equations, batched, with error control per sample."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from tino.errors import TinoError

# Dormand & Prince 1980: nodes c, stage weights A, the fifth-order weights (equal to the last stage's), and
# the difference to the fourth-order ones, which estimates the error of a step.
_C = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_A = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_E = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)

RightHandSide = Callable[[Tensor, Tensor], Tensor]  # (t: (b, 1), y: (b, d)) -> dy/dt: (b, d)


def rk4(rhs: Callable[[float, Tensor], Tensor], h: float) -> Callable[[float, Tensor], Tensor]:
    """The step (t, y) -> y(t + h) of the classical method of order four."""

    def step(t: float, y: Tensor) -> Tensor:
        k1 = rhs(t, y)
        k2 = rhs(t + h / 2, y + h / 2 * k1)
        k3 = rhs(t + h / 2, y + h / 2 * k2)
        k4 = rhs(t + h, y + h * k3)
        return y + h / 6 * (k1 + 2 * (k2 + k3) + k4)

    return step


def dormand_prince(
    rhs: RightHandSide,
    y0: Tensor,
    times: Tensor,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    advance: Callable[[], None] = lambda: None,
) -> Tensor:
    """y' = rhs(t, y), y(times[0]) = y0 (b, d), at the given times -> (b, t, d).

    Every step ends at the latest on the next output time, so nothing is interpolated. Each sample keeps its
    own step size and its own error test: no sample's numbers depend on its neighbours. With atol = inf every
    step is accepted, and the method is the plain fifth-order one on the given times.
    """
    b = y0.shape[0]
    scale = torch.sqrt(torch.tensor(y0.shape[1], dtype=y0.dtype, device=y0.device))
    y, k_first = y0, rhs(times[0].expand(b, 1), y0)
    wish = (times[1] - times[0]).expand(b, 1)  # the step each sample would like to take
    out = [y]
    for start, stop in pairwise(times):
        t = start.expand(b, 1)
        span = stop - start
        for _ in range(100_000):
            left = stop - t
            # land on the output time exactly, also when less than a thousandth of the wish would remain
            h = torch.where(wish * 1.001 >= left, left, wish)
            k, y_new = [k_first], y
            for c, a in zip(_C[1:], _A[1:], strict=True):
                slope = sum(w * k_j for w, k_j in zip(a, k, strict=True) if w)
                y_new = y + h * slope
                k.append(rhs(t + c * h, y_new))
            error = h * sum(e * k_j for e, k_j in zip(_E, k, strict=True) if e)
            size = atol + rtol * torch.maximum(y.abs(), y_new.abs())
            ratio = torch.linalg.vector_norm(error / size, dim=1, keepdim=True) / scale
            accept = (ratio <= 1.0) & (left > 0)
            y = torch.where(accept, y_new, y)
            k_first = torch.where(accept, k[-1], k_first)
            t = torch.where(accept, torch.where(h == left, stop, t + h), t)
            factor = (0.9 * ratio.clamp_min(1e-10) ** -0.2).clamp(0.2, 5.0)
            wish = torch.where(left > 0, (h * factor).clamp(max=float(span)), wish)
            if bool((t == stop).all()):
                break
            if not bool(torch.isfinite(ratio).all()):
                raise TinoError(f"the solution of the ODE blows up near t = {float(t.min()):.6g}")
        else:
            raise TinoError(f"the ODE solver made no headway near t = {float(t.min()):.6g}; loosen rtol")
        out.append(y)
        advance()
    return torch.stack(out, dim=1)
