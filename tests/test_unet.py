"""The U-Net's parts: its 4-D substitute against loops, its halving and doubling."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tino
from tino.models import unet
from tino.models.unet import GroupNorm, SpaceThenTime, _halve


def doubled(v: torch.Tensor) -> torch.Tensor:
    """Every value twice along each axis between the first and the last."""
    for axis in range(1, v.ndim - 1):
        v = v.repeat_interleave(2, dim=axis)
    return v


def random(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def assert_same_with_gradients(one: torch.Tensor, other: torch.Tensor, known: list[torch.Tensor]) -> None:
    ends = [[u, *torch.autograd.grad(u.sin().sum(), known)] for u in (one, other)]
    for here, there in zip(*ends, strict=True):
        assert torch.allclose(here, there, rtol=0, atol=1e-12 * float(here.detach().abs().max()))


@pytest.mark.parametrize("on_gpu", [False, True])
def test_space_then_time_is_one_convolution_after_the_other(on_gpu, monkeypatch):
    """Also in the forms that a GPU is faster with; the last bias is left to the norm."""
    monkeypatch.setattr(unet, "_faster_on_gpu", lambda v: on_gpu)
    torch.manual_seed(0)
    layer = SpaceThenTime(2, 3).double()
    v = torch.randn(2, 2, 5, 4, 3, 4, dtype=torch.float64)  # (b, c, t, x, y, z)
    in_space = torch.stack([layer.space(v[:, :, t]) for t in range(5)], dim=2)
    expected = torch.empty(2, 3, 5, 4, 3, 4, dtype=torch.float64)
    for i in range(4):
        for j in range(3):
            for k in range(4):
                expected[..., i, j, k] = F.conv1d(in_space[..., i, j, k], layer.time.weight[..., 0], padding=1)
    assert torch.allclose(layer(v.movedim(1, -1)), expected.movedim(1, -1), atol=1e-12)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(
    ("faster", "sizes"),
    [
        (unet._by_lines, (2, 5, 6, 4, 3)),
        (unet._ByPairs.apply, (2, 5, 6, 4, 3)),
        (unet._ByPairs.apply, (2, 5, 6, 3)),
    ],
)
def test_what_a_gpu_is_faster_with_is_the_same_with_the_same_gradients(faster, sizes, biased):
    torch.manual_seed(0)
    v, weight, bias = random(sizes, (7, 3, *[3] * (len(sizes) - 2)), (7,))
    given, known = (bias, [v, weight, bias]) if biased else (None, [v, weight])
    assert_same_with_gradients(unet._by_points(v, weight, given), faster(v, weight, given), known)


def test_pairs_of_points_over_time_are_the_same_with_the_same_gradients(monkeypatch):
    torch.manual_seed(0)
    v, weight = random((2, 5, 6, 3), (4, 3, 3, 1))
    ends = []
    for on_gpu in (False, True):
        monkeypatch.setattr(unet, "_faster_on_gpu", lambda v, on_gpu=on_gpu: on_gpu)
        ends.append(unet._over_time(v, weight))
    assert_same_with_gradients(ends[0], ends[1], [v, weight])


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("sizes", [(2, 5, 6, 4, 3), (2, 5, 6, 3)])
def test_a_transposed_convolution_is_one_of_what_was_doubled(sizes, biased):
    torch.manual_seed(0)
    v, weight, bias = random(sizes, (7, 3, *[3] * (len(sizes) - 2)), (7,))
    given, known = (bias, [v, weight, bias]) if biased else (None, [v, weight])
    expected = unet._by_points(doubled(v), weight, given)
    assert_same_with_gradients(expected, unet._double_and_convolve(v, weight, given), known)


def test_halving_takes_the_largest():
    v = torch.arange(8.0).view(1, 2, 4, 1)
    assert _halve(v).flatten().tolist() == [5.0, 7.0]
    grown = v[:, :, :, None, None] + 8 * torch.arange(4.0).view(1, 1, 1, 2, 2, 1)  # in four dimensions
    assert _halve(grown).flatten().tolist() == [29.0, 31.0]


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("shape", [(20,), (9, 12)])
def test_the_network_is_its_description(shape, on_gpu, monkeypatch):
    """Three halvings and back with skips, written out with torch's own layers, on a grid that has to be padded."""
    monkeypatch.setattr(unet, "_faster_on_gpu", lambda v: on_gpu)
    torch.manual_seed(0)
    grid, time = tino.Periodic(1.0, shape), tino.TimeGrid(0, 1, 13)
    f = torch.randn(2, 13, grid.size)
    train = tino.Dataset(f, f, time, grid, grid)
    model: Any = tino.build("unet", train).double()
    axes = len(train.outputs.shape) + 1
    conv, pool = (F.conv2d, F.max_pool2d) if axes == 2 else (F.conv3d, F.max_pool3d)

    def level(v: torch.Tensor, parts: Any) -> torch.Tensor:
        for c, norm in ((parts[0], parts[1]), (parts[3], parts[4])):
            v = F.gelu(F.group_norm(conv(v, c.weight, c.bias, padding=1), 8, norm.weight, norm.bias))
        return v

    f = f.double()
    v = model.border.encode(f, None)
    sizes = v.shape[2:]
    sides = [side for n in reversed(sizes) for side in (0, -n % 8)]
    first = level(F.pad(v, sides), model.down[0])
    second = level(pool(first, 2), model.down[1])
    third = level(pool(second, 2), model.down[2])
    v = level(pool(third, 2), model.down[3])
    for skip, parts in zip((third, second, first), model.up, strict=True):
        v = level(torch.cat([F.interpolate(v, scale_factor=2.0), skip], dim=1), parts)
    v = v[(..., *[slice(n) for n in sizes])]
    point = torch.einsum("oc,bc...->bo...", model.project.weight, v) + model.project.bias
    assert torch.allclose(model(f), model.border.decode(point[:, 0]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(2, 5, 16), (3, 4, 2, 8)])
def test_the_norm_of_channels_that_come_last_is_torch_s(shape):
    torch.manual_seed(0)
    norm = GroupNorm(4, shape[-1], eps=1e-3).double()
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    v, shift = random(shape, shape[-1:])
    moved = (v + shift).movedim(-1, 1).contiguous()
    expected = F.group_norm(moved, 4, norm.weight, norm.bias, 1e-3).movedim(1, -1)
    assert_same_with_gradients(expected, norm(v, shift), [v, shift, norm.weight, norm.bias])
    assert torch.autograd.gradcheck(norm, (v, shift))


def test_four_dimensions_double_after_space_what_others_double_before():
    """On the way up: the convolution over space sees v before it is doubled in time; the answer is the same."""
    torch.manual_seed(0)
    layer = SpaceThenTime(5, 3).double()
    v, skip = random((2, 2, 1, 2, 3, 2), (2, 4, 2, 4, 6, 3))
    expected = layer(torch.cat([doubled(v), skip], dim=-1))
    assert torch.allclose(layer(v, skip), expected, rtol=0, atol=1e-12)
