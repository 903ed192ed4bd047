"""The Fourier layer against full FFTs, and the FNO's sizes."""

from typing import Any

import pytest
import torch

import tino
from tino.parts.spectral import PointLinear, SpectralConv


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
    result[picked] = torch.einsum("bi...,io...->bo...", spectrum[picked], layer.complex_weight())
    return torch.fft.irfftn(result, layer.sizes, dim=dims)


@pytest.mark.parametrize(
    ("sizes", "modes", "kept"),
    [
        ((20,), (6,), (6,)),
        ((12, 10), (4, 5), (8, 5)),
        ((9, 8, 7), (3, 3, 3), (6, 6, 3)),
        ((6, 5, 4, 6), (9, 2, 2, 9), (6, 4, 4, 4)),  # clamped at the Nyquist mode
        ((9, 4, 6), (2, 9, 9), (4, 4, 4)),
        ((8, 4, 6), (9, 9, 9), (8, 4, 4)),
        ((12,), (9,), (7,)),
    ],
)
def test_kept_modes_alone_give_the_full_transform_s_answer(sizes, modes, kept):
    torch.manual_seed(0)
    layer = SpectralConv(3, sizes, modes).double()
    assert layer.kept == kept
    x = torch.randn(2, 3, *sizes, dtype=torch.float64)
    expected = by_full_transform(layer, x)
    for joined in (False, True):  # the last two axes, as on a GPU
        assert torch.allclose(layer._apply_modes(x, joined), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sizes", [(7,), (4, 6), (2, 3, 4)])
def test_the_linear_map_at_each_point(sizes):
    torch.manual_seed(0)
    layer = PointLinear(3, 5).double()
    v = torch.randn(2, 3, *sizes, dtype=torch.float64)
    by_points = torch.nn.functional.linear(v.movedim(1, -1), layer.weight, layer.bias).movedim(-1, 1)
    assert torch.allclose(layer(v), by_points, rtol=0, atol=1e-14)


def test_widths_and_modes_are_the_paper_s(small_data):
    for problem, width, modes in (
        ("duffing", 64, (16,)),
        ("burgers-0.1", 20, (12, 12)),
        ("heat-triangle", 20, (12,) * 3),
    ):
        model = tino.build("fno", small_data(problem)[0])
        record = model.record()
        assert (record["width"], tuple(record["modes"])) == (width, modes)


OTHER_SIZES = {"width": 6, "modes": 3, "layers": 2, "projection": 8, "padding": 4, "clock": False}


@pytest.mark.parametrize(
    ("problem", "options"),
    [("duffing", {}), ("burgers-0.1", {}), ("navier-stokes-ic", {}), ("burgers-0.1", OTHER_SIZES)],
)
def test_the_network_is_its_formula(problem, options, small_data):
    """v_{l+1} = σ(W_l v_l + c_l + F⁻¹(R_l · F v_l)) on the channels (f, ic, t, x), written out with full FFTs."""
    train, test = small_data(problem)
    model: Any = tino.build("fno", train, **options).double().eval()
    layers, padding, clock = options.get("layers", 4), options.get("padding", 9), options.get("clock", True)
    f, ic = test.f[:2].double(), None if test.ic is None else test.ic[:2].double()
    shape = train.outputs.shape
    n_t, axes = train.time.n, 1 + len(shape)
    channels = [(f / model.border.scale_in).view(2, n_t, *shape)]
    if ic is not None:
        channels.append((ic / model.border.scale_out).view(2, 1, *shape).expand(2, n_t, *shape))
    for axis, n in list(enumerate((n_t, *shape)))[0 if clock else 1 :]:
        line = torch.linspace(-1, 1, n, dtype=torch.float64)
        channels.append(line.view([-1 if i == axis else 1 for i in range(axes)]).expand(2, n_t, *shape))
    v = torch.stack(channels, -1) @ model.lift.weight.T + model.lift.bias  # (b, t, ..., c)
    v = torch.cat([v, torch.zeros_like(v[:, :1]).repeat(1, padding, *[1] * axes)], dim=1)
    assert len(model.spectral) == layers
    for i in range(layers):
        spectral, local = model.spectral[i], model.local[i]
        v = by_full_transform(spectral, v.movedim(-1, 1)).movedim(1, -1) + v @ local.weight.T + local.bias
        v = torch.nn.functional.gelu(v) if i < layers - 1 else v
    v = torch.nn.functional.gelu(v[:, :n_t] @ model.project[0].weight.T + model.project[0].bias)
    u = (v @ model.project[2].weight.T + model.project[2].bias)[..., 0] * model.border.scale_out
    with torch.no_grad():
        assert torch.allclose(model(f, ic), u.reshape(2, n_t, -1), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("sizes", "modes"), [((8, 4, 6), (9, 9, 9)), ((12, 10), (2, 2))])
def test_half_precision_goes_through(sizes, modes):
    layer = SpectralConv(3, sizes, modes)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(2, 3, *sizes).bfloat16()).dtype == torch.float32
