"""Figures of the paper's kind, as PNG bytes: loss curves, and input / truth / prediction / error."""

import io
import math

import matplotlib

matplotlib.use("Agg")

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from tino.channels import INPUT, OUTPUT, Channels, split_channels
from tino.data import Dataset
from tino.grids import Grid, Point, TimeGrid, Triangle
from tino.models.registry import MODELS
from tino.preview import Preview
from tino.runs import Run

DPI = 110
MOST_ROWS = 8  # channels drawn


def png(figure: Figure, description: str | None = None) -> bytes:
    """The picture, with a description inside where one is given."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DPI, metadata={"Software": None, "Description": description})
    return data.getvalue()


def loss_curves(runs: list[Run], scaled: bool) -> Figure:
    """Training MSE by epoch, one line per run.

    ``scaled``: the loss is of several channels scaled to one size. Otherwise a dashed line shows each test MSE.
    """
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for i, run in enumerate(runs):
        if history := run.history():
            axes.semilogy(*zip(*history, strict=True), color=f"C{i}", label=f"{run.result.model}, training")
        if not scaled:
            axes.axhline(run.result.mse, color=f"C{i}", ls="--", lw=1, label=f"{run.result.model}, test")
    axes.set_xlabel("epoch")
    axes.set_ylabel("MSE, channels scaled to one size" if scaled else "MSE")
    axes.legend(frameon=False, fontsize=8)
    _open_frame(axes)
    return figure


def _open_frame(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def _named(channels: Channels, grid: Grid, i: int = 0) -> str:
    """The channel's name and unit; f(t) or u(t, x) for the default channel."""
    default = channels in (INPUT, OUTPUT)
    return f"{channels[i]}{'' if not default else '(t)' if isinstance(grid, Point) else '(t, x)'}"


Panel = tuple[str, np.ndarray, Grid, str, dict[str, float]]  # title, values (t, x), grid, colours, limits


def draw_preview(kept: Preview, name: str) -> Figure:
    """The input, the true response, the predicted one and their absolute difference; a field's first channel."""
    data = kept.data
    if isinstance(data.outputs, Point):
        return _series(data, kept.prediction, name)
    f, grid = data.f[0, :, : data.inputs.size].numpy(), data.outputs
    u, guess = (values[0, :, : grid.size].numpy() for values in (data.u, kept.prediction))
    low_high = {"vmin": float(u.min()), "vmax": float(u.max())}
    panels: list[Panel] = [
        (f"input\n{_named(data.input_channels, data.inputs)}", f, data.inputs, "viridis", {}),
        (f"ground truth\n{_named(data.output_channels, grid)}", u, grid, "RdBu_r", low_high),
        (f"{name}\nprediction", guess, grid, "RdBu_r", low_high),
        ("absolute error", np.abs(u - guess), grid, "magma", {}),
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
            tick_labels=list(models),
            patch_artist=True,
            widths=0.6,
            flierprops={"markersize": 2},
        )
        for box, model in zip(boxes["boxes"], models, strict=True):
            box.set_facecolor("C1" if model in MODELS and MODELS[model].own else "0.85")
        for line in boxes["medians"]:
            line.set_color("black")
        axes.set_yscale("log")
        axes.set_title(problem, fontsize=10)
        axes.tick_params(axis="x", rotation=50, labelsize=8)
        _open_frame(axes)
    for axes in panels[len(errors) :]:
        axes.set_visible(False)
    for axes in panels[::columns]:
        axes.set_ylabel("relative L2 error", fontsize=8)
    return figure


def draw_samples(data: Dataset) -> Figure:
    """A few pairs of a dataset: signals, maps over space and time, or fields at several times; the first channel."""
    f_name, u_name = _named(data.input_channels, data.inputs), _named(data.output_channels, data.outputs)
    panels: list[Panel] = []
    for f, u in zip(data.f.numpy(), data.u.numpy(), strict=True):
        panels.append((f"input\n{f_name}", f[:, : data.inputs.size], data.inputs, "viridis", {}))
        panels.append((f"response\n{u_name}", u[:, : data.outputs.size], data.outputs, "RdBu_r", {}))
    return _matrix(panels, data.time) if data.outputs.points.shape[1] > 1 else _maps(panels, data.time, 2)


def _series(data: Dataset, prediction: torch.Tensor, name: str) -> Figure:
    """Signals: a row for each input beside each output and its error."""
    inputs, outputs = data.input_channels, data.output_channels
    f = split_channels(data.f[0], len(inputs)).numpy()  # (t, c, x): a curve for each point
    u, guess, t = data.u[0].numpy(), prediction[0].numpy(), data.time.points.numpy()
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
            second.legend(frameon=False, fontsize=8)
            third.semilogy(t, np.abs(u[:, j] - guess[:, j]) + 1e-16, color="C3")
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
    for axes, (title, values, grid, colours, limits) in zip(table.flat, panels, strict=True):
        axes.set_title(title.replace("\n", " "), fontsize=10)
        if isinstance(grid, Point):
            axes.plot(time.points.numpy(), values[:, 0], color="0.3")
            axes.set_xlabel("t")
            _open_frame(axes)
            continue
        points = grid.points[:, 0]
        extent = (float(points.min()), float(points.max()), time.start, time.stop)
        image = axes.imshow(values, origin="lower", aspect="auto", extent=extent, cmap=colours, **limits)
        axes.set_xlabel("x")
        axes.set_ylabel("t")
        figure.colorbar(image, ax=axes)
    return figure


def _matrix(rows: list[Panel], time: TimeGrid) -> Figure:
    """Fields over time: a row for each function, a column for each of some times; one colour scale per row."""
    even = [count for count in (6, 5, 7, 4, 8) if (time.n - 1) % (count - 1) == 0]
    steps = np.unique(np.linspace(0, time.n - 1, (even or [6])[0]).round().astype(int))
    figure = Figure(figsize=(11, 1.75 * len(rows)), layout="constrained")
    table = figure.subplots(len(rows), len(steps), squeeze=False)
    for line, (title, values, grid, colours, limits) in zip(table, rows, strict=True):
        scale = limits or {"vmin": float(values.min()), "vmax": float(values.max())}
        image = None
        for axes, step in zip(line, steps, strict=True):
            image = _field(axes, values[step], grid, colours, scale)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_aspect("equal")
        line[0].set_ylabel(title, fontsize=9)
        figure.colorbar(image, ax=list(line), shrink=0.8)  # pyright: ignore[reportArgumentType]
    for axes, t in zip(table[0], time.points[torch.from_numpy(steps)].tolist(), strict=True):
        axes.set_title(f"t = {t:.2f}", fontsize=9)
    return figure


def _field(axes: Axes, values: np.ndarray, grid: Grid, colours: str, limits: dict[str, float]) -> ScalarMappable:
    """One field: the square as an image, the middle layer of a box, the triangle as a triangle."""
    if isinstance(grid, Triangle):
        x, y = grid.points.T.numpy()
        triangles = Triangulation(x, y)
        sides = np.stack([x, y], 1)[triangles.triangles]
        longest = np.linalg.norm(sides - np.roll(sides, 1, axis=1), axis=2).max(1)
        triangles.set_mask(longest > 2.5 / (grid.n - 1))
        axes.plot([0, 1, 0.5, 0], [0, 0, np.sqrt(3) / 2, 0], color="0.5", lw=0.6)
        axes.spines[:].set_visible(False)
        return axes.tripcolor(triangles, values, shading="gouraud", cmap=colours, **limits)  # pyright: ignore
    square = values.reshape(grid.shape or (1, 1))  # a signal acts everywhere alike
    square = square if square.ndim == 2 else square[..., square.shape[-1] // 2]
    return axes.imshow(square.T, origin="lower", cmap=colours, **limits)  # pyright: ignore
