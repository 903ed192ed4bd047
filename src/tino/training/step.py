"""One optimisation step; on a GPU captured once as a CUDA graph and replayed."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tino.training import distributed
from tino.training.config import TrainConfig
from tino.training.objective import Objective

WARM = 3  # steps before a capture: libraries choose their kernels and workspaces in them


class Step:
    """(samples, times) -> the loss of the step just taken, still on the device: nothing here waits for it.

    A captured step is the same kernels without the host's work between them. Adam's are captured whole; SOAP counts its
    steps on the host, so its own part runs as it is.
    """

    def __init__(self, objective: Objective, optimizer: torch.optim.Optimizer, config: TrainConfig) -> None:
        self.objective, self.optimizer, self.config = objective, optimizer, config
        self.parameters = [p for p in objective.parameters() if p.requires_grad]
        self.rank, self.size = distributed.rank(), distributed.size()
        self.loss: nn.Module = objective
        if self.size > 1:
            self.loss = DistributedDataParallel(objective, broadcast_buffers=False)
        self.capturable = objective.device.type == "cuda" and objective.on_device and self.size == 1
        self.whole = config.optimizer != "soap"
        self.seen: dict[int, int] = {}
        self.graphs: dict[int, Callable[[Tensor, Tensor | None], Tensor]] = {}

    def __call__(self, samples: Tensor, times: Tensor | None) -> Tensor:
        """Samples (b,) of the whole batch, of which this process takes its share, at times (s,) or at all."""
        if not self.capturable:
            loss = self._gradients(samples, times)
            self._update()
            return loss
        b = len(samples)
        if b not in self.graphs:
            self.seen[b] = self.seen.get(b, 0) + 1
            if self.seen[b] > WARM:
                self.graphs[b] = self._capture(samples, times)
        if b in self.graphs:
            loss = self.graphs[b](samples, times)
            if not self.whole:
                self.optimizer.step()
            return loss
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            loss = self._gradients(samples, times)
            self._update()
        torch.cuda.current_stream().wait_stream(side)
        return loss

    def _gradients(self, samples: Tensor, times: Tensor | None) -> Tensor:
        mine = samples[self.rank :: self.size]
        factor = self.size * len(mine) / len(samples)  # the mean over processes is the mean over the batch
        mine = mine if len(mine) else samples[:1]
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(samples.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            loss = self.loss(mine, times)
        (loss * (self.objective.scale * factor)).backward()
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        return loss.detach() * factor

    def _update(self) -> None:
        self.optimizer.step()

    def _capture(self, samples: Tensor, times: Tensor | None) -> Callable[[Tensor, Tensor | None], Tensor]:
        kept_samples, kept_times = samples.clone(), None if times is None else times.clone()
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = self._gradients(kept_samples, kept_times)
            if self.whole:
                self._update()
        gradients = [p.grad for p in self.parameters]

        def replay(samples: Tensor, times: Tensor | None) -> Tensor:
            kept_samples.copy_(samples)
            if kept_times is not None and times is not None:
                kept_times.copy_(times)
            for p, gradient in zip(self.parameters, gradients, strict=True):  # another batch size has its own
                p.grad = gradient
            graph.replay()
            return loss.clone()

        return replay
