"""Records put together: one dataset, and what of it is kept for the test."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.grids import TimeGrid
from tino.holdout import ends, in_two, warn_of_memory
from tino.importing.options import ImportOptions
from tino.importing.records import Record, Side
from tino.split import TEST_SHARE, split_records

LEAST, LEAST_TEST = 50, 8  # times that count, of the training and of the test set


def together(records: Sequence[Record], f: Side, u: Side, step: float, options: ImportOptions) -> Dataset:
    """All records as one dataset, padded to the longest; they begin at one time, or else each at 0."""
    n_t = max(map(len, records))
    starts = {0.0 if record.t is None else float(record.t[0]) for record in records}
    start = starts.pop() if len(starts) == 1 else 0.0
    time = TimeGrid(start, start + (n_t - 1) * step, n_t)
    if abs(time.step - step) > 1e-10 * step:  # so late that its digits do not tell the step
        time = TimeGrid(0.0, (n_t - 1) * step, n_t)
    first, second = (_padded([getattr(record, name) for record in records], n_t) for name in ("f", "u"))
    lengths = torch.tensor([len(record) for record in records])
    ended = None if bool((lengths == n_t).all()) else lengths
    ic = second[:, 0].clone() if options.ic else None
    return Dataset(first, second, time, f.grid, u.grid, ic, {}, f.channels, u.channels, ended, options.burn_in or 0)


def _padded(parts: list[np.ndarray], n_t: int) -> Tensor:
    kind = np.float32 if all(part.dtype == np.float32 for part in parts) else np.float64
    found = np.zeros((len(parts), n_t, parts[0].shape[1]), kind)
    for one, part in zip(found, parts, strict=True):
        one[: len(part)] = part
    return torch.from_numpy(found)


def split(data: Dataset, options: ImportOptions, seed: int) -> tuple[Dataset, Dataset, str]:
    """Training and test set, and how they were made: one record in six, or of few records the last part of the time."""
    if len(data) >= TEST_SHARE:
        train, test = split_records(data, None, None, seed)
        verb = "is" if len(test) == 1 else "are"
        return train, test, f"{len(test)} of {len(data)} records, drawn with seed {seed}, {verb} for the test"
    lengths = ends(data)
    cuts = [n - max(LEAST_TEST, round(options.test_share * n)) for n in lengths]
    if min(cuts) < max(2, data.burn_in + 1):
        told = f"the shortest record has {min(lengths)} times"
        raise TinoError(f"{told}, too few to keep {options.test_share:.0%} for the test: give records for the test")
    given = 0 if options.ic and options.burn_in is None else options.burn_in
    train, test = in_two(data, cuts, given)
    if options.ic:
        test = replace(test, ic=test.u[:, 0].clone())
    which = "the record" if len(data) == 1 else "each record"
    told = f"the last {options.test_share:.0%} of {which} is for the test"
    told = f"{told}, after {test.burn_in} times that are read but not scored" if test.burn_in else told
    longer = warn_of_memory(train, test) if given is None else ""
    return train, test, f"{told}; {longer}" if longer else told


def check_enough(train: Dataset, test: Dataset, where: str) -> None:
    """An error if there are too few times to learn from or to test on."""
    for data, word, least in ((train, "training", LEAST), (test, "the test", LEAST_TEST)):
        given = len(data.rows(data.f))
        if given < least:
            raise TinoError(f"{where}: {given} times are left for {word}, at least {least} are needed: add records")
