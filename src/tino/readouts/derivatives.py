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
from tino.errors import TinoWarning, whole
from tino.operator import Operator
from tino.readouts.terminals import Terminals, terminals

DIED = 1e-4  # of the largest value: an impulse response this small at its end was followed far enough
SETTLED = 1e-2  # of the largest value: beyond the memory it stays below
LENGTHS = (2, 8)  # of an impulse response, in records of the training's length
SETTLING = (1, *LENGTHS)  # of the time before it
NO_GAIN = 1e-3  # of Σ |g|: a smaller |Σ g| is as good as zero
ROUNDING = 1e-9  # of the answer: smaller changes are none


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


def check_settled(ends: Terminals, times: int, drift: float) -> None:
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
