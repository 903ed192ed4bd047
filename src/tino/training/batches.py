"""Which samples and times a step takes: decided by the seed and the number of the epoch alone."""

import hashlib
from dataclasses import replace

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.errors import TinoError
from tino.holdout import LONG, memory_length, windows
from tino.operator import Operator
from tino.training.config import TrainConfig


def draws(
    config: TrainConfig, n: int, steps: int, n_t: int, epoch: int, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """The order of the samples (n,) in an epoch, and the times of each of its steps, (steps, s)."""
    mark = hashlib.sha256(f"{config.seed}/{epoch}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(mark[:7], "big"))
    order = torch.randperm(n, generator=generator)
    times = draw_times(n_t, config.times, steps, generator)
    return _sent(order, device), None if times is None else _sent(times, device)


def _sent(values: Tensor, device: torch.device) -> Tensor:
    """On its way to the device; the host does not wait until it is there."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values


def draw_times(n_t: int, count: int, steps: int, generator: torch.Generator) -> Tensor | None:
    """A step's random times, one from each of ``count`` equal stretches of the grid: (steps, s), or None for all."""
    if count == 0 or count >= n_t:
        return None
    edges = torch.arange(count, dtype=torch.float64) * (n_t / count)
    times = edges + torch.rand(steps, count, generator=generator, dtype=torch.float64) * (n_t / count)
    return times.long().clamp(max=n_t - 1)


SHORT = 256  # times of a window, at least


def in_windows(train: Dataset, model: nn.Module) -> Dataset:
    """Long records cut into windows, for a model that takes records of any length: it learns from many at once.

    Their burn-in is as long as the system's memory, or as what the model reads to see the state.
    """
    if train.time.n <= LONG or not isinstance(model, Operator) or model.longest is not None:
        return train
    burn_in = max(train.burn_in, memory_length(train), model.observes)
    length = max(SHORT, 4 * burn_in)
    return train if length >= train.shortest else windows(replace(train, burn_in=burn_in), length)


def split(train: Dataset, config: TrainConfig) -> tuple[Dataset, Dataset | None]:
    """Samples to fit, and samples to watch: some of the training set, never of the test set."""
    if not config.validation:
        return train, None
    kept = round(config.validation * len(train))
    if not 0 < kept < len(train):
        share = f"validation is {config.validation}, which is {kept} of {len(train)} training samples"
        raise TinoError(f"{share}: at least one is to be watched and one to be fitted")
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(config.seed))
    return train.take(order[kept:].sort().values), train.take(order[:kept].sort().values)
