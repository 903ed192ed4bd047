"""Models on disk: weights as safetensors, the spec and the scales as readable JSON beside them."""

from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from tino.errors import TinoError
from tino.files import read_json, whole_file, write_json
from tino.models.separable import Separable, Spec

WEIGHTS, RECORD = "model.safetensors", "model.json"
FORMAT = 1


def save(model: Separable, folder: Path) -> None:
    """Write the weights, then the record that names them."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    with whole_file(folder / WEIGHTS) as part:
        part.write_bytes(safetensors.torch.save(tensors))
    write_json(folder / RECORD, {"format": FORMAT, **model.spec.record(), "normalisation": _normalisation(model)})


def load(folder: str | Path, device: torch.device | str = "cpu") -> Separable:
    """The model saved in a folder. Nothing is unpickled: a model file cannot run code."""
    folder = Path(folder)
    record = read_json(folder / RECORD)
    if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
        raise TinoError(f"{folder / RECORD} is not a model record of format {FORMAT}")
    record.pop("normalisation", None)  # for readers; the numbers themselves lie in the weights
    model = Separable(Spec.from_record(record))
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


def _normalisation(model: Separable) -> dict[str, Any]:
    scale = model.basis.scale.flatten().tolist()
    inputs = model.sensors.matrix
    return {
        "inputs": "f is scaled, never shifted: physical zero stays zero",
        "input_scale": float(torch.linalg.vector_norm(inputs, dim=0).mean() if inputs.ndim else inputs),
        "output_scale": scale if len(scale) > 1 else scale[0],
    }
