"""Random forcings: laws that draw parameters, and batched forcings f(t, x) made from them.

All laws of the paper separate, f(t, x) = a(t) g(x), so a forcing evaluates its profile g once per grid
(``forcing.on(x)``) and only its amplitude a at every stage of an integrator.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Params = Mapping[str, Tensor]  # name -> (b, 1) or (b, 1, modes), float64


@dataclass(frozen=True)
class Uniform:
    """A parameter uniform in [low, high]; ``count`` numbers of it where count > 0."""

    low: float
    high: float
    count: int = 0


@dataclass(frozen=True)
class InputLaw:
    """A random forcing: the ranges its parameters are drawn from, and what they mean."""

    formula: str
    ranges: Mapping[str, Uniform]
    amplitude: Callable[[Params, Tensor], Tensor]  # (params, t: (k,) or (b, 1)) -> (b, k)
    profile: Callable[[Params, Tensor], Tensor] | None = None  # (params, x: (m, d)) -> (b, m)

    def sample(self, seed: int, split: int, indices: Sequence[int]) -> "Forcing":
        """Draw the forcings with these indices; each index has a random stream of its own."""
        rows = []
        for index in indices:
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(split, index)))
            rows.append([rng.uniform(r.low, r.high, size=(1, r.count or 1)) for r in self.ranges.values()])
        params = {
            name: torch.from_numpy(np.stack([row[i] for row in rows]))  # (b, 1, count)
            for i, name in enumerate(self.ranges)
        }
        return Forcing(self, {n: p if self.ranges[n].count else p[..., 0] for n, p in params.items()})


@dataclass(frozen=True)
class Forcing:
    """A batch of forcings f(t, x) = a(t) g(x), known at every time and point."""

    law: InputLaw
    params: Params

    @property
    def batch(self) -> int:
        return next(iter(self.params.values())).shape[0]

    def to(self, device: torch.device | str) -> "Forcing":
        return Forcing(self.law, {name: p.to(device) for name, p in self.params.items()})

    def amplitude(self, t: Tensor) -> Tensor:
        """a(t): times (k,) shared by the batch, or (b, 1) one of each sample's own -> (b, k)."""
        return self.law.amplitude(self.params, t)

    def on(self, x: Tensor) -> Tensor:
        """g(x): points (m, d) -> (b, m)."""
        if self.law.profile is None:
            return torch.ones(self.batch, 1, dtype=torch.float64, device=x.device)
        return self.law.profile(self.params, x)

    def through(self, x: Tensor, linear: Callable[[Tensor], Tensor]) -> Callable[[float], Tensor]:
        """t -> linear(f(t, x)): a linear map of the forcing at a time; the profile is mapped once."""
        profile = linear(self.on(x))
        return lambda t: self.amplitude(torch.tensor([t], dtype=torch.float64, device=x.device)) * profile

    def __call__(self, t: Tensor, x: Tensor) -> Tensor:
        """f(t, x): times (k,), points (m, d) -> (b, k, m)."""
        return self.amplitude(t)[:, :, None] * self.on(x)[:, None, :]


def _sine(p: Params, t: Tensor) -> Tensor:
    return p["A"] * torch.sin(p["b"] * t + p["c"])


_PHASE = Uniform(0.0, 2 * np.pi)
_WAVE = {"A": Uniform(0.1, 1.0), "b": Uniform(0.2, 1.0), "c": _PHASE}


def sine() -> InputLaw:
    """f(t) = A sin(b t + c), the forcing of the time-only problems (subsubsect_fitting_time)."""
    ranges = {"A": Uniform(0.5, 2.0), "b": Uniform(0.1, 2.0), "c": _PHASE}
    return InputLaw("A sin(b t + c)", ranges, _sine)


def sine_gaussian(length: float = 1.0) -> InputLaw:
    """f(t, x) = A sin(b t + c) exp(-(x - μ)² / (2 σ²)) on [0, length] (subsubsect_fitting_time_space)."""
    ranges = {
        **_WAVE,
        "mu": Uniform(length / 4, 3 * length / 4),
        "sigma": Uniform(0.1 * length, 0.4 * length),
    }

    def profile(p: Params, x: Tensor) -> Tensor:
        return torch.exp(-((x[:, 0] - p["mu"]) ** 2) / (2 * p["sigma"] ** 2))

    return InputLaw("A sin(b t + c) exp(-(x - μ)² / (2 σ²))", ranges, _sine, profile)


def sine_fourier(modes: int = 10) -> InputLaw:
    """f(t, x) = A sin(b t + c) Σ_n (a_n sin 2πnx + b_n cos 2πnx) / n² (equ_burgers_input)."""
    ranges = {**_WAVE, "a_n": Uniform(-1.0, 1.0, modes), "b_n": Uniform(-1.0, 1.0, modes)}

    def profile(p: Params, x: Tensor) -> Tensor:
        n = torch.arange(1, modes + 1, dtype=x.dtype, device=x.device)
        angle = 2 * torch.pi * x * n  # (m, n)
        waves = p["a_n"][:, 0] / n**2 @ torch.sin(angle).T
        return waves + p["b_n"][:, 0] / n**2 @ torch.cos(angle).T

    return InputLaw("A sin(b t + c) Σ_n (a_n sin 2πnx + b_n cos 2πnx) / n²", ranges, _sine, profile)
