"""How the records of commands are read from the command line: fields become options, their docstrings the help."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from tyro.conf import arg
from tyro.constructors import (
    MISSING_NONPROP,
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from tino.errors import TinoError
from tino.training.config import TrainConfig

RULES = ConstructorRegistry()


class Given(dict[str, Any]):
    """Options of a ``TrainConfig`` that were given, whatever their values."""


@RULES.primitive_rule
def _one_value(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """An option such as ``int | None`` reads as INT in the help, not as {None}|INT; errors are in plain words."""
    kinds = set(get_args(info.type)) - {type(None)} or {info.type}
    kind = next((kind for kind in (int, float, str, Path) if kinds == {kind}), None)
    if kind is None or info.type is str:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=kind.__name__.upper(),
        instance_from_str=lambda given: READERS[kind](given[0]),
        is_instance=lambda value: value is None or isinstance(value, kind),
        str_from_instance=lambda value: [str(value)],
    )


def _path(text: str) -> Path:
    if not text:
        raise TinoError("the name of a file or folder is empty: '.' is the current folder")
    return Path(text)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None


READERS: dict[type, Callable[[str], Any]] = {int: _whole, float: _number, str: str, Path: _path}


@RULES.struct_rule
def _record(info: StructTypeInfo) -> StructConstructorSpec | None:
    """The fields of a record are options; of ``Given``, those of a ``TrainConfig`` that a bench does not set itself."""
    if info.type is Given:
        options = [_option(one, given_only=True) for one in _fields(TrainConfig) if one.name != "seed"]
        return StructConstructorSpec(_given, tuple(options))
    if not (is_dataclass(info.type) and info.type.__module__.startswith("tino.")):
        return None
    return StructConstructorSpec(info.type, tuple(map(_option, _fields(info.type))))


def _given(**options: Any) -> Given:
    return Given({name: value for name, value in options.items() if value is not None and value is not False})


def _fields(record: type) -> list[StructFieldSpec]:
    """The fields, explained by the texts that follow them in the source.

    tyro reads these texts only of records for which there is no rule, and its reader is private.
    """
    body = ast.parse(textwrap.dedent(inspect.getsource(record))).body[0].body  # pyright: ignore
    texts = {
        ast.unparse(field.target): " ".join(ast.literal_eval(text.value).split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
    hints = get_type_hints(record, include_extras=True)
    defaults = {one.name: MISSING_NONPROP if one.default is MISSING else one.default for one in fields(record)}
    return [StructFieldSpec(name, hints[name], default, texts.get(name)) for name, default in defaults.items()]


def _option(one: StructFieldSpec, given_only: bool = False) -> StructFieldSpec:
    """One that may be left out shows no default. ``given_only``: its default is shown, but stays with the caller."""
    nothing = one.default is None or one.default is False or one.default == ()
    if not (nothing or given_only):
        return one
    hint = arg(help_behavior_hint="" if nothing else f"(default: {one.default})")
    kind = one.type | None if given_only and one.type is not bool else one.type
    return replace(one, type=Annotated[kind, hint], default=None if given_only and not nothing else one.default)
