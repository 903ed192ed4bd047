"""A test sample and its prediction: everything a figure needs, in a small file."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from tino.data import Dataset, grids_from_record, grids_record
from tino.errors import TinoError, in_short, whole
from tino.evaluation import predict
from tino.files import STAMP, check_stamp, parse_json, stamp, whole_file
from tino.grids import TimeGrid
from tino.operator import Operator

TIMES = 6  # the fewest kept of a field in two or three dimensions


@dataclass(frozen=True)
class Preview:
    """A single sample, its index in the test set, and the prediction (1, t, x)."""

    data: Dataset
    prediction: Tensor
    sample: int


def take_preview(model: nn.Module, test: Dataset) -> Preview:
    """Of the sample with the response of median size: the same one for every model on a test set."""
    size = test.u.square().mean(2)
    size = size.mean(1) if test.mask is None else (size * test.mask).sum(1) / test.mask.sum(1)
    sample = int(size.argsort(stable=True)[len(test) // 2])
    one = test.take(slice(sample, sample + 1))
    n_t = test.time.n if one.lengths is None else int(one.lengths[0])
    f = one.f[:, :n_t] if isinstance(model, Operator) else one.f  # an operator that takes such records is causal
    prediction = predict(model, f, one.ic)[:, :n_t]
    stride = _stride(n_t) if test.outputs.points.shape[1] > 1 else 1
    stop = test.time.stop if n_t == test.time.n else test.time.start + (n_t - 1) * test.time.step
    time = TimeGrid(test.time.start, stop, (n_t - 1) // stride + 1)
    f, u, burn_in = one.f[:, :n_t:stride], one.u[:, :n_t:stride], -(-one.burn_in // stride)
    kept = replace(one, f=f, u=u, time=time, ic=None, meta={}, lengths=None, burn_in=burn_in)
    return Preview(kept, prediction[:, ::stride], sample)


def _stride(n_t: int) -> int:
    """The longest stride from the first time to the last that leaves enough of them."""
    return max(s for s in range(1, n_t) if (n_t - 1) % s == 0 and ((n_t - 1) // s + 1 >= TIMES or s == 1))


def write_preview(path: Path, kept: Preview) -> None:
    data = kept.data
    arrays = {"f": data.f, "u": data.u, "prediction": kept.prediction}
    about = {"sample": kept.sample, "burn_in": data.burn_in, **grids_record(data)}
    with whole_file(path) as part:
        metadata = {"preview": json.dumps(about), **STAMP}
        save_file({k: v.float().contiguous() for k, v in arrays.items()}, part, metadata)
        with open(part, "rb+") as file:
            stamp(file)


def read_preview(path: Path) -> Preview:
    try:
        with safe_open(path, "pt") as file:
            f, u, prediction = (file.get_tensor(name) for name in ("f", "u", "prediction"))
            metadata = file.metadata() or {}
        if not (old := set(metadata) == {"example"}):  # older files have no checksum, and another name for this
            check_stamp(path, "train again")
        about = parse_json(metadata["example" if old else "preview"])
        burn_in = about.get("burn_in", 0)  # older files have none
        kept = Preview(
            Dataset(f, u, **grids_from_record(about), burn_in=burn_in), prediction, whole("sample", about["sample"], 0)
        )
        if prediction.shape != u.shape or len(u) != 1:
            raise ValueError(f"u has shape {tuple(u.shape)}, its prediction {tuple(prediction.shape)}")
        return kept
    except FileNotFoundError:
        raise TinoError(f"no file {path}") from None
    except (OSError, SafetensorError, LookupError, TypeError, ValueError, AttributeError, TinoError) as error:
        raise TinoError(f"{path} is not a readable example: {in_short(error)}") from error
