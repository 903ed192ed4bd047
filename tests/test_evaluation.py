"""Scores by the paper's formulas, and checks at the border."""

from typing import Any

import numpy as np
import pytest
import torch
from conftest import separable

import tino
from tino.devices import products


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


def test_batches_do_not_change_predictions(small_data, monkeypatch):
    train, test = small_data("burgers-0.1")
    model = tino.build("don", train)
    whole = tino.predict(model, test.f)
    monkeypatch.setattr("tino.evaluation.BATCH_NUMBERS", 1)
    assert torch.allclose(tino.predict(model, test.f), whole, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[:, :, :-1], "f has 23 sensors, the model was built for"),
        (lambda f: torch.cat([f, f], dim=1), "f has 48 times, the model was built for 24"),
        (lambda f: f.long(), "f has dtype torch.int64"),
        (lambda f: f * torch.nan, "f has NaN or infinite values in 6 of 6 samples, first in 0"),
        (lambda f: f.numpy(), "f must be a torch tensor, got ndarray"),
        (lambda f: f[0], "f has shape"),
    ],
)
def test_inputs_are_checked(change, message, small_data):
    train, test = small_data("burgers-0.1")
    with pytest.raises(tino.TinoError, match=message):
        tino.predict(tino.build("tino", train), change(test.f))


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
    with pytest.raises(tino.TinoError, match="ic holds 2 samples, f holds 6"):
        tino.predict(model, test.f, torch.zeros(2, 1))
