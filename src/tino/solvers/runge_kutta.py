"""Runge-Kutta methods for forced ordinary differential equations, batched, with error control per sample."""

from collections.abc import Callable

import torch
from torch import Tensor

from tino.errors import TinoError
from tino.solvers.march import Step, Tick

# Dormand & Prince 1980: nodes c, stage weights A (the last row holds the fifth-order weights), and E, their
# difference from the fourth-order weights, which estimates the error of a step.
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

_STAGES = [[*row, *[0.0] * (6 - len(row))] for row in _A[1:]]
# Shampine's fourth-order interpolant: y(t + θ h) = y + h Σ_i k_i Σ_p D_ip θ^p, p = 1..4
_DENSE = (
    (1.0, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432),
    (0.0, 0.0, 0.0, 0.0),
    (0.0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799),
    (0.0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072),
    (0.0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632),
    (0.0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844),
    (0.0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423),
)

RightHandSide = Callable[[Tensor, Tensor], Tensor]  # (t: (b, 1), y: (b, d)) -> dy/dt: (b, d)


def rk4(rhs: Callable[[float, Tensor], Tensor], h: float) -> Step:
    """The step (t, y) -> y(t + h) of the classical fourth-order method."""

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
    stride: int = 5,
    tick: Tick = lambda: None,
) -> Tensor:
    """Solve y' = rhs(t, y), y(times[0]) = y0 (b, d), at the given times -> (b, t, d).

    Every sample has its own time, step size and error test, so its result does not depend on the rest of the batch.
    A step spans at most ``stride`` output intervals; outputs come from the method's fourth-order interpolant. With
    atol = inf every step is accepted.
    """
    (b, d), n = y0.shape, len(times)
    stages, errors, dense = (torch.tensor(w, dtype=y0.dtype, device=y0.device) for w in (_STAGES, _E, _DENSE))
    ahead = torch.arange(stride + 1, device=y0.device)
    grid = torch.cat([times, times.new_full((stride + 1,), torch.inf)])
    end, longest = times[-1], stride * times.diff().min()
    t, y, k_first = times[0].expand(b, 1), y0, rhs(times[0].expand(b, 1), y0)
    wish = longest.expand(b, 1)  # the step size each sample asks for
    out = y0.new_zeros(b, n + stride + 1, d)
    out[:, 0] = y0
    filled = torch.ones(b, 1, dtype=torch.int64, device=y0.device)  # outputs computed so far, per sample
    told = 1
    for _ in range(1_000_000):
        left = end - t
        # land exactly on the last time, also if less than a thousandth of a step would remain
        h = torch.where(wish * 1.001 >= left, left, wish)
        k, y_new = k_first[None], y
        for c, a in zip(_C[1:], stages, strict=True):
            y_new = y + h * torch.tensordot(a[: len(k)], k, 1)
            k = torch.cat([k, rhs(t + c * h, y_new)[None]])  # (stage, b, d)
        size = atol + rtol * torch.maximum(y.abs(), y_new.abs())
        ratio = (h * torch.tensordot(errors, k, 1) / size).square().mean(1, keepdim=True).sqrt()
        ratio = ratio.nan_to_num(nan=torch.inf)  # a step that overflows is too long
        accept = (ratio <= 1.0) & (left > 0)
        # fill in the outputs that lie in this step
        next_ones = filled + ahead  # (b, s)
        theta = (grid[next_ones] - t) / torch.where(left > 0, h, 1.0)
        met = accept & (theta <= 1.0 + 1e-9)
        x = torch.where(met, theta, 0.0)[..., None]
        d1, d2, d3, d4 = ((h * part)[:, None] for part in torch.tensordot(dense.T, k, 1))  # each (b, 1, d)
        between = y[:, None] + x * (d1 + x * (d2 + x * (d3 + x * d4)))
        place = next_ones[..., None].expand(-1, -1, d)
        out.scatter_(1, place, torch.where(met[..., None], between, out.gather(1, place)))
        filled = filled + met.sum(1, keepdim=True)
        y = torch.where(accept, y_new, y)
        k_first = torch.where(accept, k[-1], k_first)
        t = torch.where(accept, torch.where(h == left, end, t + h), t)
        factor = (0.9 * ratio.clamp_min(1e-10) ** -0.2).clamp(0.2, 5.0)
        wish = torch.where(left > 0, torch.minimum(h * factor, longest), wish)
        stuck = ((wish < 1e-12 * longest) & (left > 0)).any()
        fewest, stuck = torch.stack([filled.min(), stuck]).tolist()  # the only synchronisation with the device per step
        if stuck:
            raise TinoError(f"the solution of the ODE blows up near t = {float(t.min()):.6g}")
        for _ in range(fewest - told):
            tick()
        told = fewest
        if fewest == n:
            return out[:, :n]
    raise TinoError(f"the ODE solver made no progress near t = {float(t.min()):.6g}; loosen rtol")
