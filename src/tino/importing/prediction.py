"""The response of a trained model to inputs from a file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError, counted
from tino.evaluation import evaluate, predict
from tino.frame import Frame
from tino.holdout import ends
from tino.importing.matching import Given, read_for
from tino.importing.options import ImportOptions
from tino.importing.records import Record, Side
from tino.importing.repairs import SAME, SHORTEST, repaired
from tino.importing.response import Response
from tino.importing.whole import together
from tino.operator import Operator


def respond(
    model: Operator, path: Path, inputs: Sequence[str], outputs: Sequence[str], options: ImportOptions
) -> Response:
    """The model's answer to the inputs in a file, and its scores if the file has the outputs.

    Columns have the names of the model's channels, or are given as ``inputs`` and ``outputs`` in the model's order.
    """
    frame = model.frame
    given = read_for(frame, path, inputs, outputs, options)
    _check_time_unit(frame, given, path)
    given, found, repairs = _repaired(frame, given, options)
    if abs(found / frame.time.step - 1) > SAME:
        told = f"the time step is {found:.6g} in {path}, {frame.model} was trained with {frame.time.step:.6g}"
        raise TinoError(f"{told}: use resample, or check the unit of the times")
    _check_lengths(model, given.records)
    data = _dataset(frame, given, options, path)
    said = _answers(model, data)
    scores = evaluate(model, data) if given.u is not None else None
    if scores is None:
        filled = data.u.clone().to(said[0])
        for one, answer in zip(filled, said, strict=True):
            one[: len(answer)] = answer
        data = replace(data, u=filled)
    times = tuple(_times(record, frame.time.step) for record in given.records)
    return Response(data, said, times, _labels(given.records, options), scores, tuple(repairs), given.notes)


def _times(record: Record, step: float) -> np.ndarray:
    return step * np.arange(len(record)) if record.t is None else record.t


def _labels(records: Sequence[Record], options: ImportOptions) -> tuple[float, ...]:
    """The numbers of the records in the file; none for a single record without one."""
    if options.record is not None:
        return tuple(float(one.content.array(one.content.named([options.record])[0])[one.rows[0]]) for one in records)
    if len(records) == 1 and records[0].number == 0:
        return ()
    return tuple(record.number or i for i, record in enumerate(records, 1))


def _repaired(frame: Frame, given: Given, options: ImportOptions) -> tuple[Given, float, list[str]]:
    """Records without missing values, their time step, and the repairs. Outputs with missing values are left out."""
    for record in given.records if not options.cut else ():
        if len(record) < SHORTEST:
            raise TinoError(f"{record.where} has {len(record)} times, at least {SHORTEST} are needed: leave it out")
    options = replace(options, dt=frame.time.step) if options.resample else options
    u = Side((), frame.outputs) if given.u is None else given.u
    try:
        records, step, notes = repaired(given.records, given.f, u, options)
    except TinoError as error:
        if frame.state or all(np.isfinite(record.u).all() for record in given.records):
            raise
        return _repaired(frame, given.without_outputs(str(error)), options)
    starts = {int(record.rows[0]) for record in given.records}
    begun = sum(int(record.rows[0]) not in starts for record in records)
    told = f"{counted(begun, 'piece')} after a cut {'are' if begun > 1 else 'is'} answered from rest"
    note = f"{told}: the first values are wrong, until the system has forgotten how it started"
    return replace(given, records=records, notes=(*given.notes, *[note] * (begun > 0))), step, notes


def _dataset(frame: Frame, given: Given, options: ImportOptions, path: Path) -> Dataset:
    """The records together; zeros for outputs that are not known."""
    u, records = given.u, given.records
    if u is None:
        u = Side(frame.output_channels, frame.outputs)
        records = [replace(record, u=np.zeros((len(record), u.size), record.f.dtype)) for record in records]
    data = together(records, given.f, u, frame.time.step, options)
    ic = None
    if frame.state and given.ic is not None and given.ic.shape == (len(data), frame.state):
        ic = given.ic
    elif frame.state:
        if given.u is None or frame.state != frame.output_size:
            told = f"{frame.model} takes an initial state of {frame.state} numbers"
            raise TinoError(f"{told}: {path} lacks the outputs at the start")
        ic = data.u[:, 0].clone()
    return replace(data, ic=ic, meta={"time_unit": given.time_unit}, burn_in=min(given.burn_in, data.shortest - 1))


def _check_time_unit(frame: Frame, given: Given, path: Path) -> None:
    have, want = given.time_unit, frame.time_unit
    if have and want and have != want:
        told = f"the times are in {have} in {path}, {frame.model} was trained with {want}"
        raise TinoError(f"{told}: convert them, or if the label is wrong give units = 'NAME={want}'")


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


def _answers(model: Operator, data: Dataset) -> tuple[Tensor, ...]:
    lengths = ends(data)
    if len(set(lengths)) == 1:
        return tuple(predict(model, data.f, data.ic))
    return tuple(
        predict(model, data.f[i : i + 1, :n], None if data.ic is None else data.ic[i : i + 1])[0]
        for i, n in enumerate(lengths)
    )
