"""A model with the face of a scikit-learn estimator: ``fit``, ``predict``, ``score`` on numpy arrays."""

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tino.channels import INPUT, OUTPUT, numbered
from tino.data import Dataset
from tino.errors import TinoError, in_short, nearest, of_kind
from tino.evaluation import evaluate, predict
from tino.grids import Point, TimeGrid
from tino.models.registry import AUTO, build
from tino.operator import Operator
from tino.race import BUDGET, race_models
from tino.training.config import TrainConfig
from tino.training.history import History
from tino.training.loop import fit

Records = Any  # an array, or a list or tuple of arrays
LEAST = 50  # times to learn from


@dataclass(eq=False)
class Surrogate:
    """Signals f -> signals u, sampled every dt.

    Records are one (t,) or (t, m), several of equal length (n, t, m), or a list of records of any lengths: numpy's
    arrays, or what numpy makes an array of, such as tensors and tables of pandas. After
    ``fit``, ``model_`` is the trained model and ``history_`` its losses; with "auto", ``race_`` is the race it won.
    """

    model: str = "polynomial"  # a name in tino.MODELS, or auto
    dt: float = 1.0  # time between two samples
    epochs: int = 500
    budget: str | None = None  # time to train for, such as 60s, in place of epochs
    seed: int = 0
    burn_in: int = 0  # first times of each record that do not count: its start is not known

    def fit(self, f: Records, u: Records) -> Self:
        data = self._dataset(f, u)
        if (given := len(data.rows(data.f))) < LEAST:
            raise TinoError(f"there are {given} times to learn from, at least {LEAST} are needed: add records")
        self.model_, self.history_ = self._trained(data)
        return self

    def _trained(self, data: Dataset) -> tuple[Operator, History]:
        config = TrainConfig(epochs=self.epochs, budget=self.budget, seed=self.seed)
        if self.model == AUTO:
            config = TrainConfig(budget=self.budget or BUDGET, seed=self.seed)
            model, history, self.race_ = race_models(data, config, show_progress=False)
            return model, history
        model = build(self.model, data, self.seed)
        return model, fit(model, data, config, show_progress=False)

    def predict(self, f: Records) -> Any:
        """The response to each record, as numpy's arrays; a list gives a list."""
        model = self._fitted("predict")
        if isinstance(f, list | tuple):
            return [predict(model, _array(one, "f")) for one in f]
        return predict(model, _array(f, "f"))

    def score(self, f: Records, u: Records) -> float:
        """1 - NRMSE, the fit in % over 100: 1 is exact, 0 as good as the mean of u."""
        return evaluate(self._fitted("score"), self._dataset(f, u)).fit / 100

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """As scikit-learn's ``clone`` reads them; ``deep`` changes nothing, no parameter has parameters."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def set_params(self, **params: Any) -> Self:
        for name, value in params.items():
            if name not in (known := self.get_params()):
                raise TinoError(f"no parameter '{name}': {nearest(name, known)}")
            setattr(self, name, value)
        return self

    def _fitted(self, what: str) -> Operator:
        if not hasattr(self, "model_"):
            raise TinoError(f"{what} needs a trained model: call fit(f, u) first")
        return self.model_

    def _dataset(self, f: Records, u: Records) -> Dataset:
        inputs, outputs = _records(f, "f"), _records(u, "u")
        for i, (one, other) in enumerate(zip(inputs, outputs, strict=False)):
            if len(one) != len(other):
                raise TinoError(f"record {i} has {len(one)} times in f, {len(other)} in u")
        lengths = torch.tensor([len(one) for one in inputs])
        longest = int(lengths.max())
        dt = of_kind(self.dt, float, "dt")
        if not dt > 0:
            raise TinoError(f"dt is {dt:g}, expected the time between two samples, above 0")
        time = TimeGrid(0.0, dt * (longest - 1), longest)
        f_all, u_all = (pad_sequence(side, batch_first=True) for side in (inputs, outputs))
        return Dataset(
            f_all,
            u_all,
            time,
            Point(),
            Point(),
            input_channels=numbered(INPUT, f_all.shape[2]),
            output_channels=numbered(OUTPUT, u_all.shape[2]),
            lengths=lengths if bool((lengths < longest).any()) else None,
            burn_in=self.burn_in,
        )


def _array(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    except (TypeError, ValueError) as error:
        raise TinoError(f"{name} is not an array of numbers: {in_short(error)}") from error


def _records(values: Records, name: str) -> list[Tensor]:
    """Each record (t, channels), in one floating type."""
    whole = not isinstance(values, list | tuple)
    values = _array(values, name) if whole else values
    arrays = [values] if whole and values.ndim < 3 else [_array(one, name) for one in values]
    if not arrays:
        raise TinoError(f"{name} has no records")
    found = []
    for one in arrays:
        if one.dtype.kind not in "fiub" or one.ndim not in (1, 2):
            given = f"a record of {name} has shape {one.shape} and dtype {in_short(one.dtype)}"
            hint = f": give np.array({name})" if one.ndim == 0 else ""
            raise TinoError(f"{given}, expected numbers (times,) or (times, channels){hint}")
        if whole and one.ndim == 2 and values.ndim == 2 and one.shape[1] > one.shape[0]:
            told = (
                f"{name} has shape {one.shape}, read as one record of {one.shape[0]} times and {one.shape[1]} channels"
            )
            raise TinoError(f"{told}: for {one.shape[0]} records give {name}[..., None]")
        found.append(torch.from_numpy(one.astype(np.float64)).view(len(one), -1))
    counts = [one.shape[1] for one in found]
    if other := next((i for i, count in enumerate(counts) if count != counts[0]), 0):
        told = f"record {other} of {name} (counted from 0) has {counts[other]} channels, record 0 has {counts[0]}"
        raise TinoError(f"{told}: give all records the same channels")
    wide = any(one.dtype.itemsize > 4 and one.dtype.kind == "f" for one in arrays)
    return [one if wide else one.float() for one in found]
