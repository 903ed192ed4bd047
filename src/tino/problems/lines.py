"""Forced equations on an interval: Allen-Cahn (method of lines) and convection-diffusion (eigenfunctions)."""

import functools
import math

import torch
from torch import Tensor

from tino.errors import TinoError
from tino.grids import Interval, TimeGrid
from tino.inputs import Forcing, sine_gaussian
from tino.problems.base import Problem, choice, positive, register
from tino.solvers.convection import convection_modes, convection_projection
from tino.solvers.lines import BOUNDARIES, LineEquation, solve_line
from tino.solvers.march import Mesh, Solution, Tick
from tino.solvers.modes import solve_modes

CELLS = 1024  # of the cosine or sine series for Allen-Cahn, whose fronts are about 0.01 wide
EIGENMODES = 512  # eigenfunctions for convection-diffusion


@register("allen-cahn")
def allen_cahn(
    name: str, n_t: int = 200, resolution: int = 128, epsilon: float = 0.01, boundary: str = "neumann"
) -> Problem:
    """u_t = ε² u_xx + u - u³ + f(t, x), u(0, x) = 1/2, t in [0, 4] (subsubsect_allen_cahn).

    The paper prints ε² (u_x)²; we read ε² u_xx. It prints u_t = 0 at the ends; we read u_x = 0.
    ``boundary="frozen"`` takes u_t = 0 as printed: the end values stay fixed.
    """
    choice(name, "boundary", boundary, BOUNDARIES)
    positive(name, epsilon=epsilon)
    equation = LineEquation(
        diffusion=epsilon**2,
        reaction=lambda u: u - u**3,
        initial=lambda x: torch.full_like(x[:, 0], 0.5),
        boundary=boundary,
    )
    time, grid = TimeGrid(0.0, 4.0, n_t), Interval(0.0, 1.0, resolution)
    mesh = Mesh(resolution, CELLS, math.ceil(time.step / 0.0102))
    series = "cosine" if boundary == "neumann" else "sine"
    return Problem(
        name=name,
        title="Allen-Cahn equation",
        equation="u_t = ε² u_xx + u - u³ + f(t, x)",
        section="subsubsect_allen_cahn",
        law=sine_gaussian(1.0),
        time=time,
        inputs=grid,
        outputs=grid,
        evolution=lambda forcing, times, state, refine, tick: solve_line(
            equation, forcing, times, mesh.refined(refine), state, tick
        ),
        solver={
            "name": f"method of lines: {series} series, ETDRK4",
            "points": CELLS + 1,
            "steps_per_output": mesh.substeps,
        },
    )


@register("convection-diffusion")
def convection_diffusion(
    name: str,
    n_t: int = 200,
    resolution: int = 128,
    diffusion: float = 0.01,
    velocity: float = 0.1,
    boundary: str = "neumann",
) -> Problem:
    """u_t + v u_x = D u_xx + f(t, x), u(0, x) = 3 exp(-(x - 1/2)² / 0.1), t in [0, 4] (subsubsect_conv_diff).

    The paper prints u_t = 0 at the ends; we read u_x = 0. ``boundary="frozen"`` takes u_t = 0 as printed: the end
    values stay fixed.
    """
    choice(name, "boundary", boundary, BOUNDARIES)
    if diffusion <= 0 or abs(velocity) > 30 * diffusion:  # the eigenfunctions grow like e^{|v| / 2D}
        raise TinoError(f"{name} needs diffusion > 0 and |velocity| <= 30 diffusion, got {velocity} and {diffusion}")
    time, grid = TimeGrid(0.0, 4.0, n_t), Interval(0.0, 1.0, resolution)
    substeps = math.ceil(time.step / 0.0204)

    def initial(x: Tensor) -> Tensor:
        return 3 * torch.exp(-((x - 0.5) ** 2) / 0.1)

    left = float(initial(torch.zeros(1, dtype=torch.float64)))  # equal to the value at the right end
    floor = left if boundary == "frozen" else 0.0

    @functools.cache  # shared by all chunks
    def modes(refine: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Quadrature nodes, decay rates, eigenfunctions at the output points, and the projection onto them."""
        count = refine * EIGENMODES
        x, rate, to_modes = convection_projection(diffusion, velocity, boundary, count)
        _, functions = convection_modes(diffusion, velocity, boundary, count, grid.points[:, 0])
        return x, rate, functions, to_modes

    def evolution(forcing: Forcing, times: Tensor, state: Tensor | None, refine: int, tick: Tick) -> Solution:
        x, rate, functions, to_modes = (part.to(times.device) for part in modes(refine))
        profile = forcing.on(x[:, None]) @ to_modes
        start = ((initial(x) - floor) @ to_modes).expand(forcing.batch, -1) if state is None else state
        u, end = solve_modes(rate, profile, forcing.amplitude, functions, times, refine * substeps, start, tick)
        if state is None:  # the initial field does not satisfy u_x = 0, so its series converges slowly at the ends
            u[:, 0] = initial(grid.points[:, 0].to(times.device)) - floor
        return u + floor, end

    return Problem(
        name=name,
        title="Convection-diffusion equation",
        equation="u_t + v u_x = D u_xx + f(t, x)",
        section="subsubsect_conv_diff",
        law=sine_gaussian(1.0, squared=True),
        time=time,
        inputs=grid,
        outputs=grid,
        evolution=evolution,
        solver={"name": "exact eigenfunctions", "modes": EIGENMODES, "steps_per_output": substeps},
    )
