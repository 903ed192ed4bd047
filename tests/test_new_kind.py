"""A new kind of operator, added only in this file, goes through the whole library.

It is causal, keeps a state, and is fitted in closed form: x_i = A x_{i-1} + B f_i, u_i = x_i.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pytest
import torch
from torch import Tensor

import tino
from tino.cli import run
from tino.frame import Frame


class Leaky(tino.Operator):
    """x_i = A x_{i-1} + B f_i with x = 0 before the record, u_i = x_i."""

    learning = ()  # closed form only

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        x, m = frame.output_size, frame.input_size
        self.a = torch.nn.Parameter(torch.zeros(x, x, dtype=torch.float64), requires_grad=False)
        self.b = torch.nn.Parameter(torch.zeros(m, x, dtype=torch.float64), requires_grad=False)

    @property
    def properties(self) -> tino.Properties:
        return tino.Properties(causal=True, autonomous=True, at_rest=True)

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        self.check_shapes(f, ic)
        return self.by_steps(f, ic)

    def rest(self, b: int, ic: Tensor | None) -> Tensor:
        return self.a.new_zeros(b, len(self.a))

    def _step(self, memory: Tensor, f_i: Tensor, i: int | Tensor) -> tuple[Tensor, Tensor]:
        x = memory @ self.a + f_i @ self.b
        return x, x

    def solve(self, train: tino.Dataset, show_progress: bool = False) -> None:
        """Least squares over all pairs of successive valid times."""
        before = torch.cat([torch.zeros_like(train.u[:, :1]), train.u[:, :-1]], 1)
        rows = train.rows(torch.cat([before, train.f], -1)).double()
        found = torch.linalg.lstsq(rows, train.rows(train.u).double()).solution
        self.a.copy_(found[: len(self.a)])
        self.b.copy_(found[len(self.a) :])

    def record(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_record(cls, frame: Frame, record: Mapping[str, Any]) -> Self:
        return cls(frame, **record)


@dataclass(frozen=True)
class LeakyBuilder:
    def __call__(self, name: str, train: tino.Dataset) -> Leaky:
        return Leaky(Frame.of(name, train))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The one registry entry, taken back after the test."""
    monkeypatch.setitem(tino.MODELS, "leaky", tino.Model(Leaky, LeakyBuilder(), "leaky integrator"))


A, B = np.array([[0.9, 0.1], [-0.2, 0.7]]), np.array([[1.0, 0.0], [0.5, 2.0], [0.0, -1.0]])


@pytest.fixture
def rig(tmp_path):
    """Thirty records of a system of that kind: three inputs, two outputs, two lengths."""
    f = np.random.default_rng(0).standard_normal((30, 40, 3))
    u, x = np.zeros((30, 40, 2)), np.zeros((30, 2))
    for i in range(40):
        x = x @ A + f[:, i] @ B
        u[:, i] = x
    lengths = np.where(np.arange(30) % 3 == 0, 25, 40)
    path = tmp_path / "rig.npz"
    np.savez(path, f=f, u=u, t=np.linspace(0, 1, 40), lengths=lengths, u_names=["x", "y"], u_units=["mm", "mm"])
    return path


def test_it_is_trained_scored_certified_and_reported_by_the_commands(rig, tmp_path, capsys):
    folder = tmp_path / "run"
    assert run(["train", str(rig), "leaky", "--out", str(folder), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["mse_mean"] < 1e-20
    assert result["steps"] == 0
    assert (result["optimizer"], result["parameters"]) == ("closed form", 10)
    assert result["causal"]
    assert result["time_invariant"]
    assert run(["evaluate", str(folder), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["mse_mean"] == pytest.approx(result["mse_mean"])
    assert list(scores["channels"]) == ["x", "y"]
    assert json.loads((folder / "scores.json").read_text())["channels"].keys() == scores["channels"].keys()
    assert run(["evaluate", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[-3:]] == ["all", "x [mm]", "y [mm]"]
    assert run(["certify", str(folder)]) == 0
    assert (
        "leaky: causal, autonomous, at rest, time-invariant\n  causal: proved by construction"
        in capsys.readouterr().out
    )
    assert run(["report", str(folder), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert "leaky" in page
    assert "x [mm], y [mm]" in page
    assert "Errors of each output channel." in page
    assert f">{scores['channels']['y']['max_error']:.2e}<".replace("e-0", "e-") in page
    bench = ["bench", "--problems", str(rig), "--models", "leaky", "tdnn", "--epochs", "1", "--device", "cpu"]
    assert run([*bench, "--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]) == 0
    assert run(["report", str(tmp_path / "results"), "--out", str(tmp_path / "tables")]) == 0
    text = (tmp_path / "tables" / "report.md").read_text()
    assert "leaky: in closed form" in text
    assert "paper" not in text


def test_it_streams_saves_and_loads(rig, tmp_path):
    data = tino.read_arrays(rig)
    model = tino.build("leaky", data)
    tino.fit(model, data)
    f = torch.randn(4, 400, 3, dtype=torch.float64)  # ten times as long as in training
    whole = tino.predict(model, f)
    state, u = model.start(f[:, 0])
    for i in range(1, 400):
        assert torch.equal(u, whole[:, i - 1])
        state, u = model.step(state, f[:, i])
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert again.frame == model.frame
    assert torch.equal(tino.predict(again, f), whole)
    assert np.allclose(again.state_dict()["a"].numpy(), A)
    assert np.allclose(again.state_dict()["b"].numpy(), B)
