"""Grids and channels: what they refuse."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import tino

WRONG: list[tuple[Any, tuple[Any, ...], str]] = [
    (tino.TimeGrid, (0, 1, 20.5), "n_t is 20.5, expected a whole number"),
    (tino.TimeGrid, (0, 1, 20.0), "n_t is 20.0, expected a whole number"),
    (tino.TimeGrid, (0, 1, True), "n_t is True, expected a whole number"),
    (tino.TimeGrid, (0, 1, "20"), "n_t is '20', expected a whole number"),
    (tino.TimeGrid, (0, 1, 10**30), "expected at most"),
    (tino.TimeGrid, (0, 1, 10**5000), "n_t is a number of 16610 bits, expected at most"),
    (tino.TimeGrid, (0, 1, 1), "at least 2 points, got n_t = 1"),
    (tino.TimeGrid, (0, math.inf, 20), "stop of a time grid is inf, expected a finite number"),
    (tino.TimeGrid, (math.nan, 1, 20), "start of a time grid is nan, expected a finite number"),
    (tino.TimeGrid, (-1e308, 1e308, 20), "must run forward"),
    (tino.TimeGrid, ("0", 1, 20), "start of a time grid is '0', expected a finite number"),
    (tino.TimeGrid, (1, 0, 20), "must run forward"),
    (tino.Interval, (0, 1, 7.5), "interval is 7.5, expected a whole number"),
    (tino.Interval, (0, None, 7), "stop of an interval is None, expected a finite number"),
    (tino.Interval, (1, 1, 7), "stop > start"),
    (tino.Periodic, (-1,), "length of a periodic box is -1, expected a number above 0"),
    (tino.Periodic, (1.0,), "1 to 3 axes"),
    (tino.Periodic, (-1.0, (8,)), "expected a number above 0"),
    (tino.Periodic, (math.nan, (8,)), "length of a periodic box is nan"),
    (tino.Periodic, ("1", (8,)), "length of a periodic box is '1'"),
    (tino.Periodic, (1.0, (8.5,)), "is 8.5, expected a whole number"),
    (tino.Periodic, (1.0, 8), "is a tuple such as"),
    (tino.Periodic, (1.0, (8, 3)), "4 points or more"),
    (tino.Triangle, (5.5,), "is 5.5, expected a whole number"),
    (tino.Triangle, (3,), "4 x 4 or more"),
    (tino.Triangle, (10**7,), "expected at most 2048"),
    (tino.Channel, (5,), "name of a channel is 5, expected text"),
    (tino.Channel, ("force", None), "unit of a channel is None, expected text"),
]


@pytest.mark.parametrize(("kind", "given", "said"), WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_what_makes_no_sense_is_one_line(kind, given, said):
    with pytest.raises(tino.TinoError) as caught:
        kind(*given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_whole_numbers_of_numpy_are_whole_numbers():
    grid = tino.TimeGrid(0.0, 1.0, np.int64(5))  # pyright: ignore[reportArgumentType]
    assert grid == tino.TimeGrid(0.0, 1.0, 5)
    assert type(grid.n) is int


def test_a_triangle_s_points_are_those_of_the_square_inside_it():
    for n in (4, 9, 24):
        grid = tino.Triangle(n)
        assert torch.equal(grid.points, grid.square[grid.inside])
        assert grid.size == len(grid.points)
