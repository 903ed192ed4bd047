"""The contract: what the rest of tino may ask of an operator, and nothing else.

- the whole record: ``u = model(f, ic)``;
- step by step, for every causal operator: ``state, u_0 = model.start(f_0, ic)``, then ``state, u_i = model.step(state,
  f_i)``, the same numbers to rounding; a record that is already under way: ``state = model.synchronise(f, u)``;
- what it is: ``properties``;
- how it learns: ``solve`` in closed form, ``learning`` by gradients;
- its record on disk: ``record`` and ``from_record``.

f is (b, t, m), u is (b, t, x), ic is (b, k); m and x count all channels at all points (``Frame``). A new kind of
operator implements the abstract methods; if it is causal, ``rest`` and ``_step`` too.

Outputs that lie far from zero, such as 293 K, have an offset (``tino.seen``). It is subtracted before an operator is
built and learns, and added to what ``model(f)``, ``start``, ``step`` and ``query`` return. What a kind implements
(``forward``, ``_step``, ``solve``, ``respond``, ...) never meets it.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor

from tino.arrays import answered
from tino.calls import call, checked, in_batches
from tino.data import Dataset, check_tensor, check_values
from tino.errors import TinoError
from tino.files import whole_file, write_sealed
from tino.frame import Frame, Framed, numbers
from tino.properties import Properties, check_steps

WEIGHTS, RECORD = "model.safetensors", "model.json"
MODEL_FORMAT = 6  # the frame with channels and what was seen in training, every size of every part, and checksums


@dataclass(frozen=True)
class State:
    """The state of a step-by-step run.

    ``memory`` is what the operator keeps of the past: real tensors (b, ...) whose shapes never change, nested in tuples
    with a tensor first.
    """

    i: int  # inputs read so far; an autonomous operator ignores it
    memory: Any


@dataclass(frozen=True)
class Records:
    """Learn by gradients of the error over whole records, at random samples and times."""

    share: float = 1.0  # fraction of the training


@dataclass(frozen=True)
class Stretches:
    """Learn by gradients of the error of u over successive steps, from states at random samples and times."""

    steps: int = 1  # 1: pairs of successive states; more: unrolled
    first: int = 0  # the first time at which the data show the state
    share: float = 1.0


class Operator(Framed, ABC):
    """A map from f (b, t, m), and perhaps an initial state ic (b, k), to u (b, t, x)."""

    # -- the whole record ----------------------------------------------------------------------------------

    def __call__(self, f: Any, ic: Any = None, *more: Any, **options: Any) -> Any:
        """Tensors as they are, with gradients; numpy and xarray are checked, and answered in kind (``tino.arrays``)."""
        if isinstance(f, Tensor):
            return super().__call__(f, ic, *more, **options)
        return answered(self.frame, f, ic, self._predicted)

    def _predicted(self, f: Tensor, ic: Tensor | None) -> Tensor:
        self.check_inputs(f, ic)
        return in_batches(self, partial(call, self), f, ic)

    @abstractmethod
    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """u (b, t, x). It checks only shapes (``check_shapes``), so that nothing waits for a device."""

    # -- step by step --------------------------------------------------------------------------------------

    def start(self, f_0: Tensor, ic: Tensor | None = None) -> tuple[State, Tensor]:
        """The first input (b, m) -> the state after it, and u_0 (b, x)."""
        check_steps(self.frame.model, self.properties)
        self.check_dtypes(f_0, ic)
        self.check_shapes(f_0[:, None], ic)
        memory, u = self._first(self.rest(len(f_0), self.centred(ic)), f_0)
        return State(1, memory), self.with_offset(u)

    def step(self, state: State, f_i: Tensor) -> tuple[State, Tensor]:
        """The next input (b, m) -> the state after it, and u_i (b, x)."""
        self._check_stream(state, f_i[:, None])
        memory, u = self._step(state.memory, f_i, state.i)
        return State(state.i + 1, memory), self.with_offset(u)

    def run(self, state: State, f: Tensor) -> tuple[State, Tensor]:
        """A block of inputs (b, n, m) -> the state after them, and u (b, n, x); checked once."""
        self._check_stream(state, f)
        if not f.shape[1]:
            return state, f.new_zeros(len(f), 0, self.frame.output_size)
        memory, u = self._run(state.memory, f, state.i)
        return State(state.i + f.shape[1], memory), self.with_offset(u)

    def _check_stream(self, state: State, f: Tensor) -> None:
        self.check_dtypes(f, None)
        self.frame.check_input(f)
        if len(f) != (rows := _rows(state.memory)):
            raise TinoError(f"f has {len(f)} records, but the state has {rows}")
        self._check_length(state.i + f.shape[1], "the stream")

    @property
    def observes(self) -> int:
        """Measured times from which ``observe`` reads the whole memory: the present one; 0 without ``observe``."""
        return int(type(self).observe is not Operator.observe)

    def synchronise(self, f: Tensor, u: Tensor, ic: Tensor | None = None) -> State:
        """The state after records f (b, n, m) with measured outputs u (b, n, x), as far as the model can tell it.

        From the last outputs where they show it (``observes``; of fewer, the first stands for those before it);
        otherwise the inputs are run from rest.
        """
        if not self.observes:
            return self.run(self.start(f[:, 0], ic)[0], f[:, 1:])[0]
        memory = self.observe(f[:, -self.observes :], self.without_offset(u[:, -self.observes :]))
        return State(f.shape[1], last(memory))

    def by_steps(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """The whole record, step by step: a ``forward`` for operators without a faster one."""
        self.check_shapes(f, ic)
        memory, u = self._first(self.rest(len(f), ic), f[:, 0])
        answers = [u]
        for i in range(1, f.shape[1]):
            memory, u = self._step(memory, f[:, i], i)
            answers.append(u)
        return torch.stack(answers, 1)

    def rest(self, b: int, ic: Tensor | None) -> Any:
        """The memory of b records before their first input."""
        raise NotImplementedError(f"{type(self).__name__} has no rest: a causal operator needs one")

    def _first(self, memory: Any, f_0: Tensor) -> tuple[Any, Tensor]:
        """The first step. Override it if it differs from the later ones, as in a flow."""
        return self._step(memory, f_0, 0)

    def restarted(self, memory: Any) -> Any:
        """The memory of a record that starts now, from the state in this one: a flow forgets the inputs before it."""
        return memory

    def _step(self, memory: Any, f_i: Tensor, i: int | Tensor) -> tuple[Any, Tensor]:
        """The memory after i inputs and the next one (b, m) -> the new memory, and u_i (b, x).

        With ``Stretches``, i may differ between rows, (b,).
        """
        raise NotImplementedError(f"{type(self).__name__} has no _step: a causal operator needs one")

    def _run(self, memory: Any, f: Tensor, i: int) -> tuple[Any, Tensor]:
        """The next inputs (b, n, m) -> the new memory, u (b, n, x). Override it where a block costs less than steps."""
        answers = []
        for n, f_i in enumerate(f.unbind(1)):
            memory, u = self._step(memory, f_i, i + n)
            answers.append(u)
        return memory, torch.stack(answers, 1)

    def affine_from(self) -> int | None:
        """The number of inputs after which all steps are one affine map of memory and input; None: never."""
        return None

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def properties(self) -> Properties:
        """Derived from the parts."""

    @property
    def longest(self) -> int | None:
        """The number of times in the longest record it accepts; None: any length."""
        return None if self.properties.causal and self.properties.autonomous else self.frame.time.n

    # -- how it learns -------------------------------------------------------------------------------------

    learning: tuple[Records | Stretches, ...] = (Records(),)  # in this order; empty: closed form only

    def solve(self, train: Dataset, show_progress: bool = False) -> None:
        """Fit what can be fitted in closed form. Called once, before gradient training; may change sizes."""

    # For ``Records``: ``encode`` and ``target`` prepare inputs and targets once; a step compares ``respond`` with the
    # target: the outputs, ``normalised``, or their coefficients on an orthonormal basis; ``field`` is the inverse.

    def normalised(self, u: Tensor) -> Tensor:
        """Outputs as the loss weighs them: with several channels, each is divided by its size."""
        return u

    def encode(self, f: Tensor) -> Tensor:
        """The inputs of ``respond``."""
        return f

    def target(self, u: Tensor) -> Tensor:
        return self.normalised(u)

    def field(self, c: Tensor) -> Tensor:
        return c

    def respond(self, z: Tensor, ic: Tensor | None, times: Tensor | None) -> Tensor:
        """The prediction to compare with the target, from encoded inputs, at times (s,) or at all times."""
        u = self.normalised(checked(self, z, self.inside(z, ic)))
        return u if times is None else u[:, times]

    def observe(self, f: Tensor, u: Tensor) -> Any:
        """For ``Stretches``: the memory after each input, as seen in the data: tensors (b, t, ...) nested in tuples."""
        raise TinoError(f"{self.frame.model} does not learn from successive states")

    # -- its record on disk --------------------------------------------------------------------------------

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Every size it was made with, as plain JSON values; the frame and the weights are saved separately."""

    @classmethod
    @abstractmethod
    def from_record(cls, frame: Frame, record: Mapping[str, Any]) -> Self:
        """The operator that ``record`` described, before its weights are loaded."""

    def normalisation(self) -> dict[str, Any]:
        """The scales, for people who read the record; the model's own copies are among its weights."""
        return {}

    def readout(self) -> tuple[str, ...]:
        """What it has learned, in lines that a person can read."""
        return ()

    # -- other times and points ----------------------------------------------------------------------------

    def query(
        self, f: Tensor, t: Tensor | Sequence[float] | None = None, y: Tensor | None = None, ic: Tensor | None = None
    ) -> Tensor:
        """u at times t (s,) and points y (q, d): (b, s, q). Left out: all times of f, all grid points.

        The parts decide what is possible off the grid: a learned basis works at any point of the domain, a network of t
        at any time, a delay only at grid times. Several channels follow one another.
        """
        f, ic, given = self.at_the_border(f, ic)
        times, points = self.frame.times_within(t, f.shape[1]), self.frame.points_within(y)
        with torch.no_grad():
            return self.with_offset(self._query(f, self.centred(ic), times, points)).to(given)

    def _query(self, f: Tensor, ic: Tensor | None, t: Tensor, y: Tensor) -> Tensor:
        """Only on the grid, unless an operator overrides it."""
        u = checked(self, f, self.inside(f, ic))
        return u[:, self.frame.time_index(t)][:, :, self.frame.point_index(y)]

    # -- checks at the border ------------------------------------------------------------------------------

    def check_shapes(self, f: Tensor, ic: Tensor | None) -> None:
        """Check only shapes."""
        self.frame.check_input(f)
        n_t, given = self.frame.time.n, f.shape[1]
        if not self.properties.causal and given != n_t:
            raise TinoError(f"f has {given} times, the model was built for {n_t}")
        self._check_length(given, "f")
        self.frame.check_state(ic, f.shape[0])

    def _check_length(self, given: int, what: str) -> None:
        longest = self.longest
        if given < 1 or (longest is not None and given > longest):
            why = "; ".join(self.properties.reasons)
            limit = f"{self.frame.model} takes {'1 or more' if longest is None else f'1 to {longest}'} times"
            raise TinoError(f"{what} has {given} times, {limit}{f': {why}' if why else ''}")

    def check_data(self, data: Dataset) -> None:
        """Check that the data have grids, channels, initial states and lengths the operator accepts."""
        self.frame.check_data(data, any_length=self.longest is None)
        if data.lengths is not None and not self.properties.causal:
            raise TinoError(f"{self.frame.model} needs records of equal length: it is not causal")

    def check_inputs(self, f: Tensor, ic: Tensor | None) -> None:
        """Check shape, dtype and NaN; warn, once, of inputs far outside the training's."""
        check_tensor(f, "f")
        self.check_shapes(f, ic)
        check_values(f, "f")
        if ic is not None:
            check_values(ic, "ic")
        self.warn_if_far(f, ic)

    def at_the_border(self, f: Tensor, ic: Tensor | None) -> tuple[Tensor, Tensor | None, torch.device]:
        """Inputs checked, moved to the operator's device and dtype, with their original device."""
        self.check_inputs(f, ic)
        return f.to(at := numbers(self)), None if ic is None else ic.to(at), f.device

    def save(self, folder: str | Path) -> None:
        """Write the weights, then the record with their checksum, each whole or not at all, for ``tino.load``."""
        if not str(folder):
            raise TinoError("folder is '', expected the name of a folder")
        tensors = {name: t.detach().cpu().contiguous() for name, t in self.state_dict().items()}
        raw = safetensors.torch.save(tensors)
        with whole_file(Path(folder) / WEIGHTS) as part:
            part.write_bytes(raw)
        record = {"frame": self.frame.record(), "sizes": self.record(), "normalisation": self.normalisation()}
        about = {"format": MODEL_FORMAT, "weights_sha256": hashlib.sha256(raw).hexdigest()}
        write_sealed(Path(folder) / RECORD, {**about, **record})


def _rows(memory: Any) -> int:
    """The number of records in a memory."""
    return _rows(memory[0]) if isinstance(memory, tuple) else len(memory)


def last(memory: Any) -> Any:
    """The memory after the last of the times (b, t, ...)."""
    return tuple(map(last, memory)) if isinstance(memory, tuple) else memory[:, -1]
