"""Training: a config, one loop, its history."""

from tino.training.config import TrainConfig
from tino.training.loop import History, fit

__all__ = ["History", "TrainConfig", "fit"]
