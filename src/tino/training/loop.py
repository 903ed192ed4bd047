"""The training loop: one page, to be read in one sitting."""

import csv
import io
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.devices import pick_device
from tino.errors import TinoError
from tino.models.bases import Trunk
from tino.models.operator import Operator, call, model_name
from tino.models.separable import Separable
from tino.progress import progress
from tino.training.config import TrainConfig, make_optimizer


@dataclass
class History:
    """The mean training MSE, the learning rate and the seconds so far, for each epoch."""

    loss: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def csv(self) -> str:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["epoch", "loss", "lr", "seconds"])
        for epoch, (loss, lr, seconds) in enumerate(zip(self.loss, self.lr, self.seconds, strict=True), 1):
            rows.writerow([epoch, f"{loss:.6e}", f"{lr:.6e}", f"{seconds:.3f}"])
        return text.getvalue()


@dataclass(frozen=True)
class Objective:
    """What a step compares: the model's output for (inputs, ic) at chosen times with the target there.

    Its mean squared difference times ``weight``, plus ``constant``, is the MSE of the field.
    """

    inputs: Tensor  # (n, t, r)
    ic: Tensor | None  # (n, k)
    target: Tensor  # (n, t, j), or (n, 1, j)
    output: Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
    weight: float
    constant: float


def objective(model: nn.Module, data: Dataset, device: torch.device) -> Objective:
    """The field's MSE; for an orthonormal basis its equal in the far fewer coefficients of the basis."""
    dtype = next((p.dtype for p in model.parameters()), data.f.dtype)
    f, u = data.f.to(device, dtype), data.u.to(device, dtype)
    ic = None if data.ic is None else data.ic.to(device, dtype)
    if not isinstance(model, Separable):
        return Objective(f, ic, u, lambda f, ic, times: call(model, f, ic)[:, _all(times)], 1.0, 0.0)
    inputs = model.sensors(f)
    basis = model.basis
    if isinstance(basis, Trunk):
        return Objective(
            inputs,
            ic,
            u,
            lambda z, ic, times: basis.expand(model.coefficients(z, ic, times), _all(times)),
            1.0,
            0.0,
        )
    target = basis.project(u)
    parts = zip(u.split(50), target.split(50), strict=True)
    left = sum(float((field - basis.expand(c)).square().sum()) for field, c in parts) / u.numel()
    return Objective(inputs, ic, target, model.coefficients, target.numel() / u.numel(), left)


def fit(model: nn.Module, train: Dataset, config: TrainConfig | None = None, show_progress: bool = True) -> History:
    """Train the model on the dataset, in place, by minimising the MSE (eq_loss_func)."""
    config = config or TrainConfig()
    if isinstance(model, Operator):
        model.check_grids(train)
    device = pick_device(config.device)
    model.to(device).train()
    with torch.no_grad():
        goal = objective(model, train, device)
    optimizer = make_optimizer(config, [p for p in model.parameters() if p.requires_grad])
    n, n_t = len(train), goal.target.shape[1]
    batch = min(config.batch_size, n)
    steps = config.epochs * math.ceil(n / batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _cosine(step, steps))
    generator = torch.Generator().manual_seed(config.seed)
    scale = 1.0 / (float(goal.target.square().mean()) or 1.0)  # a loss of order one keeps the optimisers' eps small
    history = History()
    start = time.perf_counter()

    def step(samples: Tensor, times: Tensor | None) -> Tensor:
        """One step on a batch -> its summed loss, still on the device: nothing here waits for it."""
        ic = None if goal.ic is None else goal.ic[samples]
        output = goal.output(goal.inputs[samples], ic, times)  # (b, s, j)
        target = goal.target[samples] if times is None else goal.target[samples[:, None], times]
        loss = (output - target).square().mean()
        optimizer.zero_grad(set_to_none=True)
        (scale * loss).backward()
        optimizer.step()
        schedule.step()
        return loss.detach() * len(samples)

    with progress(f"training {model_name(model)}", config.epochs, show_progress) as advance:
        for epoch in range(1, config.epochs + 1):
            total = torch.zeros((), device=device)
            try:
                for picked in torch.randperm(n, generator=generator).split(batch):
                    times = draw_times(n_t, config.times, generator)
                    total += step(picked.to(device), None if times is None else times.to(device))
            except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]  # a preconditioner met numbers that are not finite
                total.fill_(torch.nan)
            history.loss.append(goal.weight * float(total) / n + goal.constant)
            history.lr.append(float(schedule.get_last_lr()[0]))
            history.seconds.append(time.perf_counter() - start)
            if not math.isfinite(history.loss[-1]):
                where = f"epoch {epoch}, learning rate {history.lr[-1]:.1e}"
                raise TinoError(f"the loss is {history.loss[-1]} at {where}: try a smaller lr")
            advance(1, f"loss {history.loss[-1]:.2e}")
    model.eval()
    return history


def draw_times(n_t: int, count: int, generator: torch.Generator) -> Tensor | None:
    """One random time from each of ``count`` equal stretches of the grid, (s,); None for all times."""
    if count == 0 or count >= n_t:
        return None
    edges = torch.arange(count + 1, dtype=torch.float64) * (n_t / count)
    draws = edges[:-1] + torch.rand(count, generator=generator, dtype=torch.float64) * (n_t / count)
    return draws.long().clamp(max=n_t - 1)


def _cosine(step: int, steps: int) -> float:
    """Linear warm-up over the first 5 % of the steps, then half a cosine to zero."""
    warm = max(1, steps // 20)
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def _all(times: Tensor | None) -> Tensor | slice:
    return slice(None) if times is None else times
