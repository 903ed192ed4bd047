"""The report of a bench: the paper's tables with ours beside, box plots and examples, as a page, Markdown and LaTeX."""

import html
from pathlib import Path

from tino.files import write_text
from tino.problems import problem
from tino.progress import progress
from tino.report.comparison import break_even, costs, errors, missing, paper_tables, recipe, solver_rates
from tino.report.figures import Figure, box_plots, draw_example
from tino.report.markup import Markup
from tino.report.page import drawn, keep, page
from tino.report.results import Results

TITLE = "The paper's tables, and ours"


def write_bench_report(results: Results, folder: Path) -> Path:
    """Write index.html, report.md, tables.tex and the figures as PNG files into the folder -> the page's path."""
    sections, tables = [], []
    solvers = solver_rates(results)
    with progress("drawing figures", 1 + len(results.problems)) as advance:
        boxes = ("Relative L2 errors of the test samples.", keep(box(results), folder / "relative-l2.png"))
        advance()
        for table, problems in paper_tables(results):
            own = [errors(results, table, problems), costs(results, table, problems, solvers)]
            tables += own
            text = [f"<h2>{html.escape(table.title)}</h2>", own[0].html(), _small(notes(results, problems))]
            if lacking := missing(results, table):
                text.append(_small(f"No result yet: {', '.join(lacking)}."))
            text.append(own[1].html())
            for name in problems:
                text.append(_example(results, name, folder))
                advance()
            sections += text
    if payoff := break_even(results, solvers):
        tables.append(payoff)
        sections += ["<h2>When a surrogate pays off</h2>", payoff.html()]
    sections += ["<h2>All errors</h2>", drawn(*boxes)]
    write_text(folder / "report.md", markdown(tables))
    write_text(folder / "tables.tex", "\n".join(table.latex() for table in tables))
    write_text(folder / "index.html", page(TITLE, "\n".join(sections)))
    return folder / "index.html"


def box(results: Results) -> Figure:
    """The box plots of all problems, of each model's first seed."""
    return box_plots(
        {name: {entry.model: entry.records[0]["rel_l2"] for entry in results.of(name)} for name in results.problems}
    )


def notes(results: Results, problems: list[str]) -> str:
    """How these cells were trained."""
    return f"Trained alike, {recipe(results, problems)} Paper: the figure printed there, for its own data and training."


def markdown(tables: list[Markup]) -> str:
    return f"# {TITLE}\n\n" + "\n\n".join(f"{table.caption}\n\n{table.markdown()}" for table in tables) + "\n"


def _small(text: str) -> str:
    return f'<p class="small">{html.escape(text)}</p>'


def _example(results: Results, name: str, folder: Path) -> str:
    """The problem's equation and, where one is kept, its example."""
    chosen = problem(name)
    text = f"<h3>{html.escape(chosen.title)}</h3>\n<p>{html.escape(chosen.equation)}</p>"
    found = results.example(name)
    if found is None:
        return text
    entry, kept = found
    caption = f"{name}: {entry.model} on test sample {kept.sample}, whose response is of median size."
    return text + "\n" + drawn(caption, keep(draw_example(kept, entry.model), folder / f"{name}.png"))
