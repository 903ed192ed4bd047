"""Advection with a uniform, time-dependent wind and a reaction, on the periodic interval [0, 1).

    u_t + c(t) u_x = R(u) + f(t, x)

Two solvers: one follows the characteristics, the other is first-order upwind differences.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tino.solvers.march import Mesh, Solution, Step, Tick, march
from tino.solvers.runge_kutta import rk4
from tino.solvers.spectral import BatchedForcing, FourierBox


@dataclass(frozen=True)
class AdvectionEquation:
    """u_t + c(t) u_x = R(u) + f, u(0, x) = u_0(x)."""

    wind: Callable[[float], float]  # c(t)
    drift: Callable[[float], float]  # ∫_0^t c(s) ds
    reaction: Callable[[Tensor], Tensor]  # R
    initial: Callable[[Tensor], Tensor]  # points (x, 1) -> u_0, (x,)


def along_characteristics(
    equation: AdvectionEquation, forcing: BatchedForcing, times: Tensor, mesh: Mesh, state: Tensor | None, tick: Tick
) -> Solution:
    """The solution at ``times`` on n_out points, (b, t, n_out), and the final spectrum of u.

    In the frame that moves with the wind, U(t, X) = u(t, X + drift(t)), the advection term is gone:
    U_t = R(U) + f(t, X + drift(t)), which RK4 integrates. A shift in x is a phase in Fourier space, so it adds no
    numerical diffusion. n_inner is a multiple of n_out. ``state`` is a spectrum of u.
    """
    box = FourierBox(mesh.n_inner, 1, 1.0, times.device)
    source = forcing.through(box.points, box.forward)

    def phase(t: float) -> Tensor:
        return torch.exp(1j * box.k[0] * equation.drift(t))  # u -> U

    def slope(t: float, big_u: Tensor) -> Tensor:
        return box.backward(source(t) * phase(t)) + equation.reaction(big_u)

    def observe(t: float, big_u: Tensor) -> Tensor:
        return box.backward(box.forward(big_u) * phase(t).conj())[:, :: mesh.stride].contiguous()

    if state is None:
        state = box.forward(equation.initial(box.points)).expand(forcing.batch, -1)
    start = box.backward(state * phase(float(times[0])))
    u, big_u = march(lambda h: rk4(slope, h), start, times, mesh.substeps, observe, tick)
    return u, box.forward(big_u) * phase(float(times[-1])).conj()


def upwind(
    equation: AdvectionEquation, forcing: BatchedForcing, times: Tensor, mesh: Mesh, state: Tensor | None, tick: Tick
) -> Solution:
    """The solution at ``times`` on n_out points, (b, t, n_out), and the final u on all n_inner points.

    First-order upwind differences in space, forward Euler in time. Stable while |c| h <= 1 / n_inner. n_inner is a
    multiple of n_out. ``state`` is u on the inner points.
    """
    box = FourierBox(mesh.n_inner, 1, 1.0, times.device)
    source = forcing.through(box.points, lambda f: f)

    def make_step(h: float) -> Step:
        def step(t: float, u: Tensor) -> Tensor:
            wind = equation.wind(t)
            slope = (u - u.roll(1, 1) if wind > 0 else u.roll(-1, 1) - u) * mesh.n_inner
            return u + h * (source(t) - wind * slope + equation.reaction(u))

        return step

    if state is None:
        state = equation.initial(box.points).expand(forcing.batch, -1)
    return march(make_step, state, times, mesh.substeps, lambda t, u: u[:, :: mesh.stride].contiguous(), tick)
