"""The Fourier layer: a linear map of each of the lowest modes, and its partner, a linear map at each point."""

import math

import torch
from torch import Tensor, nn

from tino.parts.part import FromGrid

JOINED = 256  # up to this many points on the last two axes, a GPU transforms both by one product


class PointLinear(nn.Linear):
    """W v + c at every point, without moving the channel axis: v (b, i, ...) -> (b, o, ...)."""

    def forward(self, input: Tensor) -> Tensor:
        points = input.flatten(2)
        v = torch.baddbmm(self.bias[:, None], self.weight.expand(input.shape[0], -1, -1), points)
        return v.unflatten(2, input.shape[2:])


class SpectralConv(FromGrid):
    """y = F⁻¹(R · F x) on the kept modes, in one to four dimensions: x (b, c, n_1, ..., n_d) -> the same shape.

    Along the last axis the modes 0 .. k_d - 1 are kept, along the others k_i of each sign; modes above an axis's
    Nyquist are clamped. Instead of full FFTs and a spectrum filled with zeros, one real matrix of cosines and sines
    takes an axis to its kept modes, and its transpose back. Real and imaginary parts are stored next to the axis
    being transformed, so that nothing is rearranged between two products.
    """

    def __init__(self, channels: int, sizes: tuple[int, ...], modes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = sizes
        half = min(modes[-1], sizes[-1] // 2 + 1)
        whole = [min(k, n // 2) for k, n in zip(modes[:-1], sizes[:-1], strict=True)]
        self.kept = (*[2 * k for k in whole], half)
        # R as one product reads it, (modes, i, 2 o), real parts before imaginary: with many modes, rearranging it in
        # every step would cost more than the product
        self.weight = nn.Parameter(1 / channels * torch.rand(math.prod(self.kept), channels, 2 * channels))
        self.stages = [(str(axis), math.prod(sizes[axis + 1 :])) for axis in range(len(sizes))]  # and values after each
        joins = len(sizes) > 2 and math.prod(sizes[-2:]) <= JOINED
        self.joined_stages = [*self.stages[:-2], ("joined", 1)] if joins else self.stages
        self.register_computed()

    def computed(self) -> dict[str, Tensor]:
        """The matrices of each axis, forward and inverse, and of the last two axes together if they are joined."""
        found: dict[str, Tensor] = {}
        for axis, (n, kept) in enumerate(zip(self.sizes, self.kept, strict=True)):
            last = axis == len(self.sizes) - 1
            k = torch.arange(kept) if last else torch.cat([torch.arange(kept // 2), torch.arange(-(kept // 2), 0)])
            there = _waves(n, k, real=axis == 0)
            back = there.T / n
            if last:  # a mode of the last axis also stands for its conjugate
                back = back * torch.where((k > 0) & (2 * k != n), 2.0, 1.0).double().repeat_interleave(2)
            found |= {f"there_{axis}": there, f"back_{axis}": back.contiguous()}
        if self.joined_stages is not self.stages:
            last = self.stages[-2:]
            for way, stages, count in (("there", last, self.sizes), ("back", last[::-1], self.kept)):
                v = unit = torch.eye(2 * math.prod(count[-2:]), dtype=torch.float64)
                for name, after in stages:
                    v = _along(found[f"{way}_{name}"], after, v)
                found[f"{way}_joined"] = v.view(len(unit), -1).T.contiguous()
        return found

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):  # a sum over a grid needs more digits than bfloat16 has
            return self._apply_modes(x.float() if x.dtype in (torch.bfloat16, torch.float16) else x, x.is_cuda)

    def _apply_modes(self, x: Tensor, joined: bool) -> Tensor:
        """With ``joined`` axes, fewer and larger products with more operations, which suits a GPU."""
        v, stages = x, self.joined_stages if joined else self.stages
        for name, after in stages:
            v = _along(getattr(self, f"there_{name}").to(v.dtype), after, v)
        v = self._mix(v.view(*x.shape[:2], -1, 2))
        for name, after in reversed(stages):
            v = _along(getattr(self, f"back_{name}").to(v.dtype), after, v)
        return v.view(x.shape)

    def _mix(self, v: Tensor) -> Tensor:
        """R v, one product for each mode: (b, i, modes, 2) -> (b, o, modes, 2)."""
        b, c, modes, _ = v.shape
        real, imag = self.weight.chunk(2, -1)
        weight = torch.cat([self.weight, torch.cat([-imag, real], -1)], 1)  # (modes, 2 i, 2 o)
        v = v.permute(2, 0, 3, 1).reshape(modes, b, 2 * c) @ weight
        return v.view(modes, b, 2, c).permute(1, 3, 0, 2)

    def complex_weight(self) -> Tensor:
        """R in its usual form, complex (i, o, k_1, ..., k_d)."""
        real, imag = self.weight.detach().chunk(2, -1)
        return torch.complex(real, imag).permute(1, 2, 0).unflatten(-1, self.kept)


def _waves(n: int, k: Tensor, real: bool) -> Tensor:
    """exp(-iα) from n points to the modes k, each with its two parts: (2 k, n) of a real v, (2 k, 2 n) of a complex."""
    angle = 2 * math.pi / n * torch.outer(k.double(), torch.arange(n, dtype=torch.float64))
    cos, sin = torch.cos(angle), torch.sin(angle)
    of_real, of_imag = torch.stack([cos, -sin], 1).flatten(0, 1), torch.stack([sin, cos], 1).flatten(0, 1)
    return of_real if real else torch.cat([of_real, of_imag], 1)


def _along(matrix: Tensor, after: int, v: Tensor) -> Tensor:
    """Multiply one axis by its matrix (new, old): (before, old, after) -> (before, new, after)."""
    if after == 1:
        return v.reshape(-1, matrix.shape[1]) @ matrix.T
    v = v.reshape(-1, matrix.shape[1], after)
    return torch.bmm(matrix.expand(v.shape[0], -1, -1), v)
