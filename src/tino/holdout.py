"""What is kept from a fit, to choose on: some records, or where there are few, the last part of each record's time."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from tino.data import Dataset
from tino.grids import TimeGrid
from tino.least_squares import NormalEquations
from tino.pod import pod

ONE_IN, MOST = 20, 20  # one record in so many is held out, at most so many
LONG = 2000  # times: longer records are cut into windows
FEW = 3  # fewer records: the last part of the time is held out
PART = 4  # one part in so many
DELAYS, MODES, ROWS = 30, 3, 50_000  # of the linear model that tells the length of the memory
RIDGE, LEFT, LONGEST = (
    1e-10,
    1e-4,
    20_000,
)  # what is left of the energy after the memory's end; steps that are looked at


def hold_out(data: Dataset, one_in: int = ONE_IN, most: int = MOST) -> tuple[Dataset, Dataset]:
    """Data to fit on, and data to choose on: one record in ``one_in``, spread evenly.

    Of fewer than three records, the last quarter of each. It starts from an unknown state, so the times before it, as
    many as the memory is long, are its burn-in: their outputs were seen in the fit, and do not count.
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
    n = data.shortest
    cut = n - max(2, n // PART)
    if cut < data.burn_in + 2:
        return data, data  # too short to be cut
    before = min(memory_length(data), cut)
    return between(data, 0, cut, data.burn_in), between(data, cut - before, data.time.n, before)


def between(data: Dataset, first: int, end: int, burn_in: int) -> Dataset:
    """The times from ``first`` to before ``end`` of every record, as views."""
    step, ends = data.time.step, None if data.lengths is None else (data.lengths.clamp(max=end) - first)
    time = TimeGrid(data.time.start + first * step, data.time.start + (end - 1) * step, end - first)
    ic = data.ic if first == 0 else None
    f, u = data.f[:, first:end], data.u[:, first:end]
    return replace(data, f=f, u=u, time=time, ic=ic, lengths=ends, burn_in=burn_in)


def windows(data: Dataset, length: int) -> Dataset:
    """Records cut into windows of so many times; the burn-in of each window overlaps the one before it.

    Of a single record they are views, so that no memory is taken; of several, the overlaps are copied.
    """
    hop, ends = length - data.burn_in, [data.time.n] * len(data) if data.lengths is None else data.lengths.tolist()
    parts = [
        [values[row, :end].unfold(0, length, hop).movedim(-1, 1) for row, end in enumerate(ends) if end >= length]
        for values in (data.f, data.u)
    ]
    if not parts[0]:
        return data
    f, u = (part[0] if len(part) == 1 else torch.cat(part) for part in parts)
    time = TimeGrid(data.time.start, data.time.start + (length - 1) * data.time.step, length)
    return replace(data, f=f, u=u, time=time, ic=None, lengths=None)


def memory_length(data: Dataset) -> int:
    """How many time steps the system remembers: where the impulse response of a linear model of it has died away.

    The model is x_i = Σ_d A_d x_{i-d} + Σ_d B_d g_{i-d}, x and g the first coefficients of the outputs and the inputs.
    A quarter of the shortest record at most.
    """
    most = max(1, data.shortest // 4)
    p = min(DELAYS, most)
    x, g = (_coefficients(data.rows(v), v) for v in (data.u, data.f))  # (n, t, j)
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
    return _dies_away(a, b, most)


def _coefficients(rows: Tensor, values: Tensor) -> Tensor:
    some = rows[torch.linspace(0, len(rows) - 1, min(2000, len(rows))).round().long()].double()
    if some.shape[1] <= MODES or not bool(some.any()):
        return values[..., :MODES]
    return values @ pod(some, False).modes[:MODES].T.to(values)


def _dies_away(a: Tensor, b: Tensor, most: int) -> int:
    """Steps until the impulse response of A (j, p, j) and B (m, p + 1, j) has all but LEFT of its energy behind it."""
    (m, q, j), answers = b.shape, []
    past = b.new_zeros(m, a.shape[1], j)  # the latest first
    for i in range(min(4 * most, LONGEST)):
        x = torch.einsum("mpj,jpk->mk", past, a) + (b[:, i] if i < q else 0.0)
        past = torch.cat([x[:, None], past[:, :-1]], 1)
        answers.append(x.square().sum())
        if not bool(torch.isfinite(answers[-1])):
            return most
    energy = torch.stack(answers).cumsum(0)
    return min(most, 1 + int((energy < (1 - LEFT) * energy[-1]).sum()))
