"""How laws are compared: records are held out, and rolled out from their starts, or after their burn-in."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tino.data import Dataset
from tino.holdout import LONG, between, hold_out, windows
from tino.parts.inputs import output_weights
from tino.parts.law import Law
from tino.parts.start import Start
from tino.parts.warmup import Warmup
from tino.sizes import mean_square

FAR = 1e3  # times the largest state: diverged
NOISE = 1e-9  # relative, of every step: laws that live on cancellation lose
LOOK = 32  # steps between two looks at the errors

Step = Callable[[Tensor, Tensor, int], Tensor]  # states (w, n, lags, J), inputs (w, n, window, r), i -> (w, n, J)


@dataclass(frozen=True)
class Rollouts:
    """Training records, or times, to fit on, and others to roll out."""

    fitted: Dataset
    held: Dataset
    start: Start
    weights: Tensor  # (x,) of the outputs in an error: several channels weigh alike
    times: int  # of a record
    before: int  # times of a record before those held out

    @staticmethod
    def of(train: Dataset, clock: bool = False) -> "Rollouts":
        """With a ``clock`` records are not cut into windows, which would not know their time."""
        fitted, held = hold_out(train)
        weights = output_weights(train)
        weights = torch.ones(train.output_size) if weights is None else weights
        before = round((held.time.start - train.time.start) / train.time.step)
        if held.burn_in and held.time.n > LONG and not clock:
            burn_in = min(held.burn_in, LONG // 2)  # a rollout starts from the outputs at its end
            held = windows(between(held, held.burn_in - burn_in, held.time.n, burn_in), LONG)
        return Rollouts(fitted, held, Start.of(train), weights.double(), train.time.n, before)

    @property
    def from_zero(self) -> bool:
        """Whether all records start at zero."""
        return bool(self.start.sizes["zero"]) and not self.fitted.burn_in

    @cached_property
    def size(self) -> float:
        """The mean square of the outputs."""
        return mean_square(self.fitted.rows(self.fitted.u), self.weights)

    def error(self, law: Law, warmup: Warmup | None = None, bar: float = math.inf) -> float:
        """The MSE of the rolled-out records; inf if it diverges, or is above the ``bar``."""
        return float(self.errors(law, law, 1, warmup, bar)[0])

    def errors(self, law: Law, step: Step, copies: int, warmup: Warmup | None = None, bar: float = math.inf) -> Tensor:
        """The MSEs (w,) of so many copies of the records, which a step treats differently.

        With a burn-in, the last states before its end, or as many as the law reads, are those of the data. Once all
        MSEs are sure to end above the ``bar``, the rest is not computed, and they count as inf.
        """
        u = self.held.u.double()
        first = max(self.held.burn_in, law.lags) if self.held.burn_in else 1
        if self.held.burn_in:
            past = law.state(u[:, first - law.lags : first])
        else:
            c_0 = law.state(self.start(len(u), None if self.held.ic is None else u[:, 0]).double())
            past = c_0[:, None].expand(-1, law.lags, -1)
        g = law.inputs(self.held.f.double())
        drive = torch.cat([g.new_zeros(len(g), law.window - 1, g.shape[2]), g], 1)
        past = past.expand(copies, *past.shape)
        seen = u if bool(u.any()) else self.fitted.u.double()  # records of zeros do not tell the size of a state
        states, largest = [past[:, :, -1]], FAR * law.state(seen).abs().max()
        counts = torch.ones(u.shape[:2], dtype=torch.bool) if self.held.mask is None else self.held.mask
        total, sums = counts[:, first - 1 :].sum(), u.new_zeros(copies)
        generator = torch.Generator().manual_seed(0)
        for i in range(first, u.shape[1]):
            inputs = drive[:, i : i + law.window]
            if warmup is not None and i < law.lags:
                c = warmup(inputs, i).expand_as(past[:, :, -1])
            else:
                c = step(past, inputs.expand(copies, *inputs.shape), self.before + i)
            c = c * (1 + NOISE * torch.randn(c.shape[1:], generator=generator, dtype=c.dtype))
            c = torch.where(c.abs() <= largest, c, torch.nan)  # diverged: NaN stays
            past = torch.cat([past[:, :, 1:], c[:, :, None]], 2)
            states.append(c)
            if len(states) >= LOOK or i == u.shape[1] - 1:
                now = slice(i + 1 - len(states), i + 1)
                squares = ((law.output(torch.stack(states, 2)) - u[:, now]) * self.weights).square().mean(-1)
                sums, states = sums + torch.where(counts[:, now], squares, 0.0).sum((1, 2)), []  # (w,)
                if not bool((sums <= bar * total).any()):  # nor is NaN
                    return torch.full((copies,), math.inf)
        return (sums / total).nan_to_num(nan=math.inf)
