"""The border of networks on a space-time grid: channels in, points out."""

import math

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.errors import TinoError
from tino.grids import Grid, Triangle
from tino.models.bases import unit_range
from tino.models.operator import Frame


class SpaceTime(nn.Module):
    """f and ic as channels beside the coordinates on the box that holds the grid, and its values back at the points.

    Input and output live on the same grid. The triangle is embedded in its square, zero outside, and read off inside.
    """

    scale_in: Tensor
    scale_out: Tensor
    coordinates: Tensor
    places: Tensor

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        self.register_buffer("scale_in", torch.ones(()))
        self.register_buffer("scale_out", torch.ones(()))
        self.register_buffer("coordinates", _coordinates(frame), persistent=False)  # (1 + d, t, *shape)
        self.register_buffer("places", places_in_box(frame.inputs), persistent=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Times and points along each axis of the box."""
        return (self.frame.time.n, *box_shape(self.frame.inputs))

    @property
    def channels(self) -> int:
        return 1 + bool(self.frame.state) + len(self.shape)

    def encode(self, f: Tensor, ic: Tensor | None) -> Tensor:
        """f (b, t, x), ic (b, x) -> (b, channels, t, *shape)."""
        parts = [self._into_box(f / self.scale_in)]
        if ic is not None:
            parts.append(self._into_box(ic[:, None] / self.scale_out).expand_as(parts[0]))
        return torch.cat([*parts, self.coordinates.expand(len(f), *self.coordinates.shape)], dim=1)

    def decode(self, u: Tensor) -> Tensor:
        """(b, t, *shape) -> (b, t, x)."""
        u = u.reshape(*u.shape[:2], -1)
        return self.scale_out * (u.index_select(2, self.places) if len(self.places) else u)

    def _into_box(self, values: Tensor) -> Tensor:
        """(b, t, x) -> (b, 1, t, *shape); outside a triangle zero."""
        if len(self.places):
            box = values.new_zeros(*values.shape[:2], math.prod(self.shape[1:]))
            values = box.index_copy(2, self.places, values)
        return values.reshape(len(values), 1, -1, *self.shape[1:])

    def fit_scales(self, train: Dataset) -> None:
        with torch.no_grad():
            for buffer, values in ((self.scale_in, train.f), (self.scale_out, train.u)):
                size = values.double().square().mean().sqrt()
                if not size > 0:
                    raise TinoError(
                        f"the inputs or outputs of {train.name} are all zero: there is nothing to learn from"
                    )
                buffer.copy_(size)


def grid_frame(name: str, train: Dataset) -> Frame:
    """The frame of a network on the grid, or the reason why there is none."""
    if train.inputs != train.outputs:
        raise TinoError(
            f"{name} needs inputs and outputs on one grid, {train.name} has {train.inputs} and {train.outputs}"
        )
    frame = Frame.of(name, train)
    if frame.state not in (0, frame.outputs.size):
        raise TinoError(f"{name} takes an initial state on the output points ({frame.outputs.size}), got {frame.state}")
    return frame


def box_shape(grid: Grid) -> tuple[int, ...]:
    """The shape of the box that holds the grid."""
    return (grid.n, grid.n) if isinstance(grid, Triangle) else grid.shape


def places_in_box(grid: Grid) -> Tensor:
    """Where in the flattened box the points of a grid lie that does not fill it; empty for one that does."""
    inside = grid.inside.flatten().nonzero()[:, 0] if isinstance(grid, Triangle) else []
    return torch.as_tensor(inside, dtype=torch.long)


def _coordinates(frame: Frame) -> Tensor:
    """t and x scaled to [-1, 1] at every point, (1 + d, t, *shape)."""
    t = unit_range(frame.time.points[:, None])[:, 0]
    lines = [t, *[torch.linspace(-1, 1, n, dtype=torch.float64) for n in box_shape(frame.inputs)]]
    return torch.stack(torch.meshgrid(*lines, indexing="ij")).to(torch.get_default_dtype())
