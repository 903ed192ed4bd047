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


def test_every_example_has_a_row_below():
    assert {p.stem for p in EXAMPLES.glob("*.py")} == {"own_oscillator", "own_equation"}


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
