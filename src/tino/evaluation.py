"""Predictions with checked inputs, and scores on a test set."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tino.calls import call, in_batches, model_name
from tino.data import Dataset, check_dataset, check_tensor, check_values
from tino.errors import TinoError, shown
from tino.frame import numbers
from tino.metrics import METRICS, PER_SAMPLE, Comparison, OverTime
from tino.operator import Operator

STARTS = ("rest", "measured")
LONG = 3.0  # seconds of passes that are timed, beyond the first


@dataclass(frozen=True)
class Scores:
    """The numbers of ``tino.metrics`` for a test set: ``scores.mse_mean``, ``scores.rmse``, ..., ``scores.record()``.

    ``scores.mse`` and ``scores.rel_l2`` are the errors of each sample, float64 (n,). With several output channels,
    ``scores.channels`` has the same numbers for each, by name: ``scores.channels["angle"]["rmse"]``.
    ``scores.over_time`` has the RMSE of each channel at each time: ``scores.over_time.rmse["angle"]``, at ``.t``.
    """

    overall: dict[str, float]
    samples: dict[str, Tensor]
    over_time: OverTime
    channels: dict[str, dict[str, float]] = field(default_factory=dict)

    @staticmethod
    def of(compared: Comparison, names: Sequence[str], times: Tensor) -> "Scores":
        def numbers(one: Comparison) -> dict[str, float]:
            return {key: metric.of(one) for key, metric in METRICS.items()}

        channels = zip(names, compared.channels, strict=True) if compared.count > 1 else ()
        samples = {key: of(compared) for key, of in PER_SAMPLE.items()}
        by_channel = {name: numbers(one) for name, one in channels}
        return Scores(numbers(compared), samples, OverTime.of(compared, names, times), by_channel)

    def __getattr__(self, name: str) -> Any:
        for values in (self.__dict__.get("overall", {}), self.__dict__.get("samples", {})):
            if name in values:
                return values[name]
        raise AttributeError(f"scores have no '{name}': they have {', '.join([*METRICS, *PER_SAMPLE])}")

    def record(self) -> dict[str, Any]:
        channels = {"channels": self.channels} if self.channels else {}
        samples = {key: values.tolist() for key, values in self.samples.items()}
        return {**self.overall, **channels, **samples, "over_time": self.over_time.record()}


def predict(model: nn.Module, f: Any, ic: Any = None) -> Any:
    """u (n, t, x) for inputs f (n, t, m), computed in batches on the model's device and returned on the input's.

    Inputs are checked here (shape, dtype, NaN, inf, and whether they are far outside what was seen in training);
    ``model(f)`` itself only checks shapes. Arrays are answered in kind (``tino.arrays``).
    """
    if isinstance(model, Operator) and not isinstance(f, Tensor):
        return model(f, ic)
    _check(model, f, ic)
    if isinstance(model, Operator):
        model.warn_if_far(f, ic)
    return in_batches(model, partial(call, model), f, ic)


def _check(model: nn.Module, f: Tensor, ic: Tensor | None) -> None:
    check_tensor(f, "f")
    if ic is not None and len(ic) != len(f):
        raise TinoError(f"ic has {len(ic)} records, f has {len(f)}")
    if isinstance(model, Operator):
        model.check_shapes(f, ic)
    for name, values in (("f", f), ("ic", ic)):
        if values is not None:
            check_values(values, name)


def evaluate(model: nn.Module, test: Dataset, start: str = "rest") -> Scores:
    """The errors of a model on a test set, over the times that count.

    It starts from rest, or from the initial states. With ``start="measured"`` the outputs of the first ``burn_in``
    times set its state, where it can read them (``Operator.synchronise``).
    """
    check_dataset(test, "test")
    if start not in STARTS:
        raise TinoError(f"start is {shown(start)}, expected {' or '.join(map(repr, STARTS))}")
    if isinstance(model, Operator):
        model.check_data(test)
        model.warn_if_far(test.rows(test.f), test.ic)  # only valid times
    _check(model, test.f, test.ic)
    prediction = _predicted(model, test, start)
    if prediction.shape != test.u.shape:
        given = f"{tuple(prediction.shape)} for f {tuple(test.f.shape)}"
        raise TinoError(f"the model returned shape {given}, expected {tuple(test.u.shape)}")
    if not bool(torch.isfinite(prediction).all()):
        told = f"{model_name(model)} predicts NaN or infinite values: it overflows on these records"
        raise TinoError(f"{told}, or its training diverged (then try a smaller lr)")
    names = [channel.name for channel in test.output_channels]
    return Scores.of(Comparison(prediction, test.u, test.mask, len(names)), names, test.time.points)


def _predicted(model: nn.Module, test: Dataset, start: str) -> Tensor:
    if start == "measured" and not test.burn_in:
        raise TinoError("start is 'measured', but burn_in is 0: give the number of first times whose outputs are known")
    if start == "measured" and isinstance(model, Operator) and model.observes:
        return in_batches(model, partial(_continued, model), test.f, test.u[:, : test.burn_in])
    return in_batches(model, partial(call, model), test.f, test.ic)


def _continued(model: Operator, f: Tensor, u: Tensor) -> Tensor:
    """The measured outputs u (b, k, x) of the first k times, then the model's from the state that they show."""
    known = u.shape[1]
    state = model.synchronise(f[:, :known], u)
    return torch.cat([u, model.run(state, f[:, known:])[1]], 1)


def samples_per_second(model: nn.Module, test: Dataset, at_least: float = 0.5) -> float:
    """Responses a model predicts per second, inputs and outputs on its device: the best of several passes.

    Where a pass takes seconds, one is enough.
    """
    device = numbers(model, test.f).device
    f, ic = test.f.to(device), None if test.ic is None else test.ic.to(device)
    best, spent, passes = float("inf"), 0.0, 0
    while passes < 1 or (spent < LONG and (passes < 3 or spent < at_least)):
        _wait(device)
        start = time.perf_counter()
        predict(model, f, ic)
        _wait(device)
        seconds = time.perf_counter() - start
        best, spent, passes = min(best, seconds), spent + seconds, passes + 1
    return len(f) / best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
