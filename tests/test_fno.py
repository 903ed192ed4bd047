"""The Fourier layer against full FFTs, and the FNO on every kind of grid."""

import pytest
import torch

import tino
from tino.layers.spectral import SpectralConv
from tino.models.spacetime import from_square, to_square

QUICK = tino.TrainConfig(epochs=3, batch_size=12, times=0, lr=3e-3)


def by_full_transform(layer: SpectralConv, x: torch.Tensor) -> torch.Tensor:
    """F⁻¹(R · F x) with a full FFT and a spectrum filled with zeros."""
    dims = tuple(range(2, x.ndim))
    spectrum = torch.fft.rfftn(x, dim=dims)
    places = []
    for axis, (n, kept) in enumerate(zip(layer.sizes, layer.kept, strict=True)):
        last = axis == len(layer.sizes) - 1
        half = kept // 2
        places.append(torch.arange(kept) if last else torch.cat([torch.arange(half), torch.arange(n - half, n)]))
    picked = (slice(None), slice(None), *torch.meshgrid(*places, indexing="ij"))
    result = torch.zeros_like(spectrum)
    result[picked] = torch.einsum("bi...,io...->bo...", spectrum[picked], torch.view_as_complex(layer.weight))
    return torch.fft.irfftn(result, layer.sizes, dim=dims)


@pytest.mark.parametrize(
    ("sizes", "modes", "kept"),
    [
        ((20,), (6,), (6,)),
        ((12, 10), (4, 5), (8, 5)),
        ((9, 8, 7), (3, 3, 3), (6, 6, 3)),
        ((6, 5, 4, 6), (9, 2, 2, 9), (6, 4, 4, 4)),  # clamped at the Nyquist mode
    ],
)
def test_kept_modes_alone_give_the_full_transform_s_answer(sizes, modes, kept):
    torch.manual_seed(0)
    layer = SpectralConv(3, sizes, modes).double()
    assert layer.kept == kept
    x = torch.randn(2, 3, *sizes, dtype=torch.float64)
    assert torch.allclose(layer(x), by_full_transform(layer, x), atol=1e-12)


@pytest.mark.parametrize("problem", ["duffing", "burgers-0.1", "heat-triangle", "navier-stokes-ic"])
def test_fno_learns_saves_and_predicts_the_same(problem, small_data, tmp_path):
    train, test = small_data(problem)
    model = tino.build("fno", train)
    before = tino.evaluate(model, train).mse_mean
    tino.fit(model, train, QUICK, show_progress=False)
    assert tino.evaluate(model, train).mse_mean < before
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert torch.equal(tino.predict(again, test.f, test.ic), tino.predict(model, test.f, test.ic))


def test_fno_in_four_dimensions():
    time, box = tino.TimeGrid(0, 1, 6), tino.Periodic(1.0, (4, 4, 4))
    generator = torch.Generator().manual_seed(0)
    f = torch.randn(2, 6, 64, generator=generator)
    model = tino.build("fno", tino.Dataset(f, f.cumsum(1), time, box, box))
    assert model(f).shape == (2, 6, 64)


def test_fno_is_measured_neither_causal_nor_time_invariant(small_data):
    train, test = small_data("burgers-0.1")
    answer = tino.certify(tino.build("fno", train), test)
    assert not answer.causal
    assert not answer.time_invariant
    assert answer.derived_causal is None  # measured only


def test_widths_and_modes_are_the_paper_s(small_data):
    for problem, width, modes in (
        ("duffing", 64, (16,)),
        ("burgers-0.1", 20, (12, 12)),
        ("heat-triangle", 20, (12,) * 3),
    ):
        model = tino.build("fno", small_data(problem)[0])
        record = model.record()
        assert (record["width"], tuple(record["modes"])) == (width, modes)


def test_the_triangle_is_embedded_and_read_off():
    grid = tino.Triangle(8)
    values = torch.randn(2, 3, grid.size)
    square = to_square(values, grid)
    assert square.shape == (2, 3, 8, 8)
    assert bool((square[:, :, ~grid.inside] == 0).all())
    assert torch.equal(from_square(square, grid), values)


def test_wrong_pairings_are_one_line(small_data):
    unlike, _ = small_data("fitting-space")
    with pytest.raises(tino.TinoError, match="fno needs inputs and outputs on one grid"):
        tino.build("fno", unlike)
    spatial, _ = small_data("burgers-0.1")
    with pytest.raises(tino.TinoError, match="tdnn has one output signal"):
        tino.build("tdnn", spatial)
