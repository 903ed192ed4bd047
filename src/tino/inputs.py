"""Random forcings: laws that draw parameters, and batched forcings f(t, x) made from them.

All laws of the paper separate, f(t, x) = a(t) g(x), so a forcing evaluates its profile g once per grid
(``forcing.on(x)``) and only its amplitude a at every stage of an integrator.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tino.errors import TinoError

MODES = 10  # of the Fourier forcings and initial states
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
    modes: int = 0  # the highest Fourier mode of the profile, where it is a finite series

    def sample(self, seed: int, split: int, indices: Sequence[int]) -> "Forcing":
        """Draw the forcings with these indices; each index has a random stream of its own."""
        if not 0 <= seed < 2**63:
            raise TinoError(f"the seed must be 0 or more (and below 2^63), got {seed}")
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

    @property
    def device(self) -> torch.device:
        return next(iter(self.params.values())).device

    def ahead(self, by: float) -> "Forcing":
        """t -> f(t + by, x). Every law here is a function of b t + c, so that is a change of phase."""
        self._need("b", "c")
        return Forcing(self.law, {**self.params, "c": self.params["c"] + self.params["b"] * by})

    def silent(self) -> "Forcing":
        """The same forcing with amplitude zero."""
        self._need("A")
        return Forcing(self.law, {**self.params, "A": 0 * self.params["A"]})

    def _need(self, *names: str) -> None:
        if missing := [name for name in names if name not in self.params]:
            raise TinoError(f"the law '{self.law.formula}' has no parameter {missing[0]}: A sin(b t + c) is expected")

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
        shape = (-1, *[1] * (profile.ndim - 1))
        return lambda t: self.amplitude(torch.tensor([t], dtype=x.dtype, device=x.device)).view(shape) * profile

    def __call__(self, t: Tensor, x: Tensor) -> Tensor:
        """f(t, x): times (k,), points (m, d) -> (b, k, m)."""
        return self.amplitude(t)[:, :, None] * self.on(x)[:, None, :]


def _sine(p: Params, t: Tensor) -> Tensor:
    return p["A"] * torch.sin(p["b"] * t + p["c"])


def _sine_squared(p: Params, t: Tensor) -> Tensor:
    return _sine(p, t) ** 2


_PHASE = Uniform(0.0, 2 * np.pi)
_WAVE = {"A": Uniform(0.1, 1.0), "b": Uniform(0.2, 1.0), "c": _PHASE}


def sine(scale: float = 1.0) -> InputLaw:
    """f(t) = A sin(b t + c), the forcing of the time-only problems (subsubsect_fitting_time); A is times ``scale``."""
    ranges = {"A": Uniform(0.5 * scale, 2.0 * scale), "b": Uniform(0.1, 2.0), "c": _PHASE}
    return InputLaw("A sin(b t + c)", ranges, _sine)


def multisine(lines: int = 20, highest: float = 8.0) -> InputLaw:
    """f(t) = A √(2/K) Σ_k sin(b_k t + c_k), K lines at random frequencies up to ``highest``; A is its root mean square.

    A sine tells how a system answers at one frequency, this one how it answers in the whole band.
    """
    ranges = {"A": Uniform(0.1, 1.0), "b": Uniform(0.0, highest, lines), "c": Uniform(0.0, 2 * np.pi, lines)}

    def amplitude(p: Params, t: Tensor) -> Tensor:
        return p["A"] * (2 / lines) ** 0.5 * torch.sin(p["b"] * t[..., None] + p["c"]).sum(-1)

    return InputLaw("A √(2/K) Σ_k sin(b_k t + c_k)", ranges, amplitude)


def sine_gaussian(length: float = 1.0, squared: bool = False) -> InputLaw:
    """f(t, x) = A sin(b t + c) exp(-(x - μ)² / (2 σ²)) on [0, length] (subsubsect_fitting_time_space).

    With ``squared`` the wave is (A sin(b t + c))² (subsubsect_conv_diff).
    """
    centre, width = Uniform(length / 4, 3 * length / 4), Uniform(0.1 * length, 0.4 * length)

    def profile(p: Params, x: Tensor) -> Tensor:
        return torch.exp(-((x[:, 0] - p["mu"]) ** 2) / (2 * p["sigma"] ** 2))

    wave = "(A sin(b t + c))²" if squared else "A sin(b t + c)"
    return InputLaw(
        f"{wave} exp(-(x - μ)² / (2 σ²))",
        {**_WAVE, "mu": centre, "sigma": width},
        _sine_squared if squared else _sine,
        profile,
    )


def sine_gaussian_2d() -> InputLaw:
    """f(t, x) = (A sin(b t + c))² exp(-|x - x_c|² / (2 σ²)) (equ_heat_input)."""
    centre = Uniform(0.3, 0.7)

    def profile(p: Params, x: Tensor) -> Tensor:
        square = (x[:, 0] - p["x_1c"]) ** 2 + (x[:, 1] - p["x_2c"]) ** 2
        return torch.exp(-square / (2 * p["sigma"] ** 2))

    return InputLaw(
        "(A sin(b t + c))² exp(-|x - x_c|² / (2 σ²))",
        {**_WAVE, "x_1c": centre, "x_2c": centre, "sigma": Uniform(0.2, 0.3)},
        _sine_squared,
        profile,
    )


def sine_fourier(axes: tuple[int, ...] = (1,), modes: int = MODES) -> InputLaw:
    """f(t, x) = A sin(b t + c) Σ_i Σ_n (a_ni sin 2πn x_i + b_ni cos 2πn x_i) / n² over the given axes i
    (equ_burgers_input, equ_ns_input, equ_3d_input_scalar); the points x have one column per axis."""
    waves = {f"{kind}_{i}": Uniform(-1.0, 1.0, modes) for i in axes for kind in "ab"}

    def profile(p: Params, x: Tensor) -> Tensor:
        n = torch.arange(1, modes + 1, dtype=x.dtype, device=x.device)
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for column, i in enumerate(axes):
            angle = 2 * torch.pi * x[:, column, None] * n  # (m, n)
            total = total + p[f"a_{i}"][:, 0] / n**2 @ torch.sin(angle).T
            total = total + p[f"b_{i}"][:, 0] / n**2 @ torch.cos(angle).T
        return total

    formula = "A sin(b t + c) Σ_i Σ_n (a_ni sin 2πn x_i + b_ni cos 2πn x_i) / n²"
    return InputLaw(formula, {**_WAVE, **waves}, _sine, profile, modes)
