"""The best law so far: laws are fitted by normal equations and compared on held-out records."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.least_squares import RIDGES, NormalEquations
from tino.models.rollouts import Rollouts
from tino.parts.coefficients import CoefficientLaw
from tino.parts.law import LeastSquaresLaw, histories
from tino.parts.warmup import Warmup
from tino.parts.wavenumbers import WavenumberLaw
from tino.progress import Advance

STABLE = 1e-6  # an |λ| of the linear part may be above 1 by so much
MANY = 100  # records of the fit that are rolled out
SNAPSHOTS = 4000  # fields that coordinates are taken from
NUMBERS, LONG = 4e6, 4000  # of the terms in memory at once; times, in a longer record only a part at once
SIMPLER, ROUNDING = 0.95, 1e-12  # after a burn-in, a law with more terms must lower the error to this, or above this
GAIN = 0.5  # a constant term must lower the error to this, where the records start at zero


@dataclass
class Search:
    """The best law so far, and its held-out error."""

    rollouts: Rollouts
    advance: Advance
    law: LeastSquaresLaw | None = None
    warmup: Warmup | None = None
    error: float = math.inf
    notes: tuple[str, ...] = ()

    @property
    def relative(self) -> float:
        return self.error / self.rollouts.size

    def offer(
        self,
        law: LeastSquaresLaw,
        equations: NormalEquations,
        terms: tuple[int, ...],
        warmup: Warmup | None = None,
        again: bool = False,
    ) -> None:
        """Try a law with every ridge on the held-out records; keep it if it is the best.

        ``again``: the best law itself, fitted on more rows.
        """
        weights = torch.stack([law.as_weights(equations.solve(ridge, terms)) for ridge in RIDGES])
        bar = self.error * (GAIN if law.sizes["constant"] and self.rollouts.from_zero else 1.0)
        if again:
            bar = self.error
        elif self.rollouts.held.burn_in and self.law is not None:  # simple laws come first, and forget sooner
            bar = SIMPLER * self.error if self.relative > ROUNDING else 0.0
        errors = self.rollouts.errors(
            law, lambda past, g, i: law.combine(law.features(past, g, i), weights), len(weights), warmup, bar
        )
        if float(errors.min()) < bar:
            law.weights.data.copy_(weights[int(errors.argmin())])
            self.law, self.warmup, self.error = law, warmup, float(errors.min())
        self.advance()

    def steady(self) -> None:
        """Damp a linear part that grows, unless growth lowers the error."""
        law = self.law
        assert law is not None
        if (growth := law.growth()) <= 1 + STABLE:
            return
        kept = law.weights.data.clone()
        law.damp()
        if (damped := self.rollouts.error(law, self.warmup)) <= self.error:
            self.error = damped
            return
        law.weights.data.copy_(kept)
        self.notes += (
            f"its linear part grows by {growth - 1:.2g} a step; damped, its held-out MSE would be {damped:.2g} instead "
            f"of {self.error:.2g}",
        )

    @property
    def runs_away(self) -> bool:
        """Whether a law with products diverges on some of the records it was fitted to, of which few were held out."""
        law, data = self.law, self.rollouts.fitted
        if not isinstance(law, CoefficientLaw) or law.sizes["degree"] == 1 or data.burn_in or data.time.n > LONG:
            return False
        some = data.take(torch.linspace(0, len(data) - 1, min(MANY, len(data))).round().long())
        return not math.isfinite(replace(self.rollouts, held=some, before=0).error(law, self.warmup))


def check_delays(delays: int, least: int, times: int) -> None:
    """An error if records of so many times are too short for the delays that were asked for, which need ``least``."""
    if delays > 1 and times < least:
        needs = f"{delays} delays need records of {least} times or more"
        raise TinoError(f"{needs}, those that are fitted have {times}: use fewer")


def fit(law: LeastSquaresLaw, data: Dataset, rows: int, first: int = 1) -> NormalEquations:
    """The normal equations of a law over successive states, from time ``first`` on, of about so many rows at most.

    They are summed over parts of the records, and of the time of long records, so that memory does not grow with them.
    """
    equations, n_t = NormalEquations(), data.time.n
    records = min(len(data), max(1, math.ceil(rows / n_t)))
    chosen = torch.linspace(0, len(data) - 1, records).round().long()
    numbers = law.features(*_one(law), 0).numel()
    length = n_t if n_t <= LONG else max(law.window, min(LONG, round(NUMBERS / numbers)))
    starts = torch.arange(first, n_t, length)
    count = max(1, min(len(starts), math.ceil(rows / (records * length))))
    starts = starts[torch.linspace(0, len(starts) - 1, count).round().long()]
    part = max(1, round(NUMBERS / (numbers * length)))
    for some in chosen.split(part):
        for start in starts.tolist():
            _add(equations, law, data.take(some), start, min(n_t, start + length))
    return equations


def _add(equations: NormalEquations, law: LeastSquaresLaw, data: Dataset, start: int, end: int) -> None:
    """The rows from time ``start`` to before ``end``."""
    before = max(0, start - law.window + 1)  # what the first of them reads
    c, g = law.state(data.u[:, before:end].double()), law.inputs(data.f[:, before:end].double())
    past, inputs = (x[:, start - before :] for x in histories(law, c, g))
    x, y = law.features(past, inputs, torch.arange(start, end)), c[:, start - before :]
    if isinstance(law, WavenumberLaw):
        y = (y if law.real else law.waves.waves(y))[..., None]
    else:
        x, y = x[..., None, :], y[..., None, :]
    if data.mask is None:
        x, y = x.flatten(0, 1), y.flatten(0, 1)
    else:
        x, y = x[data.mask[:, start:end]], y[data.mask[:, start:end]]
    equations.add(x, y)


def _one(law: LeastSquaresLaw) -> tuple[Tensor, Tensor]:
    """States and inputs of one row, of zeros."""
    states = law.waves.size if isinstance(law, WavenumberLaw) else law.sizes["states"]
    sources = law.waves.size if isinstance(law, WavenumberLaw) else law.sizes["sources"] + bool(law.sizes["level"])
    zeros = torch.zeros(1, dtype=torch.float64)
    return zeros.new_zeros(law.lags, states), zeros.new_zeros(law.window, sources)


def some_rows(every: Tensor) -> Tensor:
    """At most SNAPSHOTS of the fields (n, x), evenly spread, in float64."""
    return every[torch.linspace(0, len(every) - 1, min(SNAPSHOTS, len(every))).round().long()].double()
