"""The report of runs: a table, loss curves and a predicted sample for each dataset."""

from collections.abc import Sequence
from pathlib import Path

from tino.errors import TinoError
from tino.files import write_text
from tino.metrics import METRICS
from tino.preview import Preview
from tino.progress import progress
from tino.report.figures import Figure, draw_preview, loss_curves
from tino.report.markup import Line, Markup, in_html
from tino.report.page import drawn, file_names, keep, page
from tino.report.tables import COLUMNS, DASH, about, how_trained, score
from tino.results import Result
from tino.runs import Run, labels


def write_report(runs: list[Run], folder: Path) -> Path:
    """Write index.html and its figures as PNG files into the folder -> the page's path."""
    if not runs:
        raise TinoError("a report needs at least one run")
    by_data: dict[str, list[Run]] = {}
    for run in runs:
        by_data.setdefault(run.result.problem, []).append(run)
    sections = []
    files = iter(file_names(f"{name}-{end}" for name, members in by_data.items() for end in _figure_ends(members)))
    with progress("drawing figures", len(runs) + len(by_data)) as advance:
        for members in by_data.values():
            names, kept = labels(members), [run.preview() for run in members]
            figures = [_losses(members, names)] if _have_losses(members) else []
            advance()
            for run, name, one in zip(members, names, kept, strict=True):
                figures.append(_preview(run, name, one, kept))
                advance()
            sections.append(_section(members, names, [(c, keep(f, folder / f"{next(files)}.png")) for c, f in figures]))
    write_text(folder / "index.html", page("How well do the models predict the response?", "\n".join(sections)))
    return folder / "index.html"


def write_figures(run: Run) -> None:
    """The loss curve and a predicted sample, as loss.png and example.png in the run's own folder."""
    (name,), kept = labels([run]), run.preview()
    if _have_losses([run]):
        keep(_losses([run], [name])[1], run.folder / "loss.png")
    keep(_preview(run, name, kept, [kept])[1], run.folder / "example.png")


def _have_losses(runs: Sequence[Run]) -> bool:
    return any(run.history() for run in runs)


def _figure_ends(runs: Sequence[Run]) -> list[str]:
    """How the names of the figures of one dataset end, in their order."""
    return ["loss"] * _have_losses(runs) + [run.folder.resolve().name for run in runs]


def _losses(runs: Sequence[Run], names: Sequence[str]) -> tuple[str, Figure]:
    scaled = any(len(run.preview().data.output_channels) > 1 for run in runs)
    return f"Training loss{'' if scaled else '; dashed: test error'}.", loss_curves(runs, names, scaled)


def _preview(run: Run, name: str, kept: Preview, beside: Sequence[Preview]) -> tuple[str, Figure]:
    by_mse = run.result.compared_by == "mse_mean"
    error = f"MSE {run.mse[kept.sample]:.1e}" if by_mse else f"relative L2 {run.result.rel_l2[kept.sample]:.1e}"
    caption = f"{name}, test sample {kept.sample}, {error}."
    return caption, draw_preview(kept, name, beside)


def _section(runs: list[Run], names: list[str], figures: list[tuple[str, bytes]]) -> str:
    results = [run.result for run in runs]
    title, equation = about(results[0], runs[0].preview())
    table = _table(results, names)
    by_channel = _channels(runs, names)
    notes = "causal and time-inv. as measured"
    if "MSE" in table.head:
        notes = f"MSE and SD over the test samples; {notes}"
    if by_channel:
        notes += "; relative L2, NRMSE and fit weigh the channels alike"
    if "paper MSE" in table.head:
        notes += "; paper: the figure printed there for its own data and training"
    shown = "\n".join(drawn(caption, data) for caption, data in figures)
    return f"""<h2>{in_html(title)}</h2>
<p>{in_html(equation)}</p>
{table.html()}
<p class="small">{in_html(_recipe(results))} {notes}.</p>
{by_channel}
{shown}"""


def _recipe(results: list[Result]) -> str:
    first = results[0]
    if any(result.training != first.training or result.data != first.data for result in results):
        return "These runs differ in their data or training options: see each run.json."
    pairs = f"{first.data['train']} training and {first.data['test']} test pairs"
    return f"{pairs}, seed {first.seed}; {how_trained(results)}."


def _channels(runs: list[Run], names: list[str]) -> str:
    """The errors of each output channel, in its own unit; empty if no run has several."""
    rows = [
        ((Line(label),), (Line(str(channel)),), *((Line(score(key, numbers.get(key))),) for key in METRICS))
        for run, label in zip(runs, names, strict=True)
        if run.channels
        for channel in run.preview().data.output_channels
        for numbers in (run.channels[channel.name],)
    ]
    head = ("model", "channel", *(metric.heading for metric in METRICS.values()))
    return Markup("channels", "Errors of each output channel.", head, tuple(rows), 2).html() if rows else ""


def _table(results: list[Result], names: list[str]) -> Markup:
    """Every column that has something to show."""
    by = results[0].compared_by
    best = min(results, key=lambda r: r.scores[by]) if len(results) > 1 else None
    written = {heading: [write(result) for result in results] for heading, write in COLUMNS.items()}
    written["model"] = names
    shown = [heading for heading, texts in written.items() if any(text != DASH for text in texts)]
    cells = [
        tuple((Line(written[h][i], "best" if result is best and h == METRICS[by].heading else ""),) for h in shown)
        for i, result in enumerate(results)
    ]
    return Markup("runs", "", tuple(shown), tuple(cells))
