"""Operators given by a formula, so the data are exact. The state is the integral up to now."""

import math

import torch
from torch import Tensor

from tino.grids import Interval, Point, TimeGrid
from tino.inputs import Forcing, Params, sine, sine_gaussian
from tino.problems.base import Problem, choice, register
from tino.solvers.march import Solution, Tick


@register("fitting-time")
def fitting_time(name: str, n_t: int = 1000, clock: str = "printed") -> Problem:
    """u(t) = f² + cos((10 - t) f) + ∫_0^t f (subsubsect_fitting_time).

    The paper calls it time-invariant, but 10 - t depends on the clock. ``clock="constant"`` replaces it by 10.
    """
    choice(name, "clock", clock, ("printed", "constant"))

    def primitive(p: Params, t: Tensor) -> Tensor:
        return -p["A"] / p["b"] * torch.cos(p["b"] * t + p["c"])

    def evolution(forcing: Forcing, times: Tensor, state: Tensor | None, refine: int, tick: Tick) -> Solution:
        f, p = forcing.amplitude(times), forcing.params
        integral = primitive(p, times) - primitive(p, times[:1]) + (0.0 if state is None else state)  # (b, t)
        factor = 10 - times if clock == "printed" else torch.full_like(times, 10.0)
        return (f**2 + torch.cos(factor * f) + integral)[:, :, None], integral[:, -1:]

    return Problem(
        name=name,
        title="Fitting an operator in time",
        equation=f"u(t) = f(t)² + cos({'(10 - t)' if clock == 'printed' else '10'} f(t)) + ∫_0^t f(s) ds",
        section="subsubsect_fitting_time",
        law=sine(),
        time=TimeGrid(0.0, 10.0, n_t),
        inputs=Point(),
        outputs=Point(),
        evolution=evolution,
        solver={"name": "closed form"},
        chunk=1000,
    )


@register("fitting-space")
def fitting_space(name: str, n_t: int = 200, resolution: int = 128) -> Problem:
    """u(t, y) = ∫_0^t ∫_0^{y/2} K(ξ, y/2) f(s, ξ)² dξ ds, K(x, y) = x y + 1 (subsubsect_fitting_time_space).

    The input is defined on [0, 1], the output on [0, 2]. The paper prints u under the integral where it means f.
    """
    outputs = Interval(0.0, 2.0, resolution)

    def in_time(p: Params, t: Tensor) -> Tensor:
        """An antiderivative of A² sin²(b t + c), (b, t)."""
        return p["A"] ** 2 * (t / 2 - torch.sin(2 * (p["b"] * t + p["c"])) / (4 * p["b"]))

    def in_space(p: Params, y: Tensor) -> Tensor:
        """∫_0^y (ξ y + 1) exp(-(ξ - μ)² / σ²) dξ, (b, y)."""
        mu, sigma = p["mu"], p["sigma"]
        mass = sigma * math.sqrt(math.pi) / 2 * (torch.erf((y - mu) / sigma) + torch.erf(mu / sigma))
        drift = sigma**2 / 2 * (torch.exp(-(((y - mu) / sigma) ** 2)) - torch.exp(-((mu / sigma) ** 2)))
        return y * (mu * mass - drift) + mass

    def evolution(forcing: Forcing, times: Tensor, state: Tensor | None, refine: int, tick: Tick) -> Solution:
        p = forcing.params
        gained = in_time(p, times) - in_time(p, times[:1])
        y = outputs.points[:, 0].to(times.device) / 2
        u = gained[:, :, None] * in_space(p, y)[:, None, :]
        u = u if state is None else u + state[:, None]
        return u, u[:, -1]

    return Problem(
        name=name,
        title="Fitting an operator in time and space",
        equation="u(t, y) = ∫_0^t ∫_0^{y/2} (ξ y/2 + 1) f(s, ξ)² dξ ds",
        section="subsubsect_fitting_time_space",
        law=sine_gaussian(1.0),
        time=TimeGrid(0.0, 4.0, n_t),
        inputs=Interval(0.0, 1.0, resolution),
        outputs=outputs,
        evolution=evolution,
        solver={"name": "closed form"},
    )
