"""How a training went, epoch by epoch."""

import csv
import io
import math
from dataclasses import dataclass, field


@dataclass
class History:
    """For each epoch: mean training MSE, learning rate, seconds so far, last validation MSE (NaN without one)."""

    loss: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    steps: int = 0
    looks: list[list[float]] = field(default_factory=list)  # [step, seconds], the device's work awaited
    samples: int = 0  # records, or windows of long ones
    batch: int = 0

    def add(self, loss: float, lr: float, seconds: float, validation: float = math.nan) -> None:
        for row, value in zip(
            (self.loss, self.lr, self.seconds, self.validation), (loss, lr, seconds, validation), strict=True
        ):
            row.append(value)

    @property
    def seconds_per_step(self) -> float:
        """Over the later half of the training, when nothing is compiled or captured any more."""
        if not self.looks:
            return math.nan
        step, seconds = self.looks[-1]
        earlier = [look for look in self.looks[:-1] if 2 * look[0] >= step] or [[0, 0.0]]
        return (seconds - earlier[0][1]) / max(1, step - earlier[0][0])

    @property
    def seconds_per_epoch(self) -> float:
        return self.seconds_per_step * math.ceil(self.samples / self.batch)

    def csv(self) -> str:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        watched = any(not math.isnan(value) for value in self.validation)
        rows.writerow(["epoch", "loss", "lr", "seconds", *["validation"] * watched])
        for i, loss in enumerate(self.loss):
            validation = [f"{self.validation[i]:.6e}"] if watched else []
            rows.writerow([i + 1, f"{loss:.6e}", f"{self.lr[i]:.6e}", f"{self.seconds[i]:.3f}", *validation])
        return text.getvalue()
