"""The U-Net: its 4-D substitute against loops, its halving and doubling, and the whole written out."""

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tino
from tino.models.unet import SpaceThenTime, doubled, halved


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


def in_loops(layer: SpaceThenTime, v: torch.Tensor) -> torch.Tensor:
    """A convolution over space at each time, then one over time at each point: v (b, c, t, x, y, z)."""
    in_space = torch.stack(
        [F.conv3d(v[:, :, t], layer.space.weight, layer.space.bias, padding=1) for t in range(v.shape[2])], 2
    )
    u = torch.empty_like(in_space)
    for i, j, k in product(*map(range, v.shape[3:])):
        u[..., i, j, k] = F.conv1d(in_space[..., i, j, k], layer.time.weight[..., 0], layer.time.bias, padding=1)
    return u


def test_space_then_time_is_one_convolution_after_the_other():
    torch.manual_seed(0)
    layer = SpaceThenTime(2, 3).double()
    v = random(2, 2, 5, 4, 3, 2)
    assert torch.allclose(layer(v), in_loops(layer, v), rtol=0, atol=1e-13)


def test_space_then_time_reaches_one_point_and_one_time_each_way():
    layer = SpaceThenTime(1, 1).double()
    for weight in (layer.space.weight, layer.time.weight):
        torch.nn.init.ones_(weight)
    kick = torch.zeros(1, 1, 7, 7, 7, 7, dtype=torch.float64)
    kick[0, 0, 3, 3, 3, 3] = 1.0
    reached = (layer(kick) - layer(0 * kick)).abs() > 0.5
    expected = torch.zeros_like(reached)
    expected[:, :, 2:5, 2:5, 2:5, 2:5] = True
    assert torch.equal(reached, expected)


@pytest.mark.parametrize("sizes", [(4, 6), (4, 2, 6), (4, 2, 6, 2)])
def test_halving_takes_the_largest_of_each_pair(sizes):
    torch.manual_seed(0)
    v = random(2, 3, *sizes)
    u = halved(v)
    assert u.shape == (2, 3, *[n // 2 for n in sizes])
    for place in product(*[range(n // 2) for n in sizes]):
        block = v[(..., *[slice(2 * i, 2 * i + 2) for i in place])].flatten(2)
        assert torch.equal(u[(..., *place)], block.amax(2))


@pytest.mark.parametrize("sizes", [(2, 3), (2, 1, 3), (2, 1, 3, 2)])
def test_doubling_repeats_every_value(sizes):
    torch.manual_seed(0)
    v = random(2, 3, *sizes)
    u = doubled(v)
    assert u.shape == (2, 3, *[2 * n for n in sizes])
    for place in product(*[range(2 * n) for n in sizes]):
        assert torch.equal(u[(..., *place)], v[(..., *[i // 2 for i in place])])
    assert torch.equal(halved(u), v)


def described(model: Any, f: torch.Tensor, levels: int, groups: int) -> torch.Tensor:
    """``levels`` halvings and back with skips, written out with torch's own functions."""
    v = model.border.encode(f, None)
    sizes, axes = v.shape[2:], v.ndim - 2

    def convolved(layer: Any, v: torch.Tensor) -> torch.Tensor:
        if axes == 4:
            return in_loops(layer, v)
        return (F.conv2d if axes == 2 else F.conv3d)(v, layer.weight, layer.bias, padding=1)

    def level(v: torch.Tensor, parts: Any) -> torch.Tensor:
        for layer, norm in ((parts[0], parts[1]), (parts[3], parts[4])):
            v = F.gelu(F.group_norm(convolved(layer, v), groups, norm.weight, norm.bias))
        return v

    def pooled(v: torch.Tensor) -> torch.Tensor:
        if axes < 4:
            return (F.max_pool2d if axes == 2 else F.max_pool3d)(v, 2)
        in_space = torch.stack([F.max_pool3d(v[:, :, t], 2) for t in range(v.shape[2])], 2)
        return torch.maximum(in_space[:, :, 0::2], in_space[:, :, 1::2])

    def interpolated(v: torch.Tensor) -> torch.Tensor:
        if axes < 4:
            return F.interpolate(v, scale_factor=2.0)
        return torch.stack([F.interpolate(v[:, :, t // 2], scale_factor=2.0) for t in range(2 * v.shape[2])], 2)

    v = F.pad(v, [side for n in reversed(sizes) for side in (0, -n % 2**levels)])
    skips = []
    for i in range(levels):
        skips.append(level(v, model.down[i]))
        v = pooled(skips[-1])
    v = level(v, model.down[levels])
    for i in range(levels):
        v = level(torch.cat([interpolated(v), skips[-1 - i]], dim=1), model.up[i])
    v = v[(..., *[slice(n) for n in sizes])]
    point = torch.einsum("oc,bc...->bo...", model.project.weight, v)
    return model.border.decode(point + model.project.bias.view(-1, *[1] * axes))


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((20,), {}),
        ((9, 12), {}),
        ((5,), {"features": 6, "levels": 1, "groups": 3}),
        ((7, 5), {"features": 8, "levels": 2, "groups": 4, "clock": False}),
        ((6, 4, 5), {"features": 4, "levels": 1, "groups": 2}),
    ],
)
def test_the_network_is_its_description(shape, options):
    """On grids that have to be padded, and in four dimensions."""
    torch.manual_seed(0)
    grid, time = tino.Periodic(1.0, shape), tino.TimeGrid(0, 1, 13 if len(shape) < 3 else 3)
    f = torch.randn(2, time.n, grid.size)
    model = tino.build("unet", tino.Dataset(f, f.cumsum(1), time, grid, grid), **options).double()
    expected = described(model, f.double(), options.get("levels", 3), options.get("groups", 8))
    answer = model(f.double())
    assert answer.shape == f.shape
    assert torch.allclose(answer, expected, rtol=0, atol=1e-11 * float(expected.detach().abs().max()))


@pytest.mark.parametrize(("n_t", "n"), [(8, 16), (9, 17), (2, 4), (15, 5)])
def test_axes_of_any_length_are_padded_and_cropped(n_t, n):
    """The first level sees multiples of 8, the answer has the grid's sizes."""
    grid, time = tino.Periodic(1.0, (n,)), tino.TimeGrid(0, 1, n_t)
    f = torch.randn(2, n_t, n, generator=torch.Generator().manual_seed(0))
    model: Any = tino.build("unet", tino.Dataset(f, f.cumsum(1), time, grid, grid))
    seen = []
    model.down[0].register_forward_hook(lambda module, given, answer: seen.append(given[0]))
    assert model(f).shape == (2, n_t, n)
    (v,) = seen
    assert v.shape == (2, 3, -(-n_t // 8) * 8, -(-n // 8) * 8)
    assert torch.equal(v[:, :, :n_t, :n], model.border.encode(f, None))
    assert float(v.square().sum()) == pytest.approx(float(v[:, :, :n_t, :n].square().sum()))  # zeros around it


def test_sizes_are_the_paper_s(small_data):
    """Features 32, 64, 128, 256 over three halvings, norms of 8 groups."""
    model: Any = tino.build("unet", small_data("burgers-0.1")[0])
    assert [level[0].out_channels for level in model.down] == [32, 64, 128, 256]
    assert [(level[0].in_channels, level[0].out_channels) for level in model.up] == [(384, 128), (192, 64), (96, 32)]
    assert {level[1].num_groups for level in (*model.down, *model.up)} == {8}
