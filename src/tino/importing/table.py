"""Tables as text: columns separated by commas, semicolons, tabs or spaces, with or without a line of names."""

import io
import math
import re
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path

import numpy as np

from tino.errors import TinoError, counted, in_short
from tino.importing.cells import (
    COMMAS,
    cells_of,
    first_date,
    has_comma,
    mark_of,
    number,
    numbers_of,
    seconds,
    texts_of,
    unread,
    without_value,
)
from tino.importing.content import Content, Variable, split_unit

LARGEST = 2**31  # bytes
HEAD = 200  # lines in which the numbers must begin
SOME = 50  # rows that tell which columns hold text, and, with as many that have a comma, the decimal sign
COLUMNS = 10_000
WORD = re.compile(r"\S+(?:\s*[\[(][^\])]*[\])])?")  # in a line of names that spaces separate
Lines = list[tuple[int, str]]  # with their numbers, from 1


def read_table(path: Path) -> Content:
    """The columns by name, or numbered 1, 2, ... without a line of names; an empty cell is NaN.

    Dates are seconds after the first. Columns of text, and lines that begin with # or %, are left out, with a note.
    """
    if (size := path.stat().st_size) > LARGEST:
        raise TinoError(
            f"{path} has {size / 2**30:.0f} GiB: text of more than 2 GiB is not read, save it as .npz or .h5"
        )
    text = _decoded(path.read_bytes(), path)
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    comments = {i for i, line in lines if line.lstrip()[0] in "#%"}
    head = [(i, line.lstrip("#%").strip() if i in comments else line) for i, line in lines[:HEAD]]
    first = _first(head, comments)
    if first is None:
        begun = in_short(lines[0][1], 40) if lines else "nothing"
        raise TinoError(f"{path} has no line of numbers among its first {HEAD}: it begins with '{begun}'")
    mark = mark_of(head[first][1])
    width = _width(cells_of(head[first][1], mark), head[first - 1][1] if first else "", mark)
    if width > COLUMNS:
        raise TinoError(f"{path} has {width} columns, at most {COLUMNS} are read")
    names, units = _names(path, [line for _, line in head[:first]], mark, width)
    body = [(i, line) for i, line in lines[first:] if i not in comments]
    full = len(body)
    while full > 1 and without_value(body[full - 1][1], mark):
        full -= 1
    found = _of_columns(path, body[:full], mark, names, units)
    notes = list(found.notes)
    if skipped := [i for i, _ in lines[first:] if i in comments]:
        told = "1 line that begins" if len(skipped) == 1 else f"{len(skipped)} lines that begin"
        notes.append(f"{path}: {told} with # or % among the numbers left out, the first is line {skipped[0]}")
    if empty := len(body) - full:
        told = f"{counted(empty, 'row')} without a value at the end left out"
        notes.append(f"{path}: {told}, the first is line {body[full][0]}")
    return replace(found, notes=tuple(notes))


def _of_columns(path: Path, body: Lines, mark: str | None, names: list[str], units: list[str]) -> Content:
    some = [cells_of(line, mark) for _, line in body[:SOME]]
    with_comma = (cells_of(line, mark) for _, line in body[SOME:] if mark in COMMAS and "," in line)
    comma = has_comma([*some, *islice(with_comma, SOME)], mark)
    texts = texts_of(some, len(names), comma)
    dates = {j: begin for j, cells in texts.items() if (begin := first_date(cells)) is not None}
    kept = {j: dates.get(j) for j in range(len(names)) if j in dates or j not in texts}
    values = _numbers(path, body, mark, comma, names, kept)
    samples = {names[j]: in_short(cells[0], 30) for j, cells in texts.items() if j not in dates}
    notes = [f"{path}: the dates '{names[j]}' are read as seconds after {begin}" for j, begin in dates.items()]
    notes += [
        f"{path}: the column '{in_short(name, 40)}' is left out, it holds text such as '{cell}'"
        for name, cell in samples.items()
    ]
    return Content(
        str(path),
        {names[j]: Variable((len(values),), "s" if j in dates else units[j], ("time",)) for j in kept},
        {names[j]: values[:, j] for j in kept},
        tuple(i for i, _ in body),
        texts=samples,
        notes=tuple(notes),
    )


def _decoded(raw: bytes, path: Path) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    if b"\x00" in raw[: 2**16]:
        raise TinoError(f"{path} is not text, nor a file of a kind that is known: CSV, NPZ, NPY, MAT, HDF5 or netCDF")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _first(head: Lines, comments: set[int]) -> int | None:
    """Where the numbers begin: at a line of numbers only, or, beside columns of text, at the first like the fullest."""
    kept = [k for k, (i, _) in enumerate(head) if i not in comments]
    found = {k: numbers_of(head[k][1]) for k in kept}
    sure = next((k for k in kept if _finite(found[k]) and None not in found[k]), None)
    if sure is None:
        sure = max(kept, key=lambda k: len(_finite(found[k])), default=None)
        if sure is None or len(found[sure]) != len(found[kept[-1]]):
            return None
    if not (columns := _finite(found[sure])):
        return None
    for k in reversed(kept[: kept.index(sure)]):
        own = found[k]
        if len(own) != len(found[sure]) or not _finite(own) or any(own[j] is None for j in columns):
            break
        sure = k
    return sure


def _finite(cells: list[float | None]) -> list[int]:
    """Which of them are finite numbers."""
    return [j for j, value in enumerate(cells) if value is not None and math.isfinite(value)]


def _width(cells: list[str], above: str, mark: str | None) -> int:
    """The number of columns; a mark at the end of a line begins none."""
    names = cells_of(above, mark) if above else []
    ended = len(cells) > 1 and not cells[-1] and (not names or not names[-1] or len(names) < len(cells))
    return len(cells) - ended


def _names(path: Path, above: list[str], mark: str | None, width: int) -> tuple[list[str], list[str]]:
    """Names and units from the lines above the numbers: force [N], or a line of names and a line of units."""
    split = [WORD.findall(line) if mark is None else cells_of(line, mark) for line in above]
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


def _numbers(
    path: Path,
    body: Lines,
    mark: str | None,
    comma: bool,
    names: list[str],
    kept: dict[int, datetime | None],
) -> np.ndarray:
    """(rows, columns), fast where every cell is a number, else cell by cell, with the place of what is none.

    ``kept`` are the columns to read; of dates, it says when they begin.
    """
    plain = list(kept) == list(range(len(names))) and not any(kept.values())
    if plain and not comma and not any(sign in line for _, line in body[:1] for sign in "\"'"):
        try:
            text = io.StringIO("\n".join(line for _, line in body))
            found = np.loadtxt(text, delimiter=mark, ndmin=2, comments=None)
            if found.shape == (len(body), len(names)):
                return found
        except (ValueError, IndexError):
            pass  # the way below tells where
    found = np.full((len(body), len(names)), np.nan)
    for row, (i, line) in enumerate(body):
        cells = cells_of(line, mark)
        if len(cells) == len(names) + 1 and not cells[-1]:
            cells.pop()  # a mark at the end of the line
        if len(cells) != len(names):
            told = f"{path}, line {i}: {counted(len(cells), 'cell')}, expected {len(names)} as in the lines before"
            if row == len(body) - 1 and len(cells) < len(names):
                told = f"{told}: the file seems to be cut off here, copy it again, or delete its last line"
            raise TinoError(told)
        for j, begin in kept.items():
            try:
                found[row, j] = number(cells[j], comma) if begin is None else seconds(cells[j], begin)
            except (ValueError, TypeError):
                told = unread(cells[j], comma, begin)
                raise TinoError(f"{path}, line {i}, column '{names[j]}': {told}") from None
    return found
