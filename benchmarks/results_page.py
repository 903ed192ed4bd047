"""docs/results.md from results/paper: every table between its marks, and the box plots.

python benchmarks/results_page.py
"""

from pathlib import Path

from tino.files import read_json, write_text
from tino.paper import PAPER, RECIPE, TABLES
from tino.report.bench_report import box
from tino.report.comparison import break_even, costs, errors, missing, paper_tables, solver_rates
from tino.report.page import keep
from tino.report.results import Results, read_results
from tino.report.tables import short

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "paper"
STUDIES = ROOT / "benchmarks" / "results" / "recipe.json"
PAGE = ROOT / "docs" / "results.md"


def sections(results: Results) -> dict[str, str]:
    """What stands between each pair of marks."""
    solvers = solver_rates(results)
    found = {"recipe": recipe_lines(), "bars": bar_lines(results)}
    for table, problems in paper_tables(results):
        lacking = missing(results, table)
        text = [errors(results, table, problems).markdown()]
        if lacking:
            text.append(f"No result yet: {', '.join(lacking)}.")
        found[table.name] = "\n\n".join(text)
        found[f"{table.name} costs"] = costs(results, table, problems, solvers).markdown()
    if STUDIES.exists():
        found["studies"] = study_lines()
    payoff = break_even(results, solvers)
    found["break-even"] = payoff.markdown() if payoff else ""
    return found


def recipe_lines() -> str:
    common = ", ".join(f"{key} {value}" for key, value in RECIPE.items())
    lines = ["| table | problems | epochs |", "| --- | --- | --- |"]
    lines += [f"| {table.title} | {name} | {epochs} |" for table in TABLES for name, epochs in table.epochs.items()]
    return f"For all: {common}; batches as in the paper.\n\n" + "\n".join(lines)


def bar_lines(results: Results) -> str:
    """Our error over the paper's, where it is above 1 for the paper's own model or above 2 for a baseline."""
    lines = ["| problem | model | ours over the paper's |", "| --- | --- | --- |"]
    for entry in results.entries:
        assert entry.paper
        ratio = entry.mse / entry.paper[0]
        if ratio > (1 if entry.model == family_model(entry.problem) else 2):
            lines.append(f"| {entry.problem} | {entry.model} | {ratio:.2f} |")
    return "\n".join(lines)


def study_lines() -> str:
    """The recipe with one thing changed at a time."""
    lines = ["| problem | model | change | test MSE | training MSE |", "| --- | --- | --- | --- | --- |"]
    for study in read_json(STUDIES)["studies"].values():
        errors_of = f"{short(study['test_mse'])} | {short(study['train_mse'])}"
        lines.append(f"| {study['problem']} | {study['model']} | {study['change']} | {errors_of} |")
    return "\n".join(lines)


def family_model(problem: str) -> str:
    """The paper's own model on a problem: the last one of its row."""
    return list(PAPER[problem])[-1]


def write() -> None:
    results = read_results(RESULTS)
    text = PAGE.read_text(encoding="utf-8")
    for mark, content in sections(results).items():
        begin, end = f"<!-- {mark}: written by benchmarks/results_page.py -->", f"<!-- end of {mark} -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n{content}\n{end}{after}"
    write_text(PAGE, text)
    keep(box(results), ROOT / "docs" / "images" / "results-relative-l2.png")


if __name__ == "__main__":
    write()
