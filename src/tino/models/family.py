"""How a member of the DeepONet family is built from data."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError
from tino.frame import Frame
from tino.grids import Point
from tino.holdout import LONG, memory_length, windows
from tino.models.separable import Separable
from tino.parts.bases import Basis, Constant, PodModes, Trunk
from tino.parts.inputs import InitialState, OutputScale, Sensors, input_weights, output_weights
from tino.parts.mixers import DelayMixer, GlobalMixer, LateMixer, Mixer
from tino.parts.networks import Branch, OwnBranches, TimeFactor
from tino.pod import Pod, input_pod, output_pod
from tino.sizes import state_channels


@dataclass(frozen=True)
class Family:
    """Which parts, and every size that the data do not give.

    The first layer is a sum over times and sensors. A step of the optimiser moves every weight by about the rate, and
    so moves the layer's output by the rate times ``input_sum``, the absolute sum of a sample's inputs on average.
    ``first_size`` is the root mean square of that output before the first step, at the last time, when all inputs have
    arrived; an initial state adds as much. If it is large, the model overfits. If it is small, the network starts out
    nearly linear and is slow to learn the rest. The values are a compromise between problems (docs/results.md).
    """

    mixer: type[Mixer]
    basis: type[Basis]
    of_time: bool = False  # whether the basis depends on t
    time_factor: bool = False
    mixer_width: int = 128
    branch_width: int = 128
    factor_width: int = 128
    trunk_width: int = 512
    trunk_layers: int = 3
    modes: int = 128  # J' and J, if nothing else fixes them
    waves: int = 8  # sine and cosine pairs per coordinate in a network's features
    decays: int = 8  # decays of time in a network's features
    first_lag: int = 0  # of a delay: 0, or 1 as in the paper's derivation
    snapshots: str = "quartile"  # of a POD of y: "quartile" or "all" times
    project_sensors: bool = True  # onto the POD of the inputs, if that halves their number
    input_sum: float = 50.0
    first_size: float = 0.75

    def __call__(self, name: str, train: Dataset) -> Separable:
        self._check(name, train)
        frame = Frame.of(name, train)
        if train.time.n > LONG and self.mixer is DelayMixer and not self.time_factor:
            train = windows(replace(train, burn_in=0), memory_length(train))  # a delay needs no more of a long record
        kind = Constant if self.basis is Trunk and not self.of_time and isinstance(train.outputs, Point) else self.basis
        weights, pod = output_weights(train), None
        if kind is PodModes:
            pod = output_pod(train, "of (t, y)" if self.of_time else self.snapshots, weights)
        modes = train.output_size if kind is Constant else self.modes if pod is None else len(pod.modes)
        seen = input_pod(train, input_weights(train)) if self.project_sensors else None
        if seen is not None and 2 * len(seen.modes) > train.input_size:
            seen = None
        states = len(state_channels(frame, frame.state))
        mixer = self._mixer(train, train.input_size if seen is None else len(seen.modes))
        branch_modes = self.modes if self.time_factor else modes
        model = Separable(  # in this order: the seed's random numbers go to one part after the other
            frame,
            sensors=Sensors(train.input_size, mixer.sizes["m"], len(train.input_channels)),
            mixer=mixer,
            branch=self._branch(branch_modes),
            initial=InitialState(frame.state, mixer.width, states) if frame.state else None,
            time_factor=self._time_factor(train, branch_modes, modes) if self.time_factor else None,
            basis=self._basis(kind, train, modes),
            outputs=None if weights is None else OutputScale(train.output_size),
        )
        with torch.no_grad():
            self._fit(model, train, seen, pod, weights)
        return model

    def _check(self, name: str, train: Dataset) -> None:
        if self.snapshots not in ("quartile", "all"):
            raise TinoError(f"snapshots is '{self.snapshots}', expected 'quartile' or 'all'")
        if self.first_lag not in (0, 1):
            raise TinoError(f"first_lag is {self.first_lag}, expected 0 or 1")
        if self.snapshots != "quartile" and (self.basis is not PodModes or self.of_time):
            raise TinoError(f"{name} has no POD of y, so snapshots='{self.snapshots}' has no effect")
        if self.first_lag and self.mixer is not DelayMixer:
            raise TinoError(f"{name} has no delay mixer, so first_lag={self.first_lag} has no effect")
        if self.basis is PodModes and self.of_time and self.mixer is not GlobalMixer:
            raise TinoError(f"{name} has a POD of (t, y), so its coefficients cannot depend on t: use a global mixer")
        if train.lengths is not None and self.mixer is GlobalMixer:
            raise TinoError(f"{name} needs records of equal length: it is not causal")
        time_only = isinstance(train.outputs, Point)
        if time_only and self.basis is PodModes and not self.of_time:
            told = f"{name} needs outputs in space for its POD, {train.name} has time-only outputs"
            raise TinoError(f"{told}: try tino or tdnn")
        if not time_only and (self.basis is Constant or self.mixer is LateMixer):
            given = f"{train.name} has {train.outputs.size} points"
            raise TinoError(f"{name} supports time-only outputs; {given}: use tino")

    def _mixer(self, train: Dataset, sensors: int) -> Mixer:
        lag = {"first_lag": self.first_lag} if self.mixer is DelayMixer else {}
        return self.mixer(train.time.n, sensors, self.mixer_width, **lag)  # pyright: ignore

    def _branch(self, modes: int) -> Branch | OwnBranches:
        """Three linear maps; a global or masked mixer is the first of them."""
        if self.mixer is LateMixer:
            return OwnBranches(self.mixer_width, modes)
        if self.mixer is DelayMixer:
            return Branch([self.mixer_width, self.branch_width, self.branch_width, modes], activate=False)
        return Branch([self.mixer_width, self.branch_width, modes], activate=True)

    def _time_factor(self, train: Dataset, branch_modes: int, modes: int) -> TimeFactor:
        return TimeFactor(train.time, branch_modes, modes, self.factor_width, self.waves, self.decays)

    def _basis(self, kind: type[Basis], train: Dataset, modes: int) -> Basis:
        if kind is Constant:
            return Constant(modes)
        if kind is PodModes:
            return PodModes((train.time.n, train.output_size) if self.of_time else (train.output_size,), modes)
        return Trunk(
            train.time,
            train.outputs,
            modes=modes,
            channels=len(train.output_channels),
            of_time=self.of_time,
            width=self.trunk_width,
            layers=self.trunk_layers,
            waves=self.waves,
            decays=self.decays if self.of_time else 0,
        )

    def _fit(self, model: Separable, train: Dataset, seen: Pod | None, pod: Pod | None, weights: Tensor | None) -> None:
        """Each part scales itself from the data."""
        norm = model.sensors.fit(train, seen, self.input_sum)
        model.mixer.scale(norm, self.first_size)
        if model.initial is not None and train.ic is not None:
            model.initial.fit(train.ic, self.input_sum, self.first_size)
        u = train.u if train.lengths is None else train.rows(train.u)[None]
        if model.outputs is not None and weights is not None:
            model.outputs.fit(weights)
            u = u * weights.to(u)
        model.basis.fit(u, pod)
