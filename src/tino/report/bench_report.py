"""The report of a bench: the paper's tables with ours beside, box plots and examples, as a page, Markdown and LaTeX."""

import html
from pathlib import Path

from tino.examples import Example
from tino.files import write_text
from tino.problems import problem
from tino.progress import progress
from tino.report.comparison import break_even, sections
from tino.report.figures import Figure, box_plots, draw_example
from tino.report.page import drawn, keep, page
from tino.report.results import Entry, Results

TITLE = "The paper's tables, and ours"
PAYOFF = "When a surrogate pays off"


def write_bench_report(results: Results, folder: Path) -> Path:
    """Write index.html, report.md, tables.tex and the figures as PNG files into the folder -> the page's path."""
    body, text, tables = [], [f"# {TITLE}"], []
    examples = {name: results.example(name) for name in results.problems}  # a damaged one is told before any work
    with progress("drawing figures", 1 + len(results.problems)) as advance:
        boxes = drawn("Relative L2 errors of the test samples.", keep(box(results), folder / "relative-l2.png"))
        advance()
        for part in sections(results):
            tables += [part.errors, part.costs]
            notes = [f'<p class="small">{html.escape(note)}</p>' for note in part.notes]
            body += [f"<h2>{html.escape(part.title)}</h2>", part.errors.html(), *notes, part.costs.html()]
            text += [
                f"## {part.title}",
                part.errors.caption,
                part.errors.markdown(),
                *part.notes,
                part.costs.markdown(),
            ]
            for name in part.problems:
                body.append(_example(name, examples[name], folder))
                text += [f"![{name}]({name}.png)"] if (folder / f"{name}.png").exists() else []
                advance()
    if payoff := break_even(results):
        tables.append(payoff)
        body += [f"<h2>{PAYOFF}</h2>", payoff.html()]
        text += [f"## {PAYOFF}", payoff.caption, payoff.markdown()]
    body += ["<h2>All errors</h2>", boxes]
    text += ["## All errors", "![Relative L2 errors of the test samples](relative-l2.png)"]
    write_text(folder / "report.md", "\n\n".join(text) + "\n")
    write_text(folder / "tables.tex", "\n".join(table.latex() for table in tables))
    write_text(folder / "index.html", page(TITLE, "\n".join(body)))
    return folder / "index.html"


def box(results: Results) -> Figure:
    """The box plots of all problems, of each model's first seed."""
    return box_plots(
        {name: {entry.model: entry.records[0]["rel_l2"] for entry in results.of(name)} for name in results.problems}
    )


def _example(name: str, found: tuple[Entry, Example] | None, folder: Path) -> str:
    """The problem's equation and, where one is kept, its example."""
    chosen = problem(name)
    text = f"<h3>{html.escape(chosen.title)}</h3>\n<p>{html.escape(chosen.equation)}</p>"
    if found is None:
        return text
    entry, kept = found
    layer = ", the layer in the middle" if kept.data.outputs.points.shape[1] == 3 else ""
    caption = f"{name}: {entry.model} on test sample {kept.sample}, whose response is of median size{layer}."
    return text + "\n" + drawn(caption, keep(draw_example(kept, entry.model), folder / f"{name}.png"))
