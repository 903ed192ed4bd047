"""The state of a training run: what a checkpoint saves, and what is rebuilt from the config and the data."""

import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tino.calls import at_once, model_name
from tino.data import Dataset
from tino.errors import TinoError, in_short
from tino.operator import Operator, Records
from tino.training import distributed
from tino.training.batches import draws, in_windows, split
from tino.training.checkpoint import FIX, read_checkpoint, write_checkpoint
from tino.training.config import TrainConfig
from tino.training.cuda import make_step
from tino.training.history import History
from tino.training.objective import objective
from tino.training.optimizer import make_optimizer
from tino.training.step import Step
from tino.training.weights import ResultWeights


class Training:
    """Lessons, optimiser, weights and history; ``step`` counts the steps taken, ``seconds`` the time they took."""

    def __init__(self, model: nn.Module, train: Dataset, config: TrainConfig, device: torch.device) -> None:
        self.model, self.config, self.device = model, config, device
        cut = in_windows(train, model)
        fitted, watched = split(cut, config)
        self.lessons = model.learning if isinstance(model, Operator) else (Records(),)
        self.objectives = [objective(model, lesson, fitted, device) for lesson in self.lessons]
        aside = None if watched is None else objective(model, Records(), watched, device)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        if not self.parameters:
            raise TinoError(
                f"{model_name(model)} has no parameters to train: an operator fitted by solve has learning = ()"
            )
        self.optimizer = make_optimizer(config, self.parameters)
        self.weights = ResultWeights(self.parameters, config, aside)
        self.n, self.batch = len(fitted), config.batch(fitted, cut is not train)
        self.watched_batch = max(self.batch, at_once(cut.time.n, cut.output_size))
        self.epoch_steps = math.ceil(self.n / self.batch)
        self.steps = config.steps or config.epochs * self.epoch_steps
        self.budget = config.budget_seconds()
        if self.budget is not None and distributed.size() > 1:
            raise TinoError("a budget is for one process: with torchrun give epochs or steps")
        self.length = self.budget or float(self.steps)
        self.step, self.seconds, self.validating, self.epoch_loss = 0, 0.0, 0.0, 0.0
        self.history = History(samples=self.n, batch=self.batch)
        data = train.meta.get("parameters_sha256") or train.meta.get("checksum")
        self.origin = {"problem": train.name, "model": model_name(model), "data": data}
        self._drawn: tuple[tuple[int, int], Tensor, Tensor | None] | None = None

    # -- progress ------------------------------------------------------------------------------------------

    def done(self) -> float:
        """The fraction of the training that is done."""
        return min(1.0, self.step / self.steps if self.budget is None else self.seconds / self.budget)

    def finished(self) -> bool:
        return self.done() >= 1 or bool(self.config.patience and self.weights.looks_since >= self.config.patience)

    @property
    def lesson(self) -> int:
        """The index of the current lesson; each has its share of the training."""
        shares = [lesson.share for lesson in self.lessons]
        ends = [sum(shares[: i + 1]) / sum(shares) for i in range(len(shares))]
        return next((i for i, end in enumerate(ends) if self.done() < end), len(ends) - 1)

    def rate(self, taking: float) -> float:
        """The learning rate in the middle of the next step, which takes ``taking`` seconds: it is never 0."""
        half = 0.5 / self.steps if self.budget is None else 0.5 * taking / self.budget
        return self.config.lr_at(self.done() + half)

    # -- steps ---------------------------------------------------------------------------------------------

    def draw(self) -> tuple[Tensor, Tensor | None]:
        """The samples and times of the next step, which depend only on the seed and the step's number."""
        epoch, place = divmod(self.step, self.epoch_steps)
        if self._drawn is None or self._drawn[0] != (epoch, self.lesson):
            n_t = self.objectives[self.lesson].n_t
            order, times = draws(self.config, self.n, self.epoch_steps, n_t, epoch, self.device)
            self._drawn = ((epoch, self.lesson), order, times)
        _, order, times = self._drawn
        return order[place * self.batch : (place + 1) * self.batch], None if times is None else times[place]

    def make_steps(self, show: bool) -> list[Step]:
        """One step per lesson; compiled here if asked for, before the clock starts."""
        steps = [make_step(objective, self.optimizer, self.config) for objective in self.objectives]
        if self.config.compile and self.done() < 1:
            last = self.n - self.batch * (self.epoch_steps - 1)  # batch of an epoch, which may be smaller
            for step in steps:
                order, times = draws(self.config, self.n, 1, step.objective.n_t, 0, self.device)
                for size in dict.fromkeys([self.batch, last]):
                    if show:
                        name = model_name(self.model)
                        print(f"compiling {name} for batches of {size}: up to a minute", file=sys.stderr)
                    step.compile(order[:size], None if times is None else times[0])
        return steps

    def end_epoch(self, steps: int, rate: float, seconds: float, validation: float) -> None:
        """Add the mean loss of an epoch, whole or cut short, to the history."""
        self.history.add(self.epoch_loss / min(self.n, steps * self.batch), rate, seconds, validation)
        self.epoch_loss = 0.0

    def validate(self) -> None:
        """The error of held-out samples, if there are any; ``validating`` counts the seconds."""
        if self.weights.watched is None:
            return
        begun = time.perf_counter()
        self.weights.validate(self.step, self.watched_batch)
        self.validating += time.perf_counter() - begun

    def check_weights(self) -> None:
        if not self.weights.finite():
            rate = self.config.lr_at(self.done())
            raise TinoError(
                f"the weights are not finite after step {self.step}, learning rate {rate:.1e}: try a smaller lr"
            )

    # -- checkpoints ---------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        self.check_weights()
        if distributed.rank() == 0:
            state = {
                "identity": self.identity(),
                "weights": [p.detach() for p in self.parameters],
                "optimizer": self.optimizer.state_dict(),
                "history": asdict(self.history),
                "result": self.weights.state(),
                "scales": [one.scale for one in self.objectives],
                **{name: getattr(self, name) for name in ("step", "seconds", "epoch_loss")},
            }
            write_checkpoint(path, state)

    def restore(self, path: Path) -> None:
        state = read_checkpoint(path)
        try:
            self._restore(state, path)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise TinoError(f"{path} is not a whole checkpoint: {FIX} ({in_short(error)})") from error

    def _restore(self, state: dict[str, Any], path: Path) -> None:
        held, own = state["identity"], self.identity()
        for name in own:
            if held.get(name) != own[name]:
                given = f"{name} = {in_short(held.get(name), 40)}, not {own[name]}"
                given = given if name != "weights" else "a model of other sizes"
                raise TinoError(f"{path} belongs to a run with {given}: give the same options")
        self.weights.put(state["weights"])
        ways = [{k: g[k] for k in ("lr", "capturable", "fused") if k in g} for g in self.optimizer.param_groups]
        self.optimizer.load_state_dict(state["optimizer"])
        for group, way in zip(self.optimizer.param_groups, ways, strict=True):
            group.update(way)  # of this device: on a GPU the rate must be a tensor there
        self.weights.restore(state["result"])
        for one, scale in zip(self.objectives, state["scales"], strict=True):
            one.scale = float(scale)  # of the model as it was at the start
        self.step, self.seconds, self.epoch_loss = state["step"], state["seconds"], state["epoch_loss"]
        self.history = History(**state["history"])

    def identity(self) -> dict[str, object]:
        """What must match for a checkpoint to be resumed."""
        sizes = {"samples": self.n, "weights": [list(p.shape) for p in self.parameters]}
        return {**self.origin, **self.config.decisive(), **sizes}
