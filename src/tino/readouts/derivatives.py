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
from tino.errors import TinoError, TinoWarning, whole
from tino.operator import Operator
from tino.readouts.terminals import Terminals, terminals

DIED = 1e-4  # of the largest value: an impulse response this small at its end was followed far enough
SETTLED = 1e-2  # of the largest value: beyond the memory it stays below
LENGTHS = (2, 8)  # of an impulse response, in records of the training's length
SETTLING = (1, *LENGTHS)  # of the time before it
NO_GAIN = 1e-3  # of Σ |g|: a smaller |Σ g| is as good as zero
ROUNDING = 1e-9  # of the answer: smaller changes are none
RECORDS = (4, 8)  # of two waves, whose second-order answer is read at the end
PAIRS = 4096  # of impulses, in a second-order kernel at most


@dataclass(frozen=True)
class ImpulseResponse:
    """g (times, outputs, inputs): the change of each output per unit of one sample of each input."""

    values: Tensor
    step: float
    point: tuple[float, ...]  # the constant input about which it holds
    input_channels: Channels
    output_channels: Channels
    drift: float = 0.0  # by how much the answer still moved at that input, of the way it had moved

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
    def tail(self) -> Tensor:
        """|Σ g| over the last tenth, over |Σ g|: slow modes can be small and still count: (outputs, inputs)."""
        g = self.values
        size = torch.maximum(g.sum(0).abs(), NO_GAIN * g.abs().sum(0))
        return g[-max(1, len(g) // 10) :].sum(0).abs() / size.clamp_min(torch.finfo(g.dtype).tiny)

    @property
    def died(self) -> Tensor:
        """Whether the response has died away, in size and in area: (outputs, inputs)."""
        return (self.left <= SETTLED) & (self.tail <= SETTLED)

    @property
    def gain(self) -> Tensor:
        """Σ_k g_k, the static gain; NaN where the response has not died away: (outputs, inputs)."""
        return torch.where(self.died, self.values.sum(0), torch.nan)

    @property
    def memory(self) -> Tensor:
        """The time from which |g| stays below 1 % of its largest value; infinite where it has not died away."""
        size = self.values.abs()
        above = (size > SETTLED * size.amax(0)).long()
        last = torch.arange(1, len(size) + 1)[:, None, None] * above
        return torch.where(self.died, last.amax(0).double() * self.step, torch.inf)

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

    Left out, ``times`` is two records of the training's length, and eight if the response has not died away by then. To
    settle, the model has one record, then two, then eight; ``drift`` says whether that was enough.
    """
    ends = terminals(model, point, input_point, output_point)
    frame, (settle, drift) = ends.frame, settling(ends)
    channels = (frame.input_channels, frame.output_channels)
    lengths = [frame.time.n * k for k in LENGTHS] if times is None else [whole("times", times, 1)]
    for length in lengths:
        found = ImpulseResponse(_impulses(ends, settle, length), frame.time.step, ends.point, *channels, drift)
        if bool(((found.left <= DIED) & (found.tail <= SETTLED)).all()):
            break
    return found  # pyright: ignore[reportPossiblyUnboundVariable]


def settling(ends: Terminals) -> tuple[int, float]:
    """The times that the model gets to settle at its operating point, and the drift of its answer after them.

    The drift is the change of an output over the last tenth, relative to its change over all these times.
    """
    times, drift = 0, 0.0
    for records in SETTLING:
        times = records * ends.frame.time.n
        with torch.no_grad():
            u = ends.check_finite(ends.answer(ends.held(1, times)))[0]  # (times, outputs)
        least = (ROUNDING * u.abs().amax(0)).clamp_min(torch.finfo(u.dtype).tiny)
        drift = float((_spread(u[-max(2, times // 10) :]) / _spread(u).clamp_min(least)).amax())
        if drift <= DIED:
            break
    return times, drift


def _spread(u: Tensor) -> Tensor:
    return u.amax(0) - u.amin(0)


def _check_settled(ends: Terminals, times: int, drift: float) -> None:
    """Warn if a model still drifts after so many times."""
    if drift > SETTLED:
        held = ", ".join(f"{value:g}" for value in ends.point)
        why = f"about the constant input {held} it still moves by {drift:.1%} after {times} times"
        warnings.warn(f"{ends.frame.model} has not settled: {why}", TinoWarning, stacklevel=3)


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
    times, (settle, drift) = whole("times", times, 1, PAIRS), settling(ends)
    _check_settled(ends, settle, drift)
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
    _check_settled(ends, times, drift)
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
