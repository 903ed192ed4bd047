"""What ``tino import`` finds in records: each is one line that says where, and each repair does what it says."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tino
from tino import ImportOptions
from tino.cli import run
from tino.holdout import memory_length
from tino.importing.reading import understood

N = 600


def system(f: np.ndarray) -> np.ndarray:
    u = np.zeros(len(f))
    for i in range(1, len(f)):
        u[i] = 0.8 * u[i - 1] + f[i]
    return u


@pytest.fixture
def rows(tmp_path, monkeypatch) -> np.ndarray:
    """Time, input and output of a first-order system."""
    monkeypatch.chdir(tmp_path)
    f = np.random.default_rng(0).normal(size=N)
    return np.stack([0.01 * np.arange(N), f, system(f)], 1)


def write(rows: np.ndarray, name: str = "a.csv", head: str = "t,f,u") -> str:
    text = "\n".join(",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in rows)
    Path(name).write_text(f"{head}\n{text}\n")
    return name


def refused(files, said: str, *asked, **options) -> None:
    with pytest.raises(tino.TinoError) as caught:
        tino.import_records(files, *asked, options=ImportOptions(**options))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def taken(files, *asked, test=(), **options):
    return tino.import_records(files, *asked, test=test, options=ImportOptions(**options))


# -- times ---------------------------------------------------------------------------------------------------


def test_irregular_times(rows):
    rows[:, 0] += 0.004 * np.random.default_rng(1).random(N)
    refused(write(rows), "a.csv: the time steps range from 0.006")
    train, test, summary = taken("a.csv", resample=True)
    assert len(summary.repaired) == 1
    assert "folds" not in summary.repaired[0]
    assert summary.dt == pytest.approx(0.01, rel=0.05)
    n = train.time.n + test.time.n - test.burn_in
    times = rows[0, 0] + summary.dt * np.arange(n)
    f = np.concatenate([train.f[0, :, 0].numpy(), test.rows(test.f)[:, 0].numpy()])
    assert np.allclose(f, np.interp(times, rows[:, 0], rows[:, 1]))


def test_rounded_times_are_regular(rows):
    rows[:, 0] = (rows[:, 0] + 1000).astype(np.float32)
    assert taken(write(rows))[2].dt == pytest.approx(0.01, rel=1e-4)
    rows[:, 0] = np.round(0.0123456 * np.arange(N), 4)
    assert taken(write(rows))[2].dt == pytest.approx(0.0123456, rel=1e-4)


def test_times_of_float32_are_regular(rows):
    """After a day the steps of float32 are three quarters of the time step."""
    for shift in (1e4, 9e4):
        times = (rows[:, 0] + shift).astype(np.float32)
        np.savez("a.npz", time=times, f=rows[:, 1], y=rows[:, 2])
        assert len(np.unique(np.diff(times))) == 2
        assert taken("a.npz", "f", "y", cut=True)[2].records == 1
        assert taken("a.npz", "f", "y")[2].dt == pytest.approx(0.01, rel=1e-3)
        assert taken("a.npz", "f", "y", resample=True)[2].dt == pytest.approx(0.01, rel=1e-3)
        assert taken("a.npz", "f", "y", dt=0.01)[2].dt == 0.01
        np.savez("b.npz", time=times[:60], f=rows[:60, 1], y=rows[:60, 2])
        assert taken(["a.npz", "b.npz"], "f", "y")[2].records == 2
        np.savez("c.npz", time=np.delete(times, [50, 51, 52]), f=rows[3:, 1], y=rows[3:, 2])
        refused("c.npz", "a gap of 0.0", "f", "y")


def test_a_gap_in_time(rows):
    rows[300:, 0] += 1.0
    refused(write(rows), "a.csv, line 302 (time 4): a gap of 1.01 after steps of 0.01: use cut for two records")
    train, test, summary = taken("a.csv", cut=True)
    assert summary.records == 2
    assert summary.burn_in == (memory_length(dataclasses.replace(train, burn_in=0)), test.burn_in)
    assert np.array_equal(train.f[1, :, 0].numpy(), rows[300:540, 1])
    assert "cut at 1 gap in time, the first at a.csv, line 302" in summary.repaired[0]
    assert taken("a.csv", resample=True)[2].times == (700, 700)
    train, test, _ = taken("a.csv", cut=True, burn_in=7)
    assert (train.burn_in, test.burn_in) == (7, 7)


def slow(n: int, gaps: list[int]) -> np.ndarray:
    """A system with a long memory, measured with gaps."""
    f = np.random.default_rng(4).normal(size=n)
    u = np.zeros(n)
    for i in range(1, n):
        u[i] = 0.98 * u[i - 1] + f[i]
    t = 0.01 * np.arange(n)
    for row in gaps:
        t[row:] += 1.0
    return np.stack([t, f, u], 1)


@pytest.mark.parametrize(("n", "gaps"), [(3000, [2980]), (3600, [500, 1000, 1020, 1600, 2200, 2800])])
def test_a_short_piece_does_not_shorten_the_burn_in(n, gaps, rows):
    """Of few records the last part is the test, of many a whole record."""
    pieces = len(gaps)
    _, test, summary = taken(write(slow(n, gaps)), cut=True)
    assert summary.records == pieces  # one is too short
    assert "1 record of fewer than" in summary.repaired[-1]
    assert f"the first at a.csv, line {2982 if pieces == 1 else 1002}" in summary.repaired[-1]
    assert test.burn_in > 100  # 0.98 ^ 100 is 13 %


def test_a_short_piece_that_outlasts_the_burn_in_does_not_shorten_it(rows):
    train, test, summary = taken(write(slow(3000, [2600])), cut=True)
    assert summary.records == 2
    assert min(train.burn_in, test.burn_in) > 100


def test_short_records_for_the_test(rows):
    write(slow(3000, [1500]))
    train, test, summary = taken(["a.csv"], test=[write(slow(700, [20, 40]), "b.csv")], cut=True)
    assert len(test) == 1
    assert test.burn_in == train.burn_in > 100
    assert "2 records of fewer than" in summary.repaired[-1]
    short = taken(["a.csv"], test=[write(slow(120, []), "b.csv")], cut=True)[1]
    assert short.burn_in == 60  # half of it


def test_records_shorter_than_a_given_burn_in(rows):
    summary = taken(write(slow(3000, [2980])), cut=True, burn_in=50)[2]
    assert summary.records == 1
    assert summary.repaired[-1].endswith(
        "1 record of fewer than 58 times was left out, the first at a.csv, line 2982 (time 30.8): the burn-in takes 50"
    )


def test_times_that_repeat_or_run_back(rows):
    rows[10, 0] = rows[9, 0]
    refused(write(rows), "a.csv, line 12 (time 0.09): the time is that of the row before: leave the row out")
    rows[10, 0] = 0.1
    rows[400:, 0] -= 4.0
    refused(write(rows), "a.csv, line 402 (time 0): the time is less than in the row before")
    assert taken("a.csv", cut=True)[2].records == 2


def test_a_step_that_contradicts_the_times(rows):
    rows[:, 0] *= 1000
    said = "dt is 0.01, but the times in a.csv step by 10, 1000 times as much: milliseconds and seconds? leave dt out"
    refused(write(rows), said, dt=0.01)
    assert taken("a.csv", dt=10.0)[2].dt == 10.0


def test_files_with_different_steps(rows):
    write(rows)
    rows[:, 0] *= 2
    refused(["a.csv", write(rows, "b.csv")], "the time step is 0.01 in a.csv, 0.02 in b.csv: use resample")
    assert taken(["a.csv", "b.csv"], resample=True, dt=0.01)[2].times == (600, 1199)


def test_a_coarser_step_folds_what_is_faster(rows):
    """Only a note: what a filter leaves of a start from rest is for the user to judge."""
    slow = np.sin(2 * np.pi * rows[:, 0])
    write(np.stack([rows[:, 0], slow, np.roll(slow, 1)], 1))
    (line,) = taken("a.csv", resample=True, dt=0.05)[2].repaired
    assert line == "a.csv was resampled from 600 times to 120 of step 0.05"
    write(np.stack([rows[:, 0], slow, slow + np.sin(2 * np.pi * 19.3 * rows[:, 0])], 1))
    (line,) = taken("a.csv", resample=True, dt=0.05)[2].repaired
    assert "of step 0.05, which folds 50% of the variance of 'u' to lower frequencies" in line
    assert line.endswith("filter it before, or give a smaller dt")
    assert "folds" not in taken("a.csv", resample=True, dt=0.004)[2].repaired[0]


def test_no_times_at_all(rows):
    refused(write(rows, head="a,f,u"), "a.csv has no column of times: give dt", "f", "u")
    assert taken("a.csv", "f", "u", dt=0.01)[0].time.step == pytest.approx(0.01)


# -- missing values ------------------------------------------------------------------------------------------


def test_missing_values_are_named_and_repaired_on_request(rows):
    whole = rows.copy()
    rows[100:103, 2] = np.nan
    refused(write(rows), "a.csv, line 102 (time 1), column 'u': no value (and in 2 other rows): repair it with fill")
    train, _, summary = taken("a.csv", fill=True)
    assert np.allclose(train.u[0, 100:103, 0], np.interp([100, 101, 102], [99, 103], whole[[99, 103], 2]))
    assert "3 rows with missing values interpolated" in summary.repaired[0]
    train, _, summary = taken("a.csv", cut=True)
    assert summary.records == 2
    assert np.array_equal(train.u[0, :80, 0].numpy(), whole[:80, 2])
    rows[200:206, 1] = np.nan
    refused(write(rows), "a.csv, line 202 (time 2): more than 5 values in a row are missing", fill=True)
    rows[200:206, 1] = 0.0
    rows[0, 2] = np.nan
    refused(
        write(rows), "line 2 (time 0): more than 5 values in a row are missing, or those before or after", fill=True
    )


def test_missing_values_are_interpolated_over_time(rows):
    rows[:, 0] = np.cumsum(0.01 * (1 + np.random.default_rng(5).random(N)))
    rows[:, 2] = 3 * rows[:, 0]
    rows[100:103, 2] = np.nan
    with pytest.warns(tino.TinoWarning, match="no influence"):
        train, _, _ = taken(write(rows), fill=True, resample=True)
    assert np.allclose(train.u[0, :, 0], 3 * (rows[0, 0] + train.time.step * np.arange(train.time.n)))


def test_nothing_is_interpolated_between_two_records(rows):
    rows[300:, 0] -= 3.0
    rows[300, 2] = np.nan
    summary = taken(write(rows), fill=True, cut=True)[2]
    assert (summary.records, summary.times) == (2, (299, 300))


def test_records_with_missing_values_can_be_dropped(rows):
    files = [write(rows, f"{i}.csv") for i in range(7)]
    rows[5, 1] = np.nan
    files.append(write(rows, "bad.csv"))
    refused(files, "bad.csv, line 7 (time 0.05), column 'f'")
    _, _, summary = taken(files, drop=True)
    assert summary.records == 7
    assert summary.repaired == (
        "bad.csv was left out: 1 row with missing values, the first at bad.csv, line 7 (time 0.05)",
    )
    refused(files, "choose one", drop=True, fill=True)


def test_text_in_a_column_of_numbers(rows):
    path = Path(write(rows))
    lines = path.read_text().splitlines()
    lines[41] = "0.4,OVERLOAD,1.0"
    path.write_text("\n".join(lines))
    refused("a.csv", "a.csv, line 42, column 'f': 'OVERLOAD' is not a number")
    lines[41] = "0.4,1.0"
    path.write_text("\n".join(lines))
    refused("a.csv", "a.csv, line 42: 2 cells, expected 3")


def test_a_decimal_comma_is_found_in_any_of_the_first_rows(rows):
    rows[0] = 0.0
    text = "\n".join(";".join(f"{v:.17g}".replace(".", ",") for v in row) for row in rows)
    Path("a.csv").write_text(f"t;f;u\n{text}\n")
    assert text.startswith("0;0;0\n0,01")
    train, _, _ = taken("a.csv")
    assert np.array_equal(train.f[0, :, 0].numpy(), rows[: train.time.n, 1])


def with_column(rows: np.ndarray, cells: list[str], head: str, first: int = 1) -> None:
    """a.csv with a column of text before the one with that number."""
    lines = []
    for row, cell in zip(rows, cells, strict=True):
        numbers = [repr(float(v)) for v in row]
        lines.append(",".join([*numbers[:first], cell, *numbers[first:]]))
    Path("a.csv").write_text("\n".join([head, *lines]) + "\n")


@pytest.mark.parametrize("every", [1, 7])
def test_a_column_of_text_that_nobody_uses(every, rows, capsys):
    """In all rows, or in some: then the first row without text is not the first of numbers."""
    with_column(rows, ["" if i % every else "OK" for i in range(N)], "t,state,f,u")
    train, _, summary = taken("a.csv")
    assert np.array_equal(train.f[0, :, 0].numpy(), rows[: train.time.n, 1])
    assert summary.repaired == ("a.csv: the column 'state' is left out, it holds text such as 'OK'",)
    refused("a.csv", "the column 'state' of a.csv holds text such as 'OK', expected numbers", "state", "u")


def test_a_preamble_and_units_above_columns_of_text(rows):
    with_column(rows, ["run A, second"] * N, "t;f;state;u", 2)
    lines = Path("a.csv").read_text().replace(",", ";").replace("run A; second", '"run A, second"')
    Path("a.csv").write_text("Logger 7;;;\n" + lines.replace("u\n", "u\ns;N;;mm\n", 1))
    train, _, _ = taken("a.csv")
    assert [str(c) for c in train.input_channels + train.output_channels] == ["f [N]", "u [mm]"]
    assert np.array_equal(train.f[0, :, 0].numpy(), rows[: train.time.n, 1])
    Path("a.txt").write_text("This is no table.\nIt was made by tino 1 and\nit ends here\n")
    refused("a.txt", "has no line of numbers among its first 200")


def test_dates_are_read_as_seconds(rows):
    dates = (np.datetime64("2024-01-31T12:00:00") + (10 * np.arange(N)).astype("timedelta64[ms]")).astype(str)
    for cells in (dates, [f"{one}Z" for one in dates], [one.replace("T", " ") for one in dates]):
        with_column(rows[:, 1:], list(cells), "time,f,u", 0)
        _, _, summary = taken("a.csv")
        assert (summary.dt, summary.time_unit, summary.records) == (0.01, "s", 1)
        assert "the dates 'time' are read as seconds after 2024-01-31 12:00:00" in summary.repaired[0]
    cells = dates.tolist()
    cells[80] = "yesterday"
    with_column(rows[:, 1:], cells, "time,f,u", 0)
    refused("a.csv", "a.csv, line 82, column 'time': 'yesterday' is not a date such as 2024-01-31 12:00:00")
    cells[80] = ""
    with_column(rows[:, 1:], cells, "time,f,u", 0)
    refused("a.csv", "a.csv, line 82: the time is missing")


def test_times_that_are_neither_numbers_nor_dates(rows):
    with_column(rows[:, 1:], [f"12:{i // 60:02d}:{i % 60:02d}" for i in range(N)], "time,f,u", 0)
    said = "holds text such as '12:00:00', expected numbers, or dates such as 2024-01-31T12:00:00"
    refused("a.csv", f"a.csv has no column of times ('time' {said}): give dt")
    refused("a.csv", f"the column 'time' of a.csv {said}", time="time")
    assert taken("a.csv", dt=0.01)[2].dt == 0.01


def test_comments_among_the_numbers_are_counted(rows):
    path = Path(write(rows))
    lines = path.read_text().splitlines()
    path.write_text("\n".join(["# made on Monday", *lines[:301], "# restart", *lines[301:401], "%", *lines[401:]]))
    summary = taken("a.csv")[2]
    assert summary.times == (N, N)
    assert summary.repaired == (
        "a.csv: 2 lines that begin with # or % among the numbers left out, the first is line 303",
    )


# -- columns -------------------------------------------------------------------------------------------------


def test_a_column_of_any_name_can_be_an_output(rows):
    """T is a temperature where it is asked for, and where there is a t; else it is the time."""
    for head, order, options in (("Q,T", [1, 2], {"dt": 0.01}), ("Q,T,t", [1, 2, 0], {}), ("time,Q,T", [0, 1, 2], {})):
        train, _, summary = taken(write(rows[:, order], head=head), "Q", "T", **options)
        assert np.array_equal(train.u[0, :, 0].numpy(), rows[: train.time.n, 2])
        assert summary.dt == 0.01
    assert taken(write(rows, head="T,f,u"), "f", "u")[2].dt == 0.01
    refused(write(rows[:, 1:], head="Q,T"), "give dt", "Q", "T")


def test_an_option_that_names_no_column_is_an_error(rows):
    path = write(rows, head="t [s],force,path")
    refused(path, "a.csv has no column 'forc': did you mean 'force'", "force", "path", units=("forc=N",))
    refused(path, "a.csv has no column 'wind'", "force", "path", axes=("wind=time",))
    told = "points are '0,1', but neither the inputs nor the outputs of a.csv have an axis of points: name the columns"
    refused(path, told, "force", "path", points="0,1")
    refused(path, "periodic was asked for, but neither", "force", "path", periodic=True)
    train, _, summary = taken(path, "force", "path", units=("*=V", "p*=mm", "t=h"))
    assert [c.unit for c in (*train.input_channels, *train.output_channels)] == ["V", "mm"]
    assert summary.time_unit == "h"


def test_channels_taken_for_points_are_told_how_to_say_so(rows):
    noise = np.random.default_rng(1).normal(size=N)
    f, u = (
        np.stack([rows[:, 1], noise], 1)[None],
        np.stack([rows[:, 2], rows[:, 2] + system(noise), rows[:, 2]], 1)[None],
    )
    np.savez("a.npz", F=f, y=u, t=rows[:, 0])
    told = "but 'F' has (2,) points: if these are channels, say so, such as axes = 'F=record,time,channel'"
    refused("a.npz", told, "F", "y", points="0,1,2")
    train, _, _ = taken("a.npz", "F", "y", points="0,1,2", axes=("F=record,time,channel",))
    assert len(train.input_channels) == 2
    assert train.outputs == tino.Interval(0.0, 2.0, 3)


def test_columns_that_are_not_there_or_not_clear(rows):
    write(rows, head="time [s],force [N],path (mm)")
    refused(
        "a.csv", "say which columns are the inputs and outputs: a.csv has the columns time [s], force [N], path [mm]"
    )
    refused("a.csv", "a.csv has no column 'forse': did you mean 'force'?", "forse", "path")
    refused("a.csv", "'force' of a.csv is asked for as input and as output", "force", "force")
    write(rows, "b.csv", head="time,force,way")
    refused(["a.csv", "b.csv"], "b.csv has no column 'path'", "force", "path")
    write(rows, "b.csv", head="time,force [kN],path (mm)")
    refused(
        ["a.csv", "b.csv"],
        "'force' is in N in a.csv, in kN in b.csv: convert it",
        "force",
        "path",
    )
    refused(write(rows, "c.csv", head="t,f,f"), "c.csv has two columns named 'f'", "f", "u")
    np.savez("c.npz", **{"force [N]": rows[:, 1], "force [kN]": rows[:, 2], "u": rows[:, 2], "t": rows[:, 0]})
    refused("c.npz", "c.npz has two arrays named 'force', 'force [N]' and 'force [kN]': rename one", "force", "u")
    refused(write(rows, "c.csv", head="t,f"), "c.csv has 2 names (t, f) above 3 columns of numbers", "f", "u")


def test_the_command_line_lists_the_columns_too(rows, capsys):
    write(rows, head="time,force,path")
    assert run(["import", "a.csv", "--input", "forze", "--output", "path"]) == 1
    assert (
        capsys.readouterr().err == "tino: a.csv has no column 'forze': did you mean 'force'? known: force, path, time\n"
    )


def test_constant_channels_and_inputs_without_influence(rows):
    rng = np.random.default_rng(2)
    more = np.concatenate([rows, np.full((N, 1), 3.5), rng.normal(size=(N, 1)), rows[:, 1:2] ** 2], 1)
    head = "t,f,u,fixed,noise,squared"
    write(more, head=head)
    with pytest.warns(tino.TinoWarning) as told:
        taken("a.csv", ["f", "fixed", "noise"], "u")
    said = [str(one.message) for one in told]
    assert any("the input 'fixed' is 3.5 throughout" in line for line in said)
    assert any("the input 'noise' has no influence" in line for line in said)
    assert not any("'f'" in line for line in said)
    train, _, summary = taken("a.csv", ["f", "fixed", "noise"], "u", drop_channel=("fixed", "noise"))
    assert [c.name for c in train.input_channels] == ["f"]
    assert summary.notes == ()


@pytest.mark.parametrize("kind", ["slow and noisy", "even", "parametric"])
def test_inputs_with_influence_are_not_called_dead(kind, rows):
    """A slow response under noise, a response to f², a response to the product of two inputs."""
    rng = np.random.default_rng(3)
    n = 3000
    f, g = rng.normal(size=(2, n))
    u = np.zeros(n)
    for i in range(1, n):
        drive = {
            "slow and noisy": f[i] + g[i],
            "even": f[i] ** 2 + g[i],
            "parametric": f[i] - (0.5 + 0.3 * g[i]) * u[i - 1],
        }
        u[i] = u[i - 1] + (0.02 if kind != "parametric" else 1.0) * (
            drive[kind] - (0.5 * u[i - 1] if kind != "parametric" else 0)
        )
    u += (0.05 * rng.normal(size=n) if kind == "slow and noisy" else 0) * u.std()
    write(np.stack([0.01 * np.arange(n), f, g, u], 1), head="t,f,g,u")
    assert taken("a.csv", ["f", "g"], "u")[2].notes == ()


@pytest.mark.parametrize(
    ("factor", "words"), [(1000, "m and mm"), (np.pi / 180, "degrees and radians"), (25.4, "inches")]
)
def test_sizes_that_tell_of_a_mistake_of_units(factor, words, rows):
    for i in range(6):
        f = np.random.default_rng(10 + i).normal(size=N)
        u = system(f) * (factor if i == 4 else 1)
        write(np.stack([rows[:, 0], f, u], 1), f"{i}.csv")
    with pytest.warns(tino.TinoWarning) as told:
        taken([f"{i}.csv" for i in range(6)])
    (line,) = [str(one.message) for one in told if "mistake of units" in str(one.message)]
    word = "larger" if factor > 1 else "smaller"
    assert f"{word} in 4.csv than in the others" in line
    assert words in line


def test_records_that_differ_in_size_for_other_reasons_are_left_in_peace(rows):
    for i, size in enumerate((0.5, 1, 2, 3, 5, 7)):
        write(rows * [1, size, size], f"{i}.csv")
    assert taken([f"{i}.csv" for i in range(6)])[2].notes == ()


def test_a_quiet_record_at_the_end_of_a_tail_is_left_in_peace(rows):
    """It is 6.9 times smaller than most, but others lie between; without these it would stand out. Of one that is 5.6
    times smaller no unit is guessed."""
    usual, tail = [0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 0.8, 1.3], [0.6, 0.4, 0.27]
    for sizes, notes in (([*usual, *tail, 0.145], 0), ([*usual, 0.145], 1), ([*usual, 0.18], 0)):
        u = np.stack([size * rows[:, 2] for size in sizes])
        np.savez("some.npz", t=rows[:, 0], force=np.stack([rows[:, 1]] * len(u)), path=u)
        said = understood("some.npz", "force", "path", (), ImportOptions(), 0)[2].notes
        assert len([note for note in said if "psi and kPa" in note]) == notes


# -- what columns are ----------------------------------------------------------------------------------------


def test_units_of_an_npz_leave_its_arrays_as_they_are(rows):
    """Names of channels and coordinates were lost when a unit was given."""
    names = {"f_names": np.array(["force"]), "u_names": np.array(["path"])}
    np.savez("a.npz", t=rows[:, 0], f=rows[:, 1:2], u=rows[:, 2:], **names)  # pyright: ignore[reportArgumentType]
    train, _, _ = taken(["a.npz"], units=("path=mm",))
    assert [(one.name, one.unit) for one in (*train.input_channels, *train.output_channels)] == [
        ("force", ""),
        ("path", "mm"),
    ]
    refused("a.npz", "a.npz has no channel 'paht': did you mean 'path'", units=("paht=mm",))


def test_t_comes_before_its_capital_alone(rows):
    more = np.column_stack([rows[:, 0], rows[:, 1], rows[:, 2]])
    train, _, _ = taken([write(more, head="Time,Q,t")], "Q")
    assert [one.name for one in train.output_channels] == ["t"]
    train, _, _ = taken([write(more[:, [1, 0, 2]], head="T,t,u")], "T", "u")
    assert train.time.step == pytest.approx(0.01)


# -- too little ----------------------------------------------------------------------------------------------


def test_a_short_record_beside_a_long_one_is_left_out(rows):
    files = [write(rows), write(rows[:5], "b.csv")]
    _, _, summary = taken(files)
    assert summary.repaired == ("1 record of fewer than 8 times left out, the first in b.csv",)
    assert summary.records == 1


def test_too_few_samples(rows):
    refused(write(rows[:5]), "a.csv: its longest record has 5 times, at least 8 are needed")
    refused(write(rows[:1]), "a.csv: its longest record has 1 time, at least 8 are needed")
    refused(write(rows[:40]), "a.csv: 32 times are left for training, at least 50 are needed: add records")
    refused(write(rows[:0]), "a.csv has no line of numbers among its first 200: it begins with 't,f,u'")
    refused(write(rows * [1, 1e30, 1]), "the input f is of size")


def test_numbers_that_make_no_sense():
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"dt": 0.0}, "dt is 0.0, expected a number above 0"),
        ({"dt": float("nan")}, "dt is nan"),
        ({"test_share": 1.0}, "test_share is 1.0"),
        ({"burn_in": -1}, "burn_in is -1, expected 0 or more"),
        ({"units": ("N",)}, "'N' lacks an equals sign"),
    ]
    for options, said in wrong:
        with pytest.raises(tino.TinoError, match=said):
            ImportOptions(**options)
