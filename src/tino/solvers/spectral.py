"""Fourier pseudo-spectral solver for forced equations on periodic boxes in one to three dimensions.

An equation u_t = L u + N(u) + f is defined by the symbol of L and by N.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from tino.solvers.etd import etdrk4
from tino.solvers.march import Mesh, Solution, Tick, march


@dataclass(frozen=True)
class FourierBox:
    """A periodic box with n points along each of d axes, and its real Fourier transform."""

    n: int
    axes: int
    length: float
    device: torch.device

    @cached_property
    def points(self) -> Tensor:  # (x, d)
        line = torch.arange(self.n, dtype=torch.float64, device=self.device) * (self.length / self.n)
        return torch.stack(torch.meshgrid(*[line] * self.axes, indexing="ij"), dim=-1).flatten(0, -2)

    @cached_property
    def counts(self) -> list[Tensor]:
        """Integer wave numbers along each axis, shaped to broadcast over a spectrum."""
        whole = torch.fft.fftfreq(self.n, 1 / self.n, dtype=torch.float64, device=self.device)
        half = torch.fft.rfftfreq(self.n, 1 / self.n, dtype=torch.float64, device=self.device)
        lines = [*[whole] * (self.axes - 1), half]
        return [line.view([-1 if j == i else 1 for j in range(self.axes)]) for i, line in enumerate(lines)]

    @cached_property
    def k(self) -> list[Tensor]:
        """Wave numbers 2πj / length along each axis."""
        return [2 * torch.pi / self.length * count for count in self.counts]

    @cached_property
    def keep(self) -> Tensor:
        """The 2/3 rule: 1 for the lower two thirds of the modes along every axis, else 0, so products do not alias."""
        kept = [(count.abs() < self.n / 3).to(torch.float64) for count in self.counts]
        return math.prod(kept[1:], start=kept[0])

    def forward(self, u: Tensor) -> Tensor:
        """(b, n, ..., n) or (b, x) -> spectrum (b, n, ..., n // 2 + 1)."""
        return torch.fft.rfftn(u.reshape(-1, *[self.n] * self.axes), dim=self._dims)

    def backward(self, v: Tensor) -> Tensor:
        """Spectrum -> (b, n, ..., n)."""
        return torch.fft.irfftn(v, [self.n] * self.axes, dim=self._dims)

    @property
    def _dims(self) -> tuple[int, ...]:
        return tuple(range(1, self.axes + 1))


@dataclass(frozen=True)
class PeriodicEquation:
    """u_t = L u + N(u) + f(t, x) on [0, length)^axes, u(0, x) = u_0(x)."""

    linear: Callable[[FourierBox], Tensor]  # symbol of L, real and <= 0
    nonlinear: Callable[[Tensor, FourierBox], Tensor]  # spectrum of u -> spectrum of N(u)
    initial: Callable[[Tensor], Tensor]  # points (x, d) -> u_0, (x,)
    axes: int = 1
    length: float = 1.0


class BatchedForcing(Protocol):
    """A batch of forcings, as a solver sees it. ``tino.inputs.Forcing`` is one."""

    @property
    def batch(self) -> int: ...

    def through(self, x: Tensor, linear: Callable[[Tensor], Tensor]) -> Callable[[float], Tensor]:
        """t -> linear(f(t, x)) at the points x (m, d). ``linear`` maps (b, m) to what the solver needs."""
        ...


def solve_periodic(
    equation: PeriodicEquation, forcing: BatchedForcing, times: Tensor, mesh: Mesh, state: Tensor | None, tick: Tick
) -> Solution:
    """The solution at ``times`` on n_out points per axis, (b, t, n_out^d), and the final spectrum.

    Computed on n_inner points per axis (a multiple of n_out) with the 2/3 rule and ETDRK4 steps. It starts from
    ``state``, a spectrum, or from the equation's initial field.
    """
    box = FourierBox(mesh.n_inner, equation.axes, equation.length, times.device)
    source = forcing.through(box.points, lambda f: box.forward(f) * box.keep)  # t -> spectrum
    if state is None:
        state = box.forward(equation.initial(box.points)) * box.keep
        state = state.expand(forcing.batch, *[-1] * equation.axes)

    def nonlinear(t: float, v: Tensor) -> Tensor:
        return box.keep * equation.nonlinear(v, box) + source(t)

    pick = (slice(None), *[slice(None, None, mesh.stride)] * equation.axes)

    def observe(t: float, v: Tensor) -> Tensor:
        return box.backward(v)[pick].flatten(1)

    linear = equation.linear(box)
    return march(lambda h: etdrk4(linear, nonlinear, h), state, times, mesh.substeps, observe, tick)
