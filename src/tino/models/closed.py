"""Closed forms: the laws that least squares can fit, and the choice among them by rolling out held-out records."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.grids import Interval, Periodic
from tino.models.flow import Fitted, Plan
from tino.models.rollouts import Rollouts
from tino.models.search import Search, check_delays, fit, some_rows
from tino.parts.coefficients import CoefficientLaw, terms
from tino.parts.fourier import Fourier
from tino.parts.inputs import input_weights, output_weights
from tino.parts.law import histories
from tino.parts.warmup import Warmup
from tino.parts.wavenumbers import HIGHEST, LOCAL, VORTICITY, LocalTerms, VorticityTerms, WavenumberLaw, box_length
from tino.pod import pod
from tino.progress import progress

FEW = 8  # outputs that are their own coordinates
CUTS, INPUT_CUT = (1e-3, 2e-4, 1e-5, 1e-6), 1e-7  # of the singular values of POD coordinates
WAVE_CUTS = (1e-5, 1e-6, 1e-7)  # of the largest wave
TERMS = 1500  # of one law in coefficients, at most
WORK = 1e11, 2e8  # of a fit: rows times terms squared, or rows times points times terms
TRIAL = 0.05  # of the former: for laws that are only tried
ROWS = 40  # for each term, at least
GOOD = 1e-7, 1e-10  # held-out errors over the mean square: below, coarser coordinates, or strides, are not tried
DELAYS = ((1, 1), (2, 1), (3, 1), (5, 8), (6, 7))  # of hidden states, and their strides
LINEAR_DELAYS = (1, 2, 3, 5, 10, 20, 30, 60, 120)
FIELD_DELAYS = (1, 2, 3)  # of a field: more are tried where fewer do not follow
FOLLOWS = 1e-3  # held-out error over the mean square: above, a law does not follow the data
PRODUCTS = (15, 30, 45)  # of many coefficients, so many enter products
LAWS = len(PRODUCTS) + 2  # of a field, with so many delays: a linear one, and one with all products
LEVELS = (300, 100, 1000)  # steps over which the level of the excitation is taken
EDGES = (0.02, 0.98)  # of the levels that are met: below and above, the coefficients stay as they are there
MOMENTS, WARMUP_MOMENTS = 4, 5  # of the inputs in a window


@dataclass(frozen=True)
class ClosedForm(Plan):
    """What is asked of a closed form; 0 or empty: chosen on held-out records."""

    degree: int = 0  # 1: linear; of products per wavenumber, their order + 1
    coordinates: str = ""  # pod or waves
    delays: int = 0
    stride: int = 0
    clock: int = 0  # highest degree of the Chebyshev polynomials of the time that multiply linear terms
    levels: bool = False  # linear terms are multiplied by the level of the excitation

    def fit(self, train: Dataset, show_progress: bool) -> Fitted:
        found = search(self, train, show_progress)
        assert found.law is not None
        return Fitted(found.law, found.warmup, found.notes, found.relative)

    def first(self, train: Dataset) -> CoefficientLaw:
        """A state that stays as it is."""
        at = coordinates(train, CUTS[0], zero=True)
        sizes = {"delays": 1, "stride": 1, "moments": 0, "products": 0, "degree": 1, "cross": 0, "constant": False}
        law = at.law(train, **sizes, clock=self.clock, times=train.time.n)
        every = 1 + self.clock  # the first of the clock's polynomials is 1
        law.weights.data[torch.arange(at.states) * every, torch.arange(at.states)] = 1.0
        return law


def search(plan: ClosedForm, train: Dataset, show_progress: bool) -> Search:
    """Fit every law that suits the data, and keep the one with the least held-out error."""
    waves = suits_waves(train) and plan.coordinates != "pod" and not plan.levels and plan.delays < 2
    if plan.coordinates == "waves" and not waves:
        needs = "waves need one input and one output on the same periodic box or interval, and one delay"
        raise TinoError(f"{needs}: leave coordinates out")
    if plan.degree > 2 and train.output_size > FEW and not waves:
        raise TinoError(f"products of a field's POD coefficients have degree 2 at most, got degree = {plan.degree}")
    rollouts = Rollouts.of(train, bool(plan.clock))
    lags, linear = plan.delays * (plan.stride or 1), plan.degree == 1 or plan.levels
    check_delays(plan.delays, 4 * lags if linear else lags + 1, rollouts.fitted.time.n)
    with torch.no_grad(), progress("fitting", _count(plan, train, rollouts.from_zero), show_progress) as advance:
        found = Search(rollouts, advance)
        if waves:
            try_waves(plan, found)
        if plan.coordinates != "waves" and found.relative > GOOD[0]:
            try_coefficients(plan, found)
        if found.law is None:
            raise TinoError(f"no closed form follows the held-out records of {train.name}, of {train.time.n} times")
        found.steady()
        if found.runs_away:
            found.notes += ("it diverges on some of its training records: a linear law (degree = 1) cannot",)
    return found


def _count(plan: ClosedForm, train: Dataset, zero: bool) -> int:
    """Laws to try, at most; the last one is the best of them again, on more rows."""
    waves = len(WAVE_CUTS) * (HIGHEST + 1) if suits_waves(train) else 0
    linear, few, constants = plan.degree == 1 or plan.levels, train.output_size <= FEW, 2 if zero else 1
    if few:
        laws = len(LINEAR_DELAYS) + len(LEVELS) * plan.levels if linear else 5 * len(DELAYS)
    else:
        laws = len(CUTS) * (len(FIELD_DELAYS) + len(LEVELS) * plan.levels if linear else LAWS * len(FIELD_DELAYS))
    return waves + constants * laws + 1


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
            waves = Fourier.of(grid, some_rows(data.rows(data.u)), cut, over)
            sizes = {"clock": plan.clock, "times": found.rollouts.times, "constant": not found.rollouts.from_zero}
            largest = WavenumberLaw(waves, box_length(grid), family, highest, **sizes)
            cost = math.prod(waves.sizes["fine"]) * largest.count
            equations = fit(largest, data, rows=round(WORK[1] / cost))
            equations.leave_out(largest.silent(some_rows(data.rows(data.f)), INPUT_CUT))
            for order in range(0 if family == LOCAL else 1, highest + 1):
                law = WavenumberLaw(waves, box_length(grid), family, order, **sizes)
                found.offer(law, equations, tuple(range(law.count)))


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
    rows = some_rows(data.rows(data.u))
    middle = rows.mean(0) if rows.shape[1] <= FEW and not zero else rows[0, :0]
    to_state, to_output = _projection(rows - middle if len(middle) else rows, output_weights(data), cut)
    return Coordinates(
        middle, to_state, to_output, _projection(some_rows(data.rows(data.f)), input_weights(data), INPUT_CUT)[0]
    )


def _projection(rows: Tensor, weights: Tensor | None, cut: float) -> tuple[Tensor, Tensor]:
    """To coordinates (x, J) and back; few values are their own, but for those that are all but zero."""
    weights = torch.ones(rows.shape[1], dtype=torch.float64) if weights is None else weights.double()
    rows = rows * weights
    sizes = rows.square().mean(0).sqrt()
    if rows.shape[1] <= FEW:
        there = sizes > INPUT_CUT * sizes.max()
        there[0] |= not bool(there.any())
        modes, size = torch.eye(rows.shape[1], dtype=torch.float64)[there], sizes.max()
    else:
        modes = pod(rows, False, cut).modes.cpu()
        size = (rows @ modes[:1].T).square().mean().sqrt()
    size = torch.where(size > 0, size, 1.0)
    return weights[:, None] * modes.T / size, size * modes / weights


def try_coefficients(plan: ClosedForm, found: Search) -> None:
    """Every law on some of the rows, then the best of them on more."""
    data = found.rollouts.fitted
    few, best = data.output_size <= FEW, found.law
    for cut in CUTS[-1:] if few else CUTS:
        at = coordinates(data, cut, found.rollouts.from_zero)
        if at.states > TERMS // 4:
            continue
        for laws in families(plan, found, at):
            largest = laws[-1]
            made = warmup(largest, data) if needs_warmup(largest, found) else None
            equations = fit(largest, data, rows_for(largest, TRIAL), first_of(largest, found, made))
            for law in laws:
                found.offer(law, equations, law.places(largest), made)
    if isinstance(law := found.law, CoefficientLaw) and law is not best:
        equations = fit(law, data, rows_for(law, 1.0), first_of(law, found, found.warmup))
        found.offer(law, equations, tuple(range(law.count)), found.warmup, again=True)


def rows_for(law: CoefficientLaw, share: float) -> int:
    """So that the work is this share of WORK."""
    return max(ROWS * law.count, round(share * WORK[0] / law.count**2))


def first_of(law: CoefficientLaw, found: Search, made: Warmup | None) -> int:
    """The first time at which a law is fitted."""
    unknown = found.rollouts.fitted.burn_in or (needs_warmup(law, found) and made is None)
    return law.window - 1 if unknown else law.lags if made else 1


def levels_met(law: CoefficientLaw, data: Dataset) -> Tensor:
    """The lowest and the highest level of the excitation (2,), but for the EDGES."""
    some = data.take(torch.linspace(0, len(data) - 1, min(20, len(data))).round().long())
    squares = law.inputs(some.f.double())[..., -1]  # (n, t)
    sums = torch.nn.functional.pad(squares.cumsum(1), (1, 0))
    n = law.sizes["level"]
    met = ((sums[:, n:] - sums[:, :-n]) / n).clamp_min(0.0).sqrt()
    met = met if some.mask is None else met[some.mask[:, n - 1 :]]
    return torch.quantile(some_rows(met.reshape(-1, 1))[:, 0], torch.tensor(EDGES, dtype=torch.float64))


def needs_warmup(law: CoefficientLaw, found: Search) -> bool:
    """A hidden state that does not start at rest."""
    data = found.rollouts.fitted
    return law.lags > 1 and not found.rollouts.from_zero and data.ic is None and not data.burn_in


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
    common = {"clock": plan.clock, "times": found.rollouts.times}
    few = data.output_size <= FEW
    sources = at.to_input.shape[1]

    def law(
        delays: int,
        stride: int,
        degree: int,
        products: int,
        constant: bool,
        moments: int,
        cross: int = 0,
        level: int = 0,
        near: int = 0,
    ) -> CoefficientLaw:
        sizes = {"delays": delays, "stride": stride, "moments": moments, "products": products, "degree": degree}
        made = at.law(data, **sizes, near=near, cross=cross, constant=constant, level=level, **common)
        if level:
            made.levels.data.copy_(levels_met(made, data))
        return made

    constants = (False, True) if zero else (True,)
    asked = [(plan.delays, plan.stride or 1)] if plan.delays else None
    if plan.degree == 1 or plan.levels:
        usual = [n for n in LEVELS if 4 * n <= data.shortest] or [max(2, data.shortest // 4)]
        levels = usual if plan.levels else [0]
        for p, s in asked or [(p, 1) for p in (LINEAR_DELAYS if few else FIELD_DELAYS)]:
            if not few and p > 1 and not asked and found.relative < FOLLOWS:
                break
            count = (p * at.states + (p * s + 1) * sources) * (1 + plan.clock + plan.levels)
            if p * s < data.time.n and (p == 1 or p * s * 4 <= data.time.n) and count <= TERMS:
                yield from ([law(p, s, 1, 0, constant, 0, level=levels[0])] for constant in constants)
        if isinstance(found.law, CoefficientLaw):  # other levels with the best delays
            p, s, constant = (found.law.sizes[name] for name in ("delays", "stride", "constant"))
            yield from ([law(p, s, 1, 0, constant, 0, level=n)] for n in levels[1:])
        return
    if few:
        for p, s in asked or DELAYS:
            if p * s >= data.time.n:
                continue
            if s > 1 and found.relative < GOOD[1]:
                return
            degrees = [plan.degree] if plan.degree else range(1, 6)
            most = TERMS - plan.clock * (p * at.states + MOMENTS * sources)
            fits = [d for d in degrees if terms(p * at.states, sources, d, MOMENTS) <= most]
            for constant in constants:
                if fits:
                    yield [law(p, s, d, at.states, constant, MOMENTS, MOMENTS * (d > 1)) for d in fits]
        return
    counts = sorted({min(k, at.states) for k in PRODUCTS})
    for p, s in asked or [(p, 1) for p in FIELD_DELAYS]:
        if p > 1 and not asked and found.relative < FOLLOWS:
            return
        sizes = {"delays": p, "stride": s, "moments": min(p * s + 1, MOMENTS), "near": int(p > 1)}
        if p * s >= data.time.n or (1 + plan.clock) * (p * at.states + sizes["moments"] * sources) > TERMS:
            continue
        for constant in constants:
            one = partial(law, **sizes, constant=constant)
            linear = [one(degree=1, products=0)] if plan.degree == 0 else []
            yield [*linear, *[one(degree=2, products=k) for k in counts]]
            if at.states * (at.states + sources) < TERMS:
                yield [one(degree=2, products=at.states, cross=1)]
