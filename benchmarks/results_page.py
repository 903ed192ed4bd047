"""Writes docs/results.md from results/paper and the closed forms of results/beyond, and draws the box plots.

    python benchmarks/results_page.py

takes seconds; a test fails when the page and the results differ.
"""

import hashlib
import json
from pathlib import Path

import choices
from beyond import ROWS, chosen

from tino.bench import paper_config
from tino.files import read_json, write_text
from tino.paper import PAPER, TABLES, own_model
from tino.report.bench_report import box
from tino.report.comparison import break_even, sections
from tino.report.page import keep
from tino.report.tables import short
from tino.results import Cell, Results, read_results

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "paper"
BEYOND = ROOT / "results" / "beyond"
CLOSED = ("linear", "polynomial", "equation", "linear-clock", "polynomial-clock")
STUDIES = ROOT / "benchmarks" / "results" / "recipe.json"
PAGE = ROOT / "docs" / "results.md"
PICTURE = ROOT / "docs" / "images" / "results-relative-l2.png"


def pieces(results: Results) -> dict[str, str]:
    """What stands between each pair of marks."""
    found = {"recipe": recipe_lines(), "bars": bar_lines(results), "orders": order_lines(results)}
    for part in sections(with_closed_forms(results)):
        found[part.name] = part.errors.markdown()
        found[f"{part.name} costs"] = part.costs.markdown()
    found["studies"] = study_lines()
    trials = read_json(choices.RESULTS)
    found |= {"fitting choices": choices.fitting_lines(trials), "lengths": choices.length_lines(trials)}
    found["rates"] = choices.rate_lines(trials)
    payoff = break_even(results)
    found["break-even"] = payoff.markdown() if payoff else ""
    return found


def with_closed_forms(results: Results) -> Results:
    """The paper's models and, on the paper's problems, the flows that are fitted without training."""
    closed = [one for one in read_results(BEYOND).entries if one.model in CLOSED and one.problem in results.problems]
    return Results(results.folder, (*results.entries, *closed))


def with_chosen_flows(results: Results) -> Results:
    """The paper's models and, of each problem that has one, the flow that is chosen in docs/beyond.md."""
    wanted = {(problem, chosen(problem)) for problem in ROWS}
    flows = [one for one in read_results(BEYOND).entries if (one.problem, one.model) in wanted]
    return Results(results.folder, (*results.entries, *flows))


def recipe_lines() -> str:
    lines = ["| problem | models | recipe |", "| :--- | :--- | :--- |"]
    for name in (name for table in TABLES for name in table.problems):
        models: dict[str, list[str]] = {}
        for model in PAPER[name]:
            models.setdefault(str(paper_config(Cell(name, model, 0), {})), []).append(model)
        for recipe, those in models.items():
            lines.append(f"| {name} | {'all' if len(models) == 1 else ', '.join(those)} | {recipe} |")
    return "\n".join(lines)


def bar_lines(results: Results) -> str:
    """Our error over the paper's, where it is above 1 for the paper's own model or above 2 for a baseline."""
    lines = ["| problem | model | ours over the paper's |", "| --- | --- | --- |"]
    for entry in results.entries:
        ratio = entry.error / PAPER[entry.problem][entry.model][0]
        if ratio > (1 if entry.model == own_model(entry.problem) else 2):
            lines.append(f"| {entry.problem} | {entry.model} | {ratio:.2f} |")
    return "\n".join(lines)


def order_lines(results: Results) -> str:
    """Who is ahead of whom, here and there."""
    lines = ["| problem | ours, best first | the paper's, best first |", "| :--- | :--- | :--- |"]
    for name in results.problems:
        ours = results.ranked(name)
        theirs = sorted(PAPER[name], key=lambda model: PAPER[name][model][0])
        lines.append(f"| {name} | {', '.join(entry.model for entry in ours)} | {', '.join(theirs)} |")
    return "\n".join(lines)


def study_lines() -> str:
    """The recipe with one thing changed at a time."""
    lines = [
        "| problem | model | epochs | change | held-out MSE | training MSE | on |",
        "| :--- | :--- | ---: | :--- | ---: | ---: | :--- |",
    ]
    for study in read_json(STUDIES).values():
        errors_of = f"{short(study['held_out_mse'])} | {short(study['train_mse'])}"
        where = f"{study['problem']} | {study['model']} | {study['epochs']}"
        lines.append(f"| {where} | {study['change']} | {errors_of} | {study['device']} |")
    return "\n".join(lines)


def drawn_from(results: Results) -> str:
    """A hash of the errors in the box plots, kept inside the picture."""
    every = with_chosen_flows(results).entries
    errors = [(entry.problem, entry.model, entry.results[0].rel_l2) for entry in every]
    return f"errors {hashlib.sha256(json.dumps(errors).encode()).hexdigest()}"


def write() -> None:
    results = read_results(RESULTS)
    text = PAGE.read_text(encoding="utf-8")
    for mark, content in pieces(results).items():
        begin, end = f"<!-- {mark}: written by benchmarks/results_page.py -->", f"<!-- end of {mark} -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n{content}\n{end}{after}"
    write_text(PAGE, text)
    keep(box(with_chosen_flows(results)), PICTURE, drawn_from(results))


if __name__ == "__main__":
    write()
