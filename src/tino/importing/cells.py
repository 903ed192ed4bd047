"""The cells of a table as text: how a line is split, and which cells are numbers, dates or text."""

import csv
import math
import re
from datetime import datetime

from tino.errors import TinoError, in_short

MISSING = ("", "nan", "na", "n/a", "null", "none", "-")
DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
COMMAS = (";", "\t")  # between cells: then a comma may be the decimal sign


def mark_of(line: str) -> str | None:
    """What separates the cells of a line, None for spaces."""
    return next((sign for sign in (*COMMAS, ",") if sign in line), None)


def cells_of(line: str, mark: str | None) -> list[str]:
    if mark is None:
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=mark, skipinitialspace=True), [])]
    except csv.Error as error:
        raise TinoError(f"the line '{in_short(line, 40)}' cannot be split into cells: {in_short(error)}") from error


def number(cell: str, comma: bool) -> float:
    """The number, NaN if it is missing; a ValueError for anything else."""
    if cell.lower() in MISSING:
        return float("nan")
    if "_" in cell:  # Python's, in nobody's tables
        raise ValueError(cell)
    return float(cell.replace(",", ".") if comma else cell)


def first_date(cells: list[str]) -> datetime | None:
    """The first of cells that are all dates, such as 2024-01-31T12:00:00.5; else None."""
    try:
        dates = [_date(cell) for cell in cells]
    except ValueError:
        return None
    return dates[0]


def seconds(cell: str, begin: datetime) -> float:
    """From one date to another, NaN if it is missing; a ValueError or TypeError for anything else."""
    return math.nan if cell.lower() in MISSING else (_date(cell) - begin).total_seconds()


def _date(cell: str) -> datetime:
    if not DATE.fullmatch(cell):
        raise ValueError(cell)
    return datetime.fromisoformat(cell)


def numbers_of(line: str) -> list[float | None]:
    """The cells of a line, None for text, whatever its decimal sign is."""
    mark = mark_of(line)
    try:
        return [_number_or_none(cell, mark in COMMAS) for cell in cells_of(line, mark)]
    except TinoError:
        return []


def _number_or_none(cell: str, commas: bool) -> float | None:
    for comma in (False, True)[: 1 + commas]:
        try:
            return number(cell, comma)
        except ValueError:
            pass
    return None


def has_comma(rows: list[list[str]], mark: str | None) -> bool:
    """Whether a comma is the decimal sign: some cells are numbers with it, and none is with a point."""
    cells = [cell for row in rows for cell in row if mark in COMMAS]
    commas = any("," in cell and _number_or_none(cell, True) is not None for cell in cells)
    return commas and not any("." in cell and _number_or_none(cell, False) is not None for cell in cells)


def texts_of(rows: list[list[str]], width: int, comma: bool) -> dict[int, list[str]]:
    """The text in columns that hold no number."""
    found = {}
    for j in range(width):
        cells = [row[j] for row in rows if len(row) > j]
        values = [_number_or_none(cell, comma) for cell in cells]
        if None in values and not any(value is not None and math.isfinite(value) for value in values):
            found[j] = [cell for cell, value in zip(cells, values, strict=True) if value is None]
    return found
