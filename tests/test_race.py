"""The race of 'auto': who runs, who wins, why, and that nothing held out or for the test is seen."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tino
from tino import race as module  # pyright: ignore[reportAttributeAccessIssue]
from tino.cli import run
from tino.files import read_json, write_json
from tino.frame import Frame
from tino.holdout import hold_out
from tino.operator import Records
from tino.split import split_records

FEW = tino.TrainConfig(steps=2, device="cpu")


class Gain(tino.Operator):
    """u_i = a f_i + b, a and b by least squares or learned; ``spare`` numbers do nothing."""

    def __init__(self, frame: Frame, how: "Gains") -> None:
        super().__init__()
        self.frame, self.how = frame, how
        self.learning = (Records(),) if how.learns else ()
        self.a, self.spare = (nn.Parameter(torch.zeros(n), requires_grad=how.learns) for n in (1, how.spare))

    @property
    def properties(self) -> tino.Properties:
        return tino.Properties(self.how.causal, self.how.autonomous, True)

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        self.check_shapes(f, ic)
        return (self.a + 0 * self.spare.sum()) * f * (torch.nan if self.how.diverges else 1.0)

    def rest(self, b: int, ic: Tensor | None) -> Tensor:
        return self.a.new_zeros(b, 1)

    def _step(self, memory: Tensor, f_i: Tensor, i: int | Tensor) -> tuple[Tensor, Tensor]:
        return memory, self.a * f_i

    def solve(self, train: tino.Dataset, show_progress: bool = False) -> None:
        if self.how.raises is not None:
            raise self.how.raises
        CLOCK[0] += self.how.takes
        SEEN.append((self.frame.model, train))
        if not self.how.learns:
            f, u = train.rows(train.f), train.rows(train.u)
            self.a.fill_(self.how.factor * float((f * u).sum() / f.square().sum()))

    def record(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_record(cls, frame: Frame, record: Mapping[str, Any]) -> Self:
        return cls(frame, Gains())


@dataclass(frozen=True)
class Gains:
    """How a Gain behaves."""

    factor: float = 1.0  # of the best gain
    learns: bool = False
    takes: float = 0.0  # seconds, of a clock that is not real
    spare: int = 0
    diverges: bool = False
    causal: bool = True
    autonomous: bool = True
    raises: BaseException | None = None

    def __call__(self, name: str, train: tino.Dataset) -> Gain:
        return Gain(Frame.of(name, train), self)


CLOCK, SEEN = [0.0], []


@pytest.fixture
def enter(monkeypatch):
    """enter(good=Gains(), ...): a race of these alone, on a clock that they move, of data that nobody has diagnosed."""

    def of(**entrants: Gains) -> None:
        monkeypatch.setattr(module, "model_to_begin_with", lambda *_: next(iter(entrants)))
        for name, model in list(tino.MODELS.items()):
            monkeypatch.setitem(tino.MODELS, name, dataclasses.replace(model, races=False))
        for name, how in entrants.items():
            monkeypatch.setitem(tino.MODELS, name, tino.Model(Gain, how, name, races=True))

    def undiagnosed(*_: object) -> tino.Diagnosis:
        raise tino.TinoError("nobody asked")

    CLOCK[0] = 0.0
    SEEN.clear()
    monkeypatch.setattr(module, "perf_counter", lambda: CLOCK[0])
    monkeypatch.setattr(module, "diagnose", undiagnosed)
    return of


def data(records: int = 20, times: int = 24, noise: float = 0.1, seed: int = 0) -> tino.Dataset:
    f, e = torch.randn(2, records, times, 1, generator=torch.Generator().manual_seed(seed)).unbind()
    grid = tino.TimeGrid(0.0, 1.0, times)
    return tino.Dataset(f, 2 * f + noise * e, grid, tino.Point(), tino.Point(), meta={"problem": "gain"})


def raced(train: tino.Dataset, config: tino.TrainConfig = FEW) -> tuple[tino.Operator, tino.Race]:
    return tino.auto(train, config, show_progress=False)


def notes(race: tino.Race) -> dict[str, str]:
    return {one.model: one.note for one in race.entrants}


def test_the_least_error_wins_and_is_fitted_again_to_all(enter):
    enter(half=Gains(factor=0.5, takes=3.0), best=Gains(takes=1.0))
    train = data()
    model, race = raced(train)
    part, held = hold_out(train, 5, 100)
    a = float((part.f * part.u).sum() / part.f.square().sum())
    error = float((a * held.f - held.u).square().mean().sqrt() / held.u.std(correction=0))
    half, best = race.entrants
    assert (race.winner, best.error) == ("best", pytest.approx(error, rel=1e-5))
    assert [name for name, _ in SEEN] == ["half", "best", "best"]
    assert len(SEEN[-1][1]) == 20
    assert float(model.state_dict()["a"]) == pytest.approx(float((train.f * train.u).sum() / train.f.square().sum()))
    assert race.held_out == "4 of 20 training records"
    assert half.error is not None
    said = f"best has the least held-out error, {100 * error:.2g} % of the outputs' spread; the next, half, has "
    assert race.reason == (
        f"{said}{100 * half.error:.0f} % and took 3 times as long. It was fitted again to all training data."
    )
    assert race.diagnosis == "assumed causal and autonomous (nobody asked)"
    assert str(race).splitlines()[-1] == race.reason


def test_a_tie_goes_to_the_simpler(enter):
    enter(large=Gains(spare=5), learned=Gains(learns=True), small=Gains(factor=0.995))
    model, race = raced(data())
    assert model.frame.model == race.winner == "small"
    assert f"as good as that of large ({100 * (race.entrants[0].error or 0.0):.2g} %): it has" in race.reason
    assert "): it has 1 parameters, large 6. It was fitted" in race.reason
    enter(exact=Gains(spare=5), near=Gains(factor=1 + 1e-7))  # both are exact in float32
    race = raced(data(noise=0.0))[1]
    assert race.winner == "near"
    exact = "both are below 1e-06 of the spread, which counts as exact, and it has 1 parameters, exact 6."
    assert exact in race.reason


def test_who_fails_is_left_out(enter):
    enter(
        broken=Gains(raises=tino.TinoError("broken needs a grid: give one")),
        large=Gains(raises=RuntimeError("not enough memory")),
        wild=Gains(diverges=True),
        last=Gains(),
    )
    _, race = raced(data())
    assert race.winner == "last"
    assert "last is the only one that finished" in race.reason
    told = {
        "broken": "needs a grid",
        "large": "not enough memory",
        "wild": "predicts NaN or infinite values",
        "last": "",
    }
    assert notes(race) == told
    enter(broken=Gains(raises=tino.TinoError("broken needs a grid")), wild=Gains(diverges=True))
    with pytest.raises(tino.TinoError, match="no model finished the race on gain: broken: needs a grid; wild: p"):
        raced(data())


def test_a_learned_model_that_diverges_is_left_out(enter):
    enter(wild=Gains(learns=True, diverges=True), good=Gains())
    _, race = raced(data())
    assert race.winner == "good"
    assert notes(race)["wild"].startswith("the loss is nan at epoch 1")


def test_the_clock_ends_the_race_but_not_before_one_has_finished(enter):
    enter(slow=Gains(takes=400.0, diverges=True), good=Gains(takes=1.0), late=Gains())
    _, race = raced(data(), tino.TrainConfig(device="cpu"))  # five minutes
    assert race.winner == "good"
    assert notes(race) == {"good": "", "slow": "predicts NaN or infinite values", "late": "no time left"}
    assert race.seconds == 402.0  # "good" twice


def test_learned_models_share_what_is_left(enter, monkeypatch):
    enter(first=Gains(takes=60.0), one=Gains(learns=True, takes=10.0), two=Gains(learns=True))
    budgets = {}

    def fit(model: tino.Operator, train: tino.Dataset, config: tino.TrainConfig, show: bool) -> tino.History:
        budgets[model.frame.model] = config.budget_seconds()
        model.solve(train)
        return tino.History()

    monkeypatch.setattr(module, "fit", fit)
    raced(data(), tino.TrainConfig(budget="200s"))
    assert (budgets["one"], budgets["two"]) == (70.0, 130.0)


def test_a_model_that_promises_less_runs_only_on_data_that_have_less(enter, monkeypatch):
    enter(ahead=Gains(causal=False), clocked=Gains(autonomous=False), plain=Gains())
    refused = {
        "ahead": "not causal, and nothing says that the data are not",
        "clocked": "not autonomous, and nothing says that the data are not",
    }
    assert notes(raced(data())[1]) == {"plain": "", **refused}
    found = tino.diagnose(data(40, noise=0.0), show_progress=False)
    for causal, autonomous, out in ((False, False, []), (True, False, ["ahead"]), (None, None, ["ahead", "clocked"])):
        said = dataclasses.replace(found, causal=causal, autonomous=autonomous, model="plain", network="plain")
        monkeypatch.setattr(module, "diagnose", lambda *_, said=said: said)
        assert {name: note for name, note in notes(raced(data())[1]).items() if note} == {n: refused[n] for n in out}


def test_a_version_with_a_clock_races_beside_its_model(enter, monkeypatch):
    enter(plain=Gains())
    monkeypatch.setitem(tino.MODELS, "plain-clock", tino.Model(Gain, Gains(autonomous=False), "plain-clock"))
    out = {"plain": "", "plain-clock": "not autonomous, and nothing says that the data are not"}
    assert notes(raced(data())[1]) == out
    found = tino.diagnose(data(40, noise=0.0), show_progress=False)
    said = dataclasses.replace(found, autonomous=False, model="plain", network="plain")
    monkeypatch.setattr(module, "diagnose", lambda *_: said)
    assert notes(raced(data())[1]) == {"plain": "", "plain-clock": ""}
    assert "flow-tino-clock" in tino.MODELS


def test_what_is_held_out_is_never_seen(enter):
    """Other outputs there change errors, not what is learned from the rest."""
    enter(learned=Gains(learns=True), fitted=Gains(factor=-30.0))
    train = data()
    part, held = hold_out(train, 5, 100)
    rows = [i for i in range(20) if any(torch.equal(train.f[i], f) for f in held.f)]
    other = train.u.clone()
    other[rows] = torch.randn(len(rows), 24, 1)
    (one, first), (two, second) = raced(train), raced(dataclasses.replace(train, u=other))
    assert first.winner == second.winner == "learned"
    assert torch.equal(one.state_dict()["a"], two.state_dict()["a"])
    assert first.entrants[1].error != second.entrants[1].error
    assert "It is kept as trained on 16 of 20 records." in first.reason
    assert all(torch.equal(seen.u, part.u) for _, seen in SEEN)


def test_a_single_record_is_raced_on_its_last_part(enter):
    enter(good=Gains(), clocked=Gains(autonomous=False))
    train = data(1, 400)
    model, race = raced(train)
    assert race.held_out == "the last 100 of 400 times"
    assert float(model.state_dict()["a"]) == pytest.approx(2.0, rel=0.05)
    other = train.u.clone()
    other[:, 300:] *= -1.0
    seen = SEEN[0][1]
    assert seen.time.n == 300
    raced(dataclasses.replace(train, u=other))
    assert torch.equal(seen.u, SEEN[2][1].u)
    other[:, 300:] = 0.0
    with pytest.raises(tino.TinoError, match="the outputs never change in what is held out"):
        raced(dataclasses.replace(train, u=other))
    with pytest.raises(tino.TinoError, match="gain has 1 record of 3 times, too few to hold some out"):
        raced(data(1, 3))


def rig(path: Path, records: int, times: int, lengths: list[int] | None = None) -> tino.Dataset:
    """x_i = x_{i-1} A + f_i B: three inputs, two outputs in different units."""
    a, b = np.array([[0.9, 0.1], [-0.2, 0.7]]), np.array([[1.0, 0.0], [0.5, 2.0], [0.0, -1.0]])
    f = np.random.default_rng(0).standard_normal((records, times, 3))
    u, x = np.zeros((records, times, 2)), np.zeros((records, 2))
    for i in range(1, times):
        x = x @ a + f[:, i] @ b
        u[:, i] = x
    ends = np.array([times] * records if lengths is None else lengths)
    np.savez(path, f=f, u=u, t=np.linspace(0, 1, times), u_names=["x", "y"], u_units=["mm", "rad"], lengths=ends)
    return tino.read_arrays(path)


@pytest.mark.parametrize("lengths", [None, [120, 80, 50]])
def test_real_models_on_few_records(lengths, tmp_path):
    train = rig(tmp_path / "rig.npz", 1 if lengths is None else 3, 120, lengths)
    model, race = raced(train)
    assert {one.model for one in race.entrants} >= {"linear", "polynomial", "equation", "flow-tino", "tino"}
    closed = min(one.error for one in race.entrants if one.closed and one.error is not None)
    won = next(one.error for one in race.entrants if one.model == race.winner)
    assert won is not None
    assert won <= max(module.ROUNDING, (1 + module.TIE) * closed)  # of those that are as good, the simplest
    assert model.frame.output_size == 2
    assert "same periodic box" in notes(race)["equation"]


def test_a_field_and_the_same_seed(monkeypatch):
    """Of twelve records of a diffusing field, on the grid of its forcing; without the models that take long."""
    for name in ("equation", "flow-tino", "linear-level", "polynomial-sim", "lstm", "gru"):
        monkeypatch.setitem(tino.MODELS, name, dataclasses.replace(tino.MODELS[name], races=False))
    f, u = torch.randn(12, 14, 8, generator=torch.Generator().manual_seed(0)), torch.zeros(12, 14, 8)
    for i in range(1, 14):
        x = u[:, i - 1]
        u[:, i] = x + 0.2 * (x.roll(1, -1) - 2 * x + x.roll(-1, -1)) + 0.1 * f[:, i]
    grid = tino.Periodic(1.0, (8,))
    train = tino.Dataset(f, u, tino.TimeGrid(0.0, 1.0, 14), grid, grid)
    (one, first), (two, second) = raced(train), raced(train)
    assert [e.model for e in first.entrants if e.error is not None] == ["linear", "polynomial", "pod-tino"]
    assert (first.winner, [e.error for e in first.entrants]) == (second.winner, [e.error for e in second.entrants])
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name])


# -- the command ---------------------------------------------------------------------------------------------


def test_the_command_saves_prints_and_reports_the_race(enter, tmp_path, capsys):
    enter(good=Gains(), half=Gains(factor=0.5))
    path, folder = tmp_path / "mine.npz", tmp_path / "run"
    made = data(24)
    np.savez(path, f=made.f[..., 0], u=made.u[..., 0], t=np.linspace(0, 1, 24))
    command = ["train", str(path), "auto", "--device", "cpu", "--out", str(folder)]
    assert run(command) == 0
    out, said = capsys.readouterr()
    kept = read_json(folder / "race.json")
    assert kept["winner"] == read_json(folder / "run.json")["model"] == "good"
    config = read_json(folder / "config.json")
    assert (config["model"], config["training"]["budget"]) == ("auto", "5m")
    assert " ".join(kept["reason"].split()[:6]) in " ".join(out.split())
    row = next(line.split() for line in out.splitlines() if line.startswith("good"))
    assert row[-1] == "winner"
    assert float(row[2]) == pytest.approx(100 * (1 - float(row[1])), abs=0.1)
    assert "race: half, 2 of 2" in said
    assert run(["report", str(folder), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert kept["reason"].replace("'", "&#x27;") in page
    assert "How good was chosen: errors on 4 of 20 training records" in page
    assert run([*command, "--resume"]) == 1  # finished
    capsys.readouterr()
    assert run([*command, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["race"]["winner"] == "good"
    assert run([*command, "--force", "--tensorboard"]) == 1
    assert "a race writes no losses for TensorBoard" in capsys.readouterr().err
    write_json(folder / "race.json", {**kept, "winner": "half"})
    assert run(["report", str(folder), "--out", str(tmp_path / "report")]) == 1
    assert "race.json" in capsys.readouterr().err


def test_the_test_set_plays_no_part(enter, tmp_path):
    enter(learned=Gains(learns=True), fitted=Gains(factor=-30.0))
    made, weights = data(24), []
    _, test = split_records(made, None, None, 0)
    of_test = [i for i in range(24) if any(torch.equal(made.f[i], f) for f in test.f)]
    for scale in (1.0, -30.0):
        u = made.u[..., 0].clone()
        u[of_test] *= scale
        path, folder = tmp_path / "mine.npz", tmp_path / f"run{scale}"
        np.savez(path, f=made.f[..., 0], u=u, t=np.linspace(0, 1, 24))
        assert run(["train", str(path), "auto", "--steps", "2", "--device", "cpu", "--out", str(folder)]) == 0
        weights.append((folder / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_a_race_that_is_stopped_leaves_nothing(enter, tmp_path, capsys):
    enter(good=Gains(), stopped=Gains(raises=KeyboardInterrupt()))
    path, folder = tmp_path / "mine.npz", tmp_path / "run"
    made = data(24)
    np.savez(path, f=made.f[..., 0], u=made.u[..., 0], t=np.linspace(0, 1, 24))
    assert run(["train", str(path), "auto", "--out", str(folder)]) == 130
    assert "nothing half-written is left" in capsys.readouterr().err
    assert not folder.exists()
    folder.mkdir()
    (folder / "checkpoint.safetensors").write_bytes(b"of another run")
    assert run(["train", str(path), "auto", "--out", str(folder), "--resume"]) == 1
    assert "is of a model by its name, not of a race" in capsys.readouterr().err


def test_wrong_calls():
    with pytest.raises(tino.TinoError, match="a model cannot be named 'auto'"):
        tino.register_model("auto", tino.MODELS["tino"])
    with pytest.raises(tino.TinoError, match="config is '5m', expected a tino"):
        tino.auto(data(), "5m")  # pyright: ignore
    with pytest.raises(tino.TinoError, match="the output of gain never changes"):
        raced(dataclasses.replace(data(), u=torch.ones(20, 24, 1)))
