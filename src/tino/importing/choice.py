"""Which variables of a file are inputs and which are outputs, and the records they make."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tino.data import Dataset
from tino.errors import TinoError, in_short
from tino.importing.content import Content
from tino.importing.options import ImportOptions
from tino.importing.plain import is_own, kind_of, open_file
from tino.importing.records import NOTHING, Record, Side, read_records
from tino.sources import KNOWN, read_arrays
from tino.storage import load_dataset

PAIRS = (("f", "u"), ("u", "y"), ("input", "output"), ("inputs", "outputs"))  # obvious, if there is nothing else
FIELDS = ("tensor", "data")  # PDEBench's: a field that its initial state drives
Opened = tuple[list[Record], Side, Side]


def opened(path: Path, inputs: Sequence[str], outputs: Sequence[str], options: ImportOptions) -> Opened:
    """The records of a file, and what its inputs and outputs are."""
    kind = kind_of(path)
    if not inputs and not outputs and kind == "hdf5" and is_own(path):
        train, test = load_dataset(path)
        first, second = of_dataset(train, str(path)), of_dataset(test, str(path))
        return first[0] + second[0], first[1], first[2]
    content = open_file(path)
    if not inputs and not outputs and kind == "npz" and {"f", "u", "t"} <= set(content.variables) <= set(KNOWN):
        return of_dataset(read_arrays(path), str(path))
    return of_content(content, inputs, outputs, options)


def of_content(content: Content, inputs: Sequence[str], outputs: Sequence[str], options: ImportOptions) -> Opened:
    found: list[Record] = []
    sides: tuple[Side, Side] | None = None
    cells = _cells(content)
    for number, one in enumerate(cells, 1):
        chosen = choose(one, inputs, outputs, options)
        records, *both = read_records(one, *chosen, options)
        found += [replace(record, number=number) if len(cells) > 1 else record for record in records]
        sides = sides or (both[0], both[1])
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


def choose(
    content: Content, inputs: Sequence[str], outputs: Sequence[str], options: ImportOptions
) -> tuple[list[str], list[str]]:
    """The variables that are inputs and outputs: those asked for, or what is obvious."""
    left_out = [] if not options.drop_channel else _known(content, options.drop_channel)
    first = [NOTHING] if list(inputs) == [NOTHING] else content.named(inputs)
    second = content.named(outputs)
    if twice := [name for name in first if name in second]:
        raise TinoError(f"'{twice[0]}' of {content.path} is asked for as input and as output: choose one")
    others = [name for name in _candidates(content, options) if name not in (*first, *second, *left_out)]
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
        only = f"; a system without inputs has inputs = '{NOTHING}' and ic" if not first else ""
        raise TinoError(f"say which columns are the {lacking}: {hint}{only}")
    return first, second


def _known(content: Content, names: Sequence[str]) -> list[str]:
    return content.named(names)


def _shown(content: Content, name: str) -> str:
    variable = content.variables[name]
    unit = f" [{variable.unit}]" if variable.unit else ""
    return f"{name}{unit}" if len(variable.shape) < 2 else f"{name}{unit} {variable.shape}"


def _candidates(content: Content, options: ImportOptions) -> list[str]:
    """What may be an input or an output: neither times nor coordinates nor the numbers of records."""
    axes = {axis for one in content.variables.values() for axis in one.axes}
    aside = {content.time_name(), options.time, options.record, options.points}
    aside |= {name for name in content.variables if name in axes or name.endswith("-coordinate")}
    return [name for name, one in content.variables.items() if name not in aside and one.shape]


def of_dataset(data: Dataset, path: str) -> Opened:
    """A dataset's records; its initial states stay behind."""
    content = Content(path, {})
    t, ends = data.time.points.numpy(), [data.time.n] * len(data) if data.lengths is None else data.lengths.tolist()
    f, u = data.f.numpy(), data.u.numpy()
    records = [
        Record(content, i + 1 if len(data) > 1 else 0, t[:n], f[i, :n], u[i, :n], np.arange(n))
        for i, n in enumerate(ends)
    ]
    return records, Side(data.input_channels, data.inputs), Side(data.output_channels, data.outputs)
