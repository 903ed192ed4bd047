"""Everything about CUDA graphs: steps captured once and replayed, with no work of the host between kernels."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from tino.training import distributed
from tino.training.config import TrainConfig
from tino.training.objective import Objective
from tino.training.step import Step

WARM = 3  # steps before a capture, in which libraries choose their kernels and workspaces
SETTLED = 400  # SOAP's steps after which its bias corrections, 1 - 0.95^k, are 1 in float32

Replay = Callable[[Tensor, Tensor | None], Tensor]


def make_step(objective: Objective, optimizer: torch.optim.Optimizer, config: TrainConfig) -> Step:
    """A captured step on a GPU that holds the data, in one process; a plain one elsewhere."""
    captured = objective.device.type == "cuda" and objective.on_device and distributed.size() == 1
    return (CapturedStep if captured else Step)(objective, optimizer, config)


class CapturedStep(Step):
    """A step as a graph, for each batch size: the last batch of an epoch may be smaller."""

    def __init__(self, objective: Objective, optimizer: torch.optim.Optimizer, config: TrainConfig) -> None:
        super().__init__(objective, optimizer, config)
        self.capturable = True
        self.update: Callable[[], Any] = self.optimizer.step
        if self.config.optimizer == "soap":
            self.update = CapturedUpdate(self.optimizer, self.parameters)
        self.seen: dict[int, int] = {}
        self.graphs: dict[int, Replay] = {}

    def __call__(self, samples: Tensor, times: Tensor | None) -> Tensor:
        b = len(samples)
        if self.capturable and b not in self.graphs:
            self.seen[b] = self.seen.get(b, 0) + 1
            if self.seen[b] > WARM:
                try:
                    self.graphs[b] = self._capture(samples, times)
                except torch.OutOfMemoryError:  # a graph keeps its memory for good: continue without one
                    self.capturable = False
                    torch.cuda.empty_cache()
        if b in self.graphs:
            return self.graphs[b](samples, times)
        with _side_stream():
            loss = self.gradients(samples, times)
            self.update()
        return loss

    def _capture(self, samples: Tensor, times: Tensor | None) -> Replay:
        kept_samples, kept_times = samples.clone(), None if times is None else times.clone()
        whole = not isinstance(self.update, CapturedUpdate)  # it has a graph of its own
        graph = torch.cuda.CUDAGraph()
        with _capturing(graph):
            loss = self.gradients_in_parts(kept_samples, kept_times)
            if whole:
                self.update()
        gradients = [p.grad for p in self.parameters]

        def replay(samples: Tensor, times: Tensor | None) -> Tensor:
            kept_samples.copy_(samples)
            if kept_times is not None and times is not None:
                kept_times.copy_(times)
            graph.replay()
            if not whole:
                for p, gradient in zip(self.parameters, gradients, strict=True):
                    p.grad = gradient
                self.update()
            return loss.clone()

        return replay


class CapturedUpdate:
    """SOAP's update as a graph, except every tenth, which renews its bases and runs normally.

    The library keeps its rate and its count of steps on the host, where a graph cannot read them. So the graph holds an
    update with rate 1, which is then scaled by the true rate, and it is captured once the count no longer matters.
    When a plain update puts new tensors into the optimiser's state, their values are copied into those the graph reads.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> None:
        self.optimizer, self.all = optimizer, parameters
        self.group = optimizer.param_groups[0]
        self.rate = torch.zeros((), device=parameters[0].device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.parameters: list[nn.Parameter] = []  # those that have a gradient
        self.gradients: list[Tensor] = []  # the graph reads them here
        self.held: list[Tensor] = []  # what it reads of the state

    def __call__(self) -> None:
        count, state = self.group.get("step", 0), self.optimizer.state
        begins = any(p.grad is not None and not state.get(p) for p in self.all)  # its state is made in a plain update
        if begins or count < SETTLED or count % self.group["precondition_frequency"] == 0:
            self.optimizer.step()
            for (box, key), old in zip(self._places() if self.held else [], self.held, strict=True):
                if box[key] is not old:
                    old.copy_(box[key])
                    box[key] = old
            return
        if self.graph is None:
            self.graph = self._capture(count)
        torch._foreach_copy_(self.gradients, [p.grad for p in self.parameters])  # pyright: ignore
        self.rate.fill_(self.group["lr"])
        self.graph.replay()
        self.group["step"] = count + 1

    def _capture(self, count: int) -> torch.cuda.CUDAGraph:
        self.parameters = [p for p in self.all if p.grad is not None]
        given, rate = [p.grad for p in self.parameters], self.group["lr"]
        self.gradients = [torch.zeros_like(p) for p in self.parameters]
        for p, kept in zip(self.parameters, self.gradients, strict=True):
            p.grad = kept
        decay, self.group["weight_decay"], self.group["lr"] = self.group["weight_decay"], 0.0, 1.0
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), _capturing(graph):
            before = [p.clone() for p in self.parameters]
            self.optimizer.step()
            for p, old in zip(self.parameters, before, strict=True):
                p.copy_(torch.lerp(old, p, self.rate) * (1 - decay * self.rate))
        self.group["weight_decay"], self.group["lr"] = decay, rate
        self.group["step"] = count  # a capture runs nothing
        for p, gradient in zip(self.parameters, given, strict=True):
            p.grad = gradient
        self.held = [box[key] for box, key in self._places()]
        return graph

    def _places(self) -> list[tuple[Any, Any]]:
        """The places of all tensors in the optimiser's state: (container, key)."""
        return [place for p in self.parameters for place in _tensors(self.optimizer.state[p])]


def _tensors(box: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in box.items() if isinstance(box, dict) else enumerate(box):
        if isinstance(value, Tensor):
            yield box, key
        elif isinstance(value, dict | list):
            yield from _tensors(value)


@contextmanager
def _capturing(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Capture the block into the graph, without garbage collection: freeing an old graph would spoil the capture."""
    gc.collect()
    gc.disable()
    try:
        with torch.cuda.graph(graph):
            yield
    finally:
        gc.enable()


@cache
def _side(device: int) -> torch.cuda.Stream:
    """One stream for all: cuBLAS keeps workspaces for each stream it has seen."""
    return torch.cuda.Stream(device)


@contextmanager
def _side_stream() -> Iterator[None]:
    """A side stream, on which the steps before a capture must run."""
    side = _side(torch.cuda.current_device())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        yield
    torch.cuda.current_stream().wait_stream(side)
