"""Advection by a wind that depends on time: causal, but not time-invariant."""

import math

import torch

from tino.grids import Periodic, TimeGrid
from tino.inputs import sine_fourier
from tino.problems.base import Problem, choice, fine_enough, register
from tino.problems.periodic import fourier_initial
from tino.solvers.advection import AdvectionEquation, along_characteristics, upwind
from tino.solvers.march import Mesh


@register("advection-reaction")
def advection_reaction(name: str, n_t: int = 200, resolution: int = 128, scheme: str = "characteristics") -> Problem:
    """u_t + cos(t) u_x + sin(0.1 u) = f(t, x), periodic on [0, 1], t in [0, 4] (subsubsect_adv_react).

    ``scheme="upwind"`` is the paper's first-order scheme, on the output points. It smears the solution; it is here
    to show the difference.
    """
    choice(name, "scheme", scheme, ("characteristics", "upwind"))
    equation = AdvectionEquation(
        wind=math.cos, drift=math.sin, reaction=lambda u: -torch.sin(0.1 * u), initial=fourier_initial
    )
    time = TimeGrid(0.0, 4.0, n_t)
    grid = Periodic(1.0, (resolution,))
    exact = scheme == "characteristics"
    step = 0.0204 if exact else 0.5 / resolution
    n_inner = fine_enough(128, resolution) if exact else resolution
    mesh = Mesh(resolution, n_inner, math.ceil(time.step / step))
    solver = along_characteristics if exact else upwind
    return Problem(
        name=name,
        title="Advection-reaction equation",
        equation="u_t + cos(t) u_x + sin(0.1 u) = f(t, x)",
        section="subsubsect_adv_react",
        law=sine_fourier((1,)),
        time=time,
        inputs=grid,
        outputs=grid,
        evolution=lambda forcing, times, state, refine, tick: solver(
            equation, forcing, times, mesh.refined(refine), state, tick
        ),
        solver={
            "name": "Fourier in the moving frame, RK4" if exact else "upwind differences, Euler",
            "points": mesh.n_inner,
            "steps_per_output": mesh.substeps,
        },
    )
