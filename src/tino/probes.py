"""The runs behind a certificate: inputs of several sizes kicked, shifted and given step by step, with several states.

Every number is |change| / effect, the largest over records and channels. For a record kicked after the cut c,
f'_k = f_k for k <= c,

    leak = max_{i <= c} |G[f']_i - G[f]_i| / max_i |G[f']_i - G[f]_i|        (0: causal; 1: all of it comes too early)

A leak near T_0 may be small beside a response that grows later. So a change that is nothing by this is compared again,
with the response up to the cut:

    leak = max_{i <= c} |G[f']_i - G[f]_i| / max_{i <= c} |G[f]_i - G[0]_i|  (1 if it is more)

The rounding of an FFT over all times may be larger than that response. So this counts only where the change of the
outputs follows the kick: each third of the kick gives a third of the change, within a tenth, six times in a row.

For records of size s, with E_s = max |G[s f] - G[0]|, the effect of the input on the output,

    defect = max_{i >= τ} |G[shift_τ s f]_i - G[s f]_{i-τ}| / E_s            (the shift pads with zeros)
    drift = max_i |G[0]_i - G[0]_0| / E_1                                    (of the data: noise may make it run away)
    clock = max_i |u_i told another number of inputs - u_i| / E_s            (of an operator that runs step by step)
    mismatch = max_i |u_i step by step - G[s f]_i| / E_s

A flow starts from a state: its record is started from the state after τ silent inputs, so that no step straddles the
jump of f at T_0.

Rounding is R = 64 ε U, U the largest |u| of the run, or max(1, s) times that at size 1 if it is larger; for drift, U is
that of the run without input or those of the data. A property holds where every change <= tolerance * effect + R. Where
one is larger, R is at least 16 times how far these outputs move if the inputs move by 4096 ε of the largest: a steep
read-out such as exp, or an unstable flow, magnifies the rounding before it. A change <= R, or one without an effect to
compare it with, is given relative to U if U > effect.
"""

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from tino.calls import BATCH_NUMBERS, at_once, call, model_name
from tino.errors import TinoError
from tino.operator import Operator
from tino.subjects import SAMPLES, Found, Subject, Worst, rounding

SIZES = (1.0, 1e-4, 1e-2, 10.0, 100.0)  # of inputs and kicks, relative to the largest input of each channel
FIRST_CUTS = 8  # at size 1: an operator that leaks there is kicked no further
WORK = 4 * BATCH_NUMBERS  # numbers in all kicked records together, at most
SLOW, PATIENCE, FEWEST = 1.0, 20.0, 16  # seconds of the probes; of all runs, when so many kicks are done
CALMER = 20  # times that noise at which an operator overflows is divided by 4
STATES = ("as given", "zero", "10 times", "random")


@dataclass(frozen=True)
class Kick:
    """After the cut, the record of a probe is changed by noise of a size."""

    cut: int  # the last time left unchanged
    probe: int
    size: float
    form: str  # scaled: the whole record has the size too; replaced: what follows is the noise alone; added

    @property
    def base(self) -> float:
        """The size of the record before the cut."""
        return self.size if self.form == "scaled" else 1.0


def initial_states(ic: Tensor, generator: torch.Generator) -> Tensor:
    """The probes' states: typical and untypical ones, by rows as in STATES for the samples, from 1 on for the noise."""
    ic = ic[torch.arange(SAMPLES) % len(ic)]
    size = float(ic.abs().max()) or 1.0
    random = size * torch.randn(ic.shape, generator=generator, dtype=ic.dtype)
    large = torch.where((ic == 0).all(1, keepdim=True), 10 * random.flip(0), 10 * ic)
    kinds = (ic, torch.zeros_like(ic), large, random)
    return torch.stack([kinds[(row + row // SAMPLES) % 4][row % SAMPLES] for row in range(2 * SAMPLES)])


def takes_a_state(model: nn.Module) -> bool:
    """Whether it may be called with a state or without; an ``Operator`` knows which, by its frame."""
    if isinstance(model, Operator):
        return False
    words = [p for p in inspect.signature(model.forward).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    return len(words) > 1 and words[1].default is None


def examine(subject: Subject, steps: bool) -> Found:
    """All runs. One that leaks at size 1 is measured no further: other sizes could not change the verdict."""
    found, begun = Found(), time.perf_counter()
    silent = torch.zeros_like(subject.f if subject.ic is not None else subject.f[:1])
    u, silence = {1.0: _calmed(subject, found)}, subject(silent, subject.ic)
    subject.silence = silence.expand(len(subject.f), -1, -1)
    subject.slow, subject.ends = time.perf_counter() - begun > SLOW, begun + PATIENCE
    if not bool(torch.isfinite(u[1.0]).all() and torch.isfinite(silence).all()):
        raise _not_finite(subject)
    subject.usual = torch.maximum(subject.largest_of(u[1.0]).amax(0), subject.largest_of(silence).amax(0))
    subject.effect[1.0] = subject.largest_of(u[1.0] - silence).amax(0)
    _drift(subject, u[1.0][:SAMPLES], silence, found)
    cuts = spread(FIRST_CUTS, subject.f.shape[1] - 1, subject)
    _kick(subject, [Kick(c, k % len(subject.f), 1.0, "added") for k, c in enumerate(cuts)], u, found)
    if found.leak.holds:
        if not subject.slow:
            subject.together = at_once(subject.f.shape[1], max(u[1.0].shape[2], subject.f.shape[2]))
        other = torch.cat([size * subject.f for size in SIZES[1:]])
        answers = subject(other, None if subject.ic is None else subject.ic.repeat(len(SIZES) - 1, 1))
        for size, answer in zip(SIZES[1:], answers.split(len(subject.f)), strict=True):
            if torch.isfinite(answer).all():
                u[size], subject.effect[size] = answer, subject.largest_of(answer - silence).amax(0)
            else:
                found.overflows.add(size)
        rows = WORK // (subject.f.shape[1] * max(u[1.0].shape[2], subject.f.shape[2], 64))
        _kick(subject, _plan(subject, list(u), rows), u, found)
    _shift(subject, u, found)
    subject.advance()
    if steps:
        _by_steps(subject, u, found)
    if not found.kicks:
        raise _not_finite(subject)
    return found


def _drift(subject: Subject, u: Tensor, silence: Tensor, found: Found) -> None:
    """Relative to the answers u to the data: noise at which the operator runs away would hide the drift."""
    effect = subject.largest_of(u - subject.silence[: len(u)]).amax(0)
    size = torch.maximum(subject.largest_of(u).amax(0), subject.largest_of(silence))  # of each silent run
    found.drift.take(subject.largest_of(silence - silence[:, :1]), effect, size, 1.0, subject.tolerance)


def _calmed(subject: Subject, found: Found) -> Tensor:
    """The answers to the probes. Noise at which they are not finite is made smaller: a polynomial may overflow."""
    answers = subject(subject.f, subject.ic)
    for _ in range(CALMER):
        wild = ~torch.isfinite(answers).flatten(1).all(1) & (torch.arange(len(answers)) >= SAMPLES)
        if not bool(wild.any()):
            break
        found.overflows.add(1.0)
        subject.f = torch.where(wild[:, None, None], subject.f / 4, subject.f)
        answers = subject(subject.f, subject.ic)
    return answers


def _not_finite(subject: Subject) -> TinoError:
    name = model_name(subject.operator)
    return TinoError(f"{name} returns NaN or infinite values: nothing can be certified")


def spread(count: int, total: int, subject: Subject) -> list[int]:
    """``count`` of 0 ... total - 1, or all: one at random from each of equal stretches, so that they cover it."""
    edges = [round(k * total / min(count, total)) for k in range(min(count, total) + 1)]
    return [a + subject.up_to(b - a) for a, b in pairwise(edges)]


def _plan(subject: Subject, sizes: Sequence[float], rows: int) -> list[Kick]:
    """Every cut with every size and form; if those are too many, every cut with some, or some cuts with one each."""
    kinds = [(s, form) for s in sizes for form in ("scaled", "replaced", "added") if s < 1 or form != "added"]
    kinds.remove((1.0, "replaced"))  # like the scaled one
    cuts, probes, turn = subject.f.shape[1] - 1, len(subject.f), subject.up_to(len(kinds))
    kicks = []
    for round_ in range(max(1, min(len(kinds), rows // cuts))):
        for k, cut in enumerate(spread(max(rows, len(kinds)), cuts, subject)):
            size, form = kinds[(k + round_ + turn) % len(kinds)]
            kicks.append(Kick(cut, subject.up_to(probes), size, form))
    return kicks


def _kick(subject: Subject, kicks: list[Kick], u: dict[float, Tensor], found: Found) -> None:
    """The largest change before the kick, relative to the largest at any time; of a slow model, fewer kicks."""
    times, number = torch.arange(subject.f.shape[1]), subject.f.new_tensor
    if subject.slow:  # what is done in time is spread over all cuts, sizes and forms
        kicks = [kicks[k] for k in torch.randperm(len(kicks), generator=subject.generator).tolist()]
    for start in range(0, len(kicks), subject.together):
        if start >= FEWEST and subject.late:
            subject.advance((len(kicks) - start) / len(kicks))
            break
        now = kicks[start : start + subject.together]
        rows, cuts = torch.tensor([kick.probe for kick in now]), torch.tensor([kick.cut for kick in now])
        later = (times > cuts[:, None])[..., None]  # (b, t, 1)
        f = number([kick.base for kick in now])[:, None, None] * subject.f[rows]
        noise = number([kick.size for kick in now])[:, None, None] * subject.noise(*f.shape)
        kept = number([kick.form != "replaced" for kick in now])[:, None, None]
        kicked, ic = torch.where(later, kept * f + noise, f), None if subject.ic is None else subject.ic[rows]
        answers = subject(kicked, ic)
        subject.advance(len(now) / len(kicks))
        before = torch.stack([u[kick.base][kick.probe] for kick in now])
        if bool(((answers - before).masked_fill(later, 0.0) != 0).any()):  # rounding may depend on the batch: same rows
            before = subject(f, ic)
        change = answers - before
        early, ever = subject.largest_of(change.masked_fill(later, 0.0)), subject.largest_of(change)
        at_all = torch.maximum(subject.largest_of(answers), subject.largest_of(before))
        for row, kick in enumerate(now):
            if not bool(torch.isfinite(at_all[row]).all()):
                found.overflows.add(kick.size)
                continue
            size = torch.maximum(at_all[row], max(1.0, kick.size) * subject.usual)
            one = (kicked[row : row + 1], None if ic is None else ic[row : row + 1], later[row : row + 1])
            moves = partial(subject.moves, *one)
            found.leak.take(early[row], ever[row], size, kick.size, subject.tolerance, moves)
            small = early[row] * (early[row] <= subject.tolerance * ever[row] + rounding(size))
            if bool(small.any()):
                _beside_growth(
                    subject, kick, small, before[row], partial(subject.follow, f[row : row + 1], *one), found
                )
            found.cuts.add(kick.cut)
            found.sizes.add(kick.size)
            found.kicks += 1


def _beside_growth(
    subject: Subject, kick: Kick, early: Tensor, before: Tensor, follow: Callable[[], Tensor], found: Found
) -> None:
    """A change up to the cut, (c,), small beside that at any time: is it large beside the response u (t, x) so far?"""
    u = before[: kick.cut + 1]
    near, so_far = subject.largest_of(torch.stack([u, u - subject.silence[kick.probe, : kick.cut + 1]]))
    effect = torch.maximum(so_far, early)
    large = early > subject.tolerance * effect + rounding(near)
    if bool(large.any()):
        found.leak.take(early * (large & follow()), effect, near, kick.size, subject.tolerance)


def _shift(subject: Subject, u: dict[float, Tensor], found: Found) -> None:
    """By one step and by a random number in each quarter of the first half; at other sizes by one of these."""
    n_t = subject.f.shape[1]
    shifts = sorted({1, *(1 + s for s in spread(2, max(1, n_t // 2), subject))})
    tried = [(size, steps) for size in u for steps in (shifts if size == 1 else [shifts[subject.up_to(len(shifts))]])]
    if not found.leak.holds:  # not time-invariant anyway
        tried = tried[-1:]
    elif subject.late:
        tried = [tried[subject.up_to(len(shifts))]]  # at size 1
    if starts_from_a_state(subject.operator):
        answers = [_after_silence(subject, size * subject.f, k) for size, k in tried]
    else:
        f = torch.cat(
            [size * torch.cat([torch.zeros_like(subject.f[:, :k]), subject.f[:, : n_t - k]], 1) for size, k in tried]
        )
        ic = None if subject.ic is None else subject.ic.repeat(len(tried), 1)
        answers = subject(f, ic).split(len(subject.f))
    for (size, steps), answer in zip(tried, answers, strict=True):
        if bool(torch.isfinite(answer).all()):
            change = subject.largest_of(answer[:, steps:] - u[size][:, : n_t - steps]).amax(0)
            response = torch.maximum(subject.largest_of(u[size]).amax(0), max(1.0, size) * subject.usual)
            moves = partial(subject.moves, size * subject.f, subject.ic)
            found.defect.take(change, subject.effect[size], response, size, subject.tolerance, moves)
        else:
            found.overflows.add(size)


def starts_from_a_state(operator: nn.Module) -> bool:
    """Whether it is a flow, which says how a record starts from a state."""
    return isinstance(operator, Operator) and type(operator).restarted is not Operator.restarted


def _after_silence(subject: Subject, f: Tensor, steps: int) -> Tensor:
    """The answers to k silent inputs, then to the record started from the state after them, (p, t, x)."""
    operator, f = subject.operator, f.to(subject.at)
    assert isinstance(operator, Operator)
    ic = None if subject.ic is None else subject.ic.to(subject.at)
    state, u = operator.start(torch.zeros_like(f[:, 0]), ic)
    state, silent = operator.run(state, torch.zeros_like(f[:, 1:steps]))
    memory, u_0 = operator._first(operator.restarted(state.memory), f[:, 0])
    _, later = operator.run(replace(state, memory=memory, i=1), f[:, 1 : f.shape[1] - steps])
    return torch.cat([u[:, None], silent, operator.with_offset(u_0)[:, None], later], 1).cpu()


def _by_steps(subject: Subject, u: dict[float, Tensor], found: Found) -> None:
    """How far outputs move when a state is given another number of inputs, and how far they miss the record's."""
    operator, n_t = subject.operator, subject.f.shape[1]
    assert isinstance(operator, Operator)
    clock, mismatch = found.clock, found.mismatch = Worst(), Worst()
    tried = [(1.0, p) for p in range(0, len(subject.f), 2)]  # with each kind of state
    tried += [(size, SAMPLES * (k % 2)) for k, size in enumerate(u) if size != 1]
    tried = [tried[0], tried[2]] if subject.late else tried  # of the data, and of the noise
    rows = torch.tensor([p for _, p in tried])
    f = torch.stack([size * subject.f[p] for size, p in tried]).to(subject.at)
    ic = None if subject.ic is None else subject.ic[rows].to(subject.at)
    cuts = {1, *(1 + s for s in spread(2, max(1, n_t // 2), subject) if not subject.late)}
    state, u_0 = operator.start(f[:, 0], ic)
    answers, reached = [u_0], {}
    for i in range(1, n_t):
        reached |= {i: state} if i in cuts else {}
        state, u_i = operator.step(state, f[:, i])
        answers.append(u_i)
    stepped = torch.stack(answers, 1)

    def take(worst: Worst, change: Tensor) -> None:
        largest = subject.largest_of(change.cpu().nan_to_num(torch.inf))
        for (size, p), one in zip(tried, largest, strict=True):
            response = torch.maximum(subject.largest_of(u[size][p : p + 1])[0], max(1.0, size) * subject.usual)
            moves = partial(subject.moves, size * subject.f, subject.ic)
            worst.take(one, subject.effect[size], response, size, subject.tolerance, moves)

    take(mismatch, stepped - call(operator, f, ic))  # the same rows: rounding may depend on the batch
    for k, known in reached.items():
        for told in (0, n_t - 1 - k):  # another number of inputs, with room for more steps
            steps = min(n_t if k == 1 else 8, n_t - k, n_t - told)  # once through all numbers
            _, moved = operator.run(replace(known, i=told), f[:, k : k + steps])
            take(clock, moved - stepped[:, k : k + steps])
