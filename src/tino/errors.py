"""The errors a user meets: each is one line that names what was given and what was expected."""

import difflib
from collections.abc import Iterable


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
