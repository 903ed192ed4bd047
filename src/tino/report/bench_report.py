"""The report of a bench: the paper's tables with ours beside, box plots and examples, as a page, Markdown and LaTeX."""

from pathlib import Path

from tino.files import write_text
from tino.paper import PAPER
from tino.preview import Preview
from tino.progress import progress
from tino.report.comparison import break_even, sections
from tino.report.figures import Figure, box_plots, draw_preview
from tino.report.markup import in_html, in_markdown
from tino.report.page import drawn, file_names, keep, page
from tino.report.tables import about
from tino.results import Entry, Results

TITLE, OWN_TITLE = "The paper's tables, and ours", "How well do the models predict the response?"
PAYOFF = "When a surrogate pays off"


def write_bench_report(results: Results, folder: Path) -> Path:
    """Write index.html, report.md, tables.tex and the figures as PNG files into the folder -> the page's path."""
    title = TITLE if any(name in PAPER for name in results.problems) else OWN_TITLE
    body, text, tables = [], [f"# {title}"], []
    previews = {name: results.preview(name) for name in results.problems}  # a damaged one fails before any work
    _, *files = file_names(["relative-l2", *results.problems])
    pictures = {name: folder / f"{file}.png" for name, file in zip(results.problems, files, strict=True)}
    with progress("drawing figures", 1 + len(results.problems)) as advance:
        boxes = drawn("Relative L2 errors of the test samples.", keep(box(results), folder / "relative-l2.png"))
        advance()
        for part in sections(results):
            errors, costs = part.errors, part.costs
            tables += [errors, costs]
            notes = [f'<p class="small">{in_html(note)}</p>' for note in part.notes]
            body += [f"<h2>{in_html(part.title)}</h2>", errors.html(), *notes, costs.html()]
            text += [f"## {in_markdown(part.title)}", in_markdown(errors.caption), errors.markdown()]
            text += [*map(in_markdown, part.notes), costs.markdown()]
            for name in part.problems:
                body.append(_section(name, results.of(name)[0], previews[name], pictures[name]))
                text += [f"![{in_markdown(name)}]({pictures[name].name})"] if previews[name] else []
                advance()
    if payoff := break_even(results):
        tables.append(payoff)
        body += [f"<h2>{PAYOFF}</h2>", payoff.html()]
        text += [f"## {PAYOFF}", in_markdown(payoff.caption), payoff.markdown()]
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


def _section(name: str, first: Entry, found: tuple[Entry, Preview] | None, path: Path) -> str:
    """Title, equation or channels, and the predicted sample if one is kept."""
    title, equation = about(first.results[0], found and found[1])
    text = f"<h3>{in_html(title)}</h3>\n<p>{in_html(equation)}</p>"
    if found is None:
        return text
    entry, kept = found
    layer = ", the layer in the middle" if kept.data.outputs.points.shape[1] == 3 else ""
    caption = f"{name}: {entry.model} on test sample {kept.sample}, whose response is of median size{layer}."
    return text + "\n" + drawn(caption, keep(draw_preview(kept, entry.model), path))
