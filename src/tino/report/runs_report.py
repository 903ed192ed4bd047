"""The report of runs: a table, loss curves and a predicted sample for each dataset."""

import html
from pathlib import Path

from tino.errors import TinoError
from tino.files import write_text
from tino.metrics import METRICS
from tino.progress import progress
from tino.report.figures import Figure, draw_preview, loss_curves
from tino.report.markup import Line, Markup
from tino.report.page import drawn, keep, page
from tino.report.tables import COLUMNS, DASH, about, how_trained, score
from tino.results import Result
from tino.runs import Run


def write_report(runs: list[Run], folder: Path) -> Path:
    """Write index.html and its figures as PNG files into the folder -> the page's path."""
    if not runs:
        raise TinoError("a report needs at least one run")
    by_data: dict[str, list[Run]] = {}
    for run in runs:
        by_data.setdefault(run.result.problem, []).append(run)
    sections = []
    with progress("drawing figures", len(runs) + len(by_data)) as advance:
        for name, members in by_data.items():
            figures = [(f"{name}-loss", *_losses(members))] if any(run.history() for run in members) else []
            advance()
            for i, run in enumerate(members):
                same = sum(other.folder.name == run.folder.name for other in members[:i])  # runs of one name
                figures.append((f"{name}-{run.folder.name}{f'-{same + 1}' if same else ''}", *_preview(run)))
                advance()
            sections.append(_section(members, [(c, keep(f, folder / f"{n}.png")) for n, c, f in figures]))
    write_text(folder / "index.html", page("How well do the models predict the response?", "\n".join(sections)))
    return folder / "index.html"


def write_figures(run: Run) -> None:
    """The loss curve and a predicted sample, as loss.png and example.png in the run's own folder."""
    if run.history():
        keep(_losses([run])[1], run.folder / "loss.png")
    keep(_preview(run)[1], run.folder / "example.png")


def _losses(runs: list[Run]) -> tuple[str, Figure]:
    scaled = any(len(run.preview().data.output_channels) > 1 for run in runs)
    return f"Training loss{'' if scaled else '; dashed: test error'}.", loss_curves(runs, scaled)


def _preview(run: Run) -> tuple[str, Figure]:
    kept, name = run.preview(), run.result.model
    caption = f"{name} ({run.folder.name}), test sample {kept.sample}, MSE {run.mse[kept.sample]:.1e}."
    return caption, draw_preview(kept, name)


def _section(runs: list[Run], figures: list[tuple[str, bytes]]) -> str:
    results = [run.result for run in runs]
    title, equation = about(results[0], runs[0].preview())
    table = _table(results)
    by_channel = _channels(runs)
    notes = "MSE and SD over the test samples; causal and time-inv. as measured"
    if by_channel:
        notes += "; relative L2, NRMSE and fit weigh the channels alike"
    if "paper MSE" in table.head:
        notes += "; paper: the figure printed there for its own data and training"
    shown = "\n".join(drawn(caption, data) for caption, data in figures)
    return f"""<h2>{html.escape(title)}</h2>
<p>{html.escape(equation)}</p>
{table.html()}
<p class="small">{html.escape(_recipe(results))} {notes}.</p>
{by_channel}
{shown}"""


def _recipe(results: list[Result]) -> str:
    first = results[0]
    if any(result.training != first.training or result.data != first.data for result in results):
        return "These runs differ in their data or training options: see each run.json."
    pairs = f"{first.data['train']} training and {first.data['test']} test pairs"
    return f"{pairs}, seed {first.seed}; {how_trained(results)}."


def _channels(runs: list[Run]) -> str:
    """The errors of each output channel, in its own unit; empty if no run has several."""
    rows = [
        ((Line(run.result.model),), (Line(name),), *((Line(score(key, numbers.get(key))),) for key in METRICS))
        for run in runs
        for name, numbers in run.channels.items()
    ]
    head = ("model", "channel", *(metric.heading for metric in METRICS.values()))
    return Markup("channels", "Errors of each output channel.", head, tuple(rows), 2).html() if rows else ""


def _table(results: list[Result]) -> Markup:
    """Every column that has something to show."""
    best = min(results, key=lambda r: r.mse) if len(results) > 1 else None
    written = {heading: [write(result) for result in results] for heading, write in COLUMNS.items()}
    shown = [heading for heading, texts in written.items() if any(text != DASH for text in texts)]
    cells = [
        tuple((Line(written[h][i], "best" if result is best and h == "MSE" else ""),) for h in shown)
        for i, result in enumerate(results)
    ]
    return Markup("runs", "", tuple(shown), tuple(cells))
