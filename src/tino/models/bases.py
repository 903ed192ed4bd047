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


def unit_range(points: Tensor) -> Tensor:
    """Coordinates (n, d) shifted and scaled to [-1, 1] along each axis."""
    low, high = points.amin(0), points.amax(0)
    return 2 * (points - low) / (high - low) - 1


class Constant(nn.Module):
    """u(t) = c(t): the basis of time-only outputs, the constant 1."""

    of_time = False
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def expand(self, c: Tensor, times: Tensor | None = None) -> Tensor:
        return c

    def project(self, u: Tensor) -> Tensor:
        return u


class Trunk(nn.Module):
    """φ_j = NN_trunk(y) or NN_trunk(t, y), learned with the rest: three linear maps, width 512."""

    scale: Tensor
    features: Tensor

    def __init__(self, time: TimeGrid, outputs: Grid, modes: int, of_time: bool) -> None:
        super().__init__()
        self.of_time = of_time
        features = coordinate_features(unit_range(outputs.points)) if outputs.shape else outputs.points
        if of_time:
            t = time_features(unit_range(time.points[:, None]))
            x = len(features)
            parts = [t[:, None].expand(-1, x, -1), features[None].expand(len(t), -1, -1)]
            features = torch.cat(parts, dim=-1)  # (t, x, features)
        self.register_buffer("features", features.to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("scale", torch.ones(()))
        self.net = mlp([features.shape[-1], TRUNK_WIDTH, TRUNK_WIDTH, modes])

    def functions(self, times: Tensor | None = None) -> Tensor:
        """φ: (x, J), or (s, x, J) where it depends on time."""
        return self.net(self.features if times is None or not self.of_time else self.features[times])

    def expand(self, c: Tensor, times: Tensor | None = None) -> Tensor:
        phi = self.functions(times)
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

    def expand(self, c: Tensor, times: Tensor | None = None) -> Tensor:
        if not self.of_time:
            return self.mean + c @ self.modes
        modes, mean = (self.modes, self.mean) if times is None else (self.modes[:, times], self.mean[times])
        return mean + (c[:, 0] @ modes.flatten(1)).view(-1, *mean.shape)

    def project(self, u: Tensor) -> Tensor:
        """The best coefficients of fields u (b, t, x): (b, t, J), or (b, 1, J) for modes of (t, y)."""
        if not self.of_time:
            return (u - self.mean) @ self.modes.T
        return ((u - self.mean).flatten(1) @ self.modes.flatten(1).T)[:, None]


Basis = Constant | Trunk | PodModes
