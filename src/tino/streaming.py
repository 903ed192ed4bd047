"""Streams: a causal model answers as its inputs arrive, one or a block at a time, for as long as they do."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from tino.errors import TinoError, in_short, shown, whole
from tino.files import STAMP, check_stamp, parse_json, stamp, whole_file
from tino.frame import numbers
from tino.linear import AffineBlocks
from tino.memories import fingerprint, tensors_of, with_tensors
from tino.operator import Operator, State
from tino.properties import check_steps

STREAM_FORMAT = 1
MANY = 512  # inputs at once, from which on blocks of an affine step are worth their matrices
FIX = "start the stream anew"


class Stream:
    """u_t = stream.push(f_t): one input (m,) or a block (n, m), as an array or a tensor; u is of the same kind.

    With ``records`` = b it runs b streams side by side: (b, m) or (b, n, m). Numbers are cast to the model's type; no
    gradients are kept. Memory does not grow. A model with a clock stops at the last time it knows. The model must not
    change while it streams.
    """

    def __init__(self, model: Operator, ic: Any = None, records: int | None = None) -> None:
        if not isinstance(model, Operator):
            raise TinoError(f"the model is {shown(model)}, expected one that tino.build or tino.load returns")
        check_steps(model.frame.model, model.properties)
        self.model, self.records = model, None if records is None else whole("records", records, 1)
        self._own, self._longest = numbers(model), model.longest
        self._blocks: AffineBlocks | None = None
        self._tried = False
        self.reset(ic)

    # -- its state -------------------------------------------------------------------------------------------

    state: State  # inputs read so far, and what the model keeps of them

    def reset(self, ic: Any = None) -> None:
        """Start again, before the first input, from an initial state ic (k,), or (b, k) of b records."""
        b, given = self.records or 1, None
        if ic is not None:
            given = self._as_tensor(ic, "ic")
            given = given[None] if given.ndim == 1 and self.records is None else given
        self.model.frame.check_state(given, b)
        with torch.no_grad():
            centred = None if given is None else self.model.centred(given)
            self.state = State(0, self.model.rest(b, centred))

    def save(self, path: str | Path) -> None:
        """Write the state into one safetensors file, which belongs to this model alone; it must be finite."""
        held = tensors_of(self.state.memory)
        if not all(map(_finite, held)):
            raise TinoError(f"the state has NaN or infinite numbers, so {path} is not written: {FIX}")
        tensors = {str(n): one.cpu().contiguous().clone() for n, one in enumerate(held)}
        record = {"i": self.state.i, "records": self.records, "model": fingerprint(self.model)}
        about = {"tino_stream": str(STREAM_FORMAT), "record": json.dumps(record)}
        with whole_file(Path(path)) as part:
            part.write_bytes(safetensors.torch.save(tensors, {**about, **STAMP}))
            with open(part, "rb+") as file:
                stamp(file)

    @staticmethod
    def load(path: str | Path, model: Operator) -> "Stream":
        """The stream whose state was saved; nothing is unpickled, and a state of another model is refused."""
        path = Path(path)
        check_stamp(path, FIX)
        try:
            with safetensors.safe_open(path, "pt") as file:
                about = file.metadata() or {}
                if about.get("tino_stream") != str(STREAM_FORMAT):
                    raise TinoError(f"{path} is not the state of a stream of format {STREAM_FORMAT}: {FIX}")
                record = parse_json(about["record"])
                if record["model"] != fingerprint(model):
                    raise TinoError(f"{path} is the state of another model than this {model.frame.model}: {FIX}")
                stream = _started(model, record["records"])
                expected = tensors_of(stream.state.memory)
                shapes = [tuple(file.get_slice(str(n)).get_shape()) for n in range(len(expected))]
                if shapes != [tuple(one.shape) for one in expected]:
                    raise TinoError(f"{path} does not fit its model: its tensors are {in_short(shapes)}: {FIX}")
                held = [file.get_tensor(str(n)).to(one) for n, one in enumerate(expected)]
        except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
            raise TinoError(f"{path} is damaged or no state of a stream: {FIX} ({in_short(error)})") from error
        if not all(map(_finite, held)):
            raise TinoError(f"{path} has NaN or infinite numbers: {FIX}")
        stream.state = State(whole("i", record["i"], 0), with_tensors(stream.state.memory, held))
        return stream

    # -- its answers -----------------------------------------------------------------------------------------

    def push(self, f: Any) -> Any:
        """The next input (m,) -> u (x,), or a block (n, m) -> (n, x); an error leaves the state as it was."""
        values = self._as_tensor(f, "f")
        alone, m = self.records is None, self.model.frame.input_size
        block = values.ndim == 3 - alone
        inputs = values[None] if alone else values  # (b, m) or (b, n, m)
        shape = inputs.shape
        if len(shape) not in (2, 3) or (shape[0], shape[-1]) != (self.records or 1, m):
            b = "" if alone else f"{self.records}, "
            expected = f"({b}{m}{',' if alone else ''}) for one input or ({b}n, {m}) for a block"
            raise TinoError(f"f has shape {tuple(values.shape)}, expected {expected}")
        if self._longest is not None:
            self.model._check_length(max(1, self.state.i + (shape[1] if block else 1)), "the stream")
        with torch.no_grad():
            state, u = self._answer(self.state, inputs) if block else self._next(self.state, inputs)
        self.state = state
        u = u[0] if alone else u
        return u.to(f.device) if isinstance(f, Tensor) else u.cpu().numpy()

    def _next(self, state: State, f: Tensor) -> tuple[State, Tensor]:
        """The state after one input (b, m), and u (b, x)."""
        if state.i:
            memory, u = self.model._step(state.memory, f, state.i)
        else:
            memory, u = self.model._first(state.memory, f)
        return State(state.i + 1, memory), self.model.with_offset(u)

    def _answer(self, state: State, f: Tensor) -> tuple[State, Tensor]:
        """The state after a block (b, n, m), and u (b, n, x)."""
        answers = []
        if not state.i and f.shape[1]:
            state, u = self._next(state, f[:, 0])
            answers.append(u[:, None])
            f = f[:, 1:]
        model, memory, i = self.model, state.memory, state.i
        if blocks := self._affine_blocks(state, f.shape[1]):
            n = f.shape[1] // blocks.length * blocks.length
            memory, u = blocks(memory, f[:, :n])
            answers.append(u)
            i, f = i + n, f[:, n:]
        if f.shape[1]:
            memory, u = model._run(memory, f, i)
            answers.append(model.with_offset(u))
        if not answers:
            return state, f.new_zeros(len(f), 0, model.frame.output_size)
        return State(i + f.shape[1], memory), answers[0] if len(answers) == 1 else torch.cat(answers, 1)

    def _affine_blocks(self, state: State, n: int) -> AffineBlocks | None:
        """For many inputs at once; the matrices are made when they are first of use."""
        first = self.model.affine_from()
        if first is None or state.i < first or n < MANY:
            return None
        if not self._tried:
            self._tried, self._blocks = True, AffineBlocks.of(self.model, state)
        return self._blocks

    def _as_tensor(self, given: Any, name: str) -> Tensor:
        """In the model's type, on its device; finite."""
        found = given.detach() if isinstance(given, Tensor) else torch.from_numpy(_array(given, name))
        values = found.to(self._own, copy=isinstance(given, Tensor))  # a caller may fill its tensor again
        if _finite(values):
            return values
        if _finite(found):
            kind = str(values.dtype).removeprefix("torch.")
            raise TinoError(f"{name} has numbers too large for {kind}, the model's type: use smaller ones")
        raise TinoError(f"{name} has NaN or infinite numbers: leave them out or fill the gap")


def _finite(values: Tensor) -> bool:
    return bool(torch.isfinite(values).all())


def _array(given: Any, name: str) -> NDArray[np.float64]:
    try:
        found = np.asarray(given)
        if found.dtype.kind in "biuf":
            return found.astype(np.float64)  # a copy
    except (TypeError, ValueError):
        pass
    raise TinoError(f"{name} is {shown(given)}, expected an array of real numbers")


def _started(model: Operator, records: int | None) -> Stream:
    """A stream at rest, to be given its state."""
    zeros = np.zeros((records or 1, model.frame.state)) if model.frame.state else None
    return Stream(model, zeros if records or zeros is None else zeros[0], records)
