"""The heat equation on a triangle."""

import functools
import math

import torch
from torch import Tensor

from tino.grids import TimeGrid, Triangle
from tino.inputs import Forcing, sine_gaussian_2d
from tino.problems.base import Problem, chunk_size, positive, register
from tino.solvers.march import Solution, Tick
from tino.solvers.modes import solve_modes
from tino.solvers.triangle import TriangleModes

CELL = 384  # sampling points along each side of the lattice cell


@register("heat-triangle")
def heat_triangle(name: str, n_t: int = 100, resolution: int = 32, alpha: float = 0.005) -> Problem:
    """u_t = α Δu + f(t, x) on an insulated equilateral triangle, u(0) = 0, t in [0, 1] (subsubsect_heat_equ)."""
    positive(name, alpha=alpha)
    grid = Triangle(resolution)
    time = TimeGrid(0.0, 1.0, n_t)
    substeps = math.ceil(time.step / 0.0102)

    @functools.cache  # shared by all chunks
    def eigenfunctions(cell: int) -> tuple[TriangleModes, Tensor]:
        modes = TriangleModes.make(cell)
        return modes, modes.functions(grid.points)

    def evolution(forcing: Forcing, times: Tensor, state: Tensor | None, refine: int, tick: Tick) -> Solution:
        modes, functions = eigenfunctions(refine * CELL)
        functions, rate = functions.to(times.device), alpha * modes.k.square().sum(1).to(times.device)
        profile = modes.coefficients(forcing.on(modes.folded.to(times.device)))
        start = torch.zeros_like(profile) if state is None else state
        return solve_modes(rate, profile, forcing.amplitude, functions, times, refine * substeps, start, tick)

    return Problem(
        name=name,
        title="Heat equation on a triangle",
        equation="u_t = α Δu + f(t, x), ∂u/∂n = 0",
        section="subsubsect_heat_equ",
        law=sine_gaussian_2d(),
        time=time,
        inputs=grid,
        outputs=grid,
        evolution=evolution,
        solver={"name": "exact Neumann eigenfunctions of the triangle", "cell": CELL, "steps_per_output": substeps},
        chunk=chunk_size(grid.size, 50),
    )
