"""The page of a report: one self-contained HTML file with the table, the loss curves and example figures."""

import base64
import html
from pathlib import Path

import torch

from tino.errors import TinoError
from tino.evaluation import predict
from tino.files import whole_file, write_text
from tino.problems import problem
from tino.progress import progress
from tino.report.figures import Figure, example, loss_curves, png
from tino.report.tables import HEADINGS, Row, row
from tino.runs import Run
from tino.version import VERSION

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
td.best { font-weight: bold; }
img { max-width: 100%; height: auto; }
figure { margin: 1rem 0; } figcaption, .small { color: #666; font-size: .85rem; }
@media print { body { margin: 0; max-width: none; } figure { break-inside: avoid; } }
"""


def write_report(runs: list[Run], folder: Path, cache: Path | None, device: torch.device) -> Path:
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
                figures.append(_example(run, _typical(members), cache, device))
                advance()
            sections.append(_section(name, members, [(c, _keep(f, folder / f"{n}.png")) for n, c, f in figures]))
    page = _page("\n".join(sections))
    write_text(folder / "index.html", page)
    return folder / "index.html"


def write_figures(run: Run, cache: Path | None, device: torch.device) -> None:
    """The loss curve and an example, as loss.png and example.png in the run's own folder."""
    _keep(loss_curves([run]), run.folder / "loss.png")
    _keep(_example(run, _typical([run]), cache, device)[2], run.folder / "example.png")


def _typical(runs: list[Run]) -> int:
    """The test sample all models of a problem are shown on: the best one's with the median error."""
    errors = min(runs, key=lambda run: run.scores["mse_mean"]).scores["mse"]
    return sorted(range(len(errors)), key=errors.__getitem__)[len(errors) // 2]


def _example(run: Run, sample: int, cache: Path | None, device: torch.device) -> tuple[str, str, Figure]:
    _, test = run.data(cache)
    sample = min(sample, len(test) - 1)
    one = test.take(slice(sample, sample + 1))
    name = run.record["model"]
    figure = example(one, predict(run.model().to(device), one.f, one.ic), name)
    caption = f"{name} ({run.folder.name}), test sample {sample}, MSE {run.scores['mse'][sample]:.1e}."
    return f"{run.record['problem']}-{run.folder.name}", caption, figure


def _keep(figure: Figure, path: Path) -> bytes:
    data = png(figure)
    with whole_file(path) as part:
        part.write_bytes(data)
    return data


def _section(name: str, runs: list[Run], figures: list[tuple[str, bytes]]) -> str:
    chosen = problem(name)
    drawn = "\n".join(_drawn(html.escape(caption), data) for caption, data in figures)
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
{drawn}"""


def _drawn(caption: str, data: bytes) -> str:
    source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return f'<figure><img alt="{caption}" src="{source}"><figcaption>{caption}</figcaption></figure>'


def _table(rows: list[Row]) -> str:
    keys = [key for key in HEADINGS if key != "problem"]
    best = min(rows, key=lambda r: float(r.mse))
    head = "".join(f"<th>{HEADINGS[key]}</th>" for key in keys)
    lines = []
    for r in rows:
        bold = "mse" if r is best and len(rows) > 1 else ""
        cells = (f"<td{' class=best' * (key == bold)}>{getattr(r, key)}</td>" for key in keys)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _page(body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tino: report</title>
<style>{STYLE}</style>
</head>
<body>
<h1>How well do the models predict the response?</h1>
{body}
<p class="small">Made by tino {VERSION}.</p>
</body>
</html>
"""
