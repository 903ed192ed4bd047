"""Bases: how coefficients c (b, s, J) become a field u (b, s, x), at all times or at chosen ones.

A basis declares ``of_time``: do its functions depend on t? ``scale`` is the size of each coefficient, so that
the network in front of it works with numbers of order one. The fixed bases are orthonormal: the squared error
of a field is that of its coefficients (``project``) plus a constant.
"""

import torch
from torch import Tensor, nn

from tino.grids import Grid, TimeGrid
from tino.layers.mlp import coordinate_features, mlp, time_features
from tino.pod import Pod

TRUNK_WIDTH = 512

Rows = Tensor | slice  # which times of the grid: indices, or a stretch
ALL = slice(None)


def unit_range(points: Tensor, grid: Tensor | None = None) -> Tensor:
    """Coordinates (n, d) shifted and scaled so that the grid's, or their own, fill [-1, 1] along each axis."""
    grid = points if grid is None else grid
    low, high = grid.amin(0), grid.amax(0)
    return 2 * (points - low) / (high - low) - 1


def features_of_time(t: Tensor, time: TimeGrid) -> Tensor:
    """What a network of t sees at times (s,) of the grid or between: (s, features), float64."""
    return time_features(unit_range(t.double()[:, None], time.points[:, None]))


class Constant(nn.Module):
    """u(t) = c(t): the basis of time-only outputs, the constant 1."""

    of_time = False
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def expand(self, c: Tensor, times: Rows = ALL) -> Tensor:
        return c

    def project(self, u: Tensor) -> Tensor:
        return u


class Trunk(nn.Module):
    """φ_j = NN_trunk(y) or NN_trunk(t, y), learned with the rest: three linear maps, width 512.

    With ``layers=1`` a single one and its activation, φ_j = σ(ω_j · t + ζ_j).
    """

    scale: Tensor
    features: Tensor

    def __init__(self, time: TimeGrid, outputs: Grid, modes: int, of_time: bool, layers: int = 3) -> None:
        super().__init__()
        self.of_time, self.time, self.outputs = of_time, time, outputs
        features = self.features_at(time.points, outputs.points)
        self.register_buffer("features", features.to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("scale", torch.ones(()))
        net = mlp([features.shape[-1], *[TRUNK_WIDTH] * (layers - 1), modes])
        self.net = net if layers > 1 else nn.Sequential(*net, nn.GELU())

    def features_at(self, t: Tensor, y: Tensor) -> Tensor:
        """What the network sees at times (s,) and points (x, d): (x, features), or (s, x, features) with time."""
        grid = self.outputs.points
        features = coordinate_features(unit_range(y.double(), grid)) if self.outputs.shape else y.double()
        if not self.of_time:
            return features
        times = features_of_time(t, self.time)
        return torch.cat(
            [times[:, None].expand(-1, len(features), -1), features[None].expand(len(times), -1, -1)], dim=-1
        )

    def expand(self, c: Tensor, times: Rows = ALL) -> Tensor:
        return self.combine(c, self.features[times] if self.of_time else self.features)

    def combine(self, c: Tensor, features: Tensor) -> Tensor:
        """Σ_j c_j φ_j where the network sees these features: (b, s, J) -> (b, s, x)."""
        phi = self.net(features)  # (x, J) or (s, x, J)
        if not self.of_time:
            return c @ phi.T
        if c.shape[1] == 1:  # the same coefficients at all times: one product
            s, x, _ = phi.shape
            return (c[:, 0] @ phi.flatten(0, 1).T).view(-1, s, x)
        return torch.einsum("bsj,sxj->bsx", c, phi)


class PodModes(nn.Module):
    """φ_0 and φ_j from a POD of the training outputs, of y, (x,), or of (t, y), (t, x)."""

    scale: Tensor
    mean: Tensor
    modes: Tensor

    def __init__(self, shape: tuple[int, ...], modes: int) -> None:
        super().__init__()
        self.of_time = len(shape) == 2
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("modes", torch.zeros(modes, *shape))
        self.register_buffer("scale", torch.ones(modes))

    def fill(self, pod: Pod) -> None:
        self.mean.copy_(pod.mean.view_as(self.mean))
        self.modes.copy_(pod.modes.view_as(self.modes))

    def expand(self, c: Tensor, times: Rows = ALL) -> Tensor:
        if not self.of_time:
            return self.mean + c @ self.modes
        mean = self.mean[times]
        return torch.addmm(mean.flatten(), c[:, 0], self.modes[:, times].flatten(1)).view(-1, *mean.shape)

    def project(self, u: Tensor) -> Tensor:
        """The best coefficients of fields u (b, t, x): (b, t, J), or (b, 1, J) for modes of (t, y)."""
        if not self.of_time:
            return (u - self.mean) @ self.modes.T
        return ((u - self.mean).flatten(1) @ self.modes.flatten(1).T)[:, None]


Basis = Constant | Trunk | PodModes
