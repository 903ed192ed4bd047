"""The Problem record (input law, grids, reference solver) and the registry of problems by name."""

import functools
import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tino.errors import TinoError, of_kind, unknown
from tino.grids import Grid, Periodic, TimeGrid, grid_record
from tino.inputs import Forcing, InputLaw
from tino.solvers.march import Tick
from tino.text import check_text

Evolution = Callable[[Forcing, Tensor, Any, int, Tick], tuple[Tensor, Any]]


@dataclass(frozen=True)
class Windows:
    """Cut each trajectory into ``count`` samples of ``length`` times, whose starts are ``stride`` times apart.

    The state at the start of a window is part of its input, and its time starts at zero.
    """

    count: int
    stride: int
    length: int

    def starts(self) -> range:
        return range(0, self.count * self.stride, self.stride)


@dataclass(frozen=True)
class Problem:
    """A forced system f -> u, with everything needed to generate data from it.

    ``evolution(forcing, times, state, refine, tick)`` returns u (b, t, x) in float64 and the state at the last time.
    It starts at times[0] from ``state``, or from the problem's initial state if that is None. ``refine`` multiplies
    the solver's resolution in time and space. ``solver`` describes the solver and its tolerances for the record.
    """

    name: str
    title: str
    equation: str
    section: str  # the label of its section in the paper; empty if it is not in the paper
    law: InputLaw
    time: TimeGrid
    inputs: Grid
    outputs: Grid
    evolution: Evolution
    solver: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)  # the factory's arguments; ``register`` fills them in
    chunk: int = 100  # samples solved together; fixed, so that the data do not depend on how the work is split
    windows: Windows | None = None

    def solve(self, forcing: Forcing, refine: int = 1, tick: Tick = lambda: None) -> Tensor:
        """Solve for a batch of forcings, on their device -> (b, t, x)."""
        return self.evolve(forcing, self.time.points, None, refine, tick)[0]

    def evolve(
        self, forcing: Forcing, times: Tensor, state: Any = None, refine: int = 1, tick: Tick = lambda: None
    ) -> tuple[Tensor, Any]:
        """Solve at the given uniform times, starting from ``state`` -> u (b, t, x) and the full final state."""
        with one_thread():
            return self.evolution(forcing, times.to(forcing.device), state, refine, tick)

    def sensors(self, forcing: Forcing) -> Tensor:
        """The forcing as the model sees it, on the time grid at the input points -> (b, t, m)."""
        return forcing(self.time.points.to(forcing.device), self.inputs.points.to(forcing.device))

    @property
    def sample_time(self) -> TimeGrid:
        """The time grid of one sample: that of a window if the problem has windows, else the problem's."""
        if self.windows is None:
            return self.time
        n = self.windows.length
        return TimeGrid(0.0, float(self.time.points[n - 1] - self.time.points[0]), n)

    def cautions(self) -> list[str]:
        """Warnings about the chosen grids."""
        found = []
        for word, grid in (("input", self.inputs), ("output", self.outputs)):
            if self.law.modes and isinstance(grid, Periodic):
                n = min(grid.shape)
                if aliased := [j for j in range(1, self.law.modes + 1) if 2 * j >= n]:
                    folds = ", ".join(
                        f"{j} (its sine vanishes)" if 2 * (j % n) == n else f"{j} (seen as {min(j % n, n - j % n)})"
                        for j in aliased
                    )
                    found.append(f"{n} {word} points cannot resolve the forcing's modes {folds}")
        return found

    def record(self) -> dict[str, Any]:
        """Everything that determines the data except the seed and the counts, as plain JSON values.

        The cache's file names hash it, so even a new order of its keys means a new file.
        """
        ranges = {n: [r.low, r.high] + [r.count] * bool(r.count) for n, r in self.law.ranges.items()}
        record = {
            "problem": self.name,
            "equation": self.equation,
            "options": dict(self.options),
            "input": {"formula": self.law.formula, "ranges": ranges},
            "time": vars(self.sample_time),
            "inputs": grid_record(self.inputs),
            "outputs": grid_record(self.outputs),
            "solver": dict(self.solver),
            "chunk": self.chunk,
        }
        return record if self.windows is None else {**record, "windows": vars(self.windows)}


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread. Solvers are long sequences of small operations, which threads only slow down."""
    threads = torch.get_num_threads()
    if threads == 1:  # a pool of workers may have set this already
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


_FACTORIES: dict[str, tuple[Callable[..., Problem], dict[str, Any]]] = {}


def register(name: str, **fixed: Any) -> Callable[[Callable[..., Problem]], Callable[..., Problem]]:
    """Register a factory under a name, with some arguments fixed. One factory may serve several names.

    The decorated factory also sets the problem's options: all its arguments except ``name``, in the order of its
    signature, with fixed arguments and defaults included. Every argument thus reaches the record, and problems that
    differ in one of them never share a file in the cache. Arguments after ``*`` reach it only if they differ from their
    defaults: such an option can be added later, and the data made before keep their names.
    """

    def enrol(factory: Callable[..., Problem]) -> Callable[..., Problem]:
        if is_built_in(name):
            raise TinoError(f"the name '{name}' is one of tino's own problems: choose another")
        check_text("problem's name", name)
        recorded = _recorded(factory)
        _FACTORIES[name] = (recorded, fixed)
        return recorded

    return enrol


def _recorded(factory: Callable[..., Problem]) -> Callable[..., Problem]:
    """Wrap a factory so that the problems it makes know their options."""
    signature = inspect.signature(factory)
    later = {k: p.default for k, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY}

    @functools.wraps(factory)
    def make(*args: Any, **kwargs: Any) -> Problem:
        made = factory(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        options = {k: v for k, v in bound.arguments.items() if k != "name" and not (k in later and v == later[k])}
        for option, value in options.items():
            try:  # the record is JSON
                json.dumps(value)
            except (TypeError, ValueError) as error:
                given = f"{made.name}: {option} is of type {type(value).__name__}"
                raise TinoError(f"{given}, expected a number, a string or a list of them") from error
        return replace(made, options=options)

    return make


def problem_names() -> list[str]:
    return list(_FACTORIES)


def is_built_in(name: str) -> bool:
    """Whether the name is registered by tino itself, not by a user."""
    return name in _FACTORIES and _FACTORIES[name][0].__module__.startswith("tino.")


def problem(name: str, **options: Any) -> Problem:
    """The problem with this name. Options (``n_t``, ``resolution``, ...) override the defaults."""
    if of_kind(name, str, "the name of a problem") not in _FACTORIES:
        if name.endswith(".npz"):
            raise TinoError(f"{name} is a file, not a problem: read it with tino.read_arrays")
        raise unknown("problem", name, _FACTORIES)
    factory, fixed = _FACTORIES[name]
    known = _parameters(name)
    for option, value in options.items():
        if option not in known:
            raise TinoError(f"{name} has no option '{option}': it takes {', '.join(known)}")
        if known[option].annotation in (int, float) and not isinstance(value, int | float):
            raise TinoError(f"{name}: {option} is {value!r}, expected a number")
        if isinstance(value, int | float) and not math.isfinite(value):
            raise TinoError(f"{name}: {option} is {value}, expected a finite number")
        if known[option].annotation is int and value != int(value):
            raise TinoError(f"{name}: {option} is {value!r}, expected a whole number")
    whole = {k: int(v) if known[k].annotation is int else v for k, v in options.items()}
    try:
        return factory(name=name, **fixed, **whole)
    except (MemoryError, RuntimeError) as error:  # the second is torch's word for the first
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        given = ", ".join(f"{option} = {value}" for option, value in whole.items())
        raise TinoError(f"{name} with {given} does not fit into memory: use fewer points") from error


def problem_options(name: str) -> dict[str, Any]:
    """The options that ``problem(name, ...)`` takes, with their defaults."""
    return {option: parameter.default for option, parameter in _parameters(name).items()}


def _parameters(name: str) -> dict[str, inspect.Parameter]:
    factory, fixed = _FACTORIES[name]
    return {k: p for k, p in inspect.signature(factory).parameters.items() if k not in ("name", *fixed)}


def choice(name: str, option: str, value: str, known: tuple[str, ...]) -> None:
    """Raise an error unless the option's value is one of ``known``."""
    if value not in known:
        raise TinoError(f"{name}: {option} is '{value}', expected one of {', '.join(known)}")


def positive(name: str, **options: float) -> None:
    """Raise an error unless the options' values are above zero."""
    for option, value in options.items():
        if not value > 0:
            raise TinoError(f"{name}: {option} is {value:g}, expected a number above 0")


def fine_enough(inner: int, n_out: int) -> int:
    """The smallest multiple of n_out that is at least ``inner``, so that the output points are among the inner ones."""
    return n_out * -(-inner // n_out)


def chunk_size(points: int, most: int = 100) -> int:
    """How many samples to solve together: fewer if each is large."""
    return max(1, min(most, 170_000 // points))
