"""The training loop, to be read from top to bottom."""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from tino.calls import model_name
from tino.data import Dataset, check_dataset
from tino.devices import pick_device, products
from tino.errors import Stopped, TinoError, shown
from tino.frame import numbers
from tino.operator import Operator
from tino.progress import Advance, progress
from tino.sizes import check_sizes
from tino.training import distributed
from tino.training.config import TrainConfig
from tino.training.history import History
from tino.training.objective import Objective
from tino.training.optimizer import set_rate
from tino.training.signals import stop_signals
from tino.training.state import Training
from tino.training.step import Step

LOOK = 1.0  # seconds between two looks at the losses, which synchronise with the device
VALIDATIONS, VALIDATING = 100, 0.2  # per training; the part of a budget that they may take

Log = Callable[[int, dict[str, float]], None]  # log(step, {"loss": ..., "lr": ..., "validation": ...})


def fit(
    model: nn.Module,
    train: Dataset,
    config: TrainConfig | None = None,
    show_progress: bool = True,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    log: Log | None = None,
) -> History:
    """Train the model on the dataset, in place: in closed form where possible, then by minimising the MSE.

    With a ``checkpoint`` file the state is saved every ``save_every`` seconds, at the end, and on Ctrl-C, SIGTERM or
    SIGHUP; ``resume`` continues from it and ends with the same weights as an uninterrupted run (on a CPU, to the bit).
    """
    config = TrainConfig() if config is None else config
    if not isinstance(config, TrainConfig):
        raise TinoError(f"config is {shown(config)}, expected a tino.TrainConfig, such as tino.TrainConfig(epochs=100)")
    check_dataset(train, "train")
    checkpoint = None if checkpoint is None else Path(checkpoint)
    device = pick_device(config.device)
    check_sizes(train)
    if isinstance(model, Operator):
        model.check_data(train)
        train = model.frame.seen.centred(train)
        model.solve(train, show_progress and distributed.rank() == 0)
        if not model.learning:
            model.to(device).eval()
            return History()
    with _precision(model, config):
        run = Training(model.to(device).train(), train, config, device)
        if resume and checkpoint is not None and distributed.all_see(checkpoint, device):
            run.restore(checkpoint)
        show = show_progress and distributed.rank() == 0
        if run.step and show:
            print(f"resuming after step {run.step}", file=sys.stderr)
        try:
            steps = run.make_steps(show)
            with (
                stop_signals(checkpoint is not None) as asked,
                progress(f"training {model_name(model)}", run.length, show, run.done() * run.length) as advance,
            ):
                _go(run, steps, asked, checkpoint, Watch(run, checkpoint, advance, log))
        except torch.OutOfMemoryError as error:
            raise TinoError(f"{device} does not have enough memory for this step: use a smaller batch_size") from error
        if checkpoint is not None and run.weights.finite():
            run.save(checkpoint)  # whoever stops before the model is saved elsewhere has not trained in vain
        run.weights.put_result()
        run.check_weights()
        if run.weights.kept_start and show:
            told = "training did not lower the error of the held-out records: the weights are those before it"
            print(f"{model_name(model)}: {told}", file=sys.stderr)
    model.eval()
    return run.history


def _go(run: Training, steps: list[Step], asked: list[int], checkpoint: Path | None, watch: "Watch") -> None:
    """Take steps until the end, or until a signal asks to stop."""
    if not run.step and run.weights.watched is not None:
        watch.advance(0, "validating the weights before the training")
        run.validate()  # training may not help
    start = saved = time.perf_counter() - run.seconds
    taking = run.config.warmup * (run.budget or 0.0)  # seconds of the last step
    while not run.finished():
        before = math.floor(VALIDATIONS * run.done())
        samples, times = run.draw()
        rate = run.rate(taking)
        set_rate(run.optimizer, rate)
        step = steps[run.lesson]
        try:
            loss = step(samples, times)
        except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]  # a factor is not finite
            watch.taken(step.objective, torch.tensor(math.nan), rate)
            run.step += 1
            watch.look()  # ends the run
            raise
        run.step += 1
        now = time.perf_counter()
        taking, run.seconds = now - start - run.seconds, now - start
        run.weights.follow(run.step)
        within = run.budget is None or run.validating <= VALIDATING * run.seconds
        if run.done() == 1 or (within and math.floor(VALIDATIONS * run.done()) > before):
            run.validate()
        watch.taken(step.objective, loss, rate)
        stop, save, look = _agreed(run, bool(asked), now - saved > run.config.save_every, watch.due(now))
        if look or save or stop or run.done() == 1:
            watch.look()
        if checkpoint is not None and (save or stop) and run.done() < 1:
            run.save(checkpoint)
            saved = time.perf_counter()
        if stop and run.done() < 1:
            raise Stopped(run.step, asked[0] if asked else signal.SIGTERM)
    watch.end()


def _agreed(run: Training, stop: bool, save: bool, look: bool) -> tuple[bool, bool, bool]:
    """What to do after this step; several processes agree on it at the end of each epoch."""
    if distributed.size() == 1:
        return stop, save, look
    if run.step % run.epoch_steps and run.done() < 1:
        return False, False, False
    first = distributed.rank() == 0  # its clock counts
    flags = torch.tensor([stop, save and first, look and first], dtype=torch.float32, device=run.device)
    stop, save, look = (bool(flag) for flag in distributed.summed(flags).tolist())
    return stop, save, look


@dataclass(frozen=True)
class Taken:
    """A step taken: its loss, still on the device, and the rate, time and validation loss at that step."""

    objective: Objective
    loss: Tensor
    lr: float
    seconds: float
    validation: float


class Watch:
    """Fetches losses periodically, which synchronises with the device, and reports progress."""

    def __init__(self, run: Training, checkpoint: Path | None, advance: Advance, log: Log | None) -> None:
        self.run, self.checkpoint, self.advance, self.log = run, checkpoint, advance, log
        self.waiting: list[Taken] = []
        self.begun = self.looked = time.perf_counter()
        self.before, self.first, self.shown = run.seconds, run.step, run.done() * run.length

    def taken(self, objective: Objective, loss: Tensor, rate: float) -> None:
        self.waiting.append(Taken(objective, loss, rate, self.run.seconds, self.run.weights.last_loss))

    def due(self, now: float) -> bool:
        return now - self.looked > LOOK

    def look(self) -> None:
        """Fetch the losses and report progress."""
        run, history = self.run, self.run.history
        self._fetch()
        self.looked = time.perf_counter()
        history.looks.append([run.step, self.looked - self.begun + self.before])
        rate = (run.step - self.first) / max(self.looked - self.begun, 1e-9)
        latest = f"loss {history.loss[-1]:.2e}, " if history.loss else ""  # none before the end of the first epoch
        speed = f"{1 / rate:.1f} s/step" if 0 < rate < 1 else f"{rate:.0f} steps/s"
        self.advance(run.done() * run.length - self.shown, f"{latest}{speed}")
        self.shown = run.done() * run.length
        if self.log is not None and history.loss:
            values = {"loss": history.loss[-1], "lr": history.lr[-1], "validation": run.weights.last_loss}
            self.log(run.step, values)

    def end(self) -> None:
        if self.waiting:
            self.look()
        run = self.run
        if run.step % run.epoch_steps and run.epoch_loss:  # stopped early, or by the clock, within an epoch
            rate = run.config.lr_at(run.done())
            run.end_epoch(run.step % run.epoch_steps, rate, run.seconds, run.weights.last_loss)

    def _fetch(self) -> None:
        """Losses from the device into the history; one that is not finite ends the run."""
        run, waiting = self.run, self.waiting
        self.waiting = []
        if not waiting:
            return
        total = distributed.summed(torch.stack([taken.loss.to(run.device) for taken in waiting]))
        first = run.step - len(waiting)
        for i, loss in enumerate((total / distributed.size()).tolist()):
            epoch, place = divmod(first + i, run.epoch_steps)
            if not math.isfinite(loss):
                where = f"epoch {epoch + 1}, learning rate {waiting[i].lr:.1e}, step {first + i + 1}"
                kept = self.checkpoint is not None and self.checkpoint.exists()
                hint = "try a smaller lr"
                if kept:
                    hint = f"the last good state is saved in {self.checkpoint}; {hint} in another folder"
                raise TinoError(f"the loss is {loss} at {where}: {hint}")
            mse = waiting[i].objective.weight * loss + waiting[i].objective.constant
            run.epoch_loss += mse * min(run.batch, run.n - place * run.batch)
            if place + 1 == run.epoch_steps:
                rate = run.config.lr_at((first + i + 1) / run.steps) if run.budget is None else waiting[i].lr
                run.end_epoch(place + 1, rate, waiting[i].seconds, waiting[i].validation)
        run.history.steps = run.step


@contextmanager
def _precision(model: nn.Module, config: TrainConfig) -> Iterator[None]:
    before = numbers(model).dtype
    if config.precision == "float64":
        model.double()
    try:
        with products(tf32=False):  # except for gradients, if the step allows it
            yield
    finally:
        model.to(before)
