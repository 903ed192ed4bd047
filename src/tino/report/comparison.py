"""The tables of a comparison: the paper's with ours beside, what each model costs, and when a surrogate pays off."""

from collections.abc import Sequence
from typing import Any

from tino.files import read_json
from tino.models.zoo import MODELS
from tino.paper import PAPER, TABLES, PaperTable
from tino.report.markup import Cell, Line, Markup
from tino.report.results import Entry, Results
from tino.report.tables import short

NONE: Cell = (Line("–"),)


def paper_tables(results: Results) -> list[tuple[PaperTable, list[str]]]:
    """Each table of the paper of which there are results, and its problems that have some."""
    tables = [(table, [name for name in table.problems if results.of(name)]) for table in TABLES]
    named = {name for table in TABLES for name in table.problems}
    rest = [name for name in results.problems if name not in named]
    own = PaperTable("own", "", "Other problems", dict.fromkeys(rest, 0))
    return [pair for pair in [*tables, (own, rest)] if pair[1]]


def errors(results: Results, table: PaperTable, problems: list[str]) -> Markup:
    """Rows of models, columns of problems; ours above the paper's figure, each ranked among its own."""
    models = [name for name in MODELS if any((p, name) in results.by_name for p in problems)]
    columns = {p: _column(results, p) for p in problems}
    rows = []
    for model in models:
        own = [results.by_name[p, model] for p in problems if (p, model) in results.by_name]
        marks = (_yes(own, "causal"), _yes(own, "time_invariant"))
        rows.append(((Line(model),), *[columns[p].get(model, NONE) for p in problems], *marks))
    caption = (
        f"{table.title}: MSE ± SD over the test samples, ours above the paper's. Best bold, second underlined, each "
        "among its own. Causal and time-invariant as measured."
    )
    return Markup(f"{table.name}-errors", caption, ("model", *problems, "causal", "time-inv."), tuple(rows))


def _column(results: Results, problem: str) -> dict[str, Cell]:
    entries = results.of(problem)
    ours = _ranks({entry.model: entry.mse for entry in entries})
    theirs = _ranks({entry.model: entry.paper[0] for entry in entries if entry.paper})
    cells = {}
    for entry in entries:
        lines = [Line(f"{short(entry.mse)} ± {short(entry.mean('mse_sd'))}", ours.get(entry.model, ""))]
        if entry.spread:
            low, high = map(short, entry.spread)
            lines.append(Line(f"{len(entry.records)} seeds: {low} … {high}", quiet=True))
        if entry.paper:
            printed = f"paper {short(entry.paper[0])} ± {short(entry.paper[1])}"
            lines.append(Line(printed, theirs.get(entry.model, ""), quiet=True))
        cells[entry.model] = tuple(lines)
    return cells


def _ranks(values: dict[str, float]) -> dict[str, str]:
    """The best and the second of several."""
    order = sorted(values, key=lambda name: values[name])
    return dict(zip(order, ("best", "second"), strict=False)) if len(order) > 2 else dict.fromkeys(order[:1], "best")


def _yes(entries: Sequence[Entry], key: str) -> Cell:
    found = {entry.always(key) for entry in entries}
    return (Line("yes" if found == {True} else "no" if found == {False} else "not always"),)


def costs(results: Results, table: PaperTable, problems: list[str], solvers: dict[str, float]) -> Markup:
    """A row for each problem and model, and one for the reference solver."""
    rows: list[tuple[Cell, ...]] = []
    for p in problems:
        for entry in results.of(p):
            numbers = (
                short(entry.mean("rel_l2_mean")),
                f"{entry.mean('parameters') / 1e6:.2f} M",
                f"{entry.mean('train_seconds'):.0f}",
                f"{seconds_per_epoch(entry):.3g}",
                rate(entry.mean("samples_per_second")),
            )
            rows.append(((Line(p),), (Line(entry.model),), *[(Line(text),) for text in numbers]))
        if p in solvers:
            rows.append(((Line(p),), (Line("reference solver"),), *[NONE] * 4, (Line(rate(solvers[p])),)))
    devices = sorted({record["device"] for p in problems for entry in results.of(p) for record in entry.records})
    caption = f"{table.title}: relative L2 errors and costs on {' and '.join(devices)}."
    head = "problem, model, relative L2, parameters, training s, s per epoch, samples per s"
    return Markup(f"{table.name}-costs", caption, tuple(head.split(", ")), tuple(rows))


def seconds_per_epoch(entry: Entry) -> float:
    return entry.mean("train_seconds") / entry.mean("epochs")


def break_even(results: Results, solvers: dict[str, float]) -> Markup | None:
    """After how many responses data, training and prediction have cost less than the reference solver."""
    rows = []
    for p in results.problems:
        chosen = [entry for entry in results.of(p) if getattr(MODELS.get(entry.model), "mixer", "") == "delay"]
        if p not in solvers or not chosen:
            continue
        entry = min(chosen, key=lambda e: e.mse)
        sizes = entry.records[0]["data"]
        data = (sizes["train"] + sizes["test"]) * _windows(results, p) / solvers[p]
        training, speed = entry.mean("train_seconds"), entry.mean("samples_per_second")
        saved = 1 / solvers[p] - 1 / speed
        after = f"{round((data + training) / saved):,}" if saved > 0 else "never"
        numbers = (f"{data:.1f}", f"{training:.0f}", rate(speed), rate(solvers[p]), rate(speed / solvers[p]), after)
        rows.append(((Line(p),), (Line(entry.model),), *[(Line(text),) for text in numbers]))
    if not rows:
        return None
    head = "problem, model, data s, training s, model's samples per s, solver's, ratio, pays off after"
    caption = (
        "When a surrogate pays off: seconds for the training and test data by our reference solver, for training, and "
        "the number of further responses after which both are made up for, all on one device."
    )
    return Markup("break-even", caption, tuple(head.split(", ")), tuple(rows))


def solver_rates(results: Results) -> dict[str, float]:
    """Samples a second of the reference solvers on the results' device, from problems.json beside the folder."""
    path = results.folder.parent / "problems.json"
    devices = {record["device"] for entry in results.entries for record in entry.records}
    if not path.exists() or len(devices) != 1:
        return {}
    measured: list[dict[str, Any]] = [read_json(path).get(key, {}) for key in ("cost", "gpu_cost")]
    for cost in measured:
        if cost.get("machine", {}).get("device") in devices:
            return {
                name: values["trajectories_per_second"] * _windows(results, name)
                for name, values in cost["sets"].items()
            }
    return {}


def _windows(results: Results, problem: str) -> float:
    """Samples that one solved trajectory gives: 1, but for problems cut into windows."""
    return next((len(e.records[0]["rel_l2"]) / e.records[0]["data"]["test"] for e in results.of(problem)), 1.0)


def recipe(results: Results, problems: list[str]) -> str:
    """How the models of these problems were trained, in a sentence for each problem that differs."""
    said: dict[str, list[str]] = {}
    for p in problems:
        told = {_recipe(record) for entry in results.of(p) for record in entry.records}
        said.setdefault("; or ".join(sorted(told)), []).append(p)
    return " ".join(f"{', '.join(names)}: {text}." for text, names in said.items())


def _recipe(record: dict[str, Any]) -> str:
    training = record["training"]
    return (
        f"{record['optimizer']}, learning rate {record['lr']:g} falling along a cosine, {record['epochs']} epochs of "
        f"batches of {record['batch_size']} ({record['steps']} steps) at {training['times'] or 'all'} times, "
        f"{training['precision']}"
    )


def rate(value: float) -> str:
    """Three digits, with thousands marked."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def missing(results: Results, table: PaperTable) -> list[str]:
    """The cells of a table of the paper that have no result."""
    pairs = ((p, m) for p in table.problems for m in PAPER.get(p, {}))
    return [f"{p} {m}" for p, m in pairs if (p, m) not in results.by_name]
