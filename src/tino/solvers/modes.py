"""Linear equations with known eigenfunctions: one scalar equation per mode, with no error in space and no stiffness.

    c_k' = -rate_k c_k + a(t) g_k,      u(t, x) = Σ_k c_k(t) φ_k(x)

Over a step, a is interpolated by a cubic at four Chebyshev points and integrated exactly against the decay.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tino.solvers.march import Solution, Tick

NODES = 4  # interpolation points of the amplitude in a step


def step_weights(rate: Tensor, h: float) -> tuple[Tensor, Tensor]:
    """Nodes c (in units of h) and weights w (nodes, modes): ∫_0^h e^{-rate (h - s)} a(s) ds ≈ Σ_j w_j a(c_j h)."""
    c = 0.5 - 0.5 * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    # the integrals of e^{-z r} r^m over r in [0, 1], with r = 1 - s/h
    z = (rate * h).cpu().numpy()
    moments = np.stack([_moment(z, m) for m in range(NODES)])  # (m, modes)
    powers = np.stack([(1 - c) ** m for m in range(NODES)])  # (m, nodes): a polynomial in r through the nodes
    weights = h * np.linalg.solve(powers, moments)
    return torch.from_numpy(c).to(rate.device), torch.from_numpy(weights).to(rate.device)


def _moment(z: np.ndarray, m: int) -> np.ndarray:
    """∫_0^1 e^{-z r} r^m dr: a series for small z, else integration by parts."""
    small = z < 1.0
    tame = np.where(small, 1.0, z)
    value = (1 - np.exp(-tame)) / tame
    for k in range(1, m + 1):
        value = (k * value - np.exp(-tame)) / tame
    series = sum((-1) ** j * z**j / (math.factorial(j) * (m + 1 + j)) for j in range(20))
    return np.where(small, series, value)


def solve_modes(
    rate: Tensor,
    profile: Tensor,
    amplitude: Callable[[Tensor], Tensor],
    functions: Tensor,
    times: Tensor,
    substeps: int,
    state: Tensor,
    tick: Tick,
) -> Solution:
    """Start from the coefficients ``state`` (b, modes) -> Σ_k c_k φ_k at ``times``, (b, t, x), and the final c.

    rate (modes,), profile g (b, modes), amplitude (k,) -> (b, k), functions φ (modes, x). If g and φ are complex, the
    real part of the sum is returned.
    """
    h = float(times[1] - times[0]) / substeps
    nodes, weights = step_weights(rate, h)
    decay = torch.exp(-rate * h)

    if functions.is_complex():  # Re Σ c φ as one real product
        functions = torch.cat([functions.real, -functions.imag])

    def observe(c: Tensor) -> Tensor:
        return (torch.cat([c.real, c.imag], dim=1) if c.is_complex() else c) @ functions

    out = [observe(state)]
    for t in times[:-1].tolist():
        for i in range(substeps):
            gain = amplitude(t + (i + nodes) * h) @ weights  # (b, modes)
            state = decay * state + gain * profile
        out.append(observe(state))
        tick()
    return torch.stack(out, dim=1), state
