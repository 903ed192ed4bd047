"""Memories of operators (``State.memory``) as lists of tensors, as one vector, and as shapes."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from tino.operator import Operator


def tensors_of(memory: Any) -> list[Tensor]:
    """The tensors of a memory, in order; a part that is None has none."""
    if isinstance(memory, tuple):
        return [tensor for part in memory for tensor in tensors_of(part)]
    return [] if memory is None else [memory]


def with_tensors(memory: Any, tensors: Sequence[Tensor]) -> Any:
    """A memory nested as this one, with these tensors."""
    return _filled(memory, iter(tensors))


def _filled(memory: Any, tensors: Iterator[Tensor]) -> Any:
    if isinstance(memory, tuple):
        return tuple(_filled(part, tensors) for part in memory)
    return None if memory is None else next(tensors)


def as_vector(memory: Any) -> Tensor:
    """(b, S): all numbers of each record, one tensor after the other."""
    return torch.cat([tensor.flatten(1) for tensor in tensors_of(memory)], 1)


def from_vector(memory: Any, vector: Tensor) -> Any:
    """A memory nested as this one, with the numbers of a vector (b, S)."""
    parts = tensors_of(memory)
    pieces = vector.split([part[0].numel() for part in parts], 1)
    return with_tensors(memory, [piece.unflatten(1, part.shape[1:]) for piece, part in zip(pieces, parts, strict=True)])


def resting(model: Operator, b: int) -> Any:
    """A memory of b records, for its shapes: at rest, from an initial state of zeros if the model takes one."""
    like = next((v for v in model.state_dict().values() if v.is_floating_point()), torch.empty(0))
    with torch.no_grad():
        return model.rest(b, like.new_zeros(b, model.frame.state) if model.frame.state else None)


def fingerprint(model: Operator) -> str:
    """The SHA-256 of a model's frame, sizes and weights: a state of another model makes no sense in this one."""
    about = json.dumps([model.frame.record(), model.record()], sort_keys=True)
    digest = hashlib.sha256(about.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
