"""The read-outs of one model together: from it and its training data, printed as lines, kept as readout.json."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tino.channels import Channel, channels_from_record, channels_record
from tino.data import Dataset, check_dataset
from tino.errors import TinoError, in_short, of_kind
from tino.files import read_sealed, write_sealed
from tino.folders import READOUT
from tino.models.store import weights_checksum
from tino.operator import Operator
from tino.readouts.derivatives import SETTLED, ImpulseResponse, impulse_response, settling
from tino.readouts.excited import Excited
from tino.readouts.frequency import FrequencyResponse, frequency_response
from tino.readouts.poles import RATE, pole_lines, poles
from tino.readouts.second_order import kernel_at
from tino.readouts.terminals import Terminals, terminals
from tino.seen import FAR

FORMAT = 4
CELLS = 24  # of a second-order kernel, over the memory
FIX = "read it out again with 'tino readout'"


@dataclass(frozen=True)
class Readout:
    """How a model answers small changes, how it answers multisines, and where it was excited."""

    model: str
    impulse: ImpulseResponse
    frequency: FrequencyResponse
    excited: Excited
    poles: tuple[complex, ...]  # of a law in coefficients about the point, those that are printed
    second: Tensor  # h2 of each input with itself, its mean over cells: (cells, cells, outputs, inputs)
    width: int  # of a cell, in lags
    notes: tuple[str, ...] = ()  # where it goes beyond the training

    def lines(self) -> list[str]:
        """Static gain, memory, excited band, linearity and poles, for people."""
        about, found = self.impulse, self.frequency
        lines = [f"small changes about {about.at}:"]
        for j, output in enumerate(about.output_channels):
            for i, given in enumerate(about.input_channels):
                gain, memory = float(about.gain[j, i]), float(about.memory[j, i])
                settled = f"static gain {gain:.4g}{_per(output, given)}, memory {memory:.4g}"
                never = f"the response has not died away after {len(about.values) * about.step:.4g}"
                lines.append(f"  {given.name} -> {output.name}: {settled if math.isfinite(gain) else never}")
        if about.drift > SETTLED:
            lines.append(f"  the model has not settled there: its answer still moves by {about.drift:.1%}")
        lines += [f"  {line}" for line in pole_lines(self.poles, self.excited)]
        lines.append("multisines, one input at a time:")
        for j, output in enumerate(about.output_channels):
            for i, given in enumerate(about.input_channels):
                seen = found.coherence[:, j, i]
                if not len(seen := seen[~seen.isnan()]):
                    continue  # an input that never varied is not driven
                low, high = (float(end) for end in seen.aminmax())
                at = f"root mean square {found.level[i]:.3g}{f' {given.unit}' if given.unit else ''}"
                lines.append(f"  {given.name} -> {output.name}: {at}, coherence {low:.3f} to {high:.3f}")
        for i, given in enumerate(about.input_channels):
            lines.append(f"excited band of {given.name}: {bands_text(self.excited, i)}")
        if found.unsteady > 1e-2:
            lines.append(f"the answer is not periodic: it changes by {found.unsteady:.1%} from one period to the next")
        return [*lines, *(f"note: {note}" for note in self.notes)]

    # -- on disk -------------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        one, two = self.impulse, self.frequency
        return {
            "model": self.model,
            "input_channels": channels_record(one.input_channels),
            "output_channels": channels_record(one.output_channels),
            "impulse": {"values": one.values.tolist(), "step": one.step, "point": list(one.point), "drift": one.drift},
            "frequency": {
                "frequency": two.frequency.tolist(),
                "values": _pairs(two.values),
                "deviation": _nulls(two.deviation),
                "coherence": _nulls(two.coherence),
                "level": list(two.level),
                "unsteady": two.unsteady,
            },
            "excited": self.excited.record(),
            "poles": [[one.real, one.imag] for one in self.poles],
            "second": {"values": self.second.tolist(), "width": self.width},
            "notes": list(self.notes),
        }

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Readout":
        one, two = record["impulse"], record["frequency"]
        inputs, outputs = (channels_from_record(record[key]) for key in ("input_channels", "output_channels"))
        pairs = (len(outputs), len(inputs))
        point, level = tuple(map(float, one["point"])), tuple(map(float, two["level"]))
        step, drift = float(one["step"]), float(one["drift"])
        impulse = ImpulseResponse(_numbers(one["values"], pairs), step, point, inputs, outputs, drift)
        values = torch.view_as_complex(_numbers(two["values"], (*pairs, 2)))
        deviation, coherence = (_numbers(two[key], pairs) for key in ("deviation", "coherence"))
        frequency = FrequencyResponse(
            _numbers(two["frequency"], ()), values, deviation, coherence, level, float(two["unsteady"])
        )
        if not len(values) == len(deviation) == len(coherence) == len(frequency.frequency) > 0:
            raise ValueError("its frequencies and responses differ in number")
        excited = Excited.from_record(record["excited"])
        if not len(excited.rms) == len(point) == len(level) == len(inputs):
            raise ValueError("its inputs differ in number")
        rates = tuple(complex(float(real), float(imag)) for real, imag in record["poles"])
        bent, width = record["second"], int(record["second"]["width"])
        second = _numbers(bent["values"], (len(bent["values"]), *pairs))
        if width < 1 or not len(second):
            raise ValueError(f"its second order has {len(second)} cells of {width} lags")
        notes = tuple(of_kind(note, str, "a note") for note in record["notes"])
        return Readout(str(record["model"]), impulse, frequency, excited, rates, second, width, notes)

    def save(self, folder: Path) -> None:
        about = {"format": FORMAT, "weights_sha256": weights_checksum(folder)}
        write_sealed(folder / READOUT, {**about, **self.record()})


def read_out(
    model: Operator,
    train: Dataset,
    *,
    level: float | Sequence[float] | None = None,
    point: float | Sequence[float] | None = None,
    input_point: int | None = None,
    output_point: int | None = None,
    seed: int = 0,
) -> Readout:
    """The read-outs of a model, with the frequencies that its training data excited.

    ``point`` is the constant input about which it is linearised, ``level`` the root mean square of the multisines.
    """
    check_dataset(train, "train")
    at = {"point": point, "input_point": input_point, "output_point": output_point}
    impulse = impulse_response(model, **at)
    model.check_data(train)
    excited = Excited.of(train)
    frequency = frequency_response(model, level=level, excited=excited, seed=seed, **at)
    ends = terminals(model, **at)
    longest = float(torch.where(impulse.memory.isfinite(), impulse.memory / impulse.step, len(impulse.values)).amax())
    width, settle = max(1, math.ceil(longest / CELLS)), settling(ends)[0]
    second = torch.stack([kernel_at(ends, place, settle, CELLS, width) for place in ends.inputs], -1)
    rates, notes = poles(ends, settle, excited), beyond(ends, excited, frequency.level)
    return Readout(model.frame.model, impulse, frequency, excited, rates, second, width, notes)


def beyond(ends: Terminals, excited: Excited, level: Sequence[float]) -> tuple[str, ...]:
    """Where the constant input is outside the range of the training, and where the multisines are far larger."""
    told, channels = [], ends.frame.input_channels
    for channel, at, (low, high) in zip(channels, ends.point, ends.frame.seen.inputs, strict=False):
        if not low <= at <= high:
            told.append(f"{channel.name} = {at:g} is outside {low:.3g} to {high:.3g}, the range of the training")
    for channel, one, known in zip(channels, level, excited.rms.tolist(), strict=True):
        if one > (1 + FAR) * known:
            told.append(f"{channel.name} has a root mean square of {one:.3g}, {known:.3g} in training")
    return tuple(told)


def read_readout(folder: Path) -> Readout | None:
    """The read-outs kept in a folder; None if there are none, an error if they are another model's."""
    if not (path := folder / READOUT).exists():
        return None
    record = read_sealed(path, FIX, FORMAT)
    if record.get("weights_sha256") != weights_checksum(folder):
        raise TinoError(f"{path} belongs to other weights than those beside it: {FIX}")
    try:
        return Readout.from_record(record)
    except (LookupError, TypeError, ValueError, RuntimeError, TinoError) as error:
        raise TinoError(f"{path} does not hold read-outs ({in_short(error)}): {FIX}") from error


def bands_text(excited: Excited, channel: int) -> str:
    """The excited bands of a channel; 'none' if it never varied."""
    if not excited.bands(channel):
        return "none, it never varied"
    return f"{', '.join(f'{low:.3g} to {high:.3g}' for low, high in excited.bands(channel))} {RATE}"


def _per(output: Channel, given: Channel) -> str:
    """The unit of a gain, such as ' m/N'."""
    if not given.unit:
        return f" {output.unit}" if output.unit else ""
    return f" {output.unit or '1'}/{given.unit}"


def _pairs(values: Tensor) -> Any:
    return _nulls(torch.view_as_real(values.resolve_conj()))


def _nulls(values: Tensor) -> Any:
    """Nested lists, with None for NaN, which JSON does not have."""
    if values.ndim:
        return [_nulls(one) for one in values.unbind()]
    return None if math.isnan(number := float(values)) else number


def _numbers(nested: Any, shape: tuple[int, ...]) -> Tensor:
    """(n, *shape) of numbers, NaN for None."""

    def filled(one: Any) -> Any:
        return [filled(part) for part in one] if isinstance(one, list) else math.nan if one is None else float(one)

    found = torch.tensor(filled(nested), dtype=torch.float64)
    if found.ndim != 1 + len(shape) or found.shape[1:] != shape:
        raise ValueError(f"numbers of shape {tuple(found.shape)}, expected (n, {', '.join(map(str, shape))})")
    return found
