"""What reports say of a result: its numbers, its row in a table, its data and its training."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from tino.channels import Channel, Channels
from tino.errors import in_short
from tino.metrics import METRICS
from tino.paper import PAPER
from tino.preview import Preview
from tino.problems import problem, problem_names
from tino.race import Entrant, Race
from tino.report.terminal import TextTable
from tino.results import Result
from tino.text import visible

DASH = "–"


def short(value: float) -> str:
    """2.84e-4, as the paper writes it."""
    if not math.isfinite(value):  # a relative error where the response is zero
        return str(value)
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def dashed(value: float | None, write: Callable[[float], str] = short) -> str:
    """The number as text; a dash for None."""
    return DASH if value is None else write(value)


def yes_or_no(value: bool | None) -> str:
    return DASH if value is None else "yes" if value else "no"


def _printed(result: Result, which: int) -> str:
    figures = PAPER.get(result.problem, {}).get(result.model)
    return DASH if figures is None else short(figures[which])


def score(key: str, value: float | None) -> str:
    """A metric as text: percentages with two decimals, the others as the paper writes numbers."""
    return dashed(value, (lambda v: f"{v:.2f}") if METRICS[key].heading.endswith("%") else short)


def about(result: Result, kept: Preview | None) -> tuple[str, str]:
    """A problem's title and equation; for other data the title and, from a kept example, force [N] → angle [rad]."""
    if result.problem in problem_names():
        known = problem(result.problem)
        return known.title, known.equation
    channels = () if kept is None else (kept.data.input_channels, kept.data.output_channels)
    return result.title or result.problem, " → ".join(", ".join(map(str, names)) for names in channels)


def how_trained(results: Iterable[Result]) -> str:
    """The recipe of most models, then each other recipe with its models."""
    models: dict[str, dict[str, None]] = {}  # by recipe
    for result in results:
        models.setdefault(_recipe(result), {})[result.model] = None
    most, *others = sorted(models, key=lambda text: -len(models[text]))
    return "; ".join([most, *[f"{', '.join(models[text])}: {text}" for text in others]])


def _recipe(result: Result) -> str:
    if not result.steps:
        return "in closed form"
    training = result.training
    decay = f", weight decay {training['weight_decay']:g}" if training["weight_decay"] else ""
    return (
        f"{result.epochs} epochs of batches of {result.batch_size} ({result.steps} steps) at "
        f"{training['times'] or 'all'} times, {result.optimizer} at rate {result.lr:g}{decay}, {training['precision']}"
    )


# heading -> the text of a cell; every metric has a column
COLUMNS: dict[str, Callable[[Result], str]] = {
    "model": lambda r: r.model + (f"-{r.seed}" if r.seed else ""),  # as its file is named
    **{metric.heading: lambda r, key=key: score(key, r.told(key)) for key, metric in METRICS.items()},
    "params": lambda r: f"{r.parameters / 1e6:.2f}M" if r.parameters >= 1e4 else str(r.parameters),
    "seconds": lambda r: f"{r.train_seconds:.0f}",
    "causal": lambda r: yes_or_no(r.causal),
    "time-inv.": lambda r: yes_or_no(r.time_invariant),
    "paper MSE": lambda r: _printed(r, 0),
    "paper ± SD": lambda r: _printed(r, 1),
}
ON_A_TERMINAL = {  # columns that fit into 80 characters, with narrower headings
    "model": "model",
    "MSE ± SD": "MSE ± SD",
    "relative L2": "rel. L2",
    "fit %": "fit %",
    "params": "params",
    "seconds": "sec",
    "causal": "causal",
    "time-inv.": "time-\ninv.",
    "paper MSE": "paper\nMSE",
}

LONGEST = 24  # letters of a name, with a seed, that is not folded


def print_table(results: Sequence[Result], names: Sequence[str] | None = None) -> None:
    """One table for each dataset, narrow enough for 80 columns; the models by these names, or by model and seed."""
    console, named = Console(), names or [COLUMNS["model"](result) for result in results]
    for name in dict.fromkeys(result.problem for result in results):
        title = Text(f"{visible(name)}: errors on the test set", style="table.title")
        table = TextTable(title=title, show_edge=False, pad_edge=False)
        rows = [_narrow_row(r, model) for r, model in zip(results, named, strict=True) if r.problem == name]
        shown = [key for key in ON_A_TERMINAL if any(row[key] != DASH for row in rows)]
        if "paper MSE" in shown and "fit %" in shown:  # there is room for one of them
            shown.remove("fit %")
        for key in ("seconds", "params"):  # rather than a model's name that is broken within a word
            if key in shown and _width(rows, ["model"]) <= LONGEST and _width(rows, shown) > console.width:
                shown.remove(key)
        for key in shown:
            is_name = key == "model"  # a long one is folded, a number never
            side = "left" if is_name else "right"
            table.add_column(ON_A_TERMINAL[key], justify=side, no_wrap=not is_name, overflow="fold")
        for row in rows:
            table.add_row(*(row[key] for key in shown))
        console.print(table)


def _width(rows: Sequence[Mapping[str, str]], shown: Sequence[str]) -> int:
    """Of a table with these columns."""
    cells = ([*ON_A_TERMINAL[key].split("\n"), *(row[key] for row in rows)] for key in shown)
    return sum(max(map(len, column)) + 2 for column in cells) - 1


def _narrow_row(result: Result, name: str) -> dict[str, str]:
    cells = {heading: write(result) for heading, write in COLUMNS.items()}
    return {**cells, "model": name, "MSE ± SD": DASH if cells["MSE"] == DASH else f"{cells['MSE']} ± {cells['± SD']}"}


def in_units(scores: Mapping[str, float], channel: Channel) -> str:
    """The errors of a single output in its unit, as a line."""
    unit = f" {channel.unit}" if channel.unit else ""
    told = [f"{METRICS[key].heading} {score(key, scores.get(key))}{unit}" for key in ("rmse", "max_error")]
    return f"{channel.name}: {', '.join(told)}"


def print_scores(overall: Mapping[str, float], by_channel: Mapping[str, Mapping[str, float]], of: Channels) -> None:
    """A row for all values and, of several channels, one for each, named with its unit; in 80 columns."""
    table = TextTable("channel" if by_channel else "", show_edge=False, pad_edge=False)
    unit = visible(in_short(of[0].unit, 9)) if len(of) == 1 else ""
    for metric in METRICS.values():
        heading = {"relative L2": "rel. L2", "largest error": "largest\nerror"}.get(metric.heading, metric.heading)
        heading += f"\n[{unit}]" if unit and metric.unit == 1 else ""
        table.add_column(Text(heading), justify="right", no_wrap=True)  # a unit is no markup
    units = {channel.name: str(channel) for channel in of}
    rows = {units.get(name, name): numbers for name, numbers in by_channel.items()}
    mixed = {key for key, metric in METRICS.items() if by_channel and metric.unit}  # channels have their own units
    table.add_row("all", *(DASH if key in mixed else score(key, overall.get(key)) for key in METRICS))
    for name, numbers in rows.items():
        table.add_row(name, *(score(key, numbers.get(key)) for key in METRICS))
    Console().print(table)


RACE_HEAD = ("entrant", "held-out NRMSE", "fit %", "seconds", "note")


def race_row(one: Entrant, race: Race) -> tuple[str, ...]:
    """An entrant under RACE_HEAD."""
    fit = dashed(one.error, lambda error: score("fit", 100 * (1 - error)))
    seconds = f"{one.seconds:.1f}" if one.seconds else DASH
    note = one.note or ("winner" if one.model == race.winner else "")
    return one.model, dashed(one.error), fit, seconds, note


def print_race(race: Race) -> None:
    """The entrants in their order, and why the winner won; in 80 columns."""
    title = f"{race.data}: {race.diagnosis}; errors on {race.held_out}"
    table = TextTable(title=Text(visible(title), style="table.title"), show_edge=False, pad_edge=False)
    for heading in RACE_HEAD:
        is_text = heading in (RACE_HEAD[0], RACE_HEAD[-1])
        table.add_column(heading.replace(" ", "\n", 1), justify="left" if is_text else "right", no_wrap=not is_text)
    for one in race.entrants:
        table.add_row(*race_row(one, race))
    Console().print(table)
    Console().print(Text(visible(race.reason)))
