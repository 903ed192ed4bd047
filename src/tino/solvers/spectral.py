"""Fourier pseudo-spectral solution of forced equations on a periodic interval.

The equation is the interface: u_t = L u + N(u) + f is given by the symbol of L and by N, nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tino.solvers.etd import etdrk4


@dataclass(frozen=True)
class PeriodicEquation:
    """u_t = L u + N(u) + f(t, x) on [0, length), u(0, x) = u_0(x)."""

    linear: Callable[[Tensor], Tensor]  # wave numbers k -> symbol of L, real and <= 0
    nonlinear: Callable[[Tensor, Tensor], Tensor]  # (u: (b, x), ik) -> N(u) in Fourier space, (b, k)
    initial: Callable[[Tensor], Tensor]  # points (x, 1) -> u_0, (x,)
    length: float = 1.0


class Source(Protocol):
    """A batch of forcings, as the solver sees it: ``tino.inputs.Forcing`` is one."""

    @property
    def batch(self) -> int: ...

    def through(self, x: Tensor, linear: Callable[[Tensor], Tensor]) -> Callable[[float], Tensor]:
        """t -> linear(f(t, x)) for points x (m, 1); linear maps (b, m) to what the solver needs."""
        ...


def wave_numbers(n: int, length: float, device: torch.device | str = "cpu") -> Tensor:
    """2πk / length for the n // 2 + 1 modes of a real transform."""
    return 2 * torch.pi * torch.fft.rfftfreq(n, length / n, dtype=torch.float64, device=device)


def solve_periodic(
    equation: PeriodicEquation,
    forcing: Source,
    times: Tensor,
    n_out: int,
    n_inner: int,
    substeps: int,
    advance: Callable[[], None] = lambda: None,
) -> Tensor:
    """The solution at ``times`` on n_out points -> (b, t, n_out), computed on n_inner points.

    n_inner is a multiple of n_out; the top third of the modes is kept empty (the 2/3 rule), so products do
    not alias; ``substeps`` ETDRK4 steps lead from one output time to the next.
    """
    device = times.device
    x = torch.arange(n_inner, dtype=torch.float64, device=device)[:, None] * (equation.length / n_inner)
    k = wave_numbers(n_inner, equation.length, device)
    keep = (torch.arange(len(k), device=device) < n_inner / 3).to(torch.float64)
    ik = 1j * k
    source = forcing.through(x, lambda f: torch.fft.rfft(f) * keep)  # t -> (b, k)
    v = (torch.fft.rfft(equation.initial(x)) * keep).expand(forcing.batch, -1)

    def nonlinear(t: float, v: Tensor) -> Tensor:
        return keep * equation.nonlinear(torch.fft.irfft(v, n_inner), ik) + source(t)

    h = float(times[1] - times[0]) / substeps
    step = etdrk4(equation.linear(k), nonlinear, h)
    stride = n_inner // n_out
    out = [torch.fft.irfft(v, n_inner)[:, ::stride].contiguous()]
    for t in times[:-1].tolist():
        for i in range(substeps):
            v = step(t + i * h, v)
        out.append(torch.fft.irfft(v, n_inner)[:, ::stride].contiguous())
        advance()
    return torch.stack(out, dim=1)
