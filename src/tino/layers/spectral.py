"""The Fourier layer: a linear map of each of the lowest modes, computed on those modes alone."""

import math

import torch
from torch import Tensor, nn


class SpectralConv(nn.Module):
    """y = F⁻¹(R · F x) on the kept modes, in one to four dimensions: x (b, c, n_1, ..., n_d) -> the same shape.

    Along the last axis the modes 0 .. k_d - 1 are kept, along the others k_i of each sign. Instead of full FFTs and a
    spectrum filled with zeros, small DFT matrices take each axis to its kept modes and back. Modes above an axis's
    Nyquist are clamped. Weights are kept as real and imaginary parts.
    """

    def __init__(self, channels: int, sizes: tuple[int, ...], modes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = sizes
        half = min(modes[-1], sizes[-1] // 2 + 1)
        whole = [min(k, n // 2) for k, n in zip(modes[:-1], sizes[:-1], strict=True)]
        self.kept = (*[2 * k for k in whole], half)
        scale = 1 / channels
        self.weight = nn.Parameter(scale * torch.rand(channels, channels, *self.kept, 2))
        for axis, (n, k) in enumerate(zip(sizes, [*whole, half], strict=True)):
            last = axis == len(sizes) - 1
            numbers = torch.arange(k) if last else torch.cat([torch.arange(k), torch.arange(-k, 0)])
            angle = 2 * math.pi / n * torch.outer(torch.arange(n, dtype=torch.float64), numbers.double())
            twice = torch.where((numbers > 0) & (2 * numbers != n), 2.0, 1.0) if last else torch.ones(len(numbers))
            parts = {"cos": torch.cos(angle), "sin": torch.sin(angle), "twice": twice / n}
            for name, value in parts.items():  # kept in float64, used in the input's precision
                self.register_buffer(f"{name}_{axis}", value, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        last = len(self.sizes) - 1
        cos, sin, share = self._waves(last, x.dtype)
        spectrum = torch.complex(x @ cos, x @ -sin)  # the input is real: two real products
        for axis in reversed(range(last)):
            c, s, _ = self._waves(axis, x.dtype)
            spectrum = _along(spectrum, axis + 2, torch.complex(c, -s))
        spectrum = torch.einsum("bi...,io...->bo...", spectrum, torch.view_as_complex(self.weight))
        for axis in range(last):
            c, s, part = self._waves(axis, x.dtype)
            spectrum = _along(spectrum, axis + 2, torch.complex(c * part, s * part).T)
        return spectrum.real @ (cos * share).T - spectrum.imag @ (sin * share).T

    def _waves(self, axis: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """cos and sin (n, k) of an axis, and the share of each mode in the way back (k,)."""
        cos, sin, share = (getattr(self, f"{name}_{axis}").to(dtype) for name in ("cos", "sin", "twice"))
        return cos, sin, share


def _along(values: Tensor, axis: int, matrix: Tensor) -> Tensor:
    """Multiply one axis by a matrix (old, new)."""
    return (values.movedim(axis, -1) @ matrix).movedim(-1, axis)
