"""Models on disk: weights as safetensors, the spec and the scales as readable JSON beside them."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from tino.errors import TinoError, unknown
from tino.files import read_json, whole_file, write_json
from tino.models.fno import Fno, FnoSpec
from tino.models.operator import Frame, Operator
from tino.models.separable import Separable, Spec
from tino.models.unet import Unet, UnetSpec

WEIGHTS, RECORD = "model.safetensors", "model.json"
FORMAT = 4
FAMILIES: dict[str, tuple[Any, Any]] = {
    "separable": (Separable, Spec),
    "fno": (Fno, FnoSpec),
    "unet": (Unet, UnetSpec),
}


def save(model: Operator, folder: Path) -> None:
    """Write the weights, then the record that names them."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    with whole_file(folder / WEIGHTS) as part:
        part.write_bytes(safetensors.torch.save(tensors))
    write_json(folder / RECORD, {"format": FORMAT, **model.record(), "normalisation": model.normalisation()})


def load(folder: str | Path, device: torch.device | str = "cpu") -> Operator:
    """The model saved in a folder. Nothing is unpickled: a model file cannot run code."""
    folder = Path(folder)
    record = read_json(folder / RECORD)
    if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
        raise TinoError(f"{folder / RECORD} is not a model record of format {FORMAT}: train it again")
    record.pop("normalisation", None)  # for readers; the numbers themselves lie in the weights
    model = _empty(record)
    path = folder / WEIGHTS
    if not path.is_file():
        raise TinoError(f"no file {path} beside its record")
    try:
        tensors = safetensors.torch.load_file(path)
        model.to(next(iter(tensors.values())).dtype).load_state_dict(tensors)
    except (safetensors.SafetensorError, OSError, StopIteration) as error:
        raise TinoError(f"{path} is damaged or not a safetensors file: {error}") from error
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise TinoError(f"{path} does not fit its record: {reason}") from error
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise TinoError(f"{path} has NaN or infinite numbers in '{name}'")
    return model.to(device)


def _empty(record: dict[str, Any]) -> Operator:
    """The model a record describes, its numbers still to come."""
    family = record.pop("family", None)
    if family not in FAMILIES:
        raise unknown("family of models", str(family), FAMILIES)
    make, spec = FAMILIES[family]
    known = {field.name for field in fields(Frame)}
    try:
        frame = Frame.from_record({key: value for key, value in record.items() if key in known})
        rest = {key: tuple(v) if isinstance(v, list) else v for key, v in record.items() if key not in known}
        return make(frame, spec(**rest))
    except (KeyError, TypeError) as error:
        raise TinoError(f"the record does not describe a model of this version: {error}") from error
