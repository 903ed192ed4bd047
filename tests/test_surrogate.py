"""The estimator: fit, predict and score on arrays."""

import copy
import inspect

import numpy as np
import pytest
import torch
import xarray as xr
from test_measured import DT, ONE_DELAY, responses

import tino

RNG = np.random.default_rng(0)
F = RNG.normal(size=(6, 80))
U = responses(F, ONE_DELAY)


def test_it_fits_predicts_and_scores():
    """The score is 1 - RMSE / SD over all values."""
    one = tino.Surrogate("linear", dt=DT).fit(F[:4, :, None], U[:4, :, None])
    assert (one.model_.frame.model, one.history_.steps) == ("linear", 0)
    guess = one.predict(F[4:, :, None])
    assert guess.shape == (2, 80, 1)
    expected = 1 - np.sqrt(np.mean((guess[..., 0] - U[4:]) ** 2)) / np.std(U[4:])
    assert one.score(F[4:, :, None], U[4:, :, None]) == pytest.approx(expected, abs=1e-9)
    assert expected > 0.9999
    assert one.predict(F[4]).shape == (80,)
    assert one.model_.frame.time.step == pytest.approx(DT)


def test_records_may_differ_in_length():
    f, u = [F[i, : 40 + 8 * i] for i in range(5)], [U[i, : 40 + 8 * i] for i in range(5)]
    one = tino.Surrogate("linear", dt=DT).fit(f, u)
    assert one.score(f, u) > 0.9999
    answers = one.predict(f)
    assert [len(answer) for answer in answers] == [40, 48, 56, 64, 72]
    assert np.allclose(answers[0], one.predict(f[0]))


def test_one_record_of_several_channels():
    f = RNG.normal(size=(300, 2))
    u = responses(f.T, ONE_DELAY).T
    one = tino.Surrogate("linear", dt=DT).fit(f, u)
    assert one.predict(f).shape == (300, 2)
    assert one.score(f, u) > 0.99
    assert [channel.name for channel in one.model_.frame.input_channels] == ["f1", "f2"]


def cloned(one: tino.Surrogate) -> tino.Surrogate:
    """As scikit-learn does it: a new one of the same class from copies of its parameters, which it must keep."""
    given = {name: copy.deepcopy(value) for name, value in one.get_params(deep=False).items()}
    made = type(one)(**given)
    assert all(made.get_params(deep=False)[name] is value for name, value in given.items())
    return made


def test_it_can_be_cloned_and_set():
    one = tino.Surrogate("linear", dt=DT, seed=3).fit(F[..., None], U[..., None])
    again = cloned(one)
    assert again.get_params() == one.get_params()
    assert not hasattr(again, "model_")
    assert again.set_params(model="polynomial", burn_in=2) is again
    assert (again.model, again.burn_in, again.seed) == ("polynomial", 2, 3)
    assert list(inspect.signature(tino.Surrogate).parameters) == list(one.get_params())
    with pytest.raises(tino.TinoError, match="no parameter 'epoch': did you mean 'epochs'"):
        again.set_params(epoch=3)


def test_tensors_and_labelled_arrays_are_taken_too():
    expected = tino.Surrogate("linear", dt=DT).fit(F[..., None], U[..., None]).predict(F[0])
    for kind in (torch.tensor, lambda values: xr.DataArray(values, dims=("record", "time", "channel"))):
        one = tino.Surrogate("linear", dt=DT).fit(kind(F[..., None]), kind(U[..., None]))
        assert np.array_equal(one.predict(torch.tensor(F[0])), expected)
        assert np.array_equal(one.predict([torch.tensor(F[0])])[0], expected)


def test_training_by_gradients_repeats():
    made = [tino.Surrogate("tdnn", dt=DT, epochs=2, seed=1).fit(F[..., None], U[..., None]) for _ in range(2)]
    assert len(made[0].history_.loss) == 2
    assert np.array_equal(*(one.predict(F[0]) for one in made))


@pytest.mark.parametrize(
    ("f", "u", "message"),
    [
        (F, U, r"f has shape \(6, 80\), read as one record of 6 times and 80 channels: .* give f\[..., None\]"),
        ([F[0]], [U[0, :9]], "record 0 has 80 times in f, 9 in u"),
        ([F[0]], [U[0], U[0]], "u has 2 records, f has 1"),
        ([], [], "f has no records"),
        ([F[0], F[:2].T], [U[0], U[0]], "record 1 of f .counted from 0. has 2 channels, record 0 has 1"),
        (["a"], [U[0]], "a record of f has shape"),
        (F[0].tolist(), U[0].tolist(), r"a record of f has shape \(\) .*: give np.array\(f\)"),
        (F[0, :20], U[0, :20], "there are 20 times to learn from, at least 50 are needed: add records"),
        (F[0] * np.nan, U[0], "f has NaN"),
    ],
)
def test_wrong_records_are_one_line(f, u, message):
    with pytest.raises(tino.TinoError, match=message) as raised:
        tino.Surrogate("linear", dt=DT).fit(f, u)
    assert "\n" not in str(raised.value)


def test_it_must_be_fitted_first():
    with pytest.raises(tino.TinoError, match=r"predict needs a trained model: call fit\(f, u\) first"):
        tino.Surrogate().predict(F[0])
    with pytest.raises(tino.TinoError, match="dt is 0, expected"):
        tino.Surrogate(dt=0.0).fit(F[0], U[0])
