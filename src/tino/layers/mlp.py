"""Multilayer perceptrons, and the features of a coordinate they see."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

PAIRS = 8
RATES = 8


def coordinate_features(s: Tensor) -> Tensor:
    """Coordinates in [-1, 1], (n, d) -> themselves and sin/cos(k π s / 2), k = 1..8, (n, 17 d)."""
    k = torch.arange(1, PAIRS + 1, dtype=s.dtype, device=s.device)
    angle = (s[:, :, None] * k * (torch.pi / 2)).flatten(1)
    return torch.cat([s, torch.sin(angle), torch.cos(angle)], dim=1)


def time_features(s: Tensor) -> Tensor:
    """Time in [-1, 1], (n, 1) -> the features above and decays exp(-2^k (s + 1)), k = 1..8, (n, 25).

    Waves let a network of one coordinate follow sharp changes; decays are the shape of a transient that starts at T_0.
    """
    rates = 2.0 ** torch.arange(1, RATES + 1, dtype=s.dtype, device=s.device)
    return torch.cat([coordinate_features(s), torch.exp(-rates * (s + 1))], dim=1)


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Linear maps between the given sizes with GELU between them: ``mlp([a, b, c])`` has two linear maps."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        linear = nn.Linear(fan_in, fan_out)
        nn.init.xavier_normal_(linear.weight)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.GELU()]
    return nn.Sequential(*layers[:-1])
