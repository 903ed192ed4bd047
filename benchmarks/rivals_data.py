"""What the rivals share: records as arrays, delays, POD coordinates, and rollouts from the known start."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import tino
from tino.pod import pod

Array = Any  # of numpy, float64
Rollout = Any  # a function (f (n, t, m), u at the first time (n, x)) -> u (n, t, x)
Step = Callable[[Array, Array], Array]  # (state (n, k), inputs (n, c)) -> next state
FAR = 1e6  # a state beyond it has diverged
SNAPSHOTS = 20_000  # for the POD


@dataclass(frozen=True)
class Candidate:
    """Options as they are reported, a fit, and how many records it uses at most."""

    options: dict[str, Any]
    fit: Callable[["Records"], Rollout]
    records: int | None = None


@dataclass(frozen=True)
class Records:
    """f (n, t, m), u (n, t, x) in float64; ``period`` of a box that is periodic, or is so once mirrored."""

    f: Array
    u: Array
    dt: float
    period: float = 0.0
    mirrored: bool = False
    axes: int = 1

    @staticmethod
    def of(data: tino.Dataset) -> "Records":
        period, mirrored, axes = 0.0, False, 1
        if isinstance(data.outputs, tino.Periodic):
            period, axes = data.outputs.length, len(data.outputs.shape)
        elif data.name == "allen-cahn":  # insulated ends; convection breaks the mirror's symmetry
            period, mirrored = 2 * float(data.outputs.points[-1, 0] - data.outputs.points[0, 0]), True
        return Records(data.f.double().numpy(), data.u.double().numpy(), data.time.step, period, mirrored, axes)

    def take(self, samples: slice) -> "Records":
        return replace(self, f=self.f[samples], u=self.u[samples])

    @property
    def signal(self) -> bool:
        return self.u.shape[-1] == 1

    @property
    def at_rest(self) -> bool:
        return not self.u[:, 0].any()

    def periodic(self, values: Array) -> Array:
        """Values on the points of one period, along each axis."""
        if self.axes > 1:
            return values.reshape(*values.shape[:-1], *[round(values.shape[-1] ** (1 / self.axes))] * self.axes)
        return np.concatenate([values, values[..., -2:0:-1]], axis=-1) if self.mirrored else values

    def by_delays(self, lags: int, step: Step) -> Rollout:
        """A rollout in delay coordinates. At rest the past is zero; else the first times are their mean in training."""
        opening = self.u[:, :lags].mean(0)

        def rollout(f: Array, first: Array) -> Array:
            n, n_t = f.shape[:2]
            if self.at_rest:
                f, past = _padded(f, lags), np.zeros((n, lags, 1))
            else:
                past = np.broadcast_to(opening, (n, lags, 1)).copy()
            state, out = past[:, ::-1, 0], [past]
            for i in range(lags - 1, f.shape[1] - 1):
                new = bounded(step(state, f[:, i + 1 - lags : i + 2, 0][:, ::-1]))[:, :1]
                state = np.concatenate([new, state[:, :-1]], axis=1)
                out.append(new[:, None])
            found = np.concatenate(out, axis=1)[:, -n_t:]
            found[:, 0] = first
            return found

        return rollout


def _padded(values: Array, lags: int) -> Array:
    return np.concatenate([np.zeros((len(values), lags, values.shape[-1])), values], axis=1)


def delayed(records: Records, lags: int) -> tuple[Array, Array, Array]:
    """States (u_i, ..., u_{i-lags+1}), inputs (f_{i+1}, f_i, ..., f_{i-lags+1}), next states; at rest from before."""
    f, u = (_padded(v, lags) if records.at_rest else v for v in (records.f, records.u))
    n_t = u.shape[1]
    state = np.concatenate([u[:, lags - 1 - j : n_t - j] for j in range(lags)], axis=-1)
    control = np.concatenate([f[:, lags - j : n_t - j] for j in range(lags + 1)], axis=-1)
    return state[:, :-1], control, state[:, 1:]


def inputs_of(f: Array, count: int) -> Array:
    """For each step f at its start, or at its start and its end."""
    return f[:, :-1] if count == 1 else np.concatenate([f[:, :-1], f[:, 1:]], axis=-1)


@dataclass(frozen=True)
class Coordinates:
    """POD coordinates of u (about its mean) and of f."""

    mean: Array
    modes: Array  # (k, x)
    sizes: Array  # what a coordinate is divided by
    inputs: Array  # (c, m)
    input_sizes: Array

    @staticmethod
    def of(records: Records, modes: int, scaled: bool = False) -> "Coordinates":
        key = (id(records.u), len(records.u))
        if key not in _found:
            _found.clear()
            _found[key] = (_pod(records.u, True), _pod(records.f, False))
        outputs, inputs = _found[key]
        a, b = outputs.modes[:modes].numpy(), inputs.modes.numpy()
        ones = np.ones(len(a)), np.ones(len(b))
        space = Coordinates(outputs.mean.numpy(), a, ones[0], b, ones[1])
        if not scaled:
            return space
        some = records.take(slice(100))
        sizes = (np.sqrt((values**2).mean((0, 1))) for values in (space.state(some.u), space.input(some.f)))
        return Coordinates(space.mean, a, next(sizes), b, next(sizes))

    def state(self, u: Array) -> Array:
        return (u - self.mean) @ self.modes.T / self.sizes

    def input(self, f: Array) -> Array:
        return f @ self.inputs.T / self.input_sizes

    def rollout(self, step: Step, count: int) -> Rollout:
        def rollout(f: Array, first: Array) -> Array:
            control, x = inputs_of(self.input(f), count), self.state(first)
            states = [x]
            for i in range(control.shape[1]):
                x = bounded(step(x, control[:, i]))
                states.append(x)
            found = (np.stack(states, axis=1) * self.sizes) @ self.modes + self.mean
            found[:, 0] = first
            return found

        return rollout


_found: dict[Any, Any] = {}


def _pod(values: Array, mean: bool) -> Any:
    """From snapshots of every so many records, at all times."""
    every = max(1, len(values) * values.shape[1] // SNAPSHOTS)
    return pod(torch.as_tensor(values[::every]).flatten(0, 1), subtract_mean=mean)


class Diverged(Exception):
    """A rollout that has grown beyond bounds."""


def bounded(state: Array) -> Array:
    """The state, or ``Diverged``."""
    if not (np.abs(state) < FAR).all():
        raise Diverged
    return state
