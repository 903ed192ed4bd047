"""What every model of tino is: built for grids, checked at its border, saved and loaded."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from tino.data import Dataset
from tino.errors import TinoError
from tino.grids import Grid, TimeGrid, grid_from_record, grid_record


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
        return Frame(name, train.name, train.time, train.inputs, train.outputs, state)

    def record(self) -> dict[str, Any]:
        grids = {"inputs": grid_record(self.inputs), "outputs": grid_record(self.outputs)}
        return {**asdict(self), "time": asdict(self.time), **grids}

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
        if f.shape[1] != n_t:
            raise TinoError(f"f has {f.shape[1]} times, the model was built for {n_t}")
        self._check_state(ic)

    def check_grids(self, data: Dataset) -> None:
        """The data lie on the grids the model was built for, and have the initial states it takes."""
        for name in ("time", "inputs", "outputs"):
            given, expected = getattr(data, name), getattr(self.frame, name)
            if given != expected:
                raise TinoError(f"the data's {name} grid is {given}, the model was built for {expected}")
        self._check_state(data.ic)

    def _check_state(self, ic: Tensor | None) -> None:
        given, expected = 0 if ic is None else ic.shape[-1], self.frame.state
        if given != expected:
            raise TinoError(f"the initial state has {given} numbers, the model was built for {expected}")

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
