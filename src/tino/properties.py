"""Causality and time invariance: derived from a model's parts, and measured on the model itself.

Measured on any module called as ``model(f, ic) -> u``:

- leak: the largest response at times <= t to a change of the input after t, relative to the change;
- defect: max over t >= T_0 + τ of |G[shift_τ f](t) - G[f](t - τ)|, the shift padding with zeros.

A verdict compares the two with what the input does to the output, so it does not depend on anyone's units.
"""

import copy
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tino.data import Dataset, check_values
from tino.errors import CertificateError, TinoError
from tino.models.operator import call, model_name
from tino.models.separable import Separable
from tino.progress import progress

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-4}
CUTS = 8  # times after which the input is kicked
SAMPLES = 4  # inputs taken from the data; as many again are noise


@dataclass(frozen=True)
class Certificate:
    """What was measured, and what the parts promise (None for a module that declares nothing)."""

    name: str
    leak: float  # relative to the kick
    defect: float
    causal: bool  # measured
    time_invariant: bool  # measured; includes causal
    derived_causal: bool | None
    derived_time_invariant: bool | None
    why: str  # why not, where the parts tell
    notes: tuple[str, ...]

    def __str__(self) -> str:
        causal = f"{'causal' if self.causal else 'not causal'} (leak {_short(self.leak)})"
        invariant = f"{'' if self.time_invariant else 'not '}time-invariant (defect {_short(self.defect)})"
        why = f": {self.why}" if self.why and not self.time_invariant else ""
        notes = "".join(f" [note: {note}]" for note in self.notes)
        return f"{self.name}: {causal}, {invariant}{why}{notes}"

    def record(self) -> dict[str, Any]:
        return asdict(self)


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
    """Measure causality and time invariance on a few inputs, and compare with what the parts promise.

    ``data`` gives typical inputs: a dataset, or f (n, t, m). The model itself is not touched: a copy runs in
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
    at = next((p for p in model.parameters()), f).device
    operator = copy.deepcopy(model).eval()
    operator = operator.double() if dtype == torch.float64 else operator.float()  # complex numbers stay complex
    generator = torch.Generator().manual_seed(seed)
    typical = f[:SAMPLES].to("cpu", dtype)
    size = float(typical.abs().max()) or 1.0
    noise = size * torch.randn(typical.shape, generator=generator, dtype=dtype)
    probes = torch.cat([typical, noise])
    states = None if ic is None else ic[:SAMPLES].to(at, dtype).repeat(2, 1)

    with progress(f"certifying {model_name(model)}", CUTS + 5, show_progress) as advance:

        def response(inputs: Tensor) -> Tensor:
            with torch.no_grad():
                answer = call(operator, inputs.to(at), states).cpu()
            if not bool(torch.isfinite(answer).all()):
                raise TinoError(f"{model_name(model)} answers with NaN or infinite values: nothing can be certified")
            advance()
            return answer

        u = response(probes)
        leak, past = _leak(response, probes, u, size, generator)
        defect = _defect(response, probes, u)
        # relative to what the input does to the output, with room for the rounding of the output itself
        moved = float((u - response(torch.zeros_like(probes))).abs().max())
    allowed = tolerance * moved + 64 * torch.finfo(dtype).eps * float(u.abs().max())
    causal = past <= allowed
    invariant = causal and defect <= allowed
    return _verdict(model, leak, defect, causal, invariant)


def _leak(response: Any, f: Tensor, u: Tensor, size: float, generator: torch.Generator) -> tuple[float, float]:
    """The largest change of the past, relative to the kick and absolutely."""
    n_t = f.shape[1]
    leak = past = 0.0
    for last in sorted({round(i * (n_t - 2) / (CUTS - 1)) for i in range(CUTS)}):  # the last time left alone
        kick = size * torch.randn(f[:, last + 1 :].shape, generator=generator, dtype=f.dtype)
        kicked = torch.cat([f[:, : last + 1], f[:, last + 1 :] + kick], dim=1)
        change = float((response(kicked) - u)[:, : last + 1].abs().max())
        leak, past = max(leak, change / float(kick.abs().max())), max(past, change)
    return leak, past


def _defect(response: Any, f: Tensor, u: Tensor) -> float:
    """The largest difference between the response to a shifted input and the shifted response."""
    n_t = f.shape[1]
    defect = 0.0
    for steps in sorted({1, max(1, n_t // 4), n_t // 2}):
        shifted = torch.cat([torch.zeros_like(f[:, :steps]), f[:, : n_t - steps]], dim=1)
        difference = response(shifted)[:, steps:] - u[:, : n_t - steps]
        defect = max(defect, float(difference.abs().max()))
    return defect


def _verdict(model: nn.Module, leak: float, defect: float, causal: bool, invariant: bool) -> Certificate:
    promised = {
        "causal": (getattr(model, "causal", None), causal),
        "time-invariant": (getattr(model, "time_invariant", None), invariant),
    }
    separable = isinstance(model, Separable)
    name = model_name(model)
    notes = []
    for word, (derived, measured) in promised.items():
        if derived is True and not measured:
            numbers = f"leak {_short(leak)}, defect {_short(defect)}"
            raise CertificateError(f"{name} is {word} by its parts, but the measurement denies it ({numbers})")
        if derived is False and measured:
            notes.append(f"not {word} by its parts, yet measured so on these inputs")
    return Certificate(
        name=name,
        leak=leak,
        defect=defect,
        causal=causal,
        time_invariant=invariant,
        derived_causal=promised["causal"][0],
        derived_time_invariant=promised["time-invariant"][0],
        why=" and ".join(model.time_dependence()) if separable else "",
        notes=tuple(notes),
    )
