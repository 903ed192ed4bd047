"""One optimisation step; on a GPU captured once as a CUDA graph and replayed."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tino.devices import products
from tino.errors import TinoError
from tino.training import distributed
from tino.training.config import TrainConfig
from tino.training.objective import Objective

WARM = 3  # steps before a capture: libraries choose their kernels and workspaces in them
SETTLED = 400  # SOAP's steps after which its bias corrections, 1 - 0.95^k, are 1 in float32

Replay = Callable[[Tensor, Tensor | None], Tensor]


class Step:
    """(samples, times) -> the loss of the step just taken, still on the device: nothing here waits for it.

    A captured step is the same kernels without the host's work between them. A batch that does not fit into a GPU's
    memory is computed in parts, whose gradients add up.
    """

    def __init__(self, objective: Objective, optimizer: torch.optim.Optimizer, config: TrainConfig) -> None:
        self.objective, self.optimizer, self.config = objective, optimizer, config
        self.parameters = [p for p in objective.parameters() if p.requires_grad]
        self.rank, self.size = distributed.rank(), distributed.size()
        self.loss: nn.Module = _compiled(objective) if config.compile else objective
        if self.size > 1:
            self.loss = DistributedDataParallel(self.loss, broadcast_buffers=False)
        self.capturable = objective.device.type == "cuda" and objective.on_device and self.size == 1
        self.update: Callable[[], Any] = optimizer.step
        if self.capturable and config.optimizer == "soap":
            self.update = CapturedSoap(optimizer, self.parameters)
        self.parts = 1  # into which a batch is split
        self.seen: dict[int, int] = {}
        self.graphs: dict[int, Replay] = {}  # by batch size: the last batch of an epoch may be smaller

    def __call__(self, samples: Tensor, times: Tensor | None) -> Tensor:
        """Samples (b,) of the whole batch, of which this process takes its share, at times (s,) or at all."""
        b = len(samples)
        if self.capturable and b not in self.graphs:
            self.seen[b] = self.seen.get(b, 0) + 1
            if self.seen[b] > WARM:
                try:
                    self.graphs[b] = self._capture(samples, times)
                except torch.OutOfMemoryError:  # a graph keeps what it needs for good: go on without
                    self.capturable = False
                    torch.cuda.empty_cache()
        if b in self.graphs:
            return self.graphs[b](samples, times)
        with _side_stream(self.capturable):
            loss = self.gradients(samples, times)
            self.update()
        return loss

    def compile(self, samples: Tensor, times: Tensor | None) -> None:
        """For batches of this size, by taking gradients that no step uses."""
        from torch._dynamo.exc import TorchDynamoException  # here: torch's compiler takes seconds to import

        try:
            self.gradients(samples, times)
        except TorchDynamoException as error:
            reason = str(error).strip().splitlines()[0]
            raise TinoError(f"torch cannot compile the model here: leave out --compile ({reason})") from error

    def gradients(self, samples: Tensor, times: Tensor | None) -> Tensor:
        """The loss, its gradients left with the parameters, in as many parts as the memory asks for."""
        while (loss := self._fitting(samples, times)) is None:
            self.parts *= 2
            torch.cuda.empty_cache()
        return loss

    def _fitting(self, samples: Tensor, times: Tensor | None) -> Tensor | None:
        """The loss and gradients, or None where smaller parts are to be tried: by one process, which need not agree."""
        try:
            return self._gradients(samples, times)
        except torch.OutOfMemoryError as error:
            if self.size > 1:
                raise
            if self.parts >= len(samples):
                raise TinoError("a single sample does not fit into the GPU's memory: use --device cpu") from error
        self.optimizer.zero_grad(set_to_none=True)
        return None

    def _gradients(self, samples: Tensor, times: Tensor | None) -> Tensor:
        """The same in ``self.parts`` parts."""
        mine = samples[self.rank :: self.size]
        factor = self.size * len(mine) / len(samples)  # the mean over processes is the mean over the batch
        mine = mine if len(mine) else samples[:1]
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=samples.device)
        for part in mine.tensor_split(min(self.parts, len(mine))):
            with products(tf32=self.config.precision == "tf32"):  # here alone: SOAP's products want all digits
                with torch.autocast(samples.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
                    loss = self.loss(part, times) * (factor * len(part) / len(mine))
                (loss * self.objective.scale).backward()
            total = total + loss.detach()
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        return total

    def _capture(self, samples: Tensor, times: Tensor | None) -> Replay:
        kept_samples, kept_times = samples.clone(), None if times is None else times.clone()
        whole = not isinstance(self.update, CapturedSoap)  # it has graphs of its own
        graph = torch.cuda.CUDAGraph()
        with _capturing(graph):
            loss = self._gradients(kept_samples, kept_times)
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


def _compiled(objective: Objective) -> nn.Module:
    """Anew for each training: torch compiles a function for a few models, and then no more."""
    torch.compiler.reset()
    return torch.compile(objective, dynamic=False)  # pyright: ignore


class CapturedSoap:
    """SOAP's step as a graph, but for every tenth, which renews its bases and runs as it is.

    The library keeps its rate and its count of steps on the host, where a graph cannot read them. So the graph holds a
    step with rate 1, of which the true rate's share is taken, and it is captured when the count no longer matters.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> None:
        self.optimizer, self.parameters = optimizer, parameters
        self.group = optimizer.param_groups[0]
        self.rate = torch.zeros((), device=parameters[0].device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.gradients: list[Tensor] = []  # the graph reads them here
        self.held: list[Tensor] = []  # what it reads of the state, where a renewal would put new tensors

    def __call__(self) -> None:
        count = self.group.get("step", 0)
        if count < SETTLED or count % self.group["precondition_frequency"] == 0:
            self.optimizer.step()
            for (box, key), old in zip(self._renewed() if self.held else [], self.held, strict=True):
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
        self.held = [box[key] for box, key in self._renewed()]
        return graph

    def _renewed(self) -> list[tuple[Any, Any]]:
        """Where in the state a renewal puts new tensors: (container, key)."""
        places: list[tuple[Any, Any]] = []
        for state in (self.optimizer.state[p] for p in self.parameters):
            bases = state["Q"]
            places += [(state, "exp_avg_sq"), *[(bases, i) for i in range(len(bases)) if len(bases[i])]]
        return places


@contextmanager
def _capturing(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """What the block would run goes into the graph; an old graph freed meanwhile would spoil it, so nothing is."""
    gc.collect()
    gc.disable()
    try:
        with torch.cuda.graph(graph):
            yield
    finally:
        gc.enable()


@cache
def _side(device: int) -> torch.cuda.Stream:
    """One for all: cuBLAS keeps workspaces for each stream it has seen."""
    return torch.cuda.Stream(device)


@contextmanager
def _side_stream(wanted: bool) -> Iterator[None]:
    """Where the steps before a capture must run."""
    if not wanted:
        yield
        return
    side = _side(torch.cuda.current_device())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        yield
    torch.cuda.current_stream().wait_stream(side)
