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

from tino.data import Dataset
from tino.examples import Example
from tino.grids import Grid, Point, TimeGrid, Triangle
from tino.models.zoo import of_the_family
from tino.runs import Run

DPI = 110


def png(figure: Figure, description: str | None = None) -> bytes:
    """The picture, with a description inside where one is given."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DPI, metadata={"Software": None, "Description": description})
    return data.getvalue()


def loss_curves(runs: list[Run]) -> Figure:
    """Training MSE by epoch, one line a run, with each test MSE as a dashed line."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for i, run in enumerate(runs):
        epochs, losses = [e for e, _ in run.history()], [loss for _, loss in run.history()]
        axes.semilogy(epochs, losses, color=f"C{i}", label=f"{run.record['model']}, training")
        test = run.scores["mse_mean"]
        axes.axhline(test, color=f"C{i}", ls="--", lw=1, label=f"{run.record['model']}, test")
    axes.set_xlabel("epoch")
    axes.set_ylabel("MSE")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_example(kept: Example, name: str) -> Figure:
    """Its input, the true response, the predicted one and their absolute difference."""
    data = kept.data
    f, u, guess = data.f[0].numpy(), data.u[0].numpy(), kept.prediction[0].numpy()
    if isinstance(data.outputs, Point):
        return _series(data.time, f[:, 0], u[:, 0], guess[:, 0], name)
    error = "absolute error"
    low_high = {"vmin": float(u.min()), "vmax": float(u.max())}
    if data.outputs.points.shape[1] == 1:
        panels = (
            ("input f(t, x)", f, data.inputs, "viridis", {}),
            ("ground truth u(t, x)", u, data.outputs, "RdBu_r", low_high),
            (f"{name} prediction", guess, data.outputs, "RdBu_r", low_high),
            (error, np.abs(u - guess), data.outputs, "magma", {}),
        )
        figure = Figure(figsize=(12, 2.9), layout="constrained")
        for axes, panel in zip(figure.subplots(1, 4), panels, strict=True):
            _map(figure, axes, data.time, *panel)
        return figure
    rows = (
        ("input", f, data.inputs, "viridis", {}),
        ("ground truth", u, data.outputs, "RdBu_r", low_high),
        (name, guess, data.outputs, "RdBu_r", low_high),
        (error, np.abs(u - guess), data.outputs, "magma", {}),
    )
    return _matrix(rows, data.time)


def box_plots(errors: dict[str, dict[str, list[float]]]) -> Figure:
    """Relative L2 errors of the test samples: a panel a problem, a box a model; {problem: {model: errors}}."""
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
            box.set_facecolor("C1" if of_the_family(model) else "0.85")
        for line in boxes["medians"]:
            line.set_color("black")
        axes.set_yscale("log")
        axes.set_title(problem, fontsize=10)
        axes.tick_params(axis="x", rotation=50, labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(errors) :]:
        axes.set_visible(False)
    for axes in panels[::columns]:
        axes.set_ylabel("relative L2 error", fontsize=8)
    return figure


def draw_samples(data: Dataset) -> Figure:
    """A few pairs of a dataset: signals, maps over space and time, or fields at several times."""
    f_all, u_all, n = data.f.numpy(), data.u.numpy(), len(data)
    time = data.time
    if isinstance(data.outputs, Point):
        figure = Figure(figsize=(9, 2.0 * n), layout="constrained")
        for row, one_f, one_u in zip(figure.subplots(n, 2, squeeze=False), f_all, u_all, strict=True):
            for axes, values, title in zip(row, (one_f, one_u), ("input f(t)", "response u(t)"), strict=True):
                axes.plot(time.points.numpy(), values[:, 0], color="0.3")
                axes.set_title(title, fontsize=10)
                axes.spines[["top", "right"]].set_visible(False)
        return figure
    if data.outputs.points.shape[1] == 1:
        figure = Figure(figsize=(7, 2.6 * n), layout="constrained")
        for row, one_f, one_u in zip(figure.subplots(n, 2, squeeze=False), f_all, u_all, strict=True):
            _map(figure, row[0], time, "input f(t, x)", one_f, data.inputs, "viridis", {})
            _map(figure, row[1], time, "response u(t, x)", one_u, data.outputs, "RdBu_r", {})
        return figure
    rows = []
    for i, (one_f, one_u) in enumerate(zip(f_all, u_all, strict=True)):
        rows.append((f"input {i}", one_f, data.inputs, "viridis", {}))
        rows.append((f"response {i}", one_u, data.outputs, "RdBu_r", {}))
    return _matrix(tuple(rows), time)


Panel = tuple[str, np.ndarray, Grid, str, dict[str, float]]  # title, values (t, x), grid, colours, limits


def _series(time: TimeGrid, f: np.ndarray, u: np.ndarray, guess: np.ndarray, name: str) -> Figure:
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    t = time.points.numpy()
    first.plot(t, f, color="0.3")
    first.set_title("input f(t)")
    second.plot(t, u, color="0.3", label="ground truth")
    second.plot(t, guess, "--", color="C1", label=name)
    second.set_title("response u(t)")
    second.legend(frameon=False, fontsize=8)
    third.semilogy(t, np.abs(u - guess) + 1e-16, color="C3")
    third.set_title("absolute error")
    for axes in (first, second, third):
        axes.set_xlabel("t")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _map(
    figure: Figure,
    axes: Axes,
    time: TimeGrid,
    title: str,
    values: np.ndarray,
    grid: Grid,
    colours: str,
    limits: dict[str, float],
) -> None:
    """A function of one axis of space over time."""
    points = grid.points[:, 0]
    extent = (float(points.min()), float(points.max()), time.start, time.stop)
    image = axes.imshow(values, origin="lower", aspect="auto", extent=extent, cmap=colours, **limits)  # pyright: ignore
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("x")
    axes.set_ylabel("t")
    figure.colorbar(image, ax=axes)


def _matrix(rows: tuple[Panel, ...], time: TimeGrid) -> Figure:
    """Fields over time: a row for each function, a column for each of some times; one colour scale a row."""
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
    square = values.reshape(grid.shape)
    square = square if square.ndim == 2 else square[..., square.shape[-1] // 2]
    return axes.imshow(square.T, origin="lower", cmap=colours, **limits)  # pyright: ignore
