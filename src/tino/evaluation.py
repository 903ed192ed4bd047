"""Predictions with checked inputs, and scores on a test set."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tino.data import Dataset, check_dataset, check_tensor, check_values
from tino.devices import products
from tino.errors import TinoError
from tino.frame import numbers
from tino.metrics import METRICS, PER_SAMPLE, Comparison
from tino.operator import Operator, call, model_name

BATCH_NUMBERS = 4_000_000  # outputs computed at once, at most: bounds the memory of a prediction


@dataclass(frozen=True)
class Scores:
    """The numbers of ``tino.metrics`` for a test set: ``scores.mse_mean``, ``scores.rmse``, ..., ``scores.record()``.

    ``scores.mse`` and ``scores.rel_l2`` are the errors of each sample, float64 (n,). With several output channels,
    ``scores.channels`` has the same numbers for each, by name: ``scores.channels["angle"]["rmse"]``.
    """

    overall: dict[str, float]
    samples: dict[str, Tensor]
    channels: dict[str, dict[str, float]] = field(default_factory=dict)

    @staticmethod
    def of(compared: Comparison, names: Sequence[str] = ()) -> "Scores":
        def numbers(one: Comparison) -> dict[str, float]:
            return {key: metric.of(one) for key, metric in METRICS.items()}

        channels = zip(names, compared.channels, strict=True) if compared.count > 1 else ()
        samples = {key: of(compared) for key, of in PER_SAMPLE.items()}
        return Scores(numbers(compared), samples, {name: numbers(one) for name, one in channels})

    def __getattr__(self, name: str) -> Any:
        for values in (self.__dict__.get("overall", {}), self.__dict__.get("samples", {})):
            if name in values:
                return values[name]
        raise AttributeError(f"scores have no '{name}': they have {', '.join([*METRICS, *PER_SAMPLE])}")

    def record(self) -> dict[str, Any]:
        channels = {"channels": self.channels} if self.channels else {}
        return {**self.overall, **channels, **{key: values.tolist() for key, values in self.samples.items()}}


def predict(model: nn.Module, f: Tensor, ic: Tensor | None = None) -> Tensor:
    """u (n, t, x) for inputs f (n, t, m), computed in batches on the model's device and returned on the input's.

    Inputs are checked here (shape, dtype, NaN, inf, and whether they are far outside what was seen in training);
    ``model(f)`` itself only checks shapes.
    """
    _check(model, f, ic)
    if isinstance(model, Operator):
        model.warn_if_far(f, ic)
    return _predicted(model, f, ic)


def _check(model: nn.Module, f: Tensor, ic: Tensor | None) -> None:
    check_tensor(f, "f")
    if ic is not None and len(ic) != len(f):
        raise TinoError(f"ic has {len(ic)} records, f has {len(f)}")
    if isinstance(model, Operator):
        model.check_shapes(f, ic)
    for name, values in (("f", f), ("ic", ic)):
        if values is not None:
            check_values(values, name)


def _predicted(model: nn.Module, f: Tensor, ic: Tensor | None) -> Tensor:
    """``predict`` after its checks."""
    outputs = model.frame.output_size if isinstance(model, Operator) else f.shape[-1]
    at = numbers(model, f)
    size = max(1, BATCH_NUMBERS // (f.shape[1] * max(outputs, 256)))
    training = model.training
    model.eval()
    parts = []
    with torch.no_grad(), products(tf32=False):
        for first in range(0, len(f), size):
            part = f[first : first + size].to(at)
            state = None if ic is None else ic[first : first + size].to(at)
            parts.append(call(model, part, state).to(f.device))
    model.train(training)
    return torch.cat(parts)


def evaluate(model: nn.Module, test: Dataset) -> Scores:
    """The errors of a model on a test set."""
    check_dataset(test, "test")
    if isinstance(model, Operator):
        model.check_data(test)
        model.warn_if_far(test.rows(test.f), test.ic)  # only valid times
    _check(model, test.f, test.ic)
    prediction = _predicted(model, test.f, test.ic)
    if prediction.shape != test.u.shape:
        given = f"{tuple(prediction.shape)} for f {tuple(test.f.shape)}"
        raise TinoError(f"the model returned shape {given}, expected {tuple(test.u.shape)}")
    if not bool(torch.isfinite(prediction).all()):
        raise TinoError(f"{model_name(model)} predicts NaN or infinite values: its training diverged, try a smaller lr")
    names = [channel.name for channel in test.output_channels]
    return Scores.of(Comparison(prediction, test.u, test.mask, len(names)), names)


def samples_per_second(model: nn.Module, test: Dataset, at_least: float = 0.5) -> float:
    """Responses a model predicts per second, inputs and outputs on its device: the best of several passes."""
    device = numbers(model, test.f).device
    f, ic = test.f.to(device), None if test.ic is None else test.ic.to(device)
    best, spent, passes = float("inf"), 0.0, 0
    while passes < 3 or spent < at_least:
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
