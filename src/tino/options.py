"""Which data: what a user asks for, before any are made or read."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tino.errors import TinoError

if TYPE_CHECKING:
    from tino.problems import Problem

TRAIN, TEST = 1000, 200  # pairs of a problem, if no numbers are given


@dataclass(frozen=True)
class DataOptions:
    """Which data: sizes of the sets, grids other than the paper's, and the cache folder."""

    train: int | None = None
    """Training pairs; 1000 for a problem, all remaining records of a file, if left out."""
    test: int | None = None
    """Test pairs; 200 for a problem, one record in six of an .npz file, all of a dataset's, if left out."""
    n_t: int | None = None
    """Points in time of a problem; the problem's own number if left out."""
    resolution: int | None = None
    """Points along each axis of space of a problem; the problem's own number if left out."""
    set: tuple[str, ...] = ()
    """Other options of a problem as name=value, such as boundary=frozen; docs/problems.md has them."""
    cache: Path | None = None
    """Folder for generated datasets; $TINO_CACHE, or else the user's cache folder, if left out."""

    def counts(self, train: int = TRAIN, test: int = TEST) -> tuple[int, int]:
        """Training and test pairs of a problem; these numbers where none are given."""
        return train if self.train is None else self.train, test if self.test is None else self.test

    def overrides(self) -> dict[str, int | float | str]:
        """The options that replace a problem's values."""
        sizes = {"n_t": self.n_t, "resolution": self.resolution}
        given: dict[str, int | float | str] = {key: value for key, value in sizes.items() if value is not None}
        for text in self.set:
            name, equals, value = text.partition("=")
            if not (name and equals and value):
                raise TinoError(f"options are given as name=value, such as boundary=frozen, got '{text}'")
            given[name.replace("-", "_")] = _number(value)
        return given

    def problem(self, name: str) -> "Problem":
        from tino.problems import problem  # here: it imports torch

        return problem(name, **self.overrides())


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
