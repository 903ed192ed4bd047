"""Which numbers of a model's input are driven, which of its output are read, and about which constant input."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tino.channels import Channels
from tino.errors import TinoError, of_kind, shown, whole
from tino.frame import Frame
from tino.grids import Grid
from tino.operator import Operator


@dataclass(frozen=True)
class Terminals:
    """A copy of a model in float64, the places of its driven inputs in f (m) and of its read outputs in u (x)."""

    model: Operator
    inputs: tuple[int, ...]  # one for each input channel
    outputs: tuple[int, ...]
    point: tuple[float, ...]  # the constant input of each channel

    @property
    def frame(self) -> Frame:
        return self.model.frame

    def held(self, rows: int, times: int) -> Tensor:
        """The operating point, f (rows, times, m)."""
        frame = self.frame
        each = torch.tensor(self.point, dtype=torch.float64).repeat_interleave(frame.inputs.size)
        return each.expand(rows, times, -1).clone()

    def answer(self, f: Tensor) -> Tensor:
        """u without offsets, step by step: (rows, times, m) -> (rows, times, outputs read).

        By steps, because every causal operator has them and they are made of plain operations, which can be
        differentiated in every direction.
        """
        ic = f.new_zeros(len(f), self.frame.state) if self.frame.state else None
        return self.model.by_steps(f, ic)[..., list(self.outputs)]

    def check_finite(self, values: Tensor, level: Sequence[float] = ()) -> Tensor:
        """An error if they are not, which names the level of the multisines if there are any."""
        if not bool(torch.isfinite(values).all()):
            held, size = (", ".join(f"{value:g}" for value in some) for some in (self.point, level))
            fix = f" at the level {size}: choose a smaller one" if level else ": choose another"
            raise TinoError(f"{self.frame.model} does not stay finite about the constant input {held}{fix}")
        return values


def terminals(
    model: Operator, point: float | Sequence[float] | None, input_point: int | None, output_point: int | None
) -> Terminals:
    """Refuse what has no such read-outs: models that are not causal or have a clock, and fields without a point."""
    if not isinstance(model, Operator):
        raise TinoError(f"the model is {shown(model)}, expected one of tino's operators")
    frame, known = model.frame, model.properties
    if not known.causal:
        raise TinoError(f"{frame.model} has no impulse response: it is not causal")
    if model.longest is not None:
        why = " and ".join(known.reasons) or f"it takes {model.longest} times at most"
        raise TinoError(f"{frame.model} has no impulse response: its answer depends on the time since T_0 ({why})")
    places = [
        _places(side, channels, grid, at)
        for side, channels, grid, at in (
            ("input", frame.input_channels, frame.inputs, input_point),
            ("output", frame.output_channels, frame.outputs, output_point),
        )
    ]
    made = copy.deepcopy(model).cpu().double().eval()
    return Terminals(made, places[0], places[1], operating_point(frame, point))


def operating_point(frame: Frame, given: float | Sequence[float] | None) -> tuple[float, ...]:
    """Of each input channel. Left out: zero, or the middle of the training inputs' range if zero is outside it."""
    count = len(frame.input_channels)
    if given is None:
        seen = frame.seen.inputs or ((0.0, 0.0),) * count
        return tuple(0.0 if low <= 0 <= high else (low + high) / 2 for low, high in seen)
    numbers = [given] * count if isinstance(given, int | float) else list(given)
    if len(numbers) != count:
        raise TinoError(f"point has {len(numbers)} numbers, expected one for each of {count} input channels")
    return tuple(float(of_kind(float(one), float, "point")) for one in numbers)


def _places(side: str, channels: Channels, grid: Grid, at: int | None) -> tuple[int, ...]:
    if grid.size > 1 and at is None:
        wanted = f"{side}_point = {grid.size // 2}"
        raise TinoError(f"the {side} is a field of {grid.size} points: choose one of them, such as {wanted}")
    chosen = whole(f"{side}_point", 0 if at is None else at, 0, grid.size - 1)
    return tuple(i * grid.size + chosen for i in range(len(channels)))
