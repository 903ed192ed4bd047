"""Advection by a wind that changes with the clock: causal, but not time-invariant."""

import math

import torch
from torch import Tensor

from tino.grids import Periodic, TimeGrid
from tino.inputs import Forcing, sine_fourier
from tino.problems.base import Problem, choice, fine_enough, register
from tino.problems.periodic import fourier_initial
from tino.solvers.march import Tick, march
from tino.solvers.runge_kutta import rk4
from tino.solvers.spectral import FourierBox

Answer = tuple[Tensor, Tensor]


def along_characteristics(
    forcing: Forcing, times: Tensor, state: Tensor | None, n_out: int, n: int, substeps: int, tick: Tick
) -> Answer:
    """In the frame that moves with the wind, U(t, X) = u(t, X + sin t), there is no advection left:
    U_t = -sin(U/10) + f(t, X + sin t). A shift in x is a phase in Fourier space, so nothing is smeared.
    The state is the spectrum of u itself."""
    box = FourierBox(n, 1, 1.0, times.device)
    source = forcing.through(box.points, box.forward)

    def phase(t: float) -> Tensor:
        return torch.exp(1j * box.k[0] * math.sin(t))  # u -> U

    def slope(t: float, big_u: Tensor) -> Tensor:
        return box.backward(source(t) * phase(t)) - torch.sin(0.1 * big_u)

    def observe(t: float, big_u: Tensor) -> Tensor:
        return box.backward(box.forward(big_u) * phase(t).conj())[:, :: n // n_out].contiguous()

    if state is None:
        state = box.forward(fourier_initial(box.points)).expand(forcing.batch, -1)
    start = box.backward(state * phase(float(times[0])))
    u, big_u = march(lambda h: rk4(slope, h), start, times, substeps, observe, tick)
    return u, box.forward(big_u) * phase(float(times[-1])).conj()


def upwind(
    forcing: Forcing, times: Tensor, state: Tensor | None, n_out: int, n: int, substeps: int, tick: Tick
) -> Answer:
    """The paper's scheme: first-order upwind differences and forward Euler, on the output points (n = n_out)."""
    box = FourierBox(n, 1, 1.0, times.device)
    source = forcing.through(box.points, lambda f: f)

    def make_step(h: float):
        def step(t: float, u: Tensor) -> Tensor:
            wind = math.cos(t)
            slope = (u - u.roll(1, 1)) * n if wind > 0 else (u.roll(-1, 1) - u) * n
            return u + h * (source(t) - wind * slope - torch.sin(0.1 * u))

        return step

    if state is None:
        state = fourier_initial(box.points).expand(forcing.batch, -1)
    return march(make_step, state, times, substeps, lambda t, u: u[:, :: n // n_out].contiguous(), tick)


@register("advection-reaction")
def advection_reaction(name: str, n_t: int = 200, resolution: int = 128, scheme: str = "characteristics") -> Problem:
    """u_t + cos(t) u_x + sin(0.1 u) = f(t, x), periodic on [0, 1], t in [0, 4] (subsubsect_adv_react).

    ``scheme="upwind"`` is the paper's first-order scheme, which smears; kept to show the difference.
    """
    choice(name, "scheme", scheme, ("characteristics", "upwind"))
    time = TimeGrid(0.0, 4.0, n_t)
    grid = Periodic(1.0, (resolution,))
    exact = scheme == "characteristics"
    n = fine_enough(128, resolution) if exact else resolution
    substeps = math.ceil(time.step / (0.0204 if exact else 0.5 / resolution))
    solver = along_characteristics if exact else upwind

    def evolution(forcing: Forcing, times: Tensor, state: Tensor | None, refine: int, tick: Tick) -> Answer:
        return solver(forcing, times, state, resolution, refine * n, refine * substeps, tick)

    return Problem(
        name=name,
        title="Advection-reaction equation",
        equation="u_t + cos(t) u_x + sin(0.1 u) = f(t, x)",
        section="subsubsect_adv_react",
        law=sine_fourier((1,)),
        time=time,
        inputs=grid,
        outputs=grid,
        evolution=evolution,
        solver={
            "name": "Fourier in the moving frame, RK4" if exact else "upwind differences, Euler",
            "points": n,
            "steps_per_output": substeps,
        },
        options={"n_t": n_t, "resolution": resolution, "scheme": scheme},
    )
