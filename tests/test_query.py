"""Answers at other times and points: the grid's where they meet, the parts' own formula between, else refused."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from conftest import BUILDERS, FAMILY, GLOBAL, TIME_ONLY, separable

import tino
from tino.parts.bases import PodModes, Trunk
from tino.parts.features import coordinate_features
from tino.parts.mixers import MaskedMixer
from tino.parts.spectral import SpectralConv

ROUNDING = 1e-12  # in float64, of the largest |u|
FLOAT32 = 1e-5
FIXED_IN_TIME = [name for name, recipe in BUILDERS.items() if recipe.basis is PodModes and recipe.of_time]
ANY_TIME = [name for name in GLOBAL if name not in FIXED_IN_TIME]
LAST_TIME = [name for name, recipe in BUILDERS.items() if recipe.mixer is MaskedMixer]
GRID_TIMES = [name for name in FAMILY if name not in ANY_TIME + LAST_TIME]
ANY_POINT = [name for name in FAMILY if BUILDERS[name].basis is Trunk]
GRID_POINTS = [name for name in FAMILY if name not in ANY_POINT]


def close(one: torch.Tensor, other: torch.Tensor, tolerance: float = ROUNDING) -> bool:
    return one.shape == other.shape and float((one - other).abs().max()) <= tolerance * float(other.abs().max())


@pytest.fixture
def burgers(small_data):
    train, test = small_data("burgers-0.1")
    return train, test.f[:3].double()


@pytest.mark.parametrize("name", [name for name in tino.MODELS if name not in (*TIME_ONLY, "polynomial-sim")])
def test_on_the_grid_it_is_the_model(name, burgers):
    train, f = burgers
    model = tino.build(name, train).double().eval()
    with torch.no_grad():
        expected = model(f)
    assert close(model.query(f), expected)
    t, y = train.time.points[[3, 0, 19]], train.outputs.points[[7, 2]]
    assert close(model.query(f, t, y), expected[:, [3, 0, 19]][:, :, [7, 2]])


@pytest.mark.parametrize("name", [*ANY_TIME, *LAST_TIME])
def test_between_grid_times(name, burgers):
    """The mixer sees the past up to the last t_i <= t (or everything), the functions of t see t itself."""
    train, f = burgers
    model = separable(name, train).double().eval()
    h = train.time.step
    between = train.time.points[5] + 0.4 * h
    answer = model.query(f, [float(between)])
    kicked = f.clone()
    kicked[:, 6:] += 0.3
    unmoved = torch.equal(model.query(kicked, [float(between)]), answer)
    assert unmoved == (name in LAST_TIME)
    # continuity from the right in the functions of t: close to t_5 the answer is the grid's
    near = model.query(f, [float(train.time.points[5]) + 1e-7 * h])
    on = model.query(f, [float(train.time.points[5])])
    assert torch.allclose(near, on, atol=1e-5)
    assert not torch.allclose(answer, on, atol=1e-9)


@pytest.mark.parametrize("name", GRID_TIMES)
def test_a_delay_knows_grid_times_only(name, burgers):
    train, f = burgers
    between = float(train.time.points[5]) + 0.4 * train.time.step
    with pytest.raises(tino.TinoError, match=f"{name} can be queried only at grid times; .* the nearest is"):
        tino.build(name, train).double().query(f, [between])


@pytest.mark.parametrize("name", ANY_POINT)
def test_between_grid_points(name, burgers):
    train, f = burgers
    model = separable(name, train).double().eval()
    assert isinstance(model.basis, Trunk)
    x = train.outputs.points
    y = x[4:6].mean(0, keepdim=True)
    times = train.time.points[[2, 9]]
    with torch.no_grad():
        seen = torch.tensor([2, 9])
        tau = None if model.time_factor is None else model.time_factor(seen)
        c = model._coefficients(model.sensors(f), None, seen, tau).expand(-1, 2, -1)
        s = 2 * (y - x.min()) / (x.max() - x.min()) - 1
        waves = [torch.sin(k * torch.pi / 2 * s) for k in range(1, 9)] + [
            torch.cos(k * torch.pi / 2 * s) for k in range(1, 9)
        ]
        features = torch.cat([s, *waves], dim=1)
        for i in range(2):
            seen = features
            if model.basis.of_time:
                seen = torch.cat([model.basis.features[[2, 9][i], :1, :25], features], dim=1)
            expected = (c[:, i] * model.basis.net(seen)).sum(-1)
            assert close(model.query(f, times, y)[:, i, 0], expected)


@pytest.mark.parametrize("name", [*GRID_POINTS, "fno"])
def test_pod_modes_know_grid_points_only(name, burgers):
    train, f = burgers
    y = train.outputs.points[4:6].mean(0, keepdim=True)
    with pytest.raises(tino.TinoError, match=f"{name} is defined only at the grid points"):
        tino.build(name, train).double().query(f, None, y)


def test_what_query_refuses(burgers):
    train, f = burgers
    model = tino.build("don", train).double()
    with pytest.raises(tino.TinoError, match=r"t reaches from .*, this record covers"):
        model.query(f, [train.time.stop + 1])
    with pytest.raises(tino.TinoError, match="y has shape"):
        model.query(f, None, torch.zeros(3))
    with pytest.raises(tino.TinoError, match="t has shape"):
        model.query(f, [])


def test_an_initial_state_enters_too(small_data):
    train, test = small_data("navier-stokes-ic")
    model = tino.build("don", train).eval()
    with torch.no_grad():
        assert close(model.query(test.f[:2], ic=test.ic[:2]), model(test.f[:2], test.ic[:2]), FLOAT32)


@pytest.mark.parametrize("name", [name for name in FAMILY if name not in GLOBAL])
def test_the_first_part_of_a_record(name, burgers):
    train, f = burgers
    model = tino.build(name, train).double().eval()
    whole = model.query(f)
    assert close(model.query(f[:, :7]), whole[:, :7])
    with pytest.raises(tino.TinoError, match=r"this record covers \[0, .*\]$"):
        model.query(f[:, :7], [train.time.stop])


@pytest.mark.parametrize("name", FAMILY)
def test_times_in_float32_are_grid_times(name, burgers):
    train, f = burgers
    model = tino.build(name, train).double().eval()
    assert close(model.query(f, train.time.points.float()), model.query(f), 1e-6)  # times of float32 are a little off


@pytest.mark.parametrize("name", TIME_ONLY)
def test_time_only_models(name, small_data):
    train, test = small_data("duffing")
    model, f = tino.build(name, train).double().eval(), test.f.double()
    with torch.no_grad():
        expected = model(f)
    assert close(model.query(f), expected)
    assert close(model.query(f, train.time.points[[5, 2]]), expected[:, [5, 2]])
    with pytest.raises(tino.TinoError, match="only at grid times"):
        model.query(f, [0.3 * train.time.step])


def test_inputs_are_checked_and_cast(burgers, small_data):
    train, f = burgers
    model = tino.build("don", train)
    assert torch.equal(model.query(f), model.query(f.float()))  # the data were float32
    for wrong, message in ((f.numpy(), "must be a torch tensor"), (f * torch.nan, "NaN"), (f[:, :, :-1], "24, 23")):
        with pytest.raises(tino.TinoError, match=message):
            model.query(wrong)
    fitted, other = small_data("fitting-space")
    with pytest.raises(tino.TinoError, match="y leaves the domain"):
        tino.build("tino", fitted).query(other.f, None, torch.tensor([[9.0]]))
    windows, test = small_data("navier-stokes-ic")
    with pytest.raises(tino.TinoError, match=r"ic has shape \(1, 576\), expected \(2, 576\)"):
        tino.build("don", windows).query(test.f[:2], ic=test.ic[:1])


@pytest.mark.parametrize("name", ["pod-tino", "tc-don", "fno"])
def test_the_state_matters(name, small_data):
    train, test = small_data("navier-stokes-ic")
    model = tino.build(name, train).eval()
    one, other = (model.query(test.f[:1], ic=ic) for ic in (test.ic[:1], -test.ic[:1]))
    assert not torch.allclose(one, other, rtol=1e-3)


def test_a_periodic_point_is_the_same_a_length_further(burgers):
    train, f = burgers
    model = tino.build("tino", train).double()
    y = torch.tensor([[0.3]], dtype=torch.float64)
    assert torch.allclose(model.query(f, None, y), model.query(f, None, y + train.outputs.length), atol=1e-10)


def test_several_channels_follow_one_another(small_data):
    """At chosen points: all of the first channel, then all of the second."""
    train, test = small_data("burgers-0.1")
    pair = (tino.Channel("speed"), tino.Channel("heat"))
    both = tino.Dataset(
        train.f, torch.cat([train.u, 1e3 + train.u], 2), train.time, train.inputs, train.outputs, output_channels=pair
    )
    f, points, x = test.f[:2].double(), [7, 2], train.outputs.size
    for name in (
        name for name in tino.MODELS if name not in (*TIME_ONLY, "equation", "polynomial-sim")
    ):  # which has one channel
        model = tino.build(name, both).double().eval()
        with torch.no_grad():
            expected = model(f)[:, :, [*points, *[x + i for i in points]]]
        assert close(model.query(f, None, train.outputs.points[points]), expected), name


def casts(module: Any) -> Iterator[Any]:
    """Cast to float64 once, and again after float32."""
    yield module.double()
    assert all(v.dtype == torch.float32 for v in module.float().buffers() if v.is_floating_point())
    yield module.double()


def times_of(time: tino.TimeGrid) -> torch.Tensor:
    """The features of all grid times, in float64: s, its 8 waves of each kind, and 8 decays."""
    s = 2 * (time.points[:, None] - time.start) / (time.stop - time.start) - 1
    return torch.cat([coordinate_features(s, 8), torch.exp(-(2.0 ** torch.arange(1, 9).double()) * (s + 1))], 1)


def places_of(points: torch.Tensor) -> torch.Tensor:
    low, high = points.amin(0), points.amax(0)
    return coordinate_features(2 * (points - low) / (high - low) - 1, 8)


def test_a_float64_model_never_sees_what_float32_rounded(burgers):
    """Networks of t and y."""
    train, _ = burgers
    times, places = times_of(train.time), places_of(train.outputs.points)
    for model in casts(separable("trtino", train)):
        assert torch.equal(model.time_factor.features, times)
        assert torch.equal(model.basis.features, places)
    for model in casts(separable("don", train)):
        assert torch.equal(model.basis.features[..., :25], times[:, None].expand(-1, len(places), -1))
        assert torch.equal(model.basis.features[..., 25:], places.expand(len(times), -1, -1))


@pytest.mark.parametrize("name", ["fno", "unet"])
def test_nor_do_the_coordinates_of_a_grid(name, burgers):
    train, _ = burgers
    line = torch.linspace(-1, 1, 24, dtype=torch.float64)
    t = 2 * (train.time.points - train.time.start) / (train.time.stop - train.time.start) - 1
    for model in casts(tino.build(name, train)):
        assert torch.equal(model.border.coordinates, torch.stack(torch.meshgrid(t, line, indexing="ij")))


def test_nor_do_the_waves_of_a_fourier_layer():
    sizes, modes = (6, 5), (2, 3)
    for layer in casts(SpectralConv(2, sizes, modes)):
        angle = 2 * torch.pi / 5 * torch.outer(torch.arange(3).double(), torch.arange(5).double())
        assert torch.equal(layer.there_1[0::2, :5], torch.cos(angle))
        assert torch.equal(layer.there_1[0::2, 5:], torch.sin(angle))
        angle = 2 * torch.pi / 6 * torch.outer(torch.tensor([0, 1, -2, -1]).double(), torch.arange(6).double())
        assert torch.equal(layer.there_0[0::2], torch.cos(angle))
        assert torch.equal(layer.there_0[1::2], -torch.sin(angle))
        assert torch.equal(layer.back_0, layer.there_0.T / 6)
