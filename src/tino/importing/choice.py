"""Which variables of a file are inputs and which are outputs, and the records they make."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tino.data import Dataset
from tino.errors import TinoError, in_short, nearest
from tino.grids import grid_words
from tino.holdout import ends
from tino.importing.content import Content
from tino.importing.options import ImportOptions, fits
from tino.importing.plain import is_own, kind_of, open_file
from tino.importing.records import NOTHING, Record, Side, read_records
from tino.sources import KNOWN, read_arrays

PAIRS = (("f", "u"), ("u", "y"), ("input", "output"), ("inputs", "outputs"))  # obvious, if there is nothing else
FIELDS = ("tensor", "data")  # PDEBench's: a field that its initial state drives
Opened = tuple[list[Record], Side, Side]
Chosen = tuple[list[str], list[str]]  # names of variables: inputs, outputs


def opened(path: Path, inputs: Sequence[str], outputs: Sequence[str], options: ImportOptions) -> Opened:
    """The records of a file, and what its inputs and outputs are."""
    if kind_of(path) == "hdf5" and is_own(path):
        told = f"{path} is a dataset of tino's, with its own training and test set"
        raise TinoError(f"{told}: train on it as it is, tino train {path} MODEL")
    content = open_file(path)
    if not inputs and not outputs and has_arrays(path, content, options):
        return with_units(of_dataset(read_arrays(path), replace(content, time="t")), options, path)
    return of_content(content, lambda one: choose(one, inputs, outputs, options), options)


def has_arrays(path: Path, content: Content, options: ImportOptions) -> bool:
    """Whether it is an .npz file of arrays f, u and t, as ``read_arrays`` knows them, and no option says otherwise."""
    said = options.axes or options.time or options.record or options.points or options.periodic
    return not said and kind_of(path) == "npz" and {"f", "u", "t"} <= set(content.variables) <= set(KNOWN)


def of_content(content: Content, choice: Callable[[Content], Chosen], options: ImportOptions) -> Opened:
    """The records of the chosen inputs and outputs."""
    found: list[Record] = []
    sides: tuple[Side, Side] | None = None
    cells = _cells(content)
    for number, one in enumerate(cells, 1):
        records, f, u = read_records(one, *choice(one), options)
        found += [replace(record, number=number) if len(cells) > 1 else record for record in records]
        sides = sides or (f, u)
        for word, first, second in (("inputs", sides[0], f), ("outputs", sides[1], u)):
            same_side(first, second, "cell 1", f"cell {number}", word)
    assert sides is not None
    return found, *sides


def _cells(content: Content) -> list[Content]:
    """MATLAB's cells y{1}, y{2}, ... are records: one content for each, in which they are y."""
    cells = {name: match for name in content.variables if (match := re.fullmatch(r"(.+)\{(\d+)\}", name))}
    if not cells:
        return [content]
    shared = {name: one for name, one in content.variables.items() if name not in cells}
    found = []
    for number in sorted({int(match[2]) for match in cells.values()}):
        own = {match[1]: name for name, match in cells.items() if int(match[2]) == number}
        variables = {**shared, **{base: content.variables[name] for base, name in own.items()}}
        values = {base: content.values[name] for base, name in own.items() if name in content.values}
        held = {**{name: v for name, v in content.values.items() if name in shared}, **values}
        found.append(replace(content, variables=variables, values=held, more=partial(_of_cells, content, own)))
    return found


def _of_cells(content: Content, own: dict[str, str], names: list[str]) -> dict[str, np.ndarray]:
    return {name: content.array(own.get(name, name)) for name in names}


def choose(content: Content, inputs: Sequence[str], outputs: Sequence[str], options: ImportOptions) -> Chosen:
    """The variables that are inputs and outputs: those asked for, or what is obvious."""
    left_out = content.named(options.drop_channel)
    first, second = asked(content, inputs, outputs)
    others = [name for name in candidates(content, options, (*first, *second)) if name not in left_out]
    if not first and not second:
        pair = next((pair for pair in PAIRS if sorted(pair) == sorted(others)), None)
        field = next((name for name in FIELDS if name in others), None)
        if pair is not None:
            first, second = [pair[0]], [pair[1]]
        elif field is not None and options.ic:
            first, second = [NOTHING], [field]
    elif len(others) == 1:
        first, second = first or others, second or others
    first, second = ([name for name in names if name not in left_out] for names in (first, second))
    if not first or not second:
        lacking = " and ".join(word for word, names in (("inputs", first), ("outputs", second)) if not names)
        columns = ", ".join(_shown(content, name) for name in content.variables)
        hint = f"{content.path} has the columns {in_short(columns, 300)}"
        only = f"; a system without inputs has inputs = '{NOTHING}' and ic = True" if not first else ""
        raise TinoError(f"say which columns are the {lacking}: {hint}{only}")
    return first, second


def asked(content: Content, inputs: Sequence[str], outputs: Sequence[str]) -> Chosen:
    """The variables that were asked for; none may be both."""
    first = [NOTHING] if list(inputs) == [NOTHING] else content.named(inputs)
    second = content.named(outputs)
    if twice := [name for name in first if name in second]:
        raise TinoError(f"'{twice[0]}' of {content.path} is asked for as input and as output: choose one")
    return first, second


def _shown(content: Content, name: str) -> str:
    variable = content.variables[name]
    unit = f" [{variable.unit}]" if variable.unit else ""
    return f"{name}{unit}" if len(variable.shape) < 2 else f"{name}{unit} {variable.shape}"


def candidates(
    content: Content, options: ImportOptions, chosen: Sequence[str], wanted: Sequence[str] = ()
) -> list[str]:
    """What else may be an input or an output: no single number, no times, no coordinates, no numbers of records.

    None of the ``wanted`` is the time, whatever its name is.
    """
    axes = {axis for one in content.variables.values() for axis in one.axes}
    aside = {content.time_name((*chosen, *wanted)), options.time, options.record, options.points, *chosen}
    aside |= {name for name in content.variables if name in axes or name.endswith("-coordinate")}
    longest = max((math.prod(one.shape) for one in content.variables.values()), default=0)
    least = min(2, longest)  # a single number beside columns is none of them
    return [
        name
        for name, one in content.variables.items()
        if name not in aside and one.shape and math.prod(one.shape) >= least
    ]


def with_units(found: Opened, options: ImportOptions, path: Path) -> Opened:
    """With the units that were given for channels."""
    records, *sides = found
    names = ["t", *(channel.name for side in sides for channel in side.channels)]
    for text in options.units:
        if not any(fits(name, asked := text.split("=", 1)[0]) for name in names):
            raise TinoError(f"{path} has no channel '{asked}': {in_short(nearest(asked, names), 300)}")
    f, u = (
        replace(side, channels=tuple(replace(one, unit=options.unit(one.name, one.unit)) for one in side.channels))
        for side in sides
    )
    return records, f, u


def of_dataset(data: Dataset, content: Content) -> Opened:
    """A dataset's records, at the times and with the numbers that the file states; its initial states stay behind."""
    t, f, u = data.time.points.numpy(), data.f.numpy(), data.u.numpy()
    starts, labels = (content.values.get(name) for name in ("starts", "labels"))
    records = []
    for i, n in enumerate(ends(data)):
        number = i + 1 if labels is None else int(labels[i])
        own = t[:n] if starts is None else t[:n] - t[0] + starts[i]
        records.append(Record(content, number if len(data) > 1 else 0, own, f[i, :n], u[i, :n], np.arange(n)))
    return records, Side(data.input_channels, data.inputs), Side(data.output_channels, data.outputs)


def same_side(one: Side, other: Side, first: str, second: str, word: str) -> None:
    """An error if files, or records, differ in the channels or the grid of their inputs or outputs."""
    if one == other:
        return
    names = [[channel.name for channel in side.channels] for side in (one, other)]
    if names[0] != names[1]:
        told = [in_short(", ".join(some), 100) for some in names]
        raise TinoError(
            f"the {word} of {first} are {told[0]}, those of {second} are {told[1]}: give both the same ones"
        )
    for a, b in zip(one.channels, other.channels, strict=True):
        if a != b:
            units = [f"in {one.unit}" if one.unit else "without a unit" for one in (a, b)]
            told = f"'{a.name}' is {units[0]} in {first}, {units[1]} in {second}"
            raise TinoError(f"{told}: convert it, or if a label is wrong give units = '{a.name}={a.unit or b.unit}'")
    told = [grid_words(side.grid) for side in (one, other)]
    places = f"are {told[0]} in {first}, {told[1]} in {second}"
    places = places if told[0] != told[1] else f"lie at other points in {second} than in {first}"
    raise TinoError(f"the {word} {places}: interpolate one at the points of the other")
