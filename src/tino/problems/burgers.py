"""The viscous Burgers equation on a periodic interval."""

import math

import torch
from torch import Tensor

from tino.errors import TinoError
from tino.grids import Periodic, TimeGrid
from tino.inputs import Forcing, sine_fourier
from tino.problems.base import Advance, Problem, register
from tino.solvers.spectral import PeriodicEquation, solve_periodic

MODES = 10  # of the forcing and of the initial state


def burgers_equation(nu: float) -> PeriodicEquation:
    """u_t + (u²)_x / 2 = ν u_xx + f."""

    def initial(x: Tensor) -> Tensor:
        """u_0 = Σ_n (sin 2πnx + cos 2πnx) / n² (equ_burgers_ic)."""
        n = torch.arange(1, MODES + 1, dtype=x.dtype, device=x.device)
        angle = 2 * torch.pi * x * n
        return ((torch.sin(angle) + torch.cos(angle)) / n**2).sum(-1)

    return PeriodicEquation(
        linear=lambda k: -nu * k**2,
        nonlinear=lambda u, ik: -0.5 * ik * torch.fft.rfft(u * u),
        initial=initial,
    )


@register("burgers-0.01", nu=0.01)
@register("burgers-0.1", nu=0.1)  # listed first: decorators apply from below
def burgers(name: str, nu: float, n_t: int = 200, resolution: int = 128) -> Problem:
    """u_t + (u²)_x / 2 = ν u_xx + f(t, x), periodic on [0, 1], t in [0, 4] (subsubsect_burgers)."""
    if resolution <= 2 * MODES:
        raise TinoError(f"{name} needs resolution > {2 * MODES} for its {MODES} modes, got {resolution}")
    equation = burgers_equation(nu)
    time = TimeGrid(0.0, 4.0, n_t)
    # what a refinement study asks for an MSE below 1e-12: points across the steepest front, steps below the
    # advective limit of the highest kept mode
    points, step = (256, 0.0051) if nu >= 0.05 else (512, 0.00205)
    n_inner = resolution * math.ceil(points / resolution)
    substeps = math.ceil(time.step / step)

    def solution(forcing: Forcing, times: Tensor, refine: int, advance: Advance) -> Tensor:
        return solve_periodic(
            equation, forcing, times, resolution, refine * n_inner, refine * substeps, advance
        )

    return Problem(
        name=name,
        title=f"Burgers' equation (ν = {nu:g})",
        equation="u_t + (u²)_x / 2 = ν u_xx + f(t, x)",
        section="subsubsect_burgers",
        law=sine_fourier(MODES),
        time=time,
        inputs=Periodic(1.0, (resolution,)),
        outputs=Periodic(1.0, (resolution,)),
        solution=solution,
        solver={
            "name": "Fourier pseudo-spectral, 2/3 rule, ETDRK4",
            "points": n_inner,
            "steps_per_output": substeps,
        },
        options={"nu": nu, "n_t": n_t, "resolution": resolution},
    )
