"""Flows fitted by simulation: a polynomial law whose numbers minimise the error of many steps, not of one.

Least squares over single steps takes the noise of measured outputs for signal, and so its numbers are biased. Here they
are only the start: Gauss-Newton then minimises Σ |u_i - û_i|² over stretches that are simulated from a measured state.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.least_squares import gauss_newton
from tino.models.closed import CUTS, FEW, ROWS, TERMS, ClosedForm, Coordinates, coordinates
from tino.models.flow import Fitted, Plan
from tino.models.rollouts import Rollouts
from tino.models.search import Search, check_delays, fit
from tino.parts.coefficients import CoefficientLaw, terms
from tino.progress import Advance, progress

DELAYS = (1, 2, 3, 4, 5, 8, 10)
NEAR = (2, 3, 5)  # delays that enter products
STEPS, STRETCHES = 600, 40  # of a simulation, and how many of them
NUMBERS = 400  # of a law that is refined, at most
FINALISTS = 3  # laws that are refined
FAR = 1e3  # of the coordinates, whose size is one: a simulation that has diverged stays there
SMALL = 1e-6  # what a difference changes in a step


@dataclass(frozen=True)
class Simulated(Plan):
    """What is asked of a law that is fitted by simulation; 0: chosen on held-out records."""

    degree: int = 0
    delays: int = 0

    def first(self, train: Dataset) -> CoefficientLaw:
        if train.output_size > FEW:
            told = f"a fit by simulation takes up to {FEW} outputs, {train.name} has {train.output_size}"
            raise TinoError(f"{told}: try polynomial")
        return ClosedForm(degree=1).first(train)

    def fit(self, train: Dataset, show_progress: bool) -> Fitted:
        delays = (self.delays,) if self.delays else DELAYS
        with torch.no_grad(), progress("fitting", 2 * len(delays) + 8 * FINALISTS, show_progress) as advance:
            rollouts = Rollouts.of(train)
            check_delays(self.delays, 4 * self.delays, rollouts.fitted.shortest)
            at = coordinates(rollouts.fitted, CUTS[-1], zero=True)
            found = [one for p in delays if (one := self._by_steps(rollouts, at, p)) is not None and not advance(2)]
            if not found:
                raise TinoError(f"no polynomial law follows the held-out records of {train.name}")
            found.sort(key=lambda one: one.error)
            for one in found[:FINALISTS]:
                refine(one, advance)
            best = min(found, key=lambda one: one.error)
            best.steady()
        assert best.law is not None
        return Fitted(best.law, None, best.notes, best.relative)

    def _by_steps(self, rollouts: Rollouts, at: Coordinates, p: int) -> Search | None:
        """The best law of so many delays, by least squares over single steps; None if all diverge."""
        data, sources = rollouts.fitted, at.to_input.shape[1]
        if 4 * p > data.shortest:
            return None
        shapes = [(1, 0), (2, min(p, NEAR[-1])), *((3, min(p, k)) for k in NEAR)]
        shapes = [(d, k) for d, k in dict.fromkeys(shapes) if self.degree in (0, d)]
        shapes = [(d, k) for d, k in shapes if terms((k or p) * at.states, 0, d, 0) + (p + 1) * sources <= TERMS]
        shapes = [(d, k) for d, k in shapes if k <= shapes[-1][1]]  # each is a part of the last one

        def law(degree: int, near: int) -> CoefficientLaw:
            sizes = {"delays": p, "stride": 1, "moments": 0, "products": at.states, "degree": degree, "near": near}
            return at.law(data, **sizes, cross=0, constant=not rollouts.from_zero, clock=0, times=data.time.n)

        search = Search(rollouts, lambda *_: None)
        laws = [law(degree, near) for degree, near in shapes]
        if laws:
            first = p if data.burn_in else 1
            equations = fit(laws[-1], data, max(ROWS * laws[-1].count, 10**6), first)
            for one in laws:
                search.offer(one, equations, one.places(laws[-1]))
        return None if search.law is None else search


def refine(found: Search, advance: Advance) -> None:
    """Minimise the error of simulations, from the numbers of the law on; keep them if held-out records agree."""
    law, data = found.law, found.rollouts.fitted
    assert isinstance(law, CoefficientLaw)
    if law.weights.numel() > NUMBERS:
        return
    stretches = Stretches.of(law, data, found.rollouts.weights)
    calls = iter(range(8))

    def residuals(several: Tensor) -> Tensor:
        if len(several) > 1 and next(calls, None) is not None:
            advance()
        return stretches.residuals(law, several.unflatten(1, law.weights.shape))

    kept = law.weights.data.clone()
    start = law.weights.data.flatten()
    units = SMALL / stretches.sizes(law)[:, None].expand_as(law.weights).flatten()
    numbers, _, _ = gauss_newton(residuals, start, torch.ones_like(start, dtype=torch.bool), units)
    law.weights.data.copy_(numbers.view_as(law.weights))
    if (error := found.rollouts.error(law)) < found.error:
        found.error = error
    else:
        law.weights.data.copy_(kept)


@dataclass(frozen=True)
class Stretches:
    """States before (b, lags, J), inputs (b, n + window - 1, r) and outputs (b, n, x) of successive steps."""

    past: Tensor
    inputs: Tensor
    outputs: Tensor
    weights: Tensor  # (x,)

    @staticmethod
    def of(law: CoefficientLaw, data: Dataset, weights: Tensor) -> "Stretches":
        """Evenly spread over the records; a state that starts a stretch is that of the data."""
        first = max(data.burn_in, law.lags)
        n = max(1, min(STEPS, data.shortest - first))
        ends = data.lengths if data.lengths is not None else torch.full((len(data),), data.time.n)
        places = [(row, start) for row, end in enumerate(ends.tolist()) for start in range(first, end - n + 1, n)]
        places = [places[k] for k in torch.linspace(0, len(places) - 1, min(STRETCHES, len(places))).long().tolist()]
        rows, starts = (torch.tensor(column) for column in zip(*places, strict=True))

        def cut(values: Tensor, start: int, end: int) -> Tensor:
            return values[rows[:, None], starts[:, None] + torch.arange(start, end)].double()

        past, inputs = law.state(cut(data.u, -law.lags, 0)), law.inputs(cut(data.f, 1 - law.window, n))
        return Stretches(past, inputs, cut(data.u, 0, n), weights)

    def sizes(self, law: CoefficientLaw) -> Tensor:
        """The root mean square of each term (q,) at the starts."""
        found = law.features(self.past, self.inputs[:, : law.window], 0).square().mean(0).sqrt()
        return torch.where(found > 0, found, 1.0)

    def residuals(self, law: CoefficientLaw, weights: Tensor) -> Tensor:
        """The errors (c, b n x) of laws with other weights (c, q, J), over the size of the outputs."""
        past, states = self.past.expand(len(weights), *self.past.shape), []
        for i in range(self.outputs.shape[1]):
            g = self.inputs[:, i : i + law.window].expand(len(weights), *self.inputs[:, : law.window].shape)
            c = law.combine(law.features(past, g, i), weights).clamp(-FAR, FAR)
            states.append(c)
            past = torch.cat([past[:, :, 1:], c[:, :, None]], 2)
        scale = (self.outputs * self.weights).square().mean().sqrt()
        return ((law.output(torch.stack(states, 2)) - self.outputs) * self.weights / scale).flatten(1)
