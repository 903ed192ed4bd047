"""Figures of the paper's kind, as PNG bytes: loss curves, and input / truth / prediction / error."""

import io
import math
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from tino.channels import INPUT, OUTPUT, Channels, split_channels
from tino.data import Dataset
from tino.grids import Grid, Point, Points, TimeGrid, Triangle
from tino.models.flow import Flow
from tino.models.registry import MODELS
from tino.preview import Preview
from tino.runs import Run
from tino.text import visible

DPI = 110
MOST_ROWS = 8  # channels drawn
LONGEST = 32  # letters of a name in a figure
ONE_SIGN = 0.01  # values whose lesser side is below this share of the greater count as of one sign
DECADES = 6  # of errors shown, at most


def png(figure: Figure, description: str | None = None) -> bytes:
    """The picture, with a description inside where one is given."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DPI, metadata={"Software": None, "Description": description})
    return data.getvalue()


def literal(text: str) -> str:
    """A name as matplotlib shows it letter by letter, without mathematics; a long one loses its middle."""
    text = visible(text)
    text = text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}…{text[1 - LONGEST // 2 :]}"
    return text.replace("$", r"\$")


def loss_curves(runs: Sequence[Run], names: Sequence[str], scaled: bool) -> Figure:
    """Training MSE by epoch, one line per run, by these names.

    ``scaled``: the loss is of several channels scaled to one size. Otherwise a dashed line shows each test MSE.
    """
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for i, (run, name) in enumerate(zip(runs, map(literal, names), strict=True)):
        if history := run.history():
            axes.semilogy(*zip(*history, strict=True), color=f"C{i}", label=f"{name}, training")
        if not scaled:
            axes.axhline(run.result.mse, color=f"C{i}", ls="--", lw=1, label=f"{name}, test")
    axes.set_xlabel("epoch")
    axes.set_ylabel("MSE, channels scaled to one size" if scaled else "MSE")
    axes.legend(handles=axes.get_lines(), framealpha=0.7, edgecolor="none", fontsize=9)
    _open_frame(axes)
    return figure


def _open_frame(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def _named(channels: Channels, grid: Grid, i: int = 0) -> str:
    """The channel's name and unit; f(t) or u(t, x) for the default channel."""
    default = channels in (INPUT, OUTPUT)
    return f"{literal(str(channels[i]))}{'' if not default else '(t)' if isinstance(grid, Point) else '(t, x)'}"


class Panel(NamedTuple):
    """A function to draw, its colours, and the numbers they stand for."""

    title: str
    values: np.ndarray  # (t, x)
    grid: Grid
    colours: str
    norm: Normalize


def _from_least(values: np.ndarray) -> tuple[str, Normalize]:
    return "viridis", Normalize(float(values.min()), float(values.max()))


def _by_sign(values: np.ndarray) -> tuple[str, Normalize]:
    """Red and blue around zero for values of both signs; other colours, from the least to the greatest, for one."""
    low, high = float(values.min()), float(values.max())
    size = max(-low, high)
    both = min(-low, high) > ONE_SIGN * size
    return ("RdBu_r", Normalize(-size, size)) if both else _from_least(values)


def _errors(kept: Preview) -> np.ndarray:
    """|u - prediction| of the sample, (t, c, x); NaN at times that do not count."""
    error = (kept.data.u - kept.prediction)[0].abs()
    error[: kept.data.burn_in] = math.nan
    return split_channels(error, len(kept.data.output_channels)).numpy()


def _error_scale(previews: Sequence[Preview], channel: int) -> tuple[float, float]:
    """From what to what errors of a channel are shown, on one logarithmic scale for all of these predictions."""
    errors = [_errors(kept)[:, channel] for kept in previews if channel < len(kept.data.output_channels)]
    errors = [e[np.isfinite(e) & (e > 0)].astype(float) for e in errors]
    errors = [e for e in errors if e.size] or [np.array([1e-16])]  # no error anywhere
    high = max(float(e.max()) for e in errors)
    low = min(float(np.quantile(e, 0.05)) for e in errors)  # errors come close to zero where their sign changes
    return min(max(low, high / 10**DECADES), high / 10), high


def draw_preview(kept: Preview, name: str, beside: Sequence[Preview] = ()) -> Figure:
    """The input, the true response, the predicted one and their absolute difference; a field's first channel.

    Errors have one scale with those of the predictions ``beside``.
    """
    data, name = kept.data, literal(name)
    scales = [_error_scale([kept, *beside], j) for j in range(min(len(data.output_channels), MOST_ROWS))]
    if isinstance(data.outputs, Point):
        return _series(kept, name, scales)
    f, grid = data.f[0, :, : data.inputs.size].numpy(), data.outputs
    u, guess = (values[0, :, : grid.size].numpy() for values in (data.u, kept.prediction))
    truth, error = _by_sign(u), LogNorm(*scales[0], clip=True)
    panels = [
        Panel(f"input\n{_named(data.input_channels, data.inputs)}", f, data.inputs, *_from_least(f)),
        Panel(f"ground truth\n{_named(data.output_channels, grid)}", u, grid, *truth),
        Panel(f"{name}\nprediction", guess, grid, *truth),
        Panel("absolute error", _errors(kept)[:, 0], grid, "magma", error),
    ]
    return _maps(panels, data.time, 4) if grid.points.shape[1] == 1 else _matrix(panels, data.time)


def box_plots(errors: dict[str, dict[str, list[float]]]) -> Figure:
    """Relative L2 errors of the test samples: a panel per problem, a box per model; {problem: {model: errors}}."""
    columns = min(3, len(errors))
    rows = -(-len(errors) // columns)
    figure = Figure(figsize=(4 * columns, 3 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, (problem, models) in zip(panels, errors.items(), strict=False):
        boxes = axes.boxplot(
            [[value for value in values if math.isfinite(value)] for values in models.values()],
            tick_labels=[literal(model) for model in models],
            patch_artist=True,
            widths=0.6,
            flierprops={"markersize": 2},
        )
        for box, model in zip(boxes["boxes"], models, strict=True):
            box.set_facecolor(_colour(model))
        for line in boxes["medians"]:
            line.set_color("black")
        axes.set_yscale("log")
        axes.set_title(literal(problem), fontsize=10)
        axes.tick_params(axis="x", rotation=50, labelsize=8)
        _open_frame(axes)
    for axes in panels[len(errors) :]:
        axes.set_visible(False)
    for axes in panels[::columns]:
        axes.set_ylabel("relative L2 error", fontsize=8)
    return figure


def _colour(model: str) -> str:
    """The paper's own models in orange, flows in blue, all others in grey."""
    if model not in MODELS:
        return "0.85"
    return "C1" if MODELS[model].own else "C0" if MODELS[model].kind is Flow else "0.85"


def draw_samples(data: Dataset) -> Figure:
    """A few pairs of a dataset: signals, maps over space and time, or fields at several times; the first channel."""
    f_name, u_name = _named(data.input_channels, data.inputs), _named(data.output_channels, data.outputs)
    panels: list[Panel] = []
    for f, u in zip(data.f[..., : data.inputs.size].numpy(), data.u[..., : data.outputs.size].numpy(), strict=True):
        panels.append(Panel(f"input\n{f_name}", f, data.inputs, *_from_least(f)))
        panels.append(Panel(f"response\n{u_name}", u, data.outputs, *_by_sign(u)))
    return _matrix(panels, data.time) if data.outputs.points.shape[1] > 1 else _maps(panels, data.time, 2)


def _series(kept: Preview, name: str, scales: Sequence[tuple[float, float]]) -> Figure:
    """Signals: a row for each input beside each output and its error."""
    data, error = kept.data, _errors(kept)[..., 0]
    inputs, outputs = data.input_channels, data.output_channels
    f = split_channels(data.f[0], len(inputs)).numpy()  # (t, c, x): a curve for each point
    u, guess, t = data.u[0].numpy(), kept.prediction[0].numpy(), data.time.points.numpy()
    rows = min(max(len(inputs), len(outputs)), MOST_ROWS)
    figure = Figure(figsize=(10, 2.8 * rows), layout="constrained")
    for j, (first, second, third) in enumerate(figure.subplots(rows, 3, squeeze=False)):
        if j < len(inputs):
            first.plot(t, f[:, j], color="0.3")
            first.set_title(f"input {_named(inputs, data.inputs, j)}")
        if j < len(outputs):
            second.plot(t, u[:, j], color="0.3", label="ground truth")
            second.plot(t, guess[:, j], "--", color="C1", label=name)
            second.set_title(f"response {_named(outputs, data.outputs, j)}")
            second.legend(handles=second.get_lines(), framealpha=0.7, edgecolor="none", fontsize=9)
            low, high = scales[j]
            third.semilogy(t, np.maximum(error[:, j], low), color="C3")
            third.set_ylim(low, 1.5 * high)
            third.set_title("absolute error")
        for axes, drawn in ((first, j < len(inputs)), (second, j < len(outputs)), (third, j < len(outputs))):
            axes.set_visible(drawn)
            axes.set_xlabel("t")
            _open_frame(axes)
    return figure


def _maps(panels: list[Panel], time: TimeGrid, columns: int) -> Figure:
    """Functions of one axis of space over time as maps, signals as curves."""
    rows = len(panels) // columns
    figure = Figure(figsize=(3 * columns + 1, 2.7 * rows), layout="constrained")
    table = figure.subplots(rows, columns, squeeze=False)
    for axes, panel in zip(table.flat, panels, strict=True):
        values, grid = panel.values, panel.grid
        axes.set_title(panel.title.replace("\n", " "), fontsize=10)
        if isinstance(grid, Point):
            axes.plot(time.points.numpy(), values[:, 0], color="0.3")
            axes.set_xlabel("t")
            _open_frame(axes)
            continue
        points = grid.points[:, 0]
        if isinstance(grid, Points):  # in the order of their places, which are not equally far apart
            order = points.argsort()
            x, t = points[order].numpy(), time.points.numpy()
            image = axes.pcolormesh(
                x, t, values[:, order.numpy()], shading="nearest", cmap=panel.colours, norm=panel.norm
            )
            axes.set_xlabel("x")
            axes.set_ylabel("t")
            _colour_bar(figure, image, [axes], panel)
            continue
        extent = (float(points.min()), float(points.max()), time.start, time.stop)
        image = axes.imshow(values, origin="lower", aspect="auto", extent=extent, cmap=panel.colours, norm=panel.norm)
        axes.set_xlabel("x")
        axes.set_ylabel("t")
        _colour_bar(figure, image, [axes], panel)
    return figure


def _matrix(rows: list[Panel], time: TimeGrid) -> Figure:
    """Fields over time: a row for each function, a column for each of some times; one colour scale per row."""
    even = [count for count in (6, 5, 7, 4, 8) if (time.n - 1) % (count - 1) == 0]
    steps = np.unique(np.linspace(0, time.n - 1, (even or [6])[0]).round().astype(int))
    figure = Figure(figsize=(11, 1.75 * len(rows)), layout="constrained")
    table = figure.subplots(len(rows), len(steps), squeeze=False)
    for line, panel in zip(table, rows, strict=True):
        for axes, step in zip(line, steps, strict=True):
            _field(axes, panel, step)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_aspect("equal")
        line[0].set_ylabel(panel.title, fontsize=9)
        _colour_bar(figure, ScalarMappable(panel.norm, panel.colours), list(line), panel)
    for axes, t in zip(table[0], time.points[torch.from_numpy(steps)].tolist(), strict=True):
        axes.set_title(f"t = {t:.2f}", fontsize=9)
    return figure


def _colour_bar(figure: Figure, image: ScalarMappable, axes: list[Axes], panel: Panel) -> None:
    """With a pointed end where values lie beyond it."""
    below, above = bool((panel.values < panel.norm.vmin).any()), bool((panel.values > panel.norm.vmax).any())
    ends = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    bar = figure.colorbar(image, ax=axes, shrink=0.8 if len(axes) > 1 else 1.0, extend=ends[below, above])
    if isinstance(panel.norm, LogNorm):
        bar.set_label("log scale", fontsize=9)


def _field(axes: Axes, panel: Panel, step: int) -> None:
    """One time of a field: the square as an image, the middle layer of a box, the triangle as such, points as dots."""
    values, grid = panel.values[step], panel.grid
    if isinstance(grid, Triangle):
        triangles, index = _whole(grid)
        axes.plot([0, 1, 0.5, 0], [0, 0, np.sqrt(3) / 2, 0], color="0.5", lw=0.6)
        axes.spines[:].set_visible(False)
        axes.tripcolor(triangles, values[index], shading="gouraud", cmap=panel.colours, norm=panel.norm)
        return
    if isinstance(grid, Points):
        x, y = grid.points[:, 0].numpy(), grid.points[:, 1].numpy()
        axes.scatter(x, y, c=values, s=9, cmap=panel.colours, norm=panel.norm, linewidths=0)
        return
    square = values.reshape(grid.shape or (1, 1))  # a signal acts everywhere alike
    square = square if square.ndim == 2 else square[..., square.shape[-1] // 2]
    axes.imshow(square.T, origin="lower", cmap=panel.colours, norm=panel.norm)


def _whole(grid: Triangle) -> tuple[Triangulation, np.ndarray]:
    """The whole triangle, and the index of each corner's value.

    The grid's points do not reach the two steep sides and the tip, so points there take the value of the nearest one.
    """
    points, along = grid.points.numpy(), np.linspace(0, 1, grid.n)[1:, None]
    rise = np.array([0.5, np.sqrt(3) / 2])
    sides = np.concatenate([along * rise, [1, 0] + along[:-1] * (rise - [1, 0])])
    nearest = np.linalg.norm(sides[:, None] - points, axis=2).argmin(1)
    x, y = np.concatenate([points, sides]).T
    return Triangulation(x, y), np.concatenate([np.arange(len(points)), nearest])
