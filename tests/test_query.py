"""Answers at other times and points: the grid's where they meet, the parts' own formula between, else refused."""

import pytest
import torch
from conftest import FAMILY, RECIPES, TIME_ONLY, separable

import tino
from tino.models.bases import Trunk

ROUNDING = 1e-6  # the features of the grid's coordinates are kept in float32
ANY_TIME = [name for name, recipe in RECIPES.items() if recipe.mixer == "global" and recipe.basis != "pod(t,y)"]
LAST_TIME = [name for name, recipe in RECIPES.items() if recipe.mixer == "masked"]
GRID_TIMES = [name for name in FAMILY if name not in ANY_TIME + LAST_TIME]
ANY_POINT = [name for name in FAMILY if RECIPES[name].basis.startswith("trunk")]
GRID_POINTS = [name for name in FAMILY if name not in ANY_POINT]


@pytest.fixture
def burgers(small_data):
    train, test = small_data("burgers-0.1")
    return train, test.f[:3].double()


@pytest.mark.parametrize("name", [*FAMILY, "fno", "unet"])
def test_on_the_grid_it_is_the_model(name, burgers):
    train, f = burgers
    model = tino.build(name, train).double().eval()
    with torch.no_grad():
        expected = model(f)
    assert torch.allclose(model.query(f), expected, atol=ROUNDING)
    t, y = train.time.points[[3, 0, 19]], train.outputs.points[[7, 2]]
    assert torch.allclose(model.query(f, t, y), expected[:, [3, 0, 19]][:, :, [7, 2]], atol=ROUNDING)


@pytest.mark.parametrize("name", [*ANY_TIME, *LAST_TIME])
def test_between_grid_times(name, burgers):
    """The mixer sees the past up to the last t_i <= t (or everything), the functions of t see t itself."""
    train, f = burgers
    model = separable(name, train).double().eval()
    h = train.time.step
    between = train.time.points[5] + 0.4 * h
    answer = model.query(f, [float(between)])
    kicked = f.clone()
    kicked[:, 6:] += 1.0
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
    with pytest.raises(tino.TinoError, match=f"{name} answers at its grid times only, .* the nearest is"):
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
        c = model.coefficients(model.sensors(f), None, torch.tensor([2, 9])).expand(-1, 2, -1)
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
            assert torch.allclose(model.query(f, times, y)[:, i, 0], expected, atol=ROUNDING)


@pytest.mark.parametrize("name", [*GRID_POINTS, "fno"])
def test_pod_modes_know_grid_points_only(name, burgers):
    train, f = burgers
    y = train.outputs.points[4:6].mean(0, keepdim=True)
    with pytest.raises(tino.TinoError, match=f"{name} knows its output at the grid points only"):
        tino.build(name, train).double().query(f, None, y)


def test_what_query_refuses(burgers):
    train, f = burgers
    model = tino.build("don", train).double()
    with pytest.raises(tino.TinoError, match=r"t reaches from .* the model knows"):
        model.query(f, [train.time.stop + 1])
    with pytest.raises(tino.TinoError, match="y has shape"):
        model.query(f, None, torch.zeros(3))
    with pytest.raises(tino.TinoError, match="t has shape"):
        model.query(f, [])


def test_an_initial_state_enters_too(small_data):
    train, test = small_data("navier-stokes-ic")
    model = tino.build("don", train).eval()
    with torch.no_grad():
        assert torch.allclose(model.query(test.f[:2], ic=test.ic[:2]), model(test.f[:2], test.ic[:2]), atol=1e-5)


@pytest.mark.parametrize("name", [n for n in FAMILY if RECIPES[n].mixer != "global"])
def test_the_first_part_of_a_record(name, burgers):
    train, f = burgers
    model = tino.build(name, train).double().eval()
    whole = model.query(f)
    assert torch.allclose(model.query(f[:, :7]), whole[:, :7], atol=1e-12)
    with pytest.raises(tino.TinoError, match=r"the model knows \[0, .*\] of this record"):
        model.query(f[:, :7], [train.time.stop])


@pytest.mark.parametrize("name", FAMILY)
def test_times_in_float32_are_grid_times(name, burgers):
    train, f = burgers
    model = tino.build(name, train).double().eval()
    assert torch.allclose(model.query(f, train.time.points.float()), model.query(f), atol=ROUNDING)


@pytest.mark.parametrize("name", TIME_ONLY)
def test_time_only_models(name, small_data):
    train, test = small_data("duffing")
    model = tino.build(name, train).eval()
    with torch.no_grad():
        expected = model(test.f)
    assert torch.allclose(model.query(test.f), expected, atol=ROUNDING)
    assert torch.allclose(model.query(test.f, train.time.points[[5, 2]]), expected[:, [5, 2]], atol=ROUNDING)
    with pytest.raises(tino.TinoError, match="grid times only"):
        model.query(test.f, [0.3 * train.time.step])


def test_inputs_are_checked_and_cast(burgers, small_data):
    train, f = burgers
    model = tino.build("don", train)
    assert torch.allclose(model.query(f), model.query(f.float()), atol=ROUNDING)
    for wrong, message in ((f.numpy(), "must be a torch tensor"), (f * torch.nan, "NaN"), (f[:, :, :-1], "23 sensors")):
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
    one, other = (model.query(test.f[:1], ic=ic) for ic in (test.ic[:1], 2 * test.ic[:1]))
    assert not torch.allclose(one, other, rtol=1e-3)


def test_a_periodic_point_is_the_same_a_length_further(burgers):
    train, f = burgers
    model = tino.build("tino", train).double()
    y = torch.tensor([[0.3]], dtype=torch.float64)
    assert torch.allclose(model.query(f, None, y), model.query(f, None, y + train.outputs.length), atol=1e-10)
