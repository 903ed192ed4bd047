"""Training: a config, one loop, its history."""

from tino.training.config import TrainConfig
from tino.training.history import History
from tino.training.loop import fit

__all__ = ["History", "TrainConfig", "fit"]
