"""Training: it learns, it is reproducible, and its loss is the field's MSE."""

import dataclasses
import itertools
import math
import shutil
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import FAMILY, PAIRS, separable
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

import tino
from tino.errors import Stopped
from tino.frame import Frame
from tino.operator import Operator, Properties, Stretches
from tino.progress import progress
from tino.training import loop
from tino.training.batches import draw_times, split
from tino.training.checkpoint import read_checkpoint, write_checkpoint
from tino.training.loop import Watch
from tino.training.objective import Objective, RecordsObjective, StretchesObjective, objective
from tino.training.state import Training
from tino.training.step import Step
from tino.training.weights import ResultWeights

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
        goal = RecordsObjective(model, train, CPU)
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
        ({"patience": 3}, "patience needs validation samples"),
        ({"budget": "soon"}, "budget is 'soon', expected a time such as 60s"),
        ({"budget": "60s", "steps": 3}, "steps and budget both set"),
        ({"epochs": 2.5}, "epochs is 2.5, expected a whole number"),
        ({"epochs": True}, "epochs is True, expected a whole number"),
        ({"epochs": None}, "epochs is None, expected a whole number"),
        ({"steps": "3"}, "steps is '3', expected a whole number"),
        ({"batch_size": [8]}, "batch_size is a list, expected a whole number"),
        ({"times": math.nan}, "times is nan, expected a whole number"),
        ({"lr": math.nan}, "lr is nan, expected a finite number"),
        ({"lr": math.inf}, "lr is inf, expected a finite number"),
        ({"lr": "fast"}, "lr is 'fast', expected a finite number"),
        ({"weight_decay": None}, "weight_decay is None, expected a finite number"),
        ({"clip": True}, "clip is True, expected a finite number"),
        ({"optimizer": ["soap"]}, "optimizer is a list, expected text"),
        ({"budget": 60}, "budget is 60, expected text"),
        ({"compile": "yes"}, "compile is 'yes', expected True or False"),
        ({"seed": 0.5}, "seed is 0.5, expected a whole number"),
        ({"seed": -1}, "seed is -1, expected 0 or more"),
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
    slow = dataclasses.replace(train, time=tino.TimeGrid(0, 20, 24))
    with pytest.raises(tino.TinoError, match="the data's time grid is"):
        tino.fit(model, slow, FAST)
    late = dataclasses.replace(train, time=tino.TimeGrid(1, 11, 24))
    with pytest.raises(tino.TinoError, match="the data's time grid is"):
        tino.fit(tino.build("trtino", train), late, FAST)
    once = dataclasses.replace(FAST, epochs=1)
    tino.fit(model, late, once, show_progress=False)  # it knows no clock, so any start will do


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

    agreed = loop._agreed
    monkeypatch.setattr(loop, "_agreed", lambda run, _, save, look: agreed(run, run.step in (7, 33), save, look))
    for last in (7, 33):
        with pytest.raises(Stopped, match=f"stopped after step {last}; progress is saved"):
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
    whole, model = path.read_bytes(), tino.build("tino", train)
    one_bit = whole[:-1] + bytes([whole[-1] ^ 1])
    for changed in (one_bit, whole[:1000], b"", whole.replace(b'\\"step\\"', b'\\"stem\\"')):
        path.write_bytes(changed)
        with pytest.raises(tino.TinoError, match=r"damaged .*: delete it and train anew$"):
            tino.fit(model, train, FAST, False, path, resume=True)


FORGED = {  # what a checkpoint says, under a fresh checksum
    "no step": lambda state: state.pop("step"),
    "no identity": lambda state: state.update(identity=None),
    "a weight less": lambda state: state["weights"].pop(),
    "no weights": lambda state: state.update(weights=5),
    "another optimiser": lambda state: state.update(optimizer={"state": {}, "param_groups": []}),
    "an unknown history": lambda state: state["history"].update(more=[]),
    "a list": lambda state: state.update(result=[1]),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_checkpoint_is_one_line(how, small_data, tmp_path):
    train, _ = small_data("duffing")
    path, model = tmp_path / "checkpoint.safetensors", tino.build("tino", train)
    tino.fit(model, train, dataclasses.replace(FAST, save_every=0.0), False, path)
    state = read_checkpoint(path)
    FORGED[how](state)
    write_checkpoint(path, state)
    with pytest.raises(tino.TinoError, match="is not a whole checkpoint: delete it and train anew") as caught:
        tino.fit(model, train, FAST, False, path, resume=True)
    assert "\n" not in str(caught.value)


def test_a_loss_that_turns_nan_keeps_the_last_good_state(small_data, tmp_path, monkeypatch):
    train, _ = small_data("duffing")
    path = tmp_path / "checkpoint.safetensors"

    def spoil(self: ResultWeights, step: int) -> None:
        if step == 9:
            with torch.no_grad():
                self.parameters[0].fill_(torch.inf)

    monkeypatch.setattr(ResultWeights, "follow", spoil)
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


def test_a_budget_is_spent_on_training_not_on_slow_validations(small_data, monkeypatch):
    """A hundred of them, 0.1 s each, would take all of it and more; they may take a fifth."""
    train, _ = small_data("duffing")
    looks = []

    def validate(self, step, batch):
        looks.append(step)
        time.sleep(0.1)

    monkeypatch.setattr(ResultWeights, "validate", validate)
    config = tino.TrainConfig(budget="1.5s", batch_size=6, times=4, validation=0.25, device="cpu")
    history = tino.fit(tino.build("trtino", train), train, config, show_progress=False)
    assert looks[0] == 0
    assert looks[-1] == history.steps
    assert len(looks) <= 2 + 4


def test_a_training_that_does_not_help_keeps_its_start(small_data, capsys):
    train, _ = small_data("duffing")
    model = tino.build("trtino", train)
    begun = weights(model).clone()
    far = tino.TrainConfig(steps=3, batch_size=6, optimizer="adam", lr=1.0, validation=0.25, device="cpu")
    tino.fit(model, train, far)
    assert torch.equal(weights(model), begun)
    told = "trtino: training did not lower the error of the held-out records: the weights are those before it"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_flow_is_watched_over_whole_records(average, small_data):
    """It learns from single steps and stretches, and is compared on held-out records that are rolled out."""
    train, _ = small_data("burgers-0.1")
    config = tino.TrainConfig(
        steps=20, batch_size=6, times=4, lr=1e-3, validation=0.25, average=average, precision="float64", device="cpu"
    )
    model = tino.build("flow-tino", train, width=4, layers=1, degree=1)
    history = tino.fit(model, train, config, show_progress=False)
    _, watched = split(train, config)
    assert watched is not None
    start = tino.build("flow-tino", train, width=4, layers=1, degree=1)
    start.solve(train)
    found, begun = (tino.evaluate(one, watched).mse_mean for one in (model, start))
    assert found <= begun
    assert found == pytest.approx(min([begun, *history.validation]), rel=1e-3)


def test_averaged_weights_are_the_result(small_data, monkeypatch):
    train, _ = small_data("duffing")
    seen = []

    follow = ResultWeights.follow

    def watched(self: ResultWeights, step: int) -> None:
        follow(self, step)
        seen.append(torch.cat([p.detach().flatten() for p in self.parameters]))

    monkeypatch.setattr(ResultWeights, "follow", watched)
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


@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
def test_precisions(precision, small_data):
    train, _ = small_data("burgers-0.1")
    ends = []
    for chosen in ("float32", precision):
        model = tino.build("spod-trtino", train)
        before = tino.evaluate(model, train).mse_mean
        tino.fit(model, train, dataclasses.replace(FAST, precision=chosen), show_progress=False)
        assert next(model.parameters()).dtype == torch.float32
        assert tino.evaluate(model, train).mse_mean < before
        ends.append(weights(model))
    assert not torch.equal(*ends)


class Noting(nn.Module):
    """A linear map that notes what products may do, forward and backward."""

    def __init__(self, seen: list[tuple[str, bool, bool]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.seen = nn.Linear(24, 24), seen

    def forward(self, f):
        self.note("forward")
        u = self.linear(f)
        if u.requires_grad:
            u.register_hook(lambda _: self.note("backward"))
        return u

    def note(self, name: str) -> None:
        self.seen.append((name, bool(torch.backends.cuda.matmul.allow_tf32), torch.backends.cudnn.allow_tf32))


@pytest.mark.parametrize("optimizer", ["soap", "adam"])
def test_tf32_is_for_the_gradients_alone(optimizer, small_data):
    """SOAP turns gradients into its bases and back by products of its own, which keep float32. On a CPU it is a switch
    that changes no number."""
    train, _ = small_data("burgers-0.1")
    ends = []
    for precision, allowed in (("tf32", True), ("float32", False)):
        seen: list[tuple[str, bool, bool]] = []
        model = Noting(seen)
        hook = register_optimizer_step_pre_hook(lambda *_, model=model: model.note("update"))
        try:
            config = dataclasses.replace(FAST, precision=precision, optimizer=optimizer)
            tino.fit(model, train, config, show_progress=False)
        finally:
            hook.remove()
        expected = {("forward", allowed, allowed), ("backward", allowed, allowed), ("update", False, False)}
        assert set(seen) == expected
        ends.append(weights(model))
    assert torch.equal(*ends)


@pytest.mark.parametrize(("name", "times"), [("don", 8), ("don", 0), ("pod-don", 8), ("trtino", 8)])
def test_data_that_stay_away_give_the_same_weights(name, times, small_data, monkeypatch):
    """As on a GPU that is too full: the data stay as they are, in float64 and under the host's name of the device,
    where the objective finds none of its own; batches travel one by one."""
    train, _ = small_data("burgers-0.1")
    state = torch.randn(len(train), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    train = dataclasses.replace(train, f=train.f.double(), u=train.u.double(), ic=state)

    def left_there(self: Objective, values: Tensor) -> Tensor:
        self.device = torch.device("cpu:0")  # no tensor ever says so of itself
        return values

    config = dataclasses.replace(FAST, times=times)
    ends = []
    for resident in (True, False):
        if not resident:
            monkeypatch.setattr(Objective, "_placed", left_there)
        model = separable(name, train, project_sensors=False)
        run = Training(model, train, config, CPU)
        assert run.objectives[0].on_device == resident
        if not resident:
            assert run.objectives[0].inputs.dtype == torch.float64
        tino.fit(model, train, config, show_progress=False)
        ends.append(weights(model))
    assert torch.equal(*ends)


def test_a_batch_that_does_not_fit_is_computed_in_parts(small_data, monkeypatch):
    """A GPU's memory that holds five samples: the gradients are those of the whole batch, whatever the parts."""
    train, _ = small_data("burgers-0.1")
    samples = torch.arange(12)

    def gradients(room: int) -> tuple[list[torch.Tensor], float, int]:
        model = tino.build("tino", train).double()
        goal = RecordsObjective(model, train, CPU)
        forward = goal.forward

        def crowded(mine: torch.Tensor, times: torch.Tensor | None) -> torch.Tensor:
            if len(mine) > room:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return forward(mine, times)

        monkeypatch.setattr(goal, "forward", crowded)
        step = Step(goal, torch.optim.SGD(model.parameters(), lr=0.0), FAST)
        loss = float(step(samples, None))
        return [p.grad.clone() for p in model.parameters() if p.grad is not None], loss, step.parts

    whole, loss, parts = gradients(12)
    assert parts == 1
    apart, same, parts = gradients(5)
    assert parts == 4
    assert same == pytest.approx(loss, rel=1e-12)
    for one, other in zip(whole, apart, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12 * float(one.abs().max()))
    with pytest.raises(tino.TinoError, match="a single sample does not fit into the GPU's memory: use device cpu"):
        gradients(0)


def test_the_time_left_counts_what_this_session_did(monkeypatch, capsys):
    clock = iter([0.0, 5.0])
    monkeypatch.setattr("tino.progress.time.monotonic", lambda: next(clock))
    with progress("training", 100.0, done=80.0) as advance:
        advance(10.0)  # ten units in 5 s, ten to go
    assert capsys.readouterr().err == "training: 90 % after 5 s, 5 s left\n"


def test_progress_ends_at_100_percent(monkeypatch, capsys):
    """Totals may be estimates: more work than that is not 106 %, and the end is told once."""
    seconds = iter([0.0, 3.0, 4.0, 5.0])
    monkeypatch.setattr("tino.progress.time.monotonic", lambda: next(seconds))
    with progress("fitting", 10) as advance:
        for _ in range(3):
            advance(9)
    assert capsys.readouterr().err.splitlines() == [
        "fitting: 90 % after 3 s, 0 s left",
        "fitting: 100 % after 4 s",
    ]


def test_a_loss_is_told_once_there_is_one(small_data, monkeypatch):
    monkeypatch.setattr("tino.training.loop.LOOK", 0.0)
    train, _ = small_data("duffing")
    config = tino.TrainConfig(steps=8, batch_size=5)
    notes: list[str] = []
    run = Training(tino.build("tino", train).train(), train, config, CPU)
    watch = Watch(run, None, lambda n=1, note="": notes.append(note), None)
    loop._go(run, run.make_steps(False), [], None, watch)
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
    with pytest.raises(tino.TinoError, match=r"train without compile \(no compiler found\)$"):
        tino.fit(tino.build("don", train), train, config, show_progress=False)


# -- lessons ---------------------------------------------------------------------------------------------------


class LinearStep(Operator):
    """x_i = a x_{i-1} + b f_i from x = 0, u = x: two numbers, learned from pairs of states, then over four steps."""

    learning = (Stretches(1), Stretches(4))
    properties: Any = Properties(True, True, True)

    def __init__(self, frame: Frame, a: float = 0.1, b: float = 0.1) -> None:
        super().__init__()
        self.frame = frame
        self.a, self.b = nn.Parameter(torch.tensor([a])), nn.Parameter(torch.tensor([b]))

    def forward(self, f, ic=None):
        self.check_shapes(f, ic)
        return self.by_steps(f)

    def rest(self, b, ic):
        return self.a.new_zeros(b, 1)

    def _step(self, memory, f_i, i):
        memory = self.a * memory + self.b * f_i
        return memory, memory

    def observe(self, f, u) -> Any:
        return u

    def record(self):
        return {}

    @classmethod
    def from_record(cls, frame, record):
        return cls(frame)


class Lagging(LinearStep):
    """The same with another memory and another sense of time: u_i = x_{i-1} + i / 100, of two channels."""

    learning = (Stretches(3, first=2),)

    def _step(self, memory, f_i, i):
        x, last = memory
        i = torch.as_tensor(i, dtype=f_i.dtype).reshape(-1, 1)
        return (self.a * x + self.b * f_i, x), last + self.b * i / 100

    @property
    def observes(self):
        return 2  # the present and the time before it

    def observe(self, f, u):
        return (u, (u + f).roll(1, 1))

    def normalised(self, u):
        return u / torch.tensor([1.0, 1000.0])


@pytest.fixture
def linear_data() -> tino.Dataset:
    """From a = 0.8, b = 0.5."""
    f = torch.randn(30, 20, 1, generator=torch.Generator().manual_seed(0))
    u, x = torch.zeros_like(f), torch.zeros(30, 1)
    for i in range(20):
        x = 0.8 * x + 0.5 * f[:, i]
        u[:, i] = x
    return tino.Dataset(f, u, tino.TimeGrid(0, 1, 20), tino.Point(), tino.Point())


LESSONS = tino.TrainConfig(steps=240, batch_size=10, times=5, lr=0.03, optimizer="adam", device="cpu")


def test_two_lessons_teach_a_step(linear_data, monkeypatch):
    seen: list[int] = []
    forward = StretchesObjective.forward
    monkeypatch.setattr(
        StretchesObjective, "forward", lambda self, *given: (seen.append(self.steps), forward(self, *given))[1]
    )
    model = LinearStep(Frame.of("linear", linear_data))
    history = tino.fit(model, linear_data, LESSONS, show_progress=False)
    assert float(model.a.detach()) == pytest.approx(0.8, abs=1e-3)
    assert float(model.b.detach()) == pytest.approx(0.5, abs=1e-3)
    assert seen == [1, 4] + [1] * 120 + [4] * 120  # the first two tell the sizes of the errors
    assert history.loss[-1] < 1e-6 < history.loss[0]


@pytest.mark.parametrize("near", [1e-2, 1e-5])
def test_what_a_good_law_leaves_is_learned_as_fast(near, linear_data):
    """The loss is of order one at the start however small the error, or the optimiser's eps would stop it."""
    config = dataclasses.replace(LESSONS, lr=0.03 * near)
    model = LinearStep(Frame.of("linear", linear_data), 0.8 + near, 0.5 - near).double()
    run = Training(model, linear_data, config, CPU)
    for goal in run.objectives:
        assert float(goal(torch.arange(10), None).detach()) * goal.scale == pytest.approx(1.0, rel=0.5)
    tino.fit(model, linear_data, config, show_progress=False)
    assert abs(float(model.a.detach()) - 0.8) < 0.1 * near


def test_lessons_have_their_shares(linear_data):
    model = LinearStep(Frame.of("linear", linear_data))
    model.learning = (Stretches(1, share=3.0), Stretches(2))
    run = Training(model, linear_data, dataclasses.replace(LESSONS, steps=8), CPU)
    lessons = []
    for run.step in range(8):
        lessons.append(run.lesson)
    assert lessons == [0] * 6 + [1] * 2


@pytest.mark.parametrize("lengths", [None, [9, 20, 3, 14]])
@pytest.mark.parametrize("times", [None, [0, 4, 11]])
def test_the_loss_of_stretches_is_a_naive_loop(lengths, times, linear_data):
    """Over samples, first times and steps, from the memory the data show at each; of two channels of unlike size."""
    f = linear_data.f[:4]
    u = torch.cat([linear_data.u[:4], 1000 * f.flip(1)], -1)
    data = dataclasses.replace(
        linear_data,
        f=f,
        u=u,
        output_channels=(tino.Channel("x"), tino.Channel("y")),
        lengths=None if lengths is None else torch.tensor(lengths),
    )
    model = Lagging(Frame.of("lagging", data), 0.7, 0.4)
    goal = objective(model, model.learning[0], data, CPU)
    assert goal.n_t == 20 - 3 - 2
    memory = model.observe(f, u)
    ends = [20] * 4 if lengths is None else lengths
    total, counted, of = 0.0, 0, 0
    for n in range(4):
        for start in range(goal.n_t) if times is None else times:
            now = 2 + start
            own = tuple(part[n, now][None] for part in memory)
            for k in range(1, 4):
                own, answer = model._step(own, f[n, now + k][None], now + k)
                of += 1
                if now + k < ends[n]:
                    error = (answer[0] - u[n, now + k]).detach() / torch.tensor([1.0, 1000.0])
                    total, counted = total + float(error.double().square().mean()), counted + 1
    loss = float(goal(torch.arange(4), None if times is None else torch.tensor(times)).detach())
    if times is None:
        assert loss == pytest.approx(total / counted, rel=1e-5)
    else:  # divided by how many of all there are on average, so that parts of a batch add up
        assert loss == pytest.approx(total / (of * goal.share), rel=1e-5)
        halves = [float(goal(torch.arange(i, i + 2), torch.tensor(times)).detach()) for i in (0, 2)]
        assert sum(halves) / 2 == pytest.approx(loss, rel=1e-5)


def test_a_checkpoint_in_the_second_lesson_goes_on_to_the_same_bytes(linear_data, tmp_path, monkeypatch):
    """In the middle of an epoch of three steps."""
    config = dataclasses.replace(LESSONS, optimizer="soap")
    whole = LinearStep(Frame.of("linear", linear_data))
    expected = tino.fit(whole, linear_data, config, show_progress=False)
    path = tmp_path / "checkpoint.safetensors"
    agreed = loop._agreed
    with monkeypatch.context() as patched:
        patched.setattr(loop, "_agreed", lambda run, _, save, look: agreed(run, run.step == 151, save, look))
        with pytest.raises(Stopped, match="stopped after step 151"):
            tino.fit(LinearStep(whole.frame), linear_data, config, False, path)
    again = LinearStep(whole.frame, 5.0, 5.0)
    found = tino.fit(again, linear_data, config, False, path, resume=True)
    assert torch.equal(weights(again), weights(whole))
    assert found.loss == expected.loss


def test_the_losses_told_do_not_depend_on_when_they_are_fetched(linear_data, monkeypatch):
    """Each is of the lesson that its step belonged to, though it is looked at in a later one."""
    told = []
    for often in (True, False):
        monkeypatch.setattr(loop, "LOOK", 0.0 if often else math.inf)
        model = LinearStep(Frame.of("linear", linear_data))
        run = Training(model, linear_data, dataclasses.replace(LESSONS, steps=30), CPU)
        for goal, weight, constant in zip(run.objectives, (2.0, 3.0), (10.0, 100.0), strict=True):
            goal.weight, goal.constant = weight, constant
        loop._go(run, run.make_steps(False), [], None, Watch(run, None, lambda n=1, note="": None, None))
        told.append(run.history.loss)
    assert told[0] == told[1]
    assert [int(loss >= 100) for loss in told[0]] == [0] * 5 + [1] * 5


def test_stretches_longer_than_the_records_are_one_line(linear_data):
    frame = Frame.of("linear", linear_data)
    with pytest.raises(tino.TinoError, match="linear learns over 20 steps from time 0 on, records have 20 times"):
        objective(LinearStep(frame), Stretches(20), linear_data, CPU)
    short = dataclasses.replace(linear_data, lengths=torch.full((30,), 5))
    with pytest.raises(tino.TinoError, match="linear learns over 1 steps from time 6 on, records have 5 times"):
        objective(LinearStep(frame), Stretches(1, first=6), short, CPU)
    with pytest.raises(tino.TinoError, match="tino does not learn from successive states"):
        objective(tino.build("tino", linear_data), Stretches(1), linear_data, CPU)


class Solved(LinearStep):
    """a and b by least squares, and no gradient."""

    learning = ()

    def solve(self, train, show_progress=False):
        seen = torch.cat([train.u[:, :-1], train.f[:, 1:]], -1).flatten(0, 1)
        found = torch.linalg.lstsq(seen, train.u[:, 1:].flatten(0, 1)).solution
        with torch.no_grad():
            self.a.copy_(found[0])
            self.b.copy_(found[1])


def test_what_is_solved_in_closed_form_takes_no_step(linear_data, monkeypatch):
    monkeypatch.setattr(Step, "__call__", lambda *_: pytest.fail("a step was taken"))
    model = Solved(Frame.of("solved", linear_data))
    history = tino.fit(model, linear_data, LESSONS, show_progress=False)
    assert weights(model).tolist() == pytest.approx([0.8, 0.5], abs=1e-5)
    assert history.loss == []
    assert history.steps == 0
    assert not model.training


def test_what_is_solved_may_learn_on_by_gradients(linear_data):
    model = Solved(Frame.of("solved", linear_data))
    model.learning = (Stretches(1),)
    history = tino.fit(model, linear_data, dataclasses.replace(LESSONS, steps=3, lr=1e-5), show_progress=False)
    assert history.steps == 3
    assert history.loss[0] < 1e-9  # it began where it was solved


# -- records of different lengths, parameters without gradients --------------------------------------------------


@pytest.mark.parametrize("name", ["tino", "tc-don", "pod-tino"])
def test_only_the_times_that_count_enter_the_loss(name, small_data):
    train, _ = small_data("burgers-0.1")
    lengths = torch.randint(3, train.time.n + 1, (len(train),), generator=torch.Generator().manual_seed(0))
    ended = torch.arange(train.time.n) >= lengths[:, None]
    data = dataclasses.replace(train, u=torch.where(ended[..., None], 1e3, train.u), lengths=lengths)
    model = tino.build(name, data)
    goal = RecordsObjective(model, data, CPU)
    with torch.no_grad():
        everything = torch.arange(len(data))
        loss, u = float(goal(everything, None)), model(data.f)
        total, counted = 0.0, 0
        for n in range(len(data)):
            for i in range(int(lengths[n])):
                total += float((u[n, i] - data.u[n, i]).double().square().sum())
                counted += data.outputs.size
        assert goal.weight * loss + goal.constant == pytest.approx(total / counted, rel=1e-4)
        parts = sum(len(part) * float(goal(part, None)) for part in everything.split(7)) / len(data)
        assert parts == pytest.approx(loss, rel=1e-5)
        # drawn times in all their places together: the whole
        n_t = goal.n_t
        drawn = [float(goal(everything, torch.tensor([i]))) for i in range(n_t)]
        assert sum(drawn) / n_t == pytest.approx(loss, rel=1e-5)
    before = tino.evaluate(model, data).mse_mean
    tino.fit(model, data, FAST, show_progress=False)
    assert tino.evaluate(model, data).mse_mean < before


@pytest.mark.parametrize("optimizer", ["soap", "adam", "adamw"])
def test_a_parameter_without_a_gradient_is_left_alone(optimizer, small_data, tmp_path, monkeypatch):
    """And a run with one is stopped and resumed like any other."""
    train, _ = small_data("burgers-0.1")

    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.idle, self.linear = nn.Parameter(torch.ones(3, 3)), nn.Linear(24, 24)

        def forward(self, f):
            return self.linear(f)

    config = dataclasses.replace(FAST, optimizer=optimizer, save_every=0.0)
    model, path = Idle(), tmp_path / "checkpoint.safetensors"
    save = Training.save
    monkeypatch.setattr(Training, "save", lambda run, path: None if run.done() == 1 else save(run, path))
    before = tino.evaluate(model, train).mse_mean
    tino.fit(model, train, config, show_progress=False, checkpoint=path)
    assert tino.evaluate(model, train).mse_mean < before
    assert torch.equal(model.idle, torch.ones(3, 3))
    again = Idle()
    tino.fit(again, train, config, False, path, resume=True)  # from the step before the last
    assert torch.equal(weights(again), weights(model))


def test_other_data_are_refused_on_resuming(linear_data, tmp_path):
    """Also data without a problem, known by the checksum of their file."""
    first, other = (dataclasses.replace(linear_data, meta={"checksum": mark}) for mark in ("one", "other"))
    path = tmp_path / "checkpoint.safetensors"
    config = dataclasses.replace(FAST, steps=4)
    Training(LinearStep(Frame.of("step", linear_data)).train(), first, config, torch.device("cpu")).save(path)
    with pytest.raises(tino.TinoError, match="belongs to a run with data = one, not other"):
        tino.fit(
            LinearStep(Frame.of("step", linear_data)), other, config, show_progress=False, checkpoint=path, resume=True
        )


def test_an_operator_without_parameters_is_one_line(linear_data):
    model = LinearStep(Frame.of("step", linear_data))
    for p in model.parameters():
        p.requires_grad_(False)
    with pytest.raises(
        tino.TinoError, match=r"has no parameters to train: an operator fitted by solve has learning = \(\)"
    ):
        tino.fit(model, linear_data, FAST, show_progress=False)
