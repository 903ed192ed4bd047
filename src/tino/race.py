"""A race: several kinds of model are fitted to a part of the training data, and the best on the rest is kept.

The closed forms run first: they take seconds. Those that learn by gradients then share what is left of the budget. Who
runs: those registered with ``races``, their versions with a clock, and what ``diagnose`` names. A model that is
not causal, or not autonomous, runs only if the data are not. The test set plays no part.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from tino.calls import parameter_count
from tino.data import Dataset, check_dataset
from tino.diagnosis import Diagnosis, diagnose
from tino.errors import TinoError, TinoWarning, in_short, of_kind, shown
from tino.evaluation import evaluate
from tino.files import read_sealed, write_sealed
from tino.holdout import PART, hold_out
from tino.models.registry import MODELS, build, model_to_begin_with
from tino.operator import Operator
from tino.progress import StandardError
from tino.sizes import check_variation
from tino.text import visible
from tino.training import TrainConfig, distributed
from tino.training.history import History
from tino.training.loop import fit

BUDGET = "5m"
ONE_IN, MOST = 5, 100  # one record in so many is held out, at most so many
TIE, ROUNDING = 0.05, 1e-6  # errors within this share of the least, or below this, count as equal
POOR = 0.5  # of the spread: an error worth a word
RACE, FIX = "race.json", "train again"


@dataclass(frozen=True)
class Entrant:
    """A model in the race: its NRMSE on what was held out, or why it has none."""

    model: str
    error: float | None
    seconds: float  # to fit and score it
    parameters: int | None
    closed: bool  # fitted in closed form
    note: str = ""  # why it did not run, or did not finish


@dataclass(frozen=True)
class Race:
    """Who ran, who won, and why."""

    data: str
    diagnosis: str  # in short
    held_out: str  # what errors are of
    entrants: tuple[Entrant, ...]  # in the order in which they ran, then those left out
    winner: str
    reason: str
    seconds: float

    def __str__(self) -> str:
        lines = [f"{self.data}: {self.diagnosis}; errors on {self.held_out}, which no entrant was fitted to"]
        for one in self.entrants:
            told = one.note if one.error is None else f"{one.error:.3g}"
            lines.append(f"  {one.model:18}{told}  ({one.seconds:.1f} s)")
        return "\n".join([*lines, self.reason])

    def record(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Race":
        texts = {key: of_kind(record[key], str, key) for key in ("data", "diagnosis", "held_out", "winner", "reason")}
        entrants = tuple(
            Entrant(
                of_kind(one["model"], str, "model"),
                of_kind(one["error"], float | None, "error"),
                of_kind(one["seconds"], float, "seconds"),
                of_kind(one["parameters"], int | None, "parameters"),
                of_kind(one["closed"], bool, "closed"),
                of_kind(one["note"], str, "note"),
            )
            for one in record["entrants"]
        )
        return Race(**texts, entrants=entrants, seconds=of_kind(record["seconds"], float, "seconds"))


def write_race(folder: Path, race: Race) -> None:
    write_sealed(folder / RACE, race.record())


def read_race(folder: Path) -> Race:
    record = read_sealed(folder / RACE, FIX)
    try:
        return Race.from_record(record)
    except (TinoError, LookupError, TypeError) as error:
        raise TinoError(f"{folder / RACE} is damaged ({in_short(error)}): {FIX}") from error


def auto(train: Dataset, config: TrainConfig | None = None, show_progress: bool = True) -> tuple[Operator, Race]:
    """The best model for these data within ``config.budget``, five minutes by default, and the race it won.

    With ``steps`` in place of a budget every learned entrant takes so many steps, and the same seed gives the same
    model; with a budget, what is learned depends on the clock.
    """
    model, _, race = race_models(train, race_config(config), show_progress)
    return model, race


def race_config(config: TrainConfig | None) -> TrainConfig:
    """The config with a budget, unless it has steps."""
    config = TrainConfig() if config is None else config
    if not isinstance(config, TrainConfig):
        raise TinoError(f"config is {shown(config)}, expected a tino.TrainConfig, such as TrainConfig(budget='5m')")
    return config if config.budget or config.steps else replace(config, budget=BUDGET)


def race_models(train: Dataset, config: TrainConfig, show_progress: bool) -> tuple[Operator, History, Race]:
    """The winner, how its training went, and the race.

    A closed form is fitted again to all training data; a learned model is kept as it was scored.
    """
    check_dataset(train, "train")
    check_variation(train)
    if distributed.size() > 1:
        raise TinoError("models race in one process: start it without torchrun")
    part, held = hold_out(train, ONE_IN, MOST)
    if held is part:
        given = f"{train.name} has {len(train)} record{'s' * (len(train) > 1)} of {train.shortest} times"
        raise TinoError(f"{given}, too few to hold some out for a race: train a model by its name")
    if bool((held.rows(held.u) == held.rows(held.u)[0]).all()):
        told = f"the outputs never change in what is held out ({_counted_held(train, part, held)})"
        raise TinoError(f"{told}, so no race can be judged: train a model by its name")
    with warnings.catch_warnings():
        warnings.simplefilter("once", TinoWarning)  # not once for each entrant
        run = _Run(part, held, config, show_progress)
        run.all()
        return run.result(train)


class _Run:
    """The race as it goes on."""

    def __init__(self, part: Dataset, held: Dataset, config: TrainConfig, show: bool) -> None:
        self.part, self.held, self.config, self.show = part, held, config, show
        self.begun = perf_counter()
        self.diagnosis, self.told = _diagnosed(part, config.seed, show)
        self.entrants: list[Entrant] = []
        self.finished: dict[str, tuple[Operator, History]] = {}

    def all(self) -> None:
        """Every entrant: the closed forms, then what keeps to its share of the time, then what first fits a part of
        itself in closed form, which cannot be cut short."""
        built = {name: model for name in self._names() if (model := self._built(name)) is not None}
        turns = {n: 0 if not m.learning else 1 if type(m).solve is Operator.solve else 2 for n, m in built.items()}
        for place, name in enumerate(sorted(built, key=lambda name: turns[name])):
            share = self._left() / max(1, len(built) - place)
            if share <= 0 and self.finished:
                self._out(name, "no time left")
            else:
                self._say(f"race: {name}, {place + 1} of {len(built)}", share if built[name].learning else None)
                self._enter(name, built[name], share)

    def _names(self) -> list[str]:
        """The models that race, their versions with a clock, and those to begin with."""
        racing = [name for name, model in MODELS.items() if model.races]
        clocked = [f"{name}-clock" for name in racing if f"{name}-clock" in MODELS]
        found = self.diagnosis
        named = [model_to_begin_with(self.part, True, True, True)] if found is None else [found.model, found.network]
        return list(dict.fromkeys([*racing, *clocked, *named]))

    def _left(self) -> float:
        """Seconds; without a budget there is no end."""
        seconds = self.config.budget_seconds()
        return math.inf if seconds is None else self.begun + seconds - perf_counter()

    def _built(self, name: str) -> Operator | None:
        try:
            model = build(name, self.part, self.config.seed)
        except FAILURES as error:
            return self._out(name, _first_clause(error))
        if why := self._unsuited(name, model):
            return self._out(name, why)
        return model

    def _unsuited(self, name: str, model: Operator) -> str:
        """Why it may not run on these data; empty if it may."""
        found, has = self.diagnosis, model.properties
        for word in ("causal", "autonomous") if found is None or name not in (found.model, found.network) else ():
            if getattr(has, word) is not True and (found is None or getattr(found, word) is not False):
                return f"not {word}, and nothing says that the data are not"
        if self.held.time != self.part.time and model.longest is not None:
            return "bound to its times: cannot be tried on a later part of a record"
        return ""

    def _enter(self, name: str, model: Operator, share: float) -> None:
        begun = perf_counter()
        learns = bool(model.learning)
        budget = f"{max(share, 0.01):.3f}s" if math.isfinite(share) else None
        try:
            history = fit(model, self.part, replace(self.config, budget=budget), self.show)
            error = evaluate(model, self.held).nrmse
        except FAILURES as failure:
            return self._out(name, _first_clause(failure), perf_counter() - begun)
        if not math.isfinite(error):
            return self._out(name, f"diverged: its error is {error}", perf_counter() - begun)
        self.finished[name] = model, history
        seconds = perf_counter() - begun
        self.entrants.append(Entrant(name, error, seconds, parameter_count(model), not learns))
        return self._say(f"race: {name} has {percent(error)} in {seconds:.1f} s")

    def _out(self, name: str, why: str, seconds: float = 0.0) -> None:
        self.entrants.append(Entrant(name, None, seconds, None, False, why.removeprefix(f"{name} ")))

    def _say(self, line: str, share: float | None = None) -> None:
        if self.show:
            told = f", for {share:.0f} s" if share is not None and math.isfinite(share) else ""
            print(visible(f"{line}{told}"), file=StandardError(), flush=True)

    def result(self, train: Dataset) -> tuple[Operator, History, Race]:
        done = [one for one in self.entrants if one.error is not None]
        if not done:
            why = "; ".join(f"{one.model}: {one.note}" for one in self.entrants)
            raise TinoError(f"no model finished the race on {train.name}: {in_short(why, 400)}")
        won = _winner(done)
        (model, history), kept = self.finished[won.model], _counted(train, self.part)
        if won.closed:
            model, history, kept = self._again(won.model, train)
        reason = " ".join([*_why(won, done), kept])
        if not won.closed and self.config.budget:
            reason += " It was trained by the clock, so another run may differ a little."
        seconds = perf_counter() - self.begun
        held = _counted_held(train, self.part, self.held)
        out = (one for one in self.entrants if one not in done)
        race = Race(train.name, self.told, held, (*done, *out), won.model, reason, seconds)
        return model, history, race

    def _again(self, name: str, train: Dataset) -> tuple[Operator, History, str]:
        """A closed form, fitted to all training data."""
        try:
            model = build(name, train, self.config.seed)
            return model, fit(model, train, self.config, self.show), "It was fitted again to all training data."
        except FAILURES as error:
            kept = f"On all training data its fit failed ({in_short(error, 60)}), so it is kept as it was scored."
            return *self.finished[name], kept


# what ends one entrant but not the race: torch raises RuntimeError where numbers or the memory give out
FAILURES = (TinoError, RuntimeError, MemoryError, torch.linalg.LinAlgError)  # pyright: ignore[reportPrivateImportUsage]


def _diagnosed(part: Dataset, seed: int, show: bool) -> tuple[Diagnosis | None, str]:
    try:
        found = diagnose(part, seed, show)
        return found, found.word
    except TinoError as error:
        return None, f"assumed causal and autonomous ({in_short(error)})"


def _first_clause(error: BaseException) -> str:
    """Without the advice that follows a colon: it is for who chose that model."""
    return in_short(str(error).split(": ")[0], 100)


def _winner(done: Sequence[Entrant]) -> Entrant:
    """The least error; of those that are as good, a closed form before a learned one, then the fewest parameters."""
    bar = max(ROUNDING, (1 + TIE) * min(one.error for one in done if one.error is not None))
    equal = [one for one in done if one.error is not None and one.error <= bar]
    return min(equal, key=lambda one: (not one.closed, one.parameters or 0))


def _why(won: Entrant, done: Sequence[Entrant]) -> list[str]:
    """Sentences about the winner and the next."""
    assert won.error is not None
    spread = f"{percent(won.error)} of the outputs' spread"
    least = min(done, key=lambda one: one.error or 0.0)
    others = sorted((one for one in done if one is not won), key=lambda one: one.error or 0.0)
    if least is not won and least.error is not None:
        told = f"{won.model} has the held-out error {spread}, as good as that of {least.model} ({percent(least.error)})"
        exact = f"both are below {ROUNDING:g} of the spread, which counts as exact, and "
        fewer = f"it has {won.parameters} parameters, {least.model} {least.parameters}"
        simpler = fewer if won.closed == least.closed else "it is a closed form"
        lines = [f"{told}: {exact if won.error > (1 + TIE) * least.error else ''}{simpler}."]
    elif others:
        beside = others[0]
        times = beside.seconds / max(won.seconds, 1e-9)
        took = f" and took {times:.0f} times as long" if times >= 2 else ""
        told = f"{won.model} has the least held-out error, {spread}; the next, {beside.model}, has "
        lines = [f"{told}{percent(beside.error or 0.0)}{took}."]
    else:
        lines = [f"{won.model} is the only one that finished; its held-out error is {spread}."]
    if won.error > POOR:
        lines.append("That is poor: noise, a cause that is not among the inputs, or too few data or too little time.")
    return lines


def percent(error: float) -> str:
    return f"{100 * error:.0f} %" if error >= 0.1 else f"{100 * error:.2g} %"


def _counted(train: Dataset, part: Dataset) -> str:
    which = f"{len(part)} of {len(train)} records" if len(part) < len(train) else f"the first {_times(train, part, 0)}"
    return f"It is kept as trained on {which}."


def _counted_held(train: Dataset, part: Dataset, held: Dataset) -> str:
    if len(part) < len(train):
        return f"{len(held)} of {len(train)} training records"
    return f"the last {_times(train, part, 1)}"


def _times(train: Dataset, part: Dataset, last: int) -> str:
    """The first part of the time, or the last."""
    if train.lengths is not None:
        return f"{(1 - 1 / PART, 1 / PART)[last]:.0%} of each record"
    return f"{(part.time.n, train.time.n - part.time.n)[last]} of {train.time.n} times"
