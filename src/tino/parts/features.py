"""The features that a network of coordinates sees."""

import torch
from torch import Tensor

from tino.grids import Grid, TimeGrid


def unit_range(points: Tensor, grid: Tensor | None = None) -> Tensor:
    """Coordinates (n, d) shifted and scaled so that the grid's, or their own, fill [-1, 1] along each axis."""
    grid = points if grid is None else grid
    low, high = grid.amin(0), grid.amax(0)
    width = torch.where(high > low, high - low, 1.0)  # points of a plane in space share a coordinate
    return 2 * (points - low) / width - 1


def coordinate_features(s: Tensor, waves: int) -> Tensor:
    """Coordinates in [-1, 1], (n, d) -> themselves and sin/cos(k π s / 2), k = 1..waves, (n, (1 + 2 waves) d)."""
    k = torch.arange(1, waves + 1, dtype=s.dtype, device=s.device)
    angle = (s[:, :, None] * k * (torch.pi / 2)).flatten(1)
    return torch.cat([s, torch.sin(angle), torch.cos(angle)], dim=1)


def features_of_time(t: Tensor, time: TimeGrid, waves: int, decays: int) -> Tensor:
    """Times (s,), on the grid or between -> the features above and exp(-2^k (s + 1)), k = 1..decays, float64.

    Waves let a network follow sharp changes; decays are the shape of a transient that starts at T_0.
    """
    s = unit_range(t.double()[:, None], time.points[:, None])
    rates = 2.0 ** torch.arange(1, decays + 1, dtype=s.dtype, device=s.device)
    return torch.cat([coordinate_features(s, waves), torch.exp(-rates * (s + 1))], dim=1)


def features_of_space(y: Tensor, grid: Grid, waves: int) -> Tensor:
    """Points (x, d) of the grid or between -> (x, features), float64; none without space."""
    return coordinate_features(unit_range(y.double(), grid.points), waves) if grid.shape else y.double()
