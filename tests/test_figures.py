"""Pictures and the page around them: what colours stand for, what is drawn, what can be read on a phone."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import TriMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from PIL import Image

import tino
from tino.cli import run
from tino.preview import Preview
from tino.report.figures import draw_preview, draw_samples, png
from tino.report.page import drawn, file_names

TIME = tino.TimeGrid(0, 1, 6)
GRIDS = [tino.Interval(0, 1, 8), tino.Periodic(1.0, (8, 8)), tino.Periodic(1.0, (4, 4, 4)), tino.Triangle(8)]


def field(grid: Any, low: float, high: float) -> tino.Dataset:
    """Two samples of the given range."""
    u = torch.rand(2, TIME.n, grid.size, generator=torch.Generator().manual_seed(0))
    u = low + (high - low) * (u - u.min()) / (u.max() - u.min())
    return tino.Dataset(u, u, TIME, grid, grid)


def first(data: tino.Dataset, error: float = 0.0) -> Preview:
    """The first sample, predicted with errors of about this size, some of them zero."""
    data = data.take(slice(1))
    noise = torch.randn(data.u.shape, generator=torch.Generator().manual_seed(1))
    noise[:, 0] = 0.0
    return Preview(data, data.u + error * noise, 0)


def mapped(figure: Figure) -> list[Any]:
    """The pictures of a figure that show numbers as colours, without its colour bars."""
    kinds = [m for axes in figure.axes if axes.get_label() != "<colorbar>" for m in (*axes.images, *axes.collections)]
    return [m for m in kinds if m.get_array() is not None]


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.kind}-{len(grid.shape)}")
def test_red_and_blue_meet_at_zero(grid):
    data = field(grid, -1.0, 3.0)
    for figure, values in ((draw_samples(data), data.u), (draw_preview(first(data, 0.1), "don"), data.u[:1])):
        red_blue = [m.get_clim() for m in mapped(figure) if m.get_cmap().name == "RdBu_r"]
        assert red_blue
        for low, high in red_blue:
            assert low == -high
            assert high <= 3.0
        assert max(high for _, high in red_blue) == values.abs().max()


@pytest.mark.parametrize("grid", GRIDS[::3], ids=lambda grid: grid.kind)
def test_values_of_one_sign_are_not_drawn_in_red_and_blue(grid):
    for low, high in ((0.5, 1.0), (-1e-4, 1.0), (-2.0, -1.0)):
        figure = draw_samples(field(grid, low, high))
        assert not [m for m in mapped(figure) if m.get_cmap().name == "RdBu_r"]
    assert png(draw_samples(field(grid, 0.0, 0.0)))  # nothing to see, nothing to fail


@pytest.mark.parametrize("grid", GRIDS[::3], ids=lambda grid: grid.kind)
def test_errors_of_models_share_a_scale_on_which_both_can_be_seen(grid):
    data = field(grid, -1.0, 3.0)
    kept = [first(data, 1.0), first(data, 1e-3)]
    errors = [[m for m in mapped(draw_preview(one, "don", kept)) if m.get_cmap().name == "magma"] for one in kept]
    norms = [m.norm for panels in errors for m in panels]
    assert all(isinstance(norm, LogNorm) for norm in norms)
    assert len({(norm.vmin, norm.vmax) for norm in norms}) == 1
    for one in kept:
        error = (one.data.u - one.prediction).abs()
        shade = norms[0](error[error > 0].numpy())
        assert float(np.mean(shade < 0.03)) < 0.15  # black
        assert float(np.mean(shade >= 1.0)) < 0.1
    alone = next(m for m in mapped(draw_preview(kept[1], "don")) if m.get_cmap().name == "magma")
    assert alone.get_clim()[1] < norms[0].vmax / 10  # by itself, on its own scale
    bars = [axes for axes in draw_preview(kept[0], "don").axes if axes.get_label() == "<colorbar>"]
    assert [axes.get_ylabel() for axes in bars] == ["", "", "", "log scale"]
    assert png(draw_preview(first(data, 0.0), "don"))
    assert png(draw_preview(first(data, math.inf), "don"))


def test_errors_of_signals_share_an_axis_for_each_channel():
    u = torch.rand(1, TIME.n, 2)
    data = tino.Dataset(u, u, TIME, tino.Point(), tino.Point(), input_channels=(tino.Channel("a"), tino.Channel("b")),
                        output_channels=(tino.Channel("c"), tino.Channel("d")))  # fmt: skip
    kept = [Preview(data, u + torch.tensor([1.0, 1e-3]) * size * (0.5 + u), 0) for size in (1.0, 0.1)]

    def limits(one: Preview, *beside: Preview) -> list[tuple[float, float]]:
        return [
            axes.get_ylim() for axes in draw_preview(one, "don", beside).axes if axes.get_title() == "absolute error"
        ]

    one, two = limits(kept[0], kept[1]), limits(kept[1], kept[0])
    assert one == two
    assert one[0][1] > 100 * one[1][1]  # each channel by itself
    for (low, high), j in zip(one, (0, 1), strict=True):
        errors = [(each.data.u - each.prediction)[..., j].abs() for each in kept]
        assert low <= min(e.quantile(0.1) for e in errors)
        assert high >= max(e.max() for e in errors)


@pytest.mark.parametrize("n", [8, 9])
def test_the_triangle_is_drawn_to_its_corners(n):
    grid = tino.Triangle(n)
    data = field(grid, -1.0, 3.0)
    for mesh in mapped(draw_samples(data)):
        assert isinstance(mesh, TriMesh)
        corners = np.stack([np.asarray(path.vertices)[:3] for path in mesh.get_paths()])  # (triangles, 3, 2)
        a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
        area = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]).sum() / 2
        assert area == pytest.approx(math.sqrt(3) / 4)  # covered once, with nothing beside it
        for x, y in ((0, 0), (1, 0), (0.5, math.sqrt(3) / 2)):
            assert np.linalg.norm(corners.reshape(-1, 2) - (x, y), axis=1).min() < 1e-12
    (panel,) = [axes for axes in draw_samples(data).axes if axes.get_title() == "t = 0.00"]
    values = panel.collections[0].get_array()
    assert values is not None
    assert np.array_equal(values[: grid.size], data.f[0, 0].numpy())  # at its own points, the field itself
    assert set(values[grid.size :].tolist()) <= set(data.f[0, 0].tolist())


def test_names_in_a_picture_are_drawn_letter_by_letter():
    names: Any = {"input_channels": (tino.Channel(r"$\frac{x$"),), "output_channels": (tino.Channel("_u$", "$"),)}
    u = torch.rand(1, TIME.n, 1)
    data = tino.Dataset(u, u, TIME, tino.Point(), tino.Point(), **names)
    figure = draw_preview(Preview(data, u, 0), r"_m$\frac{x$")
    assert png(figure)
    assert figure.axes[0].get_title() == r"input \$\frac{x\$"  # as matplotlib writes dollars
    legend = figure.axes[1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["ground truth", r"_m\$\frac{x\$"]
    long = draw_preview(Preview(data, u, 0), "trtino (" + 20 * "long/" + "trtino-0)").axes[1]
    assert re.fullmatch(r"trtino \(.*….*trtino-0\)", legend_texts(long)[1])
    assert len(legend_texts(long)[1]) == 32


def legend_texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


@pytest.fixture(scope="module")
def page(tmp_path_factory, own_cache) -> tuple[str, str]:
    """The page of three runs, two of one model in folders of one name, and what was printed."""
    top = tmp_path_factory.mktemp("runs")
    u = np.random.default_rng(0).normal(size=(12, 20, 1))
    np.savez(top / "rig.npz", f=u, u=u, t=np.linspace(0, 1, 20))
    places = [("tino", top / "a" / "run"), ("tino", top / "b" / "run"), ("don", top / "don")]
    for seed, (model, place) in enumerate(places):
        options = ["--epochs", "1", "--device", "cpu", "--seed", str(seed // 2), "--out", str(place)]
        assert run(["train", str(top / "rig.npz"), model, *options]) == 0
    assert run(["report", *[str(place) for _, place in places], "--out", str(top / "report")]) == 0
    assert len(list((top / "report").glob("*.png"))) == 5
    return (top / "report" / "index.html").read_text(encoding="utf-8"), str(top)


def test_runs_of_one_model_can_be_told_apart_and_no_name_is_said_twice(page):
    for label in ("tino (a/run)", "tino (b/run)", "don"):
        assert f">{label}</td>" in page[0]
        assert len(re.findall(rf"<figcaption>{re.escape(label)}, test sample", page[0])) == 1
    assert "don (don)" not in page[0]


def test_the_printed_table_tells_runs_apart_in_80_columns(page, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folders = [f"{page[1]}/{end}" for end in ("a/run", "b/run", "don")]
    assert run(["report", *folders, "--out", f"{page[1]}/again"]) == 0
    shown = capsys.readouterr().out
    assert "(a/run)" in shown
    assert "(b/run)" in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines()[:-1])) <= 80


def test_a_narrow_screen_scrolls_tables_and_figures_and_says_so(page):
    text = page[0]
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert text.count("<table>") == text.count('<div class="scroll" tabindex="0"><table>')
    assert text.count("<img") == text.count('<div class="scroll" tabindex="0"><img')
    assert text.count("↔ scroll sideways") == text.count("<img") == 5
    style = text.split("<style>")[1].split("</style>")[0]
    scroll = style.split(".scroll {")[1].split("}")[0]
    assert "overflow-x: auto" in scroll
    assert (scroll.count("local"), scroll.count("no-repeat scroll")) == (
        2,
        2,
    )  # shadows, and what hides them at the ends
    assert style.count("{") == style.count("}")


def test_a_figure_shrinks_to_what_can_be_read_and_no_further(tmp_path):
    for grid in GRIDS[:2]:
        data = png(draw_preview(first(field(grid, -1.0, 1.0), 0.1), "don"))
        (tmp_path / "a.png").write_bytes(data)
        with Image.open(tmp_path / "a.png") as picture:
            least = round(0.75 * picture.width)
        assert least <= 1120  # on a wide screen nothing scrolls
        html = drawn("a", data)
        assert f'style="min-width: {least}px"' in html
        assert f"max-width: clamp(0px, ({least}px - 100%) * 9999, 100%)" in html  # the hint shows when it scrolls


def test_files_of_figures_have_plain_names_of_their_own():
    names = ["burgers-0.1", "a/b", "a|b", "../x", "A_B", "", "a_b-2", 300 * "x", "größe"]
    made = file_names(names)
    assert made[0] == "burgers-0.1"
    assert len({name.lower() for name in made}) == len(names)
    assert all(re.fullmatch(r"[\w-][\w.-]{0,60}", name) for name in made)
