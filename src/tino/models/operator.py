"""What every model of tino is: built for grids, checked at its border, saved and loaded."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tino.data import Dataset, check_values
from tino.errors import TinoError
from tino.grids import Grid, Periodic, TimeGrid, grid_from_record, grid_record

ON_GRID = 1e-4  # of a step: a time so close to a grid time is it, also in float32


@dataclass(frozen=True)
class Frame:
    """What a model was built for: its name, its problem, and the grids of its inputs and outputs."""

    model: str
    problem: str
    time: TimeGrid
    inputs: Grid
    outputs: Grid
    state: int = 0  # numbers in the initial state, 0 where it is not an input

    @staticmethod
    def of(name: str, train: Dataset) -> "Frame":
        state = 0 if train.ic is None else train.ic.shape[1]
        if not state and "windows" in train.meta:
            raise TinoError(f"{train.name} is cut into windows, which start from different states: give them as ic")
        return Frame(name, train.name, train.time, train.inputs, train.outputs, state)

    def record(self) -> dict[str, Any]:
        grids = {"inputs": grid_record(self.inputs), "outputs": grid_record(self.outputs)}
        return {**asdict(self), "time": asdict(self.time), **grids}

    def time_index(self, t: Tensor, name: str) -> Tensor:
        """Which grid times these are, (s,); an error names the first that is none."""
        place = (t.double() - self.time.start) / self.time.step
        index = place.round().long()
        off = (place - index).abs() > ON_GRID
        if bool(off.any()):
            given, near = float(t[off][0]), float(self.time.points[index[off][0]])
            hint = "don, spod-don, tc-don and tc-spod-don answer at any time"
            raise TinoError(
                f"{name} answers at its grid times only, {given:g} is none, the nearest is {near:g}: {hint}"
            )
        return index

    def last_index(self, t: Tensor) -> Tensor:
        """The last grid time t_i <= t of each, (s,)."""
        place = (t.double() - self.time.start) / self.time.step
        return (place + ON_GRID).floor().long().clamp(0, self.time.n - 1)

    def point_index(self, y: Tensor, name: str) -> Tensor:
        """Which output points of the grid these are, (q,); an error names the first that is none."""
        points = self.outputs.points
        distance = torch.cdist(y.double(), points)
        size, index = distance.min(1)
        spacing = float((points.amax(0) - points.amin(0)).max()) / len(points) if points.shape[1] else 1.0
        if bool((size > 1e-3 * spacing).any()):
            given = y[size > 1e-3 * spacing][0].tolist()
            hint = "tino, trtino and don have a learned basis that answers anywhere"
            raise TinoError(f"{name} knows its output at the grid points only, {given} is none: {hint}")
        return index

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Frame":
        values = dict(record)
        values["time"] = TimeGrid(**values["time"])
        values["inputs"] = grid_from_record(values["inputs"])
        values["outputs"] = grid_from_record(values["outputs"])
        return Frame(**values)


class Operator(nn.Module):
    """A map from f (b, t, m), and perhaps an initial state ic (b, k), to u (b, t, x)."""

    frame: Frame

    @property
    def causal(self) -> bool | None:
        """Whether no time sees the future, derived from the parts; None where they promise nothing."""
        return None

    @property
    def time_invariant(self) -> bool | None:
        """Whether a shifted input gives the shifted output, derived from the parts; None likewise."""
        return None

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """All the model is made of except its numbers, as plain JSON values."""

    def normalisation(self) -> dict[str, Any]:
        """The scales, for a reader; the numbers themselves lie in the weights."""
        return {}

    def check_shapes(self, f: Tensor, ic: Tensor | None) -> None:
        """What ``forward`` checks: shapes alone, so that nothing waits for a device."""
        n_t, m = self.frame.time.n, self.frame.inputs.size
        if f.ndim != 3 or f.shape[2] != m:
            given = f"{f.shape[-1]} sensors" if f.ndim == 3 else f"shape {tuple(f.shape)}"
            raise TinoError(f"f has {given}, the model was built for (b, {n_t}, {m})")
        if f.shape[1] != n_t and not (self.causal and 1 <= f.shape[1] < n_t):
            fewer = " (or fewer)" if self.causal else ""
            raise TinoError(f"f has {f.shape[1]} times, the model was built for {n_t}{fewer}")
        self._check_state(ic)
        if ic is not None and (ic.ndim != 2 or len(ic) != len(f)):
            raise TinoError(
                f"ic has shape {tuple(ic.shape)}, expected ({len(f)}, {self.frame.state}): f has {len(f)} samples"
            )

    def check_grids(self, data: Dataset) -> None:
        """The data lie on the grids the model was built for, and have the initial states it takes."""
        for name in ("time", "inputs", "outputs"):
            given, expected = getattr(data, name), getattr(self.frame, name)
            if given != expected:
                raise TinoError(f"the data's {name} grid is {given}, the model was built for {expected}")
        self._check_state(data.ic)

    def _check_state(self, ic: Tensor | None) -> None:
        given, expected = 0 if ic is None else ic.shape[-1], self.frame.state
        if expected and ic is None:
            raise TinoError(f"{self.frame.model} takes an initial state of {expected} numbers, give it as ic")
        if given != expected:
            raise TinoError(f"the initial state has {given} numbers, the model was built for {expected}")

    def query(
        self, f: Tensor, t: Tensor | Sequence[float] | None = None, y: Tensor | None = None, ic: Tensor | None = None
    ) -> Tensor:
        """u at times t (s,) and points y (q, d), (b, s, q); all times of f, or all grid points, where left out.

        Between the grid's times and points it answers as its parts can: a learned basis at any point of the domain; a
        global mixer at any time (but not with POD modes of time), a masked one with the past up to the last t_i <= t, a
        delay mixer at grid times only.
        """
        f, ic, given = self.at_the_border(f, ic)
        grid, points = self.frame.time, self.frame.outputs.points
        known = grid.points[: f.shape[1]]
        t = known if t is None else torch.as_tensor(t, dtype=torch.float64, device="cpu")
        if t.ndim != 1 or len(t) == 0:
            raise TinoError(f"t has shape {tuple(t.shape)}, expected (s,) with one time or more")
        slack = ON_GRID * grid.step
        if not bool(((t >= grid.start - slack) & (t <= known[-1] + slack)).all()):
            asked = f"t reaches from {float(t.min()):g} to {float(t.max()):g}"
            raise TinoError(f"{asked}, the model knows [{grid.start:g}, {float(known[-1]):g}] of this record")
        y = points if y is None else torch.as_tensor(y, dtype=torch.float64, device="cpu")
        if y.ndim != 2 or y.shape[1] != points.shape[1] or not bool(torch.isfinite(y).all()):
            raise TinoError(f"y has shape {tuple(y.shape)}, expected finite coordinates (points, {points.shape[1]})")
        if isinstance(self.frame.outputs, Periodic):
            y = y.remainder(self.frame.outputs.length)
        low, high = (points.amin(0), points.amax(0)) if points.shape[1] else (y, y)
        if isinstance(self.frame.outputs, Periodic):
            high = torch.full_like(high, self.frame.outputs.length)
        if not bool(((y >= low - 1e-6) & (y <= high + 1e-6)).all()):
            raise TinoError(f"y leaves the domain, which reaches from {low.tolist()} to {high.tolist()}")
        with torch.no_grad():
            return self._query(f, ic, t, y).to(given)

    def at_the_border(self, f: Tensor, ic: Tensor | None) -> tuple[Tensor, Tensor | None, torch.device]:
        """Inputs from outside, checked (shape, dtype, NaN), as the model wants them; and where they were."""
        if not isinstance(f, Tensor):
            raise TinoError(f"f must be a torch tensor, got {type(f).__name__}: wrap arrays in torch.as_tensor")
        self.check_shapes(f, ic)
        check_values(f, "f")
        if ic is not None:
            check_values(ic, "ic")
        at = next((p for p in self.parameters()), f)
        return f.to(at.device, at.dtype), None if ic is None else ic.to(at.device, at.dtype), f.device

    def _query(self, f: Tensor, ic: Tensor | None, t: Tensor, y: Tensor) -> Tensor:
        """On the grid alone, where a model has nothing better."""
        name = self.frame.model
        times, points = self.frame.time_index(t, name), self.frame.point_index(y, name)
        return call(self, f, ic)[:, times][:, :, points]

    def save(self, folder: str | Path) -> None:
        """Write model.safetensors and model.json into the folder, each whole or not at all."""
        from tino.models.store import save

        save(self, Path(folder))


def model_name(model: nn.Module) -> str:
    return model.frame.model if isinstance(model, Operator) else type(model).__name__


def call(model: nn.Module, f: Tensor, ic: Tensor | None) -> Tensor:
    """The calling form of every operator: ``model(f)``, or ``model(f, ic)`` where there is an initial state."""
    answer = model(f) if ic is None else model(f, ic)
    if not isinstance(answer, Tensor) or answer.shape[:2] != f.shape[:2]:
        shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise TinoError(f"{model_name(model)} maps f {tuple(f.shape)} to {shape}, expected a tensor (b, t, points)")
    return answer
