"""The response of a model to inputs from a file: what it holds, and how it is written."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.evaluation import Scores
from tino.files import whole_file
from tino.grids import Point

WRITTEN = (".csv", ".npz")


@dataclass(frozen=True)
class Response:
    """Inputs as a model takes them, its answers, one (t, x) for each record, and scores if the file has the outputs.

    ``data`` holds the outputs of the file, or else the answers. ``times`` are those of the file, one (t,) for each
    record; ``labels`` are the records' numbers there, none for a single record without one.
    """

    data: Dataset
    answers: tuple[Tensor, ...]
    times: tuple[np.ndarray, ...]
    labels: tuple[float, ...]
    scores: Scores | None
    repaired: tuple[str, ...]
    notes: tuple[str, ...]


def write_response(path: Path, response: Response) -> None:
    """As a table with names and units, or as arrays t, u, f with theirs; whole or not at all."""
    if path.suffix not in WRITTEN:
        raise TinoError(f"{path} ends in '{path.suffix}', expected one of {', '.join(WRITTEN)}")
    with whole_file(path) as part, open(part, "wb") as file:
        if path.suffix == ".csv":
            file.write(_table(response).encode())
        else:
            _save_arrays(file, response)


def _table(response: Response) -> str:
    data, out = response.data, io.StringIO()
    unit = str(data.meta.get("time_unit", ""))
    points = [""] if isinstance(data.outputs, Point) else [f" at {_place(row)}" for row in data.outputs.points.tolist()]
    lines = csv.writer(out, lineterminator="\n")
    named = [f"{c.name}{point}{f' [{c.unit}]' if c.unit else ''}" for c in data.output_channels for point in points]
    lines.writerow([*["record"] * bool(response.labels), f"time [{unit}]" if unit else "time", *named])
    labels = [[f"{label:.10g}"] for label in response.labels] or [[]]
    for label, t, answer in zip(labels, response.times, response.answers, strict=True):
        for time, row in zip(t.tolist(), answer.double().tolist(), strict=True):
            lines.writerow([*label, f"{time:.14g}", *(f"{value:.9g}" for value in row)])
    return out.getvalue()


def _place(row: list[float]) -> str:
    return f"{row[0]:.6g}" if len(row) == 1 else f"({'; '.join(f'{x:.6g}' for x in row)})"


def _save_arrays(file: io.BufferedWriter, response: Response) -> None:
    data = response.data
    n_t = max(map(len, response.answers))
    u = np.zeros((len(response.answers), n_t, data.output_size), response.answers[0].numpy().dtype)
    for one, answer in zip(u, response.answers, strict=True):
        one[: len(answer)] = answer.numpy()
    arrays = {"f": data.f.numpy(), "t": data.time.points.numpy()} | _places(response)
    for name, channels, grid in (("f", data.input_channels, data.inputs), ("u", data.output_channels, data.outputs)):
        arrays |= {
            f"{name}_names": np.array([c.name for c in channels]),
            f"{name}_units": np.array([c.unit for c in channels]),
        }
        if not isinstance(grid, Point):
            arrays[f"{name}_points"] = grid.points.numpy()
    arrays["u"] = u
    for name, channels, grid in (("f", data.input_channels, data.inputs), ("u", data.output_channels, data.outputs)):
        if not isinstance(grid, Point):  # (records, times, points, channels), as read_arrays has it
            arrays[name] = np.moveaxis(arrays[name].reshape(*arrays[name].shape[:2], len(channels), -1), 2, 3)
    if data.lengths is not None:
        arrays["lengths"] = data.lengths.numpy()
    np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]


def _places(response: Response) -> dict[str, np.ndarray]:
    """When each record begins and its number in the file, where t and their order do not tell."""
    starts = np.array([t[0] for t in response.times])
    found = {} if np.allclose(starts, response.data.time.start, rtol=1e-9, atol=0) else {"starts": starts}
    if response.labels and response.labels != tuple(range(1, len(response.labels) + 1)):
        found["labels"] = np.array(response.labels)
    return found
