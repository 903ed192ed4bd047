"""The response of a trained model to inputs from a file: matched by name, checked, and written."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.evaluation import Scores, evaluate, predict
from tino.files import whole_file
from tino.frame import Frame
from tino.grids import Grid, Interval, Point
from tino.importing.content import Content
from tino.importing.options import ImportOptions
from tino.importing.plain import open_file
from tino.importing.reading import grid_words, time_unit
from tino.importing.records import Record, Side, read_records
from tino.importing.repairs import SAME, repaired
from tino.importing.whole import together
from tino.operator import Operator

WRITTEN = (".csv", ".npz")


@dataclass(frozen=True)
class Response:
    """Inputs as a model takes them, its answers, one (t, x) for each record, and scores if the file has the outputs.

    ``data`` holds the outputs of the file, or else the answers.
    """

    data: Dataset
    answers: tuple[Tensor, ...]
    scores: Scores | None
    notes: tuple[str, ...]

    @property
    def times(self) -> list[np.ndarray]:
        start, step = self.data.time.start, self.data.time.step
        return [start + step * np.arange(len(answer)) for answer in self.answers]


def respond(model: Operator, path: Path, inputs: Sequence[str], options: ImportOptions) -> Response:
    """The model's answer to the inputs in a file: its columns of the same names, or ``inputs`` in the model's order."""
    frame, content = model.frame, open_file(path)
    names = content.named(inputs or [_column(content, channel.name) for channel in frame.input_channels])
    answers = [channel.name for channel in frame.output_channels]
    known = all(name in content.variables for name in answers) and not set(answers) & set(names)
    records, f, u = read_records(content, names, answers if known else [], options)
    f = _matched(frame, f, "input", content)
    if known:
        u = _matched(frame, u, "output", content)
    step = frame.time.step
    records, found, notes = repaired(records, f, u, replace(options, dt=step) if options.resample else options)
    if abs(found / step - 1) > SAME:
        told = f"the time step is {found:.6g} in {path}, {frame.model} was trained with {step:.6g}"
        raise TinoError(f"{told}: use resample, or check the unit of the times")
    _check_lengths(model, records)
    if not known:
        u = Side(frame.output_channels, frame.outputs)
        records = [replace(record, u=np.zeros((len(record), u.size), record.f.dtype)) for record in records]
    data = together(records, f, u, step, options)
    data = replace(data, meta={"time_unit": time_unit(records, options)})
    if frame.state:
        data = replace(data, ic=_states(frame, data, known, path))
    said = _answers(model, data)
    scores = evaluate(model, data) if known else None
    if not known:
        filled = data.u.clone().to(said[0])
        for one, answer in zip(filled, said, strict=True):
            one[: len(answer)] = answer
        data = replace(data, u=filled)
    return Response(data, said, scores, tuple(notes))


def _column(content: Content, name: str) -> str:
    """The column of that name; a single column without a name serves a model with a single input."""
    if name not in content.variables:
        others = [one for one in content.variables if one != content.time_name()]
        if others == ["1"]:
            return "1"
    return name


def _matched(frame: Frame, side: Side, word: str, content: Content) -> Side:
    """The side as the model knows it; an error if it is another."""
    channels, grid = (frame.input_channels, frame.inputs) if word == "input" else (frame.output_channels, frame.outputs)
    if len(side.channels) != len(channels):
        wanted = ", ".join(channel.name for channel in channels)
        raise TinoError(
            f"{content.path} gives {len(side.channels)} {word}s, {frame.model} has {len(channels)}: {wanted}"
        )
    for have, want in zip(side.channels, channels, strict=True):
        if have.unit and want.unit and have.unit != want.unit:
            told = f"'{have.name}' is in {have.unit} in {content.path}, {frame.model} was trained with {want.unit}"
            raise TinoError(f"{told}: convert it, or if the label is wrong give units = {have.name}={want.unit}")
    if not _same_points(side.grid, grid):
        told = f"the {word}s of {content.path} are {grid_words(side.grid)}"
        raise TinoError(f"{told}, {frame.model} was trained with {grid_words(grid)}")
    return Side(channels, grid)


def _same_points(given: Grid, wanted: Grid) -> bool:
    """Whether they are the same places; points that are only numbered may be any."""
    if given.size != wanted.size or given.points.shape[1] > wanted.points.shape[1]:
        return False
    if given == Interval(0.0, given.size - 1.0, given.size) if given.size > 1 else True:
        return True
    size = float(wanted.points.abs().max())
    return torch.allclose(given.points, wanted.points, rtol=1e-4, atol=1e-6 * size)


def _check_lengths(model: Operator, records: Sequence[Record]) -> None:
    """Some models take records of one length, or of a greatest length."""
    longest, n_t = model.longest, model.frame.time.n
    for record in records:
        if not model.properties.causal and len(record) != n_t:
            told = f"{model.frame.model} takes records of exactly {n_t} times, because it is not causal"
            raise TinoError(f"{told}; {record.where} has {len(record)}: train a causal model, such as tino")
        if longest is not None and len(record) > longest:
            told = f"{model.frame.model} takes at most {longest} times, because it is not autonomous"
            raise TinoError(f"{told}; {record.where} has {len(record)}: train a time-invariant model, such as tino")


def _states(frame: Frame, data: Dataset, known: bool, path: Path) -> Tensor:
    if not known or frame.state != frame.output_size:
        raise TinoError(
            f"{frame.model} takes an initial state of {frame.state} numbers: {path} lacks the outputs at the start"
        )
    return data.u[:, 0].clone()


def _answers(model: Operator, data: Dataset) -> tuple[Tensor, ...]:
    ends = [data.time.n] * len(data) if data.lengths is None else data.lengths.tolist()
    if len(set(ends)) == 1:
        return tuple(predict(model, data.f, data.ic))
    return tuple(
        predict(model, data.f[i : i + 1, :n], None if data.ic is None else data.ic[i : i + 1])[0]
        for i, n in enumerate(ends)
    )


# -- writing -------------------------------------------------------------------------------------------------


def write_response(path: Path, response: Response) -> None:
    """As a table with names and units, or as arrays t, u, f with theirs; whole or not at all."""
    if path.suffix not in WRITTEN:
        raise TinoError(f"{path} ends in '{path.suffix}', expected one of {', '.join(WRITTEN)}")
    with whole_file(path) as part, open(part, "wb") as file:
        if path.suffix == ".csv":
            file.write(_table(response).encode())
        else:
            _save_arrays(file, response)


def _table(response: Response) -> str:
    data, out = response.data, io.StringIO()
    unit = str(data.meta.get("time_unit", ""))
    points = [""] if isinstance(data.outputs, Point) else [f" at {_place(row)}" for row in data.outputs.points.tolist()]
    several = len(response.answers) > 1
    lines = csv.writer(out, lineterminator="\n")
    named = [f"{c.name}{point}{f' [{c.unit}]' if c.unit else ''}" for c in data.output_channels for point in points]
    lines.writerow([*["record"] * several, f"time [{unit}]" if unit else "time", *named])
    for i, (t, answer) in enumerate(zip(response.times, response.answers, strict=True), 1):
        for time, row in zip(t.tolist(), answer.double().tolist(), strict=True):
            lines.writerow([*[i] * several, f"{time:.10g}", *(f"{value:.9g}" for value in row)])
    return out.getvalue()


def _place(row: list[float]) -> str:
    return f"{row[0]:.6g}" if len(row) == 1 else f"({'; '.join(f'{x:.6g}' for x in row)})"


def _save_arrays(file: io.BufferedWriter, response: Response) -> None:
    data = response.data
    n_t = max(map(len, response.answers))
    u = np.zeros((len(response.answers), n_t, data.output_size), response.answers[0].numpy().dtype)
    for one, answer in zip(u, response.answers, strict=True):
        one[: len(answer)] = answer.numpy()
    arrays = {"f": data.f.numpy(), "t": max(response.times, key=len)}
    for name, channels, grid in (("f", data.input_channels, data.inputs), ("u", data.output_channels, data.outputs)):
        arrays |= {
            f"{name}_names": np.array([c.name for c in channels]),
            f"{name}_units": np.array([c.unit for c in channels]),
        }
        if not isinstance(grid, Point):
            arrays[f"{name}_points"] = grid.points.numpy()
    arrays["u"] = u
    for name, channels, grid in (("f", data.input_channels, data.inputs), ("u", data.output_channels, data.outputs)):
        if not isinstance(grid, Point):  # (records, times, points, channels), as read_arrays has it
            arrays[name] = np.moveaxis(arrays[name].reshape(*arrays[name].shape[:2], len(channels), -1), 2, 3)
    if data.lengths is not None:
        arrays["lengths"] = data.lengths.numpy()
    np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
