"""``tino import``: what is written with each format's own library is read back, with names, units and lengths."""

import json
import sys
import types
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
import torch
import xarray as xr

import tino
from tino import ImportOptions
from tino.cli import run
from tino.holdout import memory_length

N, T, X = 8, 40, 6
RNG = np.random.default_rng(0)
F = RNG.normal(size=(N, T))
PLACES = np.linspace(0.0, 2.0, X)
U = np.cumsum(F, 1)[..., None] * (1 + PLACES)
TIMES = 0.1 * np.arange(T)
ALL = np.arange(N)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def both(train: tino.Dataset, test: tino.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """All records in their order in the file: the split draws them with seed 0."""
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    places = torch.cat([order[1:].sort().values, order[:1]])
    back = places.argsort()
    return torch.cat([train.f, test.f])[back].numpy(), torch.cat([train.u, test.u])[back].numpy()


def check(files, inputs, outputs, options=None, field=True, exact=True, units=("", "")):
    train, test, summary = tino.import_records(files, inputs, outputs, options=options)
    f, u = both(train, test)
    expected = U.reshape(N, T, -1) if field else U[..., :1]
    if exact:
        assert np.array_equal(f[..., 0], F)
        assert np.array_equal(u, expected)
    else:
        assert np.allclose(f[..., 0], F, rtol=1e-5, atol=1e-7)
        assert np.allclose(u, expected, rtol=1e-5, atol=1e-7)
    assert summary.dt == 0.1
    assert train.time.step == pytest.approx(0.1, rel=1e-12)
    assert (train.input_channels[0].unit, train.output_channels[0].unit) == units
    assert isinstance(train.inputs, tino.Point)
    if field:
        assert train.outputs == tino.Interval(0.0, 2.0, X)
    return train, test, summary


# -- formats -------------------------------------------------------------------------------------------------

SIGNS = [(",", False), (";", True), (";", False), ("\t", False), ("\t", True), (" ", False)]


@pytest.mark.parametrize(("mark", "comma"), SIGNS)
def test_tables_with_every_separator(mark, comma, place):
    names = [f"{name}{mark}" for name in ("t", "force[N]", "path(mm)")]
    for i in ALL:
        rows = [mark.join(repr(float(v)) for v in row) for row in zip(TIMES, F[i], U[i, :, 0], strict=True)]
        text = "\n".join(rows)
        head = "".join(names).rstrip(mark)
        Path(f"{i}.csv").write_text(f"{head}\n{text.replace('.', ',') if comma else text}\n")
    check([f"{i}.csv" for i in ALL], "force", "path", field=False, units=("N", "mm"))


def test_a_table_without_names_has_numbered_columns(place):
    for i in ALL:
        np.savetxt(f"{i}.txt", np.stack([TIMES, F[i], U[i, :, 0]], 1), "%.17g")
    check([f"{i}.txt" for i in ALL], "2", "3", ImportOptions(time="1"), field=False)


def test_tables_as_loggers_write_them(place):
    """A preamble, a line of units, quotes, a mark at the end of each line, a degree sign in an old encoding."""
    rows = zip(0.1 * np.arange(2 * T), F[:2].ravel(), U[:2, :, 0].ravel(), strict=True)
    lines = [f'"{t}";"{a}";"{b}";' for t, a, b in rows]
    text = "Logger 7\nmade on Monday\ntime;force;temp;\ns;N;°C;\n" + "\n".join(lines)
    Path("log.csv").write_text(text + "\n", encoding="latin-1")
    train, _, summary = tino.import_records("log.csv", "force", "temp", options=ImportOptions(test_share=0.25))
    assert [str(c) for c in train.input_channels + train.output_channels] == ["force [N]", "temp [°C]"]
    assert summary.time_unit == "s"


def test_a_column_numbers_the_records(place):
    rows = np.stack([np.repeat(ALL, T), np.tile(TIMES, N), F.ravel(), U[..., 0].ravel()], 1)
    np.savetxt("all.csv", rows, "%.17g", ",", header="run,time,force,path", comments="")
    check("all.csv", "force", "path", ImportOptions(record="run"), field=False)


def test_records_of_different_lengths(place):
    for i in ALL:
        np.savetxt(
            f"{i}.csv",
            np.stack([TIMES, F[i], U[i, :, 0]], 1)[: T - i],
            "%.17g",
            ",",
            header="t,force,path",
            comments="",
        )
    train, test, summary = tino.import_records([f"{i}.csv" for i in ALL], "force", "path")
    assert train.lengths is not None
    assert sorted([*train.lengths.tolist(), *(test.lengths if test.lengths is not None else [])]) == [
        T - i for i in ALL[::-1]
    ]
    assert summary.times == (T - 7, T)
    assert summary.records == N


def test_numpy_s_files(place):
    np.savez("all.npz", **{"force [N]": F, "path [mm]": U, "t": TIMES, "x": PLACES})
    check("all.npz", "force", "path", ImportOptions(points="x"), units=("N", "mm"))
    np.save("all.npy", np.stack([F, U[..., 0]], 2))
    check("all.npy", "1", "2", ImportOptions(dt=0.1), field=False)
    np.savez("own.npz", f=F, u=U, t=TIMES, u_points=PLACES, f_names=["force"], f_units=["N"])
    train, _, _ = check("own.npz", (), (), units=("N", ""))
    assert train.input_channels[0].name == "force"


def test_matlab_s_files(place):
    made = {"force": F.T, "t": TIMES[:, None], "rig": {"path": U[..., 0].T, "name": "rig 3"}}
    axes = ImportOptions(axes=("force=time,record", "rig.path=time,record"))
    for packed in (False, True):
        scipy.io.savemat("all.mat", made, do_compression=packed)
        train, _, _ = check("all.mat", "force", "rig.path", axes, field=False)
        assert train.output_channels[0].name == "rig.path"


def test_matlab_s_cells_are_records_of_different_lengths(place):
    cells = [np.empty(N, object) for _ in range(2)]
    for i in ALL:
        cells[0][i], cells[1][i] = F[i, : T - i, None], U[i, : T - i, :1]
    scipy.io.savemat("cells.mat", {"f": cells[0], "u": cells[1]})
    train, test, _ = tino.import_records("cells.mat", "f", "u", options=ImportOptions(dt=0.1))
    assert train.lengths is not None
    f, _ = both(train, test) if test.time == train.time else (None, None)
    assert len(train) + len(test) == N
    assert f is None or np.array_equal(f[0, :, 0], F[0])


def test_matlab_7_3(place):
    """HDF5 after 512 bytes of text, arrays with their first axis last, in the class that MATLAB notes."""
    with h5py.File("new.mat", "w", userblock_size=512) as file:
        for name, values in (("force", F), ("path", U[..., 0]), ("t", TIMES[None])):
            file.create_dataset(name, data=values)  # MATLAB sees (times, records), and a column t
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    raw = Path("new.mat").read_bytes()
    Path("new.mat").write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512) + raw[512:])
    check("new.mat", "force", "path", ImportOptions(axes=("force=time,record", "path=time,record")), field=False)


@pytest.mark.parametrize("how", [{}, {"chunks": True, "compression": "gzip", "shuffle": True}])
def test_any_hdf5_file(how, place):
    with h5py.File("all.h5", "w") as file:
        for name, values in (("run/force", F), ("run/path", U), ("t", TIMES), ("x", PLACES)):
            file.create_dataset(name, data=values, **how)
        file["run/force"].attrs["units"] = "N"
        file["run/again"] = h5py.SoftLink("/run/force")
    train, _, _ = check("all.h5", "run/force", "run/path", ImportOptions(points="x"), units=("N", ""))
    assert train.input_channels[0].name == "force"


def test_pdebench(place):
    with h5py.File("one.h5", "w") as file:
        file["tensor"], file["x-coordinate"] = U.astype("f4"), PLACES.astype("f4")
        file["t-coordinate"] = (0.1 * np.arange(T + 1)).astype("f4")  # the ends of the steps
    train, test, _ = tino.import_records("one.h5", options=ImportOptions(ic=True))
    assert train.u.dtype == torch.float32
    assert np.array_equal(both(train, test)[1], U.astype("f4"))
    assert train.ic is not None
    assert torch.equal(train.ic, train.u[:, 0])
    assert train.outputs == tino.Interval(0.0, 2.0, X)
    with h5py.File("many.h5", "w") as file:
        for i in ALL:
            file[f"{i:04d}/data"], file[f"{i:04d}/grid/x"] = U[i, ..., None], PLACES
            file[f"{i:04d}/grid/t"] = TIMES
    train, test, _ = tino.import_records("many.h5", "none", "data", options=ImportOptions(ic=True, periodic=True))
    assert np.array_equal(both(train, test)[1], U)
    assert train.outputs == tino.Periodic(2.4, (X,))


def test_the_well(place):
    pressure, speed = RNG.normal(size=(N, T, 4, X)), RNG.normal(size=(N, T, 4, X, 2))
    with h5py.File("well.h5", "w") as file:
        file["dimensions/time"], file["dimensions/x"], file["dimensions/y"] = TIMES, np.arange(4.0), PLACES
        file["dimensions"].attrs["spatial_dims"] = ["x", "y"]
        file["t0_fields/pressure"], file["t1_fields/velocity"] = pressure, speed
        for name in ("t0_fields/pressure", "t1_fields/velocity"):
            file[name].attrs.update(sample_varying=True, time_varying=True, dim_varying=[True, True])
    with pytest.warns(tino.TinoWarning, match="no influence"):
        train, test, _ = tino.import_records("well.h5", "pressure", "velocity")
    f, u = both(train, test)
    assert np.array_equal(f, pressure.reshape(N, T, -1))
    assert np.array_equal(u, np.moveaxis(speed, -1, 2).reshape(N, T, -1))
    assert [c.name for c in train.output_channels] == ["velocity1", "velocity2"]
    assert isinstance(train.outputs, tino.Points)
    assert train.outputs.points[1].tolist() == [0.0, PLACES[1]]


def netcdf() -> xr.Dataset:
    about = {"force": (("record", "time"), F, {"units": "N"}), "path": (("record", "time", "x"), U, {"units": "mm"})}
    return xr.Dataset(about, coords={"time": ("time", TIMES, {"units": "s"}), "x": PLACES})


def test_netcdf_3(place):
    netcdf().to_netcdf("three.nc", engine="scipy")
    _, _, summary = check("three.nc", "force", "path", units=("N", "mm"))
    assert summary.time_unit == "s"


def dated(start: str, unit: str) -> xr.Dataset:
    times = np.datetime64(start) + (1000 * np.arange(2 * T)).astype("timedelta64[ms]")
    f = np.concatenate([F[0], F[1]])
    held = xr.Dataset({"force": ("time", f), "path": ("time", np.cumsum(f))}, coords={"time": times})
    held["time"].encoding.update(units=f"{unit} since 2024-01-01", dtype="float64")
    return held


@pytest.mark.parametrize("unit", ["seconds", "milliseconds", "days"])
def test_netcdf_s_dates_are_seconds(unit, place):
    """Files count in different units from different days: all are read alike, and predict takes each of them."""
    dated("2024-01-02", unit).to_netcdf("dates.nc", engine="scipy")
    train, _, summary = tino.import_records("dates.nc", "force", "path", options=ImportOptions(burn_in=4))
    assert (summary.dt, summary.time_unit, train.time.start) == (1.0, "s", 86400.0)
    assert "the times 'time' are read as seconds since 2024-01-01" in summary.repaired[0]


def test_a_sampling_time_is_no_channel(place):
    """The files of System Identification courses: u, y and Ts."""
    scipy.io.savemat("rig.mat", {"u": F.reshape(-1, 1), "y": U[..., 0].reshape(-1, 1), "Ts": 0.1})
    train, _, _ = tino.import_records("rig.mat", options=ImportOptions(dt=0.1))
    assert [c.name for c in (*train.input_channels, *train.output_channels)] == ["u", "y"]


def test_netcdf_4(place):
    with h5py.File("four.nc", "w") as opened:  # netCDF-4 is HDF5 with dimension scales
        file: Any = opened
        for name, values in (("record", ALL), ("time", TIMES), ("x", PLACES)):
            file[name] = values
            file[name].make_scale(name)
        for name, values, axes in (("force", F, ("record", "time")), ("path", U, ("record", "time", "x"))):
            file[name] = values
            file[name].attrs["units"] = {"force": "N", "path": "mm"}[name]
            for i, axis in enumerate(axes):
                file[name].dims[i].attach_scale(file[axis])
    check("four.nc", "force", "path", units=("N", "mm"))


def test_our_own_dataset_file(place):
    np.savez("own.npz", f=F, u=U, t=TIMES, u_points=PLACES)
    train, test, _ = tino.import_records("own.npz")
    tino.save_dataset("own.h5", train, test)
    for inputs, outputs in (((), ()), ("train/f", "train/u")):  # a new split would train on records of the test
        with pytest.raises(tino.TinoError, match=r"own.h5 is a dataset of tino's, with its own training and test set"):
            tino.import_records("own.h5", inputs, outputs)


# -- places --------------------------------------------------------------------------------------------------


def test_columns_as_points_of_one_field(place):
    rows = np.concatenate([TIMES[:, None], F[0][:, None], U[0]], 1)
    head = "t,heat,T0,T1,T2,T3,T4,T5"
    np.savetxt("rod.csv", rows, "%.17g", ",", header=head, comments="")
    options = ImportOptions(points="0,0.1,0.2,0.4,0.7,1.0", units=("T0=K",), test_share=0.3, burn_in=2)
    with pytest.raises(tino.TinoError, match="at least 50 are needed"):
        tino.import_records("rod.csv", "heat", "T*", options=options)
    np.savetxt(
        "rod.csv", np.concatenate([rows, rows + np.array([4] + [0] * (X + 1))]), "%.17g", ",", header=head, comments=""
    )
    train, test, _ = tino.import_records("rod.csv", "heat", "T*", options=options)
    assert train.output_channels == (tino.Channel("T", "K"),)
    assert train.outputs == tino.Points(((0.0,), (0.1,), (0.2,), (0.4,), (0.7,), (1.0,)))
    assert (train.burn_in, test.burn_in) == (2, 2)


def test_a_periodic_box_of_unequal_axes_is_refused(place):
    np.savez("box.npz", f=RNG.normal(size=(N, T)), u=RNG.normal(size=(N, T, 4, 6)), t=TIMES)
    with pytest.raises(tino.TinoError, match="one length for all axes, got 4, 6"):
        tino.import_records("box.npz", "f", "u", options=ImportOptions(periodic=True))


# -- the split -----------------------------------------------------------------------------------------------


def test_a_grid_in_two_dimensions(place, capsys):
    """Its axes are named, and its coordinates are the variables of those names."""
    x = np.arange(4) / 4
    f = RNG.normal(size=(N, T, 4, 4))
    np.savez("grid.npz", f=f, u=f.cumsum(1), t=TIMES, x=x, y=x, p=np.stack(np.meshgrid(x, x), -1).reshape(-1, 2))
    given = ["import", "grid.npz", "--input", "f", "--output", "u", "--periodic", "--force"]
    axes = ["--axes", "f=record,time,x,y", "u=record,time,x,y"]
    assert run([*given, *axes]) == 0
    assert "no coordinates" not in capsys.readouterr().out
    assert tino.load_dataset("grid.h5")[0].outputs == tino.Periodic(1.0, (4, 4))
    assert run(given) == 0
    assert "note      grid.npz: no coordinates of 'f' and 'u': lengths are in grid steps" in capsys.readouterr().out
    assert tino.load_dataset("grid.h5")[0].outputs == tino.Periodic(4.0, (4, 4))
    assert run([*given, "--points", "x,y"]) == 1
    said = "for a grid leave them out, and give --axes 'u=record,time,x,y'"
    assert said in capsys.readouterr().err


def test_listed_points_are_no_periodic_box(place):
    x = np.arange(4) / 4
    p = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2)
    f = RNG.normal(size=(N, T, 16))
    with pytest.raises(tino.TinoError, match=r"in 2-D: give f as \(records, times, x, y\), with axes = 'f=record"):
        tino.from_arrays(f, f, dt=0.1, input_points=p, output_points=p, periodic=True)
    with pytest.warns(tino.TinoWarning, match="no coordinates of 'f': lengths are in grid steps"):
        data = tino.from_arrays(f[..., None], f, dt=0.1, output_points=np.arange(16) / 16, periodic=True)
    assert (data.inputs, data.outputs) == (tino.Periodic(16.0, (16,)), tino.Periodic(1.0, (16,)))


def one_long(n: int = 600) -> np.ndarray:
    f = np.random.default_rng(1).normal(size=n)
    u = np.zeros(n)
    for i in range(1, n):
        u[i] = 0.8 * u[i - 1] + f[i]
    return np.stack([0.5 * np.arange(n), f, u], 1)


def test_the_last_part_of_one_record_is_for_the_test(place):
    rows = one_long()
    np.savetxt("long.csv", rows, "%.17g", ",", header="t,f,u", comments="")
    train, test, _ = tino.import_records("long.csv", options=ImportOptions(test_share=0.25))
    assert train.time.n == 450
    before = memory_length(train, 450, 1e-12)
    assert test.burn_in == before > 0
    assert np.array_equal(test.f[0, :, 0].numpy(), rows[450 - before :, 1])
    assert np.array_equal(test.rows(test.u)[:, 0].numpy(), rows[450:, 2])
    assert test.time.step == pytest.approx(0.5, rel=1e-12)


def test_few_records_of_different_lengths_are_each_cut(place):
    for i, n in enumerate((600, 200)):
        np.savetxt(f"{i}.csv", one_long()[:n], "%.17g", ",", header="t,f,u", comments="")
    train, test, _ = tino.import_records(["0.csv", "1.csv"], options=ImportOptions(burn_in=10))
    assert train.lengths is not None
    assert train.lengths.tolist() == [480, 160]
    assert test.lengths is not None
    assert test.lengths.tolist() == [130, 50]


def test_files_for_the_test(place, capsys):
    for name in ("a", "b", "c"):
        np.savetxt(f"{name}.csv", one_long(300 if name == "c" else 600), "%.17g", ",", header="t,f,u", comments="")
    assert run(["import", "a.csv", "b.csv", "--test", "c.csv", "--out", "mine.h5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sets"], found["records"], found["dt"]) == ([2, 1], 3, 0.5)
    train, test = tino.load_dataset("mine.h5")
    assert (len(train), train.time.n, test.time.n) == (2, 600, 300)


# -- arrays in memory ----------------------------------------------------------------------------------------


def test_arrays_in_memory():
    data = tino.from_arrays(F, U[..., 0], dt=0.1, input_names=["force"], input_units=["N"])
    assert np.array_equal(data.f[..., 0].numpy(), F)
    assert str(data.input_channels[0]) == "force [N]"
    data = tino.from_arrays(torch.tensor(F), torch.tensor(U), t=TIMES, output_points=PLACES)
    assert data.outputs == tino.Interval(0.0, 2.0, X)
    assert np.array_equal(data.u.numpy(), U)
    data = tino.from_arrays([F[i, : T - i] for i in ALL], [U[i, : T - i] for i in ALL], dt=0.1)
    assert data.lengths is not None
    assert data.lengths.tolist() == [T - i for i in ALL]
    assert [c.name for c in data.output_channels] == [f"u{j}" for j in range(1, X + 1)]
    corners = [[0, 0], [1, 0], [0, 1], [1, 1], [2, 2], [3, 1]]
    assert tino.from_arrays(F, U, dt=0.1, output_points=corners).outputs.points.tolist() == corners
    with pytest.raises(tino.TinoError, match="output_names has 1 entries, expected 6"):
        tino.from_arrays(F, U, dt=0.1, output_names=["u"])
    with pytest.raises(tino.TinoError, match="f and u have no times: give dt, the time step, or t, the times"):
        tino.from_arrays(F, U)


def test_arrays_in_memory_are_repaired_on_request():
    f, u, t = np.concatenate([F[0], F[1]]), np.concatenate([U[0, :, 0], U[1, :, 0]]), 0.1 * np.arange(2 * T)
    holes = np.where(np.isin(np.arange(2 * T), (20, 60)), np.nan, f)
    with pytest.raises(tino.TinoError, match=r"row 21 .*no value .*: repair it with fill, cut or drop"):
        tino.from_arrays(holes, u, t=t)
    with pytest.warns(tino.TinoWarning, match="2 rows with missing values interpolated"):
        data = tino.from_arrays(holes, u, t=t, fill=True)
    assert float(data.f[0, 20, 0]) == pytest.approx((f[19] + f[21]) / 2)
    with pytest.warns(tino.TinoWarning, match="was cut at 2 rows with missing values"):
        assert len(tino.from_arrays(holes, u, t=t, cut=True)) == 3
    with pytest.warns(tino.TinoWarning, match="record 1 was left out: 2 rows with missing values"):
        assert len(tino.from_arrays([holes, f], [u, u], dt=0.1, drop=True)) == 1
    late = np.where(np.arange(2 * T) % 2, t + 0.02, t)
    with pytest.raises(tino.TinoError, match="use resample"):
        tino.from_arrays(f, u, t=late)
    with pytest.warns(tino.TinoWarning, match="was resampled from 80 times"):
        assert tino.from_arrays(f, u, t=late, dt=0.1, resample=True).time.step == pytest.approx(0.1)
    with pytest.warns(tino.TinoWarning, match="1 record of fewer than 8 times left out, the first in the dataset, rec"):
        assert len(tino.from_arrays([f, f[:5]], [u, u[:5]], dt=0.1)) == 1


def test_xarray_keeps_names_units_and_coordinates():
    held = netcdf()
    data = tino.from_arrays(held["force"], held["path"])
    assert [str(c) for c in data.input_channels + data.output_channels] == ["force [N]", "path [mm]"]
    assert data.outputs == tino.Interval(0.0, 2.0, X)
    assert data.time.step == pytest.approx(0.1)
    assert np.array_equal(data.u.numpy(), U)
    other = xr.DataArray(F[0], dims="sec", coords={"sec": TIMES}, name="force")
    dates = other.assign_coords(sec=np.datetime64("2024-01-01") + (1000 * TIMES).round().astype("timedelta64[ms]"))
    for given in (other, dates):
        found = tino.from_arrays(given, xr.Dataset({"a": given + 1, "b": given + 2}))
        assert found.time.step == pytest.approx(0.1)
        assert [c.name for c in found.output_channels] == ["a", "b"]


def test_xarray_s_coordinates_must_agree():
    force = xr.DataArray(F[0], dims="time", coords={"time": TIMES}, name="force")
    path = xr.DataArray(U[0], dims=("t", "x"), coords={"t": TIMES + 1e-12, "x": PLACES}, name="path")
    assert tino.from_arrays(force, path).time.step == pytest.approx(0.1)
    said = "the times of f and u differ: f has 40 from 0 to 3.9, u has 40 from 1 to 4.9: interpolate"
    with pytest.raises(tino.TinoError, match=said):
        tino.from_arrays(force, path.assign_coords(t=TIMES + 1))
    with pytest.raises(tino.TinoError, match=r"the times of f and u differ: f has 40 from 0 to 3.9, u has 39 from"):
        tino.from_arrays(force, path[1:])
    assert tino.from_arrays(force, path.assign_coords(t=TIMES + 1), t=0.5 * TIMES).time.step == pytest.approx(0.05)
    dates = np.datetime64("2024-01-01") + (1000 * TIMES).round().astype("timedelta64[ms]")
    later = dates + np.timedelta64(1, "h")
    with pytest.raises(tino.TinoError, match=r"f has 40 from 2024-01-01T00.*, u has 40 from 2024-01-01T01"):
        tino.from_arrays(force.assign_coords(time=dates), path.assign_coords(t=later))
    field = xr.DataArray(U[0], dims=("time", "x"), coords={"time": TIMES, "x": 2 * PLACES}, name="heat")
    with pytest.raises(tino.TinoError, match="the axis 'x' of f and that of u have different coordinates"):
        tino.from_arrays(field, path)
    two = xr.DataArray(F[:2].T, dims=("time", "channel"), coords={"time": TIMES, "channel": ["a", "b"]}, name="two")
    one = xr.DataArray(F[:1].T, dims=("time", "channel"), coords={"time": TIMES, "channel": ["c"]}, name="one")
    assert len(tino.from_arrays(two, one).input_channels) == 2


def test_lists_of_records_must_agree():
    with pytest.raises(tino.TinoError, match="f has 1 record, u has 8: give each input its output"):
        tino.from_arrays(list(F[:1]), list(U), dt=0.1)
    with pytest.raises(tino.TinoError, match="u is a list of records, f is one array: give two lists, or two arrays"):
        tino.from_arrays(F, list(U), dt=0.1)
    with pytest.raises(tino.TinoError, match="t has the times of 2 records, f has 8"):
        tino.from_arrays(list(F), list(U), t=[TIMES, TIMES])


def test_whole_numbers_keep_their_digits():
    counts = 2**40 + np.arange(T)
    data = tino.from_arrays(counts, counts.astype("f4"), dt=1.0)
    assert np.array_equal(data.f[0, :, 0].numpy(), counts)
    assert data.u.dtype == torch.float32


# -- benchmarks ----------------------------------------------------------------------------------------------


class Measured:
    def __init__(self, u, y, sampling_time=0.5, name="", window=None):
        self.u, self.y, self.sampling_time, self.name = u, y, sampling_time, name
        self.state_initialization_window_length = window

    def __len__(self):
        return len(self.u)


@pytest.fixture
def benchmarks(monkeypatch):
    fake = types.ModuleType("nonlinear_benchmarks")
    rows = one_long()

    def Box(always_return_tuples_of_datasets):
        print("downloading")
        return (Measured(rows[:, 1], rows[:, 2]),), (Measured(rows[:200, 1], rows[:200, 2], window=20),)

    def Two(always_return_tuples_of_datasets):
        more = Measured(rows[:90, 1], rows[:90, 2], name="sweep", window=5)
        return Box(True)[0], (*Box(True)[1], more)

    vars(fake).update(Box=Box, Two=Two)
    monkeypatch.setitem(sys.modules, "nonlinear_benchmarks", fake)


def test_a_benchmark_by_name(benchmarks):
    train, test, summary = tino.import_records("benchmark:Box")
    assert (train.time.n, test.time.n, train.burn_in, test.burn_in, summary.dt) == (600, 200, 0, 20, 0.5)
    with pytest.raises(
        tino.TinoError, match=r"choose one with test_set: 0 is unnamed .200 times.; 1 is sweep .90 times."
    ):
        tino.import_records("benchmark:Two")
    options = ImportOptions(test_set=1, units=("u=V",))
    train, test, _ = tino.import_records("benchmark:Two", options=options)
    assert (train.input_channels[0].unit, test.burn_in) == ("V", 5)
    with pytest.raises(tino.TinoError, match="did you mean 'Box'"):
        tino.import_records("benchmark:Bax")


def test_what_a_benchmark_prints_is_no_answer(benchmarks, place, capsys):
    assert run(["import", "benchmark:Box", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sets"] == [1, 1]


def test_a_benchmark_without_its_package(place, monkeypatch):
    Path("nonlinear_benchmarks.py").write_text("import progressbar_that_is_missing\n")
    monkeypatch.syspath_prepend(".")
    with pytest.raises(tino.TinoError, match="needs the package progressbar_that_is_missing"):
        tino.import_records("benchmark:Silverbox")
    monkeypatch.setitem(sys.modules, "nonlinear_benchmarks", None)
    with pytest.raises(tino.TinoError, match=r"pip install tino\[benchmarks\]"):
        tino.import_records("benchmark:Silverbox")


# -- the command ---------------------------------------------------------------------------------------------


def test_the_command_prints_what_it_understood(place, capsys):
    np.savetxt("long.csv", one_long(), "%.17g", ",", header="t [s],force [N],path (mm)", comments="")
    assert run(["import", "long.csv", "--input", "force", "--output", "path"]) == 0
    said = capsys.readouterr().out
    for part in (
        "1 of 600 times, dt = 0.5 s, duration 299.5 s",
        "force",
        "mm",
        "last 20% of the record",
        "saved in long.h5",
    ):
        assert part in said
    assert run(["import", "long.csv", "--input", "force", "--output", "path"]) == 1
    assert "long.h5 exists" in capsys.readouterr().err
    assert run(["import", "long.csv", "--output", "path", "--out", "other.h5"]) == 0  # one column is left: the input
