"""Networks on the space-time grid, FNO and U-Net: one battery for both."""

from typing import Any

import pytest
import torch

import tino
from tino.models.operator import Frame
from tino.models.spacetime import SpaceTime
from tino.models.zoo import GridRecipe

NAMES = [name for name, recipe in tino.MODELS.items() if isinstance(recipe, GridRecipe)]
QUICK = tino.TrainConfig(epochs=3, batch_size=12, times=0, lr=3e-3)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("fno", "duffing")]
    + [(name, problem) for name in NAMES for problem in ("burgers-0.1", "heat-triangle", "navier-stokes-ic")],
)
def test_it_learns_saves_and_predicts_the_same(name, problem, small_data, tmp_path):
    train, test = small_data(problem)
    train = train.take(slice(12))
    model = tino.build(name, train)
    before = tino.evaluate(model, train).mse_mean
    tino.fit(model, train, QUICK, show_progress=False)
    assert tino.evaluate(model, train).mse_mean < before
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert torch.equal(tino.predict(again, test.f, test.ic), tino.predict(model, test.f, test.ic))


@pytest.mark.parametrize("name", NAMES)
def test_four_dimensions_and_odd_sizes(name):
    time, box = tino.TimeGrid(0, 1, 5), tino.Periodic(1.0, (6, 4, 4))
    f = torch.randn(2, 5, 96, generator=torch.Generator().manual_seed(0))
    model = tino.build(name, tino.Dataset(f, f.cumsum(1), time, box, box))
    assert model(f).shape == (2, 5, 96)


@pytest.mark.parametrize("name", NAMES)
def test_measured_neither_causal_nor_time_invariant(name, small_data):
    train, test = small_data("burgers-0.1")
    answer = tino.certify(tino.build(name, train), test)
    assert not answer.causal
    assert not answer.time_invariant
    assert answer.derived_causal is None  # measured only


def test_the_triangle_is_embedded_and_read_off(small_data):
    train, _ = small_data("heat-triangle")
    grid: Any = train.outputs
    border = SpaceTime(Frame.of("fno", train))
    f = train.f[:3]
    box = border.encode(f, None)[:, 0]
    assert box.shape == (3, train.time.n, grid.n, grid.n)
    assert bool((box[:, :, ~grid.inside] == 0).all())
    assert torch.equal(box[:, :, grid.inside], f)
    assert torch.equal(border.decode(box), f)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_pairings_are_one_line(name, small_data):
    with pytest.raises(tino.TinoError, match=f"{name} needs inputs and outputs on one grid"):
        tino.build(name, small_data("fitting-space")[0])
    train, _ = small_data("burgers-0.1")
    with_state = tino.Dataset(train.f, train.u, train.time, train.inputs, train.outputs, torch.ones(len(train), 3))
    with pytest.raises(tino.TinoError, match="takes an initial state on the output points"):
        tino.build(name, with_state)


def test_time_only_and_spatial_models_are_not_mixed_up(small_data):
    with pytest.raises(tino.TinoError, match="unet needs outputs in space, duffing has time-only outputs"):
        tino.build("unet", small_data("duffing")[0])
    with pytest.raises(tino.TinoError, match="tdnn has one output signal"):
        tino.build("tdnn", small_data("burgers-0.1")[0])
