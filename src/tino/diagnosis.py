"""Do data look causal, autonomous, at rest, and is u the state? A test of a dataset itself, for data without a solver.

Four questions, each a comparison of regressions on held-out samples:

- clock: from the state at t_a and the input over [t_a, t_a + h], how does u change until t_a + h, and does knowing t_a
  help? Not under one law for all times, wherever the samples start.
- future: does the input after t_a + h help? Not in a causal system.
- history: from the input's past, zero before T_0, what is u(t), and does knowing t help? Not if it starts at rest.
- state: do earlier readings of u help to predict the next? Not if u is the state (``statehood.py``).

For the first two, x = (state, input), z the clock or the future: y - E[y | x] is regressed on (z - E[z | x]) ⊗ φ(x).
What a coarse regression misses of E[y | x] does not correlate with z - E[z | x], so it is not mistaken for z.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.polynomial.legendre import legvander
from torch import Tensor

from tino.blocks import Samples, samples_of
from tino.data import Dataset, check_dataset
from tino.grids import Periodic
from tino.models.closed import suits_waves
from tino.models.registry import flow_to_begin_with, model_to_begin_with
from tino.parts.start import starts_from_ic
from tino.progress import progress
from tino.regression import (
    MODES_IN,
    MODES_OUT,
    ROWS,
    STARTS,
    SURE,
    coefficients,
    gained,
    kernel_of,
    left_over,
    unit,
    waves,
)
from tino.seen import output_offset
from tino.sizes import check_sizes, state_channels
from tino.statehood import Readings, State, find_state, percent, white_noise

SHAPES, TAPS = 6, 12  # polynomials of the input in a window; blocks of its past
CLOCK, CLOCK_FLOOR = 0.03, 4e-5  # what the clock must explain of the unexplained and of the total,
FUTURE, FUTURE_FLOOR = 0.25, 2e-3  # and the future, which explains a little of the present if inputs are smooth
NOVELTY, INITIAL = 0.1, 0.1  # least unpredictable share of the future input; most of u's spread at T_0 not due to f
HISTORY, HISTORY_FLOOR = 1.1, 5e-3  # the factor by which knowing t must divide the error, and an error worth dividing
HIDDEN, WEAK = 0.5, 0.4  # velocities that explain this much belong to the state; this much unexplained is worth a note
EXPLAINED = 0.1  # the most that state and input may leave over a window, if there are shorter blocks to choose from


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
    history: float | None  # unexplained share of u(t), given the input's past; None: starts are not known
    history_ratio: tuple[float, float] | None  # what knowing t divides it by; in standard errors
    noise: float  # white noise of u, as a share of its change over a window
    initial: float | None  # the spread of u(T_0) that f(T_0) does not explain, as a share of the spread of u
    causal: bool | None  # None: the inputs are too regular to tell
    autonomous: bool | None  # one law for all times; None: one record cannot tell
    at_rest: bool | None  # the past of the input is enough; None: the starts differ and t adds nothing, or are unknown
    state: State  # is u the state, or how many delays of it?
    model: str
    network: str  # to try beside it
    notes: tuple[str, ...]
    records: int
    block: int | None = None  # times of a sample, if records were cut into blocks
    unknown_starts: str = ""  # why the starts are not known
    unknown_clock: str = ""  # why a clock cannot be told

    @property
    def delays(self) -> int | None:
        """Readings of u that make up the state: 1 if u is the state. None: cannot tell."""
        return self.state.delays

    @property
    def time_invariant(self) -> bool | None:
        """All three; data assumed causal count as causal. None: cannot tell."""
        if self.causal is False or self.autonomous is False:
            return False
        return None if self.autonomous is None else self.at_rest

    def __str__(self) -> str:
        future = f"the future input explains {percent(self.future[0])} of the variance left by state and input"
        if self.causal is None:
            future = f"the future input is {100 * (1 - self.novelty):.3g} % predictable: assumed causal"
        clock = f"time explains {percent(self.clock[0])} of the variance left by state and input"
        if self.autonomous and self.velocity >= HIDDEN:
            clock += f", velocities {percent(self.velocity)}"
        if self.autonomous is None:
            clock = f"{self.unknown_clock}; assumed autonomous"
        blocks = f"blocks of {self.block} times from {self.records} record{'s' * (self.records > 1)}"
        many = f"{self.samples} {'samples' if self.block is None else blocks}"
        lines = [f"{self.name}, {many} examined"]
        verdicts = {"causal": self.causal, "autonomous": self.autonomous, "starts at rest": self.at_rest}
        for (label, verdict), why in zip(verdicts.items(), (future, clock, self._start()), strict=True):
            word = "cannot tell" if verdict is None else "yes" if verdict else "no"
            lines.append(f"  {label:16}{word:13}{why}")
        lines += [f"  {'state':16}{self.state}", f"  so it is        {self.word}"]
        first = self.model if self.model == self.network else f"{self.model}; of the networks, {self.network}"
        return "\n".join([*lines, f"  begin with      {first}", *[f"  note: {note}" for note in self.notes]])

    def _start(self) -> str:
        if self.history is None or self.history_ratio is None:
            return self.unknown_starts
        left = f"past inputs leave {percent(self.history)} of u unexplained"
        if self.at_rest is None:
            return f"samples start from different states (ic); {left}"
        if not self.at_rest and self.history_ratio[0] < HISTORY:
            return "the samples start from states that are not provided"
        return f"{left}; with the time, {percent(self.history / self.history_ratio[0])}"

    @property
    def word(self) -> str:
        if self.causal is False or self.autonomous is False:
            return "not causal" if self.causal is False else "not autonomous"
        if self.autonomous is None:
            return "taken to be autonomous; at rest or not: cannot tell"
        if self.at_rest is None:
            return "autonomous; at rest or not: cannot tell"
        return "time-invariant" if self.at_rest else "autonomous, not at rest"

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "time_invariant": self.time_invariant, "delays": self.delays}


def diagnose(data: Dataset, seed: int = 0, show_progress: bool = True) -> Diagnosis:
    """Measure the four effects on at most 200 samples drawn with the seed (fewer than 20 records are cut into blocks of
    time), and name a model to begin with."""
    check_dataset(data, "data")
    candidates = samples_of(data, seed)
    first = next(candidates)  # an error if there are too few
    check_sizes(data)
    with torch.no_grad(), progress(f"diagnosing {data.name}", 7, show_progress) as advance:
        samples, f, u = _chosen(data, first, candidates)
        outputs, ic = len(data.output_channels), None
        if samples.ic is not None and data.ic is not None and bool((data.ic != data.ic[0]).any()):
            states = len(state_channels(data, data.ic.shape[1]))
            ic = coefficients(samples.ic[:, None], "ic", states, MODES_OUT, True)
        advance()
        found = _flow(f, u, samples, advance)
        if samples.unknown_starts:
            found |= {"history": None, "history_ratio": None, "initial": None}
        else:
            found |= _history(f, u, ic, samples.half)
            (left,) = left_over(kernel_of([unit(f[:, :1])]), [u[:, 0]], samples.half)
            found["initial"] = float(left.square().sum(1).mean() / u.var((0, 1)).sum())
        advance(2)
        found["autonomous"] = None if samples.unknown_clock else not _clocked(found)
        read = Readings(f, u, samples.u, outputs, samples.half, samples.begin, samples.share)
        state = find_state(read, seed, found["autonomous"] is False)
        found["state"] = replace(state, stride=state.stride * samples.every)
        advance()
    return _verdict(data, samples, ic is not None, found)


def _chosen(data: Dataset, first: Samples, others: Iterator[Samples]) -> tuple[Samples, Tensor, Tensor]:
    """The longest blocks over whose windows state and input explain nearly all, or else the most; and their POD
    coefficients."""

    def read(samples: Samples) -> tuple[Samples, Tensor, Tensor]:
        f = coefficients(samples.f, "f", len(data.input_channels), MODES_IN, False)
        return samples, f, coefficients(samples.u, "u", len(data.output_channels), MODES_OUT, True)

    found = read(first)
    if first.block is None:
        return found
    least = _left(*found)
    for other in others:
        if least <= EXPLAINED:
            break
        one = read(other)
        if (left := _left(*one)) < least:
            found, least = one, left
    return found


def _evenly(count: int, samples: int) -> Tensor:
    """The same clock times in [0, 1] for all samples, (n, w)."""
    return torch.linspace(0, 1, count, dtype=torch.float64).expand(samples, -1)


@dataclass(frozen=True)
class Windows:
    """Windows [t_a, t_a + h] of a tenth of the samples (n, t, j). Their first quarter is left out: while all samples
    still come from one state, the state reveals the time."""

    f: Tensor
    u: Tensor
    h: int
    starts: Tensor  # (w,)

    @staticmethod
    def of(f: Tensor, u: Tensor) -> "Windows":
        (samples, n_t), h = u.shape[:2], max(2, round(u.shape[1] / 10))
        starts = torch.linspace(round(n_t / 4), n_t - 1 - 2 * h, min(STARTS, ROWS // samples)).round().long().unique()
        return Windows(f, u, h, starts)

    def inputs(self, first: Tensor) -> Tensor:
        """Moments of the input over the windows that begin there, (n, w, k j)."""
        basis = torch.from_numpy(legvander(np.linspace(-1, 1, self.h + 1), min(SHAPES - 1, self.h)))  # (h + 1, k)
        inside = self.f[:, first[:, None] + torch.arange(self.h + 1)]  # (n, w, h + 1, j)
        return unit(torch.einsum("nswj,wk->nskj", inside, basis).flatten(2))

    def given(self) -> list[Tensor]:
        """Input and state; and the velocity."""
        u, starts = self.u, self.starts
        before = u[:, starts[:, None] - torch.arange(1, self.h // 2 + 1)].mean(2)  # a mean: noise must not hide it
        return [self.inputs(starts), unit(u[:, starts]), unit(u[:, starts] - before)]

    @property
    def change(self) -> Tensor:
        return self.u[:, self.starts + self.h] - self.u[:, self.starts]


def _left(samples: Samples, f: Tensor, u: Tensor) -> float:
    """What state, velocity and input leave of the change of u over a window."""
    windows = Windows.of(f, u)
    (left,) = left_over(kernel_of(windows.given()), [unit(windows.change).flatten(0, 1)], samples.half)
    return float(left.square().sum(1).mean())


def _flow(f: Tensor, u: Tensor, samples: Samples, advance: Any) -> dict[str, Any]:
    """The clock's and the future's part in the change of u over a window."""
    windows, half, n = Windows.of(f, u), samples.half, len(u)

    def explained(y: Tensor, z: Tensor, kernel: Tensor) -> tuple[float, float]:
        (after,) = left_over(kernel * (z @ z.T) / z.square().sum(1).mean().clamp_min(1e-30), [y], half)
        advance()
        return gained(y, after, n)

    clock = samples.begin + samples.share * _evenly(len(windows.starts), n)
    future = windows.inputs(windows.starts + windows.h)
    targets = [unit(windows.change).flatten(0, 1), waves(clock), future.flatten(0, 1)]
    given = windows.given()
    plain, full = kernel_of(given[:2]), kernel_of(given)
    y, clock, news = left_over(plain, targets, half)
    y_full, clock_full = left_over(full, targets[:2], half)
    return {
        "unexplained": float(y.square().sum(1).mean()),
        "clock": explained(y, clock, plain),
        "velocity": gained(y, y_full, n)[0],
        "clock_beside": explained(y_full, clock_full, full),
        "novelty": float(news.square().sum(1).mean()),
        "future": explained(y, news, plain),
        "noise": white_noise(u) / float(windows.change.var((0, 1)).sum().clamp_min(1e-30)),
    }


def _history(f: Tensor, u: Tensor, ic: Tensor | None, half: Tensor) -> dict[str, Any]:
    """u(t) from f(t), the sums of f over TAPS blocks of its past, zero before T_0, and ic: without t and with it."""
    samples, n_t = u.shape[:2]
    times = torch.linspace(0, n_t - 1, min(STARTS, ROWS // samples)).round().long().unique()
    block = (times[:, None] - torch.arange(n_t)) * TAPS // n_t  # (times, t): of each lag, negative for the future
    sums = torch.einsum("kst,ntj->knsj", (block == torch.arange(TAPS)[:, None, None]).double(), f)
    states = [] if ic is None else [ic.expand(-1, len(times), -1)]
    kernel = kernel_of([unit(part) for part in (f[:, times], *sums, *states)])
    clock, target = waves(_evenly(len(times), samples)), [unit(u[:, times]).flatten(0, 1)]
    (without,), (given,) = (left_over(k, target, half) for k in (kernel, kernel * (1 + clock @ clock.T)))
    share, sure = gained(without, given, samples)
    return {"history": float(without.square().sum(1).mean()), "history_ratio": (1 / max(1 - share, 1e-30), sure)}


def _helps(found: dict[str, Any], what: str, share: float, floor: float = 0.0, of: float = 1.0) -> bool:
    gain, sure = found[what]
    return gain >= share and gain * of >= floor and sure >= SURE


def _clocked(found: dict[str, Any]) -> bool:
    """In a motion that all samples share, the time reveals what u does not show of the state: velocities, or what noise
    hides. So a clock must rival the velocities, and help beside them by more than the noise of two readings."""
    beside = found["unexplained"] * (1 - found["velocity"])
    rivals = _helps(found, "clock", HIDDEN if found["velocity"] >= HIDDEN else CLOCK)
    return rivals and _helps(found, "clock_beside", CLOCK, max(CLOCK_FLOOR, found["noise"] / 2), beside)


def _verdict(data: Dataset, samples: Samples, starts: bool, found: dict[str, Any]) -> Diagnosis:
    """``starts``: the samples start from different states, given as ic."""
    plain, full = found["unexplained"], found["unexplained"] * (1 - found["velocity"])
    causal = None if found["novelty"] < NOVELTY else not _helps(found, "future", FUTURE, FUTURE_FLOOR, plain)
    known = not samples.unknown_starts
    unknown_start = known and found["initial"] > INITIAL and data.ic is None and causal is not False
    timed = known and _helps(found, "history_ratio", HISTORY) and found["history"] >= HISTORY_FLOOR
    # Samples from different states do not start at rest. If t adds nothing, the regression may miss the free response.
    at_rest = False if timed or unknown_start else None if starts or not known else True
    notes = []
    if unknown_start:
        notes.append("u(T_0) varies between samples and f(T_0) does not explain it: provide ic")
    if (left := min(plain, full)) > WEAK:
        share = f"state and input leave {percent(left)} of the change of u unexplained"
        notes.append(f"{share}: noise, or a cause not in f")
    if offset := output_offset(data):
        told = [f"{c} lies about {at:.4g}" for c, at in zip(data.output_channels, offset, strict=True) if at]
        notes.append(f"{', '.join(told)}: models learn the difference")
    forgets = at_rest is True or not known  # where starts are not known, the time since them means nothing
    found["network"] = model_to_begin_with(data, causal is not False, found["autonomous"] is not False, forgets)
    waves = isinstance(data.outputs, Periodic) and suits_waves(data) and found["state"].word == "u itself"
    flow = flow_to_begin_with(data, found["autonomous"] is not False, waves)
    found["model"] = flow if causal is not False and starts_from_ic(data) else found["network"]
    found |= {key: getattr(samples, key) for key in ("records", "block", "unknown_starts", "unknown_clock")}
    return Diagnosis(data.name, len(samples.u), causal=causal, at_rest=at_rest, notes=tuple(notes), **found)
