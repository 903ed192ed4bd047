"""Evaluation that starts from measured outputs, on other data, and errors over time."""

import dataclasses
import io
import json
import math
from contextlib import redirect_stdout
from functools import cache

import numpy as np
import pytest
import torch

import tino
from tino.cli import run
from tino.metrics import KEPT, Comparison, OverTime
from tino.operator import Operator
from tino.preview import read_preview, take_preview, write_preview
from tino.report.figures import png
from tino.report.over_time import errors_over_time

DT, BURN_IN = 0.1, 40
FORCE, PLACE = (tino.Channel("force", "N"),), (tino.Channel("place", "mm"),)


def dataset(f: np.ndarray, u: np.ndarray, burn_in: int = 0) -> tino.Dataset:
    inputs, outputs = (torch.from_numpy(values)[..., None] for values in (f, u))
    grids = (tino.TimeGrid(0, DT * (f.shape[1] - 1), f.shape[1]), tino.Point(), tino.Point())
    return tino.Dataset(inputs, outputs, *grids, input_channels=FORCE, output_channels=PLACE, burn_in=burn_in)


def responses(f: np.ndarray, weights: tuple[float, ...], offset: float = 0.0) -> np.ndarray:
    """u_i = Σ_d w_d u_{i-d} + 0.1 f_i + 0.05 f_{i-1}, from rest."""
    u = np.zeros_like(f)
    for i in range(1, f.shape[1]):
        u[:, i] = 0.1 * f[:, i] + 0.05 * f[:, i - 1]
        for d, w in enumerate(weights, 1):
            u[:, i] += w * u[:, i - d] if i >= d else 0.0
    return u + offset


ONE_DELAY = (0.98,)
OSCILLATOR = (2 * 0.999 * math.cos(0.2), -(0.999**2))  # a pair of poles near the unit circle


@cache
def cut(weights: tuple[float, ...], model: str = "linear", offset: float = 0.0) -> tuple[Operator, tino.Dataset]:
    """A flow fitted to records from rest, and records that are cut in mid-motion."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=(12, 200))
    train = dataset(f[:8], responses(f[:8], weights, offset))
    made = tino.build(model, train)
    tino.fit(made, train, tino.TrainConfig(epochs=1, device="cpu"), show_progress=False)
    return made, dataset(f[8:, 100:], responses(f[8:], weights, offset)[:, 100:], BURN_IN)


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_a_law_of_one_delay_goes_on_from_the_last_measured_output(offset):
    """By the recursion, from u_{k-1} as measured; outputs far from zero too."""
    model, test = cut(ONE_DELAY, offset=offset)
    assert (model.frame.seen.output_offset != ()) == bool(offset)
    f, u = test.f[..., 0].numpy(), test.u[..., 0].numpy()
    naive = u[:, BURN_IN - 1].copy() - offset
    state = model.synchronise(test.f[:, :BURN_IN], test.u[:, :BURN_IN])
    assert state.i == BURN_IN
    state, answer = model.run(state, test.f[:, BURN_IN:])
    assert state.i == test.time.n
    for i in range(BURN_IN, test.time.n):
        naive = ONE_DELAY[0] * naive + 0.1 * f[:, i] + 0.05 * f[:, i - 1]
        assert np.allclose(answer[:, i - BURN_IN, 0].detach(), naive + offset, atol=1e-4 if offset else 1e-8)


@pytest.mark.parametrize("model", ["linear", "polynomial"])
def test_a_record_cut_in_mid_motion_starts_right_when_measured(model):
    made, test = cut(OSCILLATOR, model)
    rest, measured = (tino.evaluate(made, test, start) for start in ("rest", "measured"))
    after = slice(BURN_IN, BURN_IN + 5)
    sizes = [scores.over_time.rmse["place"][after].mean() for scores in (rest, measured)]
    assert sizes[0] > 0.1 * test.u.std()
    assert sizes[1] < 1e-4 * sizes[0]
    assert measured.fit > 99.9 > rest.fit


def test_a_block_is_the_same_as_its_steps():
    model, test = cut(OSCILLATOR)
    state, u = model.start(test.f[:, 0])
    one, answers = state, [u]
    for i in range(1, test.time.n):
        one, u = model.step(one, test.f[:, i])
        answers.append(u)
    block, rest = model.run(state, test.f[:, 1:])
    assert torch.allclose(torch.stack(answers[1:], 1), rest, atol=1e-12)
    assert block.i == one.i == test.time.n
    for a, b in zip(block.memory, one.memory, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
    same, none = model.run(state, test.f[:, :0])
    assert (same.i, none.shape) == (1, (4, 0, 1))


def test_a_model_that_cannot_read_outputs_runs_from_rest():
    f = np.random.default_rng(1).normal(size=(6, 60))
    train = dataset(f, responses(f, ONE_DELAY))
    model, test = tino.build("tino", train), dataclasses.replace(train, burn_in=10)
    model = model.double()
    assert model.observes == 0
    rest, measured = (tino.evaluate(model, test, start).record() for start in ("rest", "measured"))
    assert rest == measured
    state = model.synchronise(train.f[:, :20], train.u[:, :20])
    assert state.i == 20
    assert torch.allclose(model.run(state, train.f[:, 20:])[1], model(train.f)[:, 20:], atol=1e-10)


def test_a_stepper_on_a_grid_starts_measured(small_data):
    train, test = small_data("burgers-0.1")
    model = tino.build("fno-step", train)
    state = model.synchronise(test.f[:, :5], test.u[:, :5])
    u, f = test.u[:, 4], test.f
    for i in range(5, 8):
        state, answer = model.step(state, f[:, i])
        u = model._step((u, f[:, i - 1]), f[:, i], i)[1]
        assert torch.allclose(answer, u, atol=1e-6)


def test_what_cannot_start_measured_is_one_line():
    model, test = cut(OSCILLATOR)
    with pytest.raises(tino.TinoError, match="start is 'measured', but burn_in is 0"):
        tino.evaluate(model, dataclasses.replace(test, burn_in=0), "measured")
    with pytest.raises(tino.TinoError, match="start is 'zero', expected 'rest' or 'measured'"):
        tino.evaluate(model, test, "zero")


def test_of_too_few_measured_outputs_the_first_stands_for_those_before_it():
    model, test = cut(OSCILLATOR)
    few = model.observes - 1
    f, u = test.f[:, :few], test.u[:, :few]
    padded = model.synchronise(torch.cat([0 * f[:, :1], f], 1), torch.cat([u[:, :1], u], 1))
    for one, other in zip(model.synchronise(f, u).memory, padded.memory, strict=True):
        assert torch.equal(one, other)


# -- errors over time ----------------------------------------------------------------------------------------


def test_errors_over_time_are_their_formula():
    """Two channels at three points, records of different lengths with a burn-in: over records and points, by loops."""
    draw = torch.Generator().manual_seed(0)
    truth, guess = (torch.randn(4, 9, 6, generator=draw) for _ in range(2))
    lengths = torch.tensor([8, 5, 8, 6])
    mask = (torch.arange(9) >= 2) & (torch.arange(9) < lengths[:, None])
    found = OverTime.of(Comparison(guess, truth, mask, 2), ["a", "b"], torch.arange(9.0))
    for j, name in enumerate("ab"):
        own = slice(3 * j, 3 * j + 3)
        mean = truth[..., own][mask].double().mean()
        for i in range(9):
            rows = [k for k in range(4) if 2 <= i < lengths[k]]
            if not rows:
                assert math.isnan(found.rmse[name][i])
                assert math.isnan(found.signal[name][i])
                continue
            error = [float(guess[k, i, x] - truth[k, i, x]) ** 2 for k in rows for x in range(3 * j, 3 * j + 3)]
            size = [float(truth[k, i, x] - mean) ** 2 for k in rows for x in range(3 * j, 3 * j + 3)]
            assert found.rmse[name][i] == pytest.approx(math.sqrt(sum(error) / len(error)))
            assert found.signal[name][i] == pytest.approx(math.sqrt(sum(size) / len(size)), rel=1e-5)
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["rmse"]["a"][0] is None
    again = OverTime.from_record(record)
    for name in "ab":
        assert torch.allclose(again.rmse[name], found.rmse[name], rtol=1e-4, equal_nan=True)
    png(errors_over_time([("one", found), ("two", again)], (tino.Channel("a"), tino.Channel("b", "$K$"))))


def test_long_records_are_thinned_evenly_and_no_error_can_be_drawn():
    u = torch.randn(2, 1203, 1, generator=torch.Generator().manual_seed(0))
    found = OverTime.of(Comparison(u, u), ["u"], torch.linspace(0, 120.2, 1203, dtype=torch.float64))
    record = found.record()
    assert len(record["t"]) == len(record["rmse"]["u"]) <= KEPT
    assert np.allclose(np.diff(record["t"]), 0.3)
    assert set(record["rmse"]["u"]) == {0.0}
    png(errors_over_time([("exact", OverTime.from_record(record))], (tino.Channel("u"),)))


@pytest.mark.parametrize(
    "record",
    [None, [], {}, {"t": [0], "rmse": {"u": [1, 2]}, "signal": {"u": [1]}}, {"t": ["a"], "rmse": {}, "signal": {}}],
)
def test_a_damaged_record_is_one_line(record):
    with pytest.raises(tino.TinoError, match="errors over time") as raised:
        OverTime.from_record(record)
    assert "\n" not in str(raised.value)


def test_no_score_counts_the_burn_in():
    """Outputs during the burn-in may be anything."""
    model, test = cut(ONE_DELAY)
    other = test.u.clone()
    other[:, :BURN_IN] += 7.0
    one, two = (tino.evaluate(model, dataclasses.replace(test, u=u)).record() for u in (test.u, other))
    assert one == two


def test_a_preview_knows_what_does_not_count(tmp_path):
    model, test = cut(ONE_DELAY)
    write_preview(tmp_path / "example.safetensors", take_preview(model, test))
    assert read_preview(tmp_path / "example.safetensors").data.burn_in == BURN_IN


# -- the command ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on records from rest, and a file of others that are cut in mid-motion."""
    folder = tmp_path_factory.mktemp("use")
    f = np.random.default_rng(0).normal(size=(12, 150))
    u, t = responses(f, OSCILLATOR), DT * np.arange(150)
    for name, first in (("rig", 0), ("other", 50)):
        np.savez(folder / name, f=f[:, first:], u=u[:, first:], t=t[first:], u_names=["place"], u_units=["mm"])
    with redirect_stdout(io.StringIO()) as said:
        assert run(["train", str(folder / "rig.npz"), "linear", "--device", "cpu", "--out", str(folder / "run")]) == 0
    (folder / "said.txt").write_text(said.getvalue())
    return folder


def test_a_run_keeps_and_draws_its_errors_over_time(trained):
    kept = json.loads((trained / "run" / "scores.json").read_text())["over_time"]
    assert len(kept["t"]) == len(kept["rmse"]["place"]) == 150
    assert (trained / "run" / "errors.png").is_file()


def test_evaluate_takes_other_data(trained, capsys):
    command = ["evaluate", str(trained / "run"), "--data", str(trained / "other.npz"), "--device", "cpu"]
    scores = {}
    for start in ("rest", "measured"):
        assert run([*command, "--burn-in", "30", "--start", start, "--json"]) == 0
        scores[start] = json.loads(capsys.readouterr().out)
        assert scores[start]["over_time"]["rmse"]["place"][:30] == [None] * 30
    assert scores["measured"]["rmse"] < 1e-3 * scores["rest"]["rmse"]
    assert run([*command, "--split", "train", "--test", "3"]) == 0
    out = capsys.readouterr().out
    assert "linear on other, 9 training samples" in out
    assert "[mm]" in out
    for wrong, message in (
        ([*command, "--start", "measured"], "give its number of times as --burn-in"),
        (["evaluate", str(trained / "run"), "--test", "3"], "give others with --data"),
        ([*command, "--burn-in", "100"], "--burn-in is 100, expected at most 99"),
    ):
        assert run(wrong) == 1
        assert message in capsys.readouterr().err


def test_train_tells_the_error_in_its_unit(trained):
    lines = (trained / "said.txt").read_text().splitlines()
    line = next(line for line in lines if line.startswith("place: RMSE"))
    assert line.endswith(" mm")
