"""Scores by the paper's formulas, and checks at the border."""

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from conftest import separable

import tino
from tino.devices import products
from tino.metrics import METRICS, Metric


def test_scores_are_the_paper_s_formulas(small_data):
    train, test = small_data("burgers-0.1")
    model = tino.build("tino", train)
    scores = tino.evaluate(model, test)
    u, guess = test.u.double().numpy(), model(test.f).detach().double().numpy()
    mse = [np.mean((u[k] - guess[k]) ** 2) for k in range(len(u))]
    relative = [np.sqrt(np.sum((u[k] - guess[k]) ** 2) / np.sum(u[k] ** 2)) for k in range(len(u))]
    assert np.allclose(scores.mse, mse, rtol=1e-5)
    assert np.allclose(scores.rel_l2, relative, rtol=1e-5)
    assert scores.mse_mean == pytest.approx(np.mean(mse), rel=1e-5)
    assert scores.mse_sd == pytest.approx(np.std(mse, ddof=1), rel=1e-5)  # N - 1
    assert scores.rel_l2_mean == pytest.approx(np.mean(relative), rel=1e-5)


class Damped(torch.nn.Module):
    """Not f, but 0.9 f + 0.2."""

    def forward(self, f):
        return 0.9 * f + 0.2


@pytest.fixture
def own_data() -> tino.Dataset:
    """u = f + 3: five records of ten times at four points."""
    f = torch.randn(5, 10, 4, generator=torch.Generator().manual_seed(0))
    grid = tino.Interval(0, 1, 4)
    return tino.Dataset(f, f + 3, tino.TimeGrid(0, 1, 10), grid, grid)


@pytest.mark.parametrize("lengths", [None, [10, 2, 7, 3, 10]])
def test_every_score_is_its_naive_formula(lengths, own_data):
    """In numpy, over the valid times; values after a record's end are far off, and are ignored."""
    data, ends = own_data, lengths or [10] * 5
    if lengths is not None:
        ended = torch.arange(10) >= torch.tensor(lengths)[:, None]
        far = torch.where(ended[..., None], 1e6, own_data.u)
        data = dataclasses.replace(own_data, u=far, lengths=torch.tensor(lengths))
    scores = tino.evaluate(Damped(), data)
    truth = [data.u[k, :end].double().numpy() for k, end in enumerate(ends)]
    error = [0.9 * data.f[k, :end].double().numpy() + 0.2 - truth[k] for k, end in enumerate(ends)]
    every, deviation = (np.concatenate([values.ravel() for values in some]) for some in (truth, error))
    rmse = np.sqrt(np.mean(deviation**2))
    naive = {
        "mse_mean": np.mean([np.mean(e**2) for e in error]),
        "mse_sd": np.std([np.mean(e**2) for e in error], ddof=1),
        "rel_l2_mean": np.mean([np.linalg.norm(e) / np.linalg.norm(u) for e, u in zip(error, truth, strict=True)]),
        "rmse": rmse,
        "nrmse": rmse / np.std(every),
        "fit": 100 * (1 - rmse / np.std(every)),
        "max_error": np.max(np.abs(deviation)),
    }
    assert set(naive) == set(METRICS)
    for name, value in naive.items():
        assert getattr(scores, name) == pytest.approx(value, rel=1e-5), name
    assert scores.mse.tolist() == pytest.approx([np.mean(e**2) for e in error], rel=1e-5)
    assert scores.record()["rel_l2"] == scores.rel_l2.tolist()


def test_a_perfect_fit_is_100_and_the_mean_alone_0(own_data):
    class Perfect(torch.nn.Module):
        def forward(self, f):
            return f + 3

    class Mean(torch.nn.Module):
        def forward(self, f):
            return torch.full_like(f, float(own_data.u.mean()))

    assert tino.evaluate(Perfect(), own_data).fit == 100
    assert tino.evaluate(Mean(), own_data).fit == pytest.approx(0, abs=1e-4)
    still = dataclasses.replace(own_data, u=torch.ones_like(own_data.u))
    assert tino.evaluate(Mean(), still).fit == -math.inf  # a reference that does not vary has no scale


def test_a_new_metric_is_one_entry(own_data, monkeypatch):
    monkeypatch.setitem(METRICS, "bias", Metric("bias", lambda c: float((c.prediction - c.truth).mean())))
    scores = tino.evaluate(Damped(), own_data)
    expected = float((0.9 * own_data.f + 0.2 - own_data.u).mean())
    assert scores.record()["bias"] == scores.bias == pytest.approx(expected, rel=1e-5)
    with pytest.raises(AttributeError, match=r"scores have no 'bais': they have mse_mean, .*, bias, mse, rel_l2"):
        _ = scores.bais


def test_batches_do_not_change_predictions(small_data, monkeypatch):
    train, test = small_data("burgers-0.1")
    model = tino.build("don", train)
    whole = tino.predict(model, test.f)
    monkeypatch.setattr("tino.calls.BATCH_NUMBERS", 1)
    assert torch.allclose(tino.predict(model, test.f), whole, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[:, :, :-1], r"f has shape \(6, 24, 23\), the model was built for \(records, 24, 24\)"),
        (lambda f: f[:, :0], "f has 0 times, tino takes 1 or more times"),
        (lambda f: f.long(), "f has dtype int64, expected a floating type such as float32"),
        (lambda f: f * torch.nan, "in 6 of 6 records, first in record 0, counted from 0"),
        (lambda f: f.tolist(), "f is a list, expected a torch tensor, a numpy array or an xarray.DataArray"),
        (lambda f: f[0], "f has shape"),
    ],
)
def test_inputs_are_checked(change, message, small_data):
    train, test = small_data("burgers-0.1")
    with pytest.raises(tino.TinoError, match=message):
        tino.predict(tino.build("tino", train), change(test.f))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("don", "f has 48 times, the model was built for 24"),
        ("trtino", "f has 48 times, trtino takes 1 to 24 times: its time factor depends on t"),
    ],
)
def test_records_that_are_too_long_are_refused(name, message, small_data):
    train, test = small_data("burgers-0.1")
    with pytest.raises(tino.TinoError, match=message):
        tino.predict(tino.build(name, train), torch.cat([test.f, test.f], dim=1))


def test_scores_can_be_copied(own_data):
    scores = tino.evaluate(Damped(), own_data)
    for again in (copy.deepcopy(scores), pickle.loads(pickle.dumps(scores))):
        assert again.record() == scores.record()


def test_predictions_have_all_digits_whatever_torch_is_set_to(small_data):
    _, test = small_data("duffing")
    seen = []

    class Asked(torch.nn.Module):
        def forward(self, f: torch.Tensor) -> torch.Tensor:
            seen.append((torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32))
            return f

    with products(tf32=True):
        tino.predict(Asked(), test.f)
        assert torch.backends.cudnn.allow_tf32
        assert torch.backends.cuda.matmul.allow_tf32
    assert seen == [(False, False)]


@pytest.mark.parametrize("chosen", ["matmul", "conv"])
@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_torch_s_newer_names_of_these_switches_are_kept_too(chosen, precision):
    cudnn: Any = torch.backends.cudnn
    switches: dict[str, Any] = {"matmul": torch.backends.cuda.matmul, "conv": cudnn.conv}
    before = switches[chosen].fp32_precision
    switches[chosen].fp32_precision = precision
    try:
        values = [switch.fp32_precision for switch in switches.values()]
        with products(tf32=False):
            assert not any(switch.fp32_precision == "tf32" for switch in switches.values())
        assert [switch.fp32_precision for switch in switches.values()] == values
    finally:
        switches[chosen].fp32_precision = before


def test_other_grids_and_answers_are_refused(small_data):
    train, test = small_data("burgers-0.1")
    model = tino.build("tino", train)
    moved = tino.Dataset(test.f, test.u, test.time, test.inputs, tino.Interval(0, 1, 24))
    with pytest.raises(tino.TinoError, match="the data's outputs grid is"):
        tino.evaluate(model, moved)
    with pytest.raises(tino.TinoError, match="the model returned shape"):
        tino.evaluate(torch.nn.Linear(24, 5), test)
    with torch.no_grad():
        tino_model = separable("tino", train)
        next(tino_model.mixer.parameters()).fill_(torch.nan)
    with pytest.raises(tino.TinoError, match="predicts NaN or infinite values"):
        tino.evaluate(tino_model, test)
    with pytest.raises(tino.TinoError, match="ic has 2 records, f has 6"):
        tino.predict(model, test.f, torch.zeros(2, 1))


def test_zero_rightly_predicted_is_no_error():
    zero = torch.zeros(3, 8, 1)
    data = tino.Dataset(zero, zero, tino.TimeGrid(0, 1, 8), tino.Point(), tino.Point())
    scores = tino.evaluate(torch.nn.Identity(), data)
    assert (scores.rel_l2_mean, scores.nrmse, scores.fit) == (0.0, 0.0, 100.0)


@pytest.fixture
def two_channels() -> tino.Dataset:
    """At four points: a large channel, and a small one about an offset; records of two lengths."""
    f = torch.randn(6, 10, 4, generator=torch.Generator().manual_seed(0))
    u = torch.cat([1e4 * f, 293 + 1e-2 * f.square()], -1)
    names = (tino.Channel("load", "N"), tino.Channel("heat", "K"))
    grid = tino.Interval(0, 1, 4)
    lengths = torch.tensor([10, 7] * 3)
    return tino.Dataset(f, u, tino.TimeGrid(0, 1, 10), grid, grid, output_channels=names, lengths=lengths)


class Guess(torch.nn.Module):
    """The large channel to 1 %, the small one's offset only."""

    def forward(self, f):
        return torch.cat([1.01e4 * f, torch.full_like(f, 293.0)], -1)


def test_each_channel_is_scored_by_itself(two_channels):
    """As if it were the only one; and the small channel's failure shows in the relative errors of all."""
    scores = tino.evaluate(Guess(), two_channels)
    assert list(scores.channels) == ["load", "heat"]
    assert scores.record()["channels"] == scores.channels
    ends = [int(n) for n in two_channels.lengths]  # pyright: ignore
    found = {}
    for i, name in enumerate(("load", "heat")):
        own = slice(4 * i, 4 * i + 4)
        truth = [two_channels.u[k, :n, own].double().numpy() for k, n in enumerate(ends)]
        guess = [Guess()(two_channels.f)[k, :n, own].double().numpy() for k, n in enumerate(ends)]
        error = [g - u for g, u in zip(guess, truth, strict=True)]
        rmse = np.sqrt(np.mean(np.concatenate(error) ** 2))
        found[name] = {
            "mse_mean": np.mean([np.mean(e**2) for e in error]),
            "rel_l2_mean": np.mean([np.linalg.norm(e) / np.linalg.norm(u) for e, u in zip(error, truth, strict=True)]),
            "rmse": rmse,
            "nrmse": rmse / np.std(np.concatenate(truth)),
            "max_error": np.max(np.abs(np.concatenate(error))),
        }
        for key, value in found[name].items():
            assert scores.channels[name][key] == pytest.approx(value, rel=1e-4), (name, key)
    assert found["load"]["nrmse"] < 0.02
    assert found["heat"]["nrmse"] > 1  # worse than its mean
    assert scores.nrmse == pytest.approx(np.sqrt((found["load"]["nrmse"] ** 2 + found["heat"]["nrmse"] ** 2) / 2))
    assert scores.fit < 20
    sizes = [
        np.sqrt(np.mean(two_channels.rows(two_channels.u)[:, 4 * i : 4 * i + 4].double().numpy() ** 2)) for i in (0, 1)
    ]
    unit, guess = np.repeat(sizes, 4), Guess()(two_channels.f)
    naive = []
    for k, n in enumerate(ends):
        truth = two_channels.u[k, :n].double().numpy() / unit
        naive.append(np.linalg.norm(guess[k, :n].double().numpy() / unit - truth) / np.linalg.norm(truth))
    assert scores.rel_l2.tolist() == pytest.approx(naive, rel=1e-5)


def test_one_channel_has_no_scores_by_channel(own_data):
    scores = tino.evaluate(Damped(), own_data)
    assert scores.channels == {}
    assert "channels" not in scores.record()


def test_a_channel_that_does_not_vary_does_not_hide_the_others(two_channels):
    still = two_channels.u.clone()
    still[..., 4:] = 5.0
    scores = tino.evaluate(Guess(), dataclasses.replace(two_channels, u=still))
    assert scores.channels["heat"]["nrmse"] == math.inf
    assert scores.nrmse == scores.channels["load"]["nrmse"]
