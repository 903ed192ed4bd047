"""How a model is trained; the same for every model unless a user changes it."""

import math
import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from tino.errors import TinoError, of_kind

if TYPE_CHECKING:
    from tino.data import Dataset

RATES = {"soap": 1e-2, "adam": 2e-3, "adamw": 2e-3}  # the highest learning rate if none is given
WINDOWS = 32  # of long records, in a step
PRECISIONS = ("float32", "tf32", "bfloat16", "float64")
WAYS = ("compile", "save_every", "device")  # how and where training runs: results differ only by rounding


@dataclass(frozen=True)
class TrainConfig:
    """Options of training."""

    epochs: int = 500
    """Passes over the training samples."""
    steps: int | None = None
    """Steps to take, in place of epochs."""
    budget: str | None = None
    """Wall-clock time to train for, such as 60s, 5m or 1h, in place of epochs: the schedule follows the clock."""
    batch_size: int | None = None
    """Samples per step; the paper's number if left out: 200 for ODEs and one dimension of space, 100 above."""
    times: int = 32
    """Random times of each sample used in a step; 0: all times."""
    optimizer: str = "soap"
    """soap (preconditioned, fewer steps), adam or adamw (cheaper steps)."""
    lr: float | None = None
    """Highest learning rate; 0.01 for soap, 0.002 for adam and adamw, if left out."""
    warmup: float = 0.05
    """Fraction of the steps over which the rate rises; then it falls along a cosine to zero."""
    weight_decay: float = 0.0
    """Decoupled weight decay of soap and adamw."""
    clip: float = 0.0
    """Gradient-norm limit; 0: no clipping."""
    average: float = 0.0
    """Decay of a running average of the weights, such as 0.999, used as the final weights; 0: use the last weights."""
    validation: float = 0.0
    """Fraction of the training samples held out for validation; the best weights on them are kept, those before the
    training among them."""
    patience: int = 0
    """Stop after this many validations (at most 100 per training) without improvement; 0: never."""
    precision: str = "float32"
    """float32; tf32 or bfloat16 (faster products for the gradients on a GPU, fewer digits); float64. A flow-tino in
    coefficients keeps float64."""
    compile: bool = False
    """Compile the model first, up to a minute: for long training runs of FNO and U-Net on a GPU."""
    save_every: float = 30.0
    """Seconds between checkpoints."""
    seed: int = 0
    """Seed of the batches and the times drawn; in 'tino train' also of the data and the initial weights."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda if there is one."""

    def __str__(self) -> str:
        length = f"{self.budget}" if self.budget else f"{self.steps} steps" if self.steps else f"{self.epochs} epochs"
        times = f"{self.times or 'all'} times"
        decay = [f"weight decay {self.weight_decay:g}"] if self.weight_decay else []
        return ", ".join([f"{self.optimizer} at rate {self.rate:g}", *decay, length, times, self.precision])

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", str(self.device))  # a torch.device is as good
        for one in fields(self):
            object.__setattr__(self, one.name, of_kind(getattr(self, one.name), one.type, one.name))
        if not 0 <= self.seed < 2**63:
            raise TinoError(f"seed is {self.seed}, expected 0 or more (and below 2^63)")
        for name in ("epochs", "steps", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TinoError(f"{name} is {value}, expected 1 or more")
        for name in ("times", "patience", "weight_decay", "clip", "save_every"):
            if not getattr(self, name) >= 0:
                raise TinoError(f"{name} is {getattr(self, name)}, expected 0 or more")
        for name in ("warmup", "average", "validation"):
            if not 0 <= getattr(self, name) < 1:
                raise TinoError(f"{name} is {getattr(self, name)}, expected a number from 0 to below 1")
        if self.lr is not None and not self.lr > 0:
            raise TinoError(f"lr is {self.lr}, expected a positive number")
        if self.optimizer not in RATES:
            raise TinoError(f"optimizer is '{self.optimizer}', expected one of {', '.join(RATES)}")
        if self.precision not in PRECISIONS:
            raise TinoError(f"precision is '{self.precision}', expected one of {', '.join(PRECISIONS)}")
        if self.patience and not self.validation:
            raise TinoError("patience needs validation samples: set validation too, such as 0.1")
        if self.steps is not None and self.budget is not None:
            raise TinoError("steps and budget both set the length of training: give one of them")
        self.budget_seconds()

    def decisive(self) -> dict[str, Any]:
        """The options that decide the result."""
        return {key: value for key, value in asdict(self).items() if key not in WAYS}

    def budget_seconds(self) -> float | None:
        if self.budget is None:
            return None
        found = re.fullmatch(r"(\d+(?:\.\d*)?)(s|m|h|)", self.budget.strip())
        if not found or not float(found[1]) > 0:
            raise TinoError(f"budget is '{self.budget}', expected a time such as 60s, 5m or 1h")
        return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]

    @property
    def rate(self) -> float:
        """The highest learning rate."""
        return RATES[self.optimizer] if self.lr is None else self.lr

    def batch(self, data: "Dataset", in_windows: bool = False) -> int:
        """Samples per step on this dataset: the paper's, or fewer of the windows of long records."""
        usual = WINDOWS if in_windows else 200 if data.outputs.points.shape[1] <= 1 else 100
        return min(self.batch_size or usual, len(data))

    def lr_at(self, done: float) -> float:
        """The learning rate after the fraction ``done`` of the training: a linear rise, then half a cosine."""
        if done < self.warmup:
            return self.rate * done / self.warmup
        return self.rate * 0.5 * (1 + math.cos(math.pi * (min(done, 1.0) - self.warmup) / (1 - self.warmup)))
