"""Candidates of PyDMD's DMDc for tino's problems: x_{i+1} = A x_i + B c_i, in delays or in POD coordinates.

DMDc takes one trajectory and pairs each snapshot with the one ``lag`` later. With the records interleaved (all of them
at the first time, then all at the second) and as lag their number, its pairs are those of each record with itself.
"""

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from rivals_data import Array, Candidate, Coordinates, Records, Rollout, Step, delayed, inputs_of

DMDc: Any = importlib.import_module("pydmd").DMDc  # not installed with tino


def candidates(name: str, records: Records) -> Iterator[Candidate]:
    """The list that the held-out records choose from. One input of every candidate is constant, for the affine part."""
    if records.signal:
        for lags in (1, 2, 4, 8, 16, 32):
            few = 200 if lags > 8 else None  # many delays of all records take minutes
            yield Candidate({"state": f"{lags} delays of u"}, lambda r, lags=lags: _delays(r, lags), few)
        return
    for count, which in ((1, "f_i"), (2, "f_i and f_{i+1}")):
        for rank in (20, 80, 160):
            options = {"svd_rank": rank, "inputs": which}
            yield Candidate(options, lambda r, count=count, rank=rank: _reduced(r, count, rank))


def _delays(records: Records, lags: int) -> Rollout:
    state, control, following = delayed(records, lags)
    step = _fit(np.concatenate([state, following[:, -1:]], axis=1), control, -1)
    return records.by_delays(lags, step)


def _reduced(records: Records, count: int, rank: int) -> Rollout:
    """In the first 200 POD coordinates above 1e-6 of the largest; DMDc itself truncates to the rank."""
    space = Coordinates.of(records, 200)
    x = space.state(records.u)
    step = _fit(x, inputs_of(space.input(records.f), count), min(rank, x.shape[-1]))
    return space.rollout(step, count)


def _fit(x: Array, control: Array, rank: int) -> Step:
    """x (n, t, k) and control (n, t - 1, c) -> the step."""
    n = len(x)
    snapshots = x.transpose(2, 1, 0).reshape(x.shape[-1], -1)  # time after time, all records in each
    ones = np.ones((*control.shape[:2], 1))
    inputs = np.concatenate([control, ones], axis=-1).transpose(2, 1, 0).reshape(control.shape[-1] + 1, -1)
    model = DMDc(svd_rank=rank, svd_rank_omega=-1, lag=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # delays of a smooth signal are badly conditioned
        model.fit(snapshots, inputs)
    a = model.basis @ model.operator.as_numpy_array @ model.basis.T
    b = model.B

    def step(x: Array, c: Array) -> Array:
        return x @ a.T + c @ b[:, :-1].T + b[:, -1]

    return step
