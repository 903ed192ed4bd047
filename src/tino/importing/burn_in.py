"""The burn-in of records that start from unknown states: as long as the memory, and what is too short for it."""

from dataclasses import replace

from tino.data import Dataset
from tino.errors import counted
from tino.holdout import memory_length
from tino.importing.options import ImportOptions
from tino.importing.records import Record, Side
from tino.importing.repairs import SHORTEST
from tino.importing.whole import split, together
from tino.parts.start import starts_shared


def needed(data: Dataset, options: ImportOptions) -> int:
    """The burn-in that was asked for, or the length of the memory if the records start from different states."""
    if options.burn_in is not None or options.ic or starts_shared(data):
        return options.burn_in or 0
    return _memory(data)


def possible(before: int, data: Dataset) -> int:
    """That burn-in, or half of the longest record if that is less, and what the shortest one allows."""
    longest = data.time.n if data.lengths is None else int(data.lengths.max())
    return min(before, longest // 2, max(data.shortest // 2, data.shortest - SHORTEST))


def _memory(data: Dataset) -> int:
    """The length of the system's memory, as the longest records show it: a short piece shows only its own length."""
    if data.lengths is not None:
        data = data.take((2 * data.lengths >= data.lengths.max()).nonzero()[:, 0])
    return memory_length(replace(data, burn_in=0))


def long_enough(
    records: list[Record], f: Side, u: Side, step: float, options: ImportOptions
) -> tuple[list[Record], list[str]]:
    """The records without pieces that are shorter than their burn-in, and a note on those."""
    lengths = [len(record) for record in records]
    if options.burn_in is None and 2 * min(lengths) >= max(lengths):
        return records, []
    before = options.burn_in
    return outlasting(records, needed(together(records, f, u, step, options), options) if before is None else before)


def outlasting(records: list[Record], before: int) -> tuple[list[Record], list[str]]:
    """The records that go on after so many times, and a note on the others; all of them if none does."""
    least = before + SHORTEST
    short = [record for record in records if len(record) < least]
    if not before or not short or len(short) == len(records):
        return records, []
    told = (
        f"{counted(len(short), 'record')} of fewer than {least} times {'was' if len(short) == 1 else 'were'} left out"
    )
    note = f"{told}, the first at {short[0].at(0)}: the burn-in takes {before}"
    return [record for record in records if len(record) >= least], [note]


def in_two(data: Dataset, options: ImportOptions, seed: int) -> tuple[Dataset, Dataset, str]:
    """Training and test set, and how they were made; a part of a record is read from as far back as the memory goes."""
    train, test, how = split(data, options, seed)
    if options.burn_in is None and 0 < test.burn_in < (before := _memory(train)):
        return split(data, replace(options, burn_in=before), seed)
    return train, test, how
