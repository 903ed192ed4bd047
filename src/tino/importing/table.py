"""Tables as text: columns separated by commas, semicolons, tabs or spaces, with or without a line of names."""

import csv
import io
import re
from pathlib import Path

import numpy as np

from tino.errors import TinoError, in_short
from tino.importing.content import Content, Variable, split_unit

LARGEST = 2**31  # bytes
HEAD = 200  # lines in which the numbers must begin
COLUMNS = 10_000
MISSING = ("", "nan", "na", "n/a", "null", "none", "-")
WORD = re.compile(r"\S+(?:\s*[\[(][^\])]*[\])])?")  # in a line of names that spaces separate


def read_table(path: Path) -> Content:
    """The columns by name, or numbered 1, 2, ... without a line of names; an empty cell is NaN."""
    if (size := path.stat().st_size) > LARGEST:
        raise TinoError(
            f"{path} has {size / 2**30:.0f} GiB: text of more than 2 GiB is not read, save it as .npz or .h5"
        )
    text = _decoded(path.read_bytes(), path)
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    rows = [(i, line.lstrip("#%").strip() if line.lstrip()[0] in "#%" else line) for i, line in lines[:HEAD]]
    comments = {i for i, line in lines if line.lstrip()[0] in "#%"}
    first = next((k for k, (i, line) in enumerate(rows) if i not in comments and _is_numeric(line)), None)
    if first is None:
        begun = in_short(lines[0][1], 40) if lines else "nothing"
        raise TinoError(f"{path} has no line of numbers among its first {HEAD}: it begins with '{begun}'")
    mark, comma = _signs(rows[first][1])
    width = _width(_cells(rows[first][1], mark), rows[first - 1][1] if first else "", mark)
    if width > COLUMNS:
        raise TinoError(f"{path} has {width} columns, at most {COLUMNS} are read")
    names, units = _names(path, [line for _, line in rows[:first]], mark, width)
    body = [(i, line) for i, line in lines[first:] if i not in comments]
    values = _numbers(path, body, mark, comma, names)
    variables = {name: Variable((len(values),), unit, ("time",)) for name, unit in zip(names, units, strict=True)}
    columns = {name: values[:, j] for j, name in enumerate(names)}
    return Content(str(path), variables, columns, tuple(i for i, _ in body))


def _decoded(raw: bytes, path: Path) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    if b"\x00" in raw[: 2**16]:
        raise TinoError(f"{path} is not text, nor a file of a kind that is known: CSV, NPZ, NPY, MAT, HDF5 or netCDF")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _signs(line: str) -> tuple[str | None, bool]:
    """What separates the cells of a line of numbers, None for spaces, and whether a comma is the decimal sign."""
    mark = next((sign for sign in (";", "\t") if sign in line), None)
    if mark is not None:
        return mark, "," in line and "." not in line
    return ("," if "," in line else None), False


def _cells(line: str, mark: str | None) -> list[str]:
    if mark is None:
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=mark, skipinitialspace=True), [])]
    except csv.Error as error:
        raise TinoError(f"the line '{in_short(line, 40)}' cannot be split into cells: {in_short(error)}") from error


def _width(cells: list[str], above: str, mark: str | None) -> int:
    """The number of columns; a mark at the end of a line begins none."""
    names = _cells(above, mark) if above else []
    ended = len(cells) > 1 and not cells[-1] and (not names or not names[-1] or len(names) < len(cells))
    return len(cells) - ended


def _number(cell: str, comma: bool) -> float:
    if cell.lower() in MISSING:
        return float("nan")
    if "_" in cell:  # Python's, in nobody's tables
        raise ValueError(cell)
    return float(cell.replace(",", ".") if comma else cell)


def _is_numeric(line: str) -> bool:
    mark, comma = _signs(line)
    try:
        return any(np.isfinite(_number(cell, comma)) for cell in _cells(line, mark))
    except (ValueError, TinoError):
        return False


def _names(path: Path, above: list[str], mark: str | None, width: int) -> tuple[list[str], list[str]]:
    """Names and units from the lines above the numbers: force [N], or a line of names and a line of units."""
    split = [WORD.findall(line) if mark is None else _cells(line, mark) for line in above]
    split = [cells[:-1] if len(cells) == width + 1 and not cells[-1] else cells for cells in split]
    fitting = [cells for cells in split if len(cells) == width]
    if not above:
        return [str(i) for i in range(1, width + 1)], [""] * width
    if not fitting or len(split[-1]) != width:
        given = f"{len(split[-1])} names ({in_short(', '.join(split[-1]), 60)})"
        raise TinoError(f"{path} has {given} above {width} columns of numbers: give each column one name")
    with_units = len(fitting) > 1 and split[-2:] == fitting[-2:] and all(len(cell) <= 12 for cell in fitting[-1])
    found = [split_unit(cell) for cell in fitting[-2 if with_units else -1]]
    names = [name or str(i) for i, (name, _) in enumerate(found, 1)]
    units = [unit for _, unit in found]
    if with_units:
        units = [cell.strip("[]() ") for cell in fitting[-1]]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise TinoError(f"{path} has two columns named '{in_short(twice, 40)}': give each its own name")
    return names, units


def _numbers(path: Path, body: list[tuple[int, str]], mark: str | None, comma: bool, names: list[str]) -> np.ndarray:
    """(rows, columns), fast where every cell is a number, else cell by cell, with the place of what is none."""
    if not comma and not any(sign in line for _, line in body[:1] for sign in "\"'"):
        try:
            text = io.StringIO("\n".join(line for _, line in body))
            found = np.loadtxt(text, delimiter=mark, ndmin=2, comments=None)
            if found.shape == (len(body), len(names)):
                return found
        except (ValueError, IndexError):
            pass  # the way below tells where
    found = np.empty((len(body), len(names)))
    for row, (i, line) in enumerate(body):
        cells = _cells(line, mark)
        if len(cells) == len(names) + 1 and not cells[-1]:
            cells.pop()  # a mark at the end of the line
        if len(cells) != len(names):
            raise TinoError(f"{path}, line {i}: {len(cells)} cells, expected {len(names)} as in the lines before")
        for j, cell in enumerate(cells):
            try:
                found[row, j] = _number(cell, comma)
            except ValueError:
                given = in_short(cell, 30)
                raise TinoError(f"{path}, line {i}, column '{names[j]}': '{given}' is not a number") from None
    return found
