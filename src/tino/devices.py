"""Where computations run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tino.errors import TinoError


def pick_device(name: str | torch.device) -> torch.device:
    """The device of that name, checked; 'auto' is the GPU if there is one."""
    if str(name) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise TinoError(f"no device '{name}', expected auto, cpu or cuda") from None
    if device.type not in ("cpu", "cuda"):
        raise TinoError(f"tino runs on cpu or cuda, not on '{name}'")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise TinoError(f"device '{name}' was asked for, but torch sees no GPU here: use device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise TinoError(f"device '{name}' was asked for, but there are {torch.cuda.device_count()} GPUs")
    return device


@contextmanager
def products(tf32: bool = False) -> Iterator[None]:
    """Whether matrix products and convolutions on a GPU may drop to TF32's 10 bits for the time of a block."""
    cudnn: Any = torch.backends.cudnn
    places, name, value = (torch.backends.cuda.matmul, cudnn), "allow_tf32", tf32
    try:
        before = [getattr(place, name) for place in places]
    except RuntimeError:  # the program has used torch's newer names, after which torch refuses the older ones
        places, name, value = (places[0], cudnn.conv), "fp32_precision", "tf32" if tf32 else "ieee"
        before = [getattr(place, name) for place in places]
    for place in places:
        setattr(place, name, value)
    try:
        yield
    finally:
        for place, earlier in zip(places, before, strict=True):
            setattr(place, name, earlier)
