"""The Fourier layer: a linear map of each of the lowest modes, and its partner, a linear map at each point."""

import math

import torch
from torch import Tensor, nn


class PointLinear(nn.Linear):
    """W v + c at every point, the channels staying where they are: v (b, i, ...) -> (b, o, ...)."""

    def forward(self, input: Tensor) -> Tensor:
        points = input.flatten(2)
        v = torch.baddbmm(self.bias[:, None], self.weight.expand(len(input), -1, -1), points)
        return v.unflatten(2, input.shape[2:])


class SpectralConv(nn.Module):
    """y = F⁻¹(R · F x) on the kept modes, in one to four dimensions: x (b, c, n_1, ..., n_d) -> the same shape.

    Along the last axis the modes 0 .. k_d - 1 are kept, along the others k_i of each sign. Instead of full FFTs and a
    spectrum filled with zeros, small matrices of cosines and sines take each axis to its kept modes and back; only last
    axes of which all modes are kept go by FFT. Modes above an axis's Nyquist are clamped. All products are of real
    matrices, which batched ones are fastest in: a complex spectrum enters them as its real and imaginary parts.
    """

    def __init__(self, channels: int, sizes: tuple[int, ...], modes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = sizes
        half = min(modes[-1], sizes[-1] // 2 + 1)
        whole = [min(k, n // 2) for k, n in zip(modes[:-1], sizes[:-1], strict=True)]
        self.kept = (*[2 * k for k in whole], half)
        every = [k == n for k, n in zip(self.kept, (*sizes[:-1], sizes[-1] // 2 + 1), strict=True)]
        self.by_fft = next(
            (i for i, keeps in enumerate(reversed(every)) if not keeps), len(sizes)
        )  # how many last axes
        # R as one product reads it, (modes, i, 2 o), real parts before imaginary: turning it around in every step would
        # cost more than the product where there are many modes
        self.weight = nn.Parameter(1 / channels * torch.rand(math.prod(self.kept), channels, 2 * channels))
        for axis, (n, k) in enumerate(zip(sizes, [*whole, half], strict=True)):
            there, back = _last_waves(n, k) if axis == len(sizes) - 1 else _waves(n, k)
            self.register_buffer(f"there_{axis}", there, persistent=False)  # in float64, used in the input's precision
            self.register_buffer(f"back_{axis}", back, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(
            x.device.type, enabled=False
        ):  # FFTs know no bfloat16, and sums over a grid want the digits
            return self._apply_modes(x.float() if x.dtype in (torch.bfloat16, torch.float16) else x)

    def _apply_modes(self, x: Tensor) -> Tensor:
        last = len(self.sizes) - 1
        axes = range(min(last, len(self.sizes) - self.by_fft))  # by products, the last one apart
        if self.by_fft:
            v = torch.fft.rfftn(x, dim=tuple(range(-self.by_fft, 0)))
        else:
            v = torch.view_as_complex((x @ self._waves("there", last, x)).unflatten(-1, (-1, 2)))
        for axis in reversed(axes):  # exp(-iα) v = cos(α) v - i sin(α) v
            cos, sin = _along(v, axis + 2, self._waves("there", axis, x)).chunk(2, axis + 2)
            v = torch.add(cos, sin, alpha=-1j)
        v = self._mix(v)
        for axis in axes:  # exp(iα) v = cos(α) v + sin(α) iv
            v = _along(torch.cat([v, 1j * v], axis + 2), axis + 2, self._waves("back", axis, x))
        if not self.by_fft:
            return torch.view_as_real(v).flatten(-2) @ self._waves("back", last, x)
        if self.by_fft > 1:  # one axis after the other: what a real transform makes of an unreal spectrum is not agreed
            v = torch.fft.ifftn(v, dim=tuple(range(-self.by_fft, -1)))
        return torch.fft.irfft(v, self.sizes[-1])

    def _mix(self, v: Tensor) -> Tensor:
        """R v, one product for each mode."""
        b, c = v.shape[:2]
        parts = torch.view_as_real(v.flatten(2)).permute(2, 3, 0, 1).reshape(-1, 2 * b, c)  # (modes, 2 b, i)
        products = (parts @ self.weight).view(-1, 2, b, 2, c)
        real = products[:, 0, :, 0] - products[:, 1, :, 1]  # (modes, b, o)
        imag = products[:, 0, :, 1] + products[:, 1, :, 0]
        return torch.complex(real, imag).permute(1, 2, 0).reshape(b, c, *self.kept)

    def complex_weight(self) -> Tensor:
        """R as it is written, complex (i, o, k_1, ..., k_d)."""
        real, imag = self.weight.detach().chunk(2, -1)
        return torch.complex(real, imag).permute(1, 2, 0).unflatten(-1, self.kept)

    def _waves(self, name: str, axis: int, x: Tensor) -> Tensor:
        return getattr(self, f"{name}_{axis}").to(x.dtype)


def _along(v: Tensor, axis: int, matrix: Tensor) -> Tensor:
    """Multiply one axis of a complex v by a real matrix (new, old)."""
    before, after = v.shape[:axis], v.shape[axis + 1 :]
    parts = torch.view_as_real(v.reshape(before.numel(), v.shape[axis], -1)).flatten(2)
    parts = torch.bmm(matrix.expand(len(parts), -1, -1), parts)
    return torch.view_as_complex(parts.view(*before, -1, *after, 2))


def _waves(n: int, k: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines from n points to k modes of each sign, (4 k, n), and back, (n, 4 k)."""
    angle = _angles(n, torch.cat([torch.arange(k), torch.arange(-k, 0)]))
    waves = torch.cat([torch.cos(angle), torch.sin(angle)], dim=1)
    return waves.T.contiguous(), waves / n


def _last_waves(n: int, k: int) -> tuple[Tensor, Tensor]:
    """The last axis, whose values are real: (n, 2 k), and back, where a mode stands for its conjugate too, (2 k, n)."""
    numbers = torch.arange(k)
    angle = _angles(n, numbers)
    waves = torch.stack([torch.cos(angle), -torch.sin(angle)], dim=2).flatten(1)
    share = torch.where((numbers > 0) & (2 * numbers != n), 2.0, 1.0).double() / n
    return waves, (waves * share.repeat_interleave(2)).T.contiguous()


def _angles(n: int, numbers: Tensor) -> Tensor:
    return 2 * math.pi / n * torch.outer(torch.arange(n, dtype=torch.float64), numbers.double())
