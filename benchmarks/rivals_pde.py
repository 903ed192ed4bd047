"""Equations of fields on periodic boxes found by pysindy's PDELibrary, and their solution for other inputs.

Space is differentiated spectrally, time by finite differences. A line has the field u and the input f; a plane has the
vorticity w, its velocities a and b as two more inputs (as in the examples of PDE-FIND), and f. pysindy does not solve
what it finds in space: that is left to tino's ETDRK4, with f between two times by cubic splines of its samples.
"""

import importlib
import re
from typing import Any

import numpy as np
import torch
from rivals_data import Array, Diverged, Records, Rollout, bounded
from scipy.interpolate import CubicSpline
from torch import Tensor

from tino.solvers.etd import etdrk4
from tino.solvers.spectral import FourierBox

ps: Any = importlib.import_module("pysindy")  # not installed with tino

NAMES = {1: {"x0": "u", "u0": "f"}, 2: {"x0": "w", "u0": "a", "u1": "b", "u2": "f"}}
FACTOR = re.compile(r"([xu]\d)(?:_([12]+)|\^(\d+))?")
Term = tuple[float, list[tuple[str, str, str]]]  # coefficient, factors: name, derivatives, power


def equation(records: Records, degree: int, accuracy: int, threshold: float, skipped: int, substeps: int) -> Rollout:
    """u_t = Σ c_q F_q(u, f and their derivatives in space), sparse; and a rollout that solves it."""
    axes = records.axes
    u, f = records.periodic(records.u), records.periodic(records.f)  # (n, t, x) or (n, t, x, x)
    box = _box(records, u.shape[-1])
    controls = [*(_velocity(box, torch.as_tensor(u)) if axes == 2 else ()), f]
    grid = box.points.view(*[box.n] * axes, axes).numpy()
    library: Any = ps.PDELibrary(
        ps.PolynomialLibrary(degree, include_bias=False),
        derivative_order=2,
        spatial_grid=grid[:, 0] if axes == 1 else grid,
        differentiation_method=ps.SpectralDerivative,
    )
    if axes == 2:  # derivatives of w alone, and their products with the velocities and f: the others depend on them
        factors = ps.PolynomialLibrary(1, include_bias=False)
        library = ps.GeneralizedLibrary([library, factors], [[1, 1]], inputs_per_library=[[0], [1, 2, 3]])
    slopes = np.asarray(ps.FiniteDifference(order=accuracy, axis=1)(u, records.dt))
    inner = slice(max(skipped, accuracy // 2), -(accuracy // 2))

    def trajectories(*values: Array) -> list[Array]:
        """For each record its values (x, t, channels) or (x, x, t, channels)."""
        return list(np.moveaxis(np.stack(values, axis=-1)[:, inner], 1, -2))

    model = ps.SINDy(ps.STLSQ(threshold, alpha=1e-9), library)
    model.fit(trajectories(u), records.dt, x_dot=trajectories(slopes), u=trajectories(*controls))
    terms = zip(model.get_feature_names(), model.coefficients()[0], strict=True)
    found = {name: float(c) for name, c in terms if c}
    rollout: Any = _solved(records, found, substeps)
    rollout.equations = [
        f"{NAMES[axes]['x0']}_t = " + " + ".join(f"{c:.5g} {_pretty(q, axes)}" for q, c in found.items())
    ]
    return rollout


def _pretty(term: str, axes: int) -> str:
    """x0^2 u0x0_11 -> u^2 f u_xx."""
    return " ".join(
        NAMES[axes][name] + (f"_{order.replace('1', 'x').replace('2', 'y')}" if order else "") + (power and f"^{power}")
        for name, order, power in FACTOR.findall(term)
    )


def _box(records: Records, n: int) -> FourierBox:
    return FourierBox(n, records.axes, records.period, torch.device("cpu"))


def _velocity(box: FourierBox, w: Tensor) -> tuple[Array, Array]:
    a, b = _stream(box, torch.fft.rfft2(w))
    return torch.fft.irfft2(a, s=w.shape[-2:]).numpy(), torch.fft.irfft2(b, s=w.shape[-2:]).numpy()


def _stream(box: FourierBox, v: Tensor) -> tuple[Tensor, Tensor]:
    """Spectra of the velocities ψ_y and -ψ_x with -Δψ = w."""
    k1, k2 = box.k
    psi = v / torch.where(k1**2 + k2**2 > 0, k1**2 + k2**2, torch.inf)
    return 1j * k2 * psi, -1j * k1 * psi


def _solved(records: Records, found: dict[str, float], substeps: int) -> Rollout:
    """The equation's solution: ETDRK4 with the second derivatives in its linear part, 2/3 rule on a finer grid."""
    axes = records.axes
    pure = ["x0_" + 2 * str(j + 1) for j in range(axes)]
    rest: list[Term] = [(c, FACTOR.findall(q)) for q, c in found.items() if q not in pure]
    dims = tuple(range(-axes, 0))

    def rollout(f: Array, first: Array) -> Array:
        inputs, start = records.periodic(f), records.periodic(first)
        n = start.shape[-1]
        box = _box(records, 2 * n if axes == 1 else 3 * n // 2)
        diffusion = [found.get(name, 0.0) for name in pure]
        if min(diffusion) < 0:
            raise Diverged
        linear = sum(-c * k**2 for c, k in zip(diffusion, box.k, strict=True))
        assert isinstance(linear, Tensor)
        spline = CubicSpline(np.arange(f.shape[1]), np.fft.rfftn(inputs, axes=dims), axis=1)

        def nonlinear(t: float, v: Tensor) -> Tensor:
            spectra = {"x0": v, f"u{len(NAMES[axes]) - 2}": _wide(torch.as_tensor(spline(t)), n, box)}
            if axes == 2:
                spectra["u0"], spectra["u1"] = _stream(box, v)
            known: dict[tuple[str, str], Tensor] = {}
            total = torch.zeros(len(v), *[box.n] * axes, dtype=torch.float64)
            for c, factors in rest:
                product: Any = c
                for name, order, power in factors:
                    if (name, order) not in known:
                        spectrum = spectra[name]
                        for axis in order:
                            spectrum = 1j * box.k[int(axis) - 1] * spectrum
                        known[name, order] = box.backward(spectrum)
                    product = product * known[name, order] ** int(power or 1)
                total = total + product
            return box.keep * box.forward(total)

        step = etdrk4(records.dt * linear, lambda t, v: records.dt * nonlinear(t, v), 1 / substeps)
        v = _wide(torch.as_tensor(np.fft.rfftn(start, axes=dims)), n, box)
        out = [first]
        for i in range(f.shape[1] - 1):
            for j in range(substeps):
                v = step(i + j / substeps, v)
            narrow = torch.fft.irfftn(_narrow(v, n, box), [n] * axes, dim=dims).numpy()
            out.append(bounded(narrow.reshape(len(f), -1)[:, : first.shape[-1]]))
        return np.stack(out, axis=1)

    return rollout


def _wide(v: Tensor, n: int, box: FourierBox) -> Tensor:
    """A spectrum of n points along each axis, without the highest wavenumber, on the points of the box."""
    half, scale = n // 2, (box.n / n) ** box.axes
    wide = torch.zeros(len(v), *[box.n] * (box.axes - 1), box.n // 2 + 1, dtype=v.dtype)
    wide[..., :half] = v[..., :half] if box.axes == 1 else 0
    if box.axes == 2:
        wide[:, :half, :half], wide[:, 1 - half :, :half] = v[:, :half, :half], v[:, 1 - half :, :half]
    return scale * wide


def _narrow(v: Tensor, n: int, box: FourierBox) -> Tensor:
    half, scale = n // 2, (n / box.n) ** box.axes
    narrow = torch.zeros(len(v), *[n] * (box.axes - 1), half + 1, dtype=v.dtype)
    if box.axes == 1:
        narrow[..., :half] = v[..., :half]
    else:
        narrow[:, :half, :half], narrow[:, 1 - half :, :half] = v[:, :half, :half], v[:, 1 - half :, :half]
    return scale * narrow
