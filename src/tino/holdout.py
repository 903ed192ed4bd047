"""What is kept from a fit, to choose on: some records, or where there are few, the last part of each record's time."""

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tino.channels import channel_sizes, split_channels
from tino.data import Dataset
from tino.grids import TimeGrid
from tino.least_squares import NormalEquations
from tino.pod import pod

ONE_IN, MOST = 20, 20  # one record in so many is held out, at most so many
LONG = 2000  # times: longer records are cut into windows
FEW = 3  # fewer records: the last part of the time is held out
PART = 4  # one part in so many
DELAYS, MODES, ROWS = 30, 3, 50_000  # of the linear model that tells the length of the memory
RIDGE, LONGEST = 1e-10, 20_000  # steps that are looked at
LEFT, NOTHING = 1e-4, 1e-12  # of the energy after the memory's end: where a longer one costs data, where it costs none


def hold_out(data: Dataset, one_in: int = ONE_IN, most: int = MOST) -> tuple[Dataset, Dataset]:
    """Data to fit on, and data to choose on: one record in ``one_in``, spread evenly.

    Of fewer than three records, the last quarter of each (``in_two``); the outputs of its burn-in were seen in the fit.
    """
    if len(data) < FEW:
        return _by_time(data)
    count = min(most, max(1, len(data) // one_in))
    places = torch.linspace(0, len(data) - 1, count if count > 1 else 3).round().long()
    places = places if count > 1 else places[1:2]  # one: the middle
    others = torch.ones(len(data), dtype=torch.bool)
    others[places] = False
    return data.take(others.nonzero()[:, 0]), data.take(places)


def _by_time(data: Dataset) -> tuple[Dataset, Dataset]:
    cuts = [n - max(2, n // PART) for n in ends(data)]
    if min(cuts) < data.burn_in + 2:
        return data, data  # too short to be cut
    return in_two(data, cuts)


def in_two(data: Dataset, cuts: list[int], before: int | None = None) -> tuple[Dataset, Dataset]:
    """The times of each record before its cut, and those from it on.

    The latter start from states that are not known, so ``before`` times more are their burn-in: as many as the memory
    of the former is long, if left out, but not more than there are. They were seen before, so they cost no data, and
    the memory is taken to its very end: what is left of the start must not hide the errors of a good model.
    """
    first = _stretches(data, [0] * len(cuts), cuts, data.burn_in)
    before = memory_length(first, first.shortest, NOTHING) if before is None else min(before, first.shortest)
    return first, _stretches(data, [cut - before for cut in cuts], ends(data), before)


def warn_of_memory(first: Dataset, last: Dataset) -> str:
    """A sentence if the system may remember more than there is before the cut; otherwise nothing."""
    if last.burn_in < first.shortest or memory_length(first, first.shortest) < first.shortest:
        return ""
    told = f"the system may remember more than the {last.burn_in} times before the test, so an unknown start is scored"
    return f"{told}: score flows from a measured start (tino evaluate --start measured)"


def ends(data: Dataset) -> list[int]:
    """The number of times of each record."""
    return [data.time.n] * len(data) if data.lengths is None else data.lengths.tolist()


def _stretches(data: Dataset, starts: list[int], stops: list[int], burn_in: int) -> Dataset:
    """A stretch of each record: views if they are the same times of all, else padded to the longest."""
    if len({*starts}) == len({*stops}) == 1:
        return replace(between(data, starts[0], stops[0], burn_in), lengths=None)
    f, u = (
        pad_sequence([one[a:b] for one, a, b in zip(side, starts, stops, strict=True)], batch_first=True)
        for side in (data.f, data.u)
    )
    lengths = torch.tensor(stops) - torch.tensor(starts)
    start, n_t = data.time.start + starts[0] * data.time.step, f.shape[1]
    time = TimeGrid(start, start + (n_t - 1) * data.time.step, n_t)
    ic = data.ic if not any(starts) else None
    ended = None if bool((lengths == n_t).all()) else lengths
    return replace(data, f=f, u=u, time=time, ic=ic, lengths=ended, burn_in=burn_in)


def between(data: Dataset, first: int, end: int, burn_in: int) -> Dataset:
    """The times from ``first`` to before ``end`` of every record, as views."""
    step, ended = data.time.step, None if data.lengths is None else (data.lengths.clamp(max=end) - first)
    time = TimeGrid(data.time.start + first * step, data.time.start + (end - 1) * step, end - first)
    ic = data.ic if first == 0 else None
    f, u = data.f[:, first:end], data.u[:, first:end]
    return replace(data, f=f, u=u, time=time, ic=ic, lengths=ended, burn_in=burn_in)


def windows(data: Dataset, length: int) -> Dataset:
    """Records cut into windows of so many times; the burn-in of each window overlaps the one before it.

    Of a single record they are views, so that no memory is taken; of several, the overlaps are copied.
    """
    hop = length - data.burn_in
    parts = [
        [values[row, :end].unfold(0, length, hop).movedim(-1, 1) for row, end in enumerate(ends(data)) if end >= length]
        for values in (data.f, data.u)
    ]
    if not parts[0]:
        return data
    f, u = (part[0] if len(part) == 1 else torch.cat(part) for part in parts)
    time = TimeGrid(data.time.start, data.time.start + (length - 1) * data.time.step, length)
    return replace(data, f=f, u=u, time=time, ic=None, lengths=None)


def memory_length(data: Dataset, most: int | None = None, left: float = LEFT) -> int:
    """How many time steps the system remembers: where but ``left`` of its impulse response's energy has died away.

    The model is x_i = Σ_d A_d x_{i-d} + Σ_d B_d g_{i-d}, x and g the first coefficients of the outputs and the inputs.
    Each of several channels is divided by its standard deviation, so units do not matter.
    A quarter of the shortest record at most, or ``most``.
    """
    quarter = max(1, data.shortest // 4)
    p = min(DELAYS, quarter)
    sides = ((data.u, len(data.output_channels)), (data.f, len(data.input_channels)))
    x, g = (_coefficients(data.rows(values), values, channels) for values, channels in sides)  # (n, t, j)
    records = max(1, math.ceil(ROWS / data.time.n))
    past, drive = (v[:records].double().unfold(1, p + 1, 1).flip(-1) for v in (x, g))  # (n, t - p, j, p + 1)
    if data.mask is not None:
        seen = data.mask[:records].unfold(1, p + 1, 1).all(-1)
        past, drive = past[seen], drive[seen]
    past, drive = (v.reshape(-1, *v.shape[-2:])[:ROWS] for v in (past, drive))
    equations = NormalEquations()
    terms = torch.cat([past[..., 1:].flatten(1), drive.flatten(1)], 1)
    equations.add(terms[:, None], past[:, None, :, 0])
    weights = equations.solve(RIDGE)[0]
    j, m = past.shape[1], drive.shape[1]
    a, b = weights[: j * p].view(j, p, j), weights[j * p :].view(m, p + 1, j)
    most = quarter if most is None else most
    return _dies_away(a, b, most, min(max(4 * quarter, 2 * most), LONGEST), left)


def _coefficients(rows: Tensor, values: Tensor, channels: int) -> Tensor:
    some = rows[torch.linspace(0, len(rows) - 1, min(2000, len(rows))).round().long()].double()
    weights = None if channels == 1 else _weights(some, channels)
    some = some if weights is None else some * weights
    if some.shape[1] <= MODES or not bool(some.any()):
        return values[..., :MODES] if weights is None else values[..., :MODES] * weights[:MODES].to(values)
    modes = pod(some, False).modes[:MODES]
    return values @ (modes if weights is None else modes * weights).T.to(values)


def _weights(rows: Tensor, channels: int) -> Tensor:
    """1 / standard deviation of each number's channel, (m,), of rows (n, m); 1 / size if the channel never changes."""
    split = split_channels(rows, channels)  # (n, c, x)
    spreads = split.std((0, 2), correction=0)
    spreads = torch.where((split != split[:1, :, :1]).any(2).any(0), spreads, channel_sizes(rows[None], channels))
    return (1 / spreads).repeat_interleave(rows.shape[1] // channels)


def _dies_away(a: Tensor, b: Tensor, most: int, steps: int, left: float) -> int:
    """Steps until the impulse response of A (j, p, j) and B (m, p + 1, j) has but ``left`` of its energy to come."""
    (m, q, j), answers = b.shape, []
    past = b.new_zeros(m, a.shape[1], j)  # the latest first
    for i in range(steps):
        x = torch.einsum("mpj,jpk->mk", past, a) + (b[:, i] if i < q else 0.0)
        past = torch.cat([x[:, None], past[:, :-1]], 1)
        answers.append(x.square().sum())
        if not bool(torch.isfinite(answers[-1])):
            return most
    to_come = torch.stack(answers).flip(0).cumsum(0).flip(0)  # from the end, so that small tails keep their digits
    return min(most, max(1, int((to_come > left * to_come[0]).sum())))
