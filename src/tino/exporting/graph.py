"""Models as graphs, in ONNX and in torch's own format: one step with its state as inputs and outputs, and the start.

The start maps f_0 (b, m), and an initial state ic (b, k) if the model takes one, to u_0 (b, x) and the state after it.
The step maps f (b, m), the state, and with a clock also i, the number of inputs before, to u (b, x) and the next state.
A model that is not causal is one graph, from f (b, t, m) to u (b, t, x).
"""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tino.channels import split_channels
from tino.errors import TinoError, in_short
from tino.exporting.real import real_numbers
from tino.frame import numbers
from tino.memories import resting, tensors_of, with_tensors
from tino.operator import Operator

STEPS, RECORDS = 8, 3  # of the check; graphs are traced with two records


class StartGraph(nn.Module):
    def __init__(self, model: Operator) -> None:
        super().__init__()
        self.model = model

    def forward(self, f: Tensor, ic: Tensor | None = None) -> tuple[Tensor, ...]:
        with real_numbers():
            centred = None if ic is None else self.model.centred(ic)
            memory, u = self.model._first(self.model.rest(f.shape[0], centred), f)
            return (self.model.with_offset(u), *(one.clone() for one in tensors_of(memory)))


class StepGraph(nn.Module):
    def __init__(self, model: Operator, clock: bool) -> None:
        super().__init__()
        self.model, self.clock, self.memory = model, clock, resting(model, 1)

    def forward(self, f: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """(f, state ...) or, with a clock, (f, i, state ...) -> (u, state ...)."""
        i, state = (state[0], state[1:]) if self.clock else (1, state)
        with real_numbers():
            memory, u = self.model._step(with_tensors(self.memory, state), f, i)
            return (self.model.with_offset(u), *(one.clone() for one in tensors_of(memory)))


class RecordGraph(nn.Module):
    def __init__(self, model: Operator) -> None:
        super().__init__()
        self.model = model

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        with real_numbers():
            centred = None if ic is None else self.model.centred(ic)
            return self.model.with_offset(self.model.forward(f, centred))


@dataclass(frozen=True)
class Graph:
    """A module to be traced, with sample inputs of two records and the names of all inputs and outputs."""

    name: str  # step, start or record
    module: nn.Module
    inputs: dict[str, Tensor]
    outputs: tuple[str, ...]

    def traced(self) -> torch.export.ExportedProgram:
        """For any number of records."""
        given = tuple(self.inputs.values())
        free: list[Any] = [{0: torch.export.Dim("b")} if value.ndim else {} for value in given]
        shapes = (free[0], tuple(free[1:])) if self.name == "step" else tuple(free)
        try:
            self.module(*given)  # what is computed once must not be computed by tensors without values
            with warnings.catch_warnings(action="ignore"):
                found = torch.export.export(self.module, given, dynamic_shapes=shapes, strict=False)
        except Exception as error:  # torch's tracer raises many kinds
            raise TinoError(f"torch cannot trace the {self.name} of this model: {in_short(error)}") from error
        for node in found.graph.nodes:
            value = node.meta.get("val")
            if "fft" in str(node.target) or (isinstance(value, Tensor) and value.is_complex()):
                raise TinoError(f"the graph of this model holds {node.target}, which exported models must not")
        return found


def graphs(model: Operator) -> list[Graph]:
    """The graphs of a model, each on a copy of its own: tracing leaves its marks."""
    frame, own = model.frame, numbers(model)
    model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    f = torch.zeros(2, frame.time.n, frame.input_size, dtype=own.dtype)
    ic = {"ic": f.new_zeros(2, frame.state)} if frame.state else {}
    if not model.properties.causal:
        return [Graph("record", RecordGraph(model), {"f": f, **ic}, ("u",))]
    memory = [one.clone() for one in tensors_of(resting(model, 2))]
    names = [f"state_{n}" for n in range(len(memory))]
    clock = {} if model.properties.autonomous else {"i": torch.tensor(1)}
    state = dict(zip(names, memory, strict=True))
    step = StepGraph(model, bool(clock))
    return [
        Graph("step", step, {"f": f[:, 0], **clock, **state}, ("u", *(f"{name}_out" for name in names))),
        Graph("start", StartGraph(copy.deepcopy(model)), {"f": f[:, 0], **ic}, ("u", *names)),
    ]


# -- the check -----------------------------------------------------------------------------------------------

Run = Callable[[dict[str, Tensor]], Sequence[Tensor]]


def compared(model: Operator, runs: Mapping[str, Run]) -> float:
    """The largest difference between the graphs and the model itself, of each channel and each state over its own size.

    Three records of noise within the ranges seen in training: the start, then step by step from the model's own states.
    """
    with torch.no_grad():
        columns = list(zip(*_rows(model, runs), strict=True))
    found = [torch.stack([one for one, _ in pairs]) for pairs in columns]
    expected = [torch.stack([one for _, one in pairs]) for pairs in columns]
    states = map(difference, found[1:], expected[1:])
    return max(output_difference(model, found[0], expected[0]), *states, 0.0)


def output_difference(model: Operator, found: Tensor, expected: Tensor) -> float:
    """The largest difference of u (..., c x), in each channel over its largest distance from the offset.

    An answer of 300 that varies by 1 is rounded like 300: one rounding of the offset is no difference.
    """
    channels = len(model.frame.output_channels)
    offsets, rounding = model.frame.seen.output_offset or (0.0,) * channels, torch.finfo(expected.dtype).eps
    one, other = (split_channels(u.double(), channels) for u in (found, expected))
    return max(
        difference(one[..., n, :] - offset, other[..., n, :] - offset, rounding * abs(offset))
        for n, offset in enumerate(offsets)
    )


def difference(found: Tensor, expected: Tensor, rounding: float = 0.0) -> float:
    """The largest, beyond rounding, over the largest |expected| unless that is zero; infinite with NaN on any side."""
    if not bool((torch.isfinite(found) & torch.isfinite(expected)).all()):
        return float("inf")
    if not expected.numel():
        return 0.0
    worst, size = (float(one.abs().max()) for one in (found - expected, expected))
    return max(0.0, worst - rounding) / (size or 1.0)


def noise(model: Operator, times: int) -> tuple[Tensor, Tensor | None]:
    """Inputs (b, times, m) and initial states (b, k) within the ranges seen in training."""
    frame, own, generator = model.frame, numbers(model), torch.Generator().manual_seed(0)

    def drawn(size: int, ranges: Sequence[tuple[float, float]], *shape: int) -> Tensor:
        ends = torch.tensor(ranges or [(-1.0, 1.0)], dtype=torch.float64).repeat_interleave(
            size // (len(ranges) or 1), 0
        )
        unit = torch.rand(*shape, size, generator=generator, dtype=torch.float64)
        return (ends[:, 0] + (ends[:, 1] - ends[:, 0]) * unit).to(own.dtype)

    f = drawn(frame.input_size, frame.seen.inputs, RECORDS, times)
    return f, drawn(frame.state, frame.seen.states, RECORDS) if frame.state else None


def _rows(model: Operator, runs: Mapping[str, Run]) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """For each time, what a graph and the model give: outputs, then states."""
    f, ic = noise(model, model.frame.time.n if "record" in runs else min(model.frame.time.n, STEPS))
    given = {} if ic is None else {"ic": ic}
    if "record" in runs:
        yield list(zip(runs["record"]({"f": f, **given}), (model(f, ic),), strict=True))
        return
    state, u = model.start(f[:, 0], ic)
    after = tensors_of(state.memory)
    yield list(zip(runs["start"]({"f": f[:, 0], **given}), (u, *after), strict=True))
    for i in range(1, f.shape[1]):
        clock = {} if model.properties.autonomous else {"i": torch.tensor(i)}
        before = {f"state_{n}": one for n, one in enumerate(tensors_of(state.memory))}
        state, u = model.step(state, f[:, i])
        found = runs["step"]({"f": f[:, i], **clock, **before})
        yield list(zip(found, (u, *tensors_of(state.memory)), strict=True))
