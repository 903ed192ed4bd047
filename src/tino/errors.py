"""The errors a user meets: each is one line that names what was given and what was expected."""

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


class TinoError(Exception):
    """Something the caller can fix; the command line prints it as one line."""


class TinoWarning(UserWarning):
    """Something that works, but not as one might think."""


class CertificateError(TinoError):
    """A property derived from a model's parts that the measurement contradicts."""


class Stopped(TinoError):
    """Training was asked to stop and has saved its progress."""

    def __init__(self, step: int, number: int, how: str = "resume=True") -> None:
        super().__init__(f"stopped after step {step}; progress is saved, continue with {how}")
        self.step, self.number, self.status = step, number, 128 + number


def unknown(kind: str, name: str, known: Iterable[str]) -> TinoError:
    """The error for a name that is not registered, with the nearest known ones."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return TinoError(f"no {kind} named '{name}': {hint}known: {', '.join(known)}")


def in_short(said: object, most: int = 120) -> str:
    """A text from elsewhere, such as a file or another library, as part of one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(said)[: 10 * most]).split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def whole(name: str, value: Any, least: int = -(2**63), most: int = 2**63) -> int:
    """The value if it is a whole number in that range; 2.0 and True are none."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TinoError(f"{name} is {in_short(repr(value), 40)}, expected a whole number")
    number = int(value)
    if not least <= number <= most:
        expected = f"{least} or more" if number < least else f"at most {most}"
        given = number if number.bit_length() < 64 else f"a number of {number.bit_length()} bits"
        raise TinoError(f"{name} is {given}, expected {expected}")
    return number


def finite(name: str, value: Any) -> None:
    """Whether the value is a number, neither infinite nor NaN."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and -math.inf < value < math.inf):  # pyright: ignore[reportOperatorIssue]
        raise TinoError(f"{name} is {in_short(repr(value), 40)}, expected a number")
