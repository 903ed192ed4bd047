"""Solvers: observed orders, and comparisons with closed forms and third-party codes."""

import numpy as np
import pytest
import torch
from conftest import OneForcing
from scipy.integrate import quad

import tino
from tino.inputs import Forcing
from tino.problems.periodic import burgers_equation
from tino.solvers.advection import AdvectionEquation, along_characteristics, upwind
from tino.solvers.etd import etdrk4
from tino.solvers.march import Mesh
from tino.solvers.modes import solve_modes
from tino.solvers.runge_kutta import dormand_prince, rk4
from tino.solvers.spectral import PeriodicEquation, solve_periodic


def slope(steps: list[float], errors: list[float]) -> float:
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


# y' = -y² + f(t) with f chosen so that y = 1 / (2 + sin 3t): non-linear, forced, smooth
def exact(t):
    return 1 / (2 + np.sin(3 * t))


def forcing(t):
    y = 1 / (2 + torch.sin(3 * t))
    return -3 * torch.cos(3 * t) * y**2 + y**2


def by_interpolation(n: int) -> float:
    # most outputs lie inside steps, where the fourth-order interpolant has a local error of order five
    return by_dormand_prince(n, stride=4)


def by_dormand_prince(n: int, stride: int = 1) -> float:
    times = torch.linspace(0, 2, n + 1, dtype=torch.float64)
    y0 = torch.tensor([[exact(0.0)]], dtype=torch.float64)
    y = dormand_prince(lambda t, y: -(y**2) + forcing(t), y0, times, atol=np.inf, stride=stride)
    return float(np.abs(y[0, :, 0].numpy() - exact(times.numpy())).max())


def by_etdrk4(n: int) -> float:
    # the scheme integrates the linear part -3 y exactly
    linear = torch.tensor([-3.0], dtype=torch.float64)

    def nonlinear(t: float, v: torch.Tensor) -> torch.Tensor:
        return 3 * v - v**2 + forcing(torch.tensor([t], dtype=torch.float64))

    step = etdrk4(linear, nonlinear, 2 / n)
    return walk(step, n)


def by_rk4(n: int) -> float:
    def rhs(t: float, y: torch.Tensor) -> torch.Tensor:
        return -(y**2) + forcing(torch.tensor([t], dtype=torch.float64))

    return walk(rk4(rhs, 2 / n), n)


def walk(step, n: int) -> float:
    v = torch.tensor([exact(0.0)], dtype=torch.float64)
    errors = []
    for i in range(n):
        v = step(i * 2 / n, v)
        errors.append(abs(float(v) - exact((i + 1) * 2 / n)))
    return max(errors)


def by_modes(n: int) -> float:
    # y' = -3 y + a(t) with a = cos 5t, exactly (3 cos 5t + 5 sin 5t - 3 e^{-3t}) / 34
    times = torch.linspace(0, 2, n + 1, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)
    rate = torch.tensor([3.0], dtype=torch.float64)
    y, _ = solve_modes(rate, one, lambda t: torch.cos(5 * t)[None], one, times, 1, 0 * one, lambda: None)
    truth = (3 * torch.cos(5 * times) + 5 * torch.sin(5 * times) - 3 * torch.exp(-3 * times)) / 34
    return float((y[0, :, 0] - truth).abs().max())


def advected(solve, points: int, n: int, substeps: int) -> float:
    # u_t + cos(t) u_x = -u² + f with f chosen so that u = 2 + sin(kx - 3t)
    k = 2 * np.pi
    times = torch.linspace(0, 2, n + 1, dtype=torch.float64)

    def solution(t, x):
        return 2 + torch.sin(k * x - 3 * t)

    def source(t, points):
        x = points[:, 0]
        return (k * np.cos(t) - 3) * torch.cos(k * x - 3 * t) + solution(t, x) ** 2

    equation = AdvectionEquation(np.cos, np.sin, lambda u: -(u**2), lambda x: solution(0.0, x[:, 0]))
    u, _ = solve(equation, OneForcing(source), times, Mesh(points, points, substeps), None, lambda: None)
    x = torch.arange(points, dtype=torch.float64) / points
    return float((u[0] - solution(times[:, None], x)).abs().max())


def by_characteristics(n: int) -> float:
    return advected(along_characteristics, 16, n, 1)  # 16 points resolve this solution exactly


def by_upwind(n: int) -> float:
    return advected(upwind, n, n // 4, 16)  # a time step of half a cell


# a new solver adds one row here
@pytest.mark.parametrize(
    ("solve", "order", "counts"),
    [
        (by_dormand_prince, 5, [48, 96, 192]),
        (by_interpolation, 5, [192, 384, 768]),
        (by_rk4, 4, [32, 64, 128]),
        (by_etdrk4, 4, [16, 32, 64, 128]),
        (by_modes, 4, [8, 16, 32, 64]),
        (by_characteristics, 4, [32, 64, 128]),
        (by_upwind, 1, [256, 512, 1024]),
    ],
    ids=["dormand-prince", "its interpolant", "rk4", "etdrk4", "modes", "characteristics", "upwind"],
)
def test_observed_order(solve, order, counts):
    errors = [solve(n) for n in counts]
    assert slope([1 / n for n in counts], errors) == pytest.approx(order, abs=0.3)


def test_dormand_prince_keeps_its_tolerance_and_its_samples_apart():
    times = torch.linspace(0, 3, 4, dtype=torch.float64)  # much coarser than the steps needed
    frequencies = torch.tensor([[1.0], [40.0]], dtype=torch.float64)

    def solve(w: torch.Tensor) -> torch.Tensor:
        y0 = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(len(w), 2)
        rhs = lambda t, y: torch.cat([y[:, 1:], -(w**2) * y[:, :1]], dim=1)  # noqa: E731
        return dormand_prince(rhs, y0, times, rtol=1e-9, atol=1e-9)

    both = solve(frequencies)
    truth = torch.cos(frequencies * times)
    assert (both[:, :, 0] - truth).abs().max() < 1e-6
    assert torch.equal(both[:1], solve(frequencies[:1]))  # unaffected by the fast sample in the batch


def test_fitting_space_agrees_with_quadrature():
    problem = tino.problem("fitting-space", n_t=9, resolution=9)
    forcings = problem.law.sample(3, 0, range(2))
    u = problem.solve(forcings)
    x = lambda v: torch.tensor([[v]], dtype=torch.float64)  # noqa: E731
    for sample in range(2):
        one = Forcing(problem.law, {k: p[sample : sample + 1] for k, p in forcings.params.items()})
        for i, j in ((4, 5), (8, 8), (8, 1)):
            t, y = float(problem.time.points[i]), float(problem.outputs.points[j])
            in_time = quad(lambda s: float(one.amplitude(x(s)[0])) ** 2, 0, t)[0]  # noqa: B023
            # the printed form: 1/2 ∫_0^y K(z/2, y/2) f(s, z/2)² dz, K(x, y) = x y + 1
            in_space = quad(lambda z: (z / 2 * y / 2 + 1) * float(one.on(x(z / 2))) ** 2, 0, y)[0]  # noqa: B023
            assert float(u[sample, i, j]) == pytest.approx(in_time * in_space / 2, rel=1e-9, abs=1e-12)


def test_burgers_agrees_with_cole_hopf():
    # θ = 1 + ½ cos(2πx) e^{-ν 4π² t} solves the heat equation, so u = -2 ν θ_x / θ solves Burgers unforced
    nu, n = 0.02, 64
    times = torch.linspace(0, 1, 11, dtype=torch.float64)

    def cole_hopf(t, x):
        decay = 0.5 * torch.exp(-nu * 4 * np.pi**2 * t)
        theta = 1 + decay * torch.cos(2 * np.pi * x)
        return 2 * nu * decay * 2 * np.pi * torch.sin(2 * np.pi * x) / theta

    base = burgers_equation(nu)
    equation = PeriodicEquation(base.linear, base.nonlinear, lambda x: cole_hopf(times[0], x[:, 0]))
    unforced = OneForcing(lambda t, x: 0 * x[:, 0])
    u = solve_periodic(equation, unforced, times, Mesh(n, 2 * n, 20), None, lambda: None)[0][0]
    x = torch.arange(n, dtype=torch.float64) / n
    assert (u - cole_hopf(times[:, None], x)).abs().max() < 1e-10


def test_burgers_agrees_with_a_manufactured_forced_solution():
    # u = c + a sin(kx - 2t), a = 1 + sin(3t)/2, is advected and forced in time, so a wrong sign of the advection or a
    # forcing held over a step would fail. f = u_t + u u_x - ν u_xx, differentiated by hand.
    nu, k, c, n = 0.05, 2 * np.pi, 0.7, 64
    times = torch.linspace(0, 1, 6, dtype=torch.float64)

    def solution(t, x):
        return c + (1 + 0.5 * np.sin(3 * t)) * torch.sin(k * x - 2 * t)

    def source(t, points):
        x = points[:, 0]
        a, rate = 1 + 0.5 * np.sin(3 * t), 1.5 * np.cos(3 * t)
        wave, slope = torch.sin(k * x - 2 * t), torch.cos(k * x - 2 * t)
        return rate * wave - 2 * a * slope + (c + a * wave) * a * k * slope + nu * k**2 * a * wave

    base = burgers_equation(nu)
    equation = PeriodicEquation(base.linear, base.nonlinear, lambda x: solution(0.0, x[:, 0]))
    x = torch.arange(n, dtype=torch.float64) / n
    errors = []
    for substeps in (10, 20, 40):
        mesh = Mesh(n, 2 * n, substeps)
        u = solve_periodic(equation, OneForcing(source), times, mesh, None, lambda: None)[0][0]
        truth = torch.stack([solution(t, x) for t in times.tolist()])
        errors.append(float((u - truth).abs().max()))
    assert errors[-1] < 1e-7
    assert slope([1, 0.5, 0.25], errors) > 3.7  # fourth order, forcing included


def test_a_first_step_too_long_is_cut_and_a_blow_up_is_told():
    times = torch.linspace(0, 1, 3, dtype=torch.float64)
    stiff = dormand_prince(lambda t, y: -1e3 * y**3, torch.full((1, 1), 2.0).double(), times)
    exact_end = 2 / np.sqrt(1 + 2 * 4 * 1e3)
    assert float(stiff[0, -1, 0]) == pytest.approx(exact_end, rel=1e-6)
    with pytest.raises(tino.TinoError, match=r"blows up near t = 0\.5"):
        dormand_prince(lambda t, y: y**2, torch.full((1, 1), 2.0).double(), times)


def test_an_oscillating_linear_part_is_refused():
    with pytest.raises(tino.TinoError, match="must be real"):
        etdrk4(torch.tensor([1j]), lambda t, v: v, 0.1)
