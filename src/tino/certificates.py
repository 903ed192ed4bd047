"""Properties of an operator, measured on the operator itself and compared with what its parts promise.

On any module called as ``model(f, ic) -> u``: leak (does a later input change an earlier output?), defect (does a
shifted input give the shifted output?) and drift (does zero input leave the start state unchanged?). On an operator
that runs step by step also clock (does the output depend on the number of inputs so far?) and mismatch (step by step
against the whole record). ``tino.probes`` has their formulas and makes the runs: inputs of five sizes, from a
10 000th of the largest input to a hundred times it, typical and untypical initial states, and every cut of the record,
or as many as a bound on the work allows, spread over the record at random.

A measurement shows what happens on the inputs tried, a proof by the parts what happens on all. ``clock`` does not see a
counter that an operator keeps in memory.
"""

import copy
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tino.calls import call, model_name
from tino.channels import split_channels
from tino.data import Dataset, check_values
from tino.errors import CertificateError, TinoError, TinoWarning
from tino.frame import numbers
from tino.operator import Operator, Properties
from tino.probes import STATES, examine, initial_states, takes_a_state
from tino.progress import progress
from tino.subjects import SAMPLES, Found, Subject, Worst

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-4}
LONGEST = 1000  # times that are run of a longer record
WIDTH = 80  # columns of a terminal
WHY = "it magnifies rounding (a smaller lr or validation=0.1 may help), or its code is wrong"


@dataclass(frozen=True)
class Certificate:
    """What was measured (None where it cannot be), and what the parts promise (None where they promise nothing)."""

    name: str
    leak: float  # these five are relative to the effect of the input on the output (tino.probes)
    defect: float
    drift: float
    clock: float | None
    mismatch: float | None
    causal: bool
    autonomous: bool | None
    at_rest: bool
    time_invariant: bool  # all three, and the shift
    derived: Properties
    cuts: int  # times after which the input was changed,
    all_cuts: int  # of so many
    kicks: int  # changed records
    sizes: tuple[float, ...]  # of inputs and changes, relative to the largest input
    overflows: tuple[float, ...]  # sizes at which it does not stay finite: not measured there
    states: tuple[str, ...]  # initial states tried
    seed: int
    worst: dict[str, float]  # leak, ...: the size at which it is largest
    steps_match: bool = True  # step by step and the whole record agree

    @property
    def declared(self) -> dict[str, bool | None]:
        words = ("causal", "autonomous", "at_rest", "time_invariant")
        return {word: getattr(self.derived, word) for word in words}

    @property
    def word(self) -> str:
        """Time-invariant, or autonomous if it only fails to start at rest."""
        if self.time_invariant:
            return "time-invariant"
        return "autonomous, not at rest" if self.causal and self.autonomous else "not time-invariant"

    @property
    def notes(self) -> tuple[str, ...]:
        words = [f"not {word}" for word, promised, measured, _ in self._verdicts if promised is False and measured]
        found = [f"{', '.join(words)} by its parts, but measures so on these inputs"] if words else []
        found += [f"{told}: {WHY}" for told in self.contradictions]
        if self.states == ("left out",):
            found.append("it takes an initial state, which was left out: others may change what was measured")
        if never := [size for size in self.overflows if size not in self.sizes]:
            found.append(f"not finite, so not measured, at {_times(never)} the largest input")
        if some := [size for size in self.overflows if size in self.sizes]:
            found.append(f"not finite for some inputs of {_times(some)} the largest: measured on the others")
        return tuple(found)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What the parts promise and the measurement denies."""
        found = tuple(
            f"it should be {word} by its parts, but measures otherwise ({self._at(number)})"
            for word, promised, measured, number in self._verdicts
            if promised and measured is False
        )
        differs = f"it differs between step by step and the whole record (by {_short(self.mismatch or 0.0)})"
        return found if self.steps_match else (*found, differs)

    @property
    def _verdicts(self) -> list[tuple[str, bool | None, bool | None, str]]:
        """Property, promised, measured, the number behind it."""
        behind = {"causal": "leak", "autonomous": "clock", "at_rest": "drift", "time_invariant": "defect"}
        return [
            (word, self.declared[key], getattr(self, key), self._number(behind[key]))
            for key, word in zip(behind, ("causal", "autonomous", "at rest", "time-invariant"), strict=True)
        ]

    def _number(self, name: str) -> str:
        return f"{name} {_short(getattr(self, name) or 0.0)}"

    def _at(self, number: str) -> str:
        """With the size of the input, if it is not the usual one."""
        size = self.worst.get(number.split()[0], 1.0)
        return number if size == 1 else f"{number} at {_times((size,))} the largest input"

    def __str__(self) -> str:
        known = [verdict for verdict in self._verdicts if verdict[2] is not None]
        words = ", ".join(f"{'' if measured else 'not '}{word}" for word, _, measured, _ in known)
        lines = [f"{self.name}: {words}", *(self._line(*verdict) for verdict in known)]
        if self.derived.reasons and not self.time_invariant:
            lines.append(f"why: {' and '.join(self.derived.reasons)}")
        lines.append(f"tried: {self._tried}")
        lines += [f"note: {note}" for note in self.notes]
        wrapped = (
            textwrap.wrap(_plain(line), WIDTH - 2 * (k > 0), subsequent_indent="  ") for k, line in enumerate(lines)
        )
        return "\n".join(f"{'  ' * (k > 0)}{part}" for k, parts in enumerate(wrapped) for part in parts)

    def _line(self, word: str, promised: bool | None, measured: bool | None, number: str) -> str:
        if not measured:
            return f"not {word}: {'by construction, and ' * (promised is False)}measured, {self._at(number)}"
        if promised:
            return f"{word}: proved by construction, and measured to {number.split(' ', 1)[1]}"
        return f"{word}: {'not proved, ' * (promised is None)}measured {self._where(word)}, {number}"

    def _where(self, word: str) -> str:
        if word == "at rest":
            return "without input"
        at = f"at {self.cuts} cuts and " if word == "causal" else "at "
        return f"{at}{len(self.sizes)} size{'s' * (len(self.sizes) > 1)}"

    @property
    def _tried(self) -> str:
        sizes = f"{_times(self.sizes)} the largest input"
        states = f"; initial state {', '.join(self.states)}" if self.states else ""
        return f"{self.cuts} of {self.all_cuts} cuts, {self.kicks} kicks; {sizes}{states}; seed {self.seed}"

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "declared": self.declared, "word": self.word, "notes": self.notes}


def _plain(line: str) -> str:
    return " ".join(line.split())


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"


def _times(sizes: Sequence[float]) -> str:
    return f"{', '.join(f'{size:g}' for size in sizes)} times"


def certify(
    model: nn.Module,
    data: Dataset | Tensor,
    *,
    ic: Tensor | None = None,
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    seed: int = 0,
    strict: bool = True,
    show_progress: bool = True,
) -> Certificate:
    """Measure the model's properties on a few inputs, and compare them with what its parts promise.

    ``data`` provides typical inputs: a dataset, or f (n, t, m). The model itself is not changed: a copy runs in
    ``dtype``. Of records longer than a thousand times, the first thousand are run if the model takes them. The seed
    moves the noise and, where not all are tried, the cuts. A property the parts promise but the
    measurement denies is an error (CertificateError), or a warning if not ``strict``; one the parts deny but the
    measurement shows is a note.
    """
    if dtype not in TOLERANCE:
        raise TinoError(f"certify measures in torch.float64 or torch.float32, got {dtype}")
    if isinstance(data, Dataset):
        f, ic = data.f, data.ic if ic is None else ic
    elif isinstance(data, Tensor):
        f = data
    else:
        raise TinoError(f"certify takes a Dataset or a tensor f, got {type(data).__name__}")
    check_values(f, "f")
    if f.ndim != 3 or f.shape[1] < 2:
        raise TinoError(f"f has shape {tuple(f.shape)}, expected (samples, times, sensors)")
    if isinstance(model, Operator) and model.longest is None:
        f = f[:, :LONGEST]
    tolerance = TOLERANCE[dtype] if tolerance is None else tolerance
    at = numbers(model, f).device
    operator = copy.deepcopy(model).eval()
    operator = operator.double() if dtype == torch.float64 else operator.float()  # complex numbers stay complex
    generator = torch.Generator().manual_seed(seed)
    typical = f[torch.arange(SAMPLES) % len(f)].to("cpu", dtype)
    about = model.frame if isinstance(model, Operator) else data if isinstance(data, Dataset) else None
    inputs, outputs = (1, 1) if about is None else (len(about.input_channels), len(about.output_channels))
    size = _largest(f, inputs).to("cpu", dtype)
    probes = torch.cat([typical, size * torch.randn(typical.shape, generator=generator, dtype=dtype)])
    derived = model.properties if isinstance(model, Operator) else Properties()
    by_steps = isinstance(model, Operator) and bool(derived.causal)
    with torch.no_grad():
        ways = _ways(operator, probes.to(at), None if ic is None else ic.to("cpu", dtype), generator)
    runs = []
    with progress(f"certifying {model_name(model)}", 3 * len(ways), show_progress) as advance, torch.no_grad():
        for states in ways:
            subject = Subject(operator, probes, states, size, outputs, tolerance, generator, at, advance)
            runs.append(examine(subject, by_steps))
    given = () if ic is None else STATES
    tried = (
        *given,
        *(("left out",) if takes_a_state(operator) else ()),
        *(STATES[1:] if not given and ways[1:] else ()),
    )
    found = _certificate(model_name(model), runs, derived, f.shape[1] - 1, tried, seed)
    if found.contradictions:
        broken = f"{found.name} {found.contradictions[0].removeprefix('it ')}"
        if strict:
            raise CertificateError(broken)
        warnings.warn(f"{broken}: {WHY}", TinoWarning, stacklevel=2)
    return found


def _largest(values: Tensor, channels: int) -> Tensor:
    """The largest |value| of each number's channel, (m,); 1 for a channel that is zero."""
    found = torch.stack([split_channels(part, channels).abs().amax((0, 1, 3)) for part in values.split(64)]).amax(0)
    return torch.where(found > 0, found, 1.0).repeat_interleave(values.shape[-1] // channels)


def _ways(operator: nn.Module, f: Tensor, ic: Tensor | None, generator: torch.Generator) -> list[Tensor | None]:
    """The initial states to run with, (p, k) for the probes: those given and others; none, where one may be left out.

    Where one may be given but was left out, its length is not known: one number, then as many as inputs or outputs.
    """
    if not takes_a_state(operator):
        return [None if ic is None else initial_states(ic, generator)]
    if ic is not None:
        return [initial_states(ic, generator), None]
    u = call(operator, f[:1], None)
    for k in dict.fromkeys((1, u.shape[-1], f.shape[-1])):
        try:
            answer = call(operator, f[:1], f.new_zeros(1, k))
        except Exception:  # someone else's module refuses it as it likes
            continue
        if answer.shape == u.shape:
            return [None, initial_states(torch.zeros(SAMPLES, k, dtype=f.dtype), generator)]
    return [None]


def _certificate(
    name: str, runs: list[Found], derived: Properties, all_cuts: int, states: tuple[str, ...], seed: int
) -> Certificate:
    """The worst of the runs."""

    def worst(key: str) -> Worst | None:
        known = [one for run in runs if (one := getattr(run, key)) is not None]
        return min(known, key=lambda one: (one.holds, -one.number)) if known else None

    keys = ("leak", "defect", "drift", "clock", "mismatch")
    found = {key: worst(key) for key in keys}
    holds = {key: None if one is None else one.holds for key, one in found.items()}
    causal, rest, overflows = bool(holds["leak"]), bool(holds["drift"]), set().union(*(run.overflows for run in runs))
    return Certificate(
        name,
        **{key: None if one is None else one.number for key, one in found.items()},  # pyright: ignore[reportArgumentType]
        causal=causal,
        autonomous=holds["clock"],
        at_rest=rest,
        time_invariant=causal and rest and holds["clock"] is not False and bool(holds["defect"]),
        derived=derived,
        cuts=min(len(run.cuts) for run in runs),
        all_cuts=all_cuts,
        kicks=sum(run.kicks for run in runs),
        sizes=tuple(sorted(set.intersection(*(run.sizes for run in runs)))),
        overflows=tuple(sorted(overflows)),
        states=states,
        seed=seed,
        worst={key: one.size for key, one in found.items() if one is not None},
        steps_match=holds["mismatch"] is not False,
    )
