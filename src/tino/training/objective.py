"""What a training step minimises: the error over records, or over stretches of successive steps."""

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from tino.calls import call, model_name
from tino.data import Dataset
from tino.errors import TinoError
from tino.frame import numbers
from tino.operator import Operator, Records, Stretches

PART = 50  # samples prepared at a time
LOOKED = 16  # samples, and times of each, that tell the size of an error
RESIDENT = 0.5  # fraction of a GPU's free memory; larger data stay on the host and are moved batch by batch


class Objective(nn.Module, ABC):
    """The mean squared error at drawn samples and times. The data are on the device if they fit.

    That mean times ``weight``, plus ``constant``, is the MSE of the field; times ``scale`` it is of order one at the
    start, so that the optimisers' eps stays small beside it. If records end early, only valid times enter, a ``share``
    of all.
    """

    weight, constant, share = 1.0, 0.0, 1.0

    def __init__(self, model: nn.Module, data: Dataset, device: torch.device) -> None:
        super().__init__()
        self.model, self.n, self.n_t = model, len(data), data.time.n
        self.device = torch.empty(0, device=device).device  # cuda is cuda:0, and so on
        self.dtype = numbers(model, data.f).dtype
        self.mask = None if data.mask is None else data.mask.to(self.device)
        if data.mask is not None:
            self.share = float(data.mask.double().mean())
        self.ic = None if data.ic is None else data.ic.to(self.device, self.dtype)
        self.inputs, self.target = data.f, data.u

    @abstractmethod
    def forward(self, samples: Tensor, times: Tensor | None) -> Tensor:
        """The loss of samples (b,) at times (s,), or at all of them."""

    @property
    def on_device(self) -> bool:
        return self.inputs.device == self.target.device == self.device

    def _settle(self, inputs: Tensor, target: Tensor) -> None:
        """Move the data to the device, unless a GPU is too full; then set the scale."""
        self.inputs, self.target = self._placed(inputs), self._placed(target)
        counted = self.target if self.mask is None else self.target[self.mask.to(self.target.device)]
        squares = sum(float(part.double().square().sum()) for part in counted.split(PART))
        self.scale = counted.numel() / squares if squares > 0 else 1.0

    def _placed(self, values: Tensor) -> Tensor:
        if self.device.type == "cuda" and not values.is_cuda:
            size = values.numel() * torch.empty((), dtype=self.dtype).element_size()
            if size > RESIDENT * torch.cuda.mem_get_info(self.device)[0]:
                return values
        return values.to(self.device, self.dtype)

    def _take(self, values: Tensor, index: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        if values.device == self.device:
            return values[index]
        moved = tuple(i.to(values.device) for i in index) if isinstance(index, tuple) else index.to(values.device)
        return values[moved].to(self.device, self.dtype)

    def _prepared(self, values: Tensor, prepare: Any) -> Tensor:
        """The values prepared in parts, on the device; unchanged if ``prepare`` does nothing."""
        one = values[:1].to(self.device, self.dtype)
        if prepare(one) is one:
            return values
        return torch.cat([prepare(part.to(self.device, self.dtype)) for part in values.split(PART)])

    def _mean(self, squares: Tensor, counts: Tensor | None) -> Tensor:
        """The mean over all values (b, s, x), or over those at valid times, (b, s).

        It divides by the expected number of valid times, not by their actual number. So all valid times weigh the same,
        and the means over parts of a batch add up to the mean over the batch.
        """
        if counts is None:
            return squares.mean()
        return (squares.mean(-1) * counts).sum() / (counts.numel() * self.share)


class RecordsObjective(Objective):
    """Whole records: ``respond`` against the target. Inputs and target are prepared once."""

    def __init__(self, model: nn.Module, data: Dataset, device: torch.device) -> None:
        super().__init__(model, data, device)
        inputs, target = data.f, data.u
        with torch.no_grad():
            if isinstance(model, Operator):
                inputs, target = self._prepared(data.f, model.encode), self._prepared(data.u, model.target)
            if isinstance(model, Operator) and target is not data.u:
                self.weight = target.numel() / data.u.numel()
                self.constant = self._left(data, target, model)
            self._settle(inputs, target)
        self.n_t = self.target.shape[1]  # 1 for coefficients of functions of time

    def _left(self, data: Dataset, c: Tensor, model: Operator) -> float:
        """The MSE that remains with the best coefficients."""
        ones = torch.ones(self.n, 1) if data.mask is None else data.mask
        total = 0.0
        for u, best, counts in zip(data.u.split(PART), c.split(PART), ones.split(PART), strict=True):
            squares = (model.normalised(u.to(self.device, self.dtype)) - model.field(best)).double().square()
            total += float((squares * counts.to(self.device)[..., None]).sum())
        return total / (data.u.numel() if data.mask is None else int(data.mask.sum()) * data.output_size)

    def forward(self, samples: Tensor, times: Tensor | None) -> Tensor:
        inputs = self._take(self.inputs, samples)
        ic = None if self.ic is None else self.ic[samples]
        chosen = samples if times is None else (samples[:, None], times[None])
        squares = (self._respond(inputs, ic, times) - self._take(self.target, chosen)).square()
        return self._mean(squares, None if self.mask is None else self.mask[chosen])

    def _respond(self, inputs: Tensor, ic: Tensor | None, times: Tensor | None) -> Tensor:
        if isinstance(self.model, Operator):
            return self.model.respond(inputs, ic, times)
        u = call(self.model, inputs, ic)
        return u if times is None else u[:, times]


class StretchesObjective(Objective):
    """Successive steps from states seen in the data: u over the ``steps`` times after each drawn one."""

    def __init__(self, model: Operator, data: Dataset, device: torch.device, lesson: Stretches) -> None:
        super().__init__(model, data, device)
        self.steps, self.first = lesson.steps, lesson.first
        self.n_t = data.time.n - lesson.steps - lesson.first
        if data.mask is not None and self.n_t > 0:
            after = [data.mask[:, self.first + k :][:, : self.n_t] for k in range(1, self.steps + 1)]
            self.share = float(torch.stack(after).double().mean())
        if self.n_t < 1 or not self.share:
            longest = data.time.n if data.lengths is None else int(data.lengths.max())
            told = f"{lesson.steps} steps from time {lesson.first} on"
            raise TinoError(f"{model_name(model)} learns over {told}, records have {longest} times")
        with torch.no_grad():
            self._settle(data.f, self._prepared(data.u, model.normalised))
            one, other = (v[:1, :1].to(self.device, self.dtype) for v in (data.f, data.u))
            model.observe(one, other)  # an error, if it cannot
            self.measured = self._placed(data.u)
            self.span = torch.arange(model.observes, device=self.device)  # times that show the state
            self._scale_by_error()

    def _scale_by_error(self) -> None:
        """A step changes u little, and a good law leaves little of that: the scale is that of the error now."""
        samples, times = (
            torch.linspace(0, n - 1, min(n, LOOKED), device=self.device).round().long() for n in (self.n, self.n_t)
        )
        error = float(self(samples, times))
        if 0 < error < math.inf:
            self.scale = 1 / error

    def forward(self, samples: Tensor, times: Tensor | None) -> Tensor:
        starts = self.first + (torch.arange(self.n_t, device=self.device) if times is None else times)
        rows, now = (v.flatten() for v in torch.broadcast_tensors(samples[:, None], starts[None]))
        losses, model = [], self.model
        assert isinstance(model, Operator)
        with torch.no_grad():
            memory = self._seen(model, rows, now)
        for _ in range(self.steps):
            now = now + 1
            memory, u = model._step(memory, self._take(self.inputs, (rows, now)), now)
            squares = (model.normalised(u) - self._take(self.target, (rows, now))).square()[:, None]
            losses.append(self._mean(squares, None if self.mask is None else self.mask[rows, now][:, None]))
        return torch.stack(losses).mean()

    def _seen(self, model: Operator, rows: Tensor, now: Tensor) -> Any:
        """The memory at these places, as the data show it; at the start of a record, as the model starts there."""
        first = (now - model.observes + 1).clamp_min(0)
        times = (first[:, None] + self.span).clamp_max(self.measured.shape[1] - 1)
        places = (rows[:, None].expand_as(times), times)
        return _at(model.observe(self._take(self.inputs, places), self._take(self.measured, places)), now - first)


def _at(memory: Any, index: Tensor) -> Any:
    """Of a memory after each of several inputs (b, t, ...), that at the index (b,)."""
    if isinstance(memory, tuple):
        return tuple(_at(part, index) for part in memory)
    return memory[torch.arange(len(index), device=index.device), index]


def objective(model: nn.Module, lesson: Records | Stretches, data: Dataset, device: torch.device) -> Objective:
    if isinstance(lesson, Stretches):
        assert isinstance(model, Operator)
        return StretchesObjective(model, data, device, lesson)
    return RecordsObjective(model, data, device)
