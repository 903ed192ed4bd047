"""The U-Net on space-time in 1+1, 2+1 and 3+1 dimensions."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.frame import Frame
from tino.models.on_grid import OnGrid, field_frame
from tino.operator import Properties
from tino.parts.spacetime import SpaceTime
from tino.parts.spectral import PointLinear


class Unet(OnGrid[SpaceTime]):
    """``levels`` halvings and back, two convolutions of width 3 per level, with skips, on the channels (f, ic, t, x).

    Each level doubles the features. Axes are padded with zeros to a multiple of 2^levels, and cropped again.
    """

    def __init__(self, frame: Frame, *, features: int, levels: int, groups: int, clock: bool) -> None:
        sizes = {"features": features, "levels": levels, "groups": groups, "clock": clock}
        super().__init__(frame, sizes, SpaceTime(frame, clock))
        self.levels = levels
        axes, widths = len(self.border.shape), [features * 2**level for level in range(levels + 1)]
        fans_in = [self.border.channels, *widths[:-1]]
        self.down = nn.ModuleList(level(axes, i, o, groups) for i, o in zip(fans_in, widths, strict=True))
        self.up = nn.ModuleList(
            level(axes, 3 * o, o, groups) for o in reversed(widths[:-1])
        )  # from below, and the skip
        self.project = PointLinear(features, self.border.outputs)

    @property
    def properties(self) -> Properties:
        return Properties(causal=False, reasons=("its convolutions see both ways in time",))

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, x) -> u (b, t, x)."""
        self.check_shapes(f, ic)
        v = self.border.encode(f, ic)  # (b, c, t, ...)
        sizes = v.shape[2:]
        v = nn.functional.pad(v, [side for n in reversed(sizes) for side in (0, -n % 2**self.levels)])
        skips = []
        for level in self.down[:-1]:
            v = level(v)
            skips.append(v)
            v = halved(v)
        v = self.down[-1](v)
        for level, skip in zip(self.up, reversed(skips), strict=True):
            v = level(torch.cat([doubled(v), skip], dim=1))
        return self.border.decode(self.project(v)[(..., *[slice(n) for n in sizes])])


def level(axes: int, fan_in: int, fan_out: int, groups: int) -> nn.Sequential:
    """Two convolutions, each normalised over groups of channels."""
    conv = {2: nn.Conv2d, 3: nn.Conv3d}.get(axes)
    layers: list[nn.Module] = []
    for i in (fan_in, fan_out):
        layers += [conv(i, fan_out, 3, padding=1) if conv else SpaceThenTime(i, fan_out)]
        layers += [nn.GroupNorm(groups, fan_out), nn.GELU()]
    return nn.Sequential(*layers)


class SpaceThenTime(nn.Module):
    """In place of a convolution in four dimensions, which torch does not have: one over space, then one over time."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.space = nn.Conv3d(fan_in, fan_out, 3, padding=1)
        self.time = nn.Conv2d(fan_out, fan_out, (3, 1), padding=(1, 0))

    def forward(self, v: Tensor) -> Tensor:
        """(b, i, t, x, y, z) -> (b, o, t, x, y, z)."""
        b, _, t, *space = v.shape
        v = self.space(v.transpose(1, 2).flatten(0, 1)).unflatten(0, (b, t)).transpose(1, 2)
        return self.time(v.flatten(3)).unflatten(3, space)


def halved(v: Tensor) -> Tensor:
    """The largest of each pair along every axis of space-time: (b, c, ...)."""
    for axis in range(2, v.ndim):
        v = v.unflatten(axis, (-1, 2)).amax(axis + 1)
    return v


def doubled(v: Tensor) -> Tensor:
    """Every value twice along every axis of space-time."""
    for axis in range(2, v.ndim):
        v = v.repeat_interleave(2, dim=axis)
    return v


@dataclass(frozen=True)
class UnetBuilder:
    """The paper's number of features by default."""

    features: int = 32
    levels: int = 3
    groups: int = 8
    clock: bool = True

    def __call__(self, name: str, train: Dataset) -> Unet:
        frame = field_frame(name, train)
        model = Unet(frame, features=self.features, levels=self.levels, groups=self.groups, clock=self.clock)
        model.border.fit(train)
        return model
