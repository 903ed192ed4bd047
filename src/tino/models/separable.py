"""The DeepONet family in one class, composed of a mixer, a branch, perhaps a time factor, and a basis.

u(t_i, y) = φ_0(y) + Σ_j [ Σ_p B_p(h_i; IC) τ_pj(t_i) ] φ_j(t_i, y),     h = mixer(f)
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.errors import TinoError, unknown
from tino.grids import Grid, TimeGrid, grid_from_record, grid_record
from tino.layers.mixers import DelayMixer, GlobalMixer, MaskedMixer
from tino.layers.mlp import mlp, time_features
from tino.models.bases import Basis, Constant, PodModes, Trunk, unit_range

WIDTH = 128  # of the branch and of the time factor
DELAY_WIDTH = 256  # of the delay mixer
MIXERS = ("global", "masked", "delay")
BASES = ("constant", "trunk(y)", "trunk(t,y)", "pod(y)", "pod(t,y)")


@dataclass(frozen=True)
class Spec:
    """All a model is made of except its numbers; kept as readable JSON beside the weights."""

    model: str
    problem: str
    mixer: str  # one of MIXERS
    basis: str  # one of BASES
    time_factor: bool
    time: TimeGrid
    inputs: Grid
    outputs: Grid
    sensors: int  # numbers per time that enter the mixer: points, or POD modes of the inputs
    branch_modes: int  # J'
    modes: int  # J
    state: int = 0  # numbers in the initial state, 0 where it is not an input
    first_lag: int = 0

    def __post_init__(self) -> None:
        if self.mixer not in MIXERS:
            raise unknown("mixer", self.mixer, MIXERS)
        if self.basis not in BASES:
            raise unknown("basis", self.basis, BASES)

    def record(self) -> dict[str, Any]:
        grids = {"inputs": grid_record(self.inputs), "outputs": grid_record(self.outputs)}
        return {**asdict(self), "time": asdict(self.time), **grids}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Spec":
        values = dict(record)
        try:
            values["time"] = TimeGrid(**values["time"])
            values["inputs"] = grid_from_record(values["inputs"])
            values["outputs"] = grid_from_record(values["outputs"])
            return Spec(**values)
        except (KeyError, TypeError) as error:
            raise TinoError(f"the record does not describe a model of this version: {error}") from error


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


class Separable(nn.Module):
    """A member of the family, made from its spec; ``tino.build`` fills in what comes from data."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.spec = spec
        n_t, m = spec.time.n, spec.sensors
        self.sensors = Sensors(spec.inputs.size, m)
        if spec.mixer == "delay":  # a linear convolution, then the three maps of the branch
            self.mixer = DelayMixer(n_t, m, DELAY_WIDTH, spec.first_lag)
            self.branch = mlp([DELAY_WIDTH, WIDTH, WIDTH, spec.branch_modes])
        else:  # the mixer is the first of the three maps
            self.mixer = (GlobalMixer if spec.mixer == "global" else MaskedMixer)(n_t, m, WIDTH)
            self.branch = nn.Sequential(nn.GELU(), *mlp([WIDTH, WIDTH, spec.branch_modes]))
        width = self.mixer.bias.shape[0]
        self.initial = nn.Linear(spec.state, width, bias=False) if spec.state else None
        self.time_factor = TimeFactor(spec.time, spec.branch_modes, spec.modes) if spec.time_factor else None
        self.basis = _basis(spec)

    # -- the formula ---------------------------------------------------------------------------------------

    def forward(self, f: Tensor, ic: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, k) -> u (b, t, x); with ``times`` (s,) only those times, (b, s, x)."""
        self._check_shapes(f, ic)
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

    # -- borders -------------------------------------------------------------------------------------------

    def _check_shapes(self, f: Tensor, ic: Tensor | None) -> None:
        spec = self.spec
        if f.ndim != 3 or f.shape[2] != spec.inputs.size:
            given = f"{f.shape[-1]} sensors" if f.ndim == 3 else f"shape {tuple(f.shape)}"
            raise TinoError(f"f has {given}, the model was built for (b, {spec.time.n}, {spec.inputs.size})")
        if f.shape[1] != spec.time.n:
            raise TinoError(f"f has {f.shape[1]} times, the model was built for {spec.time.n}")
        self._check_state(ic)

    def _check_state(self, ic: Tensor | None) -> None:
        given, expected = 0 if ic is None else ic.shape[-1], self.spec.state
        if given != expected:
            raise TinoError(f"the initial state has {given} numbers, the model was built for {expected}")

    def check_grids(self, data: Dataset) -> None:
        """The data lie on the grids the model was built for, and have the initial states it takes."""
        for name in ("time", "inputs", "outputs"):
            given, expected = getattr(data, name), getattr(self.spec, name)
            if given != expected:
                raise TinoError(f"the data's {name} grid is {given}, the model was built for {expected}")
        self._check_state(data.ic)

    def save(self, folder: str | Path) -> None:
        """Write model.safetensors and model.json into the folder, each whole or not at all."""
        from tino.models.store import save

        save(self, Path(folder))


def model_name(model: nn.Module) -> str:
    return model.spec.model if isinstance(model, Separable) else type(model).__name__


def call(model: nn.Module, f: Tensor, ic: Tensor | None) -> Tensor:
    """The calling form of every operator: ``model(f)``, or ``model(f, ic)`` where there is an initial state."""
    answer = model(f) if ic is None else model(f, ic)
    if not isinstance(answer, Tensor) or answer.shape[:2] != f.shape[:2]:
        shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise TinoError(f"{model_name(model)} maps f {tuple(f.shape)} to {shape}, expected a tensor (b, t, points)")
    return answer


def _basis(spec: Spec) -> Basis:
    n_t, x = spec.time.n, spec.outputs.size
    if spec.basis == "constant":
        return Constant()
    if spec.basis.startswith("trunk"):
        return Trunk(spec.time, spec.outputs, spec.modes, of_time=spec.basis == "trunk(t,y)")
    return PodModes((n_t, x) if spec.basis == "pod(t,y)" else (x,), spec.modes)
