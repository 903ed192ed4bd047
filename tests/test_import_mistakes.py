"""Mistakes in files that ``tino import`` must not accept, and must name so that they can be mended."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

import tino
from tino import ImportOptions
from tino.cli import run

N = 400


@pytest.fixture
def rows(tmp_path, monkeypatch) -> np.ndarray:
    """Time, input and output of a first-order system."""
    monkeypatch.chdir(tmp_path)
    f = np.random.default_rng(0).normal(size=N)
    u = np.zeros(N)
    for i in range(1, N):
        u[i] = 0.8 * u[i - 1] + f[i]
    return np.stack([0.01 * np.arange(N), f, u], 1)


def write(rows: np.ndarray, name: str = "a.csv", head: str = "time [s],force [N],path [mm]") -> str:
    text = "\n".join(",".join("" if np.isnan(v) else f"{v:.9g}" for v in row) for row in rows)
    Path(name).write_text(f"{head}\n{text}\n")
    return name


def with_cells(rows: np.ndarray, cells: dict[int, str], decimal: str = ",") -> str:
    """A table with semicolons, in which the force is a whole number, or what is given for its row."""
    lines = [[f"{t:.2f}", cells.get(i, str(round(100 * f))), f"{u:.4f}"] for i, (t, f, u) in enumerate(rows)]
    lines = [[t.replace(".", decimal), f, u.replace(".", decimal)] for t, f, u in lines]
    Path("a.csv").write_text("\n".join(map(";".join, [["Zeit", "Kraft", "Weg"], *lines])))
    return "a.csv"


def taken(files, *asked, test=(), **options):
    return tino.import_records(files, *(asked or ("force", "path")), test=test, options=ImportOptions(**options))


def refused(files, said: str, *asked, **options) -> None:
    with pytest.raises(tino.TinoError) as caught:
        taken(files, *asked, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def printed(capsys, *arguments: str) -> str:
    """The error of a command."""
    assert run(list(arguments)) == 1
    return capsys.readouterr().err.removeprefix("tino: ").strip()


# -- decimal signs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 5, 300])
@pytest.mark.parametrize(("cell", "meant"), [("1.094", "1094 or 1,094"), ("-12.345,5", "-12345,5"), ("0.5", "0,5")])
def test_a_point_among_decimal_commas_is_no_decimal_sign(row, cell, meant, rows):
    """1.094 was read as a little more than one, or the error named another column."""
    told = f"a.csv, line {row + 2}, column 'Kraft': '{cell}' has a point, but the decimal sign of this file is a comma"
    refused(with_cells(rows, {row: cell}), f"{told}: write {meant}", "Kraft", "Weg", time="Zeit")


def test_a_column_of_thousands_is_not_taken_for_decimals_or_text(rows):
    cells = {i: f"{1000 + i:,}".replace(",", ".") for i in range(N)}
    refused(with_cells(rows, cells), "a.csv, line 2, column 'Kraft': '1.000' has a point", "Kraft", "Weg")


def test_a_comma_among_decimal_points_is_an_error_too(rows):
    told = "a.csv, line 302, column 'Kraft': '1,094' has a comma, but the decimal sign of this file is a point"
    refused(with_cells(rows, {300: "1,094"}, "."), f"{told}: write 1094 or 1.094", "Kraft", "Weg")


def test_decimal_commas_that_begin_late(rows):
    rows[:60] = np.round(rows[:60] * 0)
    rows[:, 0] = np.arange(N)
    lines = [f"{t:g};{f:g};{u:g}".replace(".", ",") for t, f, u in rows]
    Path("a.csv").write_text("\n".join(["t;f;u", *lines]))
    assert float(taken("a.csv", "f", "u")[0].f[0, 70, 0]) == pytest.approx(rows[70, 1], rel=1e-5)


# -- units and steps -----------------------------------------------------------------------------------------


def test_files_in_different_units_of_time(rows):
    write(rows)
    write(rows[::-1] * [-1, 1, 1] + [3.99, 0, 0], "b.csv", "time [ms],force [N],path [mm]")
    told = "the times are in s in a.csv, in ms in b.csv: convert them, or if a label is wrong give units = 'time=s'"
    refused(["a.csv", "b.csv"], told)
    refused(["a.csv"], told, test=["b.csv"])
    assert taken(["a.csv", "b.csv"], units=("time=s",))[2].time_unit == "s"
    write(1e3 * rows, "c.csv", "time [ms],force [N],path [mm]")
    refused(["a.csv", "c.csv"], "the times are in s in a.csv, in ms in c.csv")
    write(rows * [1, 2, 2], "d.csv", "time [seconds],force [N],path [mm]")
    write(rows * [1, 3, 3], "e.csv", "time,force [N],path [mm]")
    assert taken(["a.csv", "d.csv", "e.csv"])[2].time_unit == "s"


def test_steps_that_look_like_another_unit(rows):
    write(rows, head="time,force,path")
    write(rows * [1000, 1, 1], "b.csv", "time,force,path")
    for resample in (False, True):
        told = "the time step is 0.01 in a.csv, 10 in b.csv: milliseconds and seconds? convert the times of one"
        refused(["a.csv", "b.csv"], told, resample=resample)
    refused(["a.csv"], "10 in b.csv: milliseconds and seconds? convert", test=["b.csv"])


def test_channels_in_different_units_and_on_different_points(rows):
    write(rows)
    write(rows, "b.csv", "time [s],force [kN],path [mm]")
    told = "'force' is in N in a.csv, in kN in b.csv: convert it, or if a label is wrong give units = 'force=N'"
    refused(["a.csv", "b.csv"], told)
    write(rows, "b.csv", "time [s],force,path [mm]")
    refused(["a.csv", "b.csv"], "'force' is in N in a.csv, without a unit in b.csv")
    for name, count, size in (("a.npz", 5, 4.0), ("b.npz", 6, 5.0), ("c.npz", 5, 1.0)):
        u = np.random.default_rng(count).normal(size=(3, N, count))
        x = np.linspace(0, size, count)
        np.savez(name, f=np.ones((3, N)), u=u, t=rows[:, 0], x=x)
    for name, said in (("b.npz", "6 points on [0, 5] in b.npz"), ("c.npz", "5 points on [0, 1] in c.npz")):
        refused(["a.npz", name], f"the outputs are 5 points on [0, 4] in a.npz, {said}: interpo", "f", "u", points="x")
    np.savez("c.npz", f=np.ones((3, N)), u=u, t=rows[:, 0], x=np.array([0, 1, 2, 3, 9.0]))
    np.savez("d.npz", f=np.ones((3, N)), u=u, t=rows[:, 0], x=np.array([0, 1, 2, 4, 9.0]))
    refused(["c.npz", "d.npz"], "the outputs lie at other points in d.npz than in c.npz", "f", "u", points="x")
    write(rows, "p.csv", "t,T1,u")
    write(rows, "q.csv", "t,T2,u")
    refused(["p.csv", "q.csv"], "the inputs of p.csv are T1, those of q.csv are T2: give both the same", "T*", "u")


# -- missing values ------------------------------------------------------------------------------------------


def test_what_was_filled_and_where_it_was_cut_are_two_notes(rows):
    rows[90, 2] = np.nan
    rows[200:210, 1] = np.nan
    filled, cut = taken(write(rows), fill=True, cut=True)[2].repaired
    assert filled == "a.csv: 1 row with missing values interpolated, the first at a.csv, line 92 (time 0.9)"
    assert cut == "a.csv was cut at 10 rows with missing values, the first at a.csv, line 202 (time 2)"
    with pytest.warns(tino.TinoWarning) as told:
        tino.from_arrays(rows[:, 1], rows[:, 2], dt=0.01, fill=True, cut=True)
    assert [str(one.message) for one in told] == [
        "the dataset: 1 row with missing values interpolated, the first at the dataset, row 91",
        "the dataset was cut at 10 rows with missing values, the first at the dataset, row 201",
    ]


@pytest.mark.parametrize("empty", [",,", '"","",""', ",,,"])
def test_rows_without_a_value_at_the_end_are_left_out(empty, rows):
    path = Path(write(rows))
    path.write_text(path.read_text() + f"{empty}\n{empty}\n")
    _, _, summary = taken("a.csv")
    assert summary.times == (N, N)
    assert summary.repaired == (f"a.csv: 2 rows without a value at the end left out, the first is line {N + 2}",)


def test_a_row_without_a_value_in_the_middle(rows):
    rows[300] = np.nan
    told = "a.csv, line 302: the time is missing: leave the row out, or repair it with cut or drop"
    refused(write(rows), told)
    refused("a.csv", told, fill=True)
    _, _, summary = taken("a.csv", cut=True)
    assert summary.records == 2
    assert summary.repaired == ("a.csv was cut at 1 row with missing values, the first at a.csv, line 302",)
    write(rows[:200] * [1, 2, 2], "b.csv")
    _, _, summary = taken(["a.csv", "b.csv"], drop=True)
    assert summary.repaired == ("a.csv was left out: 1 row with missing values, the first at a.csv, line 302",)


def test_the_only_record_cannot_be_dropped(rows):
    rows[90, 2] = np.nan
    told = "a.csv: drop leaves out the only record, which has missing values: use fill or cut instead"
    refused(write(rows), told, drop=True)
    files = ["a.csv", write(rows * [1, 2, 2], "b.csv")]
    refused(files, "a.csv: drop leaves out all 2 records, which have missing", drop=True)
    rows[:, 1] = np.nan
    refused(write(rows), "a.csv: every row has a missing value, at least 8 are needed", cut=True)


# -- files ---------------------------------------------------------------------------------------------------


def test_a_file_is_given_once(rows):
    write(rows)
    write(rows * [1, 2, 2], "b.csv")
    refused(["a.csv", "b.csv"], "a.csv is given for training and for the test: choose one", test=["a.csv"])
    Path("link.csv").symlink_to("a.csv")
    refused(["a.csv", "b.csv"], "link.csv is given for training and for the test", test=["link.csv"])
    refused(["a.csv", "b.csv", "./a.csv"], "a.csv is given twice: leave one out")
    refused(["a.csv"], "b.csv is given twice: leave one out", test=["b.csv", "b.csv"])
    Path("copy.csv").write_bytes(Path("a.csv").read_bytes())
    told = "copy.csv, for the test, is a copy of a.csv, for training: leave one out"
    refused(["a.csv", "b.csv"], told, test=["copy.csv"])
    assert taken(["a.csv"], test=["b.csv"])[2].records == 2


def test_an_excel_workbook_is_told_what_it_is(rows, capsys):
    with zipfile.ZipFile("book.xlsx", "w") as book:
        for name in ("[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"):
            book.writestr(name, "<x/>")
    refused("book.xlsx", "book.xlsx is an Excel workbook: save its sheet as CSV, and import that")
    told = "book.xlsx is an Excel workbook: read it with tino import"
    assert printed(capsys, "train", "book.xlsx", "tino").startswith(told)
    np.savez("own.npz", **{"xl/f": rows[:, 1], "u": rows[:, 2], "t": rows[:, 0]})
    assert taken("own.npz", "xl/f", "u")[2].records == 1


def test_arrays_with_other_numbers_of_times(rows, capsys):
    t, f, u = rows.T
    for name, own in (("a.npz", u[:90]), ("b.npz", u[:90, None])):
        np.savez(name, f=f, u=own, t=t)
        assert printed(capsys, "diagnose", name) == f"{name}: u has 90 times, t has {N}"
    np.savez("c.npz", f=f[:90], u=u[:90], t=t)
    assert printed(capsys, "diagnose", "c.npz") == f"c.npz: f has 90 times, t has {N}"
    refused("a.npz", f"a.npz: 'u' has 90 times, 't' has {N}", "f", "u")


def test_a_line_that_was_cut_off(rows):
    text = Path(write(rows)).read_text().splitlines()
    text[200] = text[200].rpartition(",")[0]
    Path("a.csv").write_text("\n".join(text[:201]))
    told = "a.csv, line 201: 2 cells, expected 3 as in the lines before"
    refused("a.csv", f"{told}: the file seems to be cut off here, copy it again, or delete its last line")
    Path("a.csv").write_text("\n".join(text))
    with pytest.raises(tino.TinoError, match=r"2 cells, expected 3 as in the lines before$"):
        taken("a.csv")
    Path("a.csv").write_text("\n".join([*text[:200], "7"]))
    refused("a.csv", "a.csv, line 201: 1 cell, expected 3")


def test_a_folder_is_told_how_to_name_its_files(rows):
    Path("runs").mkdir()
    refused("runs", "runs is a folder, expected a file: name those in it, such as runs/*.csv")


# -- what is said --------------------------------------------------------------------------------------------


def test_the_command_line_names_options_as_they_are_typed(rows, capsys):
    write(rows)
    write(rows, "b.csv", "time [s],force [kN],path [mm]")
    asked = ["--input", "force", "--output", "path"]
    assert printed(capsys, "import", "a.csv").endswith("a system without inputs has --input none and --ic")
    assert printed(capsys, "import", "a.csv", "b.csv", *asked).endswith("give --units 'force=N'")
    assert "such as --axes 'F=record,time,channel'" in printed_of_axes(rows, capsys)
    assert printed(capsys, "import", "a.csv", *asked, "--test-share", "2").startswith("--test-share is 2.0")
    assert printed(capsys, "import", "a.csv", *asked, "--dt", "1e-5").endswith("or give --dt 0.01")
    write(np.insert(rows, 1, 293, 1), head="time,temp,force,path")
    assert run(["import", "a.csv", "--input", "temp", "force", "--output", "path"]) == 0
    assert "the input 'temp' is 293 throughout: --drop-channel leaves it out" in capsys.readouterr().out
    assert printed(capsys, "import", "a.csv", "--input", "drop_channel", "--force").startswith(
        "a.csv has no column 'drop_channel'"
    )


def printed_of_axes(rows: np.ndarray, capsys) -> str:
    np.savez("a.npz", F=rows[None, :, 1:], y=rows[None], t=rows[:, 0])
    return printed(capsys, "import", "a.npz", "--input", "F", "--output", "y", "--points", "0,1,2")


def test_an_output_that_never_varies(rows):
    rows[:, 2] = 5.1
    with pytest.warns(tino.TinoWarning) as told:
        taken(write(rows))
    (line,) = [str(one.message) for one in told]
    assert line == "the output 'path' is 5.1 throughout: no output varies, so there is nothing to learn"


def test_a_file_without_the_initial_state(rows, capsys):
    decay = 0.9 ** np.arange(60)
    np.savez("rig.npz", t=0.01 * np.arange(60), tensor=np.random.default_rng(0).normal(size=(12, 1)) * decay)
    assert run(["import", "rig.npz", "--input", "none", "--output", "tensor", "--ic"]) == 0
    assert run(["train", "rig.h5", "linear", "--out", "run"]) == 0
    capsys.readouterr()
    told = "a.csv lacks the initial state: linear starts from the first values of 'tensor': add them, or name their"
    assert printed(capsys, "predict", "run", write(rows)).startswith(told)
