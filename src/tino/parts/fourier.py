"""Fourier coordinates of a field on a periodic box or, mirrored at its ends, on an interval."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from tino.errors import TinoError, whole
from tino.grids import Grid, Interval, Periodic
from tino.parts.part import Part

MOST_POINTS = 2**24
T = TypeVar("T")


class Fourier(Part):
    """The kept coefficients û_k of u: real and imaginary parts one after the other, or real cosine coefficients.

    u(x) = Σ_k û_k e^{i k·x}. On an interval u is continued by its mirror image, so û_k is real. ``fine`` points along
    each axis hold products of such fields.

    With ``beyond``, waves that the samples cannot tell from others are kept too: k and k + n look alike on n points. A
    state then holds more than u shows, and ``state`` takes the waves beyond the samples' own to be zero.
    """

    kind = "fourier"
    kept: Tensor

    def __init__(self, shape: list[int], waves: int, fine: list[int], mirrored: bool, beyond: bool = False) -> None:
        super().__init__(shape=list(shape), waves=waves, fine=list(fine), mirrored=mirrored, beyond=beyond)
        if not 1 <= len(shape) <= 3 or len(fine) != len(shape) or math.prod([*fine, 1]) > MOST_POINTS:
            raise TinoError(f"fields of shape {shape} on {fine} points cannot be expanded in waves")
        if mirrored and beyond:
            raise TinoError("waves beyond the samples need a periodic box, not an interval")
        self.full = [2 * n - 2 for n in shape] if mirrored else list(shape)
        self.axes = tuple(range(-len(shape), 0))
        self._known: dict[Any, tuple[int, Any]] = {}  # the version of kept, and what follows from it
        self.register_buffer("kept", torch.zeros(waves, len(shape), dtype=torch.long))  # k along each axis

    @property
    def size(self) -> int:
        """Real numbers in a state."""
        return self.sizes["waves"] * (1 if self.sizes["mirrored"] else 2)

    # -- coordinates -----------------------------------------------------------------------------------------

    def state(self, u: Tensor) -> Tensor:
        """u (..., x) -> c (..., J), real."""
        return self.real(self.spectrum(u))

    def output(self, c: Tensor) -> Tensor:
        """c (..., J) -> u (..., x)."""
        if self.sizes["beyond"]:
            return self.sampled(self.waves(c))
        u = self._field(self.waves(c), self.full)
        return (u[..., : self.sizes["shape"][0]] if self.sizes["mirrored"] else u).flatten(-len(self.axes))

    def spectrum(self, u: Tensor) -> Tensor:
        """u (..., x) -> û (..., k), complex."""
        if self.sizes["beyond"]:
            return self.aliases(u) * self.own().to(u)
        u = u.unflatten(-1, self.sizes["shape"])
        if self.sizes["mirrored"]:
            u = torch.cat([u, u[..., 1:-1].flip(-1)], -1)
        return self._kept(u)

    def real(self, v: Tensor) -> Tensor:
        return v.real if self.sizes["mirrored"] else torch.view_as_real(v).flatten(-2)

    def waves(self, c: Tensor) -> Tensor:
        """The complex coefficients (..., k) of a state (..., J)."""
        if self.sizes["mirrored"]:
            return torch.complex(c, torch.zeros_like(c))
        real, imaginary = c.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.complex(real, imaginary)

    # -- waves beyond the samples ----------------------------------------------------------------------------

    def aliases(self, u: Tensor) -> Tensor:
        """u (..., x) -> for each kept wave, the sum of all waves that look like it on the samples, (..., k)."""
        every = torch.fft.fftn(u.unflatten(-1, self.sizes["shape"]), dim=self.axes, norm="forward")
        return every.flatten(-len(self.axes))[..., self._folded(1)]

    def sampled(self, v: Tensor) -> Tensor:
        """û (..., k) -> u at the samples (..., x)."""
        shape, v = self.sizes["shape"], v.to(torch.complex128 if v.real.dtype == torch.float64 else torch.complex64)
        twice = self.kept[:, -1] > 0  # -k is not kept beside k
        full = v.new_zeros(*v.shape[:-1], math.prod(shape)).index_add(-1, self._folded(1), v)
        full = full.index_add(-1, self._folded(-1), v.conj() * twice)
        return torch.fft.ifftn(full.unflatten(-1, shape), dim=self.axes, norm="forward").real.flatten(-len(shape))

    def own(self) -> Tensor:
        """(k,): 1 for the waves of the samples' grid, 0 beyond; 1/2 for each of k and -k that look alike there."""
        twice = 2 * self.kept.abs()
        n = torch.tensor(self.sizes["shape"], device=twice.device)
        return torch.where(twice < n, 1.0, torch.where(twice == n, 0.5, 0.0)).prod(1)

    def alike(self, n: int) -> Tensor:
        """(k,): which waves look like the n-th, or like its opposite, on the samples."""
        return torch.isin(self._folded(1), torch.stack([self._folded(sign)[n] for sign in (1, -1)]))

    def _folded(self, sign: int) -> Tensor:
        """Where the waves k, or -k, lie in the flattened spectrum of the samples."""

        def found() -> Tensor:
            place = torch.zeros_like(self.kept[:, 0])
            for a, n in enumerate(self.sizes["shape"]):
                place = place * n + (sign * self.kept[:, a]) % n
            return place

        return self.once(sign, found)

    def further(self, u: Tensor, cut: float, over: float, highest: float) -> "Fourier":
        """The waves up to ``highest`` times the samples' own whose aliases in the fields u (n, x) are above ``cut``."""
        n = torch.tensor(self.sizes["shape"])
        most = (highest * n / 2).floor().long().tolist()
        ranges = [torch.arange(-k, k + 1) for k in most[:-1]] + [torch.arange(most[-1] + 1)]
        made = Fourier(self.sizes["shape"], 0, self.sizes["shape"], False, True)
        made.kept = torch.cartesian_prod(*ranges).view(-1, len(n))
        size = made.aliases(u.double()).abs().square().mean(0).sqrt()
        return made.part(size > cut * size.max(), over)

    def part(self, chosen: Tensor, over: float) -> "Fourier":
        """With these waves (k,) alone, and just the points that their products need."""
        kept = self.kept[chosen]
        highest = [int(kept[:, a].abs().max()) if len(kept) else 0 for a in range(len(self.axes))]
        fine = [good_size(2 * over * k + 2) if k else 1 for k in highest]
        made = Fourier(self.sizes["shape"], len(kept), fine, self.sizes["mirrored"], self.sizes["beyond"])
        made.kept = kept.clone()
        return made

    # -- products --------------------------------------------------------------------------------------------

    def fine(self, v: Tensor) -> Tensor:
        """û (..., k) -> u on the fine points (..., *fine)."""
        return self._field(v, self.sizes["fine"])

    def back(self, u: Tensor) -> Tensor:
        """u on the fine points -> û (..., k)."""
        return self._kept(u)

    def wavenumbers(self, length: float) -> list[Tensor]:
        """k along each axis (k,), in radians."""
        around = 2 * length if self.sizes["mirrored"] else length
        return [2 * torch.pi / around * self.kept[:, a].double() for a in range(len(self.axes))]

    def _field(self, v: Tensor, points: list[int]) -> Tensor:
        half = [*points[:-1], points[-1] // 2 + 1]
        place = self._places(points)
        full = v.new_zeros(*v.shape[:-1], math.prod(half)).index_copy(-1, place, v)
        return torch.fft.irfftn(full.unflatten(-1, half), points, dim=self.axes, norm="forward")

    def _kept(self, u: Tensor) -> Tensor:
        points = list(u.shape[-len(self.axes) :])
        return torch.fft.rfftn(u, dim=self.axes, norm="forward").flatten(-len(self.axes))[..., self._places(points)]

    def _places(self, points: list[int]) -> Tensor:
        """Where the kept coefficients lie in a flattened half spectrum of so many points."""

        def found() -> Tensor:
            place = torch.zeros_like(self.kept[:, 0])
            for a, n in enumerate(points):
                last = a == len(points) - 1
                place = place * (n // 2 + 1 if last else n) + (self.kept[:, a] if last else self.kept[:, a] % n)
            return place

        return self.once(tuple(points), found)

    def once(self, name: Any, found: Callable[[], T]) -> T:
        """What follows from the kept waves, computed once; a graph that is traced takes what is known."""
        key, version = (name, self.kept.device), self.kept._version
        held = self._known.get(key)
        if held is None or (held[0] != version and not torch.compiler.is_exporting()):
            held = self._known[key] = (version, found())
        return held[1]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:  # pyright: ignore
        """Wavenumbers from a file must lie on the grid."""
        kept = state_dict.get(f"{prefix}kept")
        if kept is not None and kept.shape == self.kept.shape and len(kept):
            widest = self.sizes["fine"] if self.sizes["beyond"] else self.full
            outside = (2 * kept.abs() > torch.tensor(widest)).any() or (kept[:, -1] < 0).any()
            if kept.dtype != torch.long or bool(outside):
                rest[-1].append(f"{prefix}kept has wavenumbers that are not on the grid")
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @staticmethod
    def of(grid: Grid, u: Tensor, cut: float, over: float) -> "Fourier":
        """The waves whose size in the fields u (n, x) is above ``cut`` times the largest."""
        if not isinstance(grid, Periodic | Interval):
            raise TinoError(f"waves need a periodic box or an interval, got {grid}")
        mirrored, shape = isinstance(grid, Interval), list(grid.shape)
        every = Fourier(shape, 0, shape, mirrored)
        ranges = [torch.fft.fftfreq(n, 1 / n).round().long() for n in every.full[:-1]]
        ranges.append(torch.arange((every.full[-1] + 1) // 2))
        kept = torch.cartesian_prod(*ranges).view(-1, len(shape))
        kept = kept[(2 * kept.abs() < torch.tensor(every.full)).all(1)]  # the highest frequency has no sign
        every.kept = kept
        size = every.spectrum(u.double()).abs().square().mean(0).sqrt()
        kept = kept[size > cut * size.max()] if len(size) and bool(size.max() > 0) else kept[:0]
        if not len(kept):
            raise TinoError("fields that are zero everywhere have no waves")
        fine = [good_size(2 * over * int(kept[:, a].abs().max()) + 2) for a in range(len(shape))]
        found = Fourier(shape, len(kept), fine, mirrored)
        found.kept.copy_(kept)
        return found


def good_size(least: float) -> int:
    """The next even number with small prime factors, at which FFTs are fast."""
    n = 2 * math.ceil(max(least, 4) / 2)
    while True:
        rest = n
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return whole("points", n)
        n += 2
