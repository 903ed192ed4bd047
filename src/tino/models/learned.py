"""Learned flows: the best closed form or equation, and a network for what it leaves."""

from dataclasses import dataclass, replace

import torch

from tino.data import Dataset
from tino.errors import TinoError
from tino.models.closed import FOLLOWS, ClosedForm, search, suits_waves
from tino.models.equations import Equation, Pairs, diffusion, stable_equation
from tino.models.flow import Fitted, Plan
from tino.models.rollouts import Rollouts
from tino.models.search import Search
from tino.operator import Stretches
from tino.parts.coefficients import CoefficientLaw
from tino.parts.corrected import CorrectedLaw
from tino.parts.equation import EquationLaw
from tino.parts.law import histories
from tino.parts.pointwise import Pointwise

ROWS = 20_000  # successive states that scales are taken from
HARDLY = 1e-2  # held-out error over the mean square: above, a closed form in coefficients hardly follows
STEPS = 2  # inner steps of an equation with a network, at least


@dataclass(frozen=True)
class Learned(Plan):
    """A network of so many layers and units, trained one step ahead, then through ``unroll`` steps."""

    width: int = 64
    layers: int = 2
    filters: int = 2  # learned multipliers of the waves, on a grid
    unroll: int = 8
    degree: int = 0  # of the closed form or equation; 0: chosen
    steps: int = 0  # inner steps, on a grid; 0: those of the equation alone, but at least STEPS
    coordinates: str = ""  # pod or waves; empty: waves where the grid has them
    delays: int = 0  # of the state, in coefficients; 0: chosen
    stride: int = 0
    clock: int = 0

    def learning(self, times: int, first: int = 0) -> tuple[Stretches, ...]:
        unroll = max(1, min(self.unroll, times - 1 - first))
        return (Stretches(1, first, share=2.0), Stretches(unroll, first, share=1.0))

    def on_waves(self, train: Dataset) -> bool:
        return suits_waves(train) and self.coordinates != "pod" and not self.clock

    def first(self, train: Dataset) -> EquationLaw | CorrectedLaw:
        if self.on_waves(train):
            return self._with_network(Equation(self.degree or 2, self.steps).first(train))
        return CorrectedLaw(ClosedForm(degree=1, clock=self.clock).first(train), self.width, self.layers)

    def fit(self, train: Dataset, show_progress: bool) -> Fitted:
        if not self.on_waves(train):
            return self._in_coefficients(self._closed_form(train, show_progress), train)
        rollouts = Rollouts.of(train)
        law, error = stable_equation(Equation(self.degree, self.steps), train, rollouts, show_progress)
        mirrored, follows = law.waves.sizes["mirrored"], error <= FOLLOWS * rollouts.size
        if self.coordinates != "waves" and (mirrored or (not follows and _needs_delays(train, show_progress))):
            try:  # an equation's terms are even under a mirror, and a wind is not; and u need not be the state
                found = self._closed_form(train, show_progress)
            except TinoError:  # none follows
                found = None
            if found is not None and found.error < error and (mirrored or found.relative <= FOLLOWS):
                return self._in_coefficients(found, train)
        if not follows:  # its powers stand in for other terms, and may diverge elsewhere
            law = law.again(self.steps or STEPS, self.degree or 2)
            law = diffusion(law, Pairs.of(law, rollouts.fitted))
        return self._on_the_grid(law, rollouts)

    def _closed_form(self, train: Dataset, show_progress: bool) -> Search:
        """The linear one where products hardly follow, or diverge on a record, which a damped linear law cannot."""
        plan = ClosedForm(self.degree, "pod", self.delays, self.stride, self.clock)
        found = search(plan, train, show_progress)
        assert isinstance(found.law, CoefficientLaw)
        follows = found.relative <= HARDLY and not found.runs_away
        if self.degree or follows or found.law.sizes["degree"] == 1:
            return found
        try:
            return search(replace(plan, degree=1), train, show_progress)
        except TinoError:  # it would have too many terms
            return found

    def _in_coefficients(self, found: Search, train: Dataset) -> Fitted:
        if not isinstance(found.law, CoefficientLaw):
            raise TinoError("a network in coefficients needs a closed form in coefficients")
        law = CorrectedLaw(found.law, self.width, self.layers)
        count = max(1, ROWS // train.time.n)
        some = train.take(torch.linspace(0, len(train) - 1, min(count, len(train))).round().long())
        c, g = law.state(some.u.double()), law.inputs(some.f.double())
        times = torch.arange(train.time.n).expand(len(some), -1)
        seen = times >= (1 if found.warmup is None else law.lags)
        seen = seen if some.mask is None else seen & some.mask
        law.fit(*(x[seen] for x in (*histories(law, c, g), c, times)))
        return Fitted(law, found.warmup, found.notes)

    def _with_network(self, law: EquationLaw) -> EquationLaw:
        network = Pointwise(law.waves, law.length, self.width, self.layers, self.filters)
        steps = self.steps or max(STEPS, law.sizes["steps"])
        made = law.again(steps, network=network)
        made.numbers.data.copy_(law.numbers.data)
        return made

    def _on_the_grid(self, base: EquationLaw, rollouts: Rollouts) -> Fitted:
        law = self._with_network(base)
        pairs = Pairs.of(law, rollouts.fitted)
        assert law.network is not None
        with torch.no_grad():
            rate = float(pairs.residual(law, law.numbers).square().mean().sqrt()) * pairs.change / law.dt
            v = law.waves.waves(pairs.past[:, -1])
            law.network.fit(law.waves, v, law.waves.waves(pairs.inputs[:, -1, :-1]), rate)
        return Fitted(law)


def _needs_delays(train: Dataset, show_progress: bool) -> bool:
    """Whether u is not the state: the best linear law reads more than the last u."""
    try:
        law = search(ClosedForm(1, "pod"), train, show_progress).law
    except TinoError:  # none follows
        return False
    return law is not None and law.lags > 1
