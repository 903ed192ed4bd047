"""From files to a training and a test set, with a summary that a person can check."""

import hashlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from filecmp import cmp
from pathlib import Path
from typing import Any

import torch

from tino.channels import Channels, split_channels
from tino.data import Dataset
from tino.errors import TinoError, TinoWarning, counted
from tino.grids import grid_words
from tino.importing.advice import constant_channels, dead_inputs, unit_mistakes
from tino.importing.benchmarks import PREFIX, benchmark
from tino.importing.burn_in import in_two, long_enough, needed, outlasting, possible
from tino.importing.choice import Opened, opened, same_side
from tino.importing.content import SECONDS_IN
from tino.importing.options import ImportOptions
from tino.importing.records import Record, Side
from tino.importing.repairs import repaired, steps_fix
from tino.importing.whole import check_enough, together
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
    (records, f, u), second, options, before = _both(paths, others, *asked, options)
    _check_once(paths, others)
    unit = time_unit([*records, *(second[0] if second else ())], options)
    fixed, step, notes = repaired(records, f, u, options)
    fixed, more = long_enough(fixed, f, u, step, options)
    whole = together(fixed, f, u, step, options)
    check_sizes(whole)
    everything, notes = fixed, notes + more
    if second is None:
        train, held, how = in_two(whole, options, seed)
    else:
        for word, one, other in (("inputs", f, second[1]), ("outputs", u, second[2])):
            same_side(one, other, str(paths[0]), second[0][0].content.path, word)
        kept, its_step, repairs = repaired(second[0], f, u, options)
        if abs(its_step / step - 1) > 1e-3:
            told = f"the time step is {step:g} in {paths[0]}, {its_step:g} in {second[0][0].where}"
            raise TinoError(f"{told}: {steps_fix(step / its_step, 'use resample and dt')}")
        kept, more = outlasting(kept, before or min(needed(whole, options), max(map(len, kept)) // 2))
        train, held = whole, replace(together(kept, f, u, step, replace(options, burn_in=None)), burn_in=before)
        check_sizes(held)
        verb = "is" if len(kept) == 1 else "are"
        how = f"{counted(len(kept), 'record')} of {_told(others) or 'its own'} {verb} for the test"
        everything, notes = [*fixed, *kept], notes + repairs + more
    check_enough(train, held, _told([*paths, *others]))
    before = needed(train, options)
    train, held = (replace(one, burn_in=one.burn_in or possible(before, one)) for one in (train, held))
    advice = list(dict.fromkeys(line for record in everything for line in record.content.advice))
    advice += [*constant_channels(everything, f, u), *unit_mistakes(everything, f, u), *dead_inputs(train)]
    about = {"time_unit": unit} if unit else {}
    train, held = replace(train, meta={**train.meta, **about}), replace(held, meta={**held.meta, **about})
    named = tuple(map(str, (*paths, *others)))
    return train, held, _summary(named, train, held, everything, step, unit, how, notes, advice)


def _both(
    paths: list[Any], others: list[Any], inputs: list[str], outputs: list[str], options: ImportOptions
) -> tuple[Opened, Opened | None, ImportOptions, int]:
    """Records for training, those for the test if they are apart, the options, and the burn-in of the test."""
    if not str(paths[0]).startswith(PREFIX):
        first = _all(paths, inputs, outputs, options)
        return first, _all(others, inputs, outputs, options) if others else None, options, options.burn_in or 0
    if len(paths) > 1 or others or inputs or outputs:
        raise TinoError(f"{paths[0]} names its own inputs, outputs and test set: give nothing else")
    return benchmark(str(paths[0]), options)


def _summary(
    files: tuple[str, ...],
    train: Dataset,
    held: Dataset,
    records: list[Record],
    step: float,
    unit: str,
    how: str,
    notes: list[str],
    advice: list[str],
) -> Summary:
    lengths = [len(record) for record in records]
    return Summary(
        files,
        len(records),
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
    """The unit of the times, where the files name one; an error if they name several."""
    found: dict[float | str, tuple[str, str, str]] = {}
    for content in (record.content for record in records if record.content.time is not None):
        name = str(content.time)
        if unit := options.unit(name, content.variables[name].unit):
            found.setdefault(SECONDS_IN.get(unit, unit), (unit, content.path, name))
    if len(found) > 1:
        (unit, path, name), (other, second, _), *_ = found.values()
        told = f"the times are in {unit} in {path}, in {other} in {second}"
        raise TinoError(f"{told}: convert them, or if a label is wrong give units = '{name}={unit}'")
    return next(iter(found.values()))[0] if found else ""


def _check_once(paths: list[Any], others: list[Any]) -> None:
    """An error if a file is given twice, or if one for the test has the contents of one for the training."""
    known: dict[Path, str] = {}
    for use, some in (("training", paths), ("the test", others)):
        for path in some:
            if (first := known.get(place := Path(path).resolve())) is not None:
                told = "twice: leave one out" if first == use else f"for {first} and for {use}: choose one"
                raise TinoError(f"{path} is given {told}")
            known[place] = use
    if not others:
        return
    alike: dict[tuple[int, bytes], list[Path]] = {}
    for path in paths:
        alike.setdefault(_start(path), []).append(path)
    for path in others:
        if twin := next((one for one in alike.get(_start(path), ()) if cmp(one, path, shallow=False)), None):
            raise TinoError(f"{path}, for the test, is a copy of {twin}, for training: leave one out")


def _start(path: Path) -> tuple[int, bytes]:
    """The size of a file and a checksum of its beginning, which tell most files apart."""
    with open(path, "rb") as file:
        return path.stat().st_size, hashlib.sha256(file.read(2**16)).digest()


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
