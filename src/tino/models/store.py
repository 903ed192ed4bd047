"""Models from disk: weights as safetensors, sizes and scales as readable JSON beside them.

The record says what to build, so it is not trusted: it is built without memory first, on torch's meta device, and
compared with the shapes in the weights file.
"""

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor

from tino.devices import pick_device
from tino.errors import TinoError, in_short
from tino.files import read_sealed
from tino.frame import Frame
from tino.models.registry import model_entry
from tino.operator import MODEL_FORMAT, RECORD, WEIGHTS, Operator

FIX = "train it again"
COMPUTED = 2**27  # bytes of what a model computes from its grids; and 64 times those of its weights
FLOATS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}


def load(folder: str | Path, device: torch.device | str = "cpu") -> Operator:
    """The model saved in a folder. Nothing is unpickled: a model file cannot run code."""
    device, folder = pick_device(device), Path(folder)
    record = read_sealed(folder / RECORD, FIX, MODEL_FORMAT)
    path = folder / WEIGHTS
    if not path.is_file():
        raise TinoError(f"no file {path} beside its record")
    try:
        with open(path, "rb") as raw:
            found = hashlib.file_digest(raw, "sha256").hexdigest()
        if found != record.get("weights_sha256"):
            raise TinoError(f"{path} was changed or damaged (its checksum differs): {FIX}")
        with safetensors.safe_open(path, "pt") as file:
            held = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: tuple(one.get_shape()) for name, one in held.items()}
            kinds = {one.get_dtype() for one in held.values()} & set(FLOATS)
            _check(_without_memory(record, folder / RECORD), shapes, path)
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in held}
    except (OSError, safetensors.SafetensorError) as error:
        raise TinoError(f"{path} is damaged or not a safetensors file: {in_short(error)}") from error
    if len(kinds) != 1:
        raise TinoError(f"{path} holds numbers of types {sorted(kinds)}, expected one floating type")
    model = _built(record, folder / RECORD)
    try:
        model.to(FLOATS[kinds.pop()]).load_state_dict(tensors)
    except (RuntimeError, TypeError) as error:
        raise TinoError(f"{path} does not fit its record: {in_short(error)}") from error
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise TinoError(f"{path} has NaN or infinite numbers in '{in_short(name)}'")
    return model.to(device)


def weights_checksum(folder: Path) -> str:
    """Of the model in a folder: what was measured on it says by this which weights it belongs to."""
    return str(read_sealed(folder / RECORD, FIX, MODEL_FORMAT).get("weights_sha256"))


def _without_memory(record: Mapping[str, Any], path: Path) -> Operator | None:
    """The model with the shapes of its numbers only; None for a kind that needs their values while it is made."""
    try:
        with torch.device("meta"):
            return _built(record, path)
    except TinoError as error:
        if isinstance(error.__cause__, NotImplementedError) or "meta tensor" in str(error.__cause__):
            return None
        raise


def _check(model: Operator | None, shapes: dict[str, tuple[int, ...]], path: Path) -> None:
    """Compare the shapes, and bound what the model computes from its grids, before anything is allocated."""
    if model is None:
        return
    own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    for name in [*own, *shapes]:
        if own.get(name) != shapes.get(name):
            held, said = (in_short(one.get(name, "missing"), 40) for one in (shapes, own))
            raise TinoError(f"{path} does not fit its record: '{in_short(name, 40)}' is {held}, in the record {said}")
    size = sum(value.nbytes for value in model.buffers()) - sum(v.nbytes for n, v in model.named_buffers() if n in own)
    if size > (most := COMPUTED + 64 * path.stat().st_size):
        needs = f"{size / 2**20:.0f} MiB for its grids, more than {most / 2**20:.0f}"
        raise TinoError(f"{path.with_name(RECORD)} describes a model that needs {needs}: {FIX}")


def _built(record: Mapping[str, Any], path: Path) -> Operator:
    """The model a record describes, before its weights are loaded."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of torch, about layers without numbers
            frame = Frame.from_record(record["frame"])
            return model_entry(frame.model).kind.from_record(frame, record["sizes"])
    except Exception as error:  # whatever constructors raise when their sizes make no sense
        reason = in_short(error) or type(error).__name__
        raise TinoError(f"{path} does not describe a model of this version: {reason}") from error
