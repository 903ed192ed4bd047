"""The U-Net on space-time in 1+1, 2+1 and 3+1 dimensions."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.errors import TinoError
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
        self.project = nn.Linear(spec.features, 1)

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, m) -> u (b, t, m)."""
        self.check_shapes(f, ic)
        v = self.border.encode(f, ic)
        sizes = v.shape[2:]
        padding = [side for n in reversed(sizes) for side in (0, -n % 2**LEVELS)]
        v = nn.functional.pad(v, padding).movedim(1, -1).contiguous()  # channels last, and so to the end
        skips = []
        for level in self.down[:-1]:
            v = level(v)
            skips.append(v)
            v = _halve(v)
        v = self.down[-1](v)
        for level, skip in zip(self.up, reversed(skips), strict=True):
            v = level(torch.cat([_double(v), skip], dim=-1))
        v = v[(slice(None), *[slice(n) for n in sizes])]
        return self.border.decode(self.project(v)[..., 0])

    def record(self) -> dict[str, Any]:
        return {"family": "unet", **self.frame.record(), **asdict(self.spec)}

    def normalisation(self) -> dict[str, Any]:
        return {"input_scale": float(self.border.scale_in), "output_scale": float(self.border.scale_out)}


class Convolution(nn.Module):
    """Of width 3 along two or three axes: (b, ..., i) -> (b, ..., o), by a layer that sees its channels in front."""

    def __init__(self, axes: int, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.layer = {2: nn.Conv2d, 3: nn.Conv3d}[axes](fan_in, fan_out, 3, padding=1)

    def forward(self, v: Tensor) -> Tensor:
        return self.layer(v.movedim(-1, 1)).movedim(1, -1)


class SpaceThenTime(nn.Module):
    """In place of a convolution in four dimensions, which torch does not have: one over space, then one over time."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.space = nn.Conv3d(fan_in, fan_out, 3, padding=1)
        self.time = nn.Conv2d(fan_out, fan_out, (3, 1), padding=(1, 0))

    def forward(self, v: Tensor) -> Tensor:
        shape = v.shape[:-1]  # (b, t, x, y, z)
        v = self.space(v.flatten(0, 1).movedim(-1, 1)).movedim(1, -1)  # (b t, x, y, z, c)
        v = self.time(v.reshape(*shape[:2], -1, v.shape[-1]).movedim(-1, 1)).movedim(1, -1)  # (b, t, x y z, c)
        return v.reshape(*shape, -1)


class GroupNorm(nn.GroupNorm):
    """torch's, for channels that come last: torch's own would move them to the front and back."""

    def forward(self, input: Tensor) -> Tensor:
        v = input.flatten(1, -2)  # (b, n, c)
        var, mean = torch.var_mean(v, dim=1, correction=0)  # of each channel, then of its group
        means = mean.unflatten(-1, (self.num_groups, -1))
        center = means.mean(-1, keepdim=True)
        var = (var.view_as(means) + (means - center).square()).mean(-1, keepdim=True)
        scale = ((var + self.eps).rsqrt() * self.weight.view_as(means[0])).flatten(1)
        shift = self.bias - center.expand_as(means).flatten(1) * scale
        return torch.addcmul(shift[:, None], v, scale[:, None]).view_as(input)


def _level(axes: int, fan_in: int, fan_out: int) -> nn.Sequential:
    """Two convolutions, each normalised over groups of channels."""
    parts: list[nn.Module] = []
    for i in (fan_in, fan_out):
        conv = SpaceThenTime(i, fan_out) if axes == 4 else Convolution(axes, i, fan_out)
        parts += [conv, GroupNorm(GROUPS, fan_out), nn.GELU()]
    return nn.Sequential(*parts)


def _halve(v: Tensor) -> Tensor:
    """The largest of each pair along every axis but the first and the last."""
    for axis in range(1, v.ndim - 1):
        v = v.unflatten(axis, (-1, 2)).amax(axis + 1)
    return v


def _double(v: Tensor) -> Tensor:
    """Every value twice along every axis but the first and the last."""
    for axis in range(1, v.ndim - 1):
        v = v.repeat_interleave(2, dim=axis)
    return v


def build_unet(name: str, train: Dataset) -> Unet:
    frame = grid_frame(name, train)
    if not frame.outputs.shape:
        raise TinoError(f"{name} needs outputs in space, {train.name} has time-only outputs")
    model = Unet(frame, UnetSpec(FEATURES))
    model.border.fit_scales(train)
    return model
