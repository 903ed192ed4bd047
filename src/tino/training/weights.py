"""The weights that training ends with: the last, their running average, or the best on held-out samples."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from tino.training import distributed
from tino.training.config import TrainConfig
from tino.training.objective import Objective

KEPT_IN_CHECKPOINTS = ("average", "best", "best_loss", "best_step", "last_loss", "looks_since")


class ResultWeights:
    """Follows the parameters through training, and sets them to the chosen weights at the end."""

    def __init__(self, parameters: list[nn.Parameter], config: TrainConfig, watched: Objective | None) -> None:
        self.parameters, self.decay, self.watched = parameters, config.average, watched
        self.average = [p.detach().clone() for p in parameters] if config.average else None
        self.best: list[Tensor] | None = None
        self.best_loss, self.best_step, self.last_loss, self.looks_since = math.inf, 0, math.nan, 0

    def follow(self, step: int) -> None:
        """Update the average after a step."""
        if self.average is not None:
            decay = min(self.decay, step / (step + 9))  # the start is forgotten sooner
            with torch.no_grad():
                for mean, weight in zip(self.average, self.parameters, strict=True):
                    mean.lerp_(weight, 1 - decay)

    def validate(self, step: int, batch: int) -> None:
        """The error of held-out records after a step, with the weights that would be the result now."""
        assert self.watched is not None
        last = [p.detach().clone() for p in self.parameters]
        self.put(self.average)
        n, device = self.watched.n, self.watched.device
        with torch.no_grad():
            samples = torch.arange(n, device=device).split(batch)
            total = sum(float(self.watched(part, None)) * len(part) for part in samples)
        self.put(last if self.average else None)
        mean = torch.tensor(total / n, dtype=torch.float64, device=device)
        mean = float(distributed.summed(mean)) / distributed.size()  # one number for all processes
        self.last_loss = self.watched.weight * mean + self.watched.constant
        self.looks_since += 1
        if self.last_loss < self.best_loss:
            self.best_loss, self.best_step, self.looks_since = self.last_loss, step, 0
            self.best = [p.detach().clone() for p in self.average or self.parameters]

    def put(self, weights: list[Tensor] | None) -> None:
        """Copy these weights into the model; None changes nothing."""
        with torch.no_grad():
            for p, weight in zip(self.parameters, weights or [], strict=weights is not None):
                p.copy_(weight)

    @property
    def kept_start(self) -> bool:
        """Whether no weights of the training were better on held-out records than those before it."""
        return self.best is not None and self.best_step == 0

    def put_result(self) -> None:
        self.put(self.best or self.average)

    def finite(self) -> bool:
        return all(bool(torch.isfinite(p).all()) for p in self.parameters)

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in KEPT_IN_CHECKPOINTS}

    def restore(self, state: dict[str, Any]) -> None:
        device = self.parameters[0].device
        for name, value in state.items():
            setattr(self, name, [w.to(device) for w in value] if isinstance(value, list) else value)
