"""The samples that a diagnosis compares: whole records, or blocks of time where the records are few.

Blocks have no known starts, and their clock is the time in their record. Only records that share their times can tell
whether a clock matters, so one half of the records is tested with what was fitted on the other. Of one record every
other block is.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.holdout import memory_length

RECORDS, TIMES, BLOCKS = 20, 12, 12  # of fewer records, blocks are cut; the fewest times of one, and blocks in all
SAMPLES, LONGEST = 200, 1000  # at most; of more times some are left out
MEMORIES = (4, 2, 1, 0.5, 0.25)  # lengths of blocks, in lengths of the memory
ENOUGH = 40  # blocks, if they can be as many
BALANCED = 0.25  # of the blocks, at least, in each half of the records


@dataclass(frozen=True)
class Samples:
    """f (n, t, m) and u (n, t, x), fitted on one half, tested on the other, then swapped; at every so many times.

    ``begin`` (n, 1) and ``share`` place them on the clock: at s in [0, 1] of a sample it shows begin + share s.
    """

    f: Tensor
    u: Tensor
    half: Tensor
    every: int = 1
    ic: Tensor | None = None
    begin: Tensor | float = 0.0
    share: float = 1.0
    records: int = 0
    block: int | None = None  # times; None: whole records
    unknown_starts: str = ""  # why, in words
    unknown_clock: str = ""


def samples_of(data: Dataset, seed: int) -> Iterator[Samples]:
    """The records, or blocks of several lengths to choose from, the longest first."""
    if len(data) >= RECORDS:
        yield _whole(data, seed)
        return
    ends = torch.full((len(data),), data.time.n) if data.lengths is None else data.lengths
    valid = (ends - data.burn_in).tolist()
    if sum(n // TIMES for n in valid) < BLOCKS:
        need = f"{RECORDS} records, or {BLOCKS} blocks of {TIMES} times"
        given = f"{len(data)} record{'s' * (len(data) > 1)} of {', '.join(map(str, dict.fromkeys(valid)))} times"
        raise TinoError(f"diagnosing needs {need}, {data.name} has {given}")
    memory, most = memory_length(data), max(TIMES, sum(valid) // ENOUGH)
    lengths = (max(TIMES, min(most, round(share * memory))) for share in MEMORIES)
    for length in dict.fromkeys(lengths):
        if sum(n // length for n in valid) >= BLOCKS:
            yield _blocks(data, valid, length, seed)


def _whole(data: Dataset, seed: int) -> Samples:
    n_t = data.shortest  # the times that all records have
    if n_t - data.burn_in < TIMES:
        after = f" after its burn_in of {data.burn_in}" if data.burn_in else ""
        raise TinoError(f"diagnosing needs {TIMES} times or more, {data.name} has {n_t - data.burn_in}{after}")
    chosen = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))[:SAMPLES]
    half = torch.arange(len(chosen)) % 2 == 0
    every = math.ceil((n_t - data.burn_in) / LONGEST)
    f, u = (values[:, data.burn_in : n_t : every][chosen] for values in (data.f, data.u))
    ic = None if data.ic is None or data.burn_in else data.ic[chosen]
    why = f"the first {data.burn_in} times (burn_in) are left out: starts are not known" if data.burn_in else ""
    return Samples(f, u, half, every, ic, records=len(data), unknown_starts=why)


def _blocks(data: Dataset, valid: list[int], length: int, seed: int) -> Samples:
    """Blocks of so many times, from the end of the burn-in on."""
    places = torch.tensor([(i, k) for i, n in enumerate(valid) for k in range(n // length)])  # record, block
    first, second = _halves([n // length for n in valid])
    order = torch.randperm(len(places), generator=torch.Generator().manual_seed(seed))[:SAMPLES]
    record, begin = places[order, 0], data.burn_in + places[order, 1] * length
    several = min(first[1], second[1]) >= BALANCED * len(places)
    half = torch.isin(record, torch.tensor(first[0])) if several else torch.arange(len(order)) % 2 == 0
    every = math.ceil(length / LONGEST)
    times = begin[:, None] + torch.arange(0, length, every)
    f, u = (values[record[:, None], times] for values in (data.f, data.u))
    told = "a block of time starts from a state that is not known"
    clock = "" if several else f"{'one' if len(data) == 1 else 'mostly one'} record: a clock could be any slow cause"
    span = data.time.n - 1
    at, share = begin[:, None].double() / span, (length - 1) / span
    return Samples(f, u, half, every, None, at, share, len(data), length, told, clock)


def _halves(counts: list[int]) -> tuple[tuple[list[int], int], tuple[list[int], int]]:
    """The records in two halves of about as many blocks, each with its number of blocks."""
    halves: tuple[tuple[list[int], int], tuple[list[int], int]] = ([], 0), ([], 0)
    for i in sorted(range(len(counts)), key=lambda i: -counts[i]):
        one, other = sorted(halves, key=lambda half: half[1])
        halves = ([*one[0], i], one[1] + counts[i]), other
    return halves
