"""The errors a user meets: each is one line that names what was given and what was expected."""

import difflib
import math
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
    """The error for a name that is not registered, with the nearest known ones."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return TinoError(f"no {kind} named '{name}': {hint}known: {', '.join(known)}")


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
    if not fits or (kind is float and not math.isfinite(value)):
        raise TinoError(f"{name} is {shown(value)}, expected {words}")
    return kind(value)


def shown(value: Any) -> str:
    """The value in an error: a number, a text or None as Python writes it, of others the type."""
    return repr(value) if value is None or isinstance(value, Real | str) else f"a {type(value).__name__}"
