"""Training: begin with ``loop.py``. Only the config is needed by those who import the package."""

from tino.training.config import TrainConfig as TrainConfig
