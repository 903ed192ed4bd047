"""The tables of a comparison: the paper's with ours beside, what each model costs, and when a surrogate pays off."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mode
from typing import Any

from tino.files import read_json
from tino.models.zoo import MODELS, of_the_family
from tino.paper import PAPER, TABLES, PaperTable
from tino.report.markup import Cell, Line, Markup
from tino.report.results import Entry, Results
from tino.report.tables import short

NONE: Cell = (Line("–"),)
WINDOWS = {"navier-stokes-ic": 5}  # responses that one trajectory's time covers: windows of 0.2 T


@dataclass(frozen=True)
class Section:
    """A table of the paper as we have it."""

    name: str
    title: str
    errors: Markup
    costs: Markup
    notes: tuple[str, ...]  # the recipe, and what is missing
    problems: tuple[str, ...]


def sections(results: Results) -> list[Section]:
    """Every table of the paper of which there are results, and one for other problems."""
    named = {name for table in TABLES for name in table.problems}
    rest = [name for name in results.problems if name not in named]
    own = PaperTable("own", "", "Other problems", dict.fromkeys(rest, 0))
    solvers = solver_rates(results)
    return [_section(results, table, solvers) for table in (*TABLES, own) if any(map(results.of, table.problems))]


def _section(results: Results, table: PaperTable, solvers: dict[str, "Solver"]) -> Section:
    problems = tuple(name for name in table.problems if results.of(name))
    notes = [f"Recipe. {recipe(results, problems)}"]
    pairs = ((p, m) for p in table.problems for m in PAPER.get(p, {}))
    if missing := [f"{m} on {p}" for p, m in pairs if (p, m) not in results.by_name]:
        notes.append(f"No result of ours yet: {', '.join(missing)}.")
    errors, costs = errors_table(results, table, problems), costs_table(results, table, problems, solvers)
    return Section(table.name, table.title, errors, costs, tuple(notes), problems)


# -- errors -------------------------------------------------------------------------------------------------


def errors_table(results: Results, table: PaperTable, problems: Sequence[str]) -> Markup:
    """Rows of models, columns of problems; ours above the paper's figure, each ranked among its own."""
    columns = {p: _column(results, p) for p in problems}
    given = dict.fromkeys(model for column in columns.values() for model in column)
    rows = []
    for model in sorted(given, key=lambda name: [*MODELS, name].index(name)):
        own = [results.by_name[p, model] for p in problems if (p, model) in results.by_name]
        marks = (_yes(own, "causal"), _yes(own, "time_invariant"))
        rows.append(((Line(model),), *[columns[p].get(model, NONE) for p in problems], *marks))
    caption = (
        "MSE ± SD over the test samples, ours above the paper's. Best bold, second underlined, each among its own; "
        "ours by the seeds that all models of a problem have. "
        "Causal and time-invariant as measured."
    )
    return Markup(f"{table.name}-errors", caption, ("model", *problems, "causal", "time-inv."), tuple(rows))


def _column(results: Results, problem: str) -> dict[str, Cell]:
    entries, printed = {entry.model: entry for entry in results.of(problem)}, PAPER.get(problem, {})
    ours = _marks([entry.model for entry in results.ranked(problem)] if entries else [])
    theirs = _marks(sorted(printed, key=lambda model: printed[model][0]))
    usual = mode(_length(record) for entry in entries.values() for record in entry.records) if entries else ()
    cells = {}
    for model in dict.fromkeys([*printed, *entries]):
        lines = []
        if entry := entries.get(model):
            lines.append(Line(f"{short(entry.mse)} ± {short(entry.mean('mse_sd'))}", ours.get(model, "")))
            if entry.spread:
                low, high = map(short, entry.spread)
                lines.append(Line(f"{len(entry.records)} seeds: {low} … {high}", quiet=True))
            if any(_length(record) != usual for record in entry.records):
                epochs = sorted({record["epochs"] for record in entry.records})
                lines.append(Line(f"{', '.join(map(str, epochs))} epochs", quiet=True))
        if model in printed:
            mse, sd = map(short, printed[model])
            lines.append(Line(f"paper {mse} ± {sd}", theirs.get(model, ""), quiet=True))
        cells[model] = tuple(lines)
    return cells


def _length(record: dict[str, Any]) -> tuple[Any, ...]:
    """What was asked for, of a training's length."""
    return tuple(record["training"].get(key) for key in ("epochs", "steps", "budget"))


def _marks(order: list[str]) -> dict[str, str]:
    """The best and the second, where there are others to be better than."""
    return dict(zip(order, ("best", "second")[: len(order) - 1], strict=False))


def _yes(entries: Sequence[Entry], key: str) -> Cell:
    found = {record[key] for entry in entries for record in entry.records}
    words = {(): "–", (True,): "yes", (False,): "no"}
    return (Line(words.get(tuple(found), "not always")),)


# -- costs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Solver:
    """How fast a problem's reference solver is, and where it was measured."""

    trajectories_per_second: float
    device: str
    windows: int  # responses in the time of a trajectory

    @property
    def rate(self) -> float:
        """Responses a second."""
        return self.trajectories_per_second * self.windows


def solver_rates(results: Results) -> dict[str, Solver]:
    """From problems.json beside the results' folder, the faster of the machines measured there.

    Only for results on a problem's own grid, which is what was measured.
    """
    path = results.folder.resolve().parent / "problems.json"
    if not path.exists():
        return {}
    found: dict[str, Solver] = {}
    for cost in (read_json(path).get(key) for key in ("cost", "gpu_cost")):
        for name, values in cost["sets"].items() if cost else ():
            machine = cost["machine"]
            where = f"{machine['cores']} cores" if machine["device"] == "cpu" else machine["device"]
            solver = Solver(values["trajectories_per_second"], where, WINDOWS.get(name, 1))
            if name not in found or solver.rate > found[name].rate:
                found[name] = solver
    plain = {p for p in results.problems if all(not r["data"]["options"] for e in results.of(p) for r in e.records)}
    return {name: solver for name, solver in found.items() if name in plain}


def costs_table(results: Results, table: PaperTable, problems: Sequence[str], solvers: dict[str, Solver]) -> Markup:
    """A row for each problem and model, and one for the reference solver."""
    rows: list[tuple[Cell, ...]] = []
    for p in problems:
        for entry in results.of(p):
            numbers = (
                short(entry.mean("rel_l2_mean")),
                f"{entry.mean('parameters') / 1e6:.2f} M",
                f"{entry.mean('train_seconds'):.0f}",
                f"{entry.seconds_per_epoch:.3f}",
                _rate(entry.mean("samples_per_second")),
                ", ".join(sorted({_where(record) for record in entry.records})),
            )
            rows.append(_texts(p, entry.model, *numbers))
        if solver := solvers.get(p):
            rows.append(_texts(p, "reference solver", "–", "–", "–", "–", _rate(solver.rate), solver.device))
    head = "problem, model, relative L2, parameters, training s, s per epoch, responses per s, on"
    return Markup(f"{table.name}-costs", "Relative L2 errors and costs.", tuple(head.split(", ")), tuple(rows), 2)


def break_even(results: Results) -> Markup | None:
    """After how many responses data, training and prediction have cost less than the reference solver."""
    rows, solvers = [], solver_rates(results)
    for p, solver in ((p, solvers[p]) for p in results.problems if p in solvers):
        entry = next((entry for entry in results.ranked(p) if of_the_family(entry.model)), None)
        if entry is None:
            continue
        sizes = entry.records[0]["data"]
        data = (sizes["train"] + sizes["test"]) / solver.trajectories_per_second
        training, speed = entry.mean("train_seconds"), entry.mean("samples_per_second")
        saved = 1 / solver.rate - 1 / speed
        after = f"{math.ceil((data + training) / saved):,}" if saved > 0 else "never"
        numbers = (f"{data:.1f}", f"{training:.0f}", _rate(speed), _rate(solver.rate), solver.device)
        rows.append(_texts(p, entry.model, *numbers, after))
    if not rows:
        return None
    head = "problem, model, data s, training s, model's responses per s, solver's, solver on, pays off after"
    caption = (
        "Seconds for the training and test data by our reference solver and for training, and the number of further "
        "responses after which both are made up for. The solver is the faster of those measured."
    )
    return Markup("break-even", caption, tuple(head.split(", ")), tuple(rows), 2)


def recipe(results: Results, problems: Sequence[str]) -> str:
    """How the models of these problems were trained, those alike together, most models first."""
    said: dict[str, list[str]] = {}
    for p in problems:
        told: dict[str, list[str]] = {}
        for entry in results.of(p):
            for text in {_recipe(record) for record in entry.records}:
                told.setdefault(text, []).append(entry.model)
        most, *others = sorted(told, key=lambda text: -len(told[text]))
        said.setdefault("; ".join([most, *[f"{', '.join(told[text])}: {text}" for text in others]]), []).append(p)
    return " ".join(f"{', '.join(names)}: {text}." for text, names in said.items())


def _where(record: dict[str, Any]) -> str:
    return f"{record['device']}, trained compiled" if record.get("compiled") else record["device"]


def _recipe(record: dict[str, Any]) -> str:
    training = record["training"]
    decay = f", weight decay {training['weight_decay']:g}" if training["weight_decay"] else ""
    return (
        f"{record['epochs']} epochs of batches of {record['batch_size']} ({record['steps']} steps) at "
        f"{training['times'] or 'all'} times, {record['optimizer']} at rate {record['lr']:g}{decay}, "
        f"{training['precision']}"
    )


def _texts(*texts: str) -> tuple[Cell, ...]:
    return tuple((Line(text),) for text in texts)


def _rate(value: float) -> str:
    """Three digits, or thousands marked."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
