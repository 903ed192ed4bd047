"""Calling a model: its answer is checked, and many records are answered in batches."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tino.devices import products
from tino.errors import TinoError
from tino.frame import Framed, numbers

BATCH_NUMBERS = 4_000_000  # outputs computed at once, at most: bounds the memory of a prediction


def model_name(model: nn.Module) -> str:
    return model.frame.model if isinstance(model, Framed) else type(model).__name__


def call(model: nn.Module, f: Tensor, ic: Tensor | None) -> Tensor:
    """Call an operator: ``model(f)``, or ``model(f, ic)`` with an initial state."""
    return checked(model, f, model(f) if ic is None else model(f, ic))


def checked(model: nn.Module, f: Tensor, answer: Any) -> Tensor:
    if not isinstance(answer, Tensor) or answer.shape[:2] != f.shape[:2]:
        shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise TinoError(f"{model_name(model)} maps f {tuple(f.shape)} to {shape}, expected a tensor (b, t, points)")
    return answer


def at_once(times: int, size: int) -> int:
    """How many records of so many times and numbers at each are answered together."""
    return max(1, BATCH_NUMBERS // (times * max(size, 256)))


def in_batches(model: nn.Module, answer: Callable[..., Tensor], f: Tensor, *others: Tensor | None) -> Tensor:
    """``answer(f, *others)``, some records at a time, on the model's device and in its dtype, without gradients.

    f is (n, t, m), the answer (n, t, x) is returned on the input's device.
    """
    outputs = model.frame.output_size if isinstance(model, Framed) else f.shape[-1]
    at = numbers(model, f)
    size = at_once(f.shape[1], outputs)
    training = model.training
    model.eval()
    parts = []
    with torch.no_grad(), products(tf32=False):
        for first in range(0, len(f), size):
            some = [None if values is None else values[first : first + size].to(at) for values in (f, *others)]
            parts.append(answer(*some).to(f.device))
    model.train(training)
    return torch.cat(parts)


def parameter_count(model: nn.Module) -> int:
    """All stored numbers that were fitted or learned."""
    return sum(p.numel() for p in model.parameters())
