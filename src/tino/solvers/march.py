"""Fixed-step time marching, shared by every one-step method (ETDRK4, RK4, Euler)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

Step = Callable[[float, Tensor], Tensor]  # (t, v(t)) -> v(t + h)
Tick = Callable[[], None]  # a solver calls it after each output time
Solution = tuple[Tensor, Tensor]  # u at the output times, (b, t, x), and the state at the last of them


@dataclass(frozen=True)
class Mesh:
    """How fine a solver is: output and inner points along each axis, and steps between two output times."""

    n_out: int
    n_inner: int
    substeps: int

    @property
    def stride(self) -> int:
        """Inner points per output point."""
        return self.n_inner // self.n_out

    def refined(self, factor: int) -> "Mesh":
        return replace(self, n_inner=factor * self.n_inner, substeps=factor * self.substeps)


def march(
    make_step: Callable[[float], Step],
    v: Tensor,
    times: Tensor,
    substeps: int,
    observe: Callable[[float, Tensor], Tensor],
    tick: Tick,
) -> Solution:
    """March from v at times[0] through uniform output times, with ``substeps`` steps between two of them.

    Returns the observations at all output times, (b, t, x), and the final state.
    """
    h = float(times[1] - times[0]) / substeps
    step = make_step(h)
    out = [observe(float(times[0]), v)]
    for t, t_next in zip(times[:-1].tolist(), times[1:].tolist(), strict=True):
        for i in range(substeps):
            v = step(t + i * h, v)
        out.append(observe(t_next, v))
        tick()
    return torch.stack(out, dim=1), v
