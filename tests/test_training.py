"""Training: it learns, it is reproducible, and its loss is the field's MSE."""

import dataclasses
import math

import pytest
import torch
from conftest import FAMILY, PAIRS, separable

import tino
from tino.training.loop import draw_times, objective

CPU = torch.device("cpu")
FAST = tino.TrainConfig(epochs=20, batch_size=12, times=8, lr=3e-3, device="cpu")


@pytest.mark.parametrize(("problem", "name"), PAIRS)
def test_every_pair_learns_saves_and_predicts_the_same(problem, name, small_data, tmp_path):
    train, test = small_data(problem)
    model = tino.build(name, train)
    before = tino.evaluate(model, train).mse_mean
    history = tino.fit(model, train, FAST, show_progress=False)
    assert len(history.loss) == 20
    assert tino.evaluate(model, train).mse_mean < before
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert torch.equal(tino.predict(again, test.f, test.ic), tino.predict(model, test.f, test.ic))


@pytest.mark.parametrize("name", ["don", "spod-trtino"])
def test_one_seed_gives_the_same_bytes(name, small_data, tmp_path):
    train, _ = small_data("burgers-0.1")
    files = []
    for folder in ("a", "b"):
        model = tino.build(name, train, seed=3)
        tino.fit(model, train, FAST, show_progress=False)
        model.save(tmp_path / folder)
        files.append((tmp_path / folder / "model.safetensors").read_bytes())
    assert files[0] == files[1]
    other = tino.build(name, train, seed=3)
    tino.fit(other, train, dataclasses.replace(FAST, seed=1), show_progress=False)
    other.save(tmp_path / "c")
    assert (tmp_path / "c" / "model.safetensors").read_bytes() != files[0]


@pytest.mark.parametrize("name", FAMILY)
def test_the_objective_is_the_mse_of_the_field(name, small_data):
    """In coefficient space or not, weight · mean square + constant is eq_loss_func."""
    train, _ = small_data("burgers-0.1")
    model = tino.build(name, train)
    with torch.no_grad():
        goal = objective(model, train, CPU)
        loss = (goal.output(goal.inputs, goal.ic, None) - goal.target).square().mean()
        field = (model(train.f) - train.u).square().mean()
    assert float(goal.weight * loss + goal.constant) == pytest.approx(float(field), rel=1e-4)


def test_any_module_can_be_trained(small_data):
    train, _ = small_data("burgers-0.1")

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(24, 24)

        def forward(self, f, ic=None):
            return self.linear(f)

    torch.manual_seed(0)
    model = Plain()
    before = tino.evaluate(model, train).mse_mean
    tino.fit(model, train, FAST, show_progress=False)
    assert tino.evaluate(model, train).mse_mean < before


def test_times_are_drawn_one_from_each_stretch():
    generator = torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(200):
        times = draw_times(10, 4, generator)
        assert times is not None
        assert all(2.5 * i - 1 < t < 2.5 * (i + 1) for i, t in enumerate(times.tolist()))
        seen.update(times.tolist())
    assert seen == set(range(10))
    assert draw_times(10, 0, generator) is None
    assert draw_times(10, 10, generator) is None


def test_a_loss_that_turns_nan_stops_with_one_line(small_data):
    train, _ = small_data("duffing")
    model = separable("tino", train)
    with torch.no_grad():
        model.mixer.bias.fill_(torch.nan)
    with pytest.raises(tino.TinoError, match="the loss is nan at epoch 1, learning rate"):
        tino.fit(model, train, FAST, show_progress=False)


def test_history_is_a_table():
    history = tino.History([1.0, 0.5], [1e-3, 1e-4], [0.1, 0.2])
    lines = history.csv().splitlines()
    assert lines[0] == "epoch,loss,lr,seconds"
    assert math.isclose(float(lines[2].split(",")[1]), 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs is 0, expected 1 or more"),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"times": -1}, "times is -1"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"optimizer": "sgd"}, "optimizer is 'sgd', expected 'soap' or 'adam'"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(tino.TinoError, match=message):
        tino.TrainConfig(**options)


def test_a_missing_gpu_and_other_grids_are_one_line(small_data):
    train, _ = small_data("duffing")
    model = tino.build("tino", train)
    with pytest.raises(tino.TinoError, match="no device 'gpu'"):
        tino.fit(model, train, tino.TrainConfig(device="gpu"))
    if not torch.cuda.is_available():
        with pytest.raises(tino.TinoError, match="torch sees no GPU here"):
            tino.fit(model, train, tino.TrainConfig(device="cuda"))
    late = tino.Dataset(train.f, train.u, tino.TimeGrid(1, 11, 24), train.inputs, train.outputs)
    with pytest.raises(tino.TinoError, match="the data's time grid is"):
        tino.fit(model, late, FAST)


def test_the_learning_rate_warms_up_and_falls(small_data):
    train, _ = small_data("duffing")
    config = tino.TrainConfig(epochs=40, batch_size=24, times=4, lr=1e-3, optimizer="adam")
    lr = tino.fit(tino.build("tino", train), train, config, show_progress=False).lr
    assert max(lr) == pytest.approx(1e-3, rel=1e-2)
    assert lr.index(max(lr)) <= 3
    assert lr[-1] < 1e-8
    assert lr[3:] == sorted(lr[3:], reverse=True)


@pytest.mark.parametrize("name", ["don", "tino", "spod-trtino"])
def test_float64_data_and_models_work(name, small_data, tmp_path):
    train, test = small_data("burgers-0.1")
    wide = dataclasses.replace(train, f=train.f.double(), u=train.u.double())
    model = tino.build(name, wide)
    tino.fit(model, wide, dataclasses.replace(FAST, epochs=1), show_progress=False)
    tino.fit(model.double(), train, dataclasses.replace(FAST, epochs=1), show_progress=False)
    model.save(tmp_path)
    assert torch.equal(tino.predict(tino.load(tmp_path), test.f.double()), tino.predict(model, test.f.double()))


def test_states_are_checked_in_training_too(small_data):
    train, _ = small_data("burgers-0.1")
    with_state = dataclasses.replace(train, ic=torch.zeros(len(train), 3))
    with pytest.raises(tino.TinoError, match="initial state has 0 numbers, the model was built for 3"):
        tino.fit(tino.build("tino", with_state), train, FAST)
    with pytest.raises(tino.TinoError, match="initial state has 3 numbers, the model was built for 0"):
        tino.fit(tino.build("tino", train), with_state, FAST)


def test_adam_learns_too(small_data):
    train, _ = small_data("duffing")
    model = tino.build("trtino", train)
    config = tino.TrainConfig(epochs=20, batch_size=12, times=0, optimizer="adam", lr=1e-3)
    history = tino.fit(model, train, config, show_progress=False)
    assert history.loss[-1] < history.loss[0]
