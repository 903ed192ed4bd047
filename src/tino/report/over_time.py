"""How errors grow with time: a figure for the runs on one dataset."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from tino.channels import Channels
from tino.metrics import OverTime
from tino.report.figures import MOST_ROWS, literal


def errors_over_time(found: Sequence[tuple[str, OverTime]], channels: Channels) -> Figure:
    """A panel for each channel: the RMSE of each run by name, beside the size of the signal, on a logarithmic scale."""
    shown = channels[:MOST_ROWS]
    figure = Figure(figsize=(7, 2.4 * len(shown) + 0.6), layout="constrained")
    for j, (axes, channel) in enumerate(zip(figure.subplots(len(shown), squeeze=False)[:, 0], shown, strict=True)):
        have = [(i, name, one) for i, (name, one) in enumerate(found) if channel.name in one.rmse]
        lines = [(literal(name), f"C{i}", one.t, one.rmse[channel.name]) for i, name, one in have]
        lines += [("signal, about its mean", "0.6", one.t, one.signal[channel.name]) for _, _, one in have[:1]]
        positive = False
        for label, colour, t, values in lines:
            above = np.where(values.numpy() > 0, values.numpy(), np.nan)  # zero has no place on a logarithmic scale
            positive |= bool(np.isfinite(above).any())
            axes.plot(t.numpy(), above, color=colour, lw=1.2, label=label)
        if positive:
            axes.set_yscale("log")
        axes.set_ylabel(f"RMSE of {literal(str(channel))}")
        axes.spines[["top", "right"]].set_visible(False)
        if j == 0:
            axes.legend(handles=axes.get_lines(), framealpha=0.7, edgecolor="none", fontsize=9)
        if j == len(shown) - 1:
            axes.set_xlabel("t")
    return figure
