"""From files to a training and a test set, with a summary that a person can check."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tino.channels import Channels, split_channels
from tino.data import Dataset
from tino.errors import TinoError, TinoWarning
from tino.grids import Grid, Interval, Periodic, Point, Points
from tino.holdout import memory_length
from tino.importing.advice import constant_channels, dead_inputs, unit_mistakes
from tino.importing.benchmarks import PREFIX, benchmark
from tino.importing.choice import Opened, opened
from tino.importing.options import ImportOptions
from tino.importing.records import Record, Side, same_side
from tino.importing.repairs import repaired
from tino.importing.whole import check_enough, split, together
from tino.parts.start import starts_shared
from tino.sizes import check_sizes

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Names = str | Sequence[str]


@dataclass(frozen=True)
class ChannelSummary:
    """A channel: what it is, where it lies, and the range and size of its values."""

    name: str
    role: str
    unit: str
    grid: str
    least: float
    largest: float
    mean: float
    rms: float


@dataclass(frozen=True)
class Summary:
    """What was understood of the files."""

    files: tuple[str, ...]
    records: int
    sets: tuple[int, int]  # records, or parts of them, for training and for the test
    times: tuple[int, int]  # of the shortest and of the longest record
    dt: float
    time_unit: str
    duration: float  # of the longest record
    channels: tuple[ChannelSummary, ...]
    split: str
    burn_in: tuple[int, int]
    repaired: tuple[str, ...]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        return asdict(self)


def import_records(
    files: Files,
    inputs: Names = (),
    outputs: Names = (),
    test: Files = (),
    options: ImportOptions | None = None,
    seed: int = 0,
) -> tuple[Dataset, Dataset, Summary]:
    """Records from files of any kind tino knows -> training set, test set, and what was understood.

    ``inputs`` and ``outputs`` name columns or variables. ``test`` are files for the test; otherwise one record in six,
    drawn with the seed, or of fewer than six the last part of the time. What looks like a mistake is a warning.
    """
    train, held, summary = understood(files, inputs, outputs, test, options or ImportOptions(), seed)
    for note in summary.notes:
        warnings.warn(note, TinoWarning, stacklevel=2)
    return train, held, summary


def understood(
    files: Files, inputs: Names, outputs: Names, test: Files, options: ImportOptions, seed: int
) -> tuple[Dataset, Dataset, Summary]:
    """``import_records`` without its warnings: they are among the summary's notes."""
    paths, others = _list(files), _list(test)
    if not paths:
        raise TinoError("name one file or more")
    asked = (
        [inputs] if isinstance(inputs, str) else list(inputs),
        [outputs] if isinstance(outputs, str) else list(outputs),
    )
    if str(paths[0]).startswith(PREFIX):
        if len(paths) > 1 or others or any(asked):
            raise TinoError(f"{paths[0]} names its own inputs, outputs and test set: give nothing else")
        first, second, options, before = benchmark(str(paths[0]), options)
    else:
        first = _all(paths, *asked, options)
        second, before = _all(others, *asked, options) if others else None, options.burn_in or 0
    records, f, u = first
    fixed, step, notes = repaired(records, f, u, options)
    whole = together(fixed, f, u, step, options)
    check_sizes(whole)
    if second is None:
        train, held, how = split(whole, options, seed)
        everything = fixed
    else:
        for word, one, other in (("inputs", f, second[1]), ("outputs", u, second[2])):
            same_side(one, other, str(paths[0]), second[0][0].content.path, word)
        kept, its_step, more = repaired(second[0], f, u, options)
        if abs(its_step / step - 1) > 1e-3:
            raise TinoError(
                f"the time step is {step:g} in {paths[0]}, {its_step:g} in {second[0][0].where}: use resample and dt"
            )
        train, held = whole, replace(together(kept, f, u, step, options), burn_in=before)
        check_sizes(held)
        how, notes, everything = (
            f"{len(kept)} record{'s' * (len(kept) > 1)} of {_told(others) or 'its own'} are for the test",
            notes + more,
            [*fixed, *kept],
        )
    check_enough(train, held)
    if options.burn_in is None and not options.ic and not starts_shared(train):
        train, held = (replace(one, burn_in=one.burn_in or _memory(train, one)) for one in (train, held))
    advice = [*constant_channels(everything, f, u), *unit_mistakes(everything, f, u), *dead_inputs(train)]
    unit = time_unit(records, options)
    about = {"time_unit": unit} if unit else {}
    train, held = replace(train, meta={**train.meta, **about}), replace(held, meta={**held.meta, **about})
    lengths = [len(record) for record in everything]
    summary = Summary(
        tuple(map(str, (*paths, *others))),
        len(everything),
        (len(train), len(held)),
        (min(lengths), max(lengths)),
        step,
        unit,
        step * (max(lengths) - 1),
        (*_channels("input", train, held), *_channels("output", train, held)),
        how,
        (train.burn_in, held.burn_in),
        tuple(notes),
        tuple(advice),
    )
    return train, held, summary


def _memory(train: Dataset, data: Dataset) -> int:
    """The length of the system's memory, or half of the shortest record if that is less."""
    return min(memory_length(train), data.shortest // 2)


def _list(files: Files) -> list[Path | str]:
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    return [str(one) if str(one).startswith(PREFIX) else Path(one) for one in given]


def _told(paths: list[Any]) -> str:
    return ", ".join(map(str, paths[:3])) + ", ..." * (len(paths) > 3)


def _all(paths: list[Any], inputs: list[str], outputs: list[str], options: ImportOptions) -> Opened:
    found: list[Record] = []
    sides: tuple[Side, Side] | None = None
    for path in paths:
        records, f, u = opened(path, inputs, outputs, options)
        found += records
        if sides is None:
            sides = f, u
        same_side(sides[0], f, str(paths[0]), str(path), "inputs")
        same_side(sides[1], u, str(paths[0]), str(path), "outputs")
    assert sides is not None
    return found, *sides


def time_unit(records: list[Record], options: ImportOptions) -> str:
    """The unit of the column of times, where the file names one."""
    content = records[0].content
    name = options.time or content.time_name()
    return "" if name is None or name not in content.variables else options.unit(name, content.variables[name].unit)


def _channels(role: str, train: Dataset, test: Dataset) -> list[ChannelSummary]:
    channels: Channels = train.input_channels if role == "input" else train.output_channels
    grid = train.inputs if role == "input" else train.outputs
    parts = [split_channels(data.rows(data.f if role == "input" else data.u), len(channels)) for data in (train, test)]
    found = []
    for j, channel in enumerate(channels):
        values = torch.cat([part[:, j].reshape(-1) for part in parts]).double()
        numbers = (float(values.min()), float(values.max()), float(values.mean()), float(values.square().mean().sqrt()))
        found.append(ChannelSummary(channel.name, role, channel.unit, grid_words(grid), *numbers))
    return found


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
