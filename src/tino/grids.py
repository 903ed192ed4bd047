"""Where things are sampled: a uniform time grid, and the points of space.

A grid is a small frozen record that knows its points; ``grid_record`` and ``grid_from_record`` carry it
through JSON and HDF5 metadata.
"""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tino.errors import TinoError, in_short, of_kind, shown, whole

MOST = 2**40  # points: more than any memory holds
MOST_POINTS = 2**17  # with coordinates of their own, which a record holds as text


@dataclass(frozen=True)
class TimeGrid:
    """n uniform times from start to stop, both ends included: t_i = start + i step."""

    start: float
    stop: float
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole("n_t", self.n, most=MOST))
        if self.n < 2:
            raise TinoError(f"a time grid needs at least 2 points, got n_t = {self.n}")
        of_kind(self.start, float, "the start of a time grid")
        of_kind(self.stop, float, "the stop of a time grid")
        if not (self.stop > self.start and self.step > 0 and math.isfinite(self.step)):
            raise TinoError(f"a time grid must run forward, got [{self.start}, {self.stop}]")

    @property
    def step(self) -> float:
        return (self.stop - self.start) / (self.n - 1)

    @property
    def points(self) -> Tensor:  # (t,)
        return torch.linspace(self.start, self.stop, self.n, dtype=torch.float64)


@dataclass(frozen=True)
class Point:
    """No space at all: the signal is a function of time alone."""

    kind = "point"

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def size(self) -> int:
        return 1

    @property
    def points(self) -> Tensor:  # (1, 0)
        return torch.zeros(1, 0, dtype=torch.float64)


@dataclass(frozen=True)
class Interval:
    """n uniform points on [start, stop], both ends included."""

    start: float
    stop: float
    n: int

    kind = "interval"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole("the number of points of an interval", self.n, most=MOST))
        of_kind(self.start, float, "the start of an interval")
        of_kind(self.stop, float, "the stop of an interval")
        if self.n < 2 or not (self.stop > self.start and math.isfinite(self.stop - self.start)):
            raise TinoError(f"an interval needs 2 points or more and stop > start, got {self}")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n,)

    @property
    def size(self) -> int:
        return self.n

    @property
    def points(self) -> Tensor:  # (x, 1)
        return torch.linspace(self.start, self.stop, self.n, dtype=torch.float64)[:, None]


@dataclass(frozen=True)
class Periodic:
    """A periodic box [0, length)^d with shape[i] points along axis i; the right end is left out."""

    length: float
    shape: tuple[int, ...] = ()

    kind = "periodic"

    def __post_init__(self) -> None:
        of_kind(self.length, float, "the length of a periodic box")
        if not self.length > 0:
            raise TinoError(f"the length of a periodic box is {self.length}, expected a number above 0")
        if not isinstance(self.shape, list | tuple):
            given = in_short(repr(self.shape), 40)
            raise TinoError(f"the shape of a periodic box is a tuple such as (128,), got {given}")
        axis = "the number of points along an axis"
        object.__setattr__(self, "shape", tuple(whole(axis, n, most=MOST) for n in self.shape))
        if not 1 <= len(self.shape) <= 3 or min(self.shape) < 4:
            given = in_short(self.shape, 40)
            raise TinoError(f"a periodic box has 1 to 3 axes of 4 points or more, got shape {given}")

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def points(self) -> Tensor:  # (x, d), last axis fastest
        axes = [torch.arange(n, dtype=torch.float64) * (self.length / n) for n in self.shape]
        return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(self.size, -1)


@dataclass(frozen=True)
class Triangle:
    """The points of an n x n grid on [0, 1]² that lie in the equilateral triangle (0,0), (1,0), (1/2, √3/2)."""

    n: int

    kind = "triangle"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole("the number of points along an axis", self.n, most=2048))
        if self.n < 4:
            raise TinoError(f"a triangle needs a grid of 4 x 4 or more, got {self.n} x {self.n}")

    @property
    def square(self) -> Tensor:  # (n, n, 2)
        line = torch.linspace(0.0, 1.0, self.n, dtype=torch.float64)
        return torch.stack(torch.meshgrid(line, line, indexing="ij"), dim=-1)

    @property
    def inside(self) -> Tensor:
        """Which points of the square grid are the triangle's, (n, n); a number of points depends on it."""
        with torch.device("cpu"):  # also while a model is made on torch's meta device, which has no values
            x, y = self.square.unbind(-1)
        roof = math.sqrt(3.0) * torch.minimum(x, 1 - x)
        return y <= roof + 1e-12

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size,)

    @cached_property  # read while a model is traced, when tensors have no values
    def size(self) -> int:
        return int(self.inside.sum())

    @property
    def points(self) -> Tensor:  # (x, 2)
        return torch.linspace(0.0, 1.0, self.n, dtype=torch.float64)[self.inside.nonzero()]


@dataclass(frozen=True)
class Points:
    """Arbitrary places in 1 to 3 dimensions, such as sensors or the nodes of a mesh: n coordinates of d numbers."""

    coordinates: tuple[tuple[float, ...], ...]

    kind = "points"

    def __post_init__(self) -> None:
        rows = self.coordinates
        if not isinstance(rows, list | tuple) or not 2 <= len(rows) <= MOST_POINTS:
            given = len(rows) if isinstance(rows, list | tuple) else shown(rows)
            raise TinoError(f"points are 2 to {MOST_POINTS} rows of coordinates, got {given}")
        if (
            not all(isinstance(row, list | tuple) and 1 <= len(row) <= 3 for row in rows)
            or len(set(map(len, rows))) > 1
        ):
            raise TinoError("points have 1 to 3 coordinates each, as many for one as for another")
        kept = tuple(tuple(of_kind(x, float, "a coordinate of a point") for x in row) for row in rows)
        if len(set(kept)) < len(kept):
            raise TinoError("two points share a place: leave one out")
        object.__setattr__(self, "coordinates", kept)

    def __repr__(self) -> str:
        low, high = ([round(float(x), 6) for x in ends] for ends in (self.points.amin(0), self.points.amax(0)))
        return f"Points({self.size} in {len(low)} dimensions, from {low} to {high})"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size,)

    @property
    def size(self) -> int:
        return len(self.coordinates)

    @property
    def points(self) -> Tensor:  # (x, d)
        return torch.tensor(self.coordinates, dtype=torch.float64)


Grid = Point | Interval | Periodic | Triangle | Points

_KINDS: dict[str, type[Grid]] = {
    "point": Point,
    "interval": Interval,
    "periodic": Periodic,
    "triangle": Triangle,
    "points": Points,
}


def grid_record(grid: Grid) -> dict[str, Any]:
    """The grid as plain JSON values."""
    return {"kind": grid.kind, **{one.name: getattr(grid, one.name) for one in fields(grid)}}


def grid_from_record(record: Any) -> Grid:
    """The grid that ``grid_record`` described."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise TinoError(f"unknown grid kind {in_short(repr(kind), 40)}, expected one of {', '.join(_KINDS)}")
    try:
        return _KINDS[kind](**{name: value for name, value in record.items() if name != "kind"})
    except TypeError as error:
        raise TinoError(f"the record {in_short(record)} does not describe a grid of kind {kind!r}") from error


def grid_words(grid: Grid) -> str:
    """A grid in a few words."""
    if isinstance(grid, Point):
        return "signal"
    if isinstance(grid, Interval):
        return f"{grid.n} points on [{grid.start:g}, {grid.stop:g}]"
    if isinstance(grid, Periodic):
        return f"{' x '.join(map(str, grid.shape))} points, periodic with length {grid.length:g}"
    if isinstance(grid, Points):
        return f"{grid.size} points in {grid.points.shape[1]}-D"
    return f"{grid.size} points of a triangle"
