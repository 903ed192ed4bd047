"""Lines of a stream: numbers separated by commas or spaces, or a JSON array, after a header perhaps."""

import csv
import json
import re
from typing import TYPE_CHECKING, Any

from tino.errors import TinoError, in_short
from tino.files import parse_json
from tino.progress import StandardError
from tino.text import visible

if TYPE_CHECKING:
    from tino.channels import Channels
    from tino.operator import Operator

LIKE_A_NUMBER = re.compile(r"[-+.]*[0-9]|[-+]?(nan|inf|infinity)$", re.IGNORECASE)  # 0.1;0.2 is no name
WITH_UNIT = re.compile(r"(.*\S)\s*\[([^][]*)\]", re.DOTALL)
WORDS = re.compile(r"""(?:"[^"]*"|[^\s"[]+)(?:\s*\[[^]]*\])?|\S""")  # quoted or not, with a unit perhaps


def numbers_in(text: str, name: str) -> list[float]:
    """The numbers of a line."""
    try:
        if "_" in text:  # 1_000, which Python reads as 1000
            raise ValueError("_ is no part of a number")
        found: Any = parse_json(text) if text[:1] == "[" else [float(part) for part in _parts(text)]
        if any(isinstance(one, bool) for one in found):
            raise ValueError("true and false are no numbers")
        return [float(one) for one in found]
    except (TypeError, ValueError) as error:
        given = json.dumps(in_short(text, 60))
        raise TinoError(f"{name} is {given}, expected numbers separated by commas or spaces") from error


def _parts(text: str) -> list[str]:
    return text.split(",") if "," in text else text.split()


def _names(text: str) -> list[str]:
    """What commas, or else spaces, separate outside of quotes; without the quotes."""
    try:
        parts = next(csv.reader([text], skipinitialspace=True))
    except (csv.Error, StopIteration):
        return []
    return [one.strip() for one in parts] if len(parts) > 1 else [one.replace('"', "") for one in WORDS.findall(text)]


def quoted(name: str) -> str:
    """As it can be read again among others."""
    return f'"{name}"' if re.search(r'[\s,"]', name) else name


def _columns(channels: "Channels", points: int) -> list[str]:
    """A name for each number of an input or an answer."""
    return [c.name if points == 1 else f"{c.name} {n}" for c in channels for n in range(points)]


class LineReader:
    """What a model expects of the lines of a stream, with the names of its columns."""

    def __init__(self, model: "Operator") -> None:
        import torch

        from tino.frame import numbers

        self.frame, self.told = model.frame, not model.frame.seen.inputs
        self.columns = _columns(self.frame.input_channels, self.frame.inputs.size)
        self.units = [c.unit for c in self.frame.input_channels for _ in range(self.frame.inputs.size)]
        self.answers = _columns(self.frame.output_channels, self.frame.outputs.size)
        self.largest = torch.finfo(numbers(model).dtype).max

    def is_header(self, text: str) -> bool:
        """Whether a first line holds the names of the columns, or nothing in it is, or begins like, a number."""
        names, _ = self._header(text)
        known = names == self.columns
        return known or (bool(names) and text[0] != "[" and not any(map(LIKE_A_NUMBER.match, names)))

    def check_header(self, text: str) -> None:
        """An error if they cannot be the columns, a note if they are called otherwise or have another unit."""
        names, units = self._header(text)
        given, known = (in_short(", ".join(one), 60) for one in (names, self.columns))
        if len(names) != len(self.columns):
            raise TinoError(f"the header has {len(names)} names, expected {len(self.columns)} ({known})")
        if names != self.columns and sorted(names) == sorted(self.columns):
            raise TinoError(f"the columns are {given}; the model was built for this order: {known}")
        if names != self.columns:
            tell(f"note: the columns are {given}, read as the model's {known}")
        for name, unit, own in zip(names, units, self.units, strict=True):
            if unit and own and unit != own:
                tell(f"note: {in_short(name, 60)} is in {in_short(unit, 20)}, read as the model's {own}")

    def _header(self, text: str) -> tuple[list[str], list[str]]:
        """The names in a line, and their units or ''. An only name may hold spaces and commas without quotes."""
        whole = WITH_UNIT.fullmatch(text)
        alone = (text, text.strip('"'), *([whole[1].strip('"')] if whole else []))
        parts = [text] if len(self.columns) == 1 and self.columns[0] in alone else _names(text)
        found = [None if part in self.columns else WITH_UNIT.fullmatch(part) for part in parts]
        names = [one[1] if one else part for one, part in zip(found, parts, strict=True)]
        return [name.strip('"') for name in names], [one[2].strip() if one else "" for one in found]

    def inputs(self, text: str) -> list[float]:
        """The numbers of a line, one for each column."""
        found, count = numbers_in(text, "the line"), len(self.columns)
        if len(found) != count:
            known = in_short(", ".join(self.columns), 60)
            raise TinoError(f"it has {len(found)} number{'s' * (len(found) != 1)}, expected {count} ({known})")
        for one in found:
            if not abs(one) <= self.largest:
                raise TinoError(f"it has {one:g}, expected finite numbers of at most {self.largest:.2g}")
        return found

    def note_if_far(self, f: list[float], number: int) -> None:
        """Tell once of a line far outside the inputs of the training."""
        import torch

        if self.told:
            return
        if far := self.frame.seen.outside(self.frame, torch.tensor(f, dtype=torch.float64), None):
            self.told = True
            tell(f"note: line {number}: {far}: expect larger errors there")


def tell(text: str) -> None:
    print(f"tino: {visible(text)}", file=StandardError(), flush=True)
