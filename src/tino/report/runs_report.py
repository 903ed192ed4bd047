"""The report of runs: a table, loss curves and a predicted sample for each dataset."""

from collections.abc import Sequence
from pathlib import Path

from tino.bands import band_record, read_band
from tino.errors import TinoError
from tino.files import write_text
from tino.folders import BAND, READOUT, RESPONSES
from tino.metrics import METRICS
from tino.preview import Preview
from tino.progress import progress
from tino.readouts.readout import read_readout
from tino.report.figures import Figure, draw_preview, loss_curves
from tino.report.markup import Line, Markup, in_html
from tino.report.over_time import errors_over_time
from tino.report.page import drawn, file_names, keep, page
from tino.report.readings import draw_band, draw_frequency, draw_impulse, draw_second
from tino.report.tables import COLUMNS, DASH, RACE_HEAD, about, how_trained, race_row, score
from tino.results import Result
from tino.runs import Run


def labels(runs: Sequence[Run]) -> list[str]:
    """The model's name; of several runs of one model on the same data, also the end of the folder that is its own."""
    return [_label(run, [other for other in runs if _what(other) == _what(run)]) for run in runs]


def _what(run: Run) -> tuple[str, str]:
    return run.result.problem, run.result.model


def _label(run: Run, alike: Sequence[Run]) -> str:
    if len(alike) == 1:
        return run.result.model
    own = run.folder.resolve().parts
    others = [parts for parts in (other.folder.resolve().parts for other in alike) if parts != own]
    length = next(n for n in range(1, len(own) + 1) if all(parts[-n:] != own[-n:] for parts in others))
    return f"{run.result.model} ({Path(*own[-length:])})"


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
            figures += _errors(members, names)
            advance()
            for run, name, one in zip(members, names, kept, strict=True):
                figures += [_preview(run, name, one, kept), *_responses(run, name), *_band(run, name, one)]
                advance()
            sections.append(_section(members, names, [(c, keep(f, folder / f"{next(files)}.png")) for c, f in figures]))
    write_text(folder / "index.html", page("How well do the models predict the response?", "\n".join(sections)))
    return folder / "index.html"


def write_figures(run: Run) -> None:
    """The loss curve, the errors over time and a predicted sample, as PNG files in the run's own folder."""
    (name,), kept = labels([run]), run.preview()
    if _have_losses([run]):
        keep(_losses([run], [name])[1], run.folder / "loss.png")
    for _, figure in _errors([run], [name]):
        keep(figure, run.folder / "errors.png")
    keep(_preview(run, name, kept, [kept])[1], run.folder / "example.png")


def _have_losses(runs: Sequence[Run]) -> bool:
    return any(run.history() for run in runs)


def _figure_ends(runs: Sequence[Run]) -> list[str]:
    """How the names of the figures of one dataset end, in their order."""
    found = ["loss"] * _have_losses(runs) + ["errors"] * any(run.over_time is not None for run in runs)
    for run in runs:
        name, measured = run.folder.resolve().name, {READOUT: ("impulse", "frequency", "second-order"), BAND: ("band",)}
        found += [name, *(f"{name}-{end}" for file, ends in measured.items() if run.has(file) for end in ends)]
    return found


def _losses(runs: Sequence[Run], names: Sequence[str]) -> tuple[str, Figure]:
    scaled = any(len(run.preview().data.output_channels) > 1 for run in runs)
    return f"Training loss{'' if scaled else '; dashed: test error'}.", loss_curves(runs, names, scaled)


def _errors(runs: Sequence[Run], names: Sequence[str]) -> list[tuple[str, Figure]]:
    """None if the runs are older than these numbers."""
    found = [(name, run.over_time) for run, name in zip(runs, names, strict=True) if run.over_time is not None]
    if not found:
        return []
    caption = "Error at each time, over the test records and all points."
    return [(caption, errors_over_time(found, runs[0].preview().data.output_channels))]


def _preview(run: Run, name: str, kept: Preview, beside: Sequence[Preview]) -> tuple[str, Figure]:
    by_mse = run.result.compared_by == "mse_mean"
    error = f"MSE {run.mse[kept.sample]:.1e}" if by_mse else f"relative L2 {run.result.rel_l2[kept.sample]:.1e}"
    caption = f"{name}, test sample {kept.sample}, {error}."
    return caption, draw_preview(kept, name, beside)


def _responses(run: Run, name: str) -> list[tuple[str, Figure]]:
    """The read-outs, if 'tino readout' has made them."""
    if (found := read_readout(run.folder)) is None:
        return []
    one = f"{name}, response to a small impulse about {found.impulse.at}."
    two = f"{name}, frequency response: small changes about {found.impulse.at} as a line, the best linear"
    two += " approximation by multisines as dots, with its standard deviation and coherence. Hatched: frequencies that"
    three = f"{name}, second-order kernel about {found.impulse.at}: what the product of the inputs t1 and t2"
    figures = draw_impulse(found), draw_frequency(found), draw_second(found)
    captions = one, f"{two} the training inputs did not excite.", f"{three} before adds to the answer."
    return list(zip(captions, figures, strict=True))


def _band(run: Run, name: str, kept: Preview) -> list[tuple[str, Figure]]:
    """The example with its band, if 'tino calibrate' has made one."""
    if not run.has(BAND) or (found := read_band(run.folder, run.model())) is None:
        return []
    about = (band_record(run.folder) or {}).get("about", {})
    own = " It was one of the calibration records." * (kept.sample in about.get("test_records", []))
    said = f" {about['coverage']}." if isinstance(about.get("coverage"), str) else ""
    caption = f"{name}, test sample {kept.sample} with its band, which {found.about}.{own}{said}"
    return [(caption, draw_band(kept, found.width, name, found.level))]


def write_responses(run: Run) -> None:
    """impulse.png, frequency.png and second-order.png, from the read-outs in the run's own folder."""
    _keep(run, _responses(run, labels([run])[0]), RESPONSES[:3])


def write_band(run: Run) -> None:
    """band.png, from the band in the run's own folder."""
    _keep(run, _band(run, labels([run])[0], run.preview()), RESPONSES[3:])


def _keep(run: Run, figures: list[tuple[str, Figure]], names: Sequence[str]) -> None:
    for name, (_, figure) in zip(names, figures, strict=True):
        keep(figure, run.folder / name)


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
{"".join(_race(run) for run in runs)}
{shown}"""


def _race(run: Run) -> str:
    """Which models raced, if this one is the winner, and why it won."""
    if run.race is None:
        return ""
    rows = [tuple((Line(text),) for text in race_row(one, run.race)) for one in run.race.entrants]
    won = f"How {run.race.winner} was chosen: errors on {run.race.held_out} ({run.race.diagnosis})."
    table = Markup("race", won, RACE_HEAD, tuple(rows))
    return f"{table.html()}\n<p>{in_html(run.race.reason)}</p>"


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
