"""What a file gives a trained model: records with the model's channels, in the model's order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tino.channels import Channels
from tino.data import Dataset
from tino.errors import TinoError, in_short, nearest
from tino.frame import Frame
from tino.grids import Grid, Interval, grid_words
from tino.importing.choice import Chosen, asked, candidates, has_arrays, of_content, of_dataset
from tino.importing.content import Content, base_name
from tino.importing.options import ImportOptions
from tino.importing.plain import is_own, kind_of, open_file
from tino.importing.reading import time_unit
from tino.importing.records import NOTHING, Record, Side
from tino.sources import read_arrays
from tino.storage import load_dataset


@dataclass(frozen=True)
class Given:
    """Records with a model's inputs and, if the file has them all, its outputs; otherwise u is None."""

    records: list[Record]
    f: Side
    u: Side | None
    time_unit: str
    notes: tuple[str, ...] = ()
    ic: Tensor | None = None
    burn_in: int = 0

    def without_outputs(self, why: str) -> "Given":
        records = [replace(record, u=record.u[:, :0]) for record in self.records]
        return replace(self, records=records, u=None, notes=(*self.notes, f"the outputs are not scored: {why}"))


def read_for(frame: Frame, path: Path, inputs: Sequence[str], outputs: Sequence[str], options: ImportOptions) -> Given:
    """The records of a file. Columns have the names of the model's channels, or are given in the model's order."""
    if kind_of(path) == "hdf5" and is_own(path):
        return _of_dataset(frame, load_dataset(path)[1], Content(str(path), {}), inputs, outputs)
    content = open_file(path)
    if not inputs and not outputs and has_arrays(path, content, options):
        return _of_dataset(frame, read_arrays(path), content, inputs, outputs)
    notes: dict[str, None] = {}

    def choice(one: Content) -> Chosen:
        first, second, note = _chosen(frame, one, inputs, outputs, options)
        notes.update({note: None} if note else {})
        return first, second

    records, f, u = of_content(content, choice, options)
    f = _matched(frame, f, "input", content.path)
    known = _matched(frame, u, "output", content.path) if u.channels else None
    return Given(records, f, known, time_unit(records, options), tuple(notes))


def _chosen(
    frame: Frame, content: Content, inputs: Sequence[str], outputs: Sequence[str], options: ImportOptions
) -> tuple[list[str], list[str], str]:
    """The variables that are the model's inputs and its outputs, and why there are no outputs."""
    first, second = asked(content, inputs, outputs)
    names = {channel.name for channel in (*frame.input_channels, *frame.output_channels)}
    known = [one for one in content.variables if base_name(one) in names]
    others = candidates(content, options, (*first, *second), known)
    if not first:
        first = _variables(content, others, frame.input_channels, frame.inputs, options)
        for channel in frame.input_channels if not first else ():
            _one_of(content, others, channel.name)
        others = [name for name in others if name not in first]
    if second:
        return first, second, ""
    second = _variables(content, others, frame.output_channels, frame.outputs, options)
    if not second and frame.state:
        names = ", ".join(f"'{name}'" for name in _names(frame.output_channels))
        told = f"{content.path} lacks the initial state: {frame.model} starts from the first values of {names}"
        raise TinoError(f"{told}: add them, or name their columns with output")
    if second or not others:
        return first, second, ""
    lacking = next(one.name for one in frame.output_channels if one.name not in map(base_name, others))
    told = f"{content.path} has no '{lacking}', it has {in_short(', '.join(others))}"
    return first, [], f"the outputs are not scored: {told}: name them with output"


def _variables(
    content: Content, others: Sequence[str], channels: Channels, grid: Grid, options: ImportOptions
) -> list[str]:
    """The variables that hold these channels: of their names; several in one array; or columns at points of a field.

    None if one is lacking.
    """
    names = [channel.name for channel in channels]
    if names == [NOTHING]:
        return names
    ordered = {
        one: [name for name in names if name in own] == list(own)
        for one in others
        if (own := content.variables[one].names)
    }
    if len(names) == 1 and list(others) == ["1"]:
        return ["1"]  # a single column without a name
    found: dict[str, None] = {}
    for name in names:
        columns = [one for one in others if base_name(one).startswith(name)]
        of_arrays = [one for one in others if ordered.get(one) and name in content.variables[one].names]
        of_arrays = of_arrays or [one for one in others if name.removeprefix(base_name(one)).isdecimal()]
        if any(base_name(one) == name for one in others):
            found[_one_of(content, others, name)] = None
        elif options.places() is not None and len(columns) == grid.size > 1:
            found.update(dict.fromkeys(columns))
        elif len(of_arrays) == 1 and len(content.variables[of_arrays[0]].shape) > 1:
            found[of_arrays[0]] = None
        else:
            return []
    return list(found)


def _one_of(content: Content, others: Sequence[str], name: str) -> str:
    """The variable of that name, in whatever folder of the file."""
    hits = [one for one in others if one == name] or [one for one in others if base_name(one) == name]
    if len(hits) > 1:
        told = f"{content.path} has several '{name}': {in_short(', '.join(hits))}"
        raise TinoError(f"{told}: choose with input and output")
    if not hits:
        raise TinoError(f"{content.path} has no column '{name}': {in_short(nearest(name, content.variables), 300)}")
    return hits[0]


def _of_dataset(frame: Frame, data: Dataset, content: Content, inputs: Sequence[str], outputs: Sequence[str]) -> Given:
    """The records of arrays f, u and t, or of the test set in a file of tino's."""
    records, f, u = of_dataset(data, content)
    wanted, answers = inputs or _names(frame.input_channels), outputs or _names(frame.output_channels)
    f, columns = _picked(f, wanted, content.path)
    lacking = [name for name in answers if name not in _names(u.channels)]
    u, others = _picked(u, answers, content.path) if outputs or not lacking else (u, np.arange(u.size))
    records = [replace(record, f=record.f[:, columns], u=record.u[:, others]) for record in records]
    known = None if lacking else _matched(frame, u, "output", content.path)
    f, unit = _matched(frame, f, "input", content.path), str(data.meta.get("time_unit", ""))
    found = Given(records, f, known, unit, (), data.ic, data.burn_in)
    return found.without_outputs(f"{content.path} has no '{lacking[0]}'") if lacking else found


def _names(channels: Channels) -> list[str]:
    return [channel.name for channel in channels]


def _picked(side: Side, names: Sequence[str], path: str) -> tuple[Side, np.ndarray]:
    """The channels of these names, in this order, and their columns."""
    known = _names(side.channels)
    for name in names:
        if name not in known:
            raise TinoError(f"{path} has no channel '{name}': {in_short(nearest(name, known), 300)}")
    places = [known.index(name) for name in names]
    columns = np.arange(side.size).reshape(len(known), -1)[places].ravel()
    return Side(tuple(side.channels[place] for place in places), side.grid), columns


# -- checks --------------------------------------------------------------------------------------------------


def _matched(frame: Frame, side: Side, word: str, path: str) -> Side:
    """The side as the model knows it; an error if it is another."""
    channels, grid = (frame.input_channels, frame.inputs) if word == "input" else (frame.output_channels, frame.outputs)
    if (count := len(side.channels)) != len(channels):
        told = f"{path} gives {count} {word}{'s' * (count > 1)}"
        raise TinoError(f"{told}, {frame.model} has {len(channels)}: {', '.join(_names(channels))}")
    for have, want in zip(side.channels, channels, strict=True):
        if have.unit and want.unit and have.unit != want.unit:
            told = f"'{have.name}' is in {have.unit} in {path}, {frame.model} was trained with {want.unit}"
            raise TinoError(f"{told}: convert it, or if the label is wrong give units = '{have.name}={want.unit}'")
    if not _same_points(side.grid, grid):
        told = f"the {word}s of {path} are {grid_words(side.grid)}"
        raise TinoError(f"{told}, {frame.model} was trained with {grid_words(grid)}")
    return Side(channels, grid)


def _same_points(given: Grid, wanted: Grid) -> bool:
    """Whether they are the same places; points that are only numbered may be any."""
    if given.size != wanted.size or given.points.shape[1] > wanted.points.shape[1]:
        return False
    if given.size == 1 or given == Interval(0.0, given.size - 1.0, given.size):
        return True
    size = float(wanted.points.abs().max())
    return torch.allclose(given.points, wanted.points, rtol=1e-4, atol=1e-6 * size)
