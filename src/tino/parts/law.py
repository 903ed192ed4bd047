"""The law of a flow: one step of its state, in coordinates."""

import math
from abc import abstractmethod

import torch
from torch import Tensor

from tino.parts.part import Part
from tino.properties import POINTWISE, Properties


class Law(Part):
    """c_i from the ``lags`` states before it and a ``window`` of inputs that ends with f_i.

    States and inputs are in the law's own coordinates, real vectors c (..., J) and g (..., r).
    """

    lags: int  # past states that a step reads
    window: int  # inputs that a step reads, the present one included
    affine = False  # whether a step is linear in states and inputs, but for a constant, at all times alike

    @abstractmethod
    def state(self, u: Tensor) -> Tensor:
        """u (..., x) -> c (..., J)."""

    @abstractmethod
    def output(self, c: Tensor) -> Tensor:
        """c (..., J) -> u (..., x)."""

    @abstractmethod
    def inputs(self, f: Tensor) -> Tensor:
        """f (..., m) -> g (..., r)."""

    @abstractmethod
    def forward(self, past: Tensor, g: Tensor, i: int | Tensor) -> Tensor:
        """The states before (b, lags, J) and the inputs (b, window, r), oldest first -> c_i (b, J)."""

    def readout(self, dt: float) -> tuple[str, ...]:
        """What it says about the system, in lines that a person can read; dt is the time step."""
        return ()

    def poles(self, dt: float) -> Tensor:
        """Of its linear part, per unit of time, the slowest first, complex; empty if it has none to show."""
        return torch.empty(0, dtype=torch.complex128)


class LeastSquaresLaw(Law):
    """A law that is linear in its factors: c_i = Σ_q w_q φ_q."""

    weights: Tensor

    @abstractmethod
    def features(self, past: Tensor, g: Tensor, i: int | Tensor) -> Tensor:
        """The terms of a step, (..., q) or (..., k, q), from the states before (..., lags, J) and the inputs
        (..., window, r), oldest first."""

    @abstractmethod
    def combine(self, features: Tensor, weights: Tensor) -> Tensor:
        """c_i (..., J) from the terms (..., n, q) or (..., n, k, q) and their factors (..., q, J) or (..., k, q)."""

    def forward(self, past: Tensor, g: Tensor, i: int | Tensor) -> Tensor:
        return self.combine(self.features(past, g, i), self.weights)

    @abstractmethod
    def as_weights(self, solution: Tensor) -> Tensor:
        """The factors (..., k, q, j) that a least-squares fit has found, as ``weights``."""

    @abstractmethod
    def growth(self) -> float:
        """The largest |λ| of the linear part, over one step."""

    @abstractmethod
    def damp(self) -> None:
        """Shrink the linear part so that no |λ| is above 1."""


def chebyshev(i: int | Tensor, times: int, count: int, like: Tensor) -> Tensor:
    """T_0 ... T_{count-1} of the time, scaled to [-1, 1] over the record: (..., count), for a clock."""
    tau = (torch.as_tensor(i, device=like.device).to(like) * (2 / (times - 1)) - 1).clamp(-1, 1)
    found = [torch.ones_like(tau), tau]
    while len(found) < count:
        found.append(2 * tau * found[-1] - found[-2])
    return torch.stack(found[:count], -1)


def window_moments(window: int, count: int) -> Tensor:
    """Orthogonal polynomials over a window of inputs, (window, count); with count 0, each input by itself."""
    if count == 0:
        return torch.eye(window, dtype=torch.float64)
    tau = torch.linspace(-1, 1, window, dtype=torch.float64)
    powers = torch.stack([tau**k for k in range(min(count, window))], 1)
    return torch.linalg.qr(powers).Q * math.sqrt(window)


def law_properties(constant: bool, clock: int) -> Properties:
    """Of a step: a constant term moves it from rest, a clock makes it depend on the time."""
    reasons = (("it has a constant term",) if constant else ()) + (("it reads the clock",) if clock else ())
    return Properties(True, not clock, not constant, reasons) if reasons else POINTWISE


def histories(law: Law, c: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """The states before each time (b, t, lags, J) and the inputs up to it (b, t, window, r), as views.

    Before the record the state is that at its start, and the input is zero.
    """
    past = torch.cat([c[:, :1].expand(-1, law.lags, -1), c[:, :-1]], 1).unfold(1, law.lags, 1)
    inputs = torch.cat([g.new_zeros(len(g), law.window - 1, g.shape[2]), g], 1).unfold(1, law.window, 1)
    return past.movedim(-1, -2), inputs.movedim(-1, -2)
