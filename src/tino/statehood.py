"""Is u the state? Do u_i and the input until i + 1 determine u_{i+1}, and if not, how many delays of u do?

A step here is a stride of the record that carries information: neighbouring samples of float32 data carry rounding. For
p = 1, 2, ...: from u(t), u(t - s), ..., u(t - (p - 1) s) and f over [t - (p - 1) s, t + s], at random times t, what is
left of the change u(t + s) - u(t) on held-out samples? Of a field, its powers point by point are given too: without
them the regression misses a local nonlinearity, and u(t - s), which shows it, would pass for a hidden state.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.polynomial.legendre import legvander
from torch import Tensor

from tino.regression import (
    MODES_OUT,
    ROWS,
    STARTS,
    SURE,
    coefficients,
    gained,
    kernel_of,
    left_over,
    unit,
    varies,
    waves,
)

STRIDES, LONG_STRIDE, NOISY = (50, 20), 10, 0.02  # strides of a record; one for u whose noise is this share of a change
MOST = 4  # delays
SHAPES, POINTS = 3, 256  # polynomials of the input in the last stride, one less in those before; points of a field
LITTLE, WEAK = 0.03, 0.2  # a share left that is little; one that says nothing
FEW, FINE = 3, 1e-3  # of so few coefficients of u a regression explains more: what is little then
FACTOR = 5.0  # by which more delays must divide it. To average the noise of several readings of u halves it at best
NOISES, BLUR = 6.0, 10.0  # u(t) + (u(t) - u(t - s)) has 5 times the noise of u, u(t + s) once more; a margin to it


@dataclass(frozen=True)
class State:
    """How many readings of u, a stride apart, a step needs; shares are of the change of u over a stride."""

    delays: int | None  # 1: u itself; None: cannot tell
    at_least: bool  # more may be needed: noise, or a cause not in f, hides it
    delays_of_f: int  # strides of the input until t + s: as many as of u, or more if these replace delays of u
    stride: int  # in time steps
    left: tuple[float, ...]  # unexplained with 1, 2, ... delays of u and f, until that is little
    left_by_past: float | None  # with u itself and the delays of f; None: not needed
    noise: float  # white noise of one reading of u
    timed: bool  # the time was given too: the data are not autonomous

    def __str__(self) -> str:
        return f"{self.word:13}{self.why}"

    @property
    def word(self) -> str:
        if self.delays is None:
            return "cannot tell"
        if self.at_least:
            return f"at least {self.delays}"
        if self.delays == 1:
            return "u itself" if self.delays_of_f == 1 else "u and past f"
        return f"{self.delays} delays"

    @property
    def why(self) -> str:
        steps = f"{self.stride} time steps" if self.stride > 1 else "a time step"
        given = "u, f and the time" if self.timed else "u and f"
        text = f"{given} leave {percent(self.left[0])} of the change of u over {steps} unexplained"
        if self.delays == 1 and self.left_by_past is not None:
            reached, by = self.left_by_past, f"{self.delays_of_f} delays of f"
        elif (self.delays or 1) > 1:
            reached, by = self.left[self.delays_of_f - 1], f"{self.delays} delays of u and f"
        else:
            reached, by = self.left[-1], f"{len(self.left)} delays of u and f"
        text = f"{text}; {by}, {percent(reached)}" if len(self.left) > 1 else text
        blurred = self.at_least and reached < BLUR * self.noise
        if blurred:
            return f"{text}: noise of u hides the rest"
        return f"{text}: too much to tell" if self.delays is None else text


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * max(share, 0.0):.1g} %"


def white_noise(u: Tensor) -> float:
    """The variance of the noise of one reading (n, t, j), from fourth differences: a smooth u leaves nothing."""
    return float(u.diff(n=4, dim=1).square().mean((0, 1)).sum() / 70)  # 70 = 1 + 16 + 36 + 16 + 1


@dataclass(frozen=True)
class Readings:
    """What was recorded, as POD coefficients (n, t, j), and u as it was, (n, t, x)."""

    f: Tensor
    u: Tensor
    fields: Tensor
    channels: int  # of u
    half: Tensor  # the samples of the first fit, (n,)
    begin: Tensor | float = 0.0  # of the samples on the clock, (n, 1), and the share of it that each covers
    share: float = 1.0


def find_state(read: Readings, seed: int, timed: bool) -> State:
    """Over each stride of which noise hides little, the fewest delays; the most of these. ``timed``: give the time."""
    u, noise = read.u, white_noise(read.u)
    n_t = u.shape[1]

    def noise_over(s: int) -> float:
        return noise / float((u[:, s:] - u[:, :-s]).var((0, 1)).sum().clamp_min(1e-30))

    strides = sorted({max(1, round(n_t / part)) for part in STRIDES})
    clear = [s for s in strides if noise_over(s) <= NOISY] or [max(1, round(n_t / LONG_STRIDE))]
    found = [_over_stride(read, s, noise_over(s), seed, timed) for s in clear]
    # A hidden state shows over one stride or another. At a tie the more certain answer, and the larger share.
    return max(found, key=lambda state: (state.delays or 0, not state.at_least, state.delays_of_f, state.left[0]))


def _over_stride(read: Readings, s: int, noise: float, seed: int, timed: bool) -> State:
    f, u = read.f, read.u
    samples, n_t = u.shape[:2]
    first, last = (MOST - 1) * s, n_t - 1 - s
    windows = min(STARTS, ROWS // samples, last - first + 1)
    # Random times, one in each of equal parts: with shared times and shared motion, u would reveal the time.
    draw = torch.rand(samples, windows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    clock = (torch.arange(windows) + draw) / windows  # (n, w), in [0, 1)
    times, rows = first + (clock * (last - first + 1)).long(), torch.arange(samples)[:, None]

    def at(values: Tensor, k: int) -> Tensor:
        return values[rows, times + k * s]

    def over(k: int) -> Tensor:
        """Moments of the input over [t + (k - 1) s, t + k s]."""
        basis = torch.from_numpy(legvander(np.linspace(-1, 1, s + 1), min(SHAPES - 1 - (k < 1), s)))
        inside = f[rows[..., None], times[..., None] + (k - 1) * s + torch.arange(s + 1)]  # (n, w, s + 1, j)
        return unit(torch.einsum("nwsj,sk->nwkj", inside, basis).flatten(2))

    target = unit(at(u, 1) - at(u, 0)).flatten(0, 1)
    now = [unit(at(u, 0)), *_pointwise(at(read.fields, 0), read.channels)]
    hours = waves(read.begin + read.share * clock) if timed else None

    def leave(p: int, q: int) -> Tensor:
        """What p delays of u and q of f leave."""
        past = [unit(at(u, 1 - k) - at(u, -k)) for k in range(1, p)]
        kernel = kernel_of([*now, *past, *[over(1 - k) for k in range(q)]])
        return left_over(kernel if hours is None else kernel * (1 + hours @ hours.T), [target], read.half)[0]

    left = [leave(1, 1)]
    enough = max(FINE, min(LITTLE, NOISES * noise)) if u.shape[-1] <= FEW else LITTLE
    while len(left) < MOST and size(left[-1]) > enough:
        left.append(leave(len(left) + 1, len(left) + 1))
    delays = delays_of_f = _fewest(left, samples, enough)
    past, reached = None, size(left[delays - 1])
    if delays > 1 and (past := size(leave(1, delays))) <= max(enough, 2 * reached):
        delays, reached = 1, past  # the past of the input does it alone
    doubtful = reached > WEAK or (reached > LITTLE and (delays_of_f == MOST or reached < BLUR * noise))
    shares = tuple(size(one) for one in left)
    found = None if doubtful and delays == 1 else delays
    return State(found, doubtful, delays_of_f, s, shares, past, noise, timed)


def size(left: Tensor) -> float:
    """The mean square of residuals (n w, j): a share, as targets have mean square 1."""
    return float(left.square().sum(1).mean())


def _fewest(left: list[Tensor], samples: int, enough: float) -> int:
    """The fewest delays that leave little, or no more than FACTOR times what more delays leave."""
    for p, one in enumerate(left, 1):
        more = [two for two in left[p:] if size(two) * FACTOR < size(one) and gained(one, two, samples)[1] >= SURE]
        if size(one) <= enough or not more:
            return p
    return len(left)


def _pointwise(values: Tensor, channels: int) -> list[Tensor]:
    """POD coefficients of Legendre's P_2(u_c), P_3(u_c) and u_c u_d of fields (n, w, x), u_c scaled to [-1, 1]."""
    v = values.double().cpu().unflatten(-1, (channels, -1))  # (n, w, c, x)
    if v.shape[-1] == 1:
        return []
    v = v[..., torch.linspace(0, v.shape[-1] - 1, min(POINTS, v.shape[-1])).long()]
    low, high = v.amin((0, 1, 3), keepdim=True), v.amax((0, 1, 3), keepdim=True)
    v = (2 * v - low - high) / (high - low).clamp_min(1e-30)
    products = [v[:, :, c] * v[:, :, d] for c, d in combinations(range(channels), 2)]
    blocks = [((3 * v**2 - 1) / 2).flatten(2), ((5 * v**3 - 3 * v) / 2).flatten(2), *products]
    return [unit(coefficients(block, "u", 1, MODES_OUT, True)) for block in blocks if varies(block)]
