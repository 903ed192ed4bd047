"""The table of a report: one row a run, ours beside the paper's figure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tino.paper import PAPER
from tino.runs import Run


@dataclass(frozen=True)
class Row:
    """One run's numbers, ready to print."""

    problem: str
    model: str
    mse: str
    sd: str
    rel_l2: str
    parameters: str
    seconds: str
    causal: str
    time_invariant: str
    paper: str
    paper_sd: str


HEADINGS = {
    "problem": "problem",
    "model": "model",
    "mse": "MSE",
    "sd": "± SD",
    "rel_l2": "rel. L2",
    "parameters": "params",
    "seconds": "seconds",
    "causal": "causal",
    "time_invariant": "time-inv.",
    "paper": "paper MSE",
    "paper_sd": "± SD",
}


def row(run: Run) -> Row:
    return result_row({**run.record, **run.scores, **run.certificate})


def result_row(record: Mapping[str, Any]) -> Row:
    """Of a run's records laid together, or of a cell's result."""
    printed = PAPER.get(record["problem"], {}).get(record["model"])
    return Row(
        problem=record["problem"],
        model=record["model"] + (f"-{record['seed']}" if record.get("seed") else ""),  # as a result is called
        mse=short(record["mse_mean"]),
        sd=short(record["mse_sd"]),
        rel_l2=short(record["rel_l2_mean"]),
        parameters=f"{record['parameters'] / 1e6:.2f}M",
        seconds=f"{record['train_seconds']:.0f}",
        causal="yes" if record["causal"] else "no",
        time_invariant="yes" if record["time_invariant"] else "no",
        paper=short(printed[0]) if printed else "–",
        paper_sd=short(printed[1]) if printed else "–",
    )


def short(value: float) -> str:
    """2.84e-4, as the paper writes it."""
    if not math.isfinite(value):  # a relative error where the response is zero
        return str(value)
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def print_table(rows: list[Row]) -> None:
    """One table for each problem, narrow enough for 80 columns."""
    console = Console()
    for problem in dict.fromkeys(r.problem for r in rows):
        table = Table(title=f"{problem}: errors on the test set", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.show_edge = table.pad_edge = False
        shown = [key for key in HEADINGS if key not in ("problem", "sd", "paper_sd")]
        for key in shown:
            narrow = {"mse": "MSE ± SD", "time_invariant": "time-\ninv.", "seconds": "sec"}
            title = narrow.get(key, HEADINGS[key])
            justify = "left" if key == "model" else "right"
            table.add_column(title.replace(" MSE", "\nMSE"), justify=justify, no_wrap=True)
        for r in (r for r in rows if r.problem == problem):
            cells = {**r.__dict__, "mse": f"{r.mse} ± {r.sd}"}
            table.add_row(*(cells[key] for key in shown))
        console.print(table)
