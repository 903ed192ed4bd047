"""Predictions with checks at the border, and scores on a test set."""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tino.data import Dataset, check_values
from tino.devices import products
from tino.errors import TinoError
from tino.metrics import mse, relative_l2
from tino.models.operator import Operator, call, model_name

BATCH_NUMBERS = 4_000_000  # outputs computed together, at most: bounds the memory of a prediction


@dataclass(frozen=True)
class Scores:
    """Errors of each test sample, float64 (n,)."""

    mse: Tensor
    rel_l2: Tensor

    @property
    def mse_mean(self) -> float:
        return float(self.mse.mean())

    @property
    def mse_sd(self) -> float:
        """Over the samples, with N - 1 (eq_mse_and_sd); 0 for a single sample."""
        return float(self.mse.std()) if len(self.mse) > 1 else 0.0

    @property
    def rel_l2_mean(self) -> float:
        return float(self.rel_l2.mean())

    def record(self) -> dict[str, Any]:
        return {
            "mse_mean": self.mse_mean,
            "mse_sd": self.mse_sd,
            "rel_l2_mean": self.rel_l2_mean,
            "mse": self.mse.tolist(),
            "rel_l2": self.rel_l2.tolist(),
        }


def predict(model: nn.Module, f: Tensor, ic: Tensor | None = None) -> Tensor:
    """u (n, t, x) for inputs f (n, t, m), in batches, on the model's device, the answer on the input's.

    Inputs are checked here (shape, dtype, NaN, inf); ``model(f)`` itself only checks shapes.
    """
    if not isinstance(f, Tensor):
        raise TinoError(f"f must be a torch tensor, got {type(f).__name__}: wrap arrays in torch.as_tensor")
    if ic is not None and len(ic) != len(f):
        raise TinoError(f"ic holds {len(ic)} samples, f holds {len(f)}")
    outputs = f.shape[-1]
    if isinstance(model, Operator):
        model.check_shapes(f, ic)
        outputs = model.frame.outputs.size
    for name, values in (("f", f), ("ic", ic)):
        if values is not None:
            check_values(values, name)
    at = next((p for p in model.parameters()), f)
    size = max(1, BATCH_NUMBERS // (f.shape[1] * max(outputs, 256)))
    training = model.training
    model.eval()
    parts = []
    with torch.no_grad(), products(tf32=False):
        for first in range(0, len(f), size):
            part = f[first : first + size].to(at.device, at.dtype)
            state = None if ic is None else ic[first : first + size].to(at.device, at.dtype)
            parts.append(call(model, part, state).to(f.device))
    model.train(training)
    return torch.cat(parts)


def evaluate(model: nn.Module, test: Dataset) -> Scores:
    """The errors of a model on a test set."""
    if isinstance(model, Operator):
        model.check_grids(test)
    prediction = predict(model, test.f, test.ic)
    if prediction.shape != test.u.shape:
        given = f"{tuple(prediction.shape)} for f {tuple(test.f.shape)}"
        raise TinoError(f"the model returned shape {given}, expected {tuple(test.u.shape)}")
    if not bool(torch.isfinite(prediction).all()):
        raise TinoError(f"{model_name(model)} predicts NaN or infinite values: its training diverged, try a smaller lr")
    return Scores(mse(prediction, test.u), relative_l2(prediction, test.u))


def samples_per_second(model: nn.Module, test: Dataset, at_least: float = 0.5) -> float:
    """How many responses a model predicts in a second, inputs and answers on its device: the best of some passes."""
    device = next((p for p in model.parameters()), test.f).device
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
