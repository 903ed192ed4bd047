"""Forced equations on an interval: Allen-Cahn by the method of lines, convection-diffusion by its eigenfunctions."""

import functools
import math

import torch
from torch import Tensor

from tino.grids import Interval, TimeGrid
from tino.inputs import Forcing, sine_gaussian
from tino.problems.base import Advance, Problem, choice, register
from tino.solvers.lines import BOUNDARIES, LineEquation, solve_line
from tino.solvers.modes import solve_modes

CELLS = 1024  # of the series for Allen-Cahn: its fronts are about 0.01 wide


@register("allen-cahn")
def allen_cahn(
    name: str, n_t: int = 200, resolution: int = 128, epsilon: float = 0.01, boundary: str = "neumann"
) -> Problem:
    """u_t = ε² u_xx + u - u³ + f(t, x), u(0, x) = 1/2, t in [0, 4] (subsubsect_allen_cahn).

    Printed: ε² (u_x)², read as ε² u_xx; and u_t = 0 at the ends, read as u_x = 0 (``boundary="frozen"`` keeps the
    end values, as printed).
    """
    choice(name, "boundary", boundary, BOUNDARIES)
    equation = LineEquation(
        diffusion=epsilon**2,
        reaction=lambda u: u - u**3,
        initial=lambda x: torch.full_like(x[:, 0], 0.5),
        boundary=boundary,
    )
    time, grid = TimeGrid(0.0, 4.0, n_t), Interval(0.0, 1.0, resolution)
    substeps = math.ceil(time.step / 0.0102)

    def evolution(
        forcing: Forcing, times: Tensor, state: Tensor | None, refine: int, advance: Advance
    ) -> tuple[Tensor, Tensor]:
        return solve_line(equation, forcing, times, resolution, refine * CELLS, refine * substeps, state, advance)

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
        evolution=evolution,
        solver={"name": f"method of lines: {series} series, ETDRK4", "points": CELLS + 1, "steps_per_output": substeps},
        options={"n_t": n_t, "resolution": resolution, "epsilon": epsilon, "boundary": boundary},
    )


def convection_modes(diffusion: float, velocity: float, boundary: str, count: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """Decay rates (k,) and functions (k, x) of u_t + v u_x = D u_xx on [0, 1]: with p = v / 2D,

    u_x = 0 at the ends: 1, and e^{px} (cos nπx - p/(nπ) sin nπx);   u = 0 at the ends: e^{px} sin nπx.
    """
    p = velocity / (2 * diffusion)
    n = torch.arange(1, count + 1, dtype=torch.float64)[:, None]
    rate = diffusion * (n[:, 0] * torch.pi) ** 2 + velocity**2 / (4 * diffusion)
    angle, growth = n * torch.pi * x, torch.exp(p * (x - 1))
    if boundary == "frozen":
        return rate, growth * torch.sin(angle)
    waves = growth * (torch.cos(angle) - p / (n * torch.pi) * torch.sin(angle))
    return torch.cat([torch.zeros(1, dtype=torch.float64), rate]), torch.cat([torch.ones(1, len(x)).double(), waves])


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

    Printed: u_t = 0 at the ends, read as u_x = 0 (``boundary="frozen"`` keeps the end values, as printed).
    """
    choice(name, "boundary", boundary, BOUNDARIES)
    time, grid = TimeGrid(0.0, 4.0, n_t), Interval(0.0, 1.0, resolution)
    cells = (resolution - 1) * math.ceil(1016 / (resolution - 1))
    substeps = math.ceil(time.step / 0.0204)

    def initial(x: Tensor) -> Tensor:
        return 3 * torch.exp(-((x - 0.5) ** 2) / 0.1)

    frozen = boundary == "frozen"
    floor = float(initial(torch.zeros(1))) if frozen else 0.0  # the same at both ends

    @functools.cache  # the same for every chunk
    def modes(refine: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Nodes, rates, functions at the output points, and the map from values at the nodes to coefficients."""
        n = refine * cells
        x = torch.linspace(0.0, 1.0, n + 1, dtype=torch.float64)
        inner = x[1:-1] if frozen else x
        rate, values = convection_modes(diffusion, velocity, boundary, n - 1 if frozen else n, x)
        to_modes = torch.linalg.inv(values[:, 1:-1] if frozen else values)
        return inner, rate, values[:, :: n // (resolution - 1)].contiguous(), to_modes

    def evolution(
        forcing: Forcing, times: Tensor, state: Tensor | None, refine: int, advance: Advance
    ) -> tuple[Tensor, Tensor]:
        x, rate, functions, to_modes = (part.to(times.device) for part in modes(refine))
        profile = forcing.on(x[:, None]) @ to_modes
        if state is None:
            state = ((initial(x) - floor) @ to_modes).expand(forcing.batch, -1)
        u, state = solve_modes(rate, profile, forcing.amplitude, functions, times, refine * substeps, state, advance)
        return u + floor, state

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
        solver={
            "name": "eigenfunctions of convection and diffusion",
            "points": cells + 1,
            "steps_per_output": substeps,
        },
        options={
            "n_t": n_t,
            "resolution": resolution,
            "diffusion": diffusion,
            "velocity": velocity,
            "boundary": boundary,
        },
    )
