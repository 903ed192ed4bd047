"""Bases: how coefficients c (b, s, J) become a field u (b, s, x), at all times or at chosen ones.

``scale`` is the size of each coefficient, so that the network in front of it works with numbers of order one. The fixed
bases are orthonormal: the squared error of a field is that of its coefficients (``project``) plus a constant.
"""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from tino.frame import Frame
from tino.grids import Grid, TimeGrid
from tino.parts.features import features_of_space, features_of_time
from tino.parts.networks import mlp
from tino.parts.part import FromGrid, Part
from tino.pod import Pod
from tino.properties import POINTWISE, Properties

Rows = Tensor | slice  # which times of the grid: indices, or a slice
ALL = slice(None)
OF_TIME = Properties(True, False, False, ("its basis depends on t",))


class Basis(Part):
    """φ_j for J modes; ``of_time``: the functions depend on t; ``learned``: they are trained with the rest."""

    of_time = False
    learned = False
    scale: Tensor

    @abstractmethod
    def expand(self, c: Tensor, times: Rows = ALL) -> Tensor:
        """c (b, s, J) at these times of the grid -> u (b, s, x)."""

    def project(self, u: Tensor) -> Tensor:
        """The best coefficients of fields u (b, t, x)."""
        return u

    def fit(self, u: Tensor, pod: Pod | None) -> None:
        """Set the scale from fields u (n, t, x), and the modes from their POD if the basis has one."""
        self.scale.copy_(u.double().square().mean().sqrt())

    def at(self, c: Tensor, frame: Frame, t: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        """u at times t (s,) and points y (q, d): (b, s, q); ``seen`` are the last grid times up to t."""
        return self.expand(c, seen)[:, :, frame.point_index(y)]


class Constant(Basis):
    """u_j(t) = c_j(t): the basis of time-only outputs, the constant 1 for each of them."""

    kind = "constant"

    def __init__(self, modes: int) -> None:
        super().__init__(modes=modes)
        self.register_buffer("scale", torch.ones(()))

    def expand(self, c: Tensor, times: Rows = ALL) -> Tensor:
        return c


class Trunk(FromGrid, Basis):
    """φ_j = NN_trunk(y) or NN_trunk(t, y), learned with the rest: ``layers`` linear maps.

    A single one keeps its activation, φ_j = σ(ω_j · t + ζ_j). Each of several channels has its own functions.
    """

    kind = "trunk"
    learned = True
    features: Tensor

    def __init__(
        self,
        time: TimeGrid,
        outputs: Grid,
        *,
        modes: int,
        channels: int,
        of_time: bool,
        width: int,
        layers: int,
        waves: int,
        decays: int,
    ) -> None:
        sizes = {"width": width, "layers": layers, "waves": waves, "decays": decays}
        super().__init__(modes=modes, channels=channels, of_time=of_time, **sizes)
        self.time, self.outputs, self.of_time = time, outputs, of_time
        self.properties = OF_TIME if of_time else POINTWISE
        self.register_computed()
        self.register_buffer("scale", torch.ones(()))
        net = mlp([self.features.shape[-1], *[width] * (layers - 1), channels * modes])
        self.net = net if layers > 1 else nn.Sequential(*net, nn.GELU())

    def computed(self) -> dict[str, Tensor]:
        return {"features": self.features_at(self.time.points, self.outputs.points)}

    def features_at(self, t: Tensor, y: Tensor) -> Tensor:
        """What the network sees at times (s,) and points (x, d): (x, features), or (s, x, features) with time."""
        waves, decays = self.sizes["waves"], self.sizes["decays"]
        features = features_of_space(y, self.outputs, waves)
        if not self.of_time:
            return features
        times = features_of_time(t, self.time, waves, decays)
        return torch.cat(
            [times[:, None].expand(-1, len(features), -1), features[None].expand(len(times), -1, -1)], dim=-1
        )

    def expand(self, c: Tensor, times: Rows = ALL) -> Tensor:
        return self.combine(c, self.features[times] if self.of_time else self.features)

    def at(self, c: Tensor, frame: Frame, t: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        return self.combine(c, self.features_at(t, y).to(self.features))

    def combine(self, c: Tensor, features: Tensor) -> Tensor:
        """Σ_j c_j φ_j where the network sees these features: (b, s, J) -> (b, s, x)."""
        phi = self.net(features)  # (x, channels J) or (s, x, channels J)
        phi = phi.unflatten(-1, (self.sizes["channels"], -1)).movedim(-2, -3).flatten(-3, -2)  # (..., channels x, J)
        if not self.of_time:
            return c @ phi.T
        if c.shape[1] == 1:  # the same coefficients at all times: one product
            s, x, _ = phi.shape
            return (c[:, 0] @ phi.flatten(0, 1).T).view(-1, s, x)
        return torch.einsum("bsj,sxj->bsx", c, phi)

    def fit(self, u: Tensor, pod: Pod | None) -> None:
        self.scale.copy_(u.double().square().mean().sqrt() * self.sizes["modes"] ** -0.5)


class PodModes(Basis):
    """φ_0 and φ_j from a POD of the training outputs, of y, (x,), or of (t, y), (t, x)."""

    kind = "pod"
    mean: Tensor
    modes: Tensor

    def __init__(self, shape: tuple[int, ...], modes: int) -> None:
        super().__init__(shape=list(shape), modes=modes)
        self.of_time = len(shape) == 2
        self.properties = OF_TIME if self.of_time else POINTWISE
        self.register_buffer("mean", torch.zeros(*shape))
        self.register_buffer("modes", torch.zeros(modes, *shape))
        self.register_buffer("scale", torch.ones(modes))

    def fit(self, u: Tensor, pod: Pod | None) -> None:
        assert pod is not None
        self.mean.copy_(pod.mean.view_as(self.mean))
        self.modes.copy_(pod.modes.view_as(self.modes))
        self.scale.copy_(self.project(u.float()).square().mean((0, 1)).sqrt())

    def expand(self, c: Tensor, times: Rows = ALL) -> Tensor:
        if not self.of_time:
            return self.mean + c @ self.modes
        mean = self.mean[times]
        return torch.addmm(mean.flatten(), c[:, 0], self.modes[:, times].flatten(1)).view(-1, *mean.shape)

    def project(self, u: Tensor) -> Tensor:
        """(b, t, J), or (b, 1, J) for modes of (t, y)."""
        if not self.of_time:
            return (u - self.mean) @ self.modes.T
        return ((u - self.mean).flatten(1) @ self.modes.flatten(1).T)[:, None]
