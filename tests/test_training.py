"""Training: it learns, it is reproducible, and its loss is the field's MSE."""

import dataclasses
import itertools
import math
import shutil
from types import SimpleNamespace

import pytest
import torch
from conftest import FAMILY, PAIRS, separable
from pytorch_optimizer import SOAP

import tino
from tino.errors import Stopped
from tino.progress import progress
from tino.training.batches import draw_times, split
from tino.training.checkpoint import read_checkpoint
from tino.training.loop import Training
from tino.training.objective import Objective
from tino.training.step import Step

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
        goal = Objective(model, train, CPU)
        loss = goal(torch.arange(len(train)), None)
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
    drawn = draw_times(10, 4, 200, generator)
    assert drawn is not None
    for times in drawn.tolist():
        assert all(2.5 * i - 1 < t < 2.5 * (i + 1) for i, t in enumerate(times))
        seen.update(times)
    assert seen == set(range(10))
    assert draw_times(10, 0, 1, generator) is None
    assert draw_times(10, 10, 1, generator) is None


def test_a_loss_that_turns_nan_stops_with_one_line(small_data):
    train, _ = small_data("duffing")
    model = separable("tino", train)
    with torch.no_grad():
        next(model.mixer.parameters()).fill_(torch.nan)
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
        ({"optimizer": "sgd"}, "optimizer is 'sgd', expected one of soap, adam, adamw"),
        ({"precision": "half"}, "precision is 'half', expected one of float32"),
        ({"validation": 1.0}, "validation is 1.0, expected a number from 0 to below 1"),
        ({"patience": 3}, "patience needs samples to watch"),
        ({"budget": "soon"}, "budget is 'soon', expected a time such as 60s"),
        ({"budget": "60s", "steps": 3}, "steps and budget both say"),
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
    with pytest.raises(tino.TinoError, match="tino takes an initial state of 3 numbers"):
        tino.fit(tino.build("tino", with_state), train, FAST)
    with pytest.raises(tino.TinoError, match="initial state has 3 numbers, the model was built for 0"):
        tino.fit(tino.build("tino", train), with_state, FAST)


def test_adam_learns_too(small_data):
    train, _ = small_data("duffing")
    model = tino.build("trtino", train)
    config = tino.TrainConfig(epochs=20, batch_size=12, times=0, optimizer="adam", lr=1e-3)
    history = tino.fit(model, train, config, show_progress=False)
    assert history.loss[-1] < history.loss[0]


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize(("optimizer", "options"), [("soap", {}), ("adam", {"average": 0.9}), ("adamw", {"clip": 1.0})])
def test_a_stopped_run_goes_on_to_the_same_bits(optimizer, options, small_data, tmp_path, monkeypatch):
    """Stopped by a signal in the middle of an epoch, twice, with validation: the weights of an uninterrupted run."""
    train, _ = small_data("burgers-0.1")
    config = tino.TrainConfig(
        steps=60,
        batch_size=5,
        times=8,
        optimizer=optimizer,
        validation=0.25,
        device="cpu",
        weight_decay=0.01,
        **options,
    )
    whole = tino.build("spod-trtino", train)
    expected = tino.fit(whole, train, config, show_progress=False)
    path = tmp_path / "checkpoint.safetensors"

    class Interrupted(Training):
        def agreed(self, stop, save, look):
            return super().agreed(self.step in (7, 33), save, look)

    monkeypatch.setattr("tino.training.loop.Training", Interrupted)
    for last in (7, 33):
        with pytest.raises(Stopped, match=f"stopped after step {last}; the state is kept"):
            tino.fit(tino.build("spod-trtino", train), train, config, False, path, resume=True)
    again = tino.build("spod-trtino", train)
    found = tino.fit(again, train, config, False, path, resume=True)
    assert torch.equal(weights(again), weights(whole))
    assert found.loss == expected.loss
    assert found.validation == expected.validation


def test_a_checkpoint_of_another_run_is_refused(small_data, tmp_path):
    train, _ = small_data("duffing")
    path = tmp_path / "checkpoint.safetensors"
    often = dataclasses.replace(FAST, save_every=0.0)
    tino.fit(tino.build("tino", train), train, often, False, path)
    other = dataclasses.replace(FAST, lr=1e-4)
    with pytest.raises(tino.TinoError, match=r"belongs to a run with lr = 0.003, not 0.0001: give the same options"):
        tino.fit(tino.build("tino", train), train, other, False, path, resume=True)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(tino.TinoError, match="is damaged or no checkpoint"):
        tino.fit(tino.build("tino", train), train, FAST, False, path, resume=True)


def test_a_loss_that_turns_nan_keeps_the_last_good_state(small_data, tmp_path, monkeypatch):
    train, _ = small_data("duffing")
    path = tmp_path / "checkpoint.safetensors"

    class Bad(Training):
        def update_average(self):
            if self.step == 9:
                with torch.no_grad():
                    self.parameters[0].fill_(torch.inf)

    monkeypatch.setattr("tino.training.loop.Training", Bad)
    with pytest.raises(tino.TinoError, match="the weights are not finite after step 9"):
        tino.fit(tino.build("tino", train), train, dataclasses.replace(FAST, save_every=0.0), False, path)
    assert read_checkpoint(path)["step"] == 8
    assert all(bool(torch.isfinite(w).all()) for w in read_checkpoint(path)["weights"])


def test_validation_chooses_the_best_weights_and_stops_early(small_data):
    train, _ = small_data("duffing")
    config = tino.TrainConfig(epochs=200, batch_size=6, times=4, lr=0.05, validation=0.25, patience=3, device="cpu")
    model = tino.build("trtino", train)
    history = tino.fit(model, train, config, show_progress=False)
    assert history.steps < 200 * 3  # 18 samples are fitted, 6 watched
    _, watched = split(train, config)
    assert watched is not None
    assert len(watched) == 6
    best = min(value for value in history.validation if not math.isnan(value))
    assert tino.evaluate(model, watched).mse_mean == pytest.approx(best, rel=1e-3)


def test_averaged_weights_are_the_result(small_data, monkeypatch):
    train, _ = small_data("duffing")
    seen = []

    class Watched(Training):
        def update_average(self):
            super().update_average()
            seen.append(weights(self.model))

    monkeypatch.setattr("tino.training.loop.Training", Watched)
    model = tino.build("trtino", train)
    tino.fit(model, train, dataclasses.replace(FAST, average=0.8), show_progress=False)
    start = mean = weights(tino.build("trtino", train))
    for step, latest in enumerate(seen, 1):
        decay = min(0.8, step / (step + 9))
        mean = decay * mean + (1 - decay) * latest
    assert torch.allclose(weights(model), mean, atol=1e-6)
    assert not torch.allclose(weights(model), start, atol=1e-3)


def test_a_budget_is_kept_and_the_rate_follows_the_clock(small_data):
    train, _ = small_data("duffing")
    config = tino.TrainConfig(budget="1.5s", batch_size=12, times=8, device="cpu")
    history = tino.fit(tino.build("tino", train), train, config, show_progress=False)
    assert history.steps > 3
    assert history.lr[-1] < 0.2 * max(history.lr)


@pytest.mark.parametrize("precision", ["float64", "bfloat16", "tf32"])
def test_precisions(precision, small_data):
    train, _ = small_data("burgers-0.1")
    model = tino.build("spod-trtino", train)
    before = tino.evaluate(model, train).mse_mean
    tino.fit(model, train, dataclasses.replace(FAST, precision=precision), show_progress=False)
    assert next(model.parameters()).dtype == torch.float32
    assert tino.evaluate(model, train).mse_mean < before


def test_tf32_is_for_the_gradients_alone(small_data, monkeypatch):
    """SOAP turns gradients into its bases and back by products of its own, which keep float32."""
    train, _ = small_data("burgers-0.1")
    seen: list[tuple[str, bool]] = []

    def noted(name: str, call):
        return lambda *a, **k: (seen.append((name, bool(torch.backends.cuda.matmul.allow_tf32))), call(*a, **k))[1]

    monkeypatch.setattr(Objective, "forward", noted("forward", Objective.forward))
    monkeypatch.setattr(torch.Tensor, "backward", noted("backward", torch.Tensor.backward))
    monkeypatch.setattr(SOAP, "step", noted("update", SOAP.step))
    config = dataclasses.replace(FAST, precision="tf32", optimizer="soap")
    tino.fit(tino.build("spod-trtino", train), train, config, show_progress=False)
    assert set(seen) == {("forward", True), ("backward", True), ("update", False)}


def test_data_that_stay_away_give_the_same_weights(small_data, monkeypatch):
    """As on a GPU that is too full: batches travel one by one."""
    train, _ = small_data("burgers-0.1")
    ends = []
    for resident in (True, False):
        if not resident:
            monkeypatch.setattr(Objective, "_settle", lambda self, values: values)
            monkeypatch.setattr(Objective, "_take", lambda self, values, index: values[index].clone())
        model = tino.build("don", train)
        tino.fit(model, train, FAST, show_progress=False)
        ends.append(weights(model))
    assert torch.equal(*ends)


def test_a_batch_that_does_not_fit_is_computed_in_parts(small_data, monkeypatch):
    """A GPU's memory that holds five samples: the gradients are those of the whole batch, whatever the parts."""
    train, _ = small_data("burgers-0.1")
    samples = torch.arange(12)

    def gradients(room: int) -> tuple[list[torch.Tensor], float, int]:
        model = tino.build("tino", train).double()
        objective = Objective(model, train, CPU)
        forward = objective.forward

        def crowded(mine: torch.Tensor, times: torch.Tensor | None) -> torch.Tensor:
            if len(mine) > room:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return forward(mine, times)

        monkeypatch.setattr(objective, "forward", crowded)
        step = Step(objective, torch.optim.SGD(model.parameters(), lr=0.0), FAST)
        loss = float(step(samples, None))
        return [p.grad.clone() for p in model.parameters() if p.grad is not None], loss, step.parts

    whole, loss, parts = gradients(12)
    assert parts == 1
    apart, same, parts = gradients(5)
    assert parts == 4
    assert same == pytest.approx(loss, rel=1e-12)
    for one, other in zip(whole, apart, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12 * float(one.abs().max()))
    with pytest.raises(tino.TinoError, match="a single sample does not fit"):
        gradients(0)


def test_the_time_left_counts_what_this_session_did(monkeypatch, capsys):
    clock = iter([0.0, 5.0])
    monkeypatch.setattr("tino.progress.time.monotonic", lambda: next(clock))
    with progress("training", 100.0, done=80.0) as advance:
        advance(10.0)  # ten units in 5 s, ten to go
    assert capsys.readouterr().err == "training: 90 % after 5 s, 5 s left\n"


def test_a_loss_is_told_once_there_is_one(small_data, monkeypatch):
    monkeypatch.setattr("tino.training.loop.LOOK", 0.0)
    train, _ = small_data("duffing")
    config = tino.TrainConfig(steps=8, batch_size=5)
    notes: list[str] = []
    run = Training(tino.build("tino", train).train(), train, config, CPU)
    run.go(run.prepare(False), [], None, lambda n=1, note="": notes.append(note), None)
    assert not any("nan" in note for note in notes)
    assert "loss" not in notes[0]
    assert "loss" in notes[-1]


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of torch.jit
def test_a_compiled_training_ends_where_a_plain_one_does(small_data, capsys):
    """With a smaller batch at the end of an epoch: both sizes are compiled before the first step."""
    train, _ = small_data("burgers-0.1")
    config = dataclasses.replace(FAST, optimizer="adam", epochs=4, batch_size=10, times=0)
    ends = []
    for compiled in (False, True):
        model = tino.build("pod-don", train)
        tino.fit(model, train, dataclasses.replace(config, compile=compiled))
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.allclose(*ends, rtol=0, atol=1e-3 * float(ends[0].abs().max()))
    said = [line for line in capsys.readouterr().err.splitlines() if "compiling" in line]
    assert said == [f"compiling pod-don for batches of {size}: up to a minute" for size in (10, 4)]


def test_a_budget_is_not_spent_on_compiling(small_data, monkeypatch):
    """By a clock that goes on by 10 ms at each look, and by 100 s while the model is compiled."""
    train, _ = small_data("duffing")
    clock = itertools.accumulate(itertools.repeat(0.01))
    compiling = []

    def slowly(objective, dynamic):
        class Compiled(torch.nn.Module):
            def forward(self, *given):
                if not compiling:
                    compiling.append(100.0)
                return objective(*given)

        return Compiled()

    monkeypatch.setattr(torch, "compile", slowly)
    monkeypatch.setattr("tino.training.loop.time", SimpleNamespace(perf_counter=lambda: next(clock) + sum(compiling)))
    config = tino.TrainConfig(budget="0.5s", optimizer="adam", compile=True, device="cpu")
    assert tino.fit(tino.build("pod-don", train), train, config, show_progress=False).steps > 2


def test_where_torch_cannot_compile_the_error_says_what_to_do(small_data, monkeypatch):
    from torch._dynamo.exc import TorchDynamoException

    train, _ = small_data("burgers-0.1")

    def refuses(objective, dynamic):
        class Refusing(torch.nn.Module):
            def forward(self, *_):
                raise TorchDynamoException("no compiler found\nand a long story")

        return Refusing()

    monkeypatch.setattr(torch, "compile", refuses)
    config = dataclasses.replace(FAST, compile=True)
    with pytest.raises(tino.TinoError, match=r"leave out --compile \(no compiler found\)$"):
        tino.fit(tino.build("don", train), train, config, show_progress=False)
