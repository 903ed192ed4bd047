"""The second order: what products of two inputs do, by second derivatives of the model about an operating point."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tino.errors import TinoError, whole
from tino.operator import Operator
from tino.readouts.derivatives import DIED, check_settled, settling, slope
from tino.readouts.terminals import Terminals, terminals

RECORDS = (4, 8)  # of two waves, whose answer is read at the end
PAIRS = 4096  # of impulses, in a kernel at most


def second_order_kernel(
    model: Operator, times: int, *, input: int = 0, point: float | Sequence[float] | None = None
) -> Tensor:
    """h2 (times, times, outputs) of u_n = ... + Σ_k Σ_l h2(k, l) f_{n-k} f_{n-l}: h2 = ½ ∂²u_n / ∂f_{n-k} ∂f_{n-l}.

    ``input`` is the place of the input channel.
    """
    ends = terminals(model, point, None, None)
    place = _input_place(ends, input)
    times, (settle, drift) = whole("times", times, 1, PAIRS), settling(ends)
    check_settled(ends, settle, drift)
    return kernel_at(ends, place, settle, times)


def kernel_at(ends: Terminals, place: int, settle: int, count: int, width: int = 1) -> Tensor:
    """h2 (count, count, outputs), the mean over cells of ``width`` x ``width`` lags, by pulses that are as wide.

    About the point at which the model has had so many times to settle. A row of the batch for each distance between
    the two pulses.
    """
    cells = width * torch.arange(count)
    f = ends.held(count, settle + width * count)
    first, second = torch.zeros_like(f), torch.zeros_like(f)
    first[:, settle : settle + width, place] = 1.0 / width
    for row, late in enumerate(cells.tolist()):
        second[row, settle + late : settle + late + width, place] = 1.0 / width
    last = settle + width - 1 + cells  # the whole first pulse lies within the lags of a cell
    bent = ends.check_finite(_second(ends, f, first, second))[:, last] / 2  # (distance, cell, outputs)
    kernel = bent.new_zeros(count, count, bent.shape[2])
    for distance in range(count):
        k = torch.arange(distance, count)
        kernel[k, k - distance] = kernel[k - distance, k] = bent[distance, k]
    return kernel


def second_order_response(
    model: Operator, frequencies: Tensor, *, input: int = 0, point: float | Sequence[float] | None = None
) -> Tensor:
    """H2(ω1, ω2) at pairs (p, 2): (p, outputs), complex; small e^{iω1 t} + e^{iω2 t} make 2 H2 e^{i(ω1 + ω2)t}.

    The second derivative is linear in both changes, D²u[e^{iω1 t}, e^{iω2 t}] = 2 H2 e^{i(ω1 + ω2)t} once settled, so
    that those with respect to cosines and sines are enough. It has four records to settle, then eight.
    """
    if frequencies.ndim != 2 or frequencies.shape[1] != 2:
        raise TinoError(f"frequencies have shape {tuple(frequencies.shape)}, expected (pairs, 2)")
    ends = terminals(model, point, None, None)
    place, times, drift, found = _input_place(ends, input), 0, 0.0, torch.empty(0)
    for records in RECORDS:
        times = records * ends.frame.time.n
        found = _second_waves(ends, place, frequencies.double(), times)[:, -max(2, times // 10) :]
        size = found.abs().amax().clamp_min(torch.finfo(torch.float64).tiny)
        drift = float((found - found[:, -1:]).abs().amax() / size)
        if drift <= DIED:
            break
    check_settled(ends, times, drift)
    return found[:, -1]


def _second_waves(ends: Terminals, place: int, frequencies: Tensor, times: int) -> Tensor:
    """H2 of each pair as it comes out over time, constant once settled: (pairs, times, outputs), complex."""
    t = ends.frame.time.step * torch.arange(times, dtype=torch.float64)
    waves = torch.exp(1j * frequencies[..., None] * t)  # (pairs, 2, times)
    f = ends.held(4 * len(waves), times)
    changes = []
    for side, order in ((0, (0, 0, 1, 1)), (1, (0, 1, 0, 1))):  # cos cos, cos sin, sin cos, sin sin
        change = torch.zeros_like(f)
        parts = torch.view_as_real(waves[:, side])  # (pairs, times, 2)
        change[..., place] = torch.cat([parts[..., which] for which in order])
        changes.append(change)
    bent = ends.check_finite(_second(ends, f, *changes)).unflatten(0, (4, len(waves)))
    whole_one = bent[0] - bent[3] + 1j * (bent[1] + bent[2])
    return whole_one / (2 * waves.prod(1))[..., None]


def _input_place(ends: Terminals, input: int) -> int:
    return ends.inputs[whole("input", input, 0, len(ends.inputs) - 1)]


def _second(ends: Terminals, f: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """D²u[first, second] at f, (rows, times, outputs)."""

    with torch.no_grad():
        return slope(lambda at: slope(ends.answer, at, first), f, second).detach()
