"""The command line: parse, call, print."""

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro
from tyro.conf import FlagCreatePairsOff, subcommand
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from tino.commands.data import Diagnose, Generate, Problems, Show
from tino.commands.models import Bench, Certify, Evaluate, Models, Report, Train
from tino.errors import Stopped, TinoError, TinoWarning
from tino.text import visible
from tino.version import VERSION

ABOUT = """Learn how physical systems respond over time.

A first run: 'tino train duffing trtino --epochs 50 --out runs/first', then 'tino report runs/first'."""


Command = (
    Annotated[Problems, subcommand("problems")]
    | Annotated[Models, subcommand("models")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Generate, subcommand("generate")]
    | Annotated[Diagnose, subcommand("diagnose")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Bench, subcommand("bench")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Certify, subcommand("certify")]
    | Annotated[Report, subcommand("report")]
)


TYPES = ConstructorRegistry()


@TYPES.primitive_rule
def _may_be_left_out(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """An option such as ``int | None`` reads as INT in the help, not as {None}|INT."""
    kinds = set(get_args(info.type))
    kind = next((kind for kind in (int, float, str, Path) if kinds == {kind, type(None)}), None)
    if kind is None:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=kind.__name__.upper(),
        instance_from_str=lambda given: kind(given[0]),
        is_instance=lambda value: value is None or isinstance(value, kind),
        str_from_instance=lambda value: ["left out" if value is None else str(value)],
    )


def run(arguments: list[str]) -> int:
    """Run one command -> the exit status: 0, 1 for a failed check, 2 for a wrong call, 130 for Ctrl-C."""
    if arguments == ["--version"]:
        print(f"tino {VERSION}")
        return 0
    with warnings.catch_warnings():
        warnings.showwarning = _one_line
        try:
            command = tyro.cli(
                Command,  # pyright: ignore
                prog="tino",
                description=ABOUT,
                args=arguments or ["--help"],
                config=(FlagCreatePairsOff,),
                registry=TYPES,
            )
            command.run()
        except BrokenPipeError:  # the reader of our output has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except Stopped as error:
            print(f"tino: {error}", file=sys.stderr)
            return error.status
        except (TinoError, OSError) as error:
            print(f"tino: {visible(str(error))}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("tino: stopped; nothing half-written is left, finished parts of a dataset are kept", file=sys.stderr)
            return 130
    return 0


def _one_line(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Our own warnings as one line; torch's and others' as they are."""
    prefix = "note: " if issubclass(category, TinoWarning) else f"{category.__name__}: "
    print(f"tino: {prefix}{visible(str(message))}", file=sys.stderr)
