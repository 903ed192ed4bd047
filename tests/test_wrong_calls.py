"""Calls with values of the wrong kind: each is an error of one line."""

# pyright: reportArgumentType=false

import dataclasses
import json
import time

import numpy as np
import pytest
import torch

import tino
from tino.errors import unknown
from tino.progress import progress

SMALL = tino.problem("duffing", n_t=24)


def test_every_option_is_checked():
    """Nothing but a record is of the right type for a field."""
    for field in dataclasses.fields(tino.TrainConfig):
        if field.name != "device":  # a text, or what turns into one
            with pytest.raises(tino.TinoError, match=f"{field.name} is a dict, expected"):
                tino.TrainConfig(**{field.name: {}})  # pyright: ignore[reportArgumentType]
    as_numpy = tino.TrainConfig(epochs=np.int64(3), lr=np.float32(0.5), device=torch.device("cpu"))  # pyright: ignore
    assert as_numpy == tino.TrainConfig(epochs=3, lr=0.5, device="cpu")
    json.dumps(dataclasses.asdict(as_numpy))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, d: tino.fit(m, d, {"epochs": 2}), "config is a dict, expected a tino.TrainConfig"),
        (lambda m, d: tino.fit(m, d.f), "train is a Tensor, expected a tino.Dataset"),
        (lambda m, d: tino.fit(d, m), "train is a Separable, expected a tino.Dataset"),
        (lambda m, d: tino.fit("tino", d), "the model is 'tino', expected a torch module"),
        (lambda m, d: tino.evaluate(m, d.f), "test is a Tensor, expected a tino.Dataset"),
        (lambda m, d: tino.evaluate("tino", d), "the model is 'tino', expected a torch module"),
        (lambda m, d: tino.certify("tino", d), "the model is 'tino', expected a torch module"),
        (lambda m, d: tino.diagnose(d.f), "data is a Tensor, expected a tino.Dataset"),
        (lambda m, d: m.save(""), "folder is '', expected the name of a folder"),
        (lambda m, d: m(d.f.double()), r"f is float64, the model is float32: pass f.float\(\)"),
        (lambda m, d: m.start(d.f[:, 0].double()), r"f is float64, the model is float32: pass f.float\(\)"),
        (lambda m, d: m.step(m.start(d.f[:, 0])[0], d.f[:, 1].long()), "f is int64, the model is float32"),
        (lambda m, d: m(d.f, d.u[:, 0].double()), r"ic is float64, the model is float32: pass ic.float\(\)"),
        (
            lambda m, d: m.start(d.f.numpy()[:, 0]),
            "f must be a torch tensor, got ndarray: wrap arrays in torch.as_tensor",
        ),
        (lambda m, d: m.double()(d.f), r"f is float32, the model is float64: pass f.double\(\)"),
        (lambda m, d: m.half()(d.f), r"f is float32, the model is float16: pass f.to\(torch.float16\)"),
        (lambda m, d: tino.build("tino", d.f), "train is a Tensor, expected a tino.Dataset"),
        (lambda m, d: tino.build("tino", (d, d)), "train is a tuple, expected a tino.Dataset"),
        (lambda m, d: tino.build(d, "tino"), "the name of a model is a Dataset, expected text"),
        (lambda m, d: tino.build("tino", d, seed="a"), "seed is 'a', expected a whole number"),
        (lambda m, d: tino.build("tino", d, modes=-1), "modes is -1, expected 1 or more"),
        (lambda m, d: tino.build("fno", d, width=1.5), "width is 1.5, expected a whole number"),
        (lambda m, d: tino.build("fno", d, clock=1), "clock is 1, expected True or False"),
        (lambda m, d: tino.register_model("mine", 3), "mine is 3, expected a tino.Model"),
        (lambda m, d: tino.problem(3), "the name of a problem is 3, expected text"),
        (lambda m, d: tino.problem(["duffing"]), "the name of a problem is a list, expected text"),
        (lambda m, d: tino.dataset(SMALL, train=2.5), "train is 2.5, expected a whole number"),
        (lambda m, d: tino.dataset(SMALL, test="3"), "test is '3', expected a whole number"),
        (lambda m, d: tino.dataset(SMALL, seed=1.5), "seed is 1.5, expected a whole number"),
        (lambda m, d: tino.dataset(SMALL, cache=""), "cache is '', expected the name of a folder"),
        (lambda m, d: tino.dataset(SMALL, cache=3), "cache is 3, expected the name of a folder"),
        (lambda m, d: tino.dataset(SMALL, train=2, test=1, device=3.5), "no device '3.5'"),
        (lambda m, d: tino.generate(SMALL, shard="1/2"), "the shard is '1/2', expected"),
        (lambda m, d: tino.generate(SMALL, shard=1), "the shard is 1, expected"),
    ],
)
def test_wrong_calls_are_one_line(call, message, small_data):
    train, _ = small_data("duffing")
    with pytest.raises(tino.TinoError, match=message) as raised:
        call(tino.build("tino", train), train)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "near"),
    [("nope", None), ("xyz", None), ("duffin", "duffing"), ("burgers", "burgers-0.1"), ("lorentz", "lorenz")],
)
def test_only_a_close_name_is_suggested(name, near):
    said = str(unknown("problem", name, tino.problem_names()))
    assert (f"did you mean '{near}'?" in said) if near else ("did you mean" not in said)


def test_the_public_names_are_fetched_when_used():
    assert set(tino.__all__) <= set(dir(tino))
    assert not hasattr(tino, "nonsense")
    for name in tino.__all__:
        assert getattr(tino, name) is not None


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("duffing", {"n_t": 99_999_999_999}, "GiB of memory, this machine has"),
        ("burgers-0.1", {"n_t": 99_999_999_999}, "GiB of memory, this machine has"),
        ("navier-stokes", {"resolution": 1_000_003}, "GiB of memory, this machine has"),
    ],
)
def test_data_that_no_memory_holds(name, options, message, tmp_path):
    with pytest.raises(tino.TinoError, match=message):
        tino.dataset(tino.problem(name, **options), cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_grid_that_no_memory_holds():
    with pytest.raises(tino.TinoError, match="points along an axis is 100000003, expected at most 2048"):
        tino.problem("heat-triangle", resolution=100_000_003)


def test_data_that_no_disk_holds(tmp_path):
    with pytest.raises(
        tino.TinoError, match=r"has no room for 100000000200 pairs of duffing: they need .* use fewer points"
    ):
        tino.dataset(SMALL, train=100_000_000_000, cache=tmp_path)
    with pytest.raises(tino.TinoError, match="cannot write into"):
        tino.dataset(SMALL, cache="/dev/null/cache")


def test_work_that_reports_nothing_still_shows(capsys, monkeypatch):
    monkeypatch.setattr("tino.progress.FIRST", 0.0)
    monkeypatch.setattr("tino.progress.NEXT", 0.01)
    said, deadline = "", time.monotonic() + 30
    with progress("solving", 10):
        while "solving: 0 % after 0 s" not in said and time.monotonic() < deadline:
            time.sleep(0.01)
            said += capsys.readouterr().err
    assert "solving: 0 % after" in said
