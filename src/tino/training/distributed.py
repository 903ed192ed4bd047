"""Several processes on one training run: torch's DDP, started by torchrun; without torchrun, one process."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from tino.errors import TinoError

Made = TypeVar("Made")


def launched() -> bool:
    """Whether torchrun (or a scheduler that sets its variables) started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


@contextmanager
def processes(device: str) -> Iterator[str]:
    """Join the other processes for the time of a block -> the device of this one; alone, nothing happens."""
    if not launched() or dist.is_initialized():
        yield device
        return
    on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if on_gpu and local >= torch.cuda.device_count():
        raise TinoError(f"process {local} of this machine has no GPU: there are {torch.cuda.device_count()}")
    if on_gpu:
        torch.cuda.set_device(local)
    # long: the others wait while the first makes data
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=timedelta(hours=6))
    try:
        yield f"cuda:{local}" if on_gpu else "cpu"
        gc.collect()  # what still holds the group must go before it
        dist.barrier()  # without it a process may leave while another still talks to it
    finally:
        dist.destroy_process_group()


def first_then_others(make: Callable[[], Made]) -> Made:
    """``make()`` on the first process of each machine, then on its others, which find what the first has made."""
    first = int(os.environ.get("LOCAL_RANK", "0")) == 0
    if size() > 1 and not first:
        dist.barrier()
    made = make()
    if size() > 1 and first:
        dist.barrier()
    return made


def summed(value: Tensor) -> Tensor:
    """The sum over all processes."""
    if size() > 1:
        dist.all_reduce(value)
    return value


def all_see(path: Path, device: torch.device) -> bool:
    """Whether the file is there, for every process alike."""
    seeing = int(summed(torch.tensor(float(path.exists()), device=device)))
    if 0 < seeing < size():
        raise TinoError(f"{path} is seen by {seeing} of {size()} processes: share the run folder")
    return seeing > 0


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether it holds for one of the processes or more."""
    return bool(summed(torch.tensor(float(flag), device=device)))
