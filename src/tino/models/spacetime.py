"""The border of networks on a space-time grid: channels in, points out."""

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

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        self.register_buffer("scale_in", torch.ones(()))
        self.register_buffer("scale_out", torch.ones(()))
        self.register_buffer("coordinates", _coordinates(frame), persistent=False)  # (1 + d, t, *shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Times and points along each axis of the box."""
        return (self.frame.time.n, *square_shape(self.frame.inputs))

    @property
    def channels(self) -> int:
        return 1 + bool(self.frame.state) + len(self.shape)

    def encode(self, f: Tensor, ic: Tensor | None) -> Tensor:
        """f (b, t, x), ic (b, x) -> (b, channels, t, *shape)."""
        parts = [to_square(f / self.scale_in, self.frame.inputs)[:, None]]
        if ic is not None:
            state = to_square(ic[:, None] / self.scale_out, self.frame.outputs)
            parts.append(state[:, None].expand_as(parts[0]))
        return torch.cat([*parts, self.coordinates.expand(len(f), *self.coordinates.shape)], dim=1)

    def decode(self, u: Tensor) -> Tensor:
        """(b, t, *shape) -> (b, t, x)."""
        return self.scale_out * from_square(u, self.frame.outputs)

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


def square_shape(grid: Grid) -> tuple[int, ...]:
    """The shape of the box that holds the grid."""
    return (grid.n, grid.n) if isinstance(grid, Triangle) else grid.shape


def to_square(values: Tensor, grid: Grid) -> Tensor:
    """(b, t, x) -> (b, t, *shape); outside a triangle zero."""
    if not isinstance(grid, Triangle):
        return values.reshape(*values.shape[:2], *grid.shape)
    square = values.new_zeros(*values.shape[:2], grid.n, grid.n)
    square[:, :, grid.inside.to(values.device)] = values
    return square


def from_square(values: Tensor, grid: Grid) -> Tensor:
    """(b, t, *shape) -> (b, t, x)."""
    if isinstance(grid, Triangle):
        return values[:, :, grid.inside.to(values.device)]
    return values.reshape(*values.shape[:2], -1)


def _coordinates(frame: Frame) -> Tensor:
    """t and x scaled to [-1, 1] at every point, (1 + d, t, *shape)."""
    t = unit_range(frame.time.points[:, None])[:, 0]
    lines = [t, *[torch.linspace(-1, 1, n, dtype=torch.float64) for n in square_shape(frame.inputs)]]
    return torch.stack(torch.meshgrid(*lines, indexing="ij")).to(torch.get_default_dtype())
