"""How fine must the solver be? Measured for coefficients whose accuracy docs/problems.md does not state."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tino.problems.base import Problem, is_built_in, problem

BOUND = 2e-5  # relative L2 error allowed: less than half of the smallest that a model of the paper's tables reaches
FINEST = 4  # times the points and steps that a problem begins with
SAMPLES = 2
GRID = ("n_t", "resolution")  # options that set only what is stored


@dataclass(frozen=True)
class Refinement:
    """A factor for the solver's points and steps, and how far the solutions with it and with the next one differ."""

    refine: int
    error: float  # relative L2 difference, of the worse sample
    unrefined: float  # the same of factor 1

    def __str__(self) -> str:
        if self.error > BOUND:
            return f"off by {self.error:.0e} (relative L2) even with {self.refine}x the points and steps"
        return f"solved with {self.refine}x the points and steps, else off by {self.unrefined:.0e} (relative L2)"


def has_known_accuracy(given: Problem) -> bool:
    """Whether it is one of tino's own problems with its own forcings and coefficients, on any grid."""
    if not is_built_in(given.name):
        return False
    usual = problem(given.name)
    coefficients = {k: v for k, v in usual.options.items() if k not in GRID and not isinstance(v, str)}
    same = all(given.options.get(name) == value for name, value in coefficients.items())
    return same and given.record()["input"] == usual.record()["input"]


def work(problem: Problem, *refine: int) -> float:
    """What solutions with these factors cost, relative to the factor 1; left out: all that may be needed."""
    return float(sum(k ** (_dimensions(problem) + 1) for k in refine or range(1, FINEST + 2)))


def _dimensions(problem: Problem) -> int:
    return problem.outputs.points.shape[1]


def find_refinement(
    problem: Problem, device: torch.device | str = "cpu", advance: Callable[[float], None] = lambda n: None
) -> Refinement:
    """The first factor up to FINEST whose solution differs from that of the next one by at most BOUND.

    Two samples are solved, the same for every seed. ``advance`` is told of progress, in the units of ``work``.
    """
    forcing = problem.law.sample(0, 0, range(SAMPLES)).to(device)

    def solve(refine: int) -> Tensor:
        whole = left = work(problem, refine)
        ticks = problem.time.n * (1 if _dimensions(problem) else refine)  # an ODE is also solved at times between

        def tick() -> None:
            nonlocal left
            part = min(left, whole / ticks)
            left -= part
            advance(part)

        with torch.no_grad():
            u = problem.solve(forcing, refine, tick)
        advance(left)
        return u

    errors, u = [], solve(1)
    for refine in range(1, FINEST + 1):
        finer = solve(refine + 1)
        errors.append(_difference(u, finer))
        if errors[-1] <= BOUND:
            break
        u = finer
    return Refinement(len(errors), errors[-1], errors[0])


def _difference(u: Tensor, finer: Tensor) -> float:
    """Relative L2, of the worst sample; inf if one is not finite."""
    apart, size = (v.flatten(1).norm(dim=1) for v in (u - finer, finer))
    return float(torch.where(apart > 0, apart / size, apart).nan_to_num(nan=torch.inf).max())
