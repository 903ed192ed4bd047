"""Closed forms: the laws that least squares can fit, and the choice among them by rolling out held-out records."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.grids import Interval, Periodic
from tino.least_squares import RIDGES, NormalEquations
from tino.models.flow import Fitted, Plan
from tino.models.rollouts import Rollouts
from tino.parts.coefficients import CoefficientLaw, monomials
from tino.parts.fourier import Fourier
from tino.parts.inputs import input_weights, output_weights
from tino.parts.law import LeastSquaresLaw, histories
from tino.parts.warmup import Warmup
from tino.parts.wavenumbers import HIGHEST, LOCAL, VORTICITY, LocalTerms, VorticityTerms, WavenumberLaw, box_length
from tino.pod import pod
from tino.progress import Advance, progress

STABLE = 1e-6  # an |λ| of the linear part may be above 1 by so much
FEW = 8  # outputs that are their own coordinates
CUTS, INPUT_CUT = (1e-3, 2e-4, 1e-5, 1e-6), 1e-7  # of the singular values of POD coordinates
WAVE_CUTS = (1e-5, 1e-6, 1e-7)  # of the largest wave
SNAPSHOTS = 4000  # for coordinates
TERMS = 1500  # of one law in coefficients, at most
WORK = 1e11, 2e8  # of a fit: rows times terms squared, or rows times points times terms
ROWS = 40  # for each term, at least
GOOD = 1e-7, 1e-10  # held-out errors over the mean square: below, coarser coordinates, or strides, are not tried
DELAYS = ((1, 1), (2, 1), (3, 1), (5, 8), (6, 7))  # of hidden states, and their strides
LINEAR_DELAYS = (1, 2, 3, 5, 10, 20, 30, 60, 120)
PRODUCTS = (15, 30, 45)  # of many coefficients, so many enter products
WARMUP_MOMENTS = 5
GAIN = 0.5  # a constant term must lower the error to this, where the records start at zero


@dataclass(frozen=True)
class ClosedForm(Plan):
    """What is asked of a closed form; 0 or empty: chosen on held-out records."""

    degree: int = 0  # 1: linear; of products per wavenumber, their order + 1
    coordinates: str = ""  # pod or waves
    delays: int = 0
    stride: int = 0
    clock: int = 0  # highest degree of the Chebyshev polynomials of the time that multiply linear terms

    def fit(self, train: Dataset, show_progress: bool) -> Fitted:
        found = search(self, train, show_progress)
        assert found.law is not None
        return Fitted(found.law, found.warmup, found.notes)

    def first(self, train: Dataset) -> CoefficientLaw:
        """A state that stays as it is."""
        at = coordinates(train, CUTS[0], zero=True)
        sizes = {"delays": 1, "stride": 1, "moments": 0, "products": 0, "degree": 1, "cross": 0, "constant": False}
        law = at.law(train, **sizes, clock=self.clock, times=train.time.n)
        every = 1 + self.clock  # the first of the clock's polynomials is 1
        law.weights.data[torch.arange(at.states) * every, torch.arange(at.states)] = 1.0
        return law


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
        self, law: LeastSquaresLaw, equations: NormalEquations, terms: tuple[int, ...], warmup: Warmup | None = None
    ) -> None:
        """Try a law with every ridge on the held-out records; keep it if it is the best."""
        weights = torch.stack([law.as_weights(equations.solve(ridge, terms)) for ridge in RIDGES])
        errors = self.rollouts.errors(
            law, lambda past, g, i: law.combine(law.features(past, g, i), weights), len(weights), warmup
        )
        bar = self.error * (GAIN if law.sizes["constant"] and self.rollouts.from_zero else 1.0)
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


def search(plan: ClosedForm, train: Dataset, show_progress: bool) -> Search:
    """Fit every law that suits the data, and keep the one with the least held-out error."""
    with torch.no_grad(), progress("fitting", _count(plan, train), show_progress) as advance:
        found = Search(Rollouts.of(train), advance)
        if suits_waves(train) and plan.coordinates != "pod":
            try_waves(plan, found)
        if plan.coordinates != "waves" and found.relative > GOOD[0]:
            try_coefficients(plan, found)
        if found.law is None:
            raise TinoError(f"every closed form diverges on held-out records of {train.name}: a learned flow may not")
        found.steady()
    return found


def _count(plan: ClosedForm, train: Dataset) -> int:
    """Laws to try, at most."""
    waves = 2 * len(WAVE_CUTS) * HIGHEST if suits_waves(train) else 0
    if train.output_size <= FEW:
        return waves + 2 * (len(LINEAR_DELAYS) if plan.degree == 1 else 5 * len(DELAYS))
    return waves + len(CUTS) * (len(PRODUCTS) + 2)


# -- per wavenumber ------------------------------------------------------------------------------------------


def suits_waves(train: Dataset) -> bool:
    """One quantity driven by one other, on one periodic box or interval."""
    one = len(train.input_channels) == len(train.output_channels) == 1
    return one and isinstance(train.outputs, Periodic | Interval) and train.inputs == train.outputs


def try_waves(plan: ClosedForm, found: Search) -> None:
    data, grid = found.rollouts.fitted, found.rollouts.fitted.outputs
    families = [(LOCAL, LocalTerms.over)]
    if len(grid.shape) > 1 and plan.degree != 1:
        families.insert(0, (VORTICITY, VorticityTerms.over))
    highest = HIGHEST if not plan.degree else min(HIGHEST, plan.degree - 1)
    highest = min(highest, 1) if plan.clock else highest
    for cut in WAVE_CUTS if len(grid.shape) == 1 else WAVE_CUTS[-1:]:
        for family, over in families:
            waves = Fourier.of(grid, some_rows(data.u), cut, over)
            sizes = {"clock": plan.clock, "times": data.time.n, "constant": not found.rollouts.from_zero}
            largest = WavenumberLaw(waves, box_length(grid), family, highest, **sizes)
            cost = math.prod(waves.sizes["fine"]) * largest.terms
            equations = fit(largest, data, rows=round(WORK[1] / cost))
            for order in range(0 if family == LOCAL else 1, highest + 1):
                law = WavenumberLaw(waves, box_length(grid), family, order, **sizes)
                found.offer(law, equations, tuple(range(law.terms)))


def fit(law: LeastSquaresLaw, data: Dataset, rows: int, first: int = 1) -> NormalEquations:
    """The normal equations of a law over successive states, from time ``first`` on, of at most so many rows."""
    equations, n_t = NormalEquations(), data.time.n
    records = min(len(data), max(1, math.ceil(rows / n_t)))
    chosen = torch.linspace(0, len(data) - 1, records).round().long()
    numbers = law.features(*_one(law), 0).numel()
    part = max(1, round(4e6 / (numbers * n_t)))
    times = torch.arange(first, n_t)
    for some in chosen.split(part):
        one = data.take(some)
        c, g = law.state(one.u.double()), law.inputs(one.f.double())
        past, inputs = (x[:, first:] for x in histories(law, c, g))
        x, y = law.features(past, inputs, times), c[:, first:]
        if isinstance(law, WavenumberLaw):
            y = (y if law.real else law.waves.waves(y))[..., None]
        else:
            x, y = x[..., None, :], y[..., None, :]
        if one.mask is None:
            x, y = x.flatten(0, 1), y.flatten(0, 1)
        else:
            x, y = x[one.mask[:, first:]], y[one.mask[:, first:]]
        equations.add(x, y)
    return equations


def _one(law: LeastSquaresLaw) -> tuple[Tensor, Tensor]:
    """States and inputs of one row, of zeros."""
    states = law.waves.size if isinstance(law, WavenumberLaw) else law.sizes["states"]
    sources = law.waves.size if isinstance(law, WavenumberLaw) else law.sizes["sources"]
    zeros = torch.zeros(1, dtype=torch.float64)
    return zeros.new_zeros(law.lags, states), zeros.new_zeros(law.window, sources)


def some_rows(values: Tensor) -> Tensor:
    """At most SNAPSHOTS fields, evenly spread over records and times, (n, x) in float64."""
    every = values.flatten(0, 1)
    return every[torch.linspace(0, len(every) - 1, min(SNAPSHOTS, len(every))).round().long()].double()


# -- in coefficients -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coordinates:
    """The outputs' middle (x,), empty if they are not centred, and matrices to their coefficients (x, J) and back, and
    to the inputs' (m, r)."""

    middle: Tensor
    to_state: Tensor
    to_output: Tensor
    to_input: Tensor

    @property
    def states(self) -> int:
        return self.to_state.shape[1]

    def law(self, data: Dataset, **sizes: int | bool) -> CoefficientLaw:
        shape = (data.output_size, data.input_size, self.states, self.to_input.shape[1])
        law = CoefficientLaw(*shape, **sizes, centred=len(self.middle) > 0)  # pyright: ignore
        for name in ("middle", "to_state", "to_output", "to_input"):
            getattr(law, name).data.copy_(getattr(self, name))
        return law


def coordinates(data: Dataset, cut: float, zero: bool) -> Coordinates:
    """POD coefficients above the cut, or the outputs themselves if they are few; scaled to size one.

    Few outputs that do not start at zero are centred, so that high powers stay well conditioned.
    """
    rows = some_rows(data.u)
    middle = rows.mean(0) if rows.shape[1] <= FEW and not zero else rows[0, :0]
    to_state, to_output = _projection(rows - middle if len(middle) else rows, output_weights(data), cut)
    return Coordinates(middle, to_state, to_output, _projection(some_rows(data.f), input_weights(data), INPUT_CUT)[0])


def _projection(rows: Tensor, weights: Tensor | None, cut: float) -> tuple[Tensor, Tensor]:
    weights = torch.ones(rows.shape[1], dtype=torch.float64) if weights is None else weights.double()
    rows = rows * weights
    few = rows.shape[1] <= FEW
    modes = torch.eye(rows.shape[1], dtype=torch.float64) if few else pod(rows, False, cut).modes.cpu()
    size = (rows @ modes[:1].T).square().mean().sqrt().clamp_min(1e-300)
    return weights[:, None] * modes.T / size, size * modes / weights


def try_coefficients(plan: ClosedForm, found: Search) -> None:
    few = found.rollouts.fitted.output_size <= FEW
    for cut in CUTS[-1:] if few else CUTS:
        at = coordinates(found.rollouts.fitted, cut, found.rollouts.from_zero)
        if at.states > TERMS // 4:
            continue
        for laws in families(plan, found, at):
            largest = laws[-1]
            made = warmup(largest, found.rollouts.fitted) if needs_warmup(largest, found) else None
            if needs_warmup(largest, found) and made is None:
                continue
            rows = max(ROWS * largest.terms, round(WORK[0] / largest.terms**2))
            equations = fit(largest, found.rollouts.fitted, rows, first=largest.lags if made else 1)
            for law in laws:
                found.offer(law, equations, law.places(largest), made)


def needs_warmup(law: CoefficientLaw, found: Search) -> bool:
    """A hidden state that does not start at rest."""
    return law.lags > 1 and not found.rollouts.from_zero and found.rollouts.fitted.ic is None


def warmup(law: CoefficientLaw, data: Dataset) -> Warmup | None:
    """Fitted on the first times of all records that have them; None if they are too few."""
    sources = law.sizes["sources"]
    long = torch.arange(len(data)) if data.lengths is None else (data.lengths >= law.lags).nonzero()[:, 0]
    if len(long) < 2 * Warmup.terms(sources, WARMUP_MOMENTS) or data.time.n <= law.lags:
        return None
    data, made = data.take(long), Warmup(law.lags, sources, law.sizes["states"], WARMUP_MOMENTS)
    head = replace(data, f=data.f[:, : law.lags], u=data.u[:, : law.lags], lengths=None, time=_cut(data, law.lags))
    c, g = law.state(head.u.double()), law.inputs(head.f.double())
    made.fit(histories(law, c, g)[1], c)
    return made


def _cut(data: Dataset, n: int):
    return replace(data.time, stop=data.time.start + (n - 1) * data.time.step, n=n)


def families(plan: ClosedForm, found: Search, at: Coordinates) -> Iterator[list[CoefficientLaw]]:
    """Lists of laws, each a part of the last one, that share one set of normal equations."""
    data, zero = found.rollouts.fitted, found.rollouts.from_zero
    common = {"clock": plan.clock, "times": data.time.n}
    few = at.states <= FEW
    sources = at.to_input.shape[1]

    def law(
        delays: int, stride: int, degree: int, products: int, constant: bool, moments: int, cross: int = 0
    ) -> CoefficientLaw:
        sizes = {"delays": delays, "stride": stride, "moments": moments, "products": products, "degree": degree}
        return at.law(data, **sizes, cross=cross, constant=constant, **common)

    constants = (False, True) if zero else (True,)
    asked = [(plan.delays, plan.stride or 1)] if plan.delays else None
    if plan.degree == 1 or plan.clock:
        for p, s in asked or [(p, 1) for p in (LINEAR_DELAYS if few else (1,))]:
            if p * s * 4 <= data.time.n and p * at.states + (p * s + 1) * sources <= TERMS:
                yield from ([law(p, s, 1, 0, constant, 0)] for constant in constants)
        return
    if few:
        for p, s in asked or DELAYS:
            if s > 1 and found.relative < GOOD[1]:
                return
            degrees = [plan.degree] if plan.degree else range(1, 6)
            fits = [d for d in degrees if monomials(p * at.states, d) + 4 * p * sources <= TERMS]
            for constant in constants:
                yield [law(p, s, degree, at.states, constant, 4, 4 if degree > 1 else 0) for degree in fits]
        return
    counts = sorted({min(k, at.states) for k in PRODUCTS})
    for constant in constants:
        yield [law(1, 1, 1, 0, constant, 2), *[law(1, 1, 2, k, constant, 2) for k in counts]]
        if at.states * (at.states + sources) < TERMS:
            yield [law(1, 1, 2, at.states, constant, 2, cross=1)]
