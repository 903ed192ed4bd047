"""Forced ordinary differential equations: one input signal, one output signal."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tino.grids import Point, TimeGrid
from tino.inputs import Forcing, InputLaw, sine
from tino.problems.base import Advance, Problem, column, register
from tino.solvers.runge_kutta import dormand_prince

Slope = Callable[[Tensor, Tensor], Tensor]  # (f: (b,), state: (b, d)) -> d(state)/dt: (b, d)


def forced_ode(
    name: str,
    title: str,
    equation: str,
    section: str,
    slope: Slope,
    initial: tuple[float, ...],
    options: dict[str, Any],
    law: InputLaw,
    rtol: float = 1e-8,
) -> Problem:
    """f -> first component of the state of y' = slope(f, y), y(T_0) = initial, on [0, 10]."""
    atol = 1e-2 * rtol

    def solution(forcing: Forcing, times: Tensor, refine: int, advance: Advance) -> Tensor:
        def rhs(t: Tensor, y: Tensor) -> Tensor:
            return slope(forcing.amplitude(t)[:, 0], y)

        y0 = torch.tensor(initial, dtype=torch.float64, device=times.device).expand(forcing.batch, -1)
        tight = refine**5  # a fifth-order method: twice as fine means 32 times as tight
        fine = torch.linspace(
            float(times[0]), float(times[-1]), refine * (len(times) - 1) + 1, dtype=torch.float64
        ).to(times.device)
        y = dormand_prince(rhs, y0, fine, rtol / tight, atol / tight, advance)
        return y[:, ::refine, :1]

    return Problem(
        name=name,
        title=title,
        equation=equation,
        section=section,
        law=law,
        time=TimeGrid(0.0, 10.0, options["n_t"]),
        inputs=Point(),
        outputs=Point(),
        solution=solution,
        solver={"name": "Dormand-Prince 5(4), error control per sample", "rtol": rtol, "atol": atol},
        options=options,
    )


@register("duffing")
def duffing(name: str, n_t: int = 1000, damping: float = 1.0) -> Problem:
    """u'' + c u' + u + u³ = f(t), u(0) = u'(0) = 0 (subsubsect_duffing_osc)."""

    def slope(f: Tensor, y: Tensor) -> Tensor:
        u, v = y.unbind(1)
        return column(v, f - damping * v - u - u**3)

    return forced_ode(
        name,
        "Duffing oscillator",
        "u'' + c u' + u + u³ = f(t)",
        "subsubsect_duffing_osc",
        slope,
        (0.0, 0.0),
        {"n_t": n_t, "damping": damping},
        sine(),
    )
