"""The DeepONet family in one class, composed of a mixer, a branch, perhaps a time factor, and a basis.

u(t_i, y) = φ_0(y) + Σ_j [ Σ_p B_p(h_i; IC) τ_pj(t_i) ] φ_j(t_i, y),     h = mixer(f)
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tino.errors import unknown
from tino.grids import TimeGrid
from tino.layers.mixers import DelayMixer, GlobalMixer, LateMixer, MaskedMixer
from tino.layers.mlp import mlp
from tino.models.bases import ALL, Basis, Constant, PodModes, Rows, Trunk, features_of_time
from tino.models.operator import Frame, Operator

WIDTH = 128  # of the branch and of the time factor
DELAY_WIDTH = 256  # of the delay mixer
MIXERS = ("global", "masked", "delay", "late")
BASES = ("constant", "trunk(t)", "trunk(y)", "trunk(t,y)", "pod(y)", "pod(t,y)")


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
    """z = f P: the sensors scaled to one size, projected on the POD of the training inputs or not.

    Never shifted: where nothing acts on the system, f = 0 must stay z = 0. ``left`` is the relative L2 error of the
    training inputs on that POD, what the projection loses.
    """

    matrix: Tensor
    left: Tensor

    def __init__(self, points: int, sensors: int) -> None:
        super().__init__()
        self.projects = sensors != points
        shape = (points, sensors) if self.projects else ()
        self.register_buffer("matrix", torch.ones(shape))
        self.register_buffer("left", torch.zeros(()))

    def forward(self, f: Tensor) -> Tensor:
        return f @ self.matrix if self.projects else f * self.matrix


class TimeFactor(nn.Module):
    """τ_pj(t): a network of time, (s, J', J). Its bias is a plain linear layer, so it starts time-free."""

    features: Tensor

    def __init__(self, time: TimeGrid, branch_modes: int, modes: int) -> None:
        super().__init__()
        self.shape = (branch_modes, modes)
        features = features_of_time(time.points, time)
        self.register_buffer("features", features.to(torch.get_default_dtype()), persistent=False)
        self.net = mlp([features.shape[1], WIDTH, WIDTH, branch_modes * modes])
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        nn.init.normal_(last.weight, std=0.1 * (WIDTH * branch_modes) ** -0.5)
        nn.init.normal_(last.bias, std=branch_modes**-0.5)

    def forward(self, times: Rows = ALL) -> Tensor:
        return self.at(self.features[times])

    def at(self, features: Tensor) -> Tensor:
        """τ where the network sees these features of time (s, features)."""
        return self.net(features).unflatten(-1, self.shape)


class OwnBranches(nn.Module):
    """B_j(h) = Σ_k c_kj σ(h_kj): one hidden layer for each j, without biases (eq_causality_don)."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(modes, width // modes) * (width // modes) ** -0.5)

    def forward(self, h: Tensor) -> Tensor:
        return torch.einsum("bsjk,jk->bsj", nn.functional.gelu(h).unflatten(-1, self.weight.shape), self.weight)


class Separable(Operator):
    """A member of the family, made from its spec; ``tino.build`` fills in what comes from data."""

    state_scale: Tensor

    def __init__(self, frame: Frame, spec: Spec) -> None:
        super().__init__()
        self.frame, self.spec = frame, spec
        n_t, m = frame.time.n, spec.sensors
        self.sensors = Sensors(frame.inputs.size, m)
        if spec.mixer == "delay":  # a linear convolution, then the three maps of the branch
            self.mixer = DelayMixer(n_t, m, DELAY_WIDTH, spec.first_lag)
            self.branch = mlp([DELAY_WIDTH, WIDTH, WIDTH, spec.branch_modes])
        elif spec.mixer == "late":  # kernels of its own for each j, as many in all as above
            self.mixer = LateMixer(n_t, m, DELAY_WIDTH)
            self.branch = OwnBranches(DELAY_WIDTH, spec.branch_modes)
        else:  # the mixer is the first of the three maps
            self.mixer = (GlobalMixer if spec.mixer == "global" else MaskedMixer)(n_t, m, WIDTH)
            self.branch = nn.Sequential(nn.GELU(), *mlp([WIDTH, WIDTH, spec.branch_modes]))
        width = self.mixer.weight.shape[-1]
        self.initial = nn.Linear(frame.state, width, bias=False) if frame.state else None
        if frame.state:
            self.register_buffer("state_scale", torch.ones(()))
        self.time_factor = TimeFactor(frame.time, spec.branch_modes, spec.modes) if spec.time_factor else None
        self.basis = _basis(frame, spec)

    # -- the formula ---------------------------------------------------------------------------------------

    def forward(self, f: Tensor, ic: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, k) -> u (b, t, x); with ``times`` (s,) only those times, (b, s, x).

        A causal model also takes the first part of a record, and gives the first part of its answer.
        """
        self.check_shapes(f, ic)
        rows = slice(f.shape[1]) if times is None else times
        return self.basis.expand(self.coefficients(self.sensors(f), ic, times), rows)

    def coefficients(self, z: Tensor, ic: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """The factors of φ_j from scaled sensors z (b, t, r): (b, s, J), or (b, 1, J) without time."""
        rows = slice(z.shape[1]) if times is None else times
        return self._combine(z, ic, times, None if self.time_factor is None else self.time_factor(rows))

    def _combine(self, z: Tensor, ic: Tensor | None, times: Tensor | None, tau: Tensor | None) -> Tensor:
        """Σ_p B_p(h; IC) τ_pj with the mixer read at grid times (s,) and τ (s, p, j) given."""
        h = self.mixer(z, times)  # (b, s, w)
        if self.initial is not None:
            assert ic is not None
            h = h + self.initial(ic * self.state_scale)[:, None]
        c = self.branch(h)  # (b, s, p)
        if tau is not None:
            c = torch.matmul(c.transpose(0, 1), tau).transpose(0, 1)  # (b, s, j)
        return c * self.basis.scale

    def _query(self, f: Tensor, ic: Tensor | None, t: Tensor, y: Tensor) -> Tensor:
        """Each part is read where it can be: the mixer on the grid, networks of t and y anywhere."""
        name, basis, grids = self.frame.model, self.basis, self.frame
        modes_of_time = isinstance(basis, PodModes) and basis.of_time
        seen = grids.time_index(t, name) if self.mixer.grid_only or modes_of_time else grids.last_index(t)
        tau = None
        if self.time_factor is not None:
            features = self.time_factor.features
            tau = self.time_factor.at(features_of_time(t, grids.time).to(features))
        c = self._combine(self.sensors(f), ic, seen, tau)
        if isinstance(basis, Trunk):
            return basis.combine(c, basis.features_at(t, y).to(basis.features))
        return basis.expand(c, seen)[:, :, grids.point_index(y, name)]

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
        parts = [] if self.mixer.time_invariant else [self.mixer.why]
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
            **({"state_scale": float(self.state_scale)} if self.initial is not None else {}),
            "output_scale": scale if len(scale) > 1 else scale[0],
            "sensors": {"points": self.frame.inputs.size, "used": self.spec.sensors, "lost": float(self.sensors.left)},
        }


def _basis(frame: Frame, spec: Spec) -> Basis:
    n_t, x = frame.time.n, frame.outputs.size
    if spec.basis == "constant":
        return Constant()
    if spec.basis == "trunk(t)":
        return Trunk(frame.time, frame.outputs, spec.modes, of_time=True, layers=1)
    if spec.basis.startswith("trunk"):
        return Trunk(frame.time, frame.outputs, spec.modes, of_time=spec.basis == "trunk(t,y)")
    return PodModes((n_t, x) if spec.basis == "pod(t,y)" else (x,), spec.modes)
