"""The U-Net: its 4-D substitute against loops, and the network on every kind of grid."""

import pytest
import torch

import tino
from tino.models.unet import SpaceThenTime, _double, _halve

QUICK = tino.TrainConfig(epochs=3, batch_size=12, times=0, lr=3e-3)


def test_space_then_time_is_one_convolution_after_the_other():
    torch.manual_seed(0)
    layer = SpaceThenTime(2, 3).double()
    v = torch.randn(2, 2, 5, 4, 3, 4, dtype=torch.float64)
    in_space = torch.stack([layer.space(v[:, :, t]) for t in range(5)], dim=2)
    expected = torch.empty(2, 3, 5, 4, 3, 4, dtype=torch.float64)
    for i in range(4):
        for j in range(3):
            for k in range(4):
                expected[..., i, j, k] = layer.time(in_space[..., i, j, k])
    assert torch.allclose(layer(v), expected, atol=1e-12)


def test_halving_takes_the_largest_and_doubling_repeats():
    v = torch.arange(8.0).view(1, 1, 2, 4)
    assert _halve(v).flatten().tolist() == [5.0, 7.0]
    assert _double(_halve(v)).flatten().tolist() == [5.0, 5.0, 7.0, 7.0] * 2


@pytest.mark.parametrize("problem", ["burgers-0.1", "heat-triangle", "navier-stokes-ic"])
def test_unet_learns_saves_and_predicts_the_same(problem, small_data, tmp_path):
    train, test = small_data(problem)
    train = train.take(slice(12))
    model = tino.build("unet", train)
    before = tino.evaluate(model, train).mse_mean
    tino.fit(model, train, QUICK, show_progress=False)
    assert tino.evaluate(model, train).mse_mean < before
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert torch.equal(tino.predict(again, test.f, test.ic), tino.predict(model, test.f, test.ic))


def test_unet_in_four_dimensions_and_odd_sizes():
    time, box = tino.TimeGrid(0, 1, 5), tino.Periodic(1.0, (6, 4, 4))
    f = torch.randn(2, 5, 96, generator=torch.Generator().manual_seed(0))
    model = tino.build("unet", tino.Dataset(f, f.cumsum(1), time, box, box))
    assert model(f).shape == (2, 5, 96)


def test_unet_is_measured_not_causal(small_data):
    train, test = small_data("burgers-0.1")
    answer = tino.certify(tino.build("unet", train), test)
    assert not answer.causal
    assert answer.derived_causal is None


def test_wrong_pairings_are_one_line(small_data):
    with pytest.raises(tino.TinoError, match="unet needs outputs in space, duffing has time-only outputs"):
        tino.build("unet", small_data("duffing")[0])
    with pytest.raises(tino.TinoError, match="unet needs inputs and outputs on one grid"):
        tino.build("unet", small_data("fitting-space")[0])
    train, _ = small_data("burgers-0.1")
    with_state = tino.Dataset(train.f, train.u, train.time, train.inputs, train.outputs, torch.ones(len(train), 3))
    with pytest.raises(tino.TinoError, match="takes an initial state on the output points"):
        tino.build("unet", with_state)
