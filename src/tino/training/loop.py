"""The training loop: one page, to be read in one sitting."""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.devices import pick_device, products
from tino.errors import Stopped, TinoError
from tino.models.operator import Operator, model_name
from tino.progress import Advance, progress
from tino.training import distributed
from tino.training.batches import draws, split
from tino.training.checkpoint import read_checkpoint, write_checkpoint
from tino.training.config import TrainConfig, make_optimizer, set_rate
from tino.training.history import History
from tino.training.objective import Objective
from tino.training.signals import stop_signals
from tino.training.step import Step

LOOK = 1.0  # seconds between two looks at the losses, which make the host wait for the device
VALIDATIONS = 100  # looks at the validation samples in a whole training

Log = Callable[[int, dict[str, float]], None]  # log(step, {"loss": ..., "lr": ..., "validation": ...})


def fit(
    model: nn.Module,
    train: Dataset,
    config: TrainConfig | None = None,
    show_progress: bool = True,
    checkpoint: Path | None = None,
    resume: bool = False,
    log: Log | None = None,
) -> History:
    """Train the model on the dataset, in place, by minimising the MSE (eq_loss_func).

    With a ``checkpoint`` file the state is kept there every half minute, and on Ctrl-C or SIGTERM; ``resume`` goes on
    from it to the very weights an uninterrupted run ends with (on a CPU, to the bit).
    """
    config = config or TrainConfig()
    if isinstance(model, Operator):
        model.check_grids(train)
    device = pick_device(config.device)
    with _precision(model, config):
        run = Training(model.to(device).train(), train, config, device)
        if resume and checkpoint is not None and distributed.all_see(checkpoint, device):
            run.restore(checkpoint)
        show = show_progress and distributed.rank() == 0
        if run.step and show:
            print(f"resuming after step {run.step}", file=sys.stderr)
        try:
            step = run.prepare(show)
            with (
                stop_signals(checkpoint is not None) as asked,
                progress(f"training {model_name(model)}", run.length, show, run.done() * run.length) as advance,
            ):
                run.go(step, asked, checkpoint, advance, log)
        except torch.OutOfMemoryError as error:
            raise TinoError(f"{device} has not enough memory for this step: use a smaller --batch-size") from error
        run.take_result()
    model.eval()
    return run.history


@dataclass(frozen=True)
class Taken:
    """A step that was taken: its loss, still on the device, and what held then."""

    loss: Tensor
    lr: float
    seconds: float
    validation: float


class Training:
    """The state of a run: what a checkpoint keeps, and what the config and the data give again."""

    def __init__(self, model: nn.Module, train: Dataset, config: TrainConfig, device: torch.device) -> None:
        self.model, self.config, self.device = model, config, device
        fitted, watched = split(train, config)
        self.objective = Objective(model, fitted, device)
        self.watched = None if watched is None else Objective(model, watched, device)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = make_optimizer(config, self.parameters)
        self.n, self.batch = len(fitted), config.batch(fitted)
        self.epoch_steps = math.ceil(self.n / self.batch)
        self.steps = config.steps or config.epochs * self.epoch_steps
        self.budget = config.budget_seconds()
        if self.budget is not None and distributed.size() > 1:
            raise TinoError("a budget is for one process: with torchrun give epochs or steps")
        self.length = self.budget or float(self.steps)
        # what a checkpoint keeps, beside the weights and the optimiser
        self.step, self.seconds, self.epoch_loss = 0, 0.0, 0.0
        self.average = [p.detach().clone() for p in self.parameters] if config.average else None
        self.best: list[Tensor] | None = None  # weights, where validation samples choose them
        self.best_loss, self.last_loss, self.looks_since = math.inf, math.nan, 0
        self.history = History()
        self.origin = {"problem": train.name, "model": model_name(model), "data": train.meta.get("parameters_sha256")}

    def done(self) -> float:
        """The share of the training that lies behind."""
        return min(1.0, self.step / self.steps if self.budget is None else self.seconds / self.budget)

    def prepare(self, show: bool) -> Step:
        """The step; if it is to be compiled, that is done here, before the clock runs."""
        step = Step(self.objective, self.optimizer, self.config)
        if self.config.compile and self.done() < 1:
            order, times = draws(self.config, self.n, self.epoch_steps, self.objective.n_t, 0, self.device)
            last = self.n - self.batch * (self.epoch_steps - 1)  # batch of an epoch, which may be smaller
            for size in dict.fromkeys([self.batch, last]):
                if show:
                    print(f"compiling {model_name(self.model)} for batches of {size}: up to a minute", file=sys.stderr)
                step.compile(order[:size], None if times is None else times[0])
        return step

    # -- the loop ------------------------------------------------------------------------------------------

    def go(self, step: Step, asked: list[int], checkpoint: Path | None, advance: Advance, log: Log | None) -> None:
        start = looked = saved = time.perf_counter() - self.seconds
        shown, first, drawn = self.done() * self.length, self.step, -1
        waiting: list[Taken] = []
        order, times = torch.empty(0), None

        def look() -> None:
            """Wait for the device, and tell how it goes."""
            nonlocal looked, shown
            self.take_losses(waiting, checkpoint)
            waiting.clear()
            looked = time.perf_counter()
            self.history.looks.append([self.step, looked - start])
            rate = (self.step - first) / max(looked - begun, 1e-9)
            losses = self.history.loss  # none before the end of the first epoch
            latest = f"loss {losses[-1]:.2e}, " if losses else ""
            speed = f"{1 / rate:.1f} s a step" if 0 < rate < 1 else f"{rate:.0f} steps/s"
            advance(self.done() * self.length - shown, f"{latest}{speed}")
            shown = self.done() * self.length
            if log is not None and losses:
                log(self.step, {"loss": losses[-1], "lr": self.history.lr[-1], "validation": self.last_loss})

        begun = time.perf_counter()
        taking = self.config.warmup * (self.budget or 0.0)  # seconds of the last step
        while self.done() < 1 and not (self.config.patience and self.looks_since >= self.config.patience):
            epoch, place = divmod(self.step, self.epoch_steps)
            if drawn != epoch:
                order, times = draws(self.config, self.n, self.epoch_steps, self.objective.n_t, epoch, self.device)
                drawn = epoch
            # the middle of the step: neither end has rate 0
            half = 0.5 / self.steps if self.budget is None else 0.5 * taking / self.budget
            rate = self.config.lr_at(self.done() + half)
            set_rate(self.optimizer, rate)
            picked = order[place * self.batch : (place + 1) * self.batch]
            before = math.floor(VALIDATIONS * self.done())
            try:
                loss = step(picked, None if times is None else times[place])
            except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]  # a factor is not finite
                waiting.append(Taken(torch.tensor(math.nan), rate, self.seconds, self.last_loss))
                self.step += 1
                look()  # ends the run
                raise
            self.step += 1
            now = time.perf_counter()
            taking, self.seconds = now - start - self.seconds, now - start
            self.update_average()
            if self.watched is not None and (math.floor(VALIDATIONS * self.done()) > before or self.done() == 1):
                self.validate()
            waiting.append(Taken(loss, rate, self.seconds, self.last_loss))
            stop, save, due = self.agreed(bool(asked), now - saved > self.config.save_every, now - looked > LOOK)
            if due or save or stop or self.done() == 1:
                look()
            if checkpoint is not None and (save or stop) and self.done() < 1:
                self.save(checkpoint)
                saved = time.perf_counter()
            if stop and self.done() < 1:
                raise Stopped(self.step, asked[0] if asked else signal.SIGTERM)
        if waiting:
            look()
        if self.step % self.epoch_steps and self.epoch_loss:  # stopped early, or by the clock, within an epoch
            self.end_epoch(self.step % self.epoch_steps, self.config.lr_at(self.done()), self.seconds, self.last_loss)

    def agreed(self, stop: bool, save: bool, look: bool) -> tuple[bool, bool, bool]:
        """What is to be done after this step; several processes agree on it, at the ends of epochs."""
        if distributed.size() == 1:
            return stop, save, look
        if self.step % self.epoch_steps and self.done() < 1:
            return False, False, False
        first = distributed.rank() == 0  # its clock counts
        flags = torch.tensor([stop, save and first, look and first], dtype=torch.float32, device=self.device)
        stop, save, look = (bool(flag) for flag in distributed.summed(flags).tolist())
        return stop, save, look

    def take_losses(self, waiting: list[Taken], checkpoint: Path | None) -> None:
        """Losses from the device into the history; one that is not finite ends the run."""
        if not waiting:
            return
        total = distributed.summed(torch.stack([taken.loss.to(self.device) for taken in waiting]))
        first = self.step - len(waiting)
        for i, loss in enumerate((total / distributed.size()).tolist()):
            epoch, place = divmod(first + i, self.epoch_steps)
            if not math.isfinite(loss):
                where = f"epoch {epoch + 1}, learning rate {waiting[i].lr:.1e}, step {first + i + 1}"
                kept = checkpoint is not None and checkpoint.exists()
                last = f"the last good state is kept in {checkpoint}; " if kept else ""
                raise TinoError(f"the loss is {loss} at {where}: {last}try a smaller lr in another folder")
            self.epoch_loss += loss * min(self.batch, self.n - place * self.batch)
            if place + 1 == self.epoch_steps:
                rate = self.config.lr_at((first + i + 1) / self.steps) if self.budget is None else waiting[i].lr
                self.end_epoch(place + 1, rate, waiting[i].seconds, waiting[i].validation)
        self.history.steps = self.step

    def end_epoch(self, steps: int, rate: float, seconds: float, validation: float) -> None:
        """The mean loss of an epoch, whole or cut short, into the history."""
        mean = self.objective.weight * self.epoch_loss / min(self.n, steps * self.batch) + self.objective.constant
        self.history.add(mean, rate, seconds, validation)
        self.epoch_loss = 0.0

    # -- weights that are not simply the last ---------------------------------------------------------------

    def update_average(self) -> None:
        if self.average is not None:
            decay = min(self.config.average, self.step / (self.step + 9))  # the start is forgotten sooner
            with torch.no_grad():
                for mean, weight in zip(self.average, self.parameters, strict=True):
                    mean.lerp_(weight, 1 - decay)

    def validate(self) -> None:
        """The loss on the samples kept aside, with the weights that would be the result now."""
        assert self.watched is not None
        last = [p.detach().clone() for p in self.parameters]
        self.put(self.average)
        with torch.no_grad():
            samples = torch.arange(len(self.watched.inputs), device=self.device).split(self.batch)
            total = sum(float(self.watched(part, None)) * len(part) for part in samples)
        self.put(last if self.average else None)
        mean = torch.tensor(total / len(self.watched.inputs), dtype=torch.float64, device=self.device)
        mean = float(distributed.summed(mean)) / distributed.size()  # one number for all processes
        self.last_loss = self.watched.weight * mean + self.watched.constant
        self.looks_since += 1
        if self.last_loss < self.best_loss:
            self.best_loss, self.looks_since = self.last_loss, 0
            self.best = [p.detach().clone() for p in self.average or self.parameters]

    def take_result(self) -> None:
        """The weights of the trained model: the best on validation, the average, or the last."""
        self.put(self.best or self.average)
        self.check_weights()

    def put(self, weights: list[Tensor] | None) -> None:
        """These weights into the model; none changes nothing."""
        with torch.no_grad():
            for p, weight in zip(self.parameters, weights or [], strict=weights is not None):
                p.copy_(weight)

    def check_weights(self) -> None:
        if not all(bool(torch.isfinite(p).all()) for p in self.parameters):
            rate = self.config.lr_at(self.done())
            raise TinoError(
                f"the weights are not finite after step {self.step}, learning rate {rate:.1e}: try a smaller lr"
            )

    # -- checkpoints ----------------------------------------------------------------------------------------

    KEPT = ("step", "seconds", "epoch_loss", "average", "best", "best_loss", "last_loss", "looks_since")

    def save(self, path: Path) -> None:
        self.check_weights()
        if distributed.rank() == 0:
            state = {
                "identity": self.identity(),
                "weights": [p.detach() for p in self.parameters],
                "optimizer": self.optimizer.state_dict(),
                "history": asdict(self.history),
                **{name: getattr(self, name) for name in self.KEPT},
            }
            write_checkpoint(path, state)

    def restore(self, path: Path) -> None:
        state = read_checkpoint(path)
        held, own = state["identity"], self.identity()
        for name in own:
            if held.get(name) != own[name]:
                given = f"{name} = {held.get(name)}, not {own[name]}" if name != "weights" else "a model of other sizes"
                raise TinoError(f"{path} belongs to a run with {given}: give the same options")
        self.put(state["weights"])
        ways = [{k: g[k] for k in ("lr", "capturable", "fused") if k in g} for g in self.optimizer.param_groups]
        self.optimizer.load_state_dict(state["optimizer"])
        for group, way in zip(self.optimizer.param_groups, ways, strict=True):
            group.update(way)  # of this device: on a GPU the rate must be a tensor there
        for name in self.KEPT:
            value = state[name]
            setattr(self, name, [w.to(self.device) for w in value] if isinstance(value, list) else value)
        self.history = History(**state["history"])

    def identity(self) -> dict[str, object]:
        """What must be the same for a checkpoint to be continued."""
        sizes = {"samples": self.n, "weights": [list(p.shape) for p in self.parameters]}
        return {**self.origin, **self.config.recipe(), **sizes}


@contextmanager
def _precision(model: nn.Module, config: TrainConfig) -> Iterator[None]:
    before = next((p.dtype for p in model.parameters()), torch.float32)
    if config.precision == "float64":
        model.double()
    try:
        with products(tf32=False):  # but for the gradients, where a step allows it
            yield
    finally:
        model.to(before)
