"""Figures of read-outs and bands: responses of first and second order, and a prediction with its band."""

from collections.abc import Iterator

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tino.channels import Channel, split_channels
from tino.grids import Point
from tino.preview import Preview
from tino.readouts.readout import RATE, Readout
from tino.report.figures import LONGEST, MOST_ROWS, literal

MOST_PAIRS = 6  # of an input and an output, in one figure
BEYOND = 3.0  # times the highest excited frequency: so far the axis reaches
AFTER = 1.3  # times the memory: so far an impulse response is drawn


def draw_impulse(found: Readout) -> Figure:
    """h(t) of each input and output: small changes about the operating point."""
    about = found.impulse
    t, h = about.times.numpy(), about.density.numpy()
    pairs = list(_pairs(found))
    figure = Figure(figsize=(4.5 * min(2, len(pairs)) + 1, 2.8 * -(-len(pairs) // 2)), layout="constrained")
    table = figure.subplots(-(-len(pairs) // 2), min(2, len(pairs)), squeeze=False)
    for axes, (j, i, output, given) in zip(table.flat, pairs, strict=False):
        memory = float(about.memory[j, i])
        end = min(AFTER * memory, t[-1]) if memory > 0 else t[-1]
        shown = t <= max(end, t[min(8, len(t) - 1)])
        axes.plot(t[shown], h[shown, j, i], color="C0")
        axes.axhline(0.0, color="0.8", lw=0.8, zorder=0)
        if memory <= t[-1]:
            axes.axvline(memory, color="C1", ls="--", lw=1, label="memory")
            axes.legend(frameon=False, fontsize=9)
        axes.set_title(f"impulse of {_name(given)} → {_name(output)}", fontsize=10)
        axes.set_xlabel("t")
        axes.set_ylabel(_ratio(output, given, per_time=True))
        axes.spines[["top", "right"]].set_visible(False)
    for axes in table.flat[len(pairs) :]:
        axes.set_visible(False)
    return figure


def draw_frequency(found: Readout) -> Figure:
    """|H|, its phase, and the coherence: small changes as a line, multisines as dots; hatched where nothing excited."""
    measured, pairs = found.frequency, list(_pairs(found))
    figure = Figure(figsize=(4.5 * len(pairs) + 1, 6.0), layout="constrained")
    table = figure.subplots(3, len(pairs), squeeze=False, sharex="col", height_ratios=(3, 2, 1.3))
    lines = measured.frequency.numpy()
    for column, (j, i, output, given) in zip(table.T, pairs, strict=True):
        size, phase, coherence = column
        nyquist = torch.pi / found.impulse.step
        top = max((high for _, high in found.excited.bands(i)), default=0.0)
        grid = np.geomspace(lines[0] / 2, min(BEYOND * max(top, lines[-1]), nyquist), 400)
        small = found.impulse.response(torch.from_numpy(grid))[:, j, i].numpy()
        dots, deviation = measured.values[:, j, i].numpy(), measured.deviation[:, j, i].numpy()
        size.plot(grid, abs(small), color="C0", label="small changes")
        at = f"multisines, rms {measured.level[i]:.3g} {literal(given.unit)}".rstrip()
        size.errorbar(lines, abs(dots), deviation, fmt=".", color="C1", ms=5, lw=1, label=at)
        size.set_xscale("log")
        if small.any():  # an output that an input does not reach has no logarithm
            size.set_yscale("log")
            size.set_ylim(_limits(np.concatenate([abs(small), abs(dots[np.isfinite(dots)])])))
        size.set_title(f"{_name(given)} → {_name(output)}", fontsize=10)
        size.set_ylabel(f"|H|  {_ratio(output, given)}".rstrip())
        line = np.unwrap(np.angle(small))
        turned = np.angle(dots)
        turned += 2 * np.pi * np.round((np.interp(lines, grid, line) - turned) / (2 * np.pi))  # on the same turn
        phase.semilogx(grid, np.degrees(line), color="C0")
        phase.semilogx(lines, np.degrees(turned), ".", color="C1", ms=5)
        phase.set_ylabel("phase  [°]")
        coherence.semilogx(lines, measured.coherence[:, j, i].numpy(), ".", color="C1", ms=5)
        coherence.set_ylim(-0.05, 1.05)
        coherence.set_ylabel("coherence")
        coherence.set_xlabel(f"ω  [{RATE}]")
        for axes in column:
            _hatch(axes, found.excited.bands(i), grid[0], grid[-1])
            axes.spines[["top", "right"]].set_visible(False)
        size.legend(framealpha=0.7, edgecolor="none", fontsize=9)
    return figure


def draw_second(found: Readout) -> Figure:
    """h2(t1, t2) of each input with itself, per unit of time squared; white where it is zero."""
    dt, pairs = found.impulse.step, list(_pairs(found))
    figure = Figure(figsize=(4.5 * min(2, len(pairs)) + 0.5, 3.8 * -(-len(pairs) // 2)), layout="constrained")
    table = figure.subplots(-(-len(pairs) // 2), min(2, len(pairs)), squeeze=False)
    edges = dt * found.width * np.arange(len(found.second) + 1)
    for axes, (j, i, output, given) in zip(table.flat, pairs, strict=False):
        h2 = found.second[:, :, j, i].numpy() / dt**2
        most = float(abs(h2).max())
        shown = axes.pcolormesh(edges, edges, h2, cmap="RdBu_r", vmin=-most or -1.0, vmax=most or 1.0)
        axes.set_aspect("equal")
        zero = "" if most else ": none"
        axes.set_title(f"{_name(given)} × {_name(given)} → {_name(output)}{zero}", fontsize=10)
        axes.set_xlabel("t1")
        axes.set_ylabel("t2")
        unit = f"[{literal(output.unit or '1')}/({literal(given.unit or '1')} · t)²]" * bool(output.unit or given.unit)
        figure.colorbar(shown, ax=axes, label=f"h2(t1, t2)  {unit}".rstrip())
    for axes in table.flat[len(pairs) :]:
        axes.set_visible(False)
    return figure


def _hatch(axes: Axes, bands: list[tuple[float, float]], low: float, high: float) -> None:
    """Mark what lies between the excited bands, and beyond them."""
    axes.set_xlim(low, high)
    edge, word = low, "not excited in training"
    for begin, end in [*bands, (high, high)]:
        if begin > edge:
            axes.axvspan(edge, min(begin, high), fc="0.95", ec="0.7", hatch="///", lw=0, zorder=0, label=word)
            word = None  # once in a legend
        edge = max(edge, end)


def draw_band(kept: Preview, width: tuple[float, ...], name: str, level: float) -> Figure:
    """A test record with its prediction, and the error inside the band; a field at its middle point."""
    data, count = kept.data, len(kept.data.output_channels)
    u, guess = (split_channels(values[0], count).numpy() for values in (data.u, kept.prediction))  # (t, c, x)
    t, rows, point = data.time.points.numpy(), min(count, MOST_ROWS), data.outputs.size // 2
    figure = Figure(figsize=(10, 2.8 * rows), layout="constrained")
    for j, (axes, beside) in enumerate(figure.subplots(rows, 2, squeeze=False)):
        middle, name_of = guess[:, j, point], literal(str(data.output_channels[j]))
        low, high = middle - width[j], middle + width[j]
        axes.fill_between(t, low, high, color="C1", alpha=0.3, lw=0, label=f"{level:.0%} band")
        axes.plot(t, u[:, j, point], color="0.3", label="ground truth")
        axes.plot(t, middle, "--", color="C1", label=literal(name))
        axes.legend(framealpha=0.7, edgecolor="none", fontsize=9)
        beside.axhspan(-width[j], width[j], color="C1", alpha=0.3, lw=0)
        beside.plot(t, u[:, j, point] - middle, color="C3")
        place = "" if isinstance(data.outputs, Point) else ", at the point in the middle"
        for panel, title in ((axes, f"response {name_of}{place}"), (beside, "its error, and the band")):
            panel.set_title(title, fontsize=10)
            panel.set_xlabel("t")
            panel.spines[["top", "right"]].set_visible(False)
    return figure


def _pairs(found: Readout) -> Iterator[tuple[int, int, Channel, Channel]]:
    """Output and input, as many as a figure takes."""
    about = found.impulse
    every = [
        (j, i, output, given)
        for j, output in enumerate(about.output_channels)
        for i, given in enumerate(about.input_channels)
    ]
    return iter(every[:MOST_PAIRS])


def _name(channel: Channel) -> str:
    return literal(channel.name[:LONGEST])


def _ratio(output: Channel, given: Channel, per_time: bool = False) -> str:
    """The unit of an output over that of an input, in brackets; empty if neither has one."""
    if not (output.unit or given.unit):
        return "h(t)" if per_time else ""
    under = f"({given.unit or '1'} · t)" if per_time else given.unit
    unit = f"{output.unit or '1'}{f'/{under}' if under else ''}"
    return f"{'h(t)  ' if per_time else ''}[{literal(unit)}]"


def _limits(sizes: np.ndarray) -> tuple[float, float]:
    """Six decades at most."""
    high = float(sizes.max())
    return max(float(sizes.min()), 1e-6 * high) / 1.6, 1.6 * high
