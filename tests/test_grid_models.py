"""Networks on the space-time grid, FNO and U-Net: one battery for both."""

import dataclasses
from typing import Any

import pytest
import torch

import tino
from tino.frame import Frame
from tino.models.fno import Fno
from tino.models.unet import Unet
from tino.parts.spacetime import SpaceTime

NAMES = [name for name, entry in tino.MODELS.items() if issubclass(entry.kind, Fno | Unet)]
QUICK = tino.TrainConfig(epochs=3, batch_size=12, times=0, lr=3e-3)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("fno", "duffing")]
    + [(name, problem) for name in NAMES for problem in ("burgers-0.1", "heat-triangle", "navier-stokes-ic")],
)
def test_it_learns_saves_and_predicts_the_same(name, problem, small_data, tmp_path):
    train = small_data(problem)[0].take(slice(12))
    model = tino.build(name, train)
    before = tino.evaluate(model, train).mse_mean
    tino.fit(model, train, QUICK, show_progress=False)
    assert tino.evaluate(model, train).mse_mean < before
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert torch.equal(tino.predict(again, train.f, train.ic), tino.predict(model, train.f, train.ic))


@pytest.mark.parametrize("name", NAMES)
def test_four_dimensions_and_odd_sizes(name):
    time, box = tino.TimeGrid(0, 1, 5), tino.Periodic(1.0, (6, 4, 4))
    f = torch.randn(2, 5, 96, generator=torch.Generator().manual_seed(0))
    model = tino.build(name, tino.Dataset(f, f.cumsum(1), time, box, box))
    assert model(f).shape == (2, 5, 96)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_measured_is_what_is_declared(name, small_data):
    train, test = small_data("burgers-0.1")
    model = tino.build(name, train)
    found = tino.certify(model, test, show_progress=False)
    declared = model.properties
    assert found.derived == declared
    assert declared.causal is found.causal
    assert found.time_invariant or not declared.time_invariant
    assert declared.reasons or declared.causal
    assert not found.notes


@pytest.mark.parametrize(("name", "problem"), [("fno", "duffing"), ("fno", "burgers-0.1"), ("unet", "heat-triangle")])
def test_without_a_clock_the_time_is_no_channel(name, problem, small_data):
    """The channels are f and x; what is left of t is the ends of the record."""
    train, _ = small_data(problem)
    train = train.take(slice(2))
    model: Any = tino.build(name, train, clock=False)
    with_clock: Any = tino.build(name, train)
    axes = len(train.outputs.points[0])
    assert model.border.channels == 1 + axes
    assert with_clock.border.channels == 2 + axes
    v, seen = (m.border.encode(train.f, None) for m in (model, with_clock))
    assert torch.equal(v, seen[:, [0, *range(2, 2 + axes)]])
    assert torch.equal(v[:, 1:], v[:, 1:, :1].expand_as(v[:, 1:]))  # x is the same at every time
    assert model(train.f).shape == train.u.shape


@pytest.mark.parametrize("name", NAMES)
def test_a_signal_acts_at_every_point_alike(name, small_data):
    """Time-only inputs: the same as a field that is constant in space."""
    train, _ = small_data("heat-triangle")
    train = train.take(slice(2))
    signal = dataclasses.replace(train, f=train.f[:, :, :1], inputs=tino.Point())
    model: Any = tino.build(name, signal)
    grid: Any = train.outputs
    box = model.border.encode(signal.f, None)[:, 0]
    inside = box[:, :, grid.inside]
    assert torch.equal(inside, (signal.f / model.border.scale_in).expand_as(inside))
    assert not box[:, :, ~grid.inside].any()
    assert model(signal.f).shape == train.u.shape


def test_channels_stand_in_their_order():
    """f and ic channel by channel, then the coordinates; every channel of one size."""
    generator = torch.Generator().manual_seed(0)
    grid, time, sizes = tino.Interval(0, 1, 5), tino.TimeGrid(0, 1, 6), torch.tensor([1e3, 1e-3]).repeat_interleave(5)
    f, u = (torch.randn(3, 6, 10, generator=generator) * sizes for _ in range(2))
    two: Any = {f"{side}_channels": (tino.Channel("a"), tino.Channel("b")) for side in ("input", "output")}
    model: Any = tino.build("fno", tino.Dataset(f, u, time, grid, grid, u[:, 0], **two), width=4, modes=2, layers=1)
    v = model.border.encode(f, u[:, 0])
    assert v.shape == (3, 6, 6, 5)
    first, second = slice(0, 5), slice(5, 10)
    for i, part in enumerate((first, second)):
        assert torch.allclose(v[:, i], f[..., part] / f[..., part].square().mean().sqrt(), rtol=1e-5)
        state = u[:, :1, part].expand(-1, 6, -1)
        assert torch.allclose(v[:, 2 + i], state / u[..., part].square().mean().sqrt(), rtol=1e-5)
    assert torch.equal(model.border.coordinates, v[0, 4:])
    c = torch.stack([u[..., first], u[..., second]], 1) / model.border.scale_out.view(2, 1, 1)
    assert torch.allclose(model.border.decode(c), u, rtol=1e-5, atol=0)
    assert torch.allclose(model.normalised(u), c.transpose(1, 2).flatten(2), rtol=1e-5, atol=0)


def test_the_triangle_is_embedded_and_read_off(small_data):
    train, _ = small_data("heat-triangle")
    grid: Any = train.outputs
    border = SpaceTime(Frame.of("fno", train), clock=True)
    f = train.f[:3]
    box = border.encode(f, None)[:, 0]
    assert box.shape == (3, train.time.n, grid.n, grid.n)
    assert bool((box[:, :, ~grid.inside] == 0).all())
    assert torch.equal(box[:, :, grid.inside], f)
    assert torch.equal(border.decode(box[:, None]), f)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_pairings_are_one_line(name, small_data):
    with pytest.raises(tino.TinoError, match=f"{name} needs inputs and outputs on one grid"):
        tino.build(name, small_data("fitting-space")[0])
    train, _ = small_data("burgers-0.1")
    with_state = dataclasses.replace(train, ic=torch.ones(len(train), 3))
    with pytest.raises(tino.TinoError, match="takes an initial state on the output points"):
        tino.build(name, with_state)


def test_time_only_and_spatial_models_are_not_mixed_up(small_data):
    with pytest.raises(tino.TinoError, match=r"unet needs .* duffing has time-only outputs: try polynomial or lstm"):
        tino.build("unet", small_data("duffing")[0])
    with pytest.raises(tino.TinoError, match=r"tdnn supports time-only outputs; burgers-0\.1 has 24 points: use tino"):
        tino.build("tdnn", small_data("burgers-0.1")[0])
