"""The U-Net's parts: its 4-D substitute against loops, its halving and doubling."""

import torch

from tino.models.unet import SpaceThenTime, _double, _halve


def test_space_then_time_is_one_convolution_after_the_other():
    torch.manual_seed(0)
    layer = SpaceThenTime(2, 3).double()
    v = torch.randn(2, 2, 5, 4, 3, 4, dtype=torch.float64)
    in_space = torch.stack([layer.space(v[:, :, t]) for t in range(5)], dim=2)
    expected = torch.empty(2, 3, 5, 4, 3, 4, dtype=torch.float64)
    for i in range(4):
        for j in range(3):
            for k in range(4):
                expected[..., i, j, k] = layer.time(in_space[..., i, j, k])
    assert torch.allclose(layer(v), expected, atol=1e-12)


def test_halving_takes_the_largest_and_doubling_repeats():
    v = torch.arange(8.0).view(1, 1, 2, 4)
    assert _halve(v).flatten().tolist() == [5.0, 7.0]
    assert _double(_halve(v)).flatten().tolist() == [5.0, 5.0, 7.0, 7.0] * 2
