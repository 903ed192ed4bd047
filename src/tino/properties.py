"""What an operator, or a part of one, promises about time."""

from collections.abc import Sequence
from dataclasses import dataclass

from tino.errors import TinoError


@dataclass(frozen=True)
class Properties:
    """What an operator, or a part of one, promises; None where it promises nothing.

    causal: no output depends on later inputs. autonomous: the step depends on neither i nor a counter in memory.
    at rest: zero input leaves the start state unchanged. Time-invariant means all three.
    """

    causal: bool | None = None
    autonomous: bool | None = None
    at_rest: bool | None = None
    reasons: tuple[str, ...] = ()  # why a property fails

    @property
    def time_invariant(self) -> bool | None:
        return _all((self.causal, self.autonomous, self.at_rest))

    @staticmethod
    def of_parts(parts: Sequence["Properties"]) -> "Properties":
        """A composite has a property if all of its parts have it.

        For a chain of parts, at rest also requires that the parts before a memory map zero to zero.
        """
        return Properties(
            _all([part.causal for part in parts]),
            _all([part.autonomous for part in parts]),
            _all([part.at_rest for part in parts]),
            tuple(dict.fromkeys(reason for part in parts for reason in part.reasons)),
        )


POINTWISE = Properties(True, True, True)  # of a part that treats each time separately


def check_steps(name: str, known: Properties) -> None:
    """An error, with what else to do, if a model has no steps."""
    if not known.causal:
        fix = "give it whole records, or train a causal model"
        raise TinoError(f"{name} cannot run step by step: it is not causal; {fix}")


def _all(values: Sequence[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True
