"""Commands that put a trained model to work: a stream of lines, and files for other programs."""

import math
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from tino.commands.lines import LineReader, numbers_in, quoted, tell
from tino.commands.printing import print_json, say
from tino.errors import TinoError
from tino.files import check_writable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tino.operator import Operator
    from tino.streaming import Stream

OTHER = "delete it or name another --state"


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

        with ExitStack() as at_the_end:
            try:
                with like_ctrl_c():
                    if self.state is not None:
                        _check_file(self.state)
                    stream = self._started(_model(self.run_folder))
                    if self.state is not None:
                        at_the_end.callback(stream.save, self.state)
                    self._answer(stream)
            except KeyboardInterrupt:  # the usual end of a stream, also while it starts
                pass
            except Diverged:
                at_the_end.pop_all()  # an earlier state is worth more than this one
                raise

    def _started(self, model: "Operator") -> "Stream":
        from tino.streaming import FIX, Stream

        if self.ic is not None and not model.frame.state:
            raise TinoError(f"{model.frame.model} takes no initial state: leave out --ic")
        if self.state is None or not self.state.exists():
            if self.ic is None and model.frame.state:
                count = model.frame.state
                raise TinoError(f"{model.frame.model} takes an initial state of {count} numbers: give it with --ic")
            return Stream(model, None if self.ic is None else numbers_in(self.ic, "--ic"))
        if self.ic is not None:
            raise TinoError(f"--ic has no effect: the stream goes on from {self.state}")
        try:
            stream = Stream.load(self.state, model)
        except TinoError as error:
            raise TinoError(str(error).replace(FIX, OTHER)) from error
        if stream.records is not None:
            raise TinoError(f"{self.state} holds {stream.records} records, the command streams one: {OTHER}")
        return stream

    def _answer(self, stream: "Stream") -> None:
        first, reader = True, LineReader(stream.model)
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")  # bytes that are no text make a bad line
        for number, line in enumerate(sys.stdin, 1):
            text = line.strip().removeprefix("\ufeff").strip()  # some programs begin a file with this mark
            if not text:
                continue
            header, first = first and reader.is_header(text), False
            try:
                if header:
                    reader.check_header(text)
                    if not self.json:
                        self._print(map(quoted, reader.answers), text)
                    continue
                u = stream.push(f := reader.inputs(text))
            except TinoError as error:
                told = f"line {number}: {error}"
                if not self.skip_bad:
                    raise TinoError(told) from error
                tell(told)
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
    from tino.operator import RECORD
    from tino.runs import read_run

    saved = (folder / RECORD).is_file() and not (folder / "config.json").exists()
    return (load(folder) if saved else read_run(folder).model()).requires_grad_(False)


def _check_file(state: Path) -> None:
    """That it can be written at the end."""
    if state.is_dir():
        raise TinoError(f"--state is {state}, a folder, expected a file")
    check_writable(state.parent)
