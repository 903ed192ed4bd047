"""The tables of a comparison: the paper's with ours beside, what each model costs, and when a surrogate pays off."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, mode

from tino.files import read_json
from tino.metrics import METRICS
from tino.models.registry import MODELS
from tino.paper import EARLIER_FORMS, PAPER, TABLES, PaperTable
from tino.problems.base import is_built_in
from tino.report.markup import Line, Lines, Markup
from tino.report.tables import DASH, dashed, how_trained, score, short, yes_or_no
from tino.results import Entry, Result, Results

NONE: Lines = (Line(DASH),)
WINDOWS = {"navier-stokes-ic": 5}  # responses that one trajectory's time covers: windows of 0.2 T


@dataclass(frozen=True)
class Section:
    """Our results for one table of the paper, for tino's problems beyond it, or for your data."""

    name: str
    title: str
    errors: Markup
    costs: Markup
    notes: tuple[str, ...]  # the recipe, and missing results
    problems: tuple[str, ...]


def sections(results: Results) -> list[Section]:
    """Every table of the paper that has results, one for tino's problems beyond it, and one for your data."""
    named = {name for table in TABLES for name in table.problems}
    rest = [name for name in results.problems if name not in named]
    beyond = PaperTable("beyond", "Beyond the paper", {name: 0 for name in rest if is_built_in(name)})
    own = PaperTable("own", "Your data", {name: 0 for name in rest if not is_built_in(name)})
    tables, solvers = (*TABLES, beyond, own), solver_rates(results)
    return [_section(results, table, solvers) for table in tables if any(map(results.of, table.problems))]


def _section(results: Results, table: PaperTable, solvers: dict[str, "Solver"]) -> Section:
    problems = tuple(name for name in table.problems if results.of(name))
    notes = [f"Recipe. {recipe(results, problems)}"]
    pairs = ((p, m) for p in table.problems for m in PAPER.get(p, {}))
    if missing := [f"{m} on {p}" for p, m in pairs if (p, m) not in results.by_name]:
        notes.append(f"No result of ours yet: {', '.join(missing)}.")
    for model, form in EARLIER_FORMS.items():
        entries = [results.by_name[p, model] for p in problems if (p, model) in results.by_name]
        if any(result.autonomous is None for entry in entries for result in entry.results):  # from before today's form
            notes.append(form)
    errors, costs = errors_table(results, table, problems), costs_table(results, table, problems, solvers)
    return Section(table.name, table.title, errors, costs, tuple(notes), problems)


# -- errors -------------------------------------------------------------------------------------------------


def errors_table(results: Results, table: PaperTable, problems: Sequence[str]) -> Markup:
    """A row per model, a column per problem. Our error stands above the paper's, and each is ranked among its own."""
    columns = {p: _column(results, p) for p in problems}
    given = dict.fromkeys(model for column in columns.values() for model in column)
    rows = []
    for model in sorted(given, key=lambda name: [*MODELS, name].index(name)):
        own = [results.by_name[p, model] for p in problems if (p, model) in results.by_name]
        marks = (_yes(own, "causal"), _yes(own, "time_invariant"))
        rows.append(((Line(model),), *[columns[p].get(model, NONE) for p in problems], *marks))
    beside = ", ours above the paper's. Best bold, second underlined, each among its own"
    among = beside if any(p in PAPER for p in problems) else ". Best bold, second underlined"
    caption = f"MSE ± SD over the test samples, the mean over the seeds{among}. Causal and time-invariant as measured."
    return Markup(f"{table.name}-errors", caption, ("model", *problems, "causal", "time-inv."), tuple(rows))


def _column(results: Results, problem: str) -> dict[str, Lines]:
    entries, printed = {entry.model: entry for entry in results.of(problem)}, PAPER.get(problem, {})
    ours = _marks([entry.model for entry in results.ranked(problem)] if entries else [])
    theirs = _marks(sorted(printed, key=lambda model: printed[model][0]))
    lengths = [length for entry in entries.values() for result in entry.results if (length := _length(result))]
    cells = {}
    for model in dict.fromkeys([*printed, *entries]):
        lines = []
        if entry := entries.get(model):
            sd = f" ± {dashed(entry.mean('mse_sd'))}" if entry.mean("mse_mean") is not None else " relative L2"
            lines.append(Line(f"{short(entry.error)}{sd}", ours.get(model, "")))
            if entry.spread:
                low, high = map(short, entry.spread)
                lines.append(Line(f"{len(entry.results)} seeds: {low} … {high}", quiet=True))
            if any(_length(result) not in ((), mode(lengths)) for result in entry.results if lengths):
                epochs = sorted({result.epochs for result in entry.results})
                lines.append(Line(f"{', '.join(map(str, epochs))} epochs", quiet=True))
        if model in printed:
            mse, sd = map(short, printed[model])
            lines.append(Line(f"paper {mse} ± {sd}", theirs.get(model, ""), quiet=True))
        cells[model] = tuple(lines)
    return cells


def _length(result: Result) -> tuple[object, ...]:
    """The length of training that was asked for; empty for a closed form."""
    if not result.steps:
        return ()
    return tuple(result.training.get(key) for key in ("epochs", "steps", "budget"))


def _marks(order: list[str]) -> dict[str, str]:
    """Marks for the best and the second; the last of the order has no mark."""
    return dict(zip(order, ("best", "second")[: len(order) - 1], strict=False))


def _yes(entries: Sequence[Entry], key: str) -> Lines:
    found = {getattr(result, key) for entry in entries for result in entry.results}
    return (Line(DASH if not found else yes_or_no(found.pop()) if len(found) == 1 else "not always"),)


# -- costs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Solver:
    """How fast a problem's reference solver is, and where it was measured."""

    trajectories_per_second: float
    device: str
    windows: int  # responses that cover the time of a trajectory

    @property
    def rate(self) -> float:
        """Responses per second."""
        return self.trajectories_per_second * self.windows


def solver_rates(results: Results) -> dict[str, Solver]:
    """The rate on the faster machine of those in problems.json, which lies beside the results' folder.

    Only problems whose results are on the default grid have a rate, because only that grid was measured.
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
    plain = {p for p in results.problems if all(not r.data["options"] for e in results.of(p) for r in e.results)}
    return {name: solver for name, solver in found.items() if name in plain}


def costs_table(results: Results, table: PaperTable, problems: Sequence[str], solvers: dict[str, Solver]) -> Markup:
    """A row per problem and model, and one for the reference solver; every metric except the MSE."""
    entries = [entry for p in problems for entry in results.of(p)]
    metrics = [key for key in METRICS if not key.startswith("mse") and any(e.mean(key) is not None for e in entries)]
    rows: list[tuple[Lines, ...]] = []
    for p in problems:
        for entry in results.of(p):
            numbers = (
                *[score(key, entry.mean(key)) for key in metrics],
                dashed(entry.mean("parameters"), _count),
                dashed(entry.mean("train_seconds"), lambda v: f"{v:.0f}"),
                dashed(entry.seconds_per_epoch, lambda v: f"{v:.3f}"),
                dashed(entry.mean("samples_per_second"), _rate),
                ", ".join(sorted({_where(result) for result in entry.results})),
            )
            rows.append(_texts(p, entry.model, *numbers))
        if solver := solvers.get(p):
            none = [DASH] * (len(metrics) + 3)
            rows.append(_texts(p, "reference solver", *none, _rate(solver.rate), solver.device))
    first = "data" if table.name == "own" else "problem"
    head = (first, "model", *[METRICS[key].heading for key in metrics], "parameters", "training s", "s per epoch")
    return Markup(f"{table.name}-costs", "Other errors, and costs.", (*head, "responses per s", "on"), tuple(rows), 2)


def break_even(results: Results) -> Markup | None:
    """After how many responses data, training and prediction have cost less than the reference solver."""
    rows, solvers = [], solver_rates(results)
    for p, solver in ((p, solvers[p]) for p in results.problems if p in solvers):
        entry = next((e for e in results.ranked(p) if e.model in MODELS and MODELS[e.model].own), None)
        if entry is None:
            continue
        sizes = entry.results[0].data
        data = (sizes["train"] + sizes["test"]) / solver.trajectories_per_second
        training = fmean(result.train_seconds for result in entry.results)
        speed = fmean(result.samples_per_second for result in entry.results)
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
    """How the models of these problems were trained. Problems with the same recipe share a sentence."""
    said: dict[str, list[str]] = {}
    for p in problems:
        said.setdefault(how_trained(r for entry in results.of(p) for r in entry.results), []).append(p)
    return " ".join(f"{', '.join(names)}: {text}." for text, names in said.items())


def _where(result: Result) -> str:
    return f"{result.device}, trained compiled" if result.compiled else result.device


def _texts(*texts: str) -> tuple[Lines, ...]:
    return tuple((Line(text),) for text in texts)


def _count(value: float) -> str:
    return f"{value / 1e6:.2f} M" if value >= 1e4 else f"{value:,.0f}"


def _rate(value: float) -> str:
    """Three digits, or thousands marked."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
