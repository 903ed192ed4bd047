"""Models from disk: weights as safetensors, sizes and scales as readable JSON beside them."""

from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from tino.devices import pick_device
from tino.errors import TinoError
from tino.files import read_json
from tino.frame import Frame
from tino.models.registry import model_entry
from tino.operator import MODEL_FORMAT, RECORD, WEIGHTS, Operator


def load(folder: str | Path, device: torch.device | str = "cpu") -> Operator:
    """The model saved in a folder. Nothing is unpickled: a model file cannot run code."""
    folder = Path(folder)
    model = _empty(folder / RECORD)
    path = folder / WEIGHTS
    if not path.is_file():
        raise TinoError(f"no file {path} beside its record")
    try:
        tensors = safetensors.torch.load_file(path)
        model.to(next(v.dtype for v in tensors.values() if v.is_floating_point())).load_state_dict(tensors)
    except (safetensors.SafetensorError, OSError, StopIteration) as error:
        raise TinoError(f"{path} is damaged or not a safetensors file: {error}") from error
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise TinoError(f"{path} does not fit its record: {reason}") from error
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise TinoError(f"{path} has NaN or infinite numbers in '{name}'")
    return model.to(pick_device(device))


def _empty(path: Path) -> Operator:
    """The model a record describes, before its weights are loaded."""
    record: Any = read_json(path)
    if not isinstance(record, dict) or "format" not in record:
        raise TinoError(f"{path} is not a model's record")
    if record["format"] != MODEL_FORMAT:
        raise TinoError(f"{path} has format {record['format']}, this version reads {MODEL_FORMAT}: train it again")
    try:
        frame = Frame.from_record(record["frame"])
        return model_entry(frame.model).kind.from_record(frame, record["sizes"])
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TinoError(f"{path} does not describe a model of this version: {reason}") from error
