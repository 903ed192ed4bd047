"""The Fourier neural operator on space-time, time being one of its one to four dimensions."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.errors import TinoError
from tino.grids import Grid, Triangle
from tino.layers.spectral import SpectralConv
from tino.models.bases import unit_range
from tino.models.operator import Frame, Operator

LAYERS = 4
PROJECTION = 128
PADDING = 9  # zeros after the last time: time is not periodic
WIDTHS = {1: 64, 2: 20, 3: 20, 4: 20}  # by dimension, as in the paper's table tab:fno_settings
MODES = {1: 16, 2: 12, 3: 12, 4: 12}


@dataclass(frozen=True)
class FnoSpec:
    """Channels, and kept modes along time and each axis of space."""

    width: int
    modes: tuple[int, ...]


class Fno(Operator):
    """v_{l+1} = σ(W_l v_l + c_l + F⁻¹(R_l · F v_l)), four layers, on the channels (f, ic, t, x).

    Input and output live on the same grid. The triangle is embedded in its square, zero outside, and read off inside.
    """

    scale_in: Tensor
    scale_out: Tensor
    coordinates: Tensor
    inside: Tensor

    def __init__(self, frame: Frame, spec: FnoSpec) -> None:
        super().__init__()
        self.frame, self.spec = frame, spec
        shape = square_shape(frame.inputs)
        padded = (frame.time.n + PADDING, *shape)
        self.register_buffer("scale_in", torch.ones(()))
        self.register_buffer("scale_out", torch.ones(()))
        self.register_buffer("coordinates", _coordinates(frame), persistent=False)
        self.lift = nn.Linear(1 + bool(frame.state) + len(padded), spec.width)
        self.spectral = nn.ModuleList(SpectralConv(spec.width, padded, spec.modes) for _ in range(LAYERS))
        self.local = nn.ModuleList(nn.Linear(spec.width, spec.width) for _ in range(LAYERS))
        self.project = nn.Sequential(nn.Linear(spec.width, PROJECTION), nn.GELU(), nn.Linear(PROJECTION, 1))

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, m) -> u (b, t, m)."""
        self.check_shapes(f, ic)
        b, n_t, _ = f.shape
        channels = [to_square(f / self.scale_in, self.frame.inputs)]  # (b, t, *shape)
        if ic is not None:
            channels.append(to_square(ic[:, None] / self.scale_out, self.frame.outputs).expand_as(channels[0]))
        points = self.coordinates.expand(b, *self.coordinates.shape)
        v = self.lift(torch.cat([torch.stack(channels, dim=-1), points], dim=-1)).movedim(-1, 1)  # (b, c, t, ...)
        v = nn.functional.pad(v, [0, 0] * (v.ndim - 3) + [0, PADDING])
        for i, (spectral, local) in enumerate(zip(self.spectral, self.local, strict=True)):
            v = spectral(v) + local(v.movedim(1, -1)).movedim(-1, 1)
            v = nn.functional.gelu(v) if i < LAYERS - 1 else v
        u = self.project(v[:, :, :n_t].movedim(1, -1))[..., 0]
        return self.scale_out * from_square(u, self.frame.outputs)

    def record(self) -> dict[str, Any]:
        return {"family": "fno", **self.frame.record(), **asdict(self.spec)}

    def normalisation(self) -> dict[str, Any]:
        return {"input_scale": float(self.scale_in), "output_scale": float(self.scale_out)}


def build_fno(name: str, train: Dataset) -> Fno:
    """An FNO of the paper's width and modes for the dataset's dimension."""
    if train.inputs != train.outputs:
        raise TinoError(
            f"{name} needs inputs and outputs on one grid, {train.name} has {train.inputs} and {train.outputs}"
        )
    frame = Frame.of(name, train)
    if frame.state not in (0, frame.outputs.size):
        raise TinoError(f"{name} takes an initial state on the output points ({frame.outputs.size}), got {frame.state}")
    dimensions = 1 + len(square_shape(train.inputs))
    model = Fno(frame, FnoSpec(WIDTHS[dimensions], (MODES[dimensions],) * dimensions))
    with torch.no_grad():
        for buffer, values in ((model.scale_in, train.f), (model.scale_out, train.u)):
            size = values.double().square().mean().sqrt()
            if not size > 0:
                raise TinoError(f"the inputs or outputs of {train.name} are all zero: there is nothing to learn from")
            buffer.copy_(size)
    return model


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
    return (
        values[:, :, grid.inside.to(values.device)]
        if isinstance(grid, Triangle)
        else values.flatten(2)
        if (grid.shape)
        else values[..., None]
    )


def _coordinates(frame: Frame) -> Tensor:
    """t and x scaled to [-1, 1] at every point, (t, *shape, 1 + d)."""
    grid = frame.inputs
    t = unit_range(frame.time.points[:, None])[:, 0]
    lines = [t, *[torch.linspace(-1, 1, n, dtype=torch.float64) for n in square_shape(grid)]]
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1).to(torch.get_default_dtype())
