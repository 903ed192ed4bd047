"""The DeepONet family in one class, composed of sensors, a mixer, a branch, perhaps a time factor, and a basis.

u(t_i, y) = φ_0(y) + Σ_j [ Σ_p B_p(h_i; IC) τ_pj(t_i) ] φ_j(t_i, y),     h = mixer(f)
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from tino.errors import unknown
from tino.frame import Frame
from tino.operator import Operator, Properties
from tino.parts.bases import Basis, Constant, PodModes, Trunk
from tino.parts.inputs import InitialState, OutputScale, Sensors
from tino.parts.mixers import DelayMixer, GlobalMixer, LateMixer, MaskedMixer, Mixer
from tino.parts.networks import Branch, OwnBranches, TimeFactor
from tino.parts.part import Part

Memory = tuple[Tensor, Tensor | None]  # the mixer's, and what the initial state adds to h

MIXERS = (GlobalMixer, MaskedMixer, DelayMixer, LateMixer)
PLAIN: dict[str, type[Part]] = {  # parts made only from their record
    part.kind: part for part in (Sensors, *MIXERS, Branch, OwnBranches, InitialState, Constant, PodModes, OutputScale)
}


class Separable(Operator):
    """A member of the family, composed of its parts; ``tino.build`` makes them from data."""

    def __init__(
        self,
        frame: Frame,
        *,
        sensors: Sensors,
        mixer: Mixer,
        branch: Branch | OwnBranches,
        basis: Basis,
        initial: InitialState | None = None,
        time_factor: TimeFactor | None = None,
        outputs: OutputScale | None = None,
    ) -> None:
        super().__init__()
        self.frame = frame
        self.sensors, self.mixer, self.branch = sensors, mixer, branch
        self.initial, self.time_factor, self.basis, self.outputs = initial, time_factor, basis, outputs
        self._properties = Properties.of_parts([part.properties for part in self.parts.values() if part is not None])

    # -- the formula ---------------------------------------------------------------------------------------

    def forward(self, f: Tensor, ic: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, k) -> u (b, t, x); with ``times`` (s,) only those times, (b, s, x).

        A causal model also takes the first part of a record, and returns the first part of u.
        """
        self.check_shapes(f, ic)
        rows = slice(f.shape[1]) if times is None else times
        tau = None if self.time_factor is None else self.time_factor(rows)
        return self._scaled_up(self.basis.expand(self._coefficients(self.sensors(f), ic, times, tau), rows))

    def _coefficients(self, z: Tensor, ic: Tensor | None, times: Tensor | None, tau: Tensor | None) -> Tensor:
        """The factors of φ_j from scaled sensors z (b, t, r) and τ (s, p, j): (b, s, J), or (b, 1, J) without time."""
        h = self.mixer(z, times)  # (b, s, w)
        if self.initial is not None:
            assert ic is not None
            h = h + self.initial(ic)[:, None]
        return self._combine(h, tau)

    def _combine(self, h: Tensor, tau: Tensor | None) -> Tensor:
        """Σ_p B_p(h) τ_pj."""
        c = self.branch(h)  # (b, s, p)
        if tau is not None:
            c = torch.matmul(c.transpose(0, 1), tau).transpose(0, 1)  # (b, s, j)
        return c * self.basis.scale

    def _scaled_up(self, u: Tensor) -> Tensor:
        return u if self.outputs is None else u * self.outputs.size

    def _query(self, f: Tensor, ic: Tensor | None, t: Tensor, y: Tensor) -> Tensor:
        """Each part is read where it can be: the mixer on the grid, networks of t and y anywhere."""
        fixed_in_time = self.basis.of_time and not self.basis.learned
        seen = self.frame.time_index(t) if self.mixer.grid_only or fixed_in_time else self.frame.last_index(t)
        tau = None if self.time_factor is None else self.time_factor.at(t)
        u = self.basis.at(self._coefficients(self.sensors(f), ic, seen, tau), self.frame, t, y, seen)
        return (
            u if self.outputs is None else u * self.outputs.size[:: self.frame.outputs.size].repeat_interleave(len(y))
        )

    # -- step by step --------------------------------------------------------------------------------------

    def rest(self, b: int, ic: Tensor | None) -> Memory:
        return self.mixer.rest(b), None if self.initial is None or ic is None else self.initial(ic)

    def _step(self, memory: Memory, f_i: Tensor, i: int | Tensor) -> tuple[Memory, Tensor]:
        past, h = self.mixer.step(memory[0], self.sensors(f_i), i)
        h = h if memory[1] is None else h + memory[1]
        now = slice(i, i + 1) if isinstance(i, int) else i.view(1)  # a tensor in an exported graph
        tau = None if self.time_factor is None else self.time_factor(now)
        u = self._scaled_up(self.basis.expand(self._combine(h[:, None], tau), now))
        return (past, memory[1]), u[:, 0]

    def _run(self, memory: Memory, f: Tensor, i: int) -> tuple[Memory, Tensor]:
        past, h = self.mixer.run(memory[0], self.sensors(f), i)
        h = h if memory[1] is None else h + memory[1][:, None]
        now = slice(i, i + f.shape[1])
        tau = None if self.time_factor is None else self.time_factor(now)
        return (past, memory[1]), self._scaled_up(self.basis.expand(self._combine(h, tau), now))

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def parts(self) -> dict[str, Part | None]:
        names = ("sensors", "mixer", "branch", "initial", "time_factor", "basis", "outputs")
        return {name: getattr(self, name) for name in names}

    @property
    def properties(self) -> Properties:
        return self._properties

    # -- how it learns: by coefficients, where the basis is fixed --------------------------------------------

    def encode(self, f: Tensor) -> Tensor:
        return self.sensors(f) if self.sensors.projects else f  # a plain factor is applied in the step

    def normalised(self, u: Tensor) -> Tensor:
        return u if self.outputs is None else u / self.outputs.size

    def target(self, u: Tensor) -> Tensor:
        return self.basis.project(self.normalised(u))

    def field(self, c: Tensor) -> Tensor:
        return c if self.basis.learned else self.basis.expand(c)

    def respond(self, z: Tensor, ic: Tensor | None, times: Tensor | None) -> Tensor:
        z = z if self.sensors.projects else self.sensors(z)
        rows = slice(z.shape[1]) if times is None else times
        c = self._coefficients(z, ic, times, None if self.time_factor is None else self.time_factor(rows))
        return self.basis.expand(c, rows) if self.basis.learned else c

    # -- its record ----------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        return {name: None if part is None else part.record() for name, part in self.parts.items()}

    @classmethod
    def from_record(cls, frame: Frame, record: Mapping[str, Any]) -> Self:
        parts: dict[str, Any] = {name: sizes and _part(frame, sizes) for name, sizes in record.items()}
        return cls(frame, **parts)

    def normalisation(self) -> dict[str, Any]:
        scale, inputs, sensors = self.basis.scale.flatten().tolist(), self.sensors.matrix, self.sensors.sizes
        return {
            "inputs": "f is scaled, never shifted: physical zero stays zero",
            "input_scale": float(torch.linalg.vector_norm(inputs, dim=0).mean() if inputs.ndim == 2 else inputs.mean()),
            **({"state_scale": self.initial.scale.tolist()} if self.initial is not None else {}),
            "output_scale": scale if len(scale) > 1 else scale[0],
            "sensors": {"points": sensors["points"], "used": sensors["used"], "lost": float(self.sensors.left)},
        }


def _part(frame: Frame, record: Mapping[str, Any]) -> Any:
    """The part that a record describes; networks of t and y take their grids from the frame."""
    sizes = dict(record)
    kind = sizes.pop("kind", None)
    if kind == Trunk.kind:
        return Trunk(frame.time, frame.outputs, **sizes)
    if kind == TimeFactor.kind:
        return TimeFactor(frame.time, **sizes)
    if kind not in PLAIN:
        raise unknown("part of a model", str(kind), [*PLAIN, Trunk.kind, TimeFactor.kind])
    return PLAIN[kind](**sizes)
