"""What a file holds: variables by name, each with a unit and, where the file says so, the names of its axes."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tino.errors import TinoError, in_short, nearest
from tino.importing.options import fits

TIMES = (
    "t",
    "time",
    "times",
    "timestamp",
    "seconds",
    "zeit",
    "temps",
    "t-coordinate",
)  # what a column of times is called
SINCE = re.compile(r"(\w+) since (.+)")  # the unit of netCDF's dates
SECONDS_IN = {"day": 86400.0, "hour": 3600.0, "minute": 60.0, "second": 1.0}
SECONDS_IN |= {"millisecond": 1e-3, "microsecond": 1e-6, "nanosecond": 1e-9, "s": 1.0, "sec": 1.0, "ms": 1e-3}
SECONDS_IN |= {f"{name}s": seconds for name, seconds in SECONDS_IN.items() if len(name) > 2}
UNIT = re.compile(r"^(.*?)\s*(?:\[([^\[\]]*)\]|\(([^()]*)\))\s*$")


@dataclass(frozen=True)
class Variable:
    """The shape of an array, its unit, the names of its axes, '' where they have none, and of its channels."""

    shape: tuple[int, ...]
    unit: str = ""
    axes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of the channels, if the file has them
    units: tuple[str, ...] = ()

    def as_vector(self) -> "Variable":
        """MATLAB has no vectors: (n, 1) and (1, n) without named axes are (n,)."""
        if len(self.shape) == 2 and 1 in self.shape and not any(self.axes):
            return replace(self, shape=(max(self.shape),), axes=("",))
        return self


@dataclass(frozen=True)
class Content:
    """The variables of a file; the values of some of them, or of all."""

    path: str
    variables: Mapping[str, Variable]
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    lines: tuple[int, ...] = ()  # of a text, the line of each row
    more: Callable[[list[str]], Mapping[str, np.ndarray]] | None = None  # reads the values of variables
    texts: Mapping[str, str] = field(default_factory=dict)  # columns of text, which are not read, and a cell of each
    notes: tuple[str, ...] = ()  # what a user should know of the reading
    advice: tuple[str, ...] = ()  # what may be a mistake in it
    time: str | None = None  # the variable of the times, once it is chosen

    def fetched(self, names: Iterable[str]) -> "Content":
        """With the values of these variables, read together."""
        lacking = [name for name in dict.fromkeys(names) if name not in self.values and name in self.variables]
        if not lacking or self.more is None:
            return self
        return replace(self, values={**self.values, **self.more(lacking)})

    def array(self, name: str) -> np.ndarray:
        if name not in self.values and self.more is not None:
            return self.more([name])[name]
        return self.values[name]

    def place(self, row: int) -> str:
        """Where a row is, for messages."""
        return f"line {self.lines[row]}" if self.lines else f"row {row + 1}"

    def named(self, asked: Iterable[str]) -> list[str]:
        """The variables that are meant: by name, without their unit, or by a pattern with * for any letters."""
        found: list[str] = []
        for one in asked:
            if one in self.variables:
                hits = [one]
            elif "*" in one:
                hits = [name for name in self.variables if fits(name, one)]
            else:
                hits = [name for name in self.variables if split_unit(one)[0] == name]
            if not hits and (text := next((name for name in self.texts if name in (one, split_unit(one)[0])), None)):
                raise TinoError(f"the column '{text}' of {self.path} {self.not_numbers(text)}")
            if not hits:
                hint = in_short(nearest(one, self.variables), 300)
                raise TinoError(f"{self.path} has no column '{one}': {hint}")
            found += [hit for hit in hits if hit not in found]
        return found

    def not_numbers(self, name: str) -> str:
        """Why a column of text is not read."""
        return f"holds text such as '{self.texts[name]}', expected numbers, or dates such as 2024-01-31T12:00:00"

    def time_name(self, others: Iterable[str] = ()) -> str | None:
        """The variable that is obviously the time, and none of the others; None if there is none. t comes before T."""
        found = {name: name.rpartition("/")[2] for name in self.variables if name not in others}
        known = [name for name, word in found.items() if word.lower() in TIMES]
        first = next(iter(known), None)
        return next((name for name in known if first and found[name] == found[first].lower()), first)

    def with_time(self, name: str) -> "Content":
        """With this variable as the time; of netCDF's times since a date, the unit is without the date."""
        variable = self.variables[name]
        match = SINCE.fullmatch(variable.unit.strip())
        unit = SECONDS_IN.get(match[1].lower()) if match else None
        if match is None or unit is None:
            return replace(self, time=name)
        note = f"{self.path}: the times '{name}' are read as seconds since {match[2]}"
        return replace(
            self,
            variables={**self.variables, name: replace(variable, unit="s")},
            values={**self.values, name: self.array(name) * unit},
            notes=(*self.notes, note),
            time=name,
        )


def split_unit(text: str) -> tuple[str, str]:
    """force [N] or force (N) -> force and N."""
    match = UNIT.match(text.strip())
    if match is None or not match[1]:
        return text.strip(), ""
    return match[1].strip(), (match[2] or match[3] or "").strip()


def base_name(name: str) -> str:
    """The name of a variable's channel: without its folder and its unit."""
    return split_unit(name)[0].rpartition("/")[2]
