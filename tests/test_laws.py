"""The formulas behind flows: least squares and products of coefficients, each against its definition in loops."""

import itertools
import math

import numpy as np
import pytest
import torch

import tino
from tino.least_squares import NormalEquations, gauss_newton
from tino.parts.coefficients import CoefficientLaw
from tino.parts.law import histories, window_moments
from tino.parts.warmup import Warmup


def seeded(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


# -- least squares -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["real", "complex"])
@pytest.mark.parametrize("terms", [None, (0, 2, 3)])
def test_normal_equations_are_least_squares(number, terms):
    x, y = seeded(50, 3, 5), seeded(50, 3, 2)
    if number == "complex":
        x, y = torch.complex(x, seeded(50, 3, 5).flip(0)), torch.complex(y, seeded(50, 3, 2).flip(0))
    x = x * 10.0 ** torch.arange(-2, 3)  # features of unlike sizes
    whole, parts = NormalEquations(), NormalEquations()
    whole.add(x, y)
    for some in torch.arange(50).split(13):
        parts.add(x[some], y[some])
    found = whole.solve(0.0, terms)
    kept = list(range(5) if terms is None else terms)
    for k in range(3):
        expected = np.linalg.lstsq(x[:, k, kept].numpy(), y[:, k].numpy(), rcond=None)[0]
        np.testing.assert_allclose(found[k].numpy(), expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(parts.solve(0.0, terms), found, rtol=1e-10, atol=1e-12)
    assert parts.rows == whole.rows == 50


def test_the_ridge_is_relative_to_the_largest_eigenvalue_of_scaled_features():
    x, y, ridge = seeded(40, 1, 4), seeded(40, 1, 1), 0.1
    equations = NormalEquations()
    equations.add(x, y)
    size = x[:, 0].square().sum(0).sqrt().numpy()
    a = x[:, 0].numpy() / size
    gram = a.T @ a
    expected = np.linalg.solve(gram + ridge * np.linalg.eigvalsh(gram)[-1] * np.eye(4), a.T @ y[:, 0].numpy())
    np.testing.assert_allclose(equations.solve(ridge)[0].numpy(), expected / size[:, None], rtol=1e-10)


def test_more_rows_after_a_solution_count():
    equations = NormalEquations()
    equations.add(torch.ones(1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, 1, dtype=torch.float64))
    assert float(equations.solve(0.0)) == 0.0
    equations.add(torch.ones(1, 1, 1, dtype=torch.float64), torch.ones(1, 1, 1, dtype=torch.float64))
    assert float(equations.solve(0.0)) == pytest.approx(0.5)


def test_gauss_newton_finds_a_decay_and_leaves_other_numbers_alone():
    """y = a exp(-b t) + c, with c held at its value."""
    t = torch.linspace(0, 3, 60, dtype=torch.float64)
    y = 2.5 * torch.exp(-1.7 * t) + 0.3
    active = torch.tensor([True, True, False])
    start = torch.tensor([1.0, 0.5, 0.3], dtype=torch.float64)
    x, error, effects = gauss_newton(lambda x: x[:, :1] * torch.exp(-x[:, 1:2] * t) + x[:, 2:] - y, start, active)
    np.testing.assert_allclose(x.numpy(), [2.5, 1.7, 0.3], rtol=1e-7)
    assert x[2] == start[2]
    assert error < 1e-14
    slopes = torch.stack([torch.exp(-1.7 * t), -2.5 * t * torch.exp(-1.7 * t)])
    size = slopes.square().mean(1).sqrt() * torch.tensor([2.5, 1.7])
    np.testing.assert_allclose(effects[:2].numpy(), size.numpy(), rtol=1e-3)
    assert effects[2] == 0
    everything, least, _ = gauss_newton(
        lambda x: x[:, :1] * torch.exp(-x[:, 1:2] * t) + x[:, 2:] - y, start + 0.5, ~active | active
    )
    np.testing.assert_allclose(everything.numpy(), [2.5, 1.7, 0.3], rtol=1e-6)
    assert least < 1e-14


def test_a_warmup_counts_its_terms_before_it_lists_them():
    for sources, moments in ((1, 5), (2, 5), (3, 2)):
        assert Warmup.terms(sources, moments) == Warmup(4, sources, 1, moments).weights.shape[1]
    with pytest.raises(tino.TinoError, match="more than 20000 terms"):
        Warmup(4, 100, 1, 5)


# -- products of coefficients --------------------------------------------------------------------------------


def naive_features(law: CoefficientLaw, past: np.ndarray, g: np.ndarray, i: int) -> list[float]:
    """The terms of one step in loops: past (lags, J), g (window, r), oldest first."""
    s = law.sizes
    states = [
        [past[s["delays"] * s["stride"] - d * s["stride"]][j] for j in range(s["states"])]
        for d in range(1, s["delays"] + 1)
    ]
    basis = window_moments(law.window, s["moments"]).numpy()
    moments = [
        [sum(basis[w, k] * g[w][r] for w in range(law.window)) for r in range(s["sources"])]
        for k in range(basis.shape[1])
    ]
    linear = [v for part in states for v in part] + [v for part in moments for v in part] + [1.0] * s["constant"]
    tau = 2 * i / (s["times"] - 1) - 1
    found = [v * math.cos(n * math.acos(tau)) for v in linear for n in range(1 + s["clock"])]
    base = [v for part in states for v in part[: s["products"]]]
    every = [v for part in moments[: s["cross"]] for v in part]
    half = [v for part in moments[: (min(s["cross"], len(moments)) + 1) // 2] for v in part]
    if s["degree"] > 1:
        for degree in range(2, s["degree"] + 1):
            found += [math.prod(c) for c in itertools.combinations_with_replacement(base, degree)]
        found += [a * b for a in base for b in every]
    if s["degree"] > 2:
        found += [a * b * c for a, b in itertools.combinations_with_replacement(base, 2) for c in half]
        found += [a * b for a, b in itertools.combinations_with_replacement(half, 2)]
    return found


SIZES = {
    "linear": dict(delays=1, stride=1, moments=0, products=0, degree=1, cross=0, constant=False, clock=0),
    "constant": dict(delays=2, stride=1, moments=2, products=0, degree=1, cross=0, constant=True, clock=0),
    "delays": dict(delays=3, stride=2, moments=4, products=2, degree=2, cross=3, constant=False, clock=0),
    "degree 3": dict(delays=2, stride=3, moments=3, products=1, degree=3, cross=3, constant=True, clock=0),
    "degree 5": dict(delays=1, stride=1, moments=4, products=2, degree=5, cross=4, constant=False, clock=0),
    "clock": dict(delays=2, stride=1, moments=0, products=2, degree=2, cross=1, constant=True, clock=3),
}


def law_of(sizes: dict[str, int], centred: bool = False) -> CoefficientLaw:
    return CoefficientLaw(4, 3, 2, 2, **sizes, centred=centred, times=20)  # pyright: ignore


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_terms_in_coefficients_are_these_products(sizes):
    law = law_of(sizes)
    past, g = seeded(5, law.lags, 2), seeded(5, law.window, 2)
    times = torch.tensor([1, 4, 7, 12, 19])
    found = law.features(past, g, times)
    assert found.shape == (5, law.count)
    for row in range(5):
        expected = naive_features(law, past[row].numpy(), g[row].numpy(), int(times[row]))
        np.testing.assert_allclose(found[row].numpy(), expected, rtol=1e-12, atol=1e-13)
    weights = seeded(law.count, 2)
    law.weights.data.copy_(weights)
    torch.testing.assert_close(law(past, g, times), found @ weights)


def test_moments_are_orthogonal_polynomials_over_the_window():
    basis = window_moments(9, 4)
    torch.testing.assert_close(basis.T @ basis, 9 * torch.eye(4, dtype=torch.float64))
    tau = torch.linspace(-1, 1, 9, dtype=torch.float64)
    for degree in range(4):
        powers = torch.stack([tau**k for k in range(degree + 1)], 1)
        left = basis[:, degree] - powers @ torch.linalg.lstsq(powers, basis[:, degree, None]).solution[:, 0]
        assert float(left.abs().max()) < 1e-12
    assert window_moments(2, 4).shape == (2, 2)
    assert torch.equal(window_moments(3, 0), torch.eye(3, dtype=torch.float64))


def test_histories_repeat_the_start_and_are_silent_before_it():
    law = law_of(SIZES["delays"])
    c, g = seeded(2, 12, 2), seeded(2, 12, 2) + 5
    past, inputs = histories(law, c, g)
    for i in range(12):
        for lag in range(1, law.lags + 1):
            torch.testing.assert_close(past[:, i, -lag], c[:, max(0, i - lag)])
        for back in range(law.window):
            expected = g[:, i - back] if i >= back else torch.zeros_like(g[:, 0])
            torch.testing.assert_close(inputs[:, i, -1 - back], expected)


def test_coefficients_are_those_of_the_deviation_from_the_middle():
    law = law_of(SIZES["linear"], centred=True)
    for name in ("middle", "to_state", "to_output", "to_input"):
        getattr(law, name).data.copy_(seeded(*getattr(law, name).shape))
    u = seeded(6, 4)
    torch.testing.assert_close(law.state(u), (u - law.middle) @ law.to_state)
    torch.testing.assert_close(law.output(law.state(u)), law.state(u) @ law.to_output + law.middle)


@pytest.mark.parametrize(("delays", "stride"), [(1, 1), (2, 1), (3, 4)])
def test_growth_is_that_of_the_recurrence_and_damping_ends_it(delays, stride):
    """Run without input for long, the state grows as |λ|ⁿ; damped, it does not."""
    law = law_of(dict(SIZES["linear"], delays=delays, stride=stride))
    law.weights.data[: 2 * delays] = seeded(2 * delays, 2)

    def measured() -> float:
        past, sizes = seeded(1, law.lags, 2), []
        for i in range(400 * stride):
            c = law(past, torch.zeros(1, law.window, 2, dtype=torch.float64), 0)
            past = torch.cat([past[:, 1:], c[:, None]], 1)
            if (i + 1) % (200 * stride) == 0:
                sizes.append(float(past.norm()))
        return (sizes[1] / sizes[0]) ** (1 / (200 * stride))

    assert law.growth() > 1.01
    assert measured() == pytest.approx(law.growth(), rel=0.02)
    largest = law.growth()
    kept = law.weights.data.clone()
    law.damp()
    assert law.growth() == pytest.approx(1, abs=1e-12)
    if delays == 1:  # only what grows is damped
        before, after = (torch.linalg.eigvals(w[:2]) for w in (kept, law.weights.data))
        expected = before / before.abs().clamp_min(1.0)
        torch.testing.assert_close(
            torch.view_as_real(after).sort(0).values, torch.view_as_real(expected).sort(0).values
        )
        assert not torch.allclose(before.abs(), before.abs().max())
        return
    for d in range(delays):
        rows = slice(2 * d, 2 * d + 2)
        torch.testing.assert_close(law.weights.data[rows], kept[rows] / largest ** (stride * (d + 1)))


def test_a_smaller_law_finds_its_terms_in_a_larger_one():
    for clock in (0, 2):
        large = law_of(dict(SIZES["degree 5"], clock=clock))
        past, g = seeded(3, large.lags, 2), seeded(3, large.window, 2)
        for degree, cross in ((1, 0), (2, 4), (3, 4)):
            small = law_of(dict(SIZES["degree 5"], degree=degree, cross=cross, clock=clock))
            places = list(small.places(large))
            torch.testing.assert_close(large.features(past, g, 3)[:, places], small.features(past, g, 3))
