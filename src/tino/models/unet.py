"""The U-Net on space-time in 1+1, 2+1 and 3+1 dimensions."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.grad import conv2d_weight, conv3d_weight

from tino.data import Dataset
from tino.errors import TinoError
from tino.models.operator import Frame, Operator
from tino.models.spacetime import SpaceTime, grid_frame

FEATURES = 32  # of the first level, as in the paper
LEVELS = 3  # halvings: axes are padded with zeros to a multiple of 8, and cropped again
GROUPS = 8
LINE = 128  # values, up to which a GPU takes a whole line of space at once (timed with TF32)
FEW = 32  # channels, up to which it takes two points at once


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
        u = self.project(v)[(slice(None), *[slice(n) for n in sizes], 0)]
        return self.border.decode(u)

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
        first, its_norm, its_gelu, second, norm, gelu = self
        v = its_gelu(its_norm(first(input, skip), first.bias))
        return gelu(norm(second(v), second.bias))


class ChannelsLast(nn.Module):
    """A convolution of torch's with its channels last and its bias left to the norm: (b, ..., i) -> (b, ..., o)."""

    weight: Tensor

    def forward(self, input: Tensor, skip: Tensor | None = None) -> Tensor:
        """Of the input, or on the way up of the input, doubled, beside what was skipped."""
        if skip is None:
            return _convolve(input, self.weight)
        above, beside = self.weight.split([input.shape[-1], skip.shape[-1]], dim=1)
        return _double_and_convolve(input, above) + _convolve(skip, beside)


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

    @property
    def bias(self) -> Tensor | None:
        """What is left to the norm."""
        return self.time.bias

    def forward(self, input: Tensor, skip: Tensor | None = None) -> Tensor:
        """The same; in time the input is doubled after the convolution over space, which sees half as many times."""
        weight, bias = self.space.weight, self.space.bias
        if skip is None:
            v = _convolve(input.flatten(0, 1), weight, bias).unflatten(0, input.shape[:2])
        else:
            above, beside = weight.split([input.shape[-1], skip.shape[-1]], dim=1)
            v = _double_and_convolve(input.flatten(0, 1), above, bias).unflatten(0, (*input.shape[:2], 1))
            v = (v + _convolve(skip.flatten(0, 1), beside).unflatten(0, (*input.shape[:2], 2))).flatten(1, 2)
        return _over_time(v.flatten(2, 4), self.time.weight).unflatten(2, v.shape[2:5])  # of (b, t, x, y, z, c)


def _convolve(v: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Over two or three axes: (n, ..., i) -> (n, ..., o)."""
    if _faster_on_gpu(v):
        if v.ndim == 5 and v.shape[-2] * v.shape[-1] <= LINE:
            return _by_lines(v, weight, bias)
        if len(weight) <= FEW and v.shape[-2] % 2 == 0:
            return _ByPairs.apply(v, weight, bias)  # pyright: ignore
    return _by_points(v, weight, bias)


def _faster_on_gpu(v: Tensor) -> bool:
    """Whether to take the forms that a GPU is faster with; under autocast a Function of ours would meet two types."""
    return v.is_cuda and not torch.is_autocast_enabled("cuda")


def _by_points(v: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """As torch's convolution does it."""
    conv = nn.functional.conv2d if v.ndim == 4 else nn.functional.conv3d
    return conv(v.movedim(-1, 1), weight, bias, padding=1).movedim(1, -1)


def _by_lines(v: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The same over the first two of three axes, where the channels are those of a whole line along the third."""
    z, fan_out = v.shape[-2], len(weight)
    reads = torch.eye(z + 2, dtype=v.dtype, device=v.device)[:, 1:-1].unfold(0, z, 1)  # tap k reads w for z: (k, w, z)
    along_line = torch.einsum("ocxyk,kwz->zowcxy", weight, reads).reshape(z * fan_out, -1, 3, 3)
    bias = None if bias is None else bias.repeat(z)
    return _by_points(v.flatten(-2), along_line, bias).unflatten(-1, (z, fan_out))


class _ByPairs(torch.autograd.Function):
    """``_by_points``, whose weights' gradient takes pairs of points along the last axis: fuller tiles of channels."""

    @staticmethod
    def forward(ctx, v: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # pyright: ignore
        ctx.save_for_backward(v, weight)
        ctx.biased = bias is not None
        return _by_points(v, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):  # pyright: ignore
        v, weight = ctx.saved_tensors
        axes, by_v = weight.ndim - 2, None
        if ctx.needs_input_grad[0]:
            by_v = _by_points(grad, weight.transpose(0, 1).flip(tuple(range(2, weight.ndim))), None)
        pairs = grad.unflatten(-2, (-1, 2)).flatten(-2).movedim(-1, 1)
        size, stride = (2 * len(weight), *weight.shape[1:-1], 4), (*[1] * (axes - 1), 2)
        by_weight: Any = conv2d_weight if axes == 2 else conv3d_weight
        left, right = by_weight(v.movedim(-1, 1), size, pairs, stride, padding=1).chunk(2)
        by_bias = grad.sum(tuple(range(axes + 1))) if ctx.biased else None
        return by_v, left[..., :3] + right[..., 1:], by_bias


def _double_and_convolve(v: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``_convolve`` of v doubled along every axis, by one transposed convolution of v: two taps an axis, not three."""
    weight = weight.transpose(0, 1).flip(tuple(range(2, weight.ndim)))
    for axis in range(2, weight.ndim):
        zero = torch.zeros_like(weight.narrow(axis, 0, 1))
        weight = torch.cat([weight, zero], axis) + torch.cat([zero, weight], axis)
    conv = nn.functional.conv_transpose2d if v.ndim == 4 else nn.functional.conv_transpose3d
    return conv(v.movedim(-1, 1), weight, bias, stride=2, padding=1).movedim(1, -1)


def _over_time(v: Tensor, weight: Tensor) -> Tensor:
    """(b, t, n, i) -> (b, t, n, o); on a GPU of pairs of points, which fill its tiles of channels better."""
    pairs = _faster_on_gpu(v) and len(weight) <= FEW and v.shape[2] % 2 == 0
    if pairs:
        zero = torch.zeros_like(weight)
        weight = torch.cat([torch.cat([weight, zero], 1), torch.cat([zero, weight], 1)])
        v = v.unflatten(2, (-1, 2)).flatten(3)
    v = nn.functional.conv2d(v.movedim(-1, 1), weight, padding=(1, 0)).movedim(1, -1)
    return v.unflatten(3, (2, -1)).flatten(2, 3) if pairs else v


class GroupNorm(nn.GroupNorm):
    """torch's, of the input plus a shift, for channels that come last: torch's own would move them back and forth."""

    def forward(self, input: Tensor, shift: Tensor) -> Tensor:  # pyright: ignore
        v = input.flatten(1, -2)  # (b, n, c)
        with torch.autocast(v.device.type, enabled=False):  # a mean over a grid wants more digits than bfloat16 has
            v = v.float() if v.dtype in (torch.bfloat16, torch.float16) else v
            return _Normalise.apply(v, shift, self.weight, self.bias, self.num_groups, self.eps).view(input.shape)  # pyright: ignore


class _Normalise(torch.autograd.Function):
    """y = w (v + s - m) r + c, with the mean m and 1 / deviation r of v + s in each group of channels: v (b, n, c)."""

    @staticmethod
    def forward(  # pyright: ignore
        ctx, v: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float
    ) -> Tensor:
        var, mean = torch.var_mean(v, dim=1, correction=0)  # of each channel, then of its group
        center = _over_groups(mean + shift, groups) - shift  # from which v is measured
        r = (_over_groups(var + (mean - center).square(), groups) + eps).rsqrt()
        ctx.save_for_backward(v, weight, mean, center, r)
        ctx.groups = groups
        scale = weight * r
        return torch.addcmul((bias - center * scale)[:, None], v, scale[:, None])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):  # pyright: ignore
        v, weight, mean, center, r = ctx.saved_tensors
        n, scale = v.shape[1], weight * r
        by_bias = grad.sum(1)  # (b, c)
        by_weight = ((grad * v).sum(1) - center * by_bias) * r
        # through m and r every value of a group depends on all others: minus the parts of grad along 1 and v - m
        along_one = _over_groups(weight * by_bias, ctx.groups) * r / n
        along_v = _over_groups(weight * by_weight, ctx.groups) * r.square() / n
        by_v = torch.addcmul((along_v * center - along_one)[:, None], v, -along_v[:, None])
        by_v = by_v.addcmul_(grad, scale[:, None])
        by_shift = scale * by_bias - n * (along_v * (mean - center) + along_one)  # by_v, summed
        return by_v, by_shift.sum(0), by_weight.sum(0), by_bias.sum(0), None, None


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


def build_unet(name: str, train: Dataset) -> Unet:
    frame = grid_frame(name, train)
    if not frame.outputs.shape:
        raise TinoError(f"{name} needs outputs in space, {train.name} has time-only outputs")
    model = Unet(frame, UnetSpec(FEATURES))
    model.border.fit_scales(train)
    return model
