"""Errors on a test set: one table, with an entry for each number a report can show."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from tino.channels import channel_sizes, split_channels
from tino.errors import TinoError, in_short

KEPT = 500  # times of a record of errors over time, at most


def mse(prediction: Tensor, truth: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean squared error of each sample, (b, ...) -> (b,) (eq_single_mse); over the valid times, (b, t)."""
    squares = _counted(prediction - truth, mask).square().flatten(1)
    return squares.mean(1) if mask is None else squares.sum(1) / (mask.sum(1) * (truth[0, 0].numel()))


def relative_l2(prediction: Tensor, truth: Tensor, mask: Tensor | None = None) -> Tensor:
    """‖u - û‖ / ‖u‖ of each sample, (b, ...) -> (b,) (the summand of eq_rela_l2); over the valid times."""
    error, size = (_counted(values, mask).flatten(1).norm(dim=1) for values in (prediction - truth, truth))
    return torch.where(error == 0, 0.0, error / size)  # zero predicted exactly is no error


def _counted(values: Tensor, mask: Tensor | None) -> Tensor:
    """In float64, zero at times that are not valid."""
    return values.double() if mask is None else values.double() * mask[..., None]


@dataclass(frozen=True)
class Comparison:
    """Predictions and the truth, (b, t, c x), of c channels, at the valid times, (b, t), or at all times.

    MSE, RMSE and the largest error are in the data's units, over all channels together, so that of several channels
    they mix units. Relative errors weigh channels alike, whatever their units: ``rel_l2`` and ``nrmse``.
    """

    prediction: Tensor
    truth: Tensor
    mask: Tensor | None = None
    count: int = 1  # c

    @cached_property
    def channels(self) -> list["Comparison"]:
        """Each channel by itself."""
        sides = (split_channels(values, self.count).unbind(-2) for values in (self.prediction, self.truth))
        return [Comparison(prediction, truth, self.mask) for prediction, truth in zip(*sides, strict=True)]

    @cached_property
    def mse(self) -> Tensor:
        return mse(self.prediction, self.truth, self.mask)

    @cached_property
    def rel_l2(self) -> Tensor:
        """Of each sample; several channels are first divided by their root mean squares over the test set."""
        if self.count == 1:
            return relative_l2(self.prediction, self.truth, self.mask)
        unit = channel_sizes(self.truth, self.count, self.mask).to(self.truth.device)
        unit = unit.repeat_interleave(self.truth.shape[-1] // self.count)
        return relative_l2(self.prediction / unit, self.truth / unit, self.mask)

    def at_times_that_count(self, values: Tensor) -> Tensor:
        return values if self.mask is None else values[self.mask]

    @cached_property
    def rmse(self) -> float:
        """Over all test values."""
        return float(self.at_times_that_count(self.prediction - self.truth).double().square().mean().sqrt())

    @cached_property
    def varies(self) -> bool:
        """Beyond rounding in float32."""
        truth = self.at_times_that_count(self.truth)
        return bool(truth.double().std(correction=0) > 1e-6 * truth.abs().max())

    @cached_property
    def nrmse(self) -> float:
        """RMSE over the standard deviation of the reference, over all test values; infinite if that is zero.

        Of several channels: the root mean square of their NRMSEs. Channels that do not vary are left out, unless none
        does.
        """
        if self.count > 1:
            some = [one for one in self.channels if one.varies] or self.channels
            return math.sqrt(fmean(one.nrmse**2 for one in some))
        return self.rmse and float(self.rmse / self.at_times_that_count(self.truth).double().std(correction=0))

    def over_time(self) -> tuple[Tensor, Tensor]:
        """At each time (t,), over records and points: the RMSE, and the RMS of the reference about its mean.

        √(Σ_k e_ki² / n_i) over the n_i values of the records that count at that time; NaN where there are none.
        """
        mean = self.at_times_that_count(self.truth).double().mean()
        ones = torch.ones(self.truth.shape[:2]) if self.mask is None else self.mask
        counts, sizes = ones.to(self.truth.device, torch.float64).sum(0) * self.truth.shape[2], []
        for values in (self.prediction - self.truth, self.truth - mean):
            sizes.append((_counted(values, self.mask).square().sum((0, 2)) / counts).sqrt().cpu())
        return sizes[0], sizes[1]

    @property
    def largest(self) -> float:
        return float(self.at_times_that_count(self.prediction - self.truth).abs().max())


@dataclass(frozen=True)
class OverTime:
    """Errors at each time t (t,), for each output channel by name, in the data's units: ``rmse["u"]`` (t,).

    ``signal`` is the reference's root mean square about its mean. NaN: no record counts at that time.
    """

    t: Tensor
    rmse: Mapping[str, Tensor]
    signal: Mapping[str, Tensor]

    @staticmethod
    def of(compared: Comparison, names: Sequence[str], times: Tensor) -> "OverTime":
        channels = compared.channels if compared.count > 1 else [compared]
        found = {name: one.over_time() for name, one in zip(names, channels, strict=True)}
        return OverTime(times, *({name: sizes[i] for name, sizes in found.items()} for i in (0, 1)))

    def record(self) -> dict[str, Any]:
        """As plain JSON values, of 500 times at most, evenly spaced."""
        stride = -(-len(self.t) // KEPT)

        def plain(values: Tensor) -> list[float | None]:
            return [float(f"{v:.5g}") if math.isfinite(v) else None for v in values[::stride].tolist()]

        sides = {"rmse": self.rmse, "signal": self.signal}
        kept = {side: {name: plain(values) for name, values in some.items()} for side, some in sides.items()}
        return {"t": [float(f"{v:.12g}") for v in self.t[::stride].tolist()], **kept}

    @staticmethod
    def from_record(record: Any) -> "OverTime":
        def column(values: Any) -> Tensor:
            return torch.tensor([math.nan if v is None else v for v in values], dtype=torch.float64)

        try:
            t = column(record["t"])
            rmse, signal = ({str(k): column(v) for k, v in record[side].items()} for side in ("rmse", "signal"))
        except (TypeError, ValueError, LookupError, AttributeError, RuntimeError, OverflowError) as error:
            raise TinoError(f"{in_short(record, 40)} does not describe errors over time") from error
        if list(rmse) != list(signal) or any(v.shape != t.shape for v in (*rmse.values(), *signal.values())):
            raise TinoError("the errors over time do not fit their times")
        return OverTime(t, rmse, signal)


@dataclass(frozen=True)
class Metric:
    """A number that compares predictions with the truth: its heading, and how it is computed."""

    heading: str
    of: Callable[[Comparison], float]
    unit: int = 0  # 1: in the outputs' unit, 2: in its square. Of several channels it means nothing: tables show a dash


# by their keys in a result; a result without one shows a dash
METRICS = {
    "mse_mean": Metric("MSE", lambda c: float(c.mse.mean()), 2),
    "mse_sd": Metric("± SD", lambda c: float(c.mse.std()) if len(c.mse) > 1 else 0.0, 2),  # N - 1 (eq_mse_and_sd)
    "rel_l2_mean": Metric("relative L2", lambda c: float(c.rel_l2.mean())),
    "rmse": Metric("RMSE", lambda c: c.rmse, 1),
    "nrmse": Metric("NRMSE", lambda c: c.nrmse),
    "fit": Metric("fit %", lambda c: 100 * (1 - c.nrmse)),
    "max_error": Metric("largest error", lambda c: c.largest, 1),
}
PER_SAMPLE: dict[str, Callable[[Comparison], Tensor]] = {"mse": lambda c: c.mse, "rel_l2": lambda c: c.rel_l2}
