"""The frequency response at a chosen level: the best linear approximation, and how linear the system is there.

Each input in turn is driven by multisines of random phases about the operating point, the others are held. Once the
answer is periodic, H_r(ω) = U_r(ω) / F_r(ω) for each realisation r. Its mean is the linear system nearest to the model
at this level. It differs between realisations only by what is not linear: that is the deviation, and the coherence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tino.errors import TinoError, whole
from tino.operator import Operator
from tino.readouts.excited import Excited
from tino.readouts.terminals import Terminals, terminals

REALISATIONS = 8
PERIOD = 4  # records of the training's length
QUARTER = 0.25  # of the way from the point to the farther end of the inputs seen: peaks are about four times the level


@dataclass(frozen=True)
class FrequencyResponse:
    """H (w, outputs, inputs), complex, at the angular frequencies (w,) at which an input was driven; NaN where not.

    ``deviation`` is the standard deviation of the mean H, ``coherence`` |mean U F*|² / (mean |U|² mean |F|²).
    """

    frequency: Tensor
    values: Tensor
    deviation: Tensor
    coherence: Tensor
    level: tuple[float, ...]  # root mean square of each input
    unsteady: float  # the largest change of the answer from one period to the next, over its largest value


def frequency_response(
    model: Operator,
    *,
    level: float | Sequence[float] | None = None,
    excited: Excited | None = None,
    period: int | None = None,
    realisations: int = REALISATIONS,
    seed: int = 0,
    point: float | Sequence[float] | None = None,
    input_point: int | None = None,
    output_point: int | None = None,
) -> FrequencyResponse:
    """Drive the model at the lines 2πk / (period dt): those that were ``excited``, or all below half the highest.

    ``level`` is the root mean square of the multisine, one for all inputs or one for each (0: not driven). Left out, it
    is that of the training inputs, or a quarter of the largest distance from the point that the model has seen. An
    input that never varied is not driven. One period settles, the next two are compared, the last is measured.
    """
    ends = terminals(model, point, input_point, output_point)
    frame, inputs = ends.frame, len(ends.inputs)
    period = whole("period", PERIOD * frame.time.n if period is None else period, 4)
    realisations = whole("realisations", realisations, 2)
    levels = _levels(ends, level, excited)
    every = torch.arange(1, (period - 1) // 2 + 1)
    frequency = every.double() * (2 * torch.pi / (period * frame.time.step))
    driven = (every <= period // 4).expand(inputs, -1) if excited is None else excited.at(frequency)
    wanted = torch.tensor(levels) > 0
    driven = driven & wanted[:, None]
    idle = wanted & ~driven.any(1)
    if bool(idle.any()):
        name = frame.input_channels[int(idle.long().argmax())]
        raise TinoError(f"no line of a period of {period} times lies where {name} was excited: use a longer period")
    generator = torch.Generator().manual_seed(seed)
    phases = torch.rand(inputs, realisations, len(every), generator=generator, dtype=torch.float64) * 2 * torch.pi
    spectrum = driven[:, None] * torch.exp(1j * phases)  # (inputs, r, w)
    size = torch.tensor(levels, dtype=torch.float64) * (2 / driven.sum(1).clamp_min(1).double()).sqrt() * (period / 2)
    spectrum = spectrum * size[:, None, None]
    waves = torch.fft.irfft(torch.nn.functional.pad(spectrum, (1, period // 2 - len(every))), n=period)
    f = ends.held(inputs * realisations, 3 * period).view(inputs, realisations, 3 * period, -1)
    for i, place in enumerate(ends.inputs):
        f[i, :, :, place] += waves[i].repeat(1, 3)
    ic = f.new_zeros(inputs * realisations, frame.state) if frame.state else None
    with torch.no_grad():
        u = ends.check_finite(ends.model.inside(f.flatten(0, 1), ic)[..., list(ends.outputs)], levels)
    before, last = u[:, period : 2 * period], u[:, 2 * period :]
    answer = torch.fft.rfft(last, dim=1)[:, 1 : len(every) + 1].unflatten(0, (inputs, realisations))  # (i, r, w, o)
    found = [_estimate(spectrum[i], answer[i], driven[i]) for i in range(inputs)]
    kept = driven.any(0)
    values, deviation, coherence = (torch.stack(parts, -1)[kept] for parts in zip(*found, strict=True))
    change = float((last - before).abs().amax() / last.abs().amax().clamp_min(torch.finfo(last.dtype).tiny))
    return FrequencyResponse(frequency[kept], values, deviation, coherence, levels, change)


def _estimate(spectrum: Tensor, answer: Tensor, driven: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """F (r, w) and U (r, w, o) -> the mean of H = U / F, its standard deviation and the coherence, (w, o)."""
    f, count = torch.where(driven, spectrum, torch.nan)[..., None], len(spectrum)
    each = answer / f
    deviation = (each - each.mean(0)).abs().square().sum(0).div(count * (count - 1)).sqrt()
    cross, own = (answer * f.conj()).mean(0).abs().square(), answer.abs().square().mean(0) * f.abs().square().mean(0)
    coherence = torch.where(own > 0, cross / own, 1.0).clamp(max=1.0)  # no answer at all is a linear one
    return each.mean(0), deviation, torch.where(driven[:, None], coherence, torch.nan)


def _levels(ends: Terminals, level: float | Sequence[float] | None, excited: Excited | None) -> tuple[float, ...]:
    """Of each input channel; 0 of one that is not driven."""
    channels, seen = ends.frame.input_channels, ends.frame.seen.inputs
    varied = [True] * len(channels) if excited is None else excited.lines.any(1).tolist()
    if not any(varied):
        raise TinoError("no input ever varied in the training data: there is no frequency to drive")
    if isinstance(level, int | float):
        given = [level * one for one in varied]
    elif level is not None:
        given = list(level)
    elif excited is not None:
        return tuple(excited.rms.tolist())  # 0 of a channel that never varied
    elif seen:
        given = [QUARTER * max(high - at, at - low) for (low, high), at in zip(seen, ends.point, strict=True)]
    else:
        raise TinoError(f"{ends.frame.model} does not say which inputs it has seen: give a level")
    if len(given) != len(channels):
        raise TinoError(f"level has {len(given)} numbers, expected one for each of {len(channels)} input channels")
    if not all(0 <= one < float("inf") for one in given) or not any(given):
        raise TinoError(f"level is {', '.join(f'{one:g}' for one in given)}, expected numbers above 0")
    for channel, one, moved in zip(channels, given, varied, strict=True):
        if one and not moved:
            raise TinoError(f"{channel} never varied in the training data, so it is not driven: give it the level 0")
    return tuple(map(float, given))
