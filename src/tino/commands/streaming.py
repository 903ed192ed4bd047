"""Commands that put a trained model to work: a stream of lines, and files for other programs."""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from tino.commands.printing import print_json, say
from tino.errors import TinoError, in_short
from tino.files import parse_json
from tino.progress import StandardError
from tino.text import visible

if TYPE_CHECKING:
    from tino.channels import Channels
    from tino.operator import Operator
    from tino.streaming import Stream


@dataclass(frozen=True)
class StreamLines:
    """Answer each line of numbers on standard input with a line of numbers on standard output, at once.

    A line is one input: its numbers separated by commas or spaces, or a JSON array; the answer has the same form. A
    first line without numbers is a header, and is answered with one.
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
        from tino.streaming import Stream

        model = _model(self.run_folder)
        if self.state is not None and self.state.exists():
            if self.ic is not None:
                raise TinoError(f"--ic has no effect: the stream goes on from {self.state}")
            stream = Stream.load(self.state, model)
            if stream.records is not None:
                raise TinoError(f"{self.state} holds {stream.records} records, the command streams one")
        else:
            stream = Stream(model, None if self.ic is None else _numbers(self.ic, "--ic"))
        try:
            self._answer(stream)
        except KeyboardInterrupt:  # the usual end of a stream
            pass
        finally:
            if self.state is not None:
                stream.save(self.state)

    def _answer(self, stream: "Stream") -> None:
        frame = stream.model.frame
        for number, line in enumerate(sys.stdin, 1):
            text = line.strip()
            if not text:
                continue
            try:
                if number == 1 and (names := _header(text)):
                    _check_names(names, frame.input_channels)
                    if not self.json:
                        print(_separator(text).join(_columns(frame.output_channels, frame.outputs.size)), flush=True)
                    continue
                u = stream.push(_numbers(text, "it"))
            except TinoError as error:
                told = f"line {number}: {error}"
                if not self.skip_bad:
                    raise TinoError(told) from error
                print(f"tino: {visible(told)}", file=StandardError(), flush=True)
                continue
            if not all(map(math.isfinite, u)):
                raise TinoError(f"line {number}: the model's answer is not finite, it has diverged")
            answer = (
                f"[{', '.join(map(str, u))}]" if self.json or text[0] == "[" else _separator(text).join(map(str, u))
            )
            print(answer, flush=True)


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
        from tino.exporting import export
        from tino.report.card import card_text
        from tino.runs import read_run

        ending = {"numpy": ".npz"}.get(self.format, f".{self.format}")
        path = self.out or self.run_folder / f"model{ending}"
        if path.suffix != ending:
            raise TinoError(f"--out is {path}, expected a name that ends in {ending}")
        is_run = (self.run_folder / "config.json").exists()
        card = card_text(read_run(self.run_folder), self.cache) if is_run else ""
        done = export(_model(self.run_folder), path, self.format, card)
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


def _separator(text: str) -> str:
    return "," if "," in text else " "


def _header(text: str) -> list[str]:
    """The names in a first line that holds no number at all; else nothing."""
    parts = [part.strip().strip('"') for part in _parts(text)]
    for part in parts:
        try:
            float(part)
        except ValueError:
            continue
        return []
    return [] if text[0] == "[" else parts


def _check_names(names: list[str], channels: "Channels") -> None:
    known = [channel.name for channel in channels]
    if names != known and sorted(names) == sorted(known):
        order = ", ".join(known)
        raise TinoError(f"the columns are {', '.join(names)}; the model was built for this order: {order}")


def _columns(channels: "Channels", points: int) -> list[str]:
    """A name for each number of an answer."""
    return [c.name if points == 1 else f"{c.name} {n}" for c in channels for n in range(points)]
