"""Measured systems by name, through the optional package nonlinear_benchmarks, which downloads them."""

import contextlib
import importlib
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from tino.channels import Channel
from tino.errors import TinoError, in_short, unknown
from tino.grids import Point
from tino.importing.choice import Opened
from tino.importing.content import Content
from tino.importing.options import ImportOptions
from tino.importing.records import Record, Side

PREFIX = "benchmark:"
PACKAGE = "nonlinear_benchmarks"


def benchmark(source: str, options: ImportOptions) -> tuple[Opened, Opened, ImportOptions, int]:
    """benchmark:NAME -> training records, test records, the options with its time step, and the test's burn-in."""
    name = source.removeprefix(PREFIX)
    try:
        package = importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        lacking = getattr(error, "name", None) or PACKAGE
        raise TinoError(f"{source} needs the package {lacking}: pip install tino[benchmarks]") from None
    known: dict[str, Any] = {
        one.__name__: one for one in vars(package).values() if callable(one) and not isinstance(one, type)
    }
    if name not in known:
        raise unknown("benchmark", name, known)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # it tells of its download
            train, test = known[name](always_return_tuples_of_datasets=True)
    except Exception as error:  # it downloads
        raise TinoError(f"{source} could not be loaded: {in_short(error)}") from error
    chosen = _one_of(source, list(test), options.test_set)
    step = options.dt or train[0].sampling_time
    if not isinstance(step, int | float | np.number) or not float(step) > 0:
        raise TinoError(f"{source} states no time step: give dt")
    options = replace(options, dt=float(step))
    window = int(chosen.state_initialization_window_length or 0) if options.burn_in is None else options.burn_in
    f, u = (_side(getattr(train[0], letter), letter, options) for letter in ("u", "y"))
    return (_records(source, list(train)), f, u), (_records(f"{source}, test", [chosen]), f, u), options, window


def _one_of(source: str, sets: list[Any], number: int | None) -> Any:
    if number is None and len(sets) == 1:
        return sets[0]
    names = "; ".join(f"{i} is {one.name or 'unnamed'} ({len(one)} times)" for i, one in enumerate(sets))
    if number is None or number >= len(sets):
        raise TinoError(f"{source} has {len(sets)} test sets, choose one with test_set: {in_short(names, 300)}")
    return sets[number]


def _side(values: Any, letter: str, options: ImportOptions) -> Side:
    count = 1 if np.ndim(values) == 1 else np.shape(values)[1]
    names = [letter if count == 1 else f"{letter}{j + 1}" for j in range(count)]
    return Side(tuple(Channel(name, options.unit(name, "")) for name in names), Point())


def _records(source: str, sets: list[Any]) -> list[Record]:
    found = []
    for i, one in enumerate(sets, 1):
        f, u = (np.asarray(v, float).reshape(len(one), -1) for v in (one.u, one.y))
        found.append(Record(Content(source, {}), i if len(sets) > 1 else 0, None, f, u, np.arange(len(one))))
    return found
