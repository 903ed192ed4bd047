"""Waves, the products of their fields, and equations of them, each against sums of e^{ik·x} that are written out."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import tino
from tino.parts.equation import EquationLaw
from tino.parts.fourier import Fourier
from tino.parts.pointwise import Pointwise
from tino.parts.wavenumbers import LOCAL, VORTICITY, WavenumberLaw


def seeded(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


# -- waves ---------------------------------------------------------------------------------------------------


class Box:
    """Random fields u(x) = Re Σ_k a_k e^{ik·x} of few waves, and sums over them written out."""

    def __init__(self, kind: str, fine: int = 40, highest: int = 3) -> None:
        self.mirrored, self.length = kind == "interval", 1.7
        axes = 2 if kind == "2-D" else 1
        both = range(-highest, highest + 1)
        kept = list(itertools.product(both, range(highest + 1))) if axes == 2 else [(k,) for k in range(highest + 1)]
        shape = [12, 10][:axes] if not self.mirrored else [11]
        self.waves = Fourier(shape, len(kept), [fine] * axes, self.mirrored)
        self.waves.kept.copy_(torch.tensor(kept))
        around = 2 * self.length if self.mirrored else self.length
        self.k = 2 * math.pi / around * np.array(kept, float)  # (k, axes)
        self.grid = self.points(shape, self.length / 10 if self.mirrored else None)
        self.fine = self.points([fine] * axes, around / fine)
        self.twice = np.array([2.0 if k[-1] else 1.0 for k in kept])  # e^{ik·x} and its conjugate

    def points(self, shape: list[int], step: float | None) -> np.ndarray:
        axes = [np.arange(n) * (step or self.length / n) for n in shape]
        return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(shape))

    def random(self, seed: int, batch: int = 2) -> np.ndarray:
        """û (b, k) of real fields."""
        rng = np.random.default_rng(seed)
        field = rng.standard_normal((batch, len(self.k))) + (0 if self.mirrored else 1j) * rng.standard_normal(
            (batch, len(self.k))
        )
        return self.coefficients(self.at(field, self.fine), self.fine)

    def at(self, v: np.ndarray, x: np.ndarray, *derivatives: int) -> np.ndarray:
        """u(x) or a derivative of it, by a direct sum."""
        for axis in derivatives:
            v = v * 1j * self.k[:, axis]
        return np.real((v * self.twice) @ np.exp(1j * x @ self.k.T).T)

    def coefficients(self, u: np.ndarray, x: np.ndarray) -> np.ndarray:
        """û_k = mean of u e^{-ik·x} over points that fill the (mirrored) box."""
        return u @ np.exp(-1j * x @ self.k.T) / len(x)

    def state(self, v: np.ndarray) -> torch.Tensor:
        """The state, from the field on its grid."""
        return self.waves.state(torch.from_numpy(self.at(v, self.grid)))


KINDS = ("periodic", "interval", "2-D")


@pytest.mark.parametrize("kind", KINDS)
def test_waves_are_sums_over_the_grid_and_back(kind):
    box = Box(kind)
    v = box.random(0)
    u = box.at(v, box.grid)
    c = box.state(v)
    np.testing.assert_allclose(box.waves.waves(c).numpy(), v, atol=1e-13)
    np.testing.assert_allclose(box.waves.output(c).numpy(), u, atol=1e-12)
    assert c.shape == (2, box.waves.size)
    np.testing.assert_allclose(box.waves.fine(torch.from_numpy(v)).flatten(1).numpy(), box.at(v, box.fine), atol=1e-12)
    k = torch.stack(box.waves.wavenumbers(box.length), 1).numpy()
    np.testing.assert_allclose(k, box.k)


@pytest.mark.parametrize("kind", KINDS)
def test_waves_below_the_cut_are_left_out(kind):
    box = Box(kind)
    v = box.random(0) * 10.0 ** (-2 * np.abs(box.k / box.k.max() * 3).round().max(1))
    shape = tuple(box.waves.sizes["shape"])
    grid = tino.Interval(2.0, 2.0 + box.length, 11) if kind == "interval" else tino.Periodic(box.length, shape)
    u = torch.from_numpy(box.at(v, box.grid))
    found = Fourier.of(grid, u, 1e-3, 1.5)
    size = np.sqrt((np.abs(v) ** 2).mean(0))
    expected = {tuple(k) for k, s in zip(box.waves.kept.tolist(), size, strict=True) if s > 1e-3 * size.max()}
    assert {tuple(k) for k in found.kept.tolist()} == expected
    every = Fourier.of(grid, u, 1e-9, 1.5)
    torch.testing.assert_close(every.output(every.state(u)), u)
    assert all(n >= 3 * int(every.kept[:, a].abs().max()) + 1 for a, n in enumerate(every.sizes["fine"]))


def local_terms(box: Box, v: np.ndarray, f0: np.ndarray, f1: np.ndarray) -> dict[str, np.ndarray]:
    """Each product on the fine points, and its coefficients by direct sums."""

    def at(*derivatives: int) -> np.ndarray:
        return box.at(v, box.fine, *derivatives)

    u, f, change = at(), box.at((f0 + f1) / 2, box.fine), box.at(f1 - f0, box.fine)
    found = {"u²": u**2, "u³": u**3, "u⁴": u**4, "u⁵": u**5, "u f": u * f, "u² f": u * u * f, "u f'": u * change}
    for a, x in enumerate("xy"[: box.k.shape[1]]):
        d, dd, ddd = at(a), at(a, a), at(a, a, a)
        found |= {f"u_{x}²": d * d, f"u u_{x}{x}": u * dd, f"u u_{x}²": u * d * d, f"u² u_{x}{x}": u * u * dd}
        found |= {f"u_{x} u_{x}{x}": 1j * d * dd, f"u u_{x}{x}{x}": 1j * u * ddd, f"u_{x} f": 1j * d * f}
    return {name: box.coefficients(product, box.fine) for name, product in found.items()}


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_local_terms_are_these_products(kind, order):
    box = Box(kind, fine=30 if kind == "2-D" else 40)
    law = WavenumberLaw(box.waves, box.length, LOCAL, order, constant=True, clock=0, times=10)
    v, f0, f1 = (box.random(seed) for seed in (1, 2, 3))
    found = law.features(box.state(v)[:, None], torch.stack([box.state(f0), box.state(f1)], 1), 3)
    assert found.shape == (2, len(box.k), law.count)
    expected = local_terms(box, v, f0, f1)
    together = np.stack([v, f0, f1, np.ones_like(v), *[expected[name] for name in law.names]], -1)
    np.testing.assert_allclose(
        found.numpy(), np.real(together) if law.real else together, atol=1e-9 * np.abs(together).max()
    )
    assert len(law.names) == len(set(law.names)) == [0, 2, 6 + 2 * box.k.shape[1], 7 + 7 * box.k.shape[1]][order]


def test_a_step_per_wavenumber_is_the_sum_of_its_terms():
    for kind in KINDS:
        box = Box(kind)
        law = WavenumberLaw(box.waves, box.length, LOCAL, 1, constant=False, clock=2, times=10)
        law.weights.data.copy_(seeded(*law.weights.shape))
        past, g = box.state(box.random(1))[:, None], torch.stack([box.state(box.random(s)) for s in (2, 3)], 1)
        plain = WavenumberLaw(box.waves, box.length, LOCAL, 1, constant=False, clock=0, times=10).features(past, g, 0)
        tau = 2 * 4 / 9 - 1
        clock = [1, tau, 2 * tau * tau - 1]
        terms = [plain[..., q] * t for q in range(3) for t in clock] + [plain[..., 3], plain[..., 4]]
        factors = law.weights.data if law.real else torch.view_as_complex(law.weights.data)
        expected = sum(factors[:, q] * term for q, term in enumerate(terms))
        torch.testing.assert_close(box.waves.waves(law(past, g, 4)), expected + 0j)


def test_vorticity_is_carried_by_its_own_velocity():
    """S(a, b) = v(a)·∇b + v(b)·∇a with v = (ψ_y, -ψ_x), -Δψ = a, all by direct sums."""
    box = Box("2-D", fine=14)
    law = WavenumberLaw(box.waves, box.length, VORTICITY, 3, constant=False, clock=0, times=10)
    square = (box.k**2).sum(1)

    def s(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        total = np.zeros((len(a), len(box.fine)))
        for one, other in ((a, b), (b, a)):
            psi = one * np.where(square > 0, 1 / np.where(square > 0, square, 1.0), 0.0)
            vx, vy = box.at(psi, box.fine, 1), -box.at(psi, box.fine, 0)
            total += vx * box.at(other, box.fine, 0) + vy * box.at(other, box.fine, 1)
        return box.coefficients(total, box.fine)

    def laplace(a: np.ndarray) -> np.ndarray:
        return -square / square.max() * a

    w, f0, f1 = (box.random(seed) for seed in (1, 2, 3))
    f, n, lw = (f0 + f1) / 2, s(w, w), laplace(w)
    expected = {
        "N=S(w,w)": n, "S(w,f)": s(w, f), "S(w,Δw)": s(w, lw), "S(w,N)": s(w, n), "S(w,f')": s(w, f1 - f0),
        "S(w,Δf)": s(w, laplace(f)), "S(f,f)": s(f, f), "S(w,S(w,f))": s(w, s(w, f)), "S(f,N)": s(f, n),
        "S(f,Δw)": s(f, lw), "S(w,ΔΔw)": s(w, laplace(lw)), "S(Δw,Δw)": s(lw, lw), "S(w,ΔN)": s(w, laplace(n)),
        "S(N,N)": s(n, n), "S(w,S(w,N))": s(w, s(w, n)), "S(w,S(w,Δw))": s(w, s(w, lw)), "S(N,Δw)": s(n, lw),
    }  # fmt: skip
    found = law.features(box.state(w)[:, None], torch.stack([box.state(f0), box.state(f1)], 1), 3).numpy()
    assert law.names == list(expected)
    for q, (name, one) in enumerate(expected.items()):
        np.testing.assert_allclose(found[..., 3 + q], one, atol=1e-10 * np.abs(one).max(), err_msg=name)
    with pytest.raises(tino.TinoError, match="vorticity needs a periodic box of two or three dimensions"):
        WavenumberLaw(Box("periodic").waves, 1.0, VORTICITY, 1, constant=False, clock=0, times=10)


def test_decay_rates_are_those_of_each_wave():
    for kind in KINDS:
        box = Box(kind)
        law = WavenumberLaw(box.waves, box.length, LOCAL, 0, constant=False, clock=0, times=10)
        nu, dt = 0.01, 0.2
        square = torch.from_numpy((box.k**2).sum(1))
        kept = torch.exp(-nu * square * dt)
        law.weights.data[:, 0] = kept if law.real else torch.stack([kept * 0.6, -kept * 0.8], -1)
        found = np.array(law.rates(dt))
        np.testing.assert_allclose(found[:, 1], nu * found[:, 0] ** 2, atol=1e-12)
        np.testing.assert_allclose(found[:, 0], np.sort(square.sqrt().numpy()))
        law.weights.data[:, 0] *= 1.5
        assert law.growth() == pytest.approx(1.5)
        law.damp()
        assert law.growth() == pytest.approx(1, abs=1e-12)


# -- equations -----------------------------------------------------------------------------------------------


def right_hand_side(box: Box, coefficients: dict[str, float], v: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Σ of the named terms of u_t, in physical units, by direct sums."""
    k, square = box.k, (box.k**2).sum(1)
    u = box.at(v, box.fine)
    linear = {"f": f, "u": v, "u_x": 1j * k[:, 0] * v, "Δu": -square * v, "ΔΔu": square**2 * v}
    if k.shape[1] == 2:
        linear["u_y"] = 1j * k[:, 1] * v
        psi = v * np.where(square > 0, 1 / np.where(square > 0, square, 1.0), 0.0)
        carried = box.at(psi, box.fine, 1) * box.at(v, box.fine, 0) - box.at(psi, box.fine, 0) * box.at(v, box.fine, 1)
        linear["v·∇u"] = box.coefficients(carried, box.fine)
    total = np.zeros_like(v)
    for name, a in coefficients.items():
        if name in linear:
            total = total + a * linear[name]
            continue
        power = next(d for d, sign in enumerate("²³⁴⁵", 2) if sign in name)
        one = box.coefficients(u**power, box.fine)
        outer = -square if name.startswith("Δ") else 1j * k[:, "xy".index(name[-1])] if "_" in name else 1.0
        total = total + a * outer * one
    return total


@pytest.mark.parametrize("first", [False, True], ids=["later", "at the start"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_an_equation_solves_it(kind, first):
    """Against an adaptive solver, in the units of the data, with f a parabola or, at the start, a line."""
    degree = 3 if kind == "2-D" else 5
    box = Box(kind, fine=16 if kind == "2-D" else 24, highest=2 if kind == "2-D" else 3)
    dt, u_size, f_size = 0.3, 2.5, 40.0
    law = EquationLaw(box.waves, box.length, dt, 32, degree)
    law.scale.copy_(torch.tensor([u_size, f_size]))
    law.numbers.data.copy_(0.1 * torch.sign(seeded(len(law.names))) + 0.02 * seeded(len(law.names)))
    v, older, before, now = (box.random(seed, 1) for seed in (1, 2, 3, 4))
    v, older, before, now = (
        size * one / np.abs(box.at(one, box.grid)).max()
        for size, one in ((u_size, v), (f_size, older), (f_size, before), (f_size, now))
    )
    g = torch.stack([law.inputs(torch.from_numpy(box.at(one, box.grid))) for one in (older, before, now)], 1)
    if first:
        g[:, 0] = 0.0
        older = 2 * before - now
    past = law.state(torch.from_numpy(box.at(v, box.grid)))[:, None]

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        s = t / dt
        f = older * s * (s - 1) / 2 + before * (1 - s * s) + now * s * (s + 1) / 2
        return right_hand_side(box, law.coefficients(), y[None], f)[0]

    expected = solve_ivp(slope, (0, dt), v[0].astype(complex), method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    found = law.output(law(past, g, 5))[0].numpy()
    moved = np.abs(box.at(expected - v[0], box.grid)).max()
    assert moved > 0.05 * u_size
    np.testing.assert_allclose(found, box.at(expected, box.grid), atol=1e-7 * u_size)


def test_an_equation_is_written_with_its_largest_terms_first():
    law = EquationLaw(Box("periodic").waves, 1.7, 0.1, 4, 2)
    law.numbers.data[[law.names.index(name) for name in ("f", "Δu", "(u²)_x")]] = torch.tensor(
        [0.1, 0.2, -0.3], dtype=torch.float64
    )
    k = 2 * math.pi * 3 / 1.7
    assert law.equation() == f"u_t = - {3 / k:.4g} (u²)_x + {2 / k**2:.4g} Δu + 1 f"
    assert law.readout(0.1) == (law.equation(),)


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_at_points_is_this_formula(kind):
    """s [N(z) - N(0)] of u, its derivatives, the velocity, learned multipliers and f; flux in the other outputs."""
    box = Box(kind, fine=14)
    torch.manual_seed(0)
    network = Pointwise(box.waves, box.length, width=5, layers=2, filters=2)
    network.output.fill_(0.7)
    network.inputs.copy_(1 + seeded(len(network.inputs)).abs())
    v, f = box.random(1), box.random(2)
    own = network.multipliers.detach()
    filters = own.numpy() if box.mirrored else torch.view_as_complex(own).numpy()
    axes, square = box.k.shape[1], (box.k**2).sum(1)
    fields = [box.at(v, box.fine), *[box.at(v, box.fine, a) for a in range(axes)]]
    if axes == 2:
        psi = v * np.where(square > 0, 1 / np.where(square > 0, square, 1.0), 0.0)
        fields += [box.at(psi, box.fine, 1), -box.at(psi, box.fine, 0)]
    fields += [*[box.at(one * v, box.fine) for one in filters], box.at(f, box.fine)]
    z = np.stack(fields, -1) / network.inputs.numpy()
    read = z.copy()
    if box.mirrored:
        read[..., 1] **= 2
    with torch.no_grad():
        n = (network.net(torch.from_numpy(read)) - network.net(torch.zeros(z.shape[-1], dtype=torch.float64))).numpy()
        found = network(box.waves, torch.from_numpy(v), torch.from_numpy(f)).numpy()
        silent = network(box.waves, torch.zeros(1, len(box.k)) + 0j, torch.zeros(1, len(box.k)) + 0j)
    flux = n[..., 1:] * z[..., 1:2] if box.mirrored else n[..., 1:]
    expected = box.coefficients(n[..., 0], box.fine)
    for a in range(axes):
        expected = expected + 1j * box.k[:, a] * box.coefficients(flux[..., a], box.fine) * box.length / (2 * np.pi)
    np.testing.assert_allclose(found, 0.7 * expected, atol=1e-11)
    if box.mirrored:
        assert np.abs(found.imag).max() < 1e-12  # it stays even
    assert float(silent.abs().max()) < 1e-14


def test_wavenumbers_off_the_grid_are_refused():
    waves = Fourier([16], 2, [24], False)
    waves.load_state_dict({"kept": torch.tensor([[1], [7]])})
    for wrong in ([[1], [9]], [[1], [-2]]):
        with pytest.raises(RuntimeError, match="not on the grid"):
            waves.load_state_dict({"kept": torch.tensor(wrong)})
