"""One test sample and what a model made of it: all that a figure needs, in a small file."""

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from tino.data import Dataset
from tino.errors import TinoError
from tino.evaluation import predict
from tino.files import whole_file
from tino.grids import TimeGrid, grid_from_record, grid_record

TIMES = 6  # of fields in two and three dimensions at least as many are kept


@dataclass(frozen=True)
class Example:
    """A single sample, which of the test set it is, and the prediction (1, t, x)."""

    data: Dataset
    prediction: Tensor
    sample: int


def take_example(model: nn.Module, test: Dataset) -> Example:
    """Of the sample whose response is of median size: the same one for every model of a test set."""
    size = test.u.square().mean((1, 2))
    sample = int(size.argsort(stable=True)[len(test) // 2])
    one = test.take(slice(sample, sample + 1))
    prediction = predict(model, one.f, one.ic)
    stride = _stride(test.time.n) if test.outputs.points.shape[1] > 1 else 1
    time = TimeGrid(test.time.start, test.time.stop, (test.time.n - 1) // stride + 1)
    return Example(
        Dataset(one.f[:, ::stride], one.u[:, ::stride], time, test.inputs, test.outputs),
        prediction[:, ::stride],
        sample,
    )


def _stride(n_t: int) -> int:
    """The longest stride from the first time to the last that leaves enough of them."""
    return max(s for s in range(1, n_t) if (n_t - 1) % s == 0 and ((n_t - 1) // s + 1 >= TIMES or s == 1))


def write_example(path: Path, kept: Example) -> None:
    data = kept.data
    arrays = {"f": data.f, "u": data.u, "prediction": kept.prediction}
    about = {
        "sample": kept.sample,
        "time": [data.time.start, data.time.stop, data.time.n],
        "inputs": grid_record(data.inputs),
        "outputs": grid_record(data.outputs),
    }
    with whole_file(path) as part:
        save_file({k: v.float().contiguous() for k, v in arrays.items()}, part, {"example": json.dumps(about)})


def read_example(path: Path) -> Example:
    try:
        with safe_open(path, "pt") as file:
            f, u, prediction = (file.get_tensor(name) for name in ("f", "u", "prediction"))
            about = json.loads((file.metadata() or {})["example"])
        inputs, outputs = (grid_from_record(about[name]) for name in ("inputs", "outputs"))
        return Example(Dataset(f, u, TimeGrid(*about["time"]), inputs, outputs), prediction, about["sample"])
    except FileNotFoundError:
        raise TinoError(f"no file {path}") from None
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise TinoError(f"{path} is not a readable example: {error}") from error
