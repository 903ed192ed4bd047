"""The report of a bench: the paper's tables with ours beside, box plots and examples, as a page, Markdown and LaTeX."""

import html
from pathlib import Path

from tino.files import write_text
from tino.paper import PAPER
from tino.preview import Preview
from tino.progress import progress
from tino.report.comparison import break_even, sections
from tino.report.figures import Figure, box_plots, draw_preview
from tino.report.page import drawn, keep, page
from tino.report.tables import about
from tino.results import Entry, Results

TITLE, OWN_TITLE = "The paper's tables, and ours", "How well do the models predict the response?"
PAYOFF = "When a surrogate pays off"


def write_bench_report(results: Results, folder: Path) -> Path:
    """Write index.html, report.md, tables.tex and the figures as PNG files into the folder -> the page's path."""
    title = TITLE if any(name in PAPER for name in results.problems) else OWN_TITLE
    body, text, tables = [], [f"# {title}"], []
    previews = {name: results.preview(name) for name in results.problems}  # a damaged one fails before any work
    with progress("drawing figures", 1 + len(results.problems)) as advance:
        boxes = drawn("Relative L2 errors of the test samples.", keep(box(results), folder / "relative-l2.png"))
        advance()
        for part in sections(results):
            errors, costs = part.errors, part.costs
            tables += [errors, costs]
            notes = [f'<p class="small">{html.escape(note)}</p>' for note in part.notes]
            body += [f"<h2>{html.escape(part.title)}</h2>", errors.html(), *notes, costs.html()]
            text += [f"## {part.title}", errors.caption, errors.markdown(), *part.notes, costs.markdown()]
            for name in part.problems:
                body.append(_section(name, results.of(name)[0], previews[name], folder))
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
    write_text(folder / "index.html", page(title, "\n".join(body)))
    return folder / "index.html"


def box(results: Results) -> Figure:
    """Box plots of all problems, with each model's first seed."""
    return box_plots(
        {name: {entry.model: entry.results[0].rel_l2 for entry in results.of(name)} for name in results.problems}
    )


def _section(name: str, first: Entry, found: tuple[Entry, Preview] | None, folder: Path) -> str:
    """Title, equation or channels, and the predicted sample if one is kept."""
    title, equation = about(first.results[0], found and found[1])
    text = f"<h3>{html.escape(title)}</h3>\n<p>{html.escape(equation)}</p>"
    if found is None:
        return text
    entry, kept = found
    layer = ", the layer in the middle" if kept.data.outputs.points.shape[1] == 3 else ""
    caption = f"{name}: {entry.model} on test sample {kept.sample}, whose response is of median size{layer}."
    return text + "\n" + drawn(caption, keep(draw_preview(kept, entry.model), folder / f"{name}.png"))
