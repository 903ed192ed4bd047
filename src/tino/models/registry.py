"""The models by name, and the one function that builds them from data."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from tino.data import Dataset, check_dataset
from tino.errors import TinoError, of_kind, shown, unknown
from tino.operator import Operator
from tino.seen import Seen
from tino.sizes import check_variation
from tino.text import check_text

Builder = Callable[[str, Dataset], Operator]  # a frozen dataclass, whose fields are the options of ``build``


@dataclass(frozen=True)
class Suits:
    """Data for which a model is the one to begin with: their properties, and whether the outputs are in space."""

    space: bool
    causal: bool = True
    autonomous: bool = True
    at_rest: bool = True
    one_grid: bool | None = None  # inputs and outputs on the same grid; None: either
    network: bool = True  # False: a flow, for causal data, whatever their start
    waves: bool = False  # one quantity drives one other on the same periodic box, and u is the state


@dataclass(frozen=True)
class Model:
    """An entry: the class, how to build it from data, and what it is."""

    kind: type[Operator]
    builder: Builder
    title: str
    equation: str = ""  # its label in the paper
    own: bool = False  # the paper's own models, coloured in figures
    suits: tuple[Suits, ...] = ()
    races: bool = False  # in every race of ``auto`` that its builder and its properties allow


AUTO = "auto"  # in place of a model's name: the winner of a race
MODELS: dict[str, Model] = {}


def register_model(name: str, model: Model) -> None:
    """Register a model for ``build`` and ``load``, the command line, benches and the contract tests."""
    check_text("model's name", of_kind(name, str, "the name of a model"))
    if name == AUTO:
        raise TinoError(f"a model cannot be named '{AUTO}': that stands for the winner of a race")
    if not isinstance(model, Model):
        raise TinoError(f"{name} is {shown(model)}, expected a tino.Model")
    MODELS[name] = model


def model_entry(name: str) -> Model:
    """The entry of that name, or an error with the nearest known one."""
    if of_kind(name, str, "the name of a model") not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name]


def build(name: str, train: Dataset, seed: int = 0, **options: Any) -> Operator:
    """A fresh model by name, its sizes, bases and scales taken from the training data, its weights from the seed.

    Options replace the builder's sizes, such as ``modes=64`` or ``first_lag=1`` for a delay.
    """
    builder = model_entry(name).builder
    check_dataset(train, "train")
    seed = of_kind(seed, int, "seed")
    if options:
        builder = replace(builder, **_checked(name, builder, options))  # pyright: ignore
    check_variation(train)
    seen = Seen.of(train)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = builder(name, seen.centred(train))
    model.frame = replace(model.frame, seen=seen)
    model.check_data(train)
    return model


def _checked(name: str, builder: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options as the types of the builder's fields; a size is 1 or more, unless it is 0 by default."""
    known = {field.name: field for field in fields(builder)}
    checked = {}
    for option, value in options.items():
        if option not in known:
            raise TinoError(f"{name} has no option '{option}': it takes {', '.join(known)}")
        checked[option] = of_kind(value, known[option].type, option)
        least = 0 if getattr(builder, option) == 0 else 1
        if type(checked[option]) is int and checked[option] < least:
            raise TinoError(f"{option} is {value}, expected {least} or more")
    return checked


def flow_to_begin_with(data: Dataset, autonomous: bool, waves: bool) -> str:
    """The first registered flow that suits causal data."""
    for name, model in MODELS.items():
        for suits in model.suits:
            found = (bool(data.outputs.shape), autonomous, waves and autonomous)
            if not suits.network and found == (suits.space, suits.autonomous, suits.waves):
                return name
    raise TinoError("no registered flow suits these data")


def model_to_begin_with(data: Dataset, causal: bool, autonomous: bool, at_rest: bool) -> str:
    """The first registered network that suits data with these properties."""
    for name, model in MODELS.items():
        for suits in model.suits:
            found = (bool(data.outputs.shape), causal, autonomous or not causal, at_rest or not (causal and autonomous))
            same_grid = suits.one_grid in (None, data.inputs == data.outputs)
            alike = found == (suits.space, suits.causal, suits.autonomous, suits.at_rest)
            if suits.network and alike and same_grid:
                return name
    raise TinoError("no registered model suits these data")
