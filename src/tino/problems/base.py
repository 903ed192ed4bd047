"""What a problem is: an input law, grids, and a reference solution from forcing to response."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tino.errors import TinoError, unknown
from tino.grids import Grid, TimeGrid, grid_record
from tino.inputs import Forcing, InputLaw

Advance = Callable[[], None]  # called by a solver after each output time


@dataclass(frozen=True)
class Problem:
    """A forced system f -> u with everything needed to make data from it.

    ``solution(forcing, times, refine, advance)`` returns u (b, t, x) in float64; ``refine`` multiplies the
    solver's inner resolution in time and space. ``solver`` names it and its tolerances, for the records.
    """

    name: str
    title: str
    equation: str
    section: str  # the label of its section in the paper
    law: InputLaw
    time: TimeGrid
    inputs: Grid
    outputs: Grid
    solution: Callable[[Forcing, Tensor, int, Advance], Tensor]
    solver: Mapping[str, Any]
    options: Mapping[str, Any]  # the arguments the factory was called with, defaults included

    def solve(self, forcing: Forcing, refine: int = 1, advance: Advance = lambda: None) -> Tensor:
        """The reference solution for a batch of forcings, on the forcing's device -> (b, t, x)."""
        device = next(iter(forcing.params.values())).device
        return self.solution(forcing, self.time.points.to(device), refine, advance)

    def sensors(self, forcing: Forcing) -> Tensor:
        """The forcing as a model sees it: at the time grid and the input points -> (b, t, m)."""
        device = next(iter(forcing.params.values())).device
        return forcing(self.time.points.to(device), self.inputs.points.to(device))

    def record(self) -> dict[str, Any]:
        """Everything that determines the data, apart from seed and counts, as plain JSON values."""
        ranges = {n: [r.low, r.high] + [r.count] * bool(r.count) for n, r in self.law.ranges.items()}
        return {
            "problem": self.name,
            "equation": self.equation,
            "options": dict(self.options),
            "input": {"formula": self.law.formula, "ranges": ranges},
            "time": {"start": self.time.start, "stop": self.time.stop, "n": self.time.n},
            "inputs": grid_record(self.inputs),
            "outputs": grid_record(self.outputs),
            "solver": dict(self.solver),
        }


_FACTORIES: dict[str, tuple[Callable[..., Problem], dict[str, Any]]] = {}


def register(name: str, **fixed: Any) -> Callable[[Callable[..., Problem]], Callable[..., Problem]]:
    """Enrol a factory under a name, with arguments fixed for it; one factory may serve several names."""

    def enrol(factory: Callable[..., Problem]) -> Callable[..., Problem]:
        _FACTORIES[name] = (factory, fixed)
        return factory

    return enrol


def problem_names() -> list[str]:
    return list(_FACTORIES)


def problem(name: str, **options: Any) -> Problem:
    """The problem of that name; options (``n_t``, ``resolution``, ...) replace the paper's values."""
    if name not in _FACTORIES:
        raise unknown("problem", name, _FACTORIES)
    factory, fixed = _FACTORIES[name]
    known = [p for p in inspect.signature(factory).parameters if p not in ("name", *fixed)]
    for option in options:
        if option not in known:
            raise TinoError(f"{name} has no option '{option}': it takes {', '.join(known)}")
    return factory(name=name, **fixed, **options)


def column(values: Tensor, *more: Tensor) -> Tensor:
    """Stack (b,) components into a state (b, d)."""
    return torch.stack([values, *more], dim=1)
