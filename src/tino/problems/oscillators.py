"""Forced ordinary differential equations: one input signal, one output signal."""

from collections.abc import Callable

import torch
from torch import Tensor

from tino.grids import Point, TimeGrid
from tino.inputs import Forcing, InputLaw, multisine, sine
from tino.problems.base import Problem, choice, positive, register
from tino.solvers.march import Solution, Tick
from tino.solvers.runge_kutta import dormand_prince

Slope = Callable[[Tensor, Tensor], Tensor]  # (f: (b,), state: (b, d)) -> d(state)/dt: (b, d)


def column(values: Tensor, *more: Tensor) -> Tensor:
    """Stack (b,) components into a state (b, d)."""
    return torch.stack([values, *more], dim=1)


def forced_ode(
    name: str,
    slope: Slope,
    initial: tuple[float, ...],
    *,
    title: str,
    equation: str,
    section: str = "",
    law: InputLaw | None = None,
    stop: float = 10.0,
    rtol: float = 1e-8,
    n_t: int = 1000,
) -> Problem:
    """A problem f -> u, where u is the first component of y, y' = slope(f, y), y(0) = initial, on [0, stop].

    Call it from a registered factory, which records the options.
    """
    atol = 1e-2 * rtol

    def evolution(forcing: Forcing, times: Tensor, state: Tensor | None, refine: int, tick: Tick) -> Solution:
        def rhs(t: Tensor, y: Tensor) -> Tensor:
            return slope(forcing.amplitude(t)[:, 0], y)

        if state is None:
            state = torch.tensor(initial, dtype=torch.float64, device=times.device).expand(forcing.batch, -1)
        tight = refine**5  # fifth order: half the step means 1/32 of the tolerance
        n = refine * (len(times) - 1) + 1
        fine = torch.linspace(float(times[0]), float(times[-1]), n, dtype=torch.float64).to(times.device)
        y = dormand_prince(rhs, state, fine, rtol / tight, atol / tight, tick=tick)
        return y[:, ::refine, :1], y[:, -1]

    return Problem(
        name=name,
        title=title,
        equation=equation,
        section=section,
        law=law or sine(),
        time=TimeGrid(0.0, stop, n_t),
        inputs=Point(),
        outputs=Point(),
        evolution=evolution,
        solver={"name": "Dormand-Prince 5(4), error control per sample", "rtol": rtol, "atol": atol},
        chunk=1000,
    )


@register("duffing")
def duffing(name: str, n_t: int = 1000, damping: float = 1.0, *, input: str = "sine") -> Problem:
    """u'' + c u' + u + u³ = f(t), u(0) = u'(0) = 0 (subsubsect_duffing_osc).

    The paper's f is one sine; a multisine excites a whole band, from which a frequency response can be read.
    """
    choice(name, "input", input, ("sine", "multisine"))

    def slope(f: Tensor, y: Tensor) -> Tensor:
        u, v = y.unbind(1)
        return column(v, f - damping * v - u - u**3)

    return forced_ode(
        name,
        slope,
        (0.0, 0.0),
        title="Duffing oscillator",
        equation="u'' + c u' + u + u³ = f(t)",
        section="subsubsect_duffing_osc",
        law=multisine() if input == "multisine" else sine(),
        n_t=n_t,
    )


@register("gradient-flow")
def gradient_flow(name: str, n_t: int = 1000) -> Problem:
    """u' + F'(u) = f(t), F = (u² - 1)² / 4, u(0) = 0 (subsubsect_gradient_flow)."""
    return forced_ode(
        name,
        lambda f, u: f[:, None] - u**3 + u,
        (0.0,),
        title="Gradient flow on a double well",
        equation="u' + u³ - u = f(t)",
        section="subsubsect_gradient_flow",
        n_t=n_t,
    )


@register("lorenz")
def lorenz(name: str, n_t: int = 1000, rho: float = 10.0) -> Problem:
    """u' = 10 (y - u), y' = u (ρ - z) - y, z' = u y - 8/3 z - f, from (1, 0, 0) (subsubsect_lorenz_sys)."""

    def slope(f: Tensor, state: Tensor) -> Tensor:
        u, y, z = state.unbind(1)
        return column(10 * (y - u), u * (rho - z) - y, u * y - 8 / 3 * z - f)

    return forced_ode(
        name,
        slope,
        (1.0, 0.0, 0.0),
        title="Lorenz system",
        equation="u' = 10 (y - u), y' = u (ρ - z) - y, z' = u y - 8/3 z - f(t)",
        section="subsubsect_lorenz_sys",
        n_t=n_t,
    )


@register("pendulum")
def pendulum(name: str, n_t: int = 1000, damping: float = 1.0, amplitude: float = 1.5) -> Problem:
    """u'' + c u' + sin(u) = f(t), u(0) = u'(0) = 0. Not in the paper: no polynomial in u is its equation.

    u is the angle from the bottom and counts full turns. With the paper's forcings times ``amplitude`` = 1.5, about one
    record in four swings over the top.
    """
    positive(name, amplitude=amplitude)

    def slope(f: Tensor, y: Tensor) -> Tensor:
        u, v = y.unbind(1)
        return column(v, f - damping * v - torch.sin(u))

    return forced_ode(
        name,
        slope,
        (0.0, 0.0),
        title="Pendulum",
        equation="u'' + c u' + sin(u) = f(t)",
        law=sine(amplitude),
        n_t=n_t,
    )
