"""How a model is trained; the same for every model unless a user says otherwise."""

from dataclasses import dataclass

import torch

from tino.errors import TinoError


@dataclass(frozen=True)
class TrainConfig:
    """Options of training."""

    epochs: int = 500
    """Passes over the training samples."""
    batch_size: int = 200
    """Samples in a step."""
    times: int = 32
    """Random times of each sample that enter a step; 0 takes them all."""
    optimizer: str = "soap"
    """soap (preconditioned, fewer steps) or adam (cheaper steps)."""
    lr: float = 1e-2
    """Highest learning rate; it warms up over the first 5 % of the steps, then falls along a cosine."""
    seed: int = 0
    """Fixes the batches and the times drawn; in 'tino train' the data and the initial weights too."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise TinoError(f"{name} is {getattr(self, name)}, expected 1 or more")
        if self.times < 0:
            raise TinoError(f"times is {self.times}, expected 0 (all) or more")
        if not self.lr > 0:
            raise TinoError(f"lr is {self.lr}, expected a positive number")
        if self.optimizer not in ("soap", "adam"):
            raise TinoError(f"optimizer is '{self.optimizer}', expected 'soap' or 'adam'")


def make_optimizer(config: TrainConfig, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=config.lr)
    from pytorch_optimizer import SOAP  # here, so that all else runs where it is not installed

    return SOAP(
        parameters,
        lr=config.lr,
        betas=(0.95, 0.95),
        weight_decay=0.0,
        precondition_frequency=10,
        max_precondition_dim=256,  # wider sides stay as they are: their factors would cost more than the step
    )
