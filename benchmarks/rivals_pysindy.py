"""Candidates of pysindy 2.1 for tino's problems: what its users would try, as fits that return a rollout.

Signals: the state is u and its time derivatives, or u and its delays. Fields on periodic or mirrored boxes: PDELibrary
(rivals_pde.py). Other fields, and Navier-Stokes once more: POD coordinates, in discrete time.
"""

import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rivals_data import Array, Candidate, Coordinates, Records, Rollout, bounded, delayed, inputs_of
from rivals_pde import equation
from scipy.interpolate import CubicSpline

ps: Any = importlib.import_module("pysindy")  # not installed with tino
ridge: Any = importlib.import_module("sklearn.linear_model").Ridge

THRESHOLDS = (1e-3, 5e-2)
SUBSTEPS = 2  # Runge-Kutta steps between two times


def candidates(name: str, records: Records) -> Iterator[Candidate]:
    """The list that the held-out records choose from."""
    if records.signal:
        yield from _signals(name)
        return
    if records.period:
        yield from _boxes(name)
    if records.period == 0 or name == "navier-stokes":
        yield from _fields(name)


def _signals(name: str) -> Iterator[Candidate]:
    order, degrees = {"gradient-flow": (1, (3,)), "duffing": (2, (3,)), "lorenz": (3, (3,))}[name]
    libraries: dict[str, Callable[[], Any]] = {
        f"polynomials to degree {degree}": lambda degree=degree: ps.PolynomialLibrary(degree) for degree in degrees
    }
    if name == "lorenz":
        libraries["polynomials to degree 3, products of derivatives over u"] = _with_quotients
    for label, library in libraries.items():
        for accuracy in (2, 4, 8):
            for threshold in THRESHOLDS:
                options = {"form": "continuous", "state": f"u and {order - 1} derivatives", "library": label}
                options |= {"finite differences of order": accuracy, "threshold": threshold}
                yield Candidate(
                    options,
                    lambda r, library=library, accuracy=accuracy, threshold=threshold: _continuous(
                        r, order, library(), accuracy, threshold
                    ),
                    records=200,
                )
    for lags, degree in {"gradient-flow": [(1, 3), (1, 5)], "duffing": [(3, 3)], "lorenz": [(4, 3)]}[name]:
        options = {"form": "discrete", "state": f"{lags} delays of u", "library": f"polynomials to degree {degree}"}
        yield Candidate(options, lambda r, lags=lags, degree=degree: _delays(r, lags, degree), records=100)


def _with_quotients() -> Any:
    quotients = ps.CustomLibrary(
        [lambda u, v, w: v * v / u, lambda u, v, w: v * w / u, lambda u, v, w: w * w / u],
        [lambda u, v, w: f"{v}^2 {u}^-1", lambda u, v, w: f"{v} {w} {u}^-1", lambda u, v, w: f"{w}^2 {u}^-1"],
    )
    return ps.GeneralizedLibrary([ps.PolynomialLibrary(3), quotients], inputs_per_library=[[0, 1, 2, 3], [0, 1, 2]])


def _continuous(records: Records, order: int, library: Any, accuracy: int, threshold: float) -> Rollout:
    """y' = F(y, f) for y = (u, u', ...); all records start alike, so the derivatives at the start are their mean."""
    dt = records.dt
    derivatives = [records.u[..., :1]]
    for d in range(1, order + 1):
        derivatives.append(np.asarray(ps.FiniteDifference(order=accuracy, d=d, axis=1)(records.u, dt)))
    start = np.array([d[:, 0].mean() for d in derivatives[1:order]])
    inner = slice(accuracy, -accuracy)  # one-sided differences are less exact
    x = np.concatenate(derivatives[:-1], axis=-1)[:, inner]
    slopes = np.concatenate(derivatives[1:], axis=-1)[:, inner]
    model = ps.SINDy(ps.STLSQ(threshold, alpha=1e-9), library)
    model.fit(list(x), dt, x_dot=list(slopes), u=list(records.f[:, inner]))

    law = _law(model, order)

    def rollout(f: Array, first: Array) -> Array:
        y = np.concatenate([first, np.broadcast_to(start, (len(f), order - 1))], axis=1)
        spline = CubicSpline(np.arange(f.shape[1]), f, axis=1)
        h = 1 / SUBSTEPS
        out = [first]
        for i in range(f.shape[1] - 1):
            for k in range(SUBSTEPS):
                at = [spline(i + (k + shift) * h) for shift in (0, 0.5, 1)]
                k1 = law(y, at[0])
                k2 = law(y + 0.5 * h * dt * k1, at[1])
                k3 = law(y + 0.5 * h * dt * k2, at[1])
                k4 = law(y + h * dt * k3, at[2])
                y = bounded(y + h * dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
            out.append(y[:, :1])
        return np.stack(out, axis=1)

    found: Rollout = rollout
    found.equations = model.equations(4)
    return found


def _law(model: Any, order: int) -> Callable[[Array, Array], Array]:
    """``model.predict`` without its checks of the input, which take most of the time on so few rows."""
    terms = [
        [(int(index) + (order if name == "u" else 0), int(power or 1)) for name, index, power in MONOMIAL.findall(term)]
        for term in model.get_feature_names()
    ]
    rows = [[(c, terms[q]) for q, c in enumerate(row) if c] for row in model.coefficients()]

    def law(y: Array, f: Array) -> Array:
        columns = [*y.T, *f.T]
        out = np.zeros_like(y)
        for j, row in enumerate(rows):
            for c, factors in row:
                product = c
                for index, power in factors:
                    product = product * columns[index] ** power
                out[:, j] += product
        return out

    y, f = np.random.default_rng(0).uniform(1, 2, (2, 8, order))
    assert np.allclose(law(y, f[:, :1]), model.predict(y, f[:, :1]))
    return law


MONOMIAL = re.compile(r"([xu])(\d+)(?:\^(-?\d+))?")


def _delays(records: Records, lags: int, degree: int) -> Rollout:
    """u_{i+1} from u_i, ..., u_{i-lags+1} and f at the same times and at i + 1."""
    state, control, following = delayed(records, lags)
    model = ps.DiscreteSINDy(ps.STLSQ(0.0, alpha=1e-12), ps.PolynomialLibrary(degree))
    model.fit(list(state), records.dt, x_next=list(following), u=list(control))
    coefficients, powers = model.coefficients()[:1], model.feature_library.powers_

    def step(x: Array, c: Array) -> Array:
        return np.prod(np.concatenate([x, c], axis=1)[:, None] ** powers, axis=-1) @ coefficients.T

    return records.by_delays(lags, step)


def _fields(name: str) -> Iterator[Candidate]:
    degree, records = (2, 300) if name == "navier-stokes" else (1, None)  # 2801 features: all records take minutes
    for modes in (40,) if degree == 2 else (20, 40, 80):
        for alpha in (1e-6, 1e-3):
            label = "polynomials of the modes to degree 2, f linear" if degree == 2 else "linear"
            options = {"form": "discrete", "modes": modes, "library": label, "ridge": alpha}
            yield Candidate(options, lambda r, modes=modes, alpha=alpha: _reduced(r, modes, degree, alpha), records)


def _reduced(records: Records, modes: int, degree: int, alpha: float) -> Rollout:
    """Discrete time in POD coordinates scaled to size one. Ridge: a system in POD coordinates is not sparse."""
    space = Coordinates.of(records, modes, scaled=True)
    x, control = space.state(records.u), inputs_of(space.input(records.f), 2)
    n, m = x.shape[-1], control.shape[-1]
    library = ps.PolynomialLibrary(1)
    if degree > 1:
        parts = [ps.PolynomialLibrary(degree), ps.PolynomialLibrary(1, include_bias=False)]
        library = ps.GeneralizedLibrary(parts, inputs_per_library=[list(range(n)), list(range(n, n + m))])
    model = ps.DiscreteSINDy(ridge(alpha, fit_intercept=False, copy_X=False), library)  # all targets in one solve
    pairs = (x[:, :-1].reshape(-1, n), x[:, 1:].reshape(-1, n), control.reshape(-1, m))
    model.fit(pairs[0], records.dt, x_next=pairs[1], u=pairs[2])
    return space.rollout(lambda x, c: np.asarray(model.predict(x, c)), 2)


def _boxes(name: str) -> Iterator[Candidate]:
    degree = {"allen-cahn": 3, "navier-stokes": 1}.get(name, 2)
    substeps = {"burgers-0.01": 10, "navier-stokes": 2}.get(name, 4)  # of the solver, between two times
    records = {"allen-cahn": 20, "navier-stokes": 5}.get(name, 40)
    thresholds = (1e-5, 5e-5) if name == "allen-cahn" else THRESHOLDS[:1]  # below the coefficient of the diffusion
    for skipped, accuracy in ((10, 4), (10, 8)) if name == "navier-stokes" else ((0, 8), (10, 8), (10, 12)):
        for threshold in thresholds:
            label = f"polynomials to degree {degree}, two derivatives in space"
            if name == "navier-stokes":
                label = "two derivatives of w, their products with w, the velocities and f"
            options = {"form": "PDELibrary", "library": label}
            options |= {
                "finite differences of order": accuracy,
                "threshold": threshold,
                "first times left out": skipped,
            }
            yield Candidate(
                options, lambda r, a=accuracy, t=threshold, s=skipped: equation(r, degree, a, t, s, substeps), records
            )
