"""How records are read from files: what the columns mean, and which repairs are allowed."""

import math
import re
from dataclasses import dataclass

from tino.errors import TinoError, of_kind, whole


@dataclass(frozen=True)
class ImportOptions:
    """What the columns mean, which repairs are allowed, and what is kept for the test."""

    time: str | None = None
    """Column of the times; t or time if left out."""
    dt: float | None = None
    """Time step, where there is no column of times."""
    units: tuple[str, ...] = ()
    """Units of columns, as force=N or T*=K."""
    record: str | None = None
    """Column that numbers the records: a new one begins where its value changes."""
    points: str | None = None
    """Where the values of a field lie: a variable of the file, or numbers such as 0,0.1,0.2. For a grid use axes."""
    axes: tuple[str, ...] = ()
    """Axes of an array that has no names for them, as p=record,time,x,y; variables x and y give coordinates."""
    periodic: bool = False
    """The field repeats: its points are those of a periodic box."""
    ic: bool = False
    """The first output of each record is its initial state, and an input of the model."""
    resample: bool = False
    """Interpolate on equal time steps, the median of those in the file, where times are irregular or have gaps."""
    cut: bool = False
    """Cut records into two at gaps in time and at missing values."""
    drop: bool = False
    """Leave out records with missing values."""
    fill: bool = False
    """Interpolate up to 5 missing values in a row."""
    drop_channel: tuple[str, ...] = ()
    """Columns to leave out."""
    burn_in: int | None = None
    """First times of each record that are read but not scored, where records start from unknown states."""
    test_share: float = 0.2
    """Last part of the time that is kept for the test, of fewer than 6 records."""
    test_set: int | None = None
    """Which test set of a benchmark that has several, counted from 0."""

    def __post_init__(self) -> None:
        if self.dt is not None and not of_kind(self.dt, float, "dt") > 0:
            raise TinoError(f"dt is {self.dt}, expected a number above 0")
        if not 0 < of_kind(self.test_share, float, "test_share") < 1:
            raise TinoError(f"test_share is {self.test_share}, expected a number between 0 and 1, such as 0.2")
        if self.burn_in is not None:
            whole("burn_in", self.burn_in, 0)
        if self.test_set is not None:
            whole("test_set", self.test_set, 0)
        if self.drop and self.fill:
            raise TinoError("drop leaves records with missing values out, fill repairs them: choose one")
        for text in (*self.units, *self.axes):
            if "=" not in text:
                raise TinoError(f"'{text}' lacks an equals sign: expected name=value, such as force=N")

    def unit(self, name: str, found: str) -> str:
        """The unit that was given for a column, or else the one in the file."""
        given = [text.split("=", 1) for text in self.units]
        return next((unit for one, unit in reversed(given) if fits(name, one)), found)

    def described(self) -> list[str]:
        """The names of the columns of which a unit or the axes are given."""
        return [text.split("=", 1)[0] for text in (*self.units, *self.axes)]

    def roles(self, name: str) -> tuple[str, ...] | None:
        """The axes that were given for an array."""
        given = dict(text.split("=", 1) for text in self.axes).get(name)
        return None if given is None else tuple(part.strip() for part in given.split(","))

    def places(self) -> list[float] | None:
        """Points that were given as numbers."""
        try:
            found = [float(part) for part in (self.points or "").split(",")]
        except ValueError:
            return None
        if not all(map(math.isfinite, found)):
            raise TinoError(f"points is '{self.points}', expected finite numbers")
        return found


def fits(name: str, asked: str) -> bool:
    """Whether this is the name that is asked for, in which * stands for any letters."""
    return re.fullmatch(".*".join(map(re.escape, asked.split("*"))), name, re.DOTALL) is not None
