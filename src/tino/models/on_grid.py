"""What the networks on a grid share: their border, their record, and what they require of the data."""

from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar

from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.frame import Frame
from tino.grids import Point, Points
from tino.operator import Operator
from tino.parts.part import check_sizes
from tino.parts.spacetime import Box

Border = TypeVar("Border", bound=Box)


class OnGrid(Operator, Generic[Border]):
    """An operator that maps channels on the grid to channels on the grid; ``sizes`` are what it was made with."""

    def __init__(self, frame: Frame, sizes: dict[str, Any], border: Border) -> None:
        check_sizes(self, sizes)
        super().__init__()
        self.frame, self.sizes, self.border = frame, sizes, border

    def normalised(self, u: Tensor) -> Tensor:
        return self.border.normalised(u)

    def record(self) -> dict[str, Any]:
        return self.sizes

    @classmethod
    def from_record(cls, frame: Frame, record: Mapping[str, Any]) -> Self:
        return cls(frame, **record)

    def normalisation(self) -> dict[str, Any]:
        return {"input_scale": self.border.scale_in.tolist(), "output_scale": self.border.scale_out.tolist()}


def grid_frame(name: str, train: Dataset) -> Frame:
    """The frame of a network on the grid; an error if the data do not suit it."""
    if train.inputs != train.outputs and not isinstance(train.inputs, Point):
        raise TinoError(
            f"{name} needs inputs and outputs on one grid, {train.name} has {train.inputs} and {train.outputs}"
        )
    if isinstance(train.outputs, Points):
        raise TinoError(f"{name} needs a grid, {train.name} has scattered {train.outputs}: try pod-tino or linear")
    frame = Frame.of(name, train)
    if frame.state not in (0, frame.output_size):
        raise TinoError(f"{name} takes an initial state on the output points ({frame.output_size}), got {frame.state}")
    return frame


def field_frame(name: str, train: Dataset) -> Frame:
    """The same, for a network that needs space."""
    frame = grid_frame(name, train)
    if not frame.outputs.shape:
        raise TinoError(f"{name} needs outputs in space, {train.name} has time-only outputs: try polynomial or lstm")
    return frame
