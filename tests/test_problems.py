"""Reference solutions compared with closed forms, third-party solvers, balance laws and refined solutions."""

import importlib
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.fft
import torch
from conftest import OneForcing
from scipy.integrate import dblquad, quad, simpson, solve_ivp
from scipy.interpolate import CubicSpline

import tino
from tino import paper
from tino.inputs import Forcing, sine_fourier
from tino.problems import base, measure_invariance, register
from tino.problems.base import problem_options
from tino.problems.oscillators import duffing as duffing_problem
from tino.problems.oscillators import forced_ode
from tino.problems.periodic import fourier_initial, navier_stokes_ic, vorticity_equation
from tino.solvers.march import Mesh
from tino.solvers.spectral import FourierBox, PeriodicEquation, solve_periodic
from tino.solvers.triangle import TriangleModes

PI = np.pi


def drawn(problem: tino.Problem, n: int = 1, seed: int = 0) -> tuple[Forcing, dict[str, np.ndarray]]:
    """A batch of forcings, and the parameters of the first as numbers."""
    forcing = problem.law.sample(seed, 0, range(n))
    return forcing, {name: p[0].flatten().numpy() for name, p in forcing.params.items()}


def wave(p: dict[str, np.ndarray], t):
    return p["A"][0] * np.sin(p["b"][0] * t + p["c"][0])


# -- refinement ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in tino.problem_names() if n != "navier-stokes-ic"])
def test_refining_the_solver_moves_nothing(name):
    problem = tino.problem(name)
    forcing, _ = drawn(problem, 12 if name == "allen-cahn" else 2, seed=1)  # about one sample in six has fronts
    coarse, fine = problem.solve(forcing), problem.solve(forcing, refine=2)
    assert (coarse - fine).square().mean() < 1e-12


# -- ordinary differential equations ---------------------------------------------------------------------------


def duffing(f, y):
    return [y[1], f - y[1] - y[0] - y[0] ** 3]


def gradient_flow(f, y):
    return [f - y[0] ** 3 + y[0]]


def pendulum(f, y):
    return [y[1], f - y[1] - np.sin(y[0])]


def lorenz(f, s):
    return [10 * (s[1] - s[0]), s[0] * (10 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2] - f]


@pytest.mark.parametrize(
    ("name", "slope", "start", "close"),
    [
        ("duffing", duffing, [0, 0], 1e-8),
        ("gradient-flow", gradient_flow, [0], 5e-8),
        ("lorenz", lorenz, [1, 0, 0], 5e-7),
        ("pendulum", pendulum, [0, 0], 1e-8),
    ],
)
def test_odes_agree_with_dop853(name, slope, start, close):
    problem = tino.problem(name)
    t = problem.time.points.numpy()
    for seed in range(3):
        forcing, p = drawn(problem, 1, seed)
        u = problem.solve(forcing)[0, :, 0].numpy()
        rhs = lambda s, y, p=p: slope(wave(p, s), y)  # noqa: E731
        reference = solve_ivp(rhs, (0, 10), start, "DOP853", t, rtol=1e-12, atol=1e-13).y[0]
        assert np.abs(u - reference).max() < close


def test_duffing_balances_its_energy():
    """d/dt (u'²/2 + u²/2 + u⁴/4) = f u' - c u'²."""
    problem = tino.problem("duffing")
    forcing, p = drawn(problem)
    t = problem.time.points
    u = problem.solve(forcing)[0, :, 0].numpy()
    _, state = problem.evolve(forcing, t)
    v = CubicSpline(t.numpy(), u)(t.numpy(), 1)
    stored = 0.5 * float(state[0, 1]) ** 2 + 0.5 * u[-1] ** 2 + 0.25 * u[-1] ** 4
    gained = simpson(wave(p, t.numpy()) * v - v**2, x=t.numpy())
    assert stored == pytest.approx(gained, abs=1e-6)


def test_the_pendulum_balances_its_energy():
    """d/dt (u'²/2 + 1 - cos u) = f u' - c u'²."""
    problem = tino.problem("pendulum", damping=0.3)
    forcing, p = drawn(problem)
    t = problem.time.points
    u, state = problem.evolve(forcing, t)
    angle, speed = u[0, :, 0].numpy(), float(state[0, 1])
    v = CubicSpline(t.numpy(), angle)(t.numpy(), 1)
    gained = simpson(wave(p, t.numpy()) * v - 0.3 * v**2, x=t.numpy())
    assert 0.5 * speed**2 + 1 - np.cos(angle[-1]) == pytest.approx(gained, abs=1e-5)


def test_some_pendulums_swing_over_the_top():
    problem = tino.problem("pendulum")
    over = problem.solve(drawn(problem, 200)[0]).abs().amax((1, 2)) > PI
    assert 0.15 < over.double().mean() < 0.35
    gentle = tino.problem("pendulum", amplitude=0.1)
    assert gentle.solve(drawn(gentle, 200)[0]).abs().max() < PI / 2
    assert (gentle.law.ranges["A"].low, gentle.law.ranges["A"].high) == pytest.approx((0.05, 0.2))


# -- operators given by a formula ------------------------------------------------------------------------------


def test_fitting_time_agrees_with_quadrature():
    problem = tino.problem("fitting-time", n_t=11)
    forcing, p = drawn(problem)
    u = problem.solve(forcing)[0, :, 0]
    plain = tino.problem("fitting-time", n_t=11, clock="constant").solve(forcing)[0, :, 0]
    for i, t in enumerate(problem.time.points.tolist()):
        f, integral = wave(p, t), quad(lambda s: wave(p, s), 0, t)[0]
        assert float(u[i]) == pytest.approx(f**2 + np.cos((10 - t) * f) + integral, abs=1e-9)
        assert float(plain[i]) == pytest.approx(f**2 + np.cos(10 * f) + integral, abs=1e-9)


# -- intervals -------------------------------------------------------------------------------------------------


def finite_differences(name: str, boundary: str, p: dict[str, np.ndarray], n: int, t: np.ndarray) -> np.ndarray:
    """The equation on n + 1 points by second-order differences and LSODA, independent of our solvers."""
    x = np.linspace(0, 1, n + 1)
    dx = 1 / n
    bump = np.exp(-((x - p["mu"][0]) ** 2) / (2 * p["sigma"][0] ** 2))
    if name == "allen-cahn":
        diffusion, wind, start, power = 1e-4, 0.0, np.full(n + 1, 0.5), 1
        rest = lambda u: u - u**3  # noqa: E731
    else:
        diffusion, wind, start, power = 0.01, 0.1, 3 * np.exp(-((x - 0.5) ** 2) / 0.1), 2
        rest = lambda u: 0 * u  # noqa: E731

    def slope(s, u):
        left, right = np.roll(u, 1), np.roll(u, -1)
        left[0], right[-1] = u[1], u[-2]  # mirrored: u_x = 0
        change = diffusion * (left - 2 * u + right) / dx**2 - wind * (right - left) / (2 * dx)
        change += rest(u) + wave(p, s) ** power * bump
        if boundary == "frozen":
            change[0] = change[-1] = 0.0
        return change

    found = solve_ivp(slope, (0, t[-1]), start, "LSODA", t, rtol=1e-9, atol=1e-10, lband=1, uband=1)
    return found.y.T


@pytest.mark.parametrize("name", ["allen-cahn", "convection-diffusion"])
@pytest.mark.parametrize("boundary", ["neumann", "frozen"])
def test_intervals_agree_with_finite_differences(name, boundary):
    problem = tino.problem(name, n_t=9, boundary=boundary)
    forcing, p = drawn(problem)
    u = problem.solve(forcing)[0].numpy()
    t = problem.time.points.numpy()
    errors = []
    for n in (508, 1016):
        reference = finite_differences(name, boundary, p, n, t)[:, :: n // 127]
        errors.append(np.abs(u - reference)[1:].max())
    assert errors[1] < 3e-4
    assert errors[0] / errors[1] > 2.5  # the differences converge to our solution at nearly second order


def test_allen_cahn_agrees_with_its_semi_discrete_system():
    problem = tino.problem("allen-cahn", n_t=5)
    forcing, p = drawn(problem, seed=2)
    n = 1016
    x = np.linspace(0, 1, n + 1)
    k = PI * np.arange(n + 1)
    bump = np.exp(-((x - p["mu"][0]) ** 2) / (2 * p["sigma"][0] ** 2))

    def slope(s, u):
        spread = scipy.fft.idct(-1e-4 * k**2 * np.asarray(scipy.fft.dct(u, 1)), 1)
        return spread + u - u**3 + wave(p, s) * bump

    t = problem.time.points.numpy()
    found = solve_ivp(slope, (0, 4), np.full(n + 1, 0.5), "DOP853", t, rtol=1e-10, atol=1e-11)
    assert np.abs(problem.solve(forcing)[0].numpy() - found.y.T[:, ::8]).max() < 1e-5


# -- periodic boxes --------------------------------------------------------------------------------------------


def solved(equation, forcing, times, mesh):
    return solve_periodic(equation, forcing, times, mesh, None, lambda: None)[0]


@pytest.mark.parametrize("axes", [2, 3])
def test_taylor_green_decays(axes):
    nu, n = 0.01, 16
    base = vorticity_equation(nu, axes)
    green = lambda x: torch.sin(2 * PI * x[:, 0]) * torch.sin(2 * PI * x[:, 1])  # noqa: E731
    equation = PeriodicEquation(base.linear, base.nonlinear, green, axes)
    times = torch.linspace(0, 1, 4, dtype=torch.float64)
    w = solved(equation, OneForcing(lambda t, x: 0 * x[:, 0]), times, Mesh(n, n, 10))
    start = green(FourierBox(n, axes, 1.0, torch.device("cpu")).points)
    expected = torch.exp(-8 * PI**2 * nu * times)[:, None] * start
    assert (w[0] - expected).abs().max() < 1e-12


def manufactured(nu: float, axes: int):
    """w = g(z) (a(t) A + b(t) B) + m(t, z), with ψ-eigenfunctions A and B whose flows advect each other.

    A = sin(kx) cos(2ky), B = cos(k(x + y)); -Δ_12 gives 5k² and 2k². In 3-D each layer is scaled by g and lifted by
    m, which carries no velocity. Returns w(t, x) and its forcing, all derivatives by hand.
    """
    k = 2 * PI

    def parts(x):
        s, c = torch.sin(k * x[:, 0]), torch.cos(k * x[:, 0])
        s2, c2 = torch.sin(2 * k * x[:, 1]), torch.cos(2 * k * x[:, 1])
        s3, c3 = torch.sin(k * (x[:, 0] + x[:, 1])), torch.cos(k * (x[:, 0] + x[:, 1]))
        # value, d/dx, d/dy
        return (s * c2, k * c * c2, -2 * k * s * s2), (c3, -k * s3, -k * s3)

    def layers(t, x):
        if axes == 2:
            return 1.0, 0.0, 0.0, 0.0, 0.0
        z = k * x[:, 2]
        g, g_zz = 1 + 0.5 * torch.cos(z), -0.5 * k**2 * torch.cos(z)
        wave = torch.cos(2 * z)
        return g, g_zz, np.sin(t) * wave, np.cos(t) * wave, -4 * k**2 * np.sin(t) * wave

    def solution(t, x):
        (a_, *_), (b_, *_) = parts(x)
        g, _, m, _, _ = layers(t, x)
        return g * (np.cos(t) * a_ + (1 + 0.5 * np.sin(3 * t)) * b_) + m

    def forcing(t, x):
        (a_, ax, ay), (b_, bx, by) = parts(x)
        a, a_t = np.cos(t), -np.sin(t)
        b, b_t = 1 + 0.5 * np.sin(3 * t), 1.5 * np.cos(3 * t)
        g, g_zz, _, m_t, m_zz = layers(t, x)
        psi_x, psi_y = a * ax / (5 * k**2) + b * bx / (2 * k**2), a * ay / (5 * k**2) + b * by / (2 * k**2)
        w_x, w_y = a * ax + b * bx, a * ay + b * by
        advection = g**2 * (psi_y * w_x - psi_x * w_y)
        spread = g * (-5 * k**2 * a * a_ - 2 * k**2 * b * b_) + g_zz * (a * a_ + b * b_) + m_zz
        return g * (a_t * a_ + b_t * b_) + m_t + advection - nu * spread

    return solution, forcing


@pytest.mark.parametrize("axes", [2, 3])
def test_vorticity_agrees_with_a_manufactured_forced_solution(axes):
    nu, n = 0.01, 16
    solution, forcing = manufactured(nu, axes)
    base = vorticity_equation(nu, axes)
    equation = PeriodicEquation(base.linear, base.nonlinear, lambda x: solution(0.0, x), axes)
    x = FourierBox(n, axes, 1.0, torch.device("cpu")).points
    moved = forcing(0.3, x) - forcing(0.0, x)
    assert moved.abs().max() > 0.1  # the forcing changes in time, so holding it over a step would fail
    times = torch.linspace(0, 0.6, 4, dtype=torch.float64)
    truth = torch.stack([solution(t, x) for t in times.tolist()])
    w = solved(equation, OneForcing(forcing), times, Mesh(n, n, 20))
    assert (w[0] - truth).abs().max() < 1e-7


def test_the_3d_sum_is_the_3d_solution():
    """The data are computed as w = W(t, x1, x2) + g(t, x3); compare with the general solver in three dimensions."""
    nu, mesh = 0.001, Mesh(12, 36, 6)
    forcing = sine_fourier((1, 2, 3)).sample(0, 0, range(1))
    times = torch.linspace(0, 0.2, 3, dtype=torch.float64)
    whole = solved(vorticity_equation(nu, 3), forcing, times, mesh)
    heat = PeriodicEquation(lambda box: -nu * box.k[0] ** 2, lambda v, box: 0 * v, fourier_initial)
    plane = solved(vorticity_equation(nu, 2), Forcing(sine_fourier((1, 2)), forcing.params), times, mesh)
    line = solved(heat, Forcing(sine_fourier((3,)), forcing.params), times, mesh)
    assert torch.allclose(whole, (plane[..., :, None] + line[..., None, :]).flatten(2), atol=1e-12)


def test_the_3d_problem_is_the_3d_solution():
    problem = tino.problem("advection-diffusion-3d", resolution=12)
    forcing = problem.law.sample(0, 0, range(1))
    times = problem.time.points[:3]
    whole = solved(vorticity_equation(0.001, 3), forcing, times, Mesh(12, 48, 3))
    assert (problem.evolve(forcing, times)[0] - whole).abs().max() < 1e-5


@pytest.mark.parametrize(("name", "nu", "n"), [("burgers-0.1", 0.1, 128), ("burgers-0.01", 0.01, 384)])
def test_burgers_agrees_with_its_semi_discrete_system(name, nu, n):
    problem = tino.problem(name)
    forcing, p = drawn(problem)
    x, k = np.arange(n) / n, 2 * PI * np.arange(n // 2 + 1)
    modes = np.arange(1, 11)[:, None]
    waves, turned = np.sin(2 * PI * modes * x), np.cos(2 * PI * modes * x)
    profile = ((p["a_1"][:, None] * waves + p["b_1"][:, None] * turned) / modes**2).sum(0)
    keep = np.arange(n // 2 + 1) < n / 3

    def slope(s, u):
        spectrum = np.fft.rfft(u)
        change = -nu * k**2 * spectrum - 0.5j * k * keep * np.fft.rfft(u**2)
        return np.fft.irfft(change, n) + wave(p, s) * profile

    start = ((waves + turned) / modes**2).sum(0)
    end = 25
    u, _ = problem.evolve(forcing, problem.time.points[: end + 1])
    t = float(problem.time.points[end])
    found = solve_ivp(slope, (0, t), start, "DOP853", [t], rtol=1e-12, atol=1e-12).y[:, 0]
    assert np.abs(u[0, -1].numpy() - found[:: n // 128]).max() < 1e-5


def test_the_rational_flux_agrees_with_its_semi_discrete_system():
    problem = tino.problem("rational-flux")
    forcing, p = drawn(problem)
    n = 256
    x, k, modes = np.arange(n) / n, 2 * PI * np.arange(n // 2 + 1), np.arange(1, 11)[:, None]
    waves, turned = np.sin(2 * PI * modes * x), np.cos(2 * PI * modes * x)
    profile = ((p["a_1"][:, None] * waves + p["b_1"][:, None] * turned) / modes**2).sum(0)

    def slope(s, u):
        flux = 0.2 * (u / 0.2) ** 2 / (1 + (u / 0.2) ** 2)
        change = -0.03 * k**2 * np.fft.rfft(u) - 1j * k * np.fft.rfft(flux)
        return np.fft.irfft(change, n) + wave(p, s) * profile

    start = ((waves + turned) / modes**2).sum(0)
    end = 100
    u, state = problem.evolve(forcing, problem.time.points[: end + 1])
    t = float(problem.time.points[end])
    found = solve_ivp(slope, (0, t), start, "LSODA", [t], rtol=1e-10, atol=1e-11).y[:, 0]
    assert np.abs(u[0, -1].numpy() - found[::2]).max() < 1e-6
    assert abs(state[0, 0]) / n < 1e-14  # the mean stays zero


def test_the_rational_flux_is_resolved_and_no_parabola():
    problem = tino.problem("rational-flux")
    u = problem.solve(drawn(problem, 40)[0])
    spectrum = torch.fft.rfft(u).abs()
    assert (spectrum[..., -1] / spectrum.amax(-1)).max() < 1e-5
    late = u[:, 50:].abs().amax((1, 2))  # after t = 1, the initial field gone
    assert (late > 0.2).double().mean() > 0.9  # past the bend of the flux


def test_the_3d_problem_s_sensors_are_its_forcing():
    with pytest.warns(tino.TinoWarning, match=r"modes 8 \(its sine vanishes\), 9 \(seen as 7\), 10 \(seen as 6\)"):
        train, _ = tino.dataset(tino.problem("advection-diffusion-3d", n_t=4), train=1, test=1, show_progress=False)
    forcing = sine_fourier((1, 2, 3)).sample(0, 0, range(1))
    p = {k: v[0].flatten().numpy() for k, v in forcing.params.items()}
    n = np.arange(1, 11)
    x = np.array([3, 7, 11]) / 16
    total = sum(
        ((p[f"a_{i}"] * np.sin(2 * PI * n * x[i - 1]) + p[f"b_{i}"] * np.cos(2 * PI * n * x[i - 1])) / n**2).sum()
        for i in (1, 2, 3)
    )
    at = (3 * 16 + 7) * 16 + 11
    assert float(train.f[0, 2, at]) == pytest.approx(wave(p, 2 / 3) * total, rel=1e-5)
    start = sum(((np.sin(2 * PI * n * x[i]) + np.cos(2 * PI * n * x[i])) / n**2).sum() for i in range(3))
    assert float(train.u[0, 0, at]) == pytest.approx(start, abs=1e-5)


def test_means_are_conserved():
    for name in ("burgers-0.1", "navier-stokes", "advection-diffusion-3d"):
        problem = tino.problem(name, n_t=9, resolution=24)
        forcing, _ = drawn(problem, 2)
        means = problem.solve(forcing).mean(-1)  # forcing and initial field have zero mean, and advection conserves it
        assert means.abs().max() < 1e-12, name


@pytest.mark.parametrize(
    ("name", "nu", "n"), [("burgers-0.1", 0.1, 32), ("rational-flux", 0.03, 128), ("navier-stokes", 0.01, 32)]
)
def test_energy_and_enstrophy_balance(name, nu, n):
    """d/dt <u²>/2 = -ν <|∇u|²> + <f u>; the advection term, or that of any flux of u, cancels."""
    problem = tino.problem(name, n_t=401, resolution=n)
    forcing, _ = drawn(problem)
    u, f = problem.solve(forcing)[0], problem.sensors(forcing)[0]
    axes = len(problem.outputs.shape)
    box = FourierBox(n, axes, 1.0, torch.device("cpu"))
    spectrum = box.forward(u)
    gradient = sum(box.backward(1j * k * spectrum).flatten(1).square().mean(1) for k in box.k)
    rate = -nu * gradient + (f * u).mean(1)
    stored = 0.5 * u.square().mean(1)
    start = 100  # by then the modes above the output grid's Nyquist limit have decayed
    gained = simpson(rate[start:].numpy(), x=problem.time.points[start:].numpy())
    assert float(stored[-1] - stored[start]) == pytest.approx(gained, rel=2e-3, abs=1e-6)


def test_advection_reaction_agrees_along_characteristics():
    problem = tino.problem("advection-reaction", n_t=41)
    forcing, p = drawn(problem)
    u = problem.solve(forcing)[0]
    n = np.arange(1, 11)
    profile = lambda x: ((p["a_1"] * np.sin(2 * PI * n * x) + p["b_1"] * np.cos(2 * PI * n * x)) / n**2).sum()  # noqa: E731
    for i, j in ((40, 5), (17, 90), (9, 64)):
        t = float(problem.time.points[i])
        foot = j / 128 - np.sin(t)
        slope = lambda s, y, foot=foot: wave(p, s) * profile(foot + np.sin(s)) - np.sin(0.1 * y)  # noqa: E731
        start = ((np.sin(2 * PI * n * foot) + np.cos(2 * PI * n * foot)) / n**2).sum()
        end = solve_ivp(slope, (0, t), [start], "DOP853", rtol=1e-11, atol=1e-12).y[0, -1]
        assert float(u[i, j]) == pytest.approx(end, abs=1e-7)


def test_the_upwind_scheme_smears():
    exact, smeared = (tino.problem("advection-reaction", scheme=s) for s in ("characteristics", "upwind"))
    forcing, _ = drawn(exact, 2)
    error = (exact.solve(forcing) - smeared.solve(forcing)).square().mean()
    assert 1e-4 < error < 1e-1  # first order: it converges, but is far from converged here
    fine = smeared.solve(forcing, refine=8)
    assert (exact.solve(forcing) - fine).square().mean() < error / 10


# -- the triangle ----------------------------------------------------------------------------------------------


def test_the_triangle_agrees_with_finite_elements():
    import skfem
    from scipy.sparse.linalg import splu
    from skfem.models.poisson import laplace, mass

    problem = tino.problem("heat-triangle", n_t=6)
    forcing, p = drawn(problem)
    corners = np.array([[0, 1, 0.5], [0, 0, np.sqrt(3) / 2]])
    mesh = skfem.MeshTri(corners, np.array([[0], [1], [2]])).refined(5)
    basis = skfem.Basis(mesh, skfem.ElementTriP2())
    stiff, weight = laplace.assemble(basis), mass.assemble(basis)
    x, y = basis.doflocs
    bump = np.exp(-((x - p["x_1c"][0]) ** 2 + (y - p["x_2c"][0]) ** 2) / (2 * p["sigma"][0] ** 2))
    steps, t = 100, 0.0
    h = 1 / steps
    left, right = splu((weight + 0.005 * h / 2 * stiff).tocsc()), weight - 0.005 * h / 2 * stiff
    u = np.zeros_like(bump)
    for _ in range(steps):  # Crank-Nicolson
        u = left.solve(right @ u + h * weight @ bump * (wave(p, t) ** 2 + wave(p, t + h) ** 2) / 2)
        t += h
    points = problem.outputs.points.numpy().T
    points = points * (1 - 1e-9) + 1e-9 * np.array([[0.5], [0.28]])  # off the boundary, for the element search
    reference = basis.probes(points) @ u
    assert np.abs(problem.solve(forcing)[0, -1].numpy() - reference).max() < 2e-5


def test_the_triangle_s_heat_balances():
    """With insulated sides, the mean temperature is the mean of the heat supplied."""
    problem = tino.problem("heat-triangle", n_t=6)
    forcing, p = drawn(problem)
    _, coefficients = problem.evolve(forcing, problem.time.points)
    mean = int((TriangleModes.make(384).k.norm(dim=1) == 0).nonzero()[0])

    def bump(y, x):
        return np.exp(-((x - p["x_1c"][0]) ** 2 + (y - p["x_2c"][0]) ** 2) / (2 * p["sigma"][0] ** 2))

    left = dblquad(bump, 0, 0.5, 0, lambda x: np.sqrt(3) * x)[0]
    right = dblquad(bump, 0.5, 1, 0, lambda x: np.sqrt(3) * (1 - x))[0]
    put_in = quad(lambda s: wave(p, s) ** 2, 0, 1)[0] * (left + right) / (np.sqrt(3) / 4)
    assert float(coefficients[0, mean].real) == pytest.approx(put_in, rel=1e-5)


def test_the_triangle_s_points_lie_inside():
    grid = tino.Triangle(32)
    x, y = grid.points.T
    assert bool((y >= 0).all() and (y <= np.sqrt(3) * torch.minimum(x, 1 - x) + 1e-9).all())
    assert grid.size == int(grid.inside.sum()) == len(grid.points)


# -- windows ---------------------------------------------------------------------------------------------------


def test_windows_are_stretches_of_trajectories():
    problem, whole = tino.problem("navier-stokes-ic", resolution=24), tino.problem("navier-stokes", resolution=24)
    train, test = tino.dataset(problem, train=2, test=1, show_progress=False)
    assert train.f.shape == (18, 20, 576)
    assert test.u.shape == (9, 20, 576)
    assert train.ic is not None
    assert train.time == tino.TimeGrid(0.0, 19 * whole.time.step, 20)
    forcing = whole.law.sample(0, 0, range(2))
    w, f = whole.solve(forcing).float(), whole.sensors(forcing).float()
    for trajectory, k in ((0, 1), (1, 1), (1, 9)):
        sample, first = 9 * trajectory + k - 1, 10 * (k - 1)
        assert torch.allclose(train.u[sample], w[trajectory, first : first + 20], atol=1e-6)
        assert torch.allclose(train.f[sample], f[trajectory, first : first + 20], atol=1e-6)
        assert torch.equal(train.ic[sample], train.u[sample, 0])


# -- time invariance of the problems themselves ------------------------------------------------------------------

PAPER = {  # T, n_t, sensors, points, and the equation's constants, as printed
    "fitting-time": (10, 1000, 1, 1, {}),
    "fitting-space": (4, 200, 128, 128, {}),
    "duffing": (10, 1000, 1, 1, {"damping": 1.0}),
    "gradient-flow": (10, 1000, 1, 1, {}),
    "lorenz": (10, 1000, 1, 1, {"rho": 10.0}),
    "allen-cahn": (4, 200, 128, 128, {"epsilon": 0.01}),
    "burgers-0.1": (4, 200, 128, 128, {"nu": 0.1}),
    "burgers-0.01": (4, 200, 128, 128, {"nu": 0.01}),
    "convection-diffusion": (4, 200, 128, 128, {"diffusion": 0.01, "velocity": 0.1}),
    "navier-stokes": (2, 100, 1024, 1024, {"nu": 0.01}),
    "navier-stokes-ic": (2, 100, 1024, 1024, {"nu": 0.01}),
    "advection-diffusion-3d": (1, 50, 4096, 4096, {"nu": 0.001}),
    "heat-triangle": (1, 100, 432, 432, {"alpha": 0.005}),
    "advection-reaction": (4, 200, 128, 128, {}),
}
BEYOND = ["pendulum", "rational-flux"]  # not in the paper
AT_REST = {"fitting-space", "duffing", "gradient-flow", "heat-triangle", "pendulum"}
CLOCKED = {"fitting-time", "advection-reaction"}


def test_a_problem_has_a_section_where_it_is_in_the_paper():
    assert {*PAPER, *BEYOND} == set(tino.problem_names())
    assert [name for name in tino.problem_names() if not tino.problem(name).section] == BEYOND
    assert set(paper.PAPER) == set(PAPER)


@pytest.mark.parametrize("name", [*PAPER, *BEYOND])
def test_problems_are_as_time_invariant_as_their_equations(name):
    small = {"resolution": 24} if name.startswith("navier") else {}
    found = measure_invariance(tino.problem(name, **small))
    assert found.time_invariant == (name in AT_REST)
    assert found.autonomous == (name not in CLOCKED)


RANGES = {
    "A": (0.1, 1.0),
    "b": (0.2, 1.0),
    "c": (0.0, 2 * PI),
    "mu": (0.25, 0.75),
    "sigma": (0.1, 0.4),
    "x_1c": (0.3, 0.7),
    "x_2c": (0.3, 0.7),
}


@pytest.mark.parametrize("name", PAPER)
def test_constants_are_the_paper_s(name):
    problem = tino.problem(name)
    stop, n_t, sensors, points, constants = PAPER[name]
    assert (problem.time.start, problem.time.stop, problem.time.n) == (0.0, stop, n_t)
    assert (problem.inputs.size, problem.outputs.size) == (sensors, points)
    assert {key: problem.options[key] for key in constants} == constants
    for key, found in problem.law.ranges.items():
        expected = (-1.0, 1.0) if key[:2] in ("a_", "b_") else RANGES[key]
        if points == 1:
            expected = {"A": (0.5, 2.0), "b": (0.1, 2.0), "c": (0.0, 2 * PI)}[key]
        if name == "heat-triangle" and key == "sigma":
            expected = (0.2, 0.3)
        assert (found.low, found.high) == pytest.approx(expected)


def test_initial_states_are_the_paper_s():
    x = np.arange(128) / 128
    wavy = np.sum([(np.sin(2 * PI * n * x) + np.cos(2 * PI * n * x)) / n**2 for n in range(1, 11)], axis=0)
    bump = 3 * np.exp(-((np.linspace(0, 1, 128) - 0.5) ** 2) / 0.1)
    plane = (wavy[::4][:, None] + wavy[::4][None, :]).flatten()
    expected = {
        "burgers-0.1": wavy,
        "burgers-0.01": wavy,
        "advection-reaction": wavy,
        "allen-cahn": np.full(128, 0.5),
        "convection-diffusion": bump,
        "navier-stokes": plane,
        "duffing": np.zeros(1),
        "gradient-flow": np.zeros(1),
        "lorenz": np.ones(1),
        "pendulum": np.zeros(1),
        "rational-flux": wavy,
        "heat-triangle": np.zeros(432),
    }
    for name, start in expected.items():
        problem = tino.problem(name)
        u, _ = problem.evolve(drawn(problem)[0], problem.time.points[:2])
        assert np.allclose(u[0, 0], start, atol=1e-9), name


def test_without_its_clock_fitting_time_is_time_invariant():
    assert measure_invariance(tino.problem("fitting-time", clock="constant")).time_invariant


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("allen-cahn", {"boundary": "open"}, "boundary is 'open', expected one of neumann, frozen"),
        ("fitting-time", {"clock": "wrong"}, "clock is 'wrong'"),
        ("advection-reaction", {"scheme": "magic"}, "scheme is 'magic'"),
        ("navier-stokes-ic", {"n_t": 5}, "has no option 'n_t'"),
        ("heat-triangle", {"resolution": 2}, "4 x 4 or more"),
        ("burgers-0.1", {"resolution": 2}, "4 points or more"),
        ("burgers-0.1", {"n_t": 50.5}, "n_t is 50.5, expected a whole number"),
        ("duffing", {"damping": float("inf")}, "damping is inf, expected a finite number"),
        ("convection-diffusion", {"velocity": 1.0}, "velocity| <= 30 diffusion"),
        ("convection-diffusion", {"diffusion": 0.0}, "needs diffusion > 0"),
        ("navier-stokes", {"nu": -0.01}, "nu is -0.01, expected a number above 0"),
        ("navier-stokes-ic", {"nu": 0.0}, "nu is 0, expected a number above 0"),
        ("advection-diffusion-3d", {"nu": 0.0}, "nu is 0, expected"),
        ("allen-cahn", {"epsilon": 0.0}, "epsilon is 0, expected"),
        ("rational-flux", {"saturation": 0.0}, "saturation is 0, expected a number above 0"),
        ("rational-flux", {"nu": -1.0}, "nu is -1, expected a number above 0"),
        ("pendulum", {"amplitude": 0.0}, "amplitude is 0, expected a number above 0"),
        ("heat-triangle", {"alpha": -1.0}, "alpha is -1, expected"),
    ],
)
def test_impossible_options_are_one_line(name, options, message):
    with pytest.raises(tino.TinoError, match=re.escape(message)):
        tino.problem(name, **options)


def test_sizes_given_as_numbers_with_a_point_are_whole():
    assert tino.problem("duffing", n_t=50.0).time.n == 50


def test_aliased_modes_are_named_by_what_they_look_like():
    (first, _) = tino.problem("burgers-0.1", resolution=6).cautions()
    assert "3 (its sine vanishes), 4 (seen as 2), 5 (seen as 1), 6 (seen as 0)" in first
    assert "9 (its sine vanishes), 10 (seen as 2)" in first


def changed(name: str, option: str, value):
    """Another valid value of an option; the error message lists the choices of a string."""
    if isinstance(value, str):
        with pytest.raises(tino.TinoError) as refused:
            tino.problem(name, **{option: "?"})
        choices = str(refused.value).split("expected one of ")[1].split(", ")
        return next(other for other in choices if other != value)
    return value + 8 if isinstance(value, int) else 1.5 * value


def options_missing_from_the_record(name: str) -> list[str]:
    """The arguments of a factory that can change without changing the problem's record."""
    factory, fixed = base._FACTORIES[name]
    defaults = {k: p.default for k, p in inspect.signature(factory).parameters.items() if k != "name"} | fixed
    record = json.dumps(factory(name=name, **fixed).record())
    return [
        option
        for option, value in defaults.items()
        if json.dumps(factory(name=name, **fixed | {option: changed(name, option, value)}).record()) == record
    ]


@pytest.mark.parametrize("name", tino.problem_names())
def test_problems_that_differ_in_an_option_have_different_records(name):
    assert options_missing_from_the_record(name) == []


def softened(name: str, n_t: int = 8, softening: float = 1.0) -> tino.Problem:
    return forced_ode(name, lambda f, u: -softening * u, (0.0,), title="", equation="u' = -s u", n_t=n_t)


def test_an_option_that_misses_the_record_is_found(monkeypatch):
    monkeypatch.setattr(base, "_FACTORIES", {"bare": (softened, {})})  # past ``register``, which records options
    assert options_missing_from_the_record("bare") == ["softening"]
    register("registered")(softened)
    assert options_missing_from_the_record("registered") == []


@pytest.mark.parametrize("name", tino.problem_names())
def test_a_factory_called_directly_gives_the_same_options(name):
    registered, fixed = base._FACTORIES[name]
    factory = getattr(importlib.import_module(registered.__module__), registered.__name__)
    direct, looked_up = factory(name, **fixed), tino.problem(name)
    assert list(direct.options.items()) == list(looked_up.options.items())
    assert direct.record() == looked_up.record()


def test_options_given_by_position_are_recorded():
    assert duffing_problem("duffing", 50).options == tino.problem("duffing", n_t=50).options
    assert navier_stokes_ic("navier-stokes-ic").options == {"nu": 0.01, "resolution": 32}  # not those of navier-stokes


def test_an_option_that_json_cannot_hold_is_refused(monkeypatch):
    monkeypatch.setattr(base, "_FACTORIES", {})
    made = register("own")(lambda name, law=None: softened(name))
    with pytest.raises(tino.TinoError, match="own: law is of type InputLaw, expected a number"):
        made("own", law=sine_fourier())


def test_the_page_lists_every_option_with_its_default():
    page = Path(__file__).parent.parent.joinpath("docs", "problems.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for name in tino.problem_names():
        for option, default in problem_options(name).items():
            listed = [row for row in rows if row.startswith(f"| `{option}` |") and f"`{name}`" in row]
            if option in ("n_t", "resolution"):
                assert f"`--{option.replace('_', '-')}`" in page
            else:
                assert [f"| {default} |" in row for row in listed] == [True], f"{name} {option}"


def test_own_names_are_kept():
    with pytest.raises(tino.TinoError, match="one of tino's own problems"):
        register("duffing")(lambda name: tino.problem("lorenz"))


def test_large_grids_are_solved_in_smaller_chunks():
    assert tino.problem("advection-diffusion-3d").chunk == 40
    assert tino.problem("advection-diffusion-3d", resolution=64).chunk == 1


def test_a_file_is_no_problem_and_the_line_says_what_to_do_with_it():
    with pytest.raises(tino.TinoError, match=r"mine\.npz is a file, not a problem: read it with tino\.read_arrays"):
        tino.problem("mine.npz")
