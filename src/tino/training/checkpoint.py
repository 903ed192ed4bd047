"""Checkpoints: everything a run needs to continue, in one safetensors file with a checksum; nothing is unpickled."""

import json
import shutil
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from tino.errors import TinoError, in_short
from tino.files import STAMP, check_stamp, check_writable, parse_json, stamp, whole_file

CHECKPOINT_FORMAT = 5  # with the scales of the losses
FIX = "delete it and train anew"
COPIES = {"soap": 7, "adam": 3, "adamw": 3}  # sizes of a model in a checkpoint: weights, moments, factors


def write_checkpoint(path: Path, state: Any) -> None:
    """Nested dicts, lists, numbers, texts, None and tensors -> one file."""
    tensors: dict[str, Tensor] = {}
    skeleton = _taken_apart(state, tensors)
    record = {"format": str(CHECKPOINT_FORMAT), "state": json.dumps(skeleton)}
    with whole_file(path) as part:
        part.write_bytes(safetensors.torch.save(tensors, {**record, **STAMP}))
        with open(part, "rb+") as file:
            stamp(file)


def read_checkpoint(path: Path) -> Any:
    """What was written, its tensors on the CPU."""
    check_stamp(path, FIX)
    try:
        with safetensors.safe_open(path, "pt") as file:
            record = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise TinoError(f"{path} is damaged or no checkpoint: {FIX} ({in_short(error)})") from error
    if record.get("format") != str(CHECKPOINT_FORMAT):
        raise TinoError(f"{path} is not a checkpoint of format {CHECKPOINT_FORMAT}: {FIX}")
    try:
        return _put_together(parse_json(record["state"]), tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, RecursionError) as error:
        raise TinoError(f"{path} is not a whole checkpoint: {FIX} ({in_short(error)})") from error


def check_room(folder: Path, parameters: int, optimizer: str, averaged: bool, size: int = 4) -> None:
    """The folder can be written to, and its disk holds two checkpoints (the last and the next) and the model."""
    check_writable(folder)
    needed = size * parameters * (2 * (COPIES[optimizer] + 2 * averaged) + 1) + 10 * 2**20
    nearest = next(place for place in (folder, *folder.resolve().parents) if place.exists())
    free = shutil.disk_usage(nearest).free
    if free < needed:
        sizes = f"{needed / 2**20:.0f} MiB for checkpoints and the model, {free / 2**20:.0f} MiB are free"
        raise TinoError(f"{folder} has no room for this run: it needs about {sizes}")


def _taken_apart(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = f"t{len(tensors)}"
        order = sorted(range(value.ndim), key=lambda axis: -value.stride(axis))
        tensors[name] = value.detach().permute(order).cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": [name, order]}
    if isinstance(value, dict):
        pairs = [[_taken_apart(k, tensors), _taken_apart(v, tensors)] for k, v in value.items()]
        return {"dict": pairs}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_taken_apart(v, tensors) for v in value]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")


def _put_together(skeleton: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(skeleton, dict):
        return skeleton
    ((kind, value),) = skeleton.items()
    if kind == "tensor":
        name, order = value  # the order of the axes in memory: products round differently in another one
        return tensors[name].permute([order.index(axis) for axis in range(len(order))])
    if kind == "dict":
        return {_put_together(k, tensors): _put_together(v, tensors) for k, v in value}
    values = [_put_together(v, tensors) for v in value]
    return tuple(values) if kind == "tuple" else values
