"""Training: a config, one loop, its history."""

from tino.training.config import TrainConfig as TrainConfig
