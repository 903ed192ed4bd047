"""Commands that put a trained model to work: a stream of lines, and files for other programs."""

import json
import math
import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from tino.commands.printing import print_json, say
from tino.errors import TinoError, in_short
from tino.files import check_writable, parse_json
from tino.progress import StandardError
from tino.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tino.channels import Channels
    from tino.operator import Operator
    from tino.streaming import Stream

LIKE_A_NUMBER = re.compile(r"[-+.]*[0-9]|[-+]?(nan|inf|infinity)$", re.IGNORECASE)  # 0.1;0.2 is no name


@dataclass(frozen=True)
class StreamLines:
    """Answer each line of numbers on standard input with a line of numbers on standard output, at once.

    A line is one input: its numbers separated by commas or spaces, or a JSON array; the answer has the same form. A
    first line of names is a header, and is answered with one. Ctrl-C and SIGTERM end the stream.
    """

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """Run folder written by 'tino train', or a folder written by model.save."""
    state: Path | None = None
    """File with the state of the stream: read first if it exists, written at the end."""
    ic: str | None = None
    """Initial state, numbers separated by commas, for a model that takes one."""
    skip_bad: bool = False
    """Go on after a line that cannot be read; it gets no answer."""
    json: bool = False
    """Answer with JSON arrays, whatever the form of the input."""

    def run(self) -> None:
        from tino.training.signals import like_ctrl_c

        if self.state is not None:
            _check_file(self.state)
        stream = self._started(_model(self.run_folder))
        with ExitStack() as at_the_end:
            if self.state is not None:
                at_the_end.callback(stream.save, self.state)
            try:
                with like_ctrl_c():
                    self._answer(stream)
            except KeyboardInterrupt:  # the usual end of a stream
                pass
            except Diverged:
                at_the_end.pop_all()  # an earlier state is worth more than this one
                raise

    def _started(self, model: "Operator") -> "Stream":
        from tino.streaming import Stream

        if self.state is None or not self.state.exists():
            if self.ic is None and model.frame.state:
                count = model.frame.state
                raise TinoError(f"{model.frame.model} takes an initial state of {count} numbers: give it with --ic")
            return Stream(model, None if self.ic is None else _numbers(self.ic, "--ic"))
        if self.ic is not None:
            raise TinoError(f"--ic has no effect: the stream goes on from {self.state}")
        stream = Stream.load(self.state, model)
        if stream.records is not None:
            raise TinoError(f"{self.state} holds {stream.records} records, the command streams one")
        return stream

    def _answer(self, stream: "Stream") -> None:
        first, reader = True, LineReader(stream.model)
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")  # bytes that are no text make a bad line
        for number, line in enumerate(sys.stdin, 1):
            text = line.strip().removeprefix("\ufeff").strip()  # some programs begin a file with this mark
            if not text:
                continue
            header, first = _header(text) if first else [], False
            try:
                if header:
                    reader.check_header(header)
                    if not self.json:
                        self._print(reader.answers, text)
                    continue
                u = stream.push(f := reader.inputs(text))
            except TinoError as error:
                told = f"line {number}: {error}"
                if not self.skip_bad:
                    raise TinoError(told) from error
                _tell(told)
                continue
            if not all(map(math.isfinite, u)):
                lost = "" if self.state is None else "; its state is not saved"
                raise Diverged(f"line {number}: the model has diverged, its answer is not finite{lost}")
            self._print(map(str, u), text)
            reader.note_if_far(f, number)

    def _print(self, parts: "Iterable[str]", text: str) -> None:
        """In the form of the line that is answered."""
        in_json = self.json or text[0] == "["
        print(f"[{', '.join(parts)}]" if in_json else ("," if "," in text else " ").join(parts), flush=True)


class Diverged(TinoError):
    """The model's answer is not finite."""


@dataclass(frozen=True)
class Export:
    """Write a trained model for other programs, check it against the model itself, and put a run's card beside it."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """Run folder written by 'tino train', or a folder written by model.save."""
    format: Literal["onnx", "pt2", "numpy", "c"] = "onnx"
    """onnx and pt2 (torch.export): every model; numpy, c: steps of products, monomials and networks."""
    out: Path | None = None
    """File to write (RUN/model with the ending of the format if left out); the start of a step goes beside it."""
    cache: Path | None = None
    """Folder of the generated datasets, which the card reads."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.exporting import export, usage
        from tino.report.card import card_text
        from tino.runs import read_run

        ending = {"numpy": ".npz"}.get(self.format, f".{self.format}")
        path = self.out or self.run_folder / f"model{ending}"
        if path.suffix != ending:
            raise TinoError(f"--out is {path}, expected a name that ends in {ending}")
        model, card = _model(self.run_folder), ""
        if (self.run_folder / "config.json").exists():
            card = card_text(read_run(self.run_folder), self.cache, usage(model, path, self.format))
        done = export(model, path, self.format, card)
        if self.json:
            files = [str(file) for file in done.files]
            return print_json({"files": files, "difference": done.difference, "tolerance": done.tolerance})
        for file in done.files:
            say(f"wrote {file}")
        say(f"largest relative difference to the model itself {done.difference:.1e} (at most {done.tolerance:.0e})")


def _model(folder: Path) -> "Operator":
    """Of a finished run, or as model.save left it."""
    from tino.models.store import load
    from tino.runs import read_run

    model = read_run(folder).model() if (folder / "config.json").exists() else load(folder)
    return model.requires_grad_(False)


def _numbers(text: str, name: str) -> list[float]:
    """The numbers of a line."""
    try:
        found: Any = parse_json(text) if text[:1] == "[" else [float(part) for part in _parts(text)]
        if any(isinstance(one, bool) for one in found):
            raise ValueError("true and false are no numbers")
        return [float(one) for one in found]
    except (TypeError, ValueError) as error:
        given = json.dumps(in_short(text, 60))
        raise TinoError(f"{name} is {given}, expected numbers separated by commas or spaces") from error


def _parts(text: str) -> list[str]:
    return text.split(",") if "," in text else text.split()


def _header(text: str) -> list[str]:
    """The names in a first line in which nothing is, or begins like, a number; else nothing."""
    parts = [part.strip().strip('"') for part in _parts(text)]
    return [] if text[0] == "[" or any(map(LIKE_A_NUMBER.match, parts)) else parts


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
        self.answers = _columns(self.frame.output_channels, self.frame.outputs.size)
        self.largest = torch.finfo(numbers(model).dtype).max

    def check_header(self, names: list[str]) -> None:
        """An error if they cannot be the columns, a note if they are called otherwise."""
        given, known = (in_short(", ".join(one), 60) for one in (names, self.columns))
        if len(names) != len(self.columns):
            raise TinoError(f"the header has {len(names)} names, expected {len(self.columns)} ({known})")
        if names != self.columns and sorted(names) == sorted(self.columns):
            raise TinoError(f"the columns are {given}; the model was built for this order: {known}")
        if names != self.columns:
            _tell(f"note: the columns are {given}, read as the model's {known}")

    def inputs(self, text: str) -> list[float]:
        """The numbers of a line, one for each column."""
        found, count = _numbers(text, "the line"), len(self.columns)
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
            _tell(f"note: line {number}: {far}: expect larger errors there")


def _check_file(state: Path) -> None:
    """That it can be written at the end."""
    if state.is_dir():
        raise TinoError(f"--state is {state}, a folder, expected a file")
    check_writable(state.parent)


def _tell(text: str) -> None:
    print(f"tino: {visible(text)}", file=StandardError(), flush=True)
