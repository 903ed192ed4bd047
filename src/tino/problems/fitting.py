"""Operators given by a formula: their answers are exact."""

import math

import torch
from torch import Tensor

from tino.grids import Interval, TimeGrid
from tino.inputs import Forcing, sine_gaussian
from tino.problems.base import Advance, Problem, register


@register("fitting-space")
def fitting_space(name: str, n_t: int = 200, resolution: int = 128) -> Problem:
    """u(t, y) = ∫_0^t ∫_0^{y/2} K(ξ, y/2) f(s, ξ)² dξ ds, K(x, y) = x y + 1 (subsubsect_fitting_time_space).

    The input lives on [0, 1], the output on [0, 2]. The paper prints u under the integral for the input f.
    """
    outputs = Interval(0.0, 2.0, resolution)

    def solution(forcing: Forcing, times: Tensor, refine: int, advance: Advance) -> Tensor:
        p = forcing.params
        in_time = p["A"] ** 2 * (  # ∫_0^t A² sin²(b s + c) ds, (b, t)
            times / 2 - (torch.sin(2 * (p["b"] * times + p["c"])) - torch.sin(2 * p["c"])) / (4 * p["b"])
        )
        y = outputs.points[:, 0].to(times.device) / 2
        mu, sigma = p["mu"], p["sigma"]
        mass = sigma * math.sqrt(math.pi) / 2 * (torch.erf((y - mu) / sigma) + torch.erf(mu / sigma))
        drift = sigma**2 / 2 * (torch.exp(-(((y - mu) / sigma) ** 2)) - torch.exp(-((mu / sigma) ** 2)))
        in_space = y * (mu * mass - drift) + mass  # ∫_0^{y/2} (ξ y/2 + 1) exp(-(ξ - μ)²/σ²) dξ, (b, y)
        return in_time[:, :, None] * in_space[:, None, :]

    return Problem(
        name=name,
        title="Fitting an operator in time and space",
        equation="u(t, y) = ∫_0^t ∫_0^{y/2} (ξ y/2 + 1) f(s, ξ)² dξ ds",
        section="subsubsect_fitting_time_space",
        law=sine_gaussian(1.0),
        time=TimeGrid(0.0, 4.0, n_t),
        inputs=Interval(0.0, 1.0, resolution),
        outputs=outputs,
        solution=solution,
        solver={"name": "closed form"},
        options={"n_t": n_t, "resolution": resolution},
    )
