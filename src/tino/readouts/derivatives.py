"""The response to small changes about an operating point, by derivatives of the model: no pulse has to be small enough.

g_k = ∂u(t_s + k dt) / ∂f(t_s), f constant but for the sample at t_s. A sample is a pulse of area dt, so the impulse
response of the continuous system is h(k dt) ≈ g_k / dt, and a small A e^{iωt}, sampled, is answered by A H(ω) e^{iωt},
H(ω) = Σ_k g_k e^{-iωk dt}.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jvp

from tino.channels import Channels
from tino.errors import TinoError, whole
from tino.operator import Operator
from tino.readouts.terminals import Terminals, terminals

DIED = 1e-4  # of the largest value: an impulse response this small at its end was followed far enough
SETTLED = 1e-2  # of the largest value: beyond the memory it stays below
LENGTHS = (2, 8)  # of an impulse response, in records of the training's length
PAIRS = 4096  # of impulses, in a second-order kernel at most


@dataclass(frozen=True)
class ImpulseResponse:
    """g (times, outputs, inputs): the change of each output per unit of one sample of each input."""

    values: Tensor
    step: float
    point: tuple[float, ...]  # the constant input about which it holds
    input_channels: Channels
    output_channels: Channels

    @property
    def at(self) -> str:
        """The operating point in words."""
        return ", ".join(f"{c.name} = {v:g}" for c, v in zip(self.input_channels, self.point, strict=True))

    @property
    def times(self) -> Tensor:
        return self.step * torch.arange(len(self.values), dtype=torch.float64)

    @property
    def density(self) -> Tensor:
        """h(t) ≈ g / dt, of the continuous system."""
        return self.values / self.step

    @property
    def left(self) -> Tensor:
        """The largest |g| in the last tenth, over the largest: (outputs, inputs)."""
        size = self.values.abs()
        return size[-max(1, len(size) // 10) :].amax(0) / size.amax(0).clamp_min(torch.finfo(size.dtype).tiny)

    @property
    def gain(self) -> Tensor:
        """Σ_k g_k, the static gain; NaN where the response has not died away: (outputs, inputs)."""
        return torch.where(self.left <= SETTLED, self.values.sum(0), torch.nan)

    @property
    def memory(self) -> Tensor:
        """The time from which |g| stays below 1 % of its largest value; infinite where it does not."""
        size = self.values.abs()
        above = (size > SETTLED * size.amax(0)).long()
        last = torch.arange(1, len(size) + 1)[:, None, None] * above
        return torch.where(self.left <= SETTLED, last.amax(0).double() * self.step, torch.inf)

    def response(self, frequency: Tensor) -> Tensor:
        """H(ω) = Σ_k g_k e^{-iωk dt} at the angular frequencies (w,): (w, outputs, inputs), complex."""
        turns = torch.exp(-1j * frequency.double()[:, None] * self.times)  # (w, times)
        return torch.einsum("wk,koi->woi", turns, self.values.to(turns.dtype))


def impulse_response(
    model: Operator,
    *,
    times: int | None = None,
    point: float | Sequence[float] | None = None,
    input_point: int | None = None,
    output_point: int | None = None,
) -> ImpulseResponse:
    """The response to a small impulse of each input, after the model has settled at the constant input ``point``.

    Left out, ``times`` is two records of the training's length, and eight if the response has not died away by then.
    """
    ends = terminals(model, point, input_point, output_point)
    n, frame = ends.frame.time.n, ends.frame
    lengths = [n * k for k in LENGTHS] if times is None else [whole("times", times, 1)]
    for length in lengths:
        values = _impulses(ends, n, length)
        found = ImpulseResponse(values, frame.time.step, ends.point, frame.input_channels, frame.output_channels)
        if bool((found.left <= DIED).all()):
            break
    return found  # pyright: ignore[reportPossiblyUnboundVariable]


def slope(function: Callable[[Tensor], Tensor], at: Tensor, change: Tensor) -> Tensor:
    """The derivative of a function in the direction of a change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch, about its own use of torch.jit
        return jvp(function, (at,), (change,))[1]


def _impulses(ends: Terminals, settle: int, times: int) -> Tensor:
    """A row for each input, whose sample at the time ``settle`` changes -> (times, outputs, inputs)."""
    f = ends.held(len(ends.inputs), settle + times)
    change = torch.zeros_like(f)
    change[range(len(f)), settle, list(ends.inputs)] = 1.0
    with torch.no_grad():
        found = slope(ends.answer, f, change)
    return ends.check_finite(found[:, settle:]).permute(1, 2, 0).detach()


# -- second order --------------------------------------------------------------------------------------------


def second_order_kernel(
    model: Operator, times: int, *, input: int = 0, point: float | Sequence[float] | None = None
) -> Tensor:
    """h2 (times, times, outputs) of u_n = ... + Σ_k Σ_l h2(k, l) f_{n-k} f_{n-l}: h2 = ½ ∂²u_n / ∂f_{n-k} ∂f_{n-l}.

    ``input`` is the place of the input channel. A row of the batch for each distance between the two impulses.
    """
    ends = terminals(model, point, None, None)
    place = _input_place(ends, input)
    times, settle = whole("times", times, 1, PAIRS), ends.frame.time.n
    f = ends.held(times, settle + times)
    first, second = torch.zeros_like(f), torch.zeros_like(f)
    first[:, settle, place] = 1.0
    second[range(times), settle + torch.arange(times), place] = 1.0
    bent = ends.check_finite(_second(ends, f, first, second))[:, settle:] / 2  # (distance, times, outputs)
    kernel = bent.new_zeros(times, times, bent.shape[2])
    for distance in range(times):
        k = torch.arange(distance, times)
        kernel[k, k - distance] = kernel[k - distance, k] = bent[distance, k]
    return kernel


def second_order_response(
    model: Operator, frequencies: Tensor, *, input: int = 0, point: float | Sequence[float] | None = None
) -> Tensor:
    """H2(ω1, ω2) at pairs (p, 2): (p, outputs), complex; small e^{iω1 t} + e^{iω2 t} make 2 H2 e^{i(ω1 + ω2)t}.

    The second derivative is linear in both changes, D²u[e^{iω1 t}, e^{iω2 t}] = 2 H2 e^{i(ω1 + ω2)t} once settled, so
    that those with respect to cosines and sines are enough.
    """
    if frequencies.ndim != 2 or frequencies.shape[1] != 2:
        raise TinoError(f"frequencies have shape {tuple(frequencies.shape)}, expected (pairs, 2)")
    ends = terminals(model, point, None, None)
    place, pairs = _input_place(ends, input), len(frequencies)
    times = 4 * ends.frame.time.n
    t = ends.frame.time.step * torch.arange(times, dtype=torch.float64)
    waves = torch.exp(1j * frequencies.double()[..., None] * t)  # (pairs, 2, times)
    f = ends.held(4 * pairs, times)
    changes = []
    for side, order in ((0, (0, 0, 1, 1)), (1, (0, 1, 0, 1))):  # cos cos, cos sin, sin cos, sin sin
        change = torch.zeros_like(f)
        parts = torch.view_as_real(waves[:, side])  # (pairs, times, 2)
        change[..., place] = torch.cat([parts[..., which] for which in order])
        changes.append(change)
    bent = ends.check_finite(_second(ends, f, *changes))[:, -1].view(4, pairs, -1)
    whole_one = bent[0] - bent[3] + 1j * (bent[1] + bent[2])
    return whole_one / (2 * waves[:, 0, -1] * waves[:, 1, -1])[:, None]


def _input_place(ends: Terminals, input: int) -> int:
    return ends.inputs[whole("input", input, 0, len(ends.inputs) - 1)]


def _second(ends: Terminals, f: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """D²u[first, second] at f, (rows, times, outputs)."""

    with torch.no_grad():
        return slope(lambda at: slope(ends.answer, at, first), f, second).detach()
