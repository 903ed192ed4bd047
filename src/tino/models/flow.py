"""Flows: operators that step a state. c_i = law(c_{i-1}, ...; f_i, f_{i-1}, ...), u_i = output(c_i), u_0 the start."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError, of_kind
from tino.frame import Frame
from tino.models.registry import model_entry
from tino.operator import Operator, Properties, Records, Stretches
from tino.parts.coefficients import CoefficientLaw
from tino.parts.corrected import CorrectedLaw
from tino.parts.equation import EquationLaw
from tino.parts.fourier import Fourier
from tino.parts.inputs import OutputScale, output_weights
from tino.parts.law import Law, histories
from tino.parts.pointwise import Pointwise
from tino.parts.start import Start, starts_from_ic, starts_shared
from tino.parts.warmup import Warmup
from tino.parts.wavenumbers import WavenumberLaw, box_length

POOR = 0.2  # held-out error over the mean square
UNSEEN = "leave ic out and import with burn_in, or make the other state variables outputs"

Memory = tuple[Tensor, Tensor]  # the states (b, lags, J) and the inputs (b, window - 1, r) before


@dataclass(frozen=True)
class Fitted:
    """A law that was found, the fit of its first steps if it needs one, and notes for the user."""

    law: Law
    warmup: Warmup | None = None
    notes: tuple[str, ...] = ()
    left: float = 0.0  # error of held-out records, over their mean square

    @property
    def poor(self) -> tuple[str, ...]:
        """A note, if the law hardly follows the data."""
        if self.left < POOR:
            return ()
        told = f"it hardly follows held-out records: their MSE is {self.left:.2g} of the mean square"
        return (f"{told}; tino diagnose says what the data need",)


@dataclass(frozen=True)
class Plan(ABC):
    """How a flow finds its law. Its fields are the options of ``tino.build``."""

    def learning(self, times: int, first: int = 0) -> tuple[Records | Stretches, ...]:
        """What follows the fit of records of so many times; nothing, for a closed form."""
        return ()

    @abstractmethod
    def first(self, train: Dataset) -> Law:
        """A law to stand in for the one that ``fit`` will find."""

    @abstractmethod
    def fit(self, train: Dataset, show_progress: bool) -> Fitted:
        """The law, fitted; what is left open is chosen on held-out records."""

    def __call__(self, name: str, train: Dataset) -> "Flow":
        frame = Frame.of(name, train)
        if frame.state not in (0, frame.output_size):
            sizes = f"{frame.output_size} numbers, but ic has {frame.state}"
            raise TinoError(f"{name} starts from u(T_0), {sizes}: {UNSEEN}")
        if not starts_from_ic(train):
            raise TinoError(f"{name} starts from u(T_0), but ic of {train.name} is another state: {UNSEEN}")
        weights = output_weights(train)
        outputs = None if weights is None else OutputScale(train.output_size)
        if outputs is not None and weights is not None:
            outputs.fit(weights)
        made = Flow(frame, self, Start.of(train), self.first(train), outputs=outputs).double()
        made.seed = torch.initial_seed()  # that of ``tino.build``
        return made


class Flow(Operator):
    """u_0 = start, then a law of the state: causal, and autonomous unless the law has a clock."""

    def __init__(
        self,
        frame: Frame,
        plan: Plan,
        start: Start,
        law: Law,
        warmup: Warmup | None = None,
        outputs: OutputScale | None = None,
    ) -> None:
        super().__init__()
        self.outputs = outputs
        self.frame, self.plan, self.start_part, self.law, self.warmup = frame, plan, start, law, warmup
        self.learning = plan.learning(frame.time.n)
        self.notes: tuple[str, ...] = ()
        self.seed = 0

    # -- step by step --------------------------------------------------------------------------------------

    def rest(self, b: int, ic: Tensor | None) -> Memory:
        c = self.law.state(self.start_part(b, None if ic is None else self.as_output(ic)))
        sources = self.law.inputs(c.new_zeros(1, self.frame.input_size)).shape[-1]
        return c[:, None].expand(-1, self.law.lags, -1), c.new_zeros(b, self.law.window - 1, sources)

    def _first(self, memory: Memory, f_0: Tensor) -> tuple[Memory, Tensor]:
        past, before = memory
        inputs = torch.cat([before, self.law.inputs(f_0)[:, None]], 1)[:, 1:]
        return (past, inputs), self.law.output(past[:, -1])

    def restarted(self, memory: Memory) -> Memory:
        return memory[0], torch.zeros_like(memory[1])

    def _step(self, memory: Memory, f_i: Tensor, i: int | Tensor) -> tuple[Memory, Tensor]:
        memory, c = self._advance(memory, self.law.inputs(f_i), i)
        return memory, self.law.output(c)

    def _advance(self, memory: Memory, g_i: Tensor, i: int | Tensor) -> tuple[Memory, Tensor]:
        past, before = memory
        inputs = torch.cat([before, g_i[:, None]], 1)
        if self.warmup is None or (isinstance(i, Tensor) and i.ndim):  # pairs of states are taken after it
            c = self.law(past, inputs, i)
        elif isinstance(i, Tensor):  # in an exported graph
            c = torch.where(i < self.law.lags, self.warmup(inputs, i), self.law(past, inputs, i))
        else:
            c = self.warmup(inputs, i) if i < self.law.lags else self.law(past, inputs, i)
        return (torch.cat([past[:, 1:], c[:, None]], 1), inputs[:, 1:]), c

    def affine_from(self) -> int | None:
        if not self.law.affine:
            return None
        return 1 if self.warmup is None else self.law.lags

    # -- the whole record ----------------------------------------------------------------------------------

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """The same steps, with coordinates changed once for the whole record."""
        self.check_shapes(f, ic)
        g = self.law.inputs(f)
        past, before = self.rest(len(f), ic)
        memory = past, torch.cat([before, g[:, :1]], 1)[:, 1:]
        _, states = self._roll(memory, g[:, 1:], 1)
        return self.law.output(torch.stack([past[:, -1], *states], 1))

    def _run(self, memory: Memory, f: Tensor, i: int) -> tuple[Memory, Tensor]:
        memory, states = self._roll(memory, self.law.inputs(f), i)
        return memory, self.law.output(torch.stack(states, 1))

    def _roll(self, memory: Memory, g: Tensor, i: int) -> tuple[Memory, list[Tensor]]:
        """The states after a block of inputs (b, n, r), which follows i others."""
        states = []
        for k, g_k in enumerate(g.unbind(1), i):
            memory, c = self._advance(memory, g_k, k)
            states.append(c)
        return memory, states

    def normalised(self, u: Tensor) -> Tensor:
        return u if self.outputs is None else u / self.outputs.size.to(u)

    @property
    def observes(self) -> int:
        return max(self.law.lags, self.law.window - 1)

    def observe(self, f: Tensor, u: Tensor) -> Memory:
        past, inputs = histories(self.law, c := self.law.state(u), self.law.inputs(f))
        return torch.cat([past[:, :, 1:], c[:, :, None]], 2), inputs[:, :, 1:]

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def properties(self) -> Properties:
        parts = [self.start_part, self.law, *([self.warmup] if self.warmup is not None else [])]
        return Properties.of_parts([part.properties for part in parts])

    @property
    def longest(self) -> int | None:
        return None if self.law.properties.autonomous else self.frame.time.n

    def readout(self) -> tuple[str, ...]:
        return (*self.law.readout(self.frame.time.step), *self.notes)

    # -- how it is fitted ----------------------------------------------------------------------------------

    def solve(self, train: Dataset, show_progress: bool = False) -> None:
        """Least squares over all pairs of successive states; what is left open is chosen on held-out records."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)  # a network is made here, of the sizes that the fit has found
            found = self.plan.fit(train, show_progress)
        self.start_part, self.law, self.warmup, self.notes = Start.of(train), found.law, found.warmup, found.notes
        self.notes += found.poor
        if train.ic is None and not starts_shared(train):
            told = "the first outputs of the records differ (noise, or starts that are not given as ic)"
            self.notes += (f"{told}: it starts from their mean",)
        if self.learning:
            first = self.law.window - 1 if train.burn_in else 0 if self.warmup is None else self.law.lags
            self.learning = self.plan.learning(self.frame.time.n, first)
            if isinstance(self.law, EquationLaw):  # of a field, gradients need no more; delays need all digits
                self.float()

    # -- its record ----------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        parts = {"warmup": self.warmup, "outputs": self.outputs}
        return {
            "plan": asdict(self.plan),
            "notes": list(self.notes),
            "start": self.start_part.sizes,
            "law": _law_record(self.law),
            **{name: None if part is None else part.sizes for name, part in parts.items()},
        }

    @classmethod
    def from_record(cls, frame: Frame, record: Mapping[str, Any]) -> Self:
        plan = replace(model_entry(frame.model).builder, **record["plan"])  # pyright: ignore
        warmup = None if record["warmup"] is None else Warmup(**record["warmup"])
        outputs = None if record["outputs"] is None else OutputScale(**record["outputs"])
        made = cls(frame, plan, Start(**record["start"]), _law(frame, record["law"]), warmup, outputs)
        made.notes = tuple(of_kind(note, str, "a note") for note in record["notes"])
        return made


def _law(frame: Frame, record: Mapping[str, Any]) -> Law:
    """The law that a record describes."""
    sizes = dict(record)
    kind, length = sizes.pop("kind"), box_length(frame.outputs)
    if kind == CoefficientLaw.kind:
        return CoefficientLaw(**sizes)
    if kind == CorrectedLaw.kind:
        law = _law(frame, sizes.pop("law"))
        assert isinstance(law, CoefficientLaw)
        return CorrectedLaw(law, **sizes)
    waves = Fourier(**sizes.pop("waves"))
    if kind == WavenumberLaw.kind:
        return WavenumberLaw(waves, length, **sizes)
    if kind != EquationLaw.kind:
        raise TinoError(f"no law of kind {kind}")
    network = sizes.pop("network")
    made = None if network is None else Pointwise(waves, length, **network)
    return EquationLaw(waves, length, frame.time.step, **sizes, network=made)


def _law_record(law: Law) -> dict[str, Any]:
    record = {"kind": law.kind, **law.sizes}
    if isinstance(law, CorrectedLaw):
        record["law"] = _law_record(law.law)
    if isinstance(law, WavenumberLaw | EquationLaw):
        record["waves"] = law.waves.sizes
    if isinstance(law, EquationLaw):
        record["network"] = None if law.network is None else law.network.sizes
    return record
