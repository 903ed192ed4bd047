"""The U-Net on space-time in 1+1, 2+1 and 3+1 dimensions."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tino.data import Dataset
from tino.errors import TinoError
from tino.models.operator import Frame, Operator
from tino.models.spacetime import SpaceTime, grid_frame

FEATURES = 32  # of the first level, as in the paper
LEVELS = 3  # halvings: axes are padded with zeros to a multiple of 8, and cropped again
GROUPS = 8
LINE = 128  # values, up to which a GPU takes a whole line of space at once (timed with TF32)


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
            Level(self.axes, fan_in, width)
            for fan_in, width in zip([self.border.channels, *widths[:-1]], widths, strict=True)
        )
        self.up = nn.ModuleList(
            Level(self.axes, 3 * width, width)
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
            v = level(v, skip)
        v = v[(slice(None), *[slice(n) for n in sizes])]
        return self.border.decode(self.project(v)[..., 0])

    def record(self) -> dict[str, Any]:
        return {"family": "unet", **self.frame.record(), **asdict(self.spec)}

    def normalisation(self) -> dict[str, Any]:
        return {"input_scale": float(self.border.scale_in), "output_scale": float(self.border.scale_out)}


class Level(nn.Sequential):
    """Two convolutions, each normalised over groups of channels; on the way up the first also sees what was skipped."""

    def __init__(self, axes: int, fan_in: int, fan_out: int) -> None:
        parts: list[nn.Module] = []
        for i in (fan_in, fan_out):
            conv = {2: Conv2d, 3: Conv3d}.get(axes)
            parts += [conv(i, fan_out, 3, padding=1) if conv else SpaceThenTime(i, fan_out)]
            parts += [GroupNorm(GROUPS, fan_out), nn.GELU()]
        super().__init__(*parts)

    def forward(self, input: Tensor, skip: Tensor | None = None) -> Tensor:
        first, *rest = self
        v = first(input, skip)
        for part in rest:
            v = part(v)
        return v


class ChannelsLast(nn.Module):
    """Makes a convolution of torch's take its channels last: (b, ..., i) -> (b, ..., o), by views of one memory."""

    def forward(self, input: Tensor, skip: Tensor | None = None) -> Tensor:
        """Of the input, or on the way up of the input, doubled, beside what was skipped."""
        v = input if skip is None else torch.cat([_double(input), skip], dim=-1)
        return super().forward(v.movedim(-1, 1)).movedim(1, -1)


class Conv2d(ChannelsLast, nn.Conv2d):
    """Over space and time in 1+1 dimensions."""


class Conv3d(ChannelsLast, nn.Conv3d):
    """Over space and time in 2+1 dimensions."""


class SpaceThenTime(nn.Module):
    """In place of a convolution in four dimensions, which torch does not have: one over space, then one over time."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.space = nn.Conv3d(fan_in, fan_out, 3, padding=1)
        self.time = nn.Conv2d(fan_out, fan_out, (3, 1), padding=(1, 0))

    def forward(self, v: Tensor, skip: Tensor | None = None) -> Tensor:
        """The same; in time v is doubled after the convolution over space, which then sees half as many times of it."""
        if skip is None:
            v = _over_space(v, self.space.weight, self.space.bias)
        else:
            above, beside = self.space.weight.split([v.shape[-1], skip.shape[-1]], dim=1)
            v = _over_space(_double(v, range(2, 5)), above)
            v = _double(v, (1,)) + _over_space(skip, beside, self.space.bias)
        over_time = _OverTime.apply if _faster_on_gpu(v) else _over_time
        return over_time(v.flatten(2, 4), self.time.weight, self.time.bias).reshape(v.shape)  # of (b, t, x, y, z, c)


def _faster_on_gpu(v: Tensor) -> bool:
    """Whether to take the forms that a GPU is faster with; under autocast a Function of ours would meet two types."""
    return v.is_cuda and not torch.is_autocast_enabled("cuda")


def _over_time(v: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(b, t, n, i) -> (b, t, n, o)."""
    return nn.functional.conv2d(v.movedim(-1, 1), weight, bias, padding=(1, 0)).movedim(1, -1)


def _over_space(v: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(b, t, x, y, z, i) -> (b, t, x, y, z, o)."""
    lines = _faster_on_gpu(v) and v.shape[-2] * v.shape[-1] <= LINE
    return (_by_lines if lines else _by_points)(v.flatten(0, 1), weight, bias).reshape(*v.shape[:-1], -1)


def _by_points(v: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(n, x, y, z, i) -> (n, x, y, z, o)."""
    return nn.functional.conv3d(v.movedim(-1, 1), weight, bias, padding=1).movedim(1, -1)


def _by_lines(v: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The same over the plane of x and y, where the channels are those of a whole line along z."""
    z, fan_out = v.shape[-2], len(weight)
    reads = torch.eye(z + 2, dtype=v.dtype, device=v.device)[:, 1:-1].unfold(0, z, 1)  # tap k reads w for z: (k, w, z)
    along_line = torch.einsum("ocxyk,kwz->zowcxy", weight, reads).reshape(z * fan_out, -1, 3, 3)
    bias = None if bias is None else bias.repeat(z)
    v = nn.functional.conv2d(v.flatten(-2).movedim(-1, 1), along_line, bias, padding=1)
    return v.movedim(1, -1).unflatten(-1, (z, fan_out))


class _OverTime(torch.autograd.Function):
    """``_over_time``, whose weights' gradient is one product for each tap."""

    @staticmethod
    def forward(ctx, v: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # pyright: ignore
        ctx.save_for_backward(v, weight)
        return _over_time(v, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):  # pyright: ignore
        v, weight = ctx.saved_tensors
        by_v = _over_time(grad, weight.transpose(0, 1).flip(2), None)
        n, x, g = v.shape[2], v.flatten(1, 2), grad.flatten(1, 2).mT
        taps = [g[..., n:] @ x[:, :-n], g @ x, g[..., :-n] @ x[:, n:]]
        by_weight = torch.stack([tap.sum(0) for tap in taps], dim=-1)[..., None]
        return by_v, by_weight, grad.sum((0, 1, 2))


class GroupNorm(nn.GroupNorm):
    """torch's, for channels that come last: torch's own would move them to the front and back."""

    def forward(self, input: Tensor) -> Tensor:
        v = input.flatten(1, -2)  # (b, n, c)
        with torch.autocast(v.device.type, enabled=False):  # a mean over a grid wants more digits than bfloat16 has
            v = v.float() if v.dtype in (torch.bfloat16, torch.float16) else v
            return _Normalise.apply(v, self.weight, self.bias, self.num_groups, self.eps).view(input.shape)  # pyright: ignore


class _Normalise(torch.autograd.Function):
    """y = w (v - m) r + c, with the mean m and 1 / deviation r of each group of channels: v (b, n, c)."""

    @staticmethod
    def forward(ctx, v: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:  # pyright: ignore
        var, mean = torch.var_mean(v, dim=1, correction=0)  # of each channel, then of its group
        center = _over_groups(mean, groups)
        r = (_over_groups(var + (mean - center).square(), groups) + eps).rsqrt()
        ctx.save_for_backward(v, weight, center, r)
        ctx.groups = groups
        scale = weight * r
        return torch.addcmul((bias - center * scale)[:, None], v, scale[:, None])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):  # pyright: ignore
        v, weight, center, r = ctx.saved_tensors
        by_bias = grad.sum(1)  # (b, c)
        by_weight = ((grad * v).sum(1) - center * by_bias) * r
        # through m and r every value of a group depends on all others: minus the parts of grad along 1 and v - m
        along_one = _over_groups(weight * by_bias, ctx.groups) * r / v.shape[1]
        along_v = _over_groups(weight * by_weight, ctx.groups) * r.square() / v.shape[1]
        grad_v = torch.addcmul((along_v * center - along_one)[:, None], v, -along_v[:, None])
        return grad_v.addcmul_(grad, (weight * r)[:, None]), by_weight.sum(0), by_bias.sum(0), None, None


def _over_groups(values: Tensor, groups: int) -> Tensor:
    """The mean over each group of channels, at each of them: (b, c) -> (b, c)."""
    parts = values.unflatten(-1, (groups, -1))
    return parts.mean(-1, keepdim=True).expand_as(parts).flatten(1)


def _halve(v: Tensor) -> Tensor:
    """The largest of each pair along every axis of space-time, which lie between the first and the last."""
    if v.ndim == 6:  # torch's pooling has three axes at most: over space, then over time
        return _halve(v.flatten(0, 1)).unflatten(0, v.shape[:2]).unflatten(1, (-1, 2)).amax(2)
    pool = nn.functional.max_pool2d if v.ndim == 4 else nn.functional.max_pool3d
    return pool(v.movedim(-1, 1), 2).movedim(1, -1)


def _double(v: Tensor, axes: Iterable[int] | None = None) -> Tensor:
    """Every value twice along these axes, or all of space-time."""
    for axis in axes or range(1, v.ndim - 1):
        v = v.repeat_interleave(2, dim=axis)
    return v


def build_unet(name: str, train: Dataset) -> Unet:
    frame = grid_frame(name, train)
    if not frame.outputs.shape:
        raise TinoError(f"{name} needs outputs in space, {train.name} has time-only outputs")
    model = Unet(frame, UnetSpec(FEATURES))
    model.border.fit_scales(train)
    return model
