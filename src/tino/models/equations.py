"""Equations fitted through their own integrator: û_k' = λ_k û_k + b f̂_k + Σ_q a_q D_q F̂_qk, a dozen numbers."""

import math
from dataclasses import dataclass, field
from functools import partial
from itertools import compress

import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.least_squares import gauss_newton
from tino.models.closed import suits_waves
from tino.models.finer import finer_equation, has_hidden_waves
from tino.models.flow import Fitted, Plan
from tino.models.rollouts import Rollouts
from tino.models.search import some_rows
from tino.parts.equation import OVER, EquationLaw
from tino.parts.fourier import Fourier
from tino.parts.wavenumbers import box_length
from tino.progress import progress
from tino.sizes import mean_square

CUT = 1e-7  # of the waves
DEGREES, STEPS = (1, 2, 3, 5), (4, 8, 2, 1)
PAIRS = 1e4  # fitted numbers: pairs of states times waves
DROP = (0.0, 1e-4, 1e-2)  # of the change of u: terms with less effect are left out, and the rest is fitted again
STAND_IN = {"f": 0.1, "u": -0.5, "Δu": 0.5}  # before the fit: a state that decays
FINER = (1.25, 1.5)  # highest waves on the way to that asked for
GOOD = 1e-7  # held-out error over the mean square: below, no waves are hidden
BOLD = 0.05  # of the change of u: smaller terms may stand in for hidden waves
LARGE, MODEST = 10_000, (1, 2)  # points for products: on more, only these degrees are tried
WORSE = 1.05  # a simpler equation may have this much more held-out error


@dataclass(frozen=True)
class Equation(Plan):
    """What is asked of an equation; 0: chosen on held-out records."""

    degree: int = 0
    steps: int = 0  # inner steps from one sample to the next
    finer: float = 1.5  # the highest wave to try, over that of the samples' grid; 1: none beyond

    def fit(self, train: Dataset, show_progress: bool) -> Fitted:
        rollouts = Rollouts.of(train)
        law, error = stable_equation(self, train, rollouts, show_progress)
        return with_hidden_waves(self, law, error, train, rollouts, show_progress)

    def first(self, train: Dataset) -> EquationLaw:
        check_suits(train)
        law = equation_law(train, _waves(train), self.steps or STEPS[0], self.degree or 2)
        for term, number in STAND_IN.items():
            law.numbers.data[law.names.index(term)] = number
        return law


def check_suits(train: Dataset) -> None:
    if not suits_waves(train):
        needs = "an equation needs one input and one output, on the same periodic box or interval: try polynomial"
        counts = f"{len(train.input_channels)} input and {len(train.output_channels)} output channels"
        raise TinoError(f"{needs} ({train.name} has {counts}, on {train.inputs.kind} and {train.outputs.kind})")


def _waves(train: Dataset) -> Fourier:
    return Fourier.of(train.outputs, some_rows(train.rows(train.u)), CUT, OVER)


def equation_law(train: Dataset, waves: Fourier, steps: int, degree: int) -> EquationLaw:
    law = EquationLaw(waves, box_length(train.outputs), train.time.step, steps, degree)
    law.scale.copy_(torch.tensor([mean_square(values) for values in (train.u, train.f)], dtype=torch.float64).sqrt())
    return law


def stable_equation(
    plan: Equation, train: Dataset, rollouts: Rollouts, show_progress: bool
) -> tuple[EquationLaw, float]:
    """The degree, the inner steps and the terms with the least error of rolled-out held-out records, and that error.

    The degree is chosen with STEPS[0] inner steps; then more and fewer inner steps are tried.
    """
    blank = equation_law(train, _waves(rollouts.fitted), plan.steps or STEPS[0], 1)
    trials = Trials(Pairs.of(blank, rollouts.fitted), rollouts)
    with torch.no_grad(), progress("fitting", len(DEGREES) + len(STEPS) - 1, show_progress) as advance:
        degrees = MODEST if math.prod(blank.waves.sizes["fine"]) > LARGE else DEGREES
        for degree in [plan.degree] if plan.degree else degrees:
            trials.with_all_terms(blank.again(degree=degree))
            advance()
        (degree, _), (_, first) = trials.simplest()
        trials.found = {key: value for key, value in trials.found.items() if key[0] == degree}
        for steps in () if plan.steps else STEPS[1:]:
            trials.with_other_steps(first, steps)
            advance()
        _, (error, law) = trials.simplest()
        if not math.isfinite(error):
            law = diffusion(blank.again(), trials.pairs)
            error = rollouts.error(law)
    return law, error


def with_hidden_waves(
    plan: Equation, law: EquationLaw, least: float, train: Dataset, rollouts: Rollouts, show_progress: bool
) -> Fitted:
    """The equation with waves beyond the samples, where the highest that they show are not small and its held-out error
    is below the ``least`` so far."""
    with torch.no_grad():
        asked = sorted({one for one in (*FINER, plan.finer) if 1 < one <= plan.finer})
        if not asked or not GOOD * rollouts.size < least < math.inf or not has_hidden_waves(train, law.waves):
            return Fitted(law, left=least / rollouts.size)
        effects = gauss_newton(partial(Pairs.of(law, rollouts.fitted).residuals, law), law.numbers, law.numbers != 0)[2]
        active = effects > BOLD
        active[0] = law.numbers[0] != 0  # f
        best = made = law
        with progress("fitting hidden waves", len(asked), show_progress) as advance:
            for highest in asked:
                made = finer_equation(made, active, rollouts.fitted, highest)
                if made is None or not (error := rollouts.error(made, bar=least)) < least:
                    break
                best, least = made, error
                advance()
    notes = ()
    if best is not law:
        hidden = int((best.waves.own() == 0).sum())
        notes = (f"{hidden} of its {len(best.start)} waves lie beyond the samples; they start as fitted",)
    return Fitted(best, notes=notes, left=least / rollouts.size)


def diffusion(law: EquationLaw, pairs: "Pairs") -> EquationLaw:
    """u_t = ν Δu + b f with ν >= 0, which cannot diverge: where no equation with more terms stays bounded."""
    active = torch.tensor([name in ("f", "Δu") for name in law.names])
    with torch.no_grad():
        numbers = gauss_newton(partial(pairs.residuals, law), torch.zeros_like(law.numbers), active)[0]
        law.numbers.data.copy_(numbers)
        law.numbers.data[law.names.index("Δu")].clamp_min_(0.0)
    return law


@dataclass(frozen=True)
class Pairs:
    """Successive states (b, 1, J), inputs (b, 3, r) and next states (b, J) of a law."""

    past: Tensor
    inputs: Tensor
    after: Tensor
    change: float

    @staticmethod
    def of(law: EquationLaw, data: Dataset) -> "Pairs":
        count = max(16, round(PAIRS / law.waves.size))
        generator = torch.Generator().manual_seed(0)
        ends = data.lengths if data.lengths is not None else torch.full((len(data),), data.time.n)
        if not len(long := (ends > 2).nonzero()[:, 0]):
            raise TinoError(f"an equation needs records of 3 times or more, {data.name} has none")
        records = long[torch.randint(len(long), (count,), generator=generator)]
        ends = ends[records]
        times = torch.minimum(2 + (torch.rand(count, generator=generator) * (ends - 2)).long(), ends - 1)
        some, row = data.take(records), torch.arange(count)
        c = [law.state(some.u[row, times - lag].double()) for lag in (1, 0)]
        g = torch.stack([law.inputs(some.f[row, times - lag].double()) for lag in (2, 1, 0)], 1)
        return Pairs(c[0][:, None], g, c[1], float((c[1] - c[0]).square().mean().sqrt()) or 1.0)

    def residuals(self, law: EquationLaw, several: Tensor) -> Tensor:
        """Those of several sets of numbers (c, p), one after another: (c, r)."""
        return torch.stack([self.residual(law, numbers) for numbers in several])

    def residual(self, law: EquationLaw, numbers: Tensor) -> Tensor:
        """The error of one step, over the size of a step."""
        return ((law.waves.real(law.step(self.past, self.inputs, numbers)) - self.after) / self.change).flatten()


Sizes = tuple[int, int]  # degree and inner steps


@dataclass
class Trials:
    """Laws fitted to single steps, and compared by their errors on held-out records that are rolled out."""

    pairs: Pairs
    rollouts: Rollouts
    found: dict[Sizes, tuple[float, EquationLaw]] = field(default_factory=dict)
    left: float = math.inf  # of one step, by a law with all terms of its degree
    tried: set[frozenset[str]] = field(default_factory=set)  # terms

    @property
    def bar(self) -> float:
        """A law with a larger error is not taken."""
        return WORSE * min((error for error, _ in self.found.values()), default=math.inf)

    def simplest(self) -> tuple[Sizes, tuple[float, EquationLaw]]:
        """The lowest degree and number of steps whose error is at most the bar."""
        return min(((key, one) for key, one in self.found.items() if one[0] <= self.bar), key=lambda item: item[0])

    def fit(self, law: EquationLaw, numbers: Tensor, active: Tensor) -> tuple[float, Tensor]:
        """Fits the active numbers to single steps -> the mean square that is left, and the effect of each number."""
        found, left, effects = gauss_newton(partial(self.pairs.residuals, law), numbers, active)
        law.numbers.data.copy_(found)
        return left, effects

    def with_all_terms(self, law: EquationLaw) -> None:
        """Then without those of little effect, as long as the held-out error allows it; only if a higher degree leaves
        less of one step."""
        effects, best, kept = torch.ones_like(law.numbers), math.inf, law.numbers.data.clone()
        for drop in DROP:
            active = effects > drop
            terms = frozenset(compress(law.names, active.tolist()))
            if terms in self.tried:
                continue
            self.tried.add(terms)
            left, effects = self.fit(law, torch.where(active, law.numbers.data, 0.0), active)
            if drop == DROP[0]:
                if WORSE * left > self.left:
                    return
                self.left = left
            error = self.rollouts.error(law, bar=min(self.bar, WORSE * best))
            if error <= WORSE * best:
                best, kept = min(error, best), law.numbers.data.clone()
        law.numbers.data.copy_(kept)
        self.found[law.sizes["degree"], law.sizes["steps"]] = best, law

    def with_other_steps(self, first: EquationLaw, steps: int) -> None:
        """The same terms; more steps only if they leave less of one step."""
        law = first.again(steps)
        left, _ = self.fit(law, first.numbers.data, first.numbers != 0)
        before = float(self.pairs.residual(first, first.numbers).square().mean())
        if steps < first.sizes["steps"] or WORSE * left <= before:
            self.found[law.sizes["degree"], steps] = self.rollouts.error(law, bar=self.bar), law
