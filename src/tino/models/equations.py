"""Equations fitted through their own integrator: û_k' = λ_k û_k + b f̂_k + Σ_q a_q D_q F̂_qk, a dozen numbers."""

import math
from dataclasses import dataclass
from functools import partial

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
        law = stable_equation(self, train, show_progress)
        return with_hidden_waves(self, law, train, show_progress)

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
    law.scale.copy_(torch.stack([values.double().square().mean().sqrt() for values in (train.u, train.f)]))
    return law


def stable_equation(plan: Equation, train: Dataset, show_progress: bool) -> EquationLaw:
    """The degree, the inner steps and the terms with the least error of rolled-out held-out records.

    The degree is chosen with STEPS[0] inner steps; then more and fewer inner steps are tried.
    """
    rollouts = Rollouts.of(train)
    waves = _waves(rollouts.fitted)
    pairs = Pairs.of(equation_law(train, waves, 1, 1), rollouts.fitted)
    found: dict[tuple[int, int], tuple[float, EquationLaw]] = {}
    first = plan.steps or STEPS[0]
    with torch.no_grad(), progress("fitting", len(DEGREES) + len(STEPS) - 1, show_progress) as advance:
        degrees = MODEST if math.prod(waves.sizes["fine"]) > LARGE else DEGREES
        for degree in [plan.degree] if plan.degree else degrees:
            found[degree, first] = _pruned(equation_law(train, waves, first, degree), pairs, rollouts)
            advance()
        degree = _simplest(found)[0]
        active = found[degree, first][1].numbers.data != 0
        for steps in () if plan.steps else STEPS[1:]:
            law = equation_law(train, waves, steps, degree)
            law.numbers.data.copy_(
                gauss_newton(partial(pairs.residuals, law), found[degree, first][1].numbers, active)[0]
            )
            found[degree, steps] = (rollouts.error(law), law)
            advance()
    best = _simplest({key: value for key, value in found.items() if key[0] == degree})
    return found[best][1] if math.isfinite(found[best][0]) else diffusion(equation_law(train, waves, first, 1), pairs)


def with_hidden_waves(plan: Equation, law: EquationLaw, train: Dataset, show_progress: bool) -> Fitted:
    """The equation with waves beyond the samples, where the highest that they show are not small and it is better."""
    rollouts = Rollouts.of(train)
    with torch.no_grad():
        least = rollouts.error(law)
        asked = sorted({one for one in (*FINER, plan.finer) if 1 < one <= plan.finer})
        if not asked or not GOOD * rollouts.size < least < math.inf or not has_hidden_waves(train, law.waves):
            return Fitted(law)
        effects = gauss_newton(partial(Pairs.of(law, rollouts.fitted).residuals, law), law.numbers, law.numbers != 0)[2]
        active = effects > BOLD
        active[0] = law.numbers[0] != 0  # f
        best = made = law
        with progress("fitting hidden waves", len(asked), show_progress) as advance:
            for highest in asked:
                made = finer_equation(made, active, rollouts.fitted, highest)
                if made is None or not (error := rollouts.error(made)) < least:
                    break
                best, least = made, error
                advance()
    if best is law:
        return Fitted(law)
    hidden = int((best.waves.own() == 0).sum())
    return Fitted(
        best, notes=(f"{hidden} of its {len(best.start)} waves lie beyond the samples; they start as fitted",)
    )


def diffusion(law: EquationLaw, pairs: "Pairs") -> EquationLaw:
    """u_t = ν Δu + b f with ν >= 0, which cannot diverge: where no equation with more terms stays bounded."""
    active = torch.tensor([name in ("f", "Δu") for name in law.names])
    with torch.no_grad():
        numbers = gauss_newton(partial(pairs.residuals, law), torch.zeros_like(law.numbers), active)[0]
        law.numbers.data.copy_(numbers)
        law.numbers.data[law.names.index("Δu")].clamp_min_(0.0)
    return law


def _simplest(found: dict[tuple[int, int], tuple[float, EquationLaw]]) -> tuple[int, int]:
    """The lowest degree and number of steps whose error is within WORSE of the least."""
    least = min(error for error, _ in found.values())
    return min(key for key, (error, _) in found.items() if error <= WORSE * least)


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
        return Pairs(c[0][:, None], g, c[1], float((c[1] - c[0]).square().mean().sqrt()))

    def residuals(self, law: EquationLaw, several: Tensor) -> Tensor:
        """Those of several sets of numbers (c, p), one after another: (c, r)."""
        return torch.stack([self.residual(law, numbers) for numbers in several])

    def residual(self, law: EquationLaw, numbers: Tensor) -> Tensor:
        """The error of one step, over the size of a step."""
        return ((law.waves.real(law.step(self.past, self.inputs, numbers)) - self.after) / self.change).flatten()


def _pruned(law: EquationLaw, pairs: Pairs, rollouts: Rollouts) -> tuple[float, EquationLaw]:
    """Fitted with all terms, then without those of little effect, as long as the held-out error allows it."""
    numbers = torch.zeros_like(law.numbers)
    best, kept = math.inf, numbers
    effects = torch.ones_like(numbers)
    for drop in DROP:
        active = effects > drop
        numbers, _, effects = gauss_newton(partial(pairs.residuals, law), torch.where(active, numbers, 0.0), active)
        law.numbers.data.copy_(numbers)
        if (error := rollouts.error(law)) <= WORSE * best:
            best, kept = min(error, best), numbers
    law.numbers.data.copy_(kept)
    return best, law
