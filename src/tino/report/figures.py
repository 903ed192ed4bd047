"""Figures of the paper's kind, as PNG bytes: loss curves, and input / truth / prediction / error."""

import io

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.grids import Grid, Point, TimeGrid
from tino.runs import Run

DPI = 110


def png(figure: Figure) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DPI, metadata={"Software": None})
    return data.getvalue()


def loss_curves(runs: list[Run]) -> Figure:
    """Training MSE by epoch, one line a run, with each test MSE as a dashed line."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for i, run in enumerate(runs):
        epochs, losses = zip(*run.history(), strict=True)
        axes.semilogy(epochs, losses, color=f"C{i}", label=f"{run.record['model']}, training")
        test = run.scores["mse_mean"]
        axes.axhline(test, color=f"C{i}", ls="--", lw=1, label=f"{run.record['model']}, test")
    axes.set_xlabel("epoch")
    axes.set_ylabel("MSE")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def example(data: Dataset, prediction: Tensor, name: str) -> Figure:
    """The first sample: its input, the true response, the predicted one and their absolute difference."""
    f, u, guess = data.f[0].numpy(), data.u[0].numpy(), prediction[0].numpy()
    if isinstance(data.outputs, Point):
        return _series(data.time, f[:, 0], u[:, 0], guess[:, 0], name)
    if len(data.outputs.shape) != 1:
        raise TinoError(f"there is no figure yet for outputs of shape {data.outputs.shape}")
    return _maps(data, f, u, guess, name)


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


def _maps(data: Dataset, f: np.ndarray, u: np.ndarray, guess: np.ndarray, name: str) -> Figure:
    figure = Figure(figsize=(12, 2.9), layout="constrained")
    low, high = float(u.min()), float(u.max())
    panels = (
        ("input f(t, x)", f, data.inputs, "viridis", {}),
        ("ground truth u(t, x)", u, data.outputs, "RdBu_r", {"vmin": low, "vmax": high}),
        (f"{name} prediction", guess, data.outputs, "RdBu_r", {"vmin": low, "vmax": high}),
        ("absolute error", np.abs(u - guess), data.outputs, "magma", {}),
    )
    for axes, (title, values, grid, colours, limits) in zip(figure.subplots(1, 4), panels, strict=True):
        extent = (*_ends(grid), data.time.start, data.time.stop)
        image = axes.imshow(values, origin="lower", aspect="auto", extent=extent, cmap=colours, **limits)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("x")
        axes.set_ylabel("t")
        figure.colorbar(image, ax=axes)
    return figure


def _ends(grid: Grid) -> tuple[float, float]:
    points = grid.points[:, 0]
    return float(points.min()), float(points.max())
