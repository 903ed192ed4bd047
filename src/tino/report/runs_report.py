"""The report of runs: a table, loss curves and examples for each problem."""

import html
from pathlib import Path

from tino.errors import TinoError
from tino.files import write_text
from tino.problems import problem
from tino.progress import progress
from tino.report.figures import Figure, draw_example, loss_curves
from tino.report.markup import Line, Markup
from tino.report.page import drawn, keep, page
from tino.report.tables import HEADINGS, Row, row
from tino.runs import Run


def write_report(runs: list[Run], folder: Path) -> Path:
    """Write index.html and its figures as PNG files into the folder -> the page's path."""
    if not runs:
        raise TinoError("a report needs at least one run")
    by_problem: dict[str, list[Run]] = {}
    for run in runs:
        by_problem.setdefault(run.record["problem"], []).append(run)
    sections = []
    with progress("drawing figures", len(runs) + len(by_problem)) as advance:
        for name, members in by_problem.items():
            figures = [(f"{name}-loss", "Training loss; dashed: test error.", loss_curves(members))]
            advance()
            for run in members:
                figures.append((f"{name}-{run.folder.name}", *_example(run)))
                advance()
            sections.append(_section(name, members, [(c, keep(f, folder / f"{n}.png")) for n, c, f in figures]))
    write_text(folder / "index.html", page("How well do the models predict the response?", "\n".join(sections)))
    return folder / "index.html"


def write_figures(run: Run) -> None:
    """The loss curve and an example, as loss.png and example.png in the run's own folder."""
    keep(loss_curves([run]), run.folder / "loss.png")
    keep(_example(run)[1], run.folder / "example.png")


def _example(run: Run) -> tuple[str, Figure]:
    kept, name = run.example(), run.record["model"]
    caption = f"{name} ({run.folder.name}), test sample {kept.sample}, MSE {run.scores['mse'][kept.sample]:.1e}."
    return caption, draw_example(kept, name)


def _section(name: str, runs: list[Run], figures: list[tuple[str, bytes]]) -> str:
    chosen = problem(name)
    shown = "\n".join(drawn(caption, data) for caption, data in figures)
    first = runs[0].record
    data, training = first["data"], first["training"]
    recipe = (
        f"{data['train']} training and {data['test']} test pairs, seed {data['seed']}; "
        f"{training['optimizer']}, {first['epochs']} epochs, {first['steps']} steps on batches of "
        f"{first['batch_size']} samples at {training['times'] or 'all'} times, "
        f"learning rate {first['lr']:g}."
    )
    if any(run.record["training"] != training or run.record["data"] != data for run in runs):
        recipe = "The runs below differ in their data or training options: see each run.json."
    return f"""<h2>{html.escape(chosen.title)}</h2>
<p>{html.escape(chosen.equation)}</p>
{_table([row(run) for run in runs])}
<p class="small">{html.escape(recipe)} MSE and SD over the test samples; causal and time-inv. as measured;
paper: the figure printed there for its own data and training.</p>
{shown}"""


def _table(rows: list[Row]) -> str:
    keys = [key for key in HEADINGS if key != "problem"]
    best = min(rows, key=lambda r: float(r.mse)) if len(rows) > 1 else None
    cells = [
        tuple((Line(getattr(r, key), "best" if r is best and key == "mse" else ""),) for key in keys) for r in rows
    ]
    return Markup("runs", "", tuple(HEADINGS[key] for key in keys), tuple(cells)).html()
