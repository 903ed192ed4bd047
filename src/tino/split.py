"""Records of your own in two: for training, and for the test."""

import warnings
from dataclasses import replace

import torch

from tino.data import Dataset
from tino.errors import TinoError, TinoWarning, whole
from tino.holdout import in_two, warn_of_memory

TEST_SHARE = 6  # one record in six is for the test
TEST_TIME, SHORTEST = 5, 20  # of a single record, one part of its time in five; the fewest times of one


def split_records(data: Dataset, train: int | None, test: int | None, seed: int) -> tuple[Dataset, Dataset]:
    """Test records drawn with the seed, and the others for training; of a single record, the last part of its time."""
    n = len(data)
    if n == 1:
        if train is not None or test is not None:
            given = f"{data.name} has 1 record, of which the last fifth is for the test"
            raise TinoError(f"{given}: leave out train and test")
        return split_time(data)
    test = max(1, n // TEST_SHARE) if test is None else whole("test", test, 1)
    if test >= n:
        raise TinoError(f"{data.name} has {n} records, test = {test} leaves none for training")
    train = n - test if train is None else whole("train", train, 1)
    if train + test > n:
        raise TinoError(f"{data.name} has {n} records, too few for {train} training and {test} test records")
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return data.take(order[test : test + train].sort().values), data.take(order[:test].sort().values)


def split_time(data: Dataset) -> tuple[Dataset, Dataset]:
    """The last fifth of the times for the test, and those before it for training.

    The test starts from a state that is not known. As many times before it as the memory is long are its burn-in: they
    are read, and do not count.
    """
    n = data.shortest
    if n < SHORTEST + data.burn_in:
        given = f"{data.name} has 1 record of {n} times"
        raise TinoError(f"{given}, expected {SHORTEST} or more: the last fifth is for the test")
    # a state at a later time would be needed for the test
    train, test = in_two(replace(data, ic=None), [n - n // TEST_TIME])
    if told := warn_of_memory(train, test):
        warnings.warn(f"{data.name}: {told}", TinoWarning, stacklevel=2)
    return train, test
