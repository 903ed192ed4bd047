"""Equations on more waves than the samples can tell apart: what is hidden at T_0 is fitted, and what follows is solved.

On n points the waves k and k + n look alike, so a field with waves above n / 2 is not its own state. If all records
start from one field, the hidden waves have one value at T_0. The equation carries them from there.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from tino.data import Dataset
from tino.least_squares import gauss_newton
from tino.models.search import some_rows
from tino.parts.equation import OVER, EquationLaw
from tino.parts.fourier import Fourier
from tino.parts.start import starts_shared

CUT, RIM = 1e-7, 1e-4  # of the largest wave: what is kept; what the highest waves have if more are hidden
RECORDS, POINTS = 24, 128  # of the rolled-out fit
SPANS = (0.25, 1.0)  # of the record, one after the other
MOST = 150  # hidden numbers
STEP, ENOUGH = 1e-6, 0.8  # of Gauss-Newton: differences in units of the fields; a step that leaves more is the last


def has_hidden_waves(train: Dataset, waves: Fourier) -> bool:
    """Whether the highest waves of the samples' grid are not small, and all records start from one field."""
    if waves.sizes["mirrored"] or train.ic is not None or train.burn_in or not starts_shared(train):
        return False
    every = waves.further(some_rows(train.rows(train.u)), 0.0, OVER, 1.0)
    size = every.aliases(some_rows(train.rows(train.u))).abs().square().mean(0).sqrt()
    n = torch.tensor(waves.sizes["shape"])
    rim = (2 * every.kept.abs() >= n - 2).any(1)
    return bool(rim.any()) and bool(size[rim].max() > RIM * size.max())


@dataclass(frozen=True)
class Unknowns:
    """What is fitted of a law: its equation's numbers, and changes of its hidden start and its shares."""

    law: EquationLaw
    active: Tensor  # of the equation's numbers
    start: Tensor  # directions (p, k) of the start: a cosine or a sine each
    shares: Tensor  # directions (q, k) of the shares, of sum zero over waves that look alike
    before: tuple[Tensor, Tensor]  # the start (k, 2) and the shares (k,) to be changed

    @staticmethod
    def of(law: EquationLaw, active: Tensor, u_0: Tensor, f: Tensor) -> "Unknowns":
        """From the first field (x,) and inputs (n, x): waves whose aliases are zero there are zero themselves."""
        waves, own = law.waves, law.waves.own()
        sizes = [waves.aliases(one).abs().square().mean(0).sqrt() for one in (u_0[None], f)]
        in_start, in_inputs = (size > CUT * size.max() for size in sizes)
        start, shares = [], []
        for n, k in enumerate(waves.kept):
            if own[n] == 1 or not (k[-1] > 0 or next((one for one in k.tolist() if one), 0) > 0):
                continue  # k stands for -k, too
            this, opposite = (waves.kept == k).all(1), (waves.kept == -k).all(1)
            if in_start[n]:
                both = [this * one + opposite * one.conjugate() for one in (1 + 0j, 1j)]
                start += [wave for wave in both if (wave - waves.spectrum(waves.sampled(wave))).abs().max() > 1e-9]
            if in_inputs[n] and own[n] == 0:
                shares.append((this | opposite).double() - waves.alike(n) * own)
        none = torch.zeros(0, waves.sizes["waves"], dtype=torch.float64)
        found = [torch.stack(rows) if rows else none for rows in (start, shares)]
        return Unknowns(law, active, found[0] + 0j, found[1], (law.start.data.clone(), law.shares.data.clone()))

    @property
    def hidden(self) -> int:
        return len(self.start) + len(self.shares)

    def first(self) -> Tensor:
        """The law as it is."""
        return torch.cat([self.law.numbers.data, torch.zeros(self.hidden, dtype=torch.float64)])

    def put(self, x: Tensor) -> None:
        numbers, start, shares = x.split([len(self.law.numbers), len(self.start), len(self.shares)])
        self.law.numbers.data.copy_(numbers)
        self.law.start.data.copy_(self.before[0] + torch.view_as_real((start[:, None] * self.start).sum(0)))
        self.law.shares.data.copy_(self.before[1] + (shares[:, None] * self.shares).sum(0))


@dataclass(frozen=True)
class Records:
    """Some records, to be rolled out from their shared start and compared at some points."""

    f: Tensor
    u_0: Tensor
    u: Tensor  # (n, t, points)
    places: Tensor
    counts: Tensor  # (n, t, 1): 1 at the times that count

    @staticmethod
    def of(data: Dataset) -> "Records":
        some = data.take(torch.linspace(0, len(data) - 1, min(RECORDS, len(data))).round().long())
        generator = torch.Generator().manual_seed(0)
        places = torch.randperm(data.output_size, generator=generator)[:POINTS]
        counts = torch.ones(len(some), data.time.n) if some.mask is None else some.mask
        return Records(
            some.f.double(),
            some.u[:, 0].double().mean(0),
            some.u[..., places].double(),
            places,
            counts.double()[..., None],
        )

    def residuals(self, unknowns: Unknowns, times: int, several: Tensor) -> Tensor:
        """Those of several sets of numbers, one after another."""
        return torch.stack([self.residual(unknowns, times, x) for x in several])

    def residual(self, unknowns: Unknowns, times: int, x: Tensor) -> Tensor:
        """The errors of the first times, over the size of u."""
        unknowns.put(x)
        law = unknowns.law
        c = law.state(self.u_0).expand(len(self.f), -1)
        g = law.inputs(self.f[:, :times])
        g = torch.cat([torch.zeros_like(g[:, : law.window - 1]), g], 1)
        states = []
        for i in range(1, times):
            c = law(c[:, None], g[:, i : i + law.window], i)
            states.append(c)
        u = law.output(torch.stack(states, 1))[..., self.places]
        return ((u - self.u[:, 1:times]) * self.counts[:, 1:times] / law.scale[0]).flatten()


def finer_equation(law: EquationLaw, active: Tensor, data: Dataset, highest: float) -> EquationLaw | None:
    """The equation of ``law`` with its ``active`` terms and waves up to ``highest`` times the samples' own.

    Fitted by Gauss-Newton to records rolled out from T_0; None if nothing, or too much, is hidden.
    """
    made = _on_more_waves(law, active, data, highest)
    records = Records.of(data)
    unknowns = Unknowns.of(made, active, records.u_0, some_rows(data.rows(data.f)))
    if not 0 < unknowns.hidden <= MOST:
        return None
    x, moves = unknowns.first(), torch.cat([active, torch.ones(unknowns.hidden, dtype=torch.bool)])
    for span in SPANS[-1:] if law.beyond else SPANS:
        times = min(data.time.n, max(3, round(span * data.time.n)))
        x, _, _ = gauss_newton(partial(records.residuals, unknowns, times), x, moves, torch.full_like(x, STEP), ENOUGH)
    unknowns.put(x)
    return made


def _on_more_waves(law: EquationLaw, active: Tensor, data: Dataset, highest: float) -> EquationLaw:
    """The same equation; new waves are zero at T_0 and have no share of the input."""
    waves = law.waves.further(some_rows(data.rows(data.u)), CUT, OVER, highest)
    made = law.again(waves=waves)
    made.numbers.data.copy_(torch.where(active, law.numbers, 0.0))
    made.shares.data.copy_(waves.own())
    if law.beyond:
        same = (waves.kept[:, None] == law.waves.kept).all(-1)  # (new, old)
        places = same.any(1)
        for name in ("start", "shares"):
            getattr(made, name).data[places] = getattr(law, name).data[same.long().argmax(1)[places]]
    return made
