"""Do data look causal, autonomous, at rest? A test of a dataset itself, for data without a solver.

Three questions, each a comparison of regressions on held-out samples:

- clock: from the state at t_a and the input over [t_a, t_a + h], how does u change until t_a + h, and does knowing t_a
  help? Not under one law for all times, wherever the samples start.
- future: does the input after t_a + h help? Not in a causal system.
- history: from the input's past, zero before T_0, what is u(t), and does knowing t help? Not if it starts at rest.

For the first two, x = (state, input), z the clock or the future: y - E[y | x] is regressed on (z - E[z | x]) ⊗ φ(x).
What a coarse regression misses of E[y | x] does not correlate with z - E[z | x], so it is not mistaken for z.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.polynomial.legendre import legvander
from torch import Tensor

from tino.channels import channel_sizes
from tino.data import Dataset, check_dataset
from tino.errors import TinoError
from tino.models.registry import model_to_begin_with
from tino.pod import pod
from tino.progress import progress
from tino.seen import output_offset
from tino.sizes import check_sizes, state_channels

FEWEST = {"samples": 20, "times": 12}
SAMPLES, TIMES, ROWS, STARTS = 200, 1000, 2400, 24  # samples, times, samples x windows, windows of a sample, at most
MODES_IN, MODES_OUT, ENERGY, SNAPSHOTS = 8, 32, 0.9999, 1000  # POD coefficients: at most, or this share of the energy
WAVES, SHAPES, TAPS = 6, 6, 12  # cosines of the clock; polynomials of the input in a window; blocks of its past
RIDGES = (1e-9, 1e-5, 1e-2, 1e-1, 1.0, 10.0)
SURE = 3.0  # standard errors, of a signed-rank statistic over samples
CLOCK, CLOCK_FLOOR = 0.03, 4e-5  # what the clock must explain of the unexplained and of the total,
FUTURE, FUTURE_FLOOR = 0.25, 2e-3  # and the future, which explains a little of the present if inputs are smooth
NOVELTY, INITIAL = 0.1, 0.1  # least unpredictable share of the future input; most of u's spread at T_0 not due to f
HISTORY, HISTORY_FLOOR = 1.1, 5e-3  # the factor by which knowing t must divide the error, and an error worth dividing
HIDDEN, WEAK = 0.5, 0.4  # velocities that explain this much belong to the state; this much unexplained is worth a note


@dataclass(frozen=True)
class Diagnosis:
    """What was measured, what it means, and the model to begin with. Shares are of variance, on held-out samples."""

    name: str
    samples: int
    unexplained: float  # of the change of u over a window, given u and the input
    clock: tuple[float, float]  # the share of it that the clock explains; in standard errors
    velocity: float  # the share of it that the change of u just before explains: hidden velocities
    clock_beside: tuple[float, float]  # the share of the rest that the clock explains; in standard errors
    novelty: float  # unpredictable share of the future input, given u and the input
    future: tuple[float, float]  # the share of the unexplained that it explains; in standard errors
    history: float  # unexplained share of u(t), given the input's past
    history_ratio: tuple[float, float]  # what knowing t divides it by; in standard errors
    noise: float  # white noise of u, as a share of its change over a window
    initial: float  # the spread of u(T_0) that f(T_0) does not explain, as a share of the spread of u
    causal: bool | None  # None: the inputs are too regular to tell
    autonomous: bool  # one law for all times
    at_rest: bool | None  # the past of the input is enough; None: the samples' starts differ, and t adds nothing
    model: str
    notes: tuple[str, ...]

    @property
    def time_invariant(self) -> bool | None:
        """All three; data assumed causal count as causal. None: cannot tell."""
        return self.at_rest if self.causal is not False and self.autonomous else False

    def __str__(self) -> str:
        future = f"the future input explains {_percent(self.future[0])} of the variance left by state and input"
        if self.causal is None:
            future = f"the future input is {100 * (1 - self.novelty):.3g} % predictable: assumed causal"
        clock = f"time explains {_percent(self.clock[0])} of the variance left by state and input"
        if self.autonomous and self.velocity >= HIDDEN:
            clock += f", velocities {_percent(self.velocity)}"
        timed = self.history / self.history_ratio[0]
        start = f"past inputs leave {_percent(self.history)} of u unexplained; with the time, {_percent(timed)}"
        if self.at_rest is None:
            start = (
                f"samples start from different states (ic); past inputs leave {_percent(self.history)} of u unexplained"
            )
        elif not self.at_rest and self.history_ratio[0] < HISTORY:
            start = "the samples start from states that are not provided"
        lines = [f"{self.name}, {self.samples} samples examined"]
        verdicts = {"causal": self.causal, "autonomous": self.autonomous, "starts at rest": self.at_rest}
        for (label, verdict), why in zip(verdicts.items(), (future, clock, start), strict=True):
            word = "cannot tell" if verdict is None else "yes" if verdict else "no"
            lines.append(f"  {label:16}{word:13}{why}")
        lines.append(f"  so it is        {self.word}")
        return "\n".join([*lines, f"  begin with      {self.model}", *[f"  note: {note}" for note in self.notes]])

    @property
    def word(self) -> str:
        if self.causal is False or not self.autonomous:
            return "not causal" if self.causal is False else "not autonomous"
        if self.at_rest is None:
            return "autonomous; at rest or not: cannot tell"
        return "time-invariant" if self.at_rest else "autonomous, not at rest"

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "time_invariant": self.time_invariant}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * max(share, 0.0):.1g} %"


def diagnose(data: Dataset, seed: int = 0, show_progress: bool = True) -> Diagnosis:
    """Measure the three effects on at most 200 samples drawn with the seed, and name a model to begin with."""
    check_dataset(data, "data")
    n_t = data.time.n if data.lengths is None else int(data.lengths.min())  # the times that all records have
    for (what, need), given in zip(FEWEST.items(), (len(data), n_t), strict=True):
        if given < need:
            raise TinoError(f"diagnosing needs {need} {what} or more, {data.name} has {given}")
    check_sizes(data)
    chosen = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))[:SAMPLES]
    half = torch.arange(len(chosen)) % 2 == 0  # fitted on one half, tested on the other, then swapped
    every = math.ceil(n_t / TIMES)
    with torch.no_grad(), progress(f"diagnosing {data.name}", 6, show_progress) as advance:
        inputs, outputs = len(data.input_channels), len(data.output_channels)
        f = _coefficients(data.f[:, :n_t:every][chosen], "f", inputs, MODES_IN, False)
        u = _coefficients(data.u[:, :n_t:every][chosen], "u", outputs, MODES_OUT, True)
        ic = None
        if data.ic is not None and bool((data.ic != data.ic[0]).any()):
            states = len(state_channels(data, data.ic.shape[1]))
            ic = _coefficients(data.ic[chosen][:, None], "ic", states, MODES_OUT, True)
        advance()
        found = _flow(f, u, half, advance) | _history(f, u, ic, half)
        (left,) = _left_over(_kernel([_unit(f[:, :1])]), [u[:, 0]], half)
        found["initial"] = float(left.square().sum(1).mean() / u.var((0, 1)).sum())
        advance(2)
    return _verdict(data, len(chosen), ic is not None, found)


def _coefficients(values: Tensor, name: str, channels: int, most: int, subtract_mean: bool) -> Tensor:
    """The leading POD coefficients of (n, t, x) -> (n, t, j), in float64; several channels are scaled to one size."""
    values = values.cpu()
    if channels > 1:
        values = values - values.mean((0, 1)) if subtract_mean else values
        sizes = channel_sizes(values, channels).to(values)
        values = values / sizes.repeat_interleave(values.shape[-1] // channels)
    rows = values.flatten(0, 1)
    some = rows[torch.linspace(0, len(rows) - 1, min(SNAPSHOTS, len(rows))).long()]
    if bool((some == some[0]).all()):
        raise TinoError(f"{name} is the same in all samples at all times: there is nothing to diagnose")
    found = pod(some, subtract_mean)
    modes = found.modes[: min(most, found.modes_for(ENERGY) or most)]
    return ((values - found.mean.to(values)) @ modes.T.to(values)).double()


def _unit(block: Tensor) -> Tensor:
    """Centred, and of mean square 1 over its last axis together: blocks of features weigh the same."""
    block = block - block.mean((0, 1))
    return block / block.square().sum(-1).mean().sqrt().clamp_min(1e-30)


def _waves(count: int, samples: int) -> Tensor:
    """cos(π k s), k = 1..WAVES, at ``count`` clock times s in [0, 1] -> (samples count, k)."""
    s = torch.linspace(0, 1, count, dtype=torch.float64)[:, None]
    k = torch.arange(1, min(WAVES, count - 1) + 1)
    return _unit(torch.cos(math.pi * k * s).expand(samples, -1, -1)).flatten(0, 1)


def _kernel(parts: list[Tensor]) -> Tensor:
    """Of blocks (n, s, d): linear and quadratic functions first, bumps of three widths after them -> (n s, n s)."""
    x = torch.cat(parts, -1).flatten(0, 1)
    x = x / x.square().sum(1).mean().sqrt().clamp_min(1e-30)
    squares = x.square().sum(1)

    def against_all(some: Tensor) -> Tensor:
        products = some @ x.T
        bump = torch.exp(products - squares / 2 - some.square().sum(1)[:, None] / 2)  # exp(-|x - x'|² / 2)
        narrow = bump**8
        return 100 * (1 + products) + 10 * products.square() + 3 * bump + narrow + 0.3 * narrow**10

    return torch.cat([against_all(some) for some in x.split(256)])  # in parts: temporaries that fit a cache


def _left_over(kernel: Tensor, targets: list[Tensor], half: Tensor) -> list[Tensor]:
    """Residuals of each target by kernel ridge regression fitted on the other half, with the best ridge for each."""
    half = half.repeat_interleave(len(kernel) // len(half))
    values, size = torch.cat(targets, 1), kernel.diagonal().mean()
    left = torch.zeros(len(RIDGES), *values.shape, dtype=values.dtype)
    for fit in (half, ~half):
        gram, across, mean = kernel[fit][:, fit], kernel[~fit][:, fit], values[fit].mean(0)
        diagonal = gram.diagonal().clone()
        for i, ridge in enumerate(RIDGES):
            gram.diagonal().copy_(diagonal + ridge * size)
            factor, failed = torch.linalg.cholesky_ex(gram)
            answer = across @ torch.cholesky_solve(values[fit] - mean, factor)
            left[i, ~fit] = torch.inf if failed else values[~fit] - mean - answer
    parts = left.split([target.shape[1] for target in targets], 2)
    return [part[part.square().sum((1, 2)).nan_to_num(torch.inf).argmin()] for part in parts]


def _gain(before: Tensor, after: Tensor, samples: int) -> tuple[float, float]:
    """The share of the squares ``before`` that is gone ``after``, and the signed-rank z of the samples' gains."""
    old, new = (left.square().view(samples, -1).sum(1) for left in (before, after))
    gain = old - new
    rank = gain.abs().argsort(stable=True).argsort(stable=True).double() + 1
    sure = (rank * gain.sign()).sum() / rank.square().sum().sqrt()
    return float(gain.sum() / old.sum().clamp_min(1e-30)), float(sure)


def _flow(f: Tensor, u: Tensor, half: Tensor, advance: Any) -> dict[str, Any]:
    """The clock's and the future's part in the change of u over a tenth of the record. Its first quarter is left out:
    while all samples still come from one state, the state reveals the time."""
    (samples, n_t), h = u.shape[:2], max(2, round(u.shape[1] / 10))
    starts = torch.linspace(round(n_t / 4), n_t - 1 - 2 * h, min(STARTS, ROWS // samples)).round().long().unique()
    basis = torch.from_numpy(legvander(np.linspace(-1, 1, h + 1), min(SHAPES - 1, h)))  # (h + 1, k)

    def over(first: Tensor) -> Tensor:
        windows = f[:, first[:, None] + torch.arange(h + 1)]  # (n, starts, h + 1, j)
        return _unit(torch.einsum("nswj,wk->nskj", windows, basis).flatten(2))

    def explained(y: Tensor, z: Tensor, kernel: Tensor) -> tuple[float, float]:
        (after,) = _left_over(kernel * (z @ z.T) / z.square().sum(1).mean().clamp_min(1e-30), [y], half)
        advance()
        return _gain(y, after, samples)

    parts = [over(starts), _unit(u[:, starts])]
    before = u[:, starts[:, None] - torch.arange(1, h // 2 + 1)].mean(2)  # a mean: noise must not hide velocities
    change = u[:, starts + h] - u[:, starts]
    noise = u.diff(n=4, dim=1).square().mean((0, 1)).sum() / 70  # 70 = 1 + 16 + 36 + 16 + 1: a smooth u leaves nothing
    targets = [_unit(change).flatten(0, 1), _waves(len(starts), samples), over(starts + h).flatten(0, 1)]
    plain, full = _kernel(parts), _kernel([*parts, _unit(u[:, starts] - before)])
    y, clock, news = _left_over(plain, targets, half)
    y_full, clock_full = _left_over(full, targets[:2], half)
    return {
        "unexplained": float(y.square().sum(1).mean()),
        "clock": explained(y, clock, plain),
        "velocity": _gain(y, y_full, samples)[0],
        "clock_beside": explained(y_full, clock_full, full),
        "novelty": float(news.square().sum(1).mean()),
        "future": explained(y, news, plain),
        "noise": float(noise / change.var((0, 1)).sum().clamp_min(1e-30)),
    }


def _history(f: Tensor, u: Tensor, ic: Tensor | None, half: Tensor) -> dict[str, Any]:
    """u(t) from f(t), the sums of f over TAPS blocks of its past, zero before T_0, and ic: without t and with it."""
    samples, n_t = u.shape[:2]
    times = torch.linspace(0, n_t - 1, min(STARTS, ROWS // samples)).round().long().unique()
    block = (times[:, None] - torch.arange(n_t)) * TAPS // n_t  # (times, t): of each lag, negative for the future
    sums = torch.einsum("kst,ntj->knsj", (block == torch.arange(TAPS)[:, None, None]).double(), f)
    states = [] if ic is None else [ic.expand(-1, len(times), -1)]
    kernel = _kernel([_unit(part) for part in (f[:, times], *sums, *states)])
    clock, target = _waves(len(times), samples), [_unit(u[:, times]).flatten(0, 1)]
    (without,), (given,) = (_left_over(k, target, half) for k in (kernel, kernel * (1 + clock @ clock.T)))
    share, sure = _gain(without, given, samples)
    return {"history": float(without.square().sum(1).mean()), "history_ratio": (1 / max(1 - share, 1e-30), sure)}


def _verdict(data: Dataset, samples: int, starts: bool, found: dict[str, Any]) -> Diagnosis:
    """``starts``: the samples start from different states, given as ic."""
    plain, full = found["unexplained"], found["unexplained"] * (1 - found["velocity"])

    def helps(what: str, share: float, floor: float = 0.0, of: float = 1.0) -> bool:
        gain, sure = found[what]
        return gain >= share and gain * of >= floor and sure >= SURE

    causal = None if found["novelty"] < NOVELTY else not helps("future", FUTURE, FUTURE_FLOOR, plain)
    # In a motion that all samples share, the time reveals what u does not show of the state: velocities, or what noise
    # hides. So a clock must rival the velocities, and help beside them by more than the noise of two readings.
    clocked = helps("clock", HIDDEN if found["velocity"] >= HIDDEN else CLOCK)
    clocked = clocked and helps("clock_beside", CLOCK, max(CLOCK_FLOOR, found["noise"] / 2), full)
    unknown_start = found["initial"] > INITIAL and data.ic is None and causal is not False
    timed = helps("history_ratio", HISTORY) and found["history"] >= HISTORY_FLOOR
    # Samples that start from different states do not start at rest. If t adds nothing, either the free response is
    # negligible or the regression misses it.
    at_rest = False if timed or unknown_start else None if starts else True
    notes = []
    if unknown_start:
        notes.append("u(T_0) varies between samples and f(T_0) does not explain it: provide ic")
    if (left := min(plain, full)) > WEAK:
        share = f"state and input leave {_percent(left)} of the change of u unexplained"
        notes.append(f"{share}: noise, or a cause not in f")
    if offset := output_offset(data):
        told = [f"{c} lies about {at:.4g}" for c, at in zip(data.output_channels, offset, strict=True) if at]
        notes.append(f"{', '.join(told)}: models learn the difference")
    found["model"] = model_to_begin_with(data, causal is not False, not clocked, at_rest is True)
    verdicts = {"causal": causal, "autonomous": not clocked, "at_rest": at_rest, "notes": tuple(notes)}
    return Diagnosis(data.name, samples, **verdicts, **found)
