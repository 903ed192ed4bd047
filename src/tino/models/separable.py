"""The DeepONet family in one class, composed of a mixer, a branch, perhaps a time factor, and a basis.

u(t_i, y) = φ_0(y) + Σ_j [ Σ_p B_p(h_i; IC) τ_pj(t_i) ] φ_j(t_i, y),     h = mixer(f)
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tino.errors import unknown
from tino.grids import TimeGrid
from tino.layers.mixers import DelayMixer, GlobalMixer, MaskedMixer
from tino.layers.mlp import mlp, time_features
from tino.models.bases import Basis, Constant, PodModes, Trunk, unit_range
from tino.models.operator import Frame, Operator

WIDTH = 128  # of the branch and of the time factor
DELAY_WIDTH = 256  # of the delay mixer
MIXERS = ("global", "masked", "delay")
BASES = ("constant", "trunk(y)", "trunk(t,y)", "pod(y)", "pod(t,y)")


@dataclass(frozen=True)
class Spec:
    """The parts and their sizes."""

    mixer: str  # one of MIXERS
    basis: str  # one of BASES
    time_factor: bool
    sensors: int  # numbers per time that enter the mixer: points, or POD modes of the inputs
    branch_modes: int  # J'
    modes: int  # J
    first_lag: int = 0

    def __post_init__(self) -> None:
        if self.mixer not in MIXERS:
            raise unknown("mixer", self.mixer, MIXERS)
        if self.basis not in BASES:
            raise unknown("basis", self.basis, BASES)


class Sensors(nn.Module):
    """z = f P: the sensors scaled to mean square 1, projected on the POD of the training inputs or not.

    Never shifted: where nothing acts on the system, f = 0 must stay z = 0.
    """

    matrix: Tensor

    def __init__(self, points: int, sensors: int) -> None:
        super().__init__()
        self.projects = sensors != points
        shape = (points, sensors) if self.projects else ()
        self.register_buffer("matrix", torch.ones(shape))

    def forward(self, f: Tensor) -> Tensor:
        return f @ self.matrix if self.projects else f * self.matrix


class TimeFactor(nn.Module):
    """τ_pj(t): a network of time, (s, J', J). Its bias is a plain linear layer, so it starts time-free."""

    features: Tensor

    def __init__(self, time: TimeGrid, branch_modes: int, modes: int) -> None:
        super().__init__()
        self.shape = (branch_modes, modes)
        features = time_features(unit_range(time.points[:, None]))
        self.register_buffer("features", features.to(torch.get_default_dtype()), persistent=False)
        self.net = mlp([features.shape[1], WIDTH, WIDTH, branch_modes * modes])
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        nn.init.normal_(last.weight, std=0.1 * (WIDTH * branch_modes) ** -0.5)
        nn.init.normal_(last.bias, std=branch_modes**-0.5)

    def forward(self, times: Tensor | None = None) -> Tensor:
        features = self.features if times is None else self.features[times]
        return self.net(features).unflatten(-1, self.shape)


class Separable(Operator):
    """A member of the family, made from its spec; ``tino.build`` fills in what comes from data."""

    def __init__(self, frame: Frame, spec: Spec) -> None:
        super().__init__()
        self.frame, self.spec = frame, spec
        n_t, m = frame.time.n, spec.sensors
        self.sensors = Sensors(frame.inputs.size, m)
        if spec.mixer == "delay":  # a linear convolution, then the three maps of the branch
            self.mixer = DelayMixer(n_t, m, DELAY_WIDTH, spec.first_lag)
            self.branch = mlp([DELAY_WIDTH, WIDTH, WIDTH, spec.branch_modes])
        else:  # the mixer is the first of the three maps
            self.mixer = (GlobalMixer if spec.mixer == "global" else MaskedMixer)(n_t, m, WIDTH)
            self.branch = nn.Sequential(nn.GELU(), *mlp([WIDTH, WIDTH, spec.branch_modes]))
        width = self.mixer.bias.shape[0]
        self.initial = nn.Linear(frame.state, width, bias=False) if frame.state else None
        self.time_factor = TimeFactor(frame.time, spec.branch_modes, spec.modes) if spec.time_factor else None
        self.basis = _basis(frame, spec)

    # -- the formula ---------------------------------------------------------------------------------------

    def forward(self, f: Tensor, ic: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, k) -> u (b, t, x); with ``times`` (s,) only those times, (b, s, x)."""
        self.check_shapes(f, ic)
        return self.basis.expand(self.coefficients(self.sensors(f), ic, times), times)

    def coefficients(self, z: Tensor, ic: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """The factors of φ_j from scaled sensors z (b, t, r): (b, s, J), or (b, 1, J) without time."""
        h = self.mixer(z, times)  # (b, s, w)
        if self.initial is not None:
            assert ic is not None
            h = h + self.initial(ic)[:, None]
        c = self.branch(h)  # (b, s, p)
        if self.time_factor is not None:
            c = torch.matmul(c.transpose(0, 1), self.time_factor(times)).transpose(0, 1)  # (b, s, j)
        return c * self.basis.scale

    # -- what it guarantees --------------------------------------------------------------------------------

    @property
    def causal(self) -> bool:
        """Whether no time sees the future, derived from the parts: the mixer alone decides."""
        return self.mixer.causal

    @property
    def time_invariant(self) -> bool:
        """Whether a shift of the input shifts the output and changes nothing else, derived from the parts."""
        return not self.time_dependence()

    def time_dependence(self) -> list[str]:
        """The parts that know what time it is; empty for a time-invariant model."""
        parts = []
        if not self.mixer.causal:
            parts.append("its mixer sees the future")
        elif not self.mixer.time_invariant:
            parts.append("its mixer has weights for each absolute time")
        if self.time_factor is not None:
            parts.append("its time factor depends on t")
        if self.basis.of_time:
            parts.append("its basis depends on t")
        return parts

    def record(self) -> dict[str, Any]:
        return {"family": "separable", **self.frame.record(), **asdict(self.spec)}

    def normalisation(self) -> dict[str, Any]:
        scale, inputs = self.basis.scale.flatten().tolist(), self.sensors.matrix
        return {
            "inputs": "f is scaled, never shifted: physical zero stays zero",
            "input_scale": float(torch.linalg.vector_norm(inputs, dim=0).mean() if inputs.ndim else inputs),
            "output_scale": scale if len(scale) > 1 else scale[0],
        }


def _basis(frame: Frame, spec: Spec) -> Basis:
    n_t, x = frame.time.n, frame.outputs.size
    if spec.basis == "constant":
        return Constant()
    if spec.basis.startswith("trunk"):
        return Trunk(frame.time, frame.outputs, spec.modes, of_time=spec.basis == "trunk(t,y)")
    return PodModes((n_t, x) if spec.basis == "pod(t,y)" else (x,), spec.modes)
