"""Forced equations on periodic boxes, solved with Fourier series: Burgers and another flux, flows, 3-D transport."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tino.errors import TinoError
from tino.grids import Periodic, TimeGrid
from tino.inputs import MODES, Forcing, InputLaw, sine_fourier
from tino.problems.base import Problem, Windows, chunk_size, fine_enough, positive, register
from tino.solvers.march import Mesh, Tick
from tino.solvers.spectral import FourierBox, PeriodicEquation, solve_periodic


def fourier_initial(x: Tensor) -> Tensor:
    """Σ_i Σ_n (sin 2πn x_i + cos 2πn x_i) / n², n = 1..10 (equ_burgers_ic, equ_ns_ic, equ_3d_ic_scalar)."""
    n = torch.arange(1, MODES + 1, dtype=x.dtype, device=x.device)
    angle = 2 * torch.pi * x[:, :, None] * n  # (x, d, n)
    return ((torch.sin(angle) + torch.cos(angle)) / n**2).sum((1, 2))


def forced_periodic(
    name: str,
    equation: PeriodicEquation,
    *,
    title: str,
    formula: str,
    stop: float,
    points: int,
    step: float,
    section: str = "",
    law: InputLaw | None = None,
    chunk: int = 100,
    n_t: int = 200,
    resolution: int = 128,
) -> Problem:
    """A problem f -> u for a periodic equation on [0, stop].

    The solver uses at least ``points`` points along each axis and time steps of at most ``step``. Call it from a
    registered factory, which records the options.
    """
    if law is None and equation.length != 1.0:
        raise TinoError(f"{name}: the equation has period {equation.length}, the paper's forcings 1: pass your own law")
    time = TimeGrid(0.0, stop, n_t)
    grid = Periodic(equation.length, (resolution,) * equation.axes)
    mesh = Mesh(resolution, fine_enough(points, resolution), math.ceil(time.step / step))
    return Problem(
        name=name,
        title=title,
        equation=formula,
        section=section,
        law=law or sine_fourier(tuple(range(1, equation.axes + 1))),
        time=time,
        inputs=grid,
        outputs=grid,
        evolution=lambda forcing, times, state, refine, tick: solve_periodic(
            equation, forcing, times, mesh.refined(refine), state, tick
        ),
        solver={
            "name": "Fourier pseudo-spectral, 2/3 rule, ETDRK4",
            "points": mesh.n_inner,
            "steps_per_output": mesh.substeps,
        },
        chunk=chunk_size(grid.size, chunk),
    )


def burgers_equation(nu: float) -> PeriodicEquation:
    """u_t + (u²)_x / 2 = ν u_xx + f."""
    return PeriodicEquation(
        linear=lambda box: -nu * box.k[0] ** 2,
        nonlinear=lambda v, box: -0.5j * box.k[0] * box.forward(box.backward(v) ** 2),
        initial=fourier_initial,
    )


@register("burgers-0.01", nu=0.01)
@register("burgers-0.1", nu=0.1)  # listed first, because decorators apply bottom-up
def burgers(name: str, n_t: int = 200, resolution: int = 128, *, nu: float) -> Problem:
    """u_t + (u²)_x / 2 = ν u_xx + f(t, x), periodic on [0, 1], t in [0, 4] (subsubsect_burgers)."""
    # chosen by a refinement study for an MSE below 1e-12 with the paper's two ν: enough points across the steepest
    # front, and steps below the advective limit of the highest kept mode; generation refines them for a smaller ν
    positive(name, nu=nu)
    points, step = (256, 0.0051) if nu >= 0.05 else (512, 0.00205)
    return forced_periodic(
        name,
        burgers_equation(nu),
        title=f"Burgers' equation (ν = {nu:g})",
        formula="u_t + (u²)_x / 2 = ν u_xx + f(t, x)",
        section="subsubsect_burgers",
        stop=4.0,
        points=points,
        step=step,
        n_t=n_t,
        resolution=resolution,
    )


def flux_equation(nu: float, flux: Callable[[Tensor], Tensor]) -> PeriodicEquation:
    """u_t + flux(u)_x = ν u_xx + f."""
    return PeriodicEquation(
        linear=lambda box: -nu * box.k[0] ** 2,
        nonlinear=lambda v, box: -1j * box.k[0] * box.forward(flux(box.backward(v))),
        initial=fourier_initial,
    )


def saturating(u: Tensor, a: float) -> Tensor:
    """a u² / (a² + u²): a parabola where |u| is well below a, nearly constant where it is well above."""
    return a * u**2 / (a**2 + u**2)


@register("rational-flux")
def rational_flux(
    name: str, n_t: int = 200, resolution: int = 128, nu: float = 0.03, saturation: float = 0.2
) -> Problem:
    """u_t + (a u² / (a² + u²))_x = ν u_xx + f(t, x), periodic on [0, 1], t in [0, 4], a = ``saturation``.

    Not in the paper. In units of a the flux is s² / (1 + s²), much as in Buckley and Leverett's equation for two fluids
    in rock; no polynomial follows it. Forcings and initial field are those of Burgers' equation. They leave |u| below 1
    after t = 1; hence a = 0.2, which it passes. With ν = 0.03 the fronts fit on 128 points: the highest mode stays
    below 1e-5 of the largest.
    """
    # 256 points and this step by a refinement study, as for Burgers' equation: an MSE of 3e-14
    positive(name, nu=nu, saturation=saturation)
    return forced_periodic(
        name,
        flux_equation(nu, lambda u: saturating(u, saturation)),
        title="Conservation law with a rational flux",
        formula="u_t + (a u² / (a² + u²))_x = ν u_xx + f(t, x)",
        stop=4.0,
        points=256,
        step=0.0051,
        n_t=n_t,
        resolution=resolution,
    )


def vorticity_equation(nu: float, axes: int) -> PeriodicEquation:
    """w_t + u·∇w = ν Δw + f with u = (ψ_2, -ψ_1), -Δ_12 ψ = w: in the plane, or in each layer of a box.

    The mean of w over a layer (modes k_1 = k_2 = 0) induces no velocity.
    """

    def linear(box: FourierBox) -> Tensor:
        square = sum(k**2 for k in box.k)
        assert isinstance(square, Tensor)
        return -nu * square

    def nonlinear(v: Tensor, box: FourierBox) -> Tensor:
        k1, k2 = box.k[:2]
        square = k1**2 + k2**2
        psi = v / torch.where(square > 0, square, torch.inf)
        w = box.backward(v)
        flow1, flow2 = box.backward(1j * k2 * psi), box.backward(-1j * k1 * psi)
        return -1j * (k1 * box.forward(flow1 * w) + k2 * box.forward(flow2 * w))

    return PeriodicEquation(linear, nonlinear, fourier_initial, axes)


@register("navier-stokes")
def navier_stokes(name: str, n_t: int = 100, resolution: int = 32, nu: float = 0.01) -> Problem:
    """w_t + u·∇w = ν Δw + f(t, x), periodic on [0, 1]², t in [0, 2] (subsubsect_navier_stokes)."""
    positive(name, nu=nu)
    return forced_periodic(
        name,
        vorticity_equation(nu, 2),
        title="2-D Navier-Stokes",
        formula="w_t + u·∇w = ν Δw + f(t, x)",
        section="subsubsect_navier_stokes",
        stop=2.0,
        points=64,
        step=0.0102,
        chunk=40,
        n_t=n_t,
        resolution=resolution,
    )


@register("navier-stokes-ic")
def navier_stokes_ic(name: str, nu: float = 0.01, resolution: int = 32) -> Problem:
    """(f, w_0) -> w on nine windows of length 0.2 T of navier-stokes (subsubsect_navier_stokes_icvar).

    The paper's window edges fall between grid points. Window k takes the indices 10(k-1) to 10(k-1)+19.
    """
    whole = navier_stokes(name, resolution=resolution, nu=nu)
    return dataclasses.replace(
        whole,
        title="2-D Navier-Stokes from any initial state",
        section="subsubsect_navier_stokes_icvar",
        windows=Windows(count=9, stride=10, length=20),
    )


@register("advection-diffusion-3d")
def advection_diffusion_3d(name: str, nu: float = 0.001, n_t: int = 50, resolution: int = 16) -> Problem:
    """w_t + u·∇_12 w = ν Δ_123 w + f(t, x), periodic on [0, 1]³, t in [0, 1] (subsubsect_3d_adc_diff).

    f and w_0 are sums of functions of one variable, so w = W(t, x_1, x_2) + g(t, x_3) holds exactly: W solves 2-D
    Navier-Stokes, g a forced heat equation. The data are computed from this sum.
    """
    positive(name, nu=nu)
    plane_law, line_law = sine_fourier((1, 2)), sine_fourier((3,))
    heat = PeriodicEquation(
        linear=lambda box: -nu * box.k[0] ** 2, nonlinear=lambda v, box: 0 * v, initial=fourier_initial
    )
    time = TimeGrid(0.0, 1.0, n_t)
    grid = Periodic(1.0, (resolution,) * 3)
    substeps = math.ceil(time.step / 0.0103)
    on_plane, on_line = (Mesh(resolution, fine_enough(points, resolution), substeps) for points in (64, 32))
    flow = vorticity_equation(nu, 2)

    def evolution(forcing: Forcing, times: Tensor, state: Any, refine: int, tick: Tick) -> tuple[Tensor, Any]:
        flow_state, heat_state = state or (None, None)
        f_plane, f_line = Forcing(plane_law, forcing.params), Forcing(line_law, forcing.params)
        plane, flow_state = solve_periodic(flow, f_plane, times, on_plane.refined(refine), flow_state, tick)
        line, heat_state = solve_periodic(heat, f_line, times, on_line.refined(refine), heat_state, lambda: None)
        w = plane[:, :, :, None] + line[:, :, None, :]  # (b, t, x1 x2, x3)
        return w.flatten(2), (flow_state, heat_state)

    return Problem(
        name=name,
        title="Quasi 3-D advection-diffusion",
        equation="w_t + u·∇_12 w = ν Δ_123 w + f(t, x)",
        section="subsubsect_3d_adc_diff",
        law=sine_fourier((1, 2, 3)),
        time=time,
        inputs=grid,
        outputs=grid,
        evolution=evolution,
        solver={
            "name": "the sum of a plane and a line solution, each Fourier pseudo-spectral with ETDRK4",
            "points": [on_plane.n_inner, on_line.n_inner],
            "steps_per_output": substeps,
        },
        chunk=chunk_size(grid.size, 40),
    )
