"""The Fourier layer: a linear map of each of the lowest modes, and its partner, a linear map at each point."""

import math

import torch
from torch import Tensor, nn

JOINED = 256  # points of the last two axes, up to which a GPU takes both by one product


class PointLinear(nn.Linear):
    """W v + c at every point, the channels staying where they are: v (b, i, ...) -> (b, o, ...)."""

    def forward(self, input: Tensor) -> Tensor:
        points = input.flatten(2)
        v = torch.baddbmm(self.bias[:, None], self.weight.expand(len(input), -1, -1), points)
        return v.unflatten(2, input.shape[2:])


class SpectralConv(nn.Module):
    """y = F⁻¹(R · F x) on the kept modes, in one to four dimensions: x (b, c, n_1, ..., n_d) -> the same shape.

    Along the last axis the modes 0 .. k_d - 1 are kept, along the others k_i of each sign; modes above an axis's
    Nyquist are clamped. Instead of full FFTs and a spectrum filled with zeros, one real matrix of cosines and sines
    takes an axis to its kept modes, and its transpose back. Real and imaginary parts lie beside the axis whose turn it
    is, so that nothing is rearranged between two products.
    """

    def __init__(self, channels: int, sizes: tuple[int, ...], modes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = sizes
        half = min(modes[-1], sizes[-1] // 2 + 1)
        whole = [min(k, n // 2) for k, n in zip(modes[:-1], sizes[:-1], strict=True)]
        self.kept = (*[2 * k for k in whole], half)
        # R as one product reads it, (modes, i, 2 o), real parts before imaginary: turning it around in every step would
        # cost more than the product where there are many modes
        self.weight = nn.Parameter(1 / channels * torch.rand(math.prod(self.kept), channels, 2 * channels))
        numbers = [*[torch.cat([torch.arange(k), torch.arange(-k, 0)]) for k in whole], torch.arange(half)]
        for axis, (n, k) in enumerate(zip(sizes, numbers, strict=True)):
            there = _waves(n, k, real=axis == 0)
            back = there.T / n
            if axis == len(sizes) - 1:  # a mode of the last axis stands for its conjugate too
                back = back * torch.where((k > 0) & (2 * k != n), 2.0, 1.0).double().repeat_interleave(2)
            self.register_buffer(f"there_{axis}", there, persistent=False)  # in float64, used in the input's precision
            self.register_buffer(f"back_{axis}", back.contiguous(), persistent=False)
        self.stages = [(str(axis), math.prod(sizes[axis + 1 :])) for axis in range(len(sizes))]  # and values after each
        self.joined_stages = self.stages
        if len(sizes) > 2 and math.prod(sizes[-2:]) <= JOINED:
            last = self.stages[-2:]
            for way, stages, count in (("there", last, sizes), ("back", last[::-1], self.kept)):
                v = unit = torch.eye(2 * math.prod(count[-2:]), dtype=torch.float64)
                for stage in stages:
                    v = self._along(way, stage, v)
                self.register_buffer(f"{way}_joined", v.view(len(unit), -1).T.contiguous(), persistent=False)
            self.joined_stages = [*self.stages[:-2], ("joined", 1)]

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):  # a sum over a grid wants more digits than bfloat16 has
            return self._apply_modes(x.float() if x.dtype in (torch.bfloat16, torch.float16) else x, x.is_cuda)

    def _apply_modes(self, x: Tensor, joined: bool) -> Tensor:
        """With ``joined`` axes by fewer, larger products of more operations, as a GPU likes them."""
        v, stages = x, self.joined_stages if joined else self.stages
        for stage in stages:
            v = self._along("there", stage, v)
        v = self._mix(v.view(*x.shape[:2], -1, 2))
        for stage in reversed(stages):
            v = self._along("back", stage, v)
        return v.view(x.shape)

    def _along(self, way: str, stage: tuple[str, int], v: Tensor) -> Tensor:
        """Multiply one axis by its matrix (new, old): (before, old, after) -> (before, new, after)."""
        name, after = stage
        matrix = getattr(self, f"{way}_{name}").to(v.dtype)
        if after == 1:
            return v.reshape(-1, matrix.shape[1]) @ matrix.T
        v = v.reshape(-1, matrix.shape[1], after)
        return torch.bmm(matrix.expand(len(v), -1, -1), v)

    def _mix(self, v: Tensor) -> Tensor:
        """R v, one product for each mode: (b, i, modes, 2) -> (b, o, modes, 2)."""
        b, c, modes, _ = v.shape
        real, imag = self.weight.chunk(2, -1)
        weight = torch.cat([self.weight, torch.cat([-imag, real], -1)], 1)  # (modes, 2 i, 2 o)
        v = v.permute(2, 0, 3, 1).reshape(modes, b, 2 * c) @ weight
        return v.view(modes, b, 2, c).permute(1, 3, 0, 2)

    def complex_weight(self) -> Tensor:
        """R as it is written, complex (i, o, k_1, ..., k_d)."""
        real, imag = self.weight.detach().chunk(2, -1)
        return torch.complex(real, imag).permute(1, 2, 0).unflatten(-1, self.kept)


def _waves(n: int, k: Tensor, real: bool) -> Tensor:
    """exp(-iα) from n points to the modes k, each with its two parts: (2 k, n) of a real v, (2 k, 2 n) of a complex."""
    angle = 2 * math.pi / n * torch.outer(k.double(), torch.arange(n, dtype=torch.float64))
    cos, sin = torch.cos(angle), torch.sin(angle)
    of_real, of_imag = torch.stack([cos, -sin], 1).flatten(0, 1), torch.stack([sin, cos], 1).flatten(0, 1)
    return of_real if real else torch.cat([of_real, of_imag], 1)
