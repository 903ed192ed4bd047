"""Multilayer perceptrons: branches, and the time factor."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from tino.grids import TimeGrid
from tino.operator import Properties
from tino.parts.features import features_of_time
from tino.parts.part import FromGrid, Part


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Linear maps between the given sizes with GELU between them: ``mlp([a, b, c])`` has two linear maps."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        linear = nn.Linear(fan_in, fan_out)
        nn.init.xavier_normal_(linear.weight)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.GELU()]
    return nn.Sequential(*layers[:-1])


class Branch(Part):
    """B_p(h): an MLP; with ``activate`` the mixer before it counts as its first map."""

    kind = "mlp"

    def __init__(self, widths: Sequence[int], activate: bool) -> None:
        super().__init__(widths=list(widths), activate=activate)
        self.net = nn.Sequential(*[nn.GELU()] * activate, *mlp(widths))

    def forward(self, h: Tensor) -> Tensor:
        return self.net(h)


class OwnBranches(Part):
    """B_j(h) = Σ_k c_kj σ(h_kj): one hidden layer for each j, without biases (eq_causality_don)."""

    kind = "own branches"

    def __init__(self, width: int, modes: int) -> None:
        super().__init__(width=width, modes=modes)
        self.weight = nn.Parameter(torch.randn(modes, width // modes) * (width // modes) ** -0.5)

    def forward(self, h: Tensor) -> Tensor:
        return torch.einsum("bsjk,jk->bsj", nn.functional.gelu(h).unflatten(-1, self.weight.shape), self.weight)


class TimeFactor(FromGrid, Part):
    """τ_pj(t): a network of time, (s, J', J). Its bias is a plain linear layer, so it starts time-free."""

    kind = "time factor"
    properties = Properties(True, False, False, ("its time factor depends on t",))
    features: Tensor

    def __init__(self, time: TimeGrid, branch_modes: int, modes: int, width: int, waves: int, decays: int) -> None:
        super().__init__(branch_modes=branch_modes, modes=modes, width=width, waves=waves, decays=decays)
        self.time, self.shape = time, (branch_modes, modes)
        self.register_computed()
        self.net = mlp([self.features.shape[1], width, width, branch_modes * modes])
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        nn.init.normal_(last.weight, std=0.1 * (width * branch_modes) ** -0.5)
        nn.init.normal_(last.bias, std=branch_modes**-0.5)

    def computed(self) -> dict[str, Tensor]:
        return {"features": self.features_at(self.time.points)}

    def features_at(self, t: Tensor) -> Tensor:
        return features_of_time(t, self.time, self.sizes["waves"], self.sizes["decays"])

    def forward(self, times: Tensor | slice) -> Tensor:
        """τ at grid times."""
        return self.net(self.features[times]).unflatten(-1, self.shape)

    def at(self, t: Tensor) -> Tensor:
        """τ at any times (s,)."""
        return self.net(self.features_at(t).to(self.features)).unflatten(-1, self.shape)
