"""The model card: one page on what a model is, what it was made from, and how far to trust it."""

import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tino.bands import band_record, read_band
from tino.devices import pick_device
from tino.errors import TinoError
from tino.exporting.usage import Usage
from tino.files import write_text
from tino.folders import CARD
from tino.frame import numbers
from tino.metrics import METRICS
from tino.operator import Operator
from tino.problems.base import one_thread
from tino.readouts.excited import Excited
from tino.readouts.readout import bands_text, read_readout
from tino.report.markup import Line, Markup, in_html, in_markdown
from tino.report.page import page
from tino.report.tables import about, how_trained, score
from tino.runs import Run
from tino.text import visible
from tino.version import VERSION

STEPS, WARM = 400, 40  # timed, and before the clock runs
WARNS = "Outside the ranges above it extrapolates; tino.predict warns when an input is far outside."
Rows = list[tuple[str, str]]
WORDS = {"causal": "causal", "autonomous": "autonomous", "at_rest": "at rest", "time_invariant": "time-invariant"}
BEHIND = {"causal": "leak", "autonomous": "clock", "at_rest": "drift", "time_invariant": "defect"}


@dataclass(frozen=True)
class Card:
    """Sections of labelled lines, and the lines of code that use the model."""

    title: str
    lead: str
    sections: dict[str, Rows]
    code: tuple[str, ...]
    limits: tuple[str, ...]
    language: str = "python"

    def _tables(self) -> list[Markup]:
        return [
            Markup(name, "", (name, ""), tuple(((Line(label),), (Line(text),)) for label, text in rows), 2)
            for name, rows in self.sections.items()
        ]

    def markdown(self) -> str:
        parts = [f"# {in_markdown(self.title)}", in_markdown(self.lead), *(one.markdown() for one in self._tables())]
        parts += ["## How to use it", "\n".join([f"```{self.language}", *self.code, "```"]), "## Limits"]
        parts += ["\n".join(f"- {in_markdown(limit)}" for limit in self.limits), f"Written by tino {VERSION}."]
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        tables = "\n".join(one.html() for one in self._tables())
        code = in_html_lines(self.code)
        limits = "".join(f"<li>{in_html(limit)}</li>" for limit in self.limits)
        body = f'<div class="card"><p>{in_html(self.lead)}</p>\n{tables}\n<h2>How to use it</h2>\n<pre>{code}</pre>'
        return page(self.title, f"{body}\n<h2>Limits</h2>\n<ul>{limits}</ul></div>")


def in_html_lines(lines: tuple[str, ...]) -> str:
    return "\n".join(map(in_html, lines))


def card_text(run: Run, cache: Path | None = None, exported: Usage | None = None) -> str:
    """The card as Markdown; with ``exported`` its code and limits are those of the file it travels with."""
    card = make_card(run, cache)
    if exported is not None:
        limits = (*(one for one in card.limits if one != WARNS), *exported.limits)
        card = replace(card, code=exported.code, limits=limits, language=exported.language)
    return card.markdown()


def write_card(run: Run, cache: Path | None = None) -> list[Path]:
    """card.md and card.html in the run's folder -> their paths."""
    made = make_card(run, cache)
    paths = [run.folder / name for name in CARD]
    for path, text in zip(paths, (made.markdown(), made.html()), strict=True):
        write_text(path, text)
    return paths


def make_card(run: Run, cache: Path | None = None) -> Card:
    """Everything is read from the run's folder, but the latency, which is measured now."""
    model, result = run.model(), run.result
    known, equation = about(result, run.preview())
    excited, why = _excited(run, cache)
    sections = {
        "Trained on": _data(run, model),
        "How": _how(run),
        "Errors on the test records": _scores(run, model),
        "Certificate": _certificate(run),
        "Range of validity": _range(model, excited, why),
        "Band": _band(run, model),
        "Speed": _speed(model),
    }
    lead = f"A {result.model} model of {known}: {equation}" if equation else f"A {result.model} model of {known}"
    return Card(f"{result.model} on {result.problem}", lead, sections, _code(run, model), _limits(run, model, excited))


def _excited(run: Run, cache: Path | None) -> tuple[Excited | None, str]:
    """From the read-outs, or from the training data where they can still be had; or why not."""
    try:
        if (found := read_readout(run.folder)) is not None:
            return found.excited, ""
        return Excited.of(run.data(cache)[0]), ""
    except TinoError as error:
        return None, str(error)


def _data(run: Run, model: Operator) -> Rows:
    frame, result = model.frame, run.result
    grids = [f"{side.size} points" if side.size > 1 else "" for side in (frame.inputs, frame.outputs)]
    names = [", ".join(map(str, channels)) for channels in (frame.input_channels, frame.output_channels)]
    inputs, outputs = (f"{name}, at {grid}" if grid else name for name, grid in zip(names, grids, strict=True))
    rows = [
        ("data", result.title or result.problem),
        ("source", run.config["data"]["source"]),
        ("inputs", inputs),
        ("outputs", outputs),
        ("records", f"{result.data['train']} for training, {result.data['test']} for the test"),
        ("time step", f"{frame.time.step:.6g}"),
        ("duration", f"{frame.time.n} times, from {frame.time.start:g} to {frame.time.stop:g}"),
        ("fingerprint", run.config["data"]["fingerprint"]),
    ]
    if options := run.config["data"]["options"]:
        rows.insert(2, ("options", ", ".join(f"{name}={value}" for name, value in options.items())))
    return rows


def _how(run: Run) -> Rows:
    result = run.result
    return [
        ("model", result.model),
        ("parameters", f"{result.parameters:,}"),
        ("training", how_trained([result])),
        ("seconds", f"{result.train_seconds:.3g}"),
        ("device", result.device),
        ("seed", str(result.seed)),
        ("commit", result.commit or "not known"),
        ("versions", ", ".join(f"{name} {version}" for name, version in result.versions.items() if version)),
    ]


def _scores(run: Run, model: Operator) -> Rows:
    """For each channel; RMSE and the largest error in its unit."""
    every = run.channels or {model.frame.output_channels[0].name: dict(run.result.scores)}
    rows = []
    for channel in model.frame.output_channels:
        told = []
        for key in ("rmse", "max_error", "rel_l2_mean", "fit"):
            if (value := every[channel.name].get(key)) is None:
                continue
            unit = f" {channel.unit}" if METRICS[key].unit and channel.unit else ""
            told.append(f"{METRICS[key].heading} {score(key, value)}{unit}")
        rows.append((channel.name, ", ".join(told)))
    return rows


def _certificate(run: Run) -> Rows:
    """What is proved by construction, and what only measured."""
    found, rows = run.certificate, []
    for word, number in BEHIND.items():
        if (measured := found.get(word)) is None:
            continue
        behind = f"{number} {found.get(number) or 0.0:.1e}"
        proved = found.get("declared", {}).get(word)
        how = "proved by construction, and measured" if proved and measured else "measured"
        rows.append((WORDS[word], f"{'yes' if measured else 'no'}: {how}, {behind}"))
    return [*rows, *(("note", str(note)) for note in found.get("notes", ()))]


def _range(model: Operator, excited: Excited | None, why: str) -> Rows:
    frame, seen, rows = model.frame, model.frame.seen, []
    for channel, (low, high) in zip(frame.input_channels, seen.inputs, strict=False):
        rows.append((f"range of {channel.name}", f"{low:.4g} to {high:.4g} {channel.unit}".strip()))
    for i, channel in enumerate(frame.input_channels):
        told = f"not known: {why}" if excited is None else bands_text(excited, i)
        rows.append((f"excited band of {channel.name}", told))
    for channel, offset in zip(frame.output_channels, seen.output_offset, strict=False):
        rows.append((f"offset of {channel.name}", f"{offset:.6g} {channel.unit}".strip()))
    longest = "records of any length" if model.longest is None else f"records of {model.longest} times at most"
    return [*rows, ("length", longest if model.properties.causal else f"records of {frame.time.n} times")]


def _band(run: Run, model: Operator) -> Rows:
    if (found := read_band(run.folder, model)) is None:
        return [("band", "not calibrated: 'tino calibrate' makes one")]
    said = (band_record(run.folder) or {}).get("about", {})
    wide = zip(model.frame.output_channels, found.width, strict=True)
    rows = [(f"± of {channel.name}", f"{width:.4g} {channel.unit}".strip()) for channel, width in wide]
    rows.append(("promise", f"it {found.about}"))
    return [*rows, *((key, str(said[key])) for key in ("calibration", "coverage") if key in said)]


def _speed(model: Operator) -> Rows:
    if not model.properties.causal:
        return [("one record in torch", latency_text(_whole_seconds(model)))]
    return [("one step in torch", latency_text(step_seconds(model)))]


def latency_text(seconds: list[float]) -> str:
    """Median and 99 % of times measured on one core of this machine."""
    worst = statistics.quantiles(seconds, n=100, method="inclusive")[98]
    return f"{1e6 * statistics.median(seconds):.0f} µs median, {1e6 * worst:.0f} µs at 99 %, on one core"


def step_seconds(model: Operator, steps: int = STEPS) -> list[float]:
    """The time of each of so many steps of one record, on one core."""
    at = numbers(model.to(pick_device("cpu")))
    f_0 = torch.zeros(1, model.frame.input_size).to(at)
    ic = torch.zeros(1, model.frame.state).to(at) if model.frame.state else None
    found = []
    with torch.no_grad(), one_thread():
        state = model.start(f_0, ic)[0]
        for _ in range(WARM):
            model.step(state, f_0)
        for _ in range(steps):
            if state.i == model.longest:  # the record is full: another begins
                state = model.start(f_0, ic)[0]
            started = time.perf_counter()
            state = model.step(state, f_0)[0]
            found.append(time.perf_counter() - started)
    return found


def _whole_seconds(model: Operator, times: int = 20) -> list[float]:
    at = numbers(model.to(pick_device("cpu")))
    f = torch.zeros(1, model.frame.time.n, model.frame.input_size).to(at)
    ic = torch.zeros(1, model.frame.state).to(at) if model.frame.state else None
    found = []
    with torch.no_grad(), one_thread():
        for _ in range(times):
            started = time.perf_counter()
            model(f, ic)
            found.append(time.perf_counter() - started)
    return found


def _code(run: Run, model: Operator) -> tuple[str, ...]:
    """Load, call, stream."""
    kind, m = str(numbers(model).dtype).removeprefix("torch."), model.frame.input_size
    ic, first = (", ic", ", ic") if model.frame.state else ("", "")
    lines = [
        f"model = tino.load({visible(repr(str(run.folder)))})",
        f"u = tino.predict(model, f{ic})  # f (records, times, {m}) in the units above",
    ]
    if model.properties.causal:
        stream = f"state, u_0 = model.start(f_0{first}); state, u_1 = model.step(state, f_1)"
        lines.append(f"{stream}  # f_i (1, {m}), {kind}")
    return tuple(lines)


def _limits(run: Run, model: Operator, excited: Excited | None) -> tuple[str, ...]:
    found = [f"Inputs must be sampled at the time step {model.frame.time.step:.6g}."]
    if not model.properties.causal:
        found.append("It needs the whole input before it answers, and uses the future to explain the present.")
    elif model.longest is not None:
        found.append("Its answer depends on the time since the start of the record, so it ends with the training's.")
    found.append(WARNS)
    if excited is not None:
        found.append("At frequencies outside the excited band its response is a guess.")
    found.append("The errors are of test records drawn like the training's: other kinds of input may be worse.")
    if band_record(run.folder) is None:
        found.append("No band was calibrated: errors of a single new record are not bounded.")
    else:
        found.append("The band holds for records drawn like those of the calibration, not for other kinds of input.")
    return tuple(found)
