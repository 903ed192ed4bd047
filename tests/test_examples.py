"""Every example runs, learns something, and gives a stated number."""

import importlib.util
from pathlib import Path

import pytest

from tino.problems import base, measure_invariance, problem

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def registry(monkeypatch):
    """Problems an example registers are forgotten afterwards."""
    monkeypatch.setattr(base, "_FACTORIES", dict(base._FACTORIES))


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OWN_RECORDS = ["one_long_record", "many_lengths", "three_inputs_two_outputs", "field_from_hdf5", "boundary_signal"]


@pytest.mark.parametrize("name", OWN_RECORDS)
def test_records_of_your_own_are_learned(name, capsys):
    assert load(name).main() > 95  # fit in %
    assert "fit on" in capsys.readouterr().out


def test_every_example_has_a_row_below():
    assert {p.stem for p in EXAMPLES.glob("*.py")} == {"own_oscillator", "own_equation", "mpc", *OWN_RECORDS}


@pytest.mark.parametrize(
    ("name", "problem_name", "bar"),
    [("own_oscillator", "my-pendulum", 0.3), ("own_equation", "reaction-diffusion", 0.3)],
)
def test_the_example_learns(name, problem_name, bar, registry):
    assert load(name).main(samples=100, epochs=100) < bar  # relative error; an untrained model is near 1
    found = measure_invariance(problem(problem_name))
    assert found.time_invariant


@pytest.mark.parametrize("name", ["own_oscillator", "own_equation"])
def test_a_new_problem_takes_under_twenty_lines(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    definition = text.split("@register")[1].split("\n\n\ndef main")[0]
    assert len([line for line in definition.splitlines() if line.strip()]) < 20


def test_the_controller_follows_its_path(tmp_path):
    error = load("mpc").main(samples=60, seconds=4.0, picture=tmp_path / "mpc.png")
    assert error < 0.02  # without control it is 1
    assert (tmp_path / "mpc.png").stat().st_size > 10_000
