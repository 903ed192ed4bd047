"""The border of networks on a grid: channels in, points out."""

import math
from abc import abstractmethod

import torch
from torch import Tensor

from tino.channels import channel_sizes, split_channels
from tino.data import Dataset
from tino.frame import Frame
from tino.grids import Grid, Triangle
from tino.parts.features import unit_range
from tino.parts.part import FromGrid


class Box(FromGrid):
    """The box that holds the outputs' grid: f, u and the coordinates as channels on it, each scaled to one size.

    Inputs are on the outputs' grid, or are time-only signals, the same at every point. The triangle is embedded in its
    square, with zeros outside. Without ``clock``, time is not among the channels.
    """

    scale_in: Tensor
    scale_out: Tensor
    coordinates: Tensor
    places: Tensor

    def __init__(self, frame: Frame, clock: bool) -> None:
        super().__init__()
        self.frame, self.clock = frame, clock
        self.inputs, self.outputs = len(frame.input_channels), len(frame.output_channels)
        self.register_buffer("scale_in", torch.ones(self.inputs))
        self.register_buffer("scale_out", torch.ones(self.outputs))
        self.register_computed()  # the coordinates, scaled to [-1, 1]
        self.register_buffer("places", places_in_box(frame.outputs), persistent=False)

    @property
    def space(self) -> tuple[int, ...]:
        """Points along each axis of the box."""
        return box_shape(self.frame.outputs)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Points along each axis that a network sees."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """Channels that a network sees."""

    def lines(self) -> list[Tensor]:
        """The coordinate of each axis of space, scaled to [-1, 1]."""
        return [torch.linspace(-1, 1, n, dtype=torch.float64) for n in self.space]

    def into_box(self, values: Tensor, scale: Tensor) -> Tensor:
        """(b, t, c x) -> (b, c, t, *space), each channel divided by its scale; zero outside a triangle."""
        values = (split_channels(values, len(scale)) / scale[:, None]).transpose(1, 2)  # (b, c, t, x)
        if values.shape[-1] == 1:  # a signal is the same at every point
            values = values.expand(-1, -1, -1, self.frame.outputs.size)
        if len(self.places):
            box = values.new_zeros(*values.shape[:3], math.prod(self.space))
            values = box.index_copy(3, self.places, values)
        return values.unflatten(3, self.space) if self.space else values[..., 0]

    def off_box(self, values: Tensor, scale: Tensor) -> Tensor:
        """The inverse, at the grid's points: (b, c, t, *space) -> (b, t, c x)."""
        values = values.flatten(3) if values.ndim > 3 else values[..., None]
        values = values.index_select(3, self.places) if len(self.places) else values
        return (values.transpose(1, 2) * scale[:, None]).flatten(2)

    def normalised(self, u: Tensor) -> Tensor:
        """Outputs (b, t, c x) as a loss weighs them: several channels divided by their sizes."""
        return u if self.outputs == 1 else (split_channels(u, self.outputs) / self.scale_out[:, None]).flatten(-2)

    def fit(self, train: Dataset) -> None:
        """Scale each channel of the inputs and of the outputs to one size."""
        for buffer, values in ((self.scale_in, train.f), (self.scale_out, train.u)):
            with torch.no_grad():
                buffer.copy_(channel_sizes(values, len(buffer), train.mask))


class SpaceTime(Box):
    """Whole records: the channels (f, ic, t, x) on space-time."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.frame.time.n, *self.space)

    @property
    def channels(self) -> int:
        return self.inputs + self.outputs * bool(self.frame.state) + len(self.coordinates)

    def computed(self) -> dict[str, Tensor]:
        """t and x at every point: (axes, t, *space)."""
        t = unit_range(self.frame.time.points[:, None])[:, 0]
        return {"coordinates": torch.stack(torch.meshgrid(t, *self.lines(), indexing="ij"))[not self.clock :]}

    def encode(self, f: Tensor, ic: Tensor | None) -> Tensor:
        """f (b, t, m), ic (b, x) -> (b, channels, t, *space)."""
        parts = [self.into_box(f, self.scale_in)]
        if ic is not None:
            state = self.into_box(ic[:, None], self.scale_out)
            parts.append(state.expand(-1, -1, f.shape[1], *self.space))
        return torch.cat([*parts, self.coordinates.expand(f.shape[0], *self.coordinates.shape)], dim=1)

    def decode(self, u: Tensor) -> Tensor:
        """(b, c, t, *space) -> (b, t, c x)."""
        return self.off_box(u, self.scale_out)


class Space(Box):
    """One step of time: the channels (u_i, f_i, f_{i+1}, x) on space, and t_{i+1} with ``clock``."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.space

    @property
    def channels(self) -> int:
        return self.outputs + 2 * self.inputs + len(self.space) + self.clock

    def computed(self) -> dict[str, Tensor]:
        """x at every point: (axes, *space)."""
        return {"coordinates": torch.stack(torch.meshgrid(*self.lines(), indexing="ij"))}

    def encode(self, u: Tensor, f: Tensor, i: int | Tensor) -> Tensor:
        """u_i (b, x), f_i and f_{i+1} (b, 2, m), and i + 1, one number or (b,) -> (b, channels, *space)."""
        b, ones = u.shape[0], [1] * len(self.space)
        fields = (self.into_box(u[:, None], self.scale_out), self.into_box(f, self.scale_in))
        parts = [*(field.flatten(1, 2) for field in fields), self.coordinates.expand(b, *self.coordinates.shape)]
        if self.clock:
            t = 2 * torch.as_tensor(i, dtype=u.dtype, device=u.device) / (self.frame.time.n - 1) - 1
            parts.append(t.view(-1, 1, *ones).expand(b, 1, *self.space))
        return torch.cat(parts, dim=1)

    def decode(self, v: Tensor, scale: Tensor) -> Tensor:
        """(b, c, *space) -> (b, c x), each channel times its scale."""
        return self.off_box(v[:, :, None], scale)[:, 0]


def box_shape(grid: Grid) -> tuple[int, ...]:
    """The shape of the box that holds the grid."""
    return (grid.n, grid.n) if isinstance(grid, Triangle) else grid.shape


def places_in_box(grid: Grid) -> Tensor:
    """The indices of the grid's points in the flattened box; empty if the grid fills the box."""
    inside = grid.inside.flatten().nonzero()[:, 0] if isinstance(grid, Triangle) else []
    return torch.as_tensor(inside, dtype=torch.long)
