"""The U-Net on space-time in 1+1, 2+1 and 3+1 dimensions."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.errors import TinoError
from tino.layers.spectral import PointLinear
from tino.models.operator import Frame, Operator
from tino.models.spacetime import SpaceTime, grid_frame

FEATURES = 32  # of the first level, as in the paper
LEVELS = 3  # halvings: axes are padded with zeros to a multiple of 8, and cropped again
GROUPS = 8


@dataclass(frozen=True)
class UnetSpec:
    """Features of the first level; each level doubles them."""

    features: int


class Unet(Operator):
    """Three halvings and back, two convolutions of width 3 a level, with skips, on the channels (f, ic, t, x)."""

    def __init__(self, frame: Frame, spec: UnetSpec) -> None:
        super().__init__()
        self.frame, self.spec = frame, spec
        self.border = SpaceTime(frame)
        self.axes = len(self.border.shape)
        widths = [spec.features * 2**level for level in range(LEVELS + 1)]
        self.down = nn.ModuleList(
            _level(self.axes, fan_in, width)
            for fan_in, width in zip([self.border.channels, *widths[:-1]], widths, strict=True)
        )
        self.up = nn.ModuleList(
            _level(self.axes, 3 * width, width)
            for width in reversed(widths[:-1])  # what comes up, and the skip
        )
        self.project = PointLinear(spec.features, 1)

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, m) -> u (b, t, m)."""
        self.check_shapes(f, ic)
        v = self.border.encode(f, ic)
        sizes = v.shape[2:]
        padding = [(-n) % 2**LEVELS for n in sizes]
        v = nn.functional.pad(v, [side for extra in reversed(padding) for side in (0, extra)])
        skips = []
        for level in self.down[:-1]:
            v = level(v)
            skips.append(v)
            v = _halve(v)
        v = self.down[-1](v)
        for level, skip in zip(self.up, reversed(skips), strict=True):
            v = level(torch.cat([_double(v), skip], dim=1))
        v = v[(slice(None), slice(None), *[slice(n) for n in sizes])]
        return self.border.decode(self.project(v)[:, 0])

    def record(self) -> dict[str, Any]:
        return {"family": "unet", **self.frame.record(), **asdict(self.spec)}

    def normalisation(self) -> dict[str, Any]:
        return {"input_scale": float(self.border.scale_in), "output_scale": float(self.border.scale_out)}


class SpaceThenTime(nn.Module):
    """In place of a convolution in four dimensions, which torch does not have: one over space, then one over time.

    Both see memory with channels last, where space and time alone are views of one layout.
    """

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.space = nn.Conv3d(fan_in, fan_out, 3, padding=1)
        self.time = nn.Conv2d(fan_out, fan_out, (3, 1), padding=(1, 0))

    def forward(self, v: Tensor) -> Tensor:
        v = v.movedim(1, -1).contiguous()  # (b, t, x, y, z, c)
        shape = v.shape[:-1]
        v = self.space(v.flatten(0, 1).movedim(-1, 1)).movedim(1, -1)  # (b t, x, y, z, c)
        v = self.time(v.reshape(*shape[:2], -1, v.shape[-1]).movedim(-1, 1))  # (b, c, t, x y z)
        return v.unflatten(3, shape[2:])


def _level(axes: int, fan_in: int, fan_out: int) -> nn.Sequential:
    """Two convolutions, each normalised over groups of channels."""
    conv = {2: lambda i, o: nn.Conv2d(i, o, 3, padding=1), 3: lambda i, o: nn.Conv3d(i, o, 3, padding=1)}
    make = conv.get(axes, SpaceThenTime)
    parts: list[nn.Module] = []
    for i in (fan_in, fan_out):
        parts += [make(i, fan_out), nn.GroupNorm(GROUPS, fan_out), nn.GELU()]
    return nn.Sequential(*parts)


def _halve(v: Tensor) -> Tensor:
    """The largest of each pair along every axis."""
    for axis in range(2, v.ndim):
        v = v.unflatten(axis, (-1, 2)).amax(axis + 1)
    return v


def _double(v: Tensor) -> Tensor:
    """Every value twice along every axis."""
    for axis in range(2, v.ndim):
        v = v.repeat_interleave(2, dim=axis)
    return v


def build_unet(name: str, train: Dataset) -> Unet:
    frame = grid_frame(name, train)
    if not frame.outputs.shape:
        raise TinoError(f"{name} needs outputs in space, {train.name} has time-only outputs")
    model = Unet(frame, UnetSpec(FEATURES))
    model.border.fit_scales(train)
    return model
