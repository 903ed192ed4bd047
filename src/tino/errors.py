"""The errors a user meets: each is one line that names what was given and what was expected."""

import difflib
import math
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, get_args


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
    """The error for a name that is not registered, with the nearest known one."""
    return TinoError(f"no {kind} named '{name}': {nearest(name, known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, in whatever case, and all of them."""
    known = sorted(known)
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    hint = f"did you mean '{by_lower[near[0]]}'? " if near else ""
    return f"{hint}known: {', '.join(known)}"


def lacks_module(error: ModuleNotFoundError) -> str:
    """What to do about a package that is missing; a module of Python's own is missing on other systems."""
    if error.name in sys.stdlib_module_names:
        return f"Python has no module '{error.name}' here: tino runs on Linux and macOS"
    return f"the package '{error.name}' is missing: pip install {error.name}"


KINDS = {
    int: (Integral, "a whole number"),
    float: (Real, "a finite number"),
    str: (str, "text"),
    bool: (bool, "True or False"),
}


def of_kind(value: Any, annotation: Any, name: str) -> Any:
    """The value as an int, float, str or bool, or None where that is allowed; an error if it is of another kind.

    True is not a number, and NaN is not finite. Values of other annotations are returned as they are.
    """
    kind, *others = get_args(annotation) or (annotation,)
    if kind not in KINDS or (others and value is None):
        return value
    like, words = KINDS[kind]
    fits = isinstance(value, like) and (kind is bool or not isinstance(value, bool))
    if not fits or (kind is float and not -math.inf < value < math.inf):
        raise TinoError(f"{name} is {shown(value)}, expected {words}")
    return kind(value)


def whole(name: str, value: Any, least: int = -(2**63), most: int = 2**63) -> int:
    """The value if it is a whole number in that range; 2.0 and True are none."""
    number = of_kind(value, int, name)
    if not least <= number <= most:
        expected = f"{least} or more" if number < least else f"at most {most}"
        raise TinoError(f"{name} is {shown(number)}, expected {expected}")
    return number


def shown(value: Any) -> str:
    """The value in an error: a number, a text or None as Python writes it, of others the type."""
    if isinstance(value, int) and value.bit_length() > 63:
        return f"a number of {value.bit_length()} bits"
    return in_short(repr(value), 40) if value is None or isinstance(value, Real | str) else f"a {type(value).__name__}"


def in_short(said: object, most: int = 120) -> str:
    """A text from elsewhere, such as a file or another library, as part of one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(said)[: 10 * most]).split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def counted(count: int, word: str) -> str:
    """1 record, 2 records."""
    return f"{count} {word}{'' if count == 1 else 's'}"
