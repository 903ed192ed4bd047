"""Properties of an operator, measured on the operator itself and compared with what its parts promise.

On any module called as ``model(f, ic) -> u``:

- leak: the largest response at times <= t to a change of the input after t, relative to the change;
- defect: max over t >= T_0 + τ of |G[shift_τ f](t) - G[f](t - τ)|, the shift padding with zeros;
- drift: how far the response to zero input moves from where it starts.

On an operator that runs step by step also:

- clock: how far the outputs move when the state after k inputs is given another k;
- mismatch: the largest difference between the outputs step by step and those for the whole record.

A verdict compares these with the effect of the input on the output, so it does not depend on units. Several channels
are each measured relative to their own size. ``clock`` does not see a counter that an operator keeps in memory.
"""

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from tino.channels import channel_sizes, split_channels
from tino.data import Dataset, check_values
from tino.errors import CertificateError, TinoError
from tino.operator import Operator, Properties, call, model_name, numbers
from tino.progress import progress

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-4}
CUTS = 8  # times after which the input is perturbed
SAMPLES = 4  # inputs taken from the data; as many again are noise


@dataclass(frozen=True)
class Certificate:
    """What was measured (None where it cannot be), and what the parts promise (None where they promise nothing)."""

    name: str
    leak: float  # relative to the perturbation
    defect: float
    drift: float
    clock: float | None
    mismatch: float | None
    causal: bool
    autonomous: bool | None
    at_rest: bool
    time_invariant: bool  # all three, and the shift
    derived: Properties

    @property
    def word(self) -> str:
        """Time-invariant, or autonomous if it only fails to start at rest."""
        if self.time_invariant:
            return "time-invariant"
        return "autonomous, not at rest" if self.causal and self.autonomous else "not time-invariant"

    @property
    def notes(self) -> tuple[str, ...]:
        derived = {"causal": self.derived.causal, "time-invariant": self.derived.time_invariant}
        measured = {"causal": self.causal, "time-invariant": self.time_invariant}
        return tuple(
            f"not {word} by its parts, but measures so on these inputs"
            for word in derived
            if derived[word] is False and measured[word]
        )

    def __str__(self) -> str:
        verdicts = {
            "causal": (self.causal, f"leak {_short(self.leak)}"),
            "autonomous": (self.autonomous, f"clock {_short(self.clock or 0.0)}"),
            "at rest": (self.at_rest, f"drift {_short(self.drift)}"),
            "time-invariant": (self.time_invariant, f"defect {_short(self.defect)}"),
        }
        measured = ((word, yes, number) for word, (yes, number) in verdicts.items() if yes is not None)
        words = ", ".join(f"{'' if yes else 'not '}{word} ({number})" for word, yes, number in measured)
        reasons = f": {' and '.join(self.derived.reasons)}" if self.derived.reasons and not self.time_invariant else ""
        notes = "".join(f" [note: {note}]" for note in self.notes)
        return f"{self.name}: {words}{reasons}{notes}"

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "word": self.word, "notes": self.notes}


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"


def certify(
    model: nn.Module,
    data: Dataset | Tensor,
    *,
    ic: Tensor | None = None,
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    seed: int = 0,
    show_progress: bool = True,
) -> Certificate:
    """Measure the model's properties on a few inputs, and compare them with what its parts promise.

    ``data`` provides typical inputs: a dataset, or f (n, t, m). The model itself is not changed: a copy runs in
    ``dtype``. A property the parts promise but the measurement denies is an error (CertificateError); one the
    parts deny but the measurement shows is a note.
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
    tolerance = TOLERANCE[dtype] if tolerance is None else tolerance
    at = numbers(model, f).device
    operator = copy.deepcopy(model).eval()
    operator = operator.double() if dtype == torch.float64 else operator.float()  # complex numbers stay complex
    generator = torch.Generator().manual_seed(seed)
    typical = f[:SAMPLES].to("cpu", dtype)
    about = model.frame if isinstance(model, Operator) else data if isinstance(data, Dataset) else None
    inputs, outputs = (1, 1) if about is None else (len(about.input_channels), len(about.output_channels))
    size = _largest(typical, inputs)
    noise = size * torch.randn(typical.shape, generator=generator, dtype=dtype)
    probes = torch.cat([typical, noise])
    states = None if ic is None else ic[:SAMPLES].to(at, dtype).repeat(2, 1)
    derived = model.properties if isinstance(model, Operator) else Properties()
    with progress(f"certifying {model_name(model)}", CUTS + 7, show_progress) as advance, torch.no_grad():

        def response(inputs: Tensor) -> Tensor:
            answer = call(operator, inputs.to(at), states).cpu()
            if not bool(torch.isfinite(answer).all()):
                raise TinoError(f"{model_name(model)} returns NaN or infinite values: nothing can be certified")
            advance()
            return answer / unit

        unit = torch.ones((), dtype=dtype)
        u = response(probes)
        if outputs > 1:
            unit = channel_sizes(u, outputs).repeat_interleave(u.shape[-1] // outputs)
            u = u / unit
        silence = response(torch.zeros_like(probes))
        leak, past = _leak(response, probes, u, size, inputs > 1, generator)
        defect = _defect(response, probes, u)
        drift = float((silence - silence[:, :1]).abs().max())
        clock = mismatch = None
        if isinstance(operator, Operator) and derived.causal:
            clock, mismatch = _by_steps(operator, probes.to(at), states, u.to(at), unit.to(at))
        advance(2)
    # relative to the effect of the input on the output, with room for the rounding of the output itself
    allowed = tolerance * float((u - silence).abs().max()) + 64 * torch.finfo(dtype).eps * float(u.abs().max())
    causal, autonomous = past <= allowed, None if clock is None else clock <= allowed
    rest = drift <= allowed
    invariant = causal and rest and autonomous is not False and defect <= allowed
    found = Certificate(
        model_name(model), leak, defect, drift, clock, mismatch, causal, autonomous, rest, invariant, derived
    )
    _compare(found, mismatch is None or mismatch <= allowed)
    return found


def _largest(values: Tensor, channels: int) -> Tensor:
    """The largest |value| of each number's channel, (m,); 1 for a channel that is zero."""
    found = split_channels(values, channels).abs().amax((0, 1, 3))
    return torch.where(found > 0, found, 1.0).repeat_interleave(values.shape[-1] // channels)


def _leak(
    response: Callable[[Tensor], Tensor],
    f: Tensor,
    u: Tensor,
    size: Tensor,
    several: bool,
    generator: torch.Generator,
) -> tuple[float, float]:
    """The largest change in the past, relative to the perturbation and absolute."""
    n_t = f.shape[1]
    leak = past = 0.0
    for last in sorted({round(i * (n_t - 2) / (CUTS - 1)) for i in range(CUTS)}):  # the last time left unchanged
        kick = size * torch.randn(f[:, last + 1 :].shape, generator=generator, dtype=f.dtype)
        kicked = torch.cat([f[:, : last + 1], f[:, last + 1 :] + kick], dim=1)
        change = float((response(kicked) - u)[:, : last + 1].abs().max())
        kicked_by = float((kick / size if several else kick).abs().max())
        leak, past = max(leak, change / kicked_by), max(past, change)
    return leak, past


def _defect(response: Callable[[Tensor], Tensor], f: Tensor, u: Tensor) -> float:
    """The largest difference between the response to a shifted input and the shifted response."""
    n_t = f.shape[1]
    defect = 0.0
    for steps in sorted({1, max(1, n_t // 4), n_t // 2}):
        shifted = torch.cat([torch.zeros_like(f[:, :steps]), f[:, : n_t - steps]], dim=1)
        difference = response(shifted)[:, steps:] - u[:, : n_t - steps]
        defect = max(defect, float(difference.abs().max()))
    return defect


def _by_steps(operator: Operator, f: Tensor, ic: Tensor | None, u: Tensor, unit: Tensor) -> tuple[float, float]:
    """How far the outputs move when a state is given another number of inputs, and how far they miss the record's."""
    n_t = f.shape[1]
    cuts = sorted({1, max(1, n_t // 3), n_t // 2})
    state, u_0 = operator.start(f[:, 0], ic)
    answers, reached = [u_0], {}
    for i in range(1, n_t):
        reached |= {i: state} if i in cuts else {}
        state, u_i = operator.step(state, f[:, i])
        answers.append(u_i)
    stepped = torch.stack(answers, 1) / unit
    mismatch, clock = float((stepped - u).abs().max()), 0.0
    for k, known in reached.items():
        for told in (0, n_t - 1 - k):  # another number of inputs, with room for more steps
            steps = min(8, n_t - k, n_t - told)
            _, moved = operator.run(replace(known, i=told), f[:, k : k + steps])
            clock = max(clock, float((moved / unit - stepped[:, k : k + steps]).abs().max()))
    return clock, mismatch


def _compare(found: Certificate, steps_match: bool) -> None:
    """A promise that the measurement denies is an error."""
    derived = found.derived
    promises = {
        "causal": (derived.causal, found.causal, f"leak {_short(found.leak)}"),
        "autonomous": (derived.autonomous, found.autonomous, f"clock {_short(found.clock or 0.0)}"),
        "at rest": (derived.at_rest, found.at_rest, f"drift {_short(found.drift)}"),
        "time-invariant": (derived.time_invariant, found.time_invariant, f"defect {_short(found.defect)}"),
    }
    for word, (promised, measured, number) in promises.items():
        if promised and measured is False:
            raise CertificateError(f"{found.name} should be {word} by its parts, but measures otherwise ({number})")
    if not steps_match:
        raise CertificateError(
            f"{found.name} differs between step by step and the whole record (by {_short(found.mismatch or 0.0)})"
        )
