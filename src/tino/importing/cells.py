"""The cells of a table as text: how a line is split, and which cells are numbers, dates or text."""

import csv
import math
import re
from datetime import datetime

from tino.errors import TinoError, in_short

MISSING = ("", "nan", "na", "n/a", "null", "none", "-")
DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
COMMAS = (";", "\t")  # between cells: then a comma may be the decimal sign
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:(?:\.\d{3})+(?:,\d+)?|(?:,\d{3})+(?:\.\d+)?)")  # 1.094 or 1,234.5


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
    """The number, NaN if it is missing; a ValueError for anything else, as for a point where commas are decimal."""
    if cell.lower() in MISSING:
        return float("nan")
    if "_" in cell or (comma and "." in cell):  # Python's, in nobody's tables; a point between thousands
        raise ValueError(cell)
    return float(cell.replace(",", ".") if comma else cell)


def unread(cell: str, comma: bool, begin: datetime | None) -> str:
    """What an error says of a cell that is no number, or, in a column that has a first date, no date."""
    shown, (used, other) = f"'{in_short(cell, 30)}'", (",", ".") if comma else (".", ",")
    meant = [cell.replace(other, "")] if THOUSANDS.fullmatch(cell) else []
    meant += [cell.replace(other, used)] if cell.count(other) == 1 and used not in cell else []
    meant = [one for one in meant if _number_or_none(one, comma) is not None]
    if begin is not None or other not in cell or not meant:
        kind = "number" if begin is None else f"date such as {begin}"
        return f"{shown} is not a {kind}: correct it, or leave the cell empty if its value is missing"
    words = {",": "comma", ".": "point"}
    told = f"{shown} has a {words[other]}, but the decimal sign of this file is a {words[used]}"
    return f"{told}: write {' or '.join(meant)}"


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


def without_value(line: str, mark: str | None) -> bool:
    """Whether all cells of the line are empty."""
    return not any(cells_of(line, mark))


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
    if commas and THOUSANDS.fullmatch(cell):
        return float(re.sub("[.,]", "", cell))  # of no size in particular: it only counts as a number
    return None


def has_comma(rows: list[list[str]], mark: str | None) -> bool:
    """Whether a comma is the decimal sign, of more numbers than a point is."""
    cells = [cell for row in rows for cell in row if mark in COMMAS and ("," in cell or "." in cell)]
    numbers = [cell for cell in cells if _number_or_none(cell, True) is not None]
    signs = [_decimal_sign(cell) for cell in numbers]
    if signs.count(",") != signs.count("."):
        return signs.count(",") > signs.count(".")
    return bool(numbers) and not any("." in cell for cell in numbers)


def _decimal_sign(cell: str) -> str:
    """The point or the comma of a number; none where it may stand between thousands."""
    found = [sign for sign in cell if sign in ",."]
    return "" if THOUSANDS.fullmatch(cell) and len(set(found)) == 1 else found[-1]


def texts_of(rows: list[list[str]], width: int, comma: bool) -> dict[int, list[str]]:
    """The text in columns that hold no number."""
    found = {}
    for j in range(width):
        cells = [row[j] for row in rows if len(row) > j]
        values = [_number_or_none(cell, comma) for cell in cells]
        if None in values and not any(value is not None and math.isfinite(value) for value in values):
            found[j] = [cell for cell, value in zip(cells, values, strict=True) if value is None]
    return found
