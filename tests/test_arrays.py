"""Arrays in, the same kind out: numpy and xarray."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import xarray as xr

import tino


@pytest.fixture(scope="module")
def signal() -> tino.Operator:
    """One signal drives another."""
    f = torch.randn(8, 20, 1, generator=torch.Generator().manual_seed(0))
    force, drift = (tino.Channel("force", "N"),), (tino.Channel("drift", "mm"),)
    grids = (tino.TimeGrid(0, 1.9, 20), tino.Point(), tino.Point())
    data = tino.Dataset(f, f.cumsum(1), *grids, input_channels=force, output_channels=drift)
    return tino.build("tino", data)


@pytest.fixture(scope="module")
def channels() -> tino.Operator:
    """Two signals drive two others."""
    f = torch.randn(8, 20, 2, generator=torch.Generator().manual_seed(1))
    named = (tino.Channel("force", "N"), tino.Channel("torque"))
    outputs = (tino.Channel("angle", "rad"), tino.Channel("drift", "mm"))
    data = tino.Dataset(
        f,
        f.cumsum(1),
        tino.TimeGrid(0, 1.9, 20),
        tino.Point(),
        tino.Point(),
        input_channels=named,
        output_channels=outputs,
    )
    return tino.build("tino", data)


@pytest.fixture(scope="module")
def fields() -> tino.Operator:
    """Two channels on a square drive one on a line of five points."""
    f = torch.randn(6, 10, 2 * 4 * 5, generator=torch.Generator().manual_seed(2))
    u = f[..., :20].unflatten(-1, (4, 5)).mean(-2).cumsum(1)
    named = (tino.Channel("heat", "W"), tino.Channel("wind", "m/s"))
    grids = (tino.Periodic(1.0, (4, 5)), tino.Interval(0, 2, 5))
    return tino.build("tino", tino.Dataset(f, u, tino.TimeGrid(0, 0.9, 10), *grids, input_channels=named))


def drawn(model: tino.Operator, records: int = 3) -> torch.Tensor:
    shape = (records, model.frame.time.n, model.frame.input_size)
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


def test_tensors_keep_their_gradients(signal):
    u = signal(drawn(signal))
    assert isinstance(u, torch.Tensor)
    assert u.requires_grad


def test_numpy_has_as_many_axes_as_the_input(signal):
    f = drawn(signal)
    u = tino.predict(signal, f).numpy()  # (n, t, 1)
    values = f.numpy()
    for given, expected in ((values, u), (values[0], u[0]), (values[0, :, 0], u[0, :, 0])):
        answer = signal(given)
        assert type(answer) is np.ndarray
        assert answer.shape == expected.shape
        assert np.allclose(answer, expected, atol=1e-6)
    assert np.array_equal(tino.predict(signal, values), signal(values))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f8", "int32", "uint8", "bool"])
def test_any_kind_of_number_is_taken(dtype, signal):
    f = drawn(signal).sign().clamp(min=0).numpy()  # zeros and ones, which every type holds
    answer = signal(f.astype(dtype))
    assert answer.dtype == (np.dtype(dtype) if np.dtype(dtype).kind == "f" else np.float32)
    assert np.allclose(answer, signal(f), atol=2e-3 if dtype == "float16" else 1e-6)


def test_a_field_may_have_its_own_axes(fields):
    """f[n, t, i, j, c] is the flat f[n, t, 20 c + 5 i + j]."""
    flat = drawn(fields).numpy()
    own = np.empty((*flat.shape[:2], 4, 5, 2), np.float32)
    for i in range(4):
        for j in range(5):
            for c in range(2):
                own[:, :, i, j, c] = flat[..., 20 * c + 5 * i + j]
    u = fields(flat)
    assert fields(own).shape == (*u.shape, 1)
    assert np.allclose(fields(own)[..., 0], u, atol=1e-6)
    assert np.allclose(fields(own[1])[..., 0], u[1], atol=1e-6)


def test_one_channel_of_a_field_needs_no_axis_for_it():
    f = torch.randn(6, 10, 20, generator=torch.Generator().manual_seed(2))
    grid = tino.Periodic(1.0, (4, 5))
    model = tino.build("tino", tino.Dataset(f, f.cumsum(1), tino.TimeGrid(0, 0.9, 10), grid, grid))
    u = model(f.numpy()).reshape(6, 10, 4, 5)
    assert np.allclose(model(f.numpy().reshape(6, 10, 4, 5)), u, atol=1e-6)
    assert np.allclose(model(f.numpy()[0].reshape(10, 4, 5)), u[0], atol=1e-6)
    answer = model(xr.DataArray(f.numpy().reshape(6, 10, 4, 5), dims=["run", "t", "row", "column"]))
    assert answer.dims == ("run", "t", "row", "column")
    assert np.allclose(answer.row, np.arange(4) / 4)
    assert np.allclose(answer.values, u, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((20, 2)), r"f has shape \(20, 2\), expected \(times,\) or \(times, 1\), or several records"),
        (np.zeros((3, 20)), r"f has shape \(3, 20\), expected"),
        (np.zeros(20, complex), "f has dtype complex128, expected real numbers"),
        (np.full(20, np.nan), "f has NaN or infinite values in 1 of 1 records"),
        (np.zeros(0), "f has 0 times"),
        ([0.0] * 20, "f is a list, expected a torch tensor, a numpy array or an xarray.DataArray"),
        (xr.DataArray(np.zeros((20, 2)), dims=["t", "x"]), r"f has the dimensions \(t: 20, x: 2\), the model reads"),
        (xr.DataArray(np.zeros(9), {"t": np.arange(9)}), "the steps of f along t are 1, the model's are 0.1"),
        (xr.DataArray(np.zeros(3), {"time": [0, 0.1, 0.3]}), "along time are 0.1 to 0.2, the model's are 0.1"),
        (xr.Dataset({"a": ("t", np.zeros(9)), "b": ("t", np.zeros(9))}), "the Dataset lacks the input 'force'"),
    ],
)
def test_what_does_not_fit_is_one_line(given, message, signal):
    with pytest.raises(tino.TinoError, match=message) as raised:
        signal(given)
    assert "\n" not in str(raised.value)


def test_arrays_far_outside_are_told_of(channels):
    model = tino.build(
        "tino",
        tino.Dataset(
            drawn(channels),
            drawn(channels),
            channels.frame.time,
            tino.Point(),
            tino.Point(),
            input_channels=channels.frame.input_channels,
            output_channels=channels.frame.output_channels,
        ),
    )
    with pytest.warns(tino.TinoWarning, match="force .* reaches"):
        model(np.full((20, 2), 1e3))


def test_xarray_keeps_its_coordinates(signal):
    f = drawn(signal)
    t = 5 + 0.1 * np.arange(20)
    given = xr.DataArray(f[..., 0].numpy(), {"case": ["a", "b", "c"], "time": t, "site": "hall"}, ["case", "time"])
    answer = signal(given)
    assert isinstance(answer, xr.DataArray)
    assert (answer.name, answer.attrs, answer.dims) == ("drift", {"units": "mm"}, ("case", "time"))
    assert np.allclose(answer.values, signal(f.numpy())[..., 0], atol=1e-6)
    for name in ("case", "time", "site"):
        assert answer[name].equals(given[name])
    assert signal(given.transpose("time", "case")).dims == ("time", "case")
    assert np.allclose(signal(given.transpose("time", "case")).T, answer, atol=1e-6)
    assert np.allclose(signal(given.sel(case="b")), answer.sel(case="b"), atol=1e-6)


def test_dates_are_seconds(signal):
    days = np.datetime64("2024-01-01T00:00:00.000") + np.arange(20) * np.timedelta64(100, "ms")
    given = xr.DataArray(drawn(signal, 1)[0, :, 0].numpy(), {"time": days})
    assert signal(given).time.equals(given.time)


def test_several_channels_are_read_by_name(channels):
    f = drawn(channels, 1)[0].numpy()
    u = channels(f)
    t = 0.1 * np.arange(20)
    swapped = xr.DataArray(f[:, ::-1], {"time": t, "channel": ["torque", "force"]}, ["time", "channel"])
    as_set = xr.Dataset({"torque": ("time", f[:, 1]), "force": ("time", f[:, 0])}, {"time": t})
    for given in (swapped, as_set):
        answer = channels(given)
        assert isinstance(answer, xr.Dataset)
        assert [answer[name].attrs["units"] for name in ("angle", "drift")] == ["rad", "mm"]
        for i, name in enumerate(("angle", "drift")):
            assert np.allclose(answer[name], u[:, i], atol=1e-6)
    with pytest.raises(
        tino.TinoError, match="the channels of f are force, wind, the model was built for force, torque"
    ):
        channels(swapped.assign_coords(channel=["force", "wind"]))
    as_set.force.attrs["units"] = "kN"
    with pytest.warns(tino.TinoWarning, match="force is in kN, the model was trained with N"):
        channels(as_set)


def test_the_output_s_space_is_the_model_s_grid(fields):
    f = drawn(fields).numpy()
    own = np.moveaxis(f.reshape(3, 10, 2, 4, 5), 2, 0)  # the channels first
    answer = fields(xr.DataArray(own, dims=["channel", "sample", "time", "x", "y"]))
    assert answer.dims == ("sample", "time", "x")
    assert np.allclose(answer.x, np.linspace(0, 2, 5))
    assert np.allclose(answer, fields(f), atol=1e-6)


def test_xarray_is_not_imported_by_tino():
    script = "import sys, numpy, tino; tino.predict; tino.Dataset; assert 'xarray' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
