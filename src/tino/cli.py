"""The command line: parse, call, print."""

import io
import os
import re
import shutil
import sys
import textwrap
import warnings
from contextlib import redirect_stdout
from typing import Annotated, Any, Union

import tyro
from tyro.conf import FlagCreatePairsOff, subcommand

from tino.commands.data import Diagnose, Generate, Problems, Show
from tino.commands.importing import Import, Predict
from tino.commands.models import Bench, Certify, Models, Report, Train
from tino.commands.parsing import RULES
from tino.commands.printing import as_typed
from tino.commands.readings import Calibrate, Card, Readout
from tino.commands.scoring import Evaluate
from tino.commands.streaming import Export, StreamLines
from tino.errors import Stopped, TinoError, TinoWarning, lacks_module
from tino.progress import StandardError
from tino.text import visible
from tino.version import VERSION

ABOUT = """Learn how physical systems respond over time.

A first run: 'tino train duffing trtino --epochs 50 --out runs/first', then 'tino report runs/first'."""
COMMANDS = {
    "problems": Problems,
    "models": Models,
    "show": Show,
    "generate": Generate,
    "import": Import,
    "diagnose": Diagnose,
    "train": Train,
    "bench": Bench,
    "evaluate": Evaluate,
    "predict": Predict,
    "certify": Certify,
    "readout": Readout,
    "calibrate": Calibrate,
    "card": Card,
    "report": Report,
    "stream": StreamLines,
    "export": Export,
}


def run(arguments: list[str]) -> int:
    """Run one command -> the exit status: 0, 1 for a failed check, 2 for a wrong call, 128 + n for signal n."""
    if arguments == ["--version"]:
        print(f"tino {VERSION}")
        return 0
    with warnings.catch_warnings():
        warnings.showwarning = _one_line
        try:
            _read(arguments or ["--help"]).run()
        except BrokenPipeError:  # the reader of our output has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except Stopped as error:
            _say(error)
            return error.status
        except ModuleNotFoundError as error:
            _say(lacks_module(error))
            return 2
        except (TinoError, OSError) as error:
            _say(as_typed(str(error)))
            return 1
        except KeyboardInterrupt as stop:
            _say(as_typed(str(stop)) or "stopped; nothing half-written is left, finished parts of a dataset are kept")
            return 130
    return 0


def _read(arguments: list[str]) -> Any:
    """The command and its options; help and wrong calls are answered here, and end the program."""
    if arguments[0] in COMMANDS:  # alone: then tyro's errors name this command's own help
        asked, about, prog, arguments = COMMANDS[arguments[0]], None, f"tino {arguments[0]}", arguments[1:]
    else:
        each = tuple(Annotated[record, subcommand(name)] for name, record in COMMANDS.items())
        asked, about, prog = Union[each], ABOUT, "tino"  # noqa: UP007
    width = shutil.get_terminal_size().columns  # tyro wraps what is in boxes, but not the texts above them
    said = io.TextIOWrapper(io.BytesIO(), encoding=sys.stdout.encoding, errors="replace")
    said.isatty = sys.stdout.isatty  # for colours
    try:
        with redirect_stdout(said):
            return tyro.cli(
                asked,  # pyright: ignore
                prog=prog,
                description=about,
                args=arguments,
                config=(FlagCreatePairsOff,),
                registry=RULES,
            )
    finally:
        said.seek(0)
        for line in said.read().replace("{" + ",".join(COMMANDS) + "}", "COMMAND ...").splitlines():
            bare = re.sub(r"\x1b\[[\d;]*m", "", line)  # without colours
            if not re.fullmatch("[│|] +[│|]", bare):  # where a help text fills its line, tyro adds an empty one
                print(line if len(bare) <= width else textwrap.fill(line, width))


def _say(text: object) -> None:
    print(f"tino: {visible(str(text))}", file=StandardError(), flush=True)


def _one_line(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Our own warnings as one line; torch's and others' as they are."""
    _say(f"{'note' if issubclass(category, TinoWarning) else category.__name__}: {message}")
