"""The picture of a response to new inputs: the first record's inputs and what a model answers."""

from matplotlib.figure import Figure

from tino.channels import split_channels
from tino.grids import Point, TimeGrid
from tino.importing.response import Response
from tino.preview import Preview
from tino.report.figures import MOST_ROWS, draw_preview, draw_samples, literal


def draw_response(found: Response, name: str) -> Figure:
    """With the outputs of the file beside the answer where it has them, and the unit of its times."""
    figure = _drawn(found, name)
    if len(found.answers) > 1:
        figure.suptitle(f"the first of {len(found.answers)} records", fontsize=10)
    if unit := str(found.data.meta.get("time_unit", "")):
        for axes in figure.axes:
            for label, write in ((axes.get_xlabel(), axes.set_xlabel), (axes.get_ylabel(), axes.set_ylabel)):
                if label == "t":
                    write(f"t [{literal(unit)}]")
    return figure


def _drawn(found: Response, name: str) -> Figure:
    n = len(found.answers[0])
    data = found.data.take(slice(0, 1))
    start = float(found.times[0][0])
    time = TimeGrid(start, start + (n - 1) * data.time.step, n)
    one = type(data)(
        data.f[:, :n].float(),
        data.u[:, :n].float(),
        time,
        data.inputs,
        data.outputs,
        input_channels=data.input_channels,
        output_channels=data.output_channels,
    )
    if found.scores is not None:
        return draw_preview(Preview(one, found.answers[0][None].cpu().float(), 0), name)
    if not isinstance(data.outputs, Point) or not isinstance(data.inputs, Point):
        return draw_samples(one)
    t = time.points.numpy()
    rows = min(max(len(data.input_channels), len(data.output_channels)), MOST_ROWS)
    figure = Figure(figsize=(9, 2.6 * rows), layout="constrained")
    table = figure.subplots(rows, 2, squeeze=False)
    sides = (("input", one.f, data.input_channels, "0.3"), (name, one.u, data.output_channels, "C1"))
    for column, (word, values, channels, colour) in enumerate(sides):
        parts = split_channels(values[0], len(channels)).numpy()
        for j, axes in enumerate(table[:, column]):
            axes.set_visible(j < len(channels))
            if j < len(channels):
                axes.plot(t, parts[:, j], color=colour)
                axes.set_title(f"{literal(word)}: {literal(str(channels[j]))}", fontsize=10)
                axes.set_xlabel("t")
                axes.spines[["top", "right"]].set_visible(False)
    return figure
