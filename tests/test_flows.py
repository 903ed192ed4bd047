"""Flows fitted to systems that are known: what they recover, where they start, how they grow, and what is saved."""

import json
import math
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tino
from tino.files import sealed
from tino.models.closed import Search
from tino.models.equations import WORSE, Pairs
from tino.models.flow import Flow
from tino.models.rollouts import Rollouts
from tino.operator import Stretches
from tino.parts.coefficients import CoefficientLaw
from tino.parts.corrected import CorrectedLaw
from tino.parts.equation import EquationLaw
from tino.parts.law import histories
from tino.sizes import mean_square
from tino.training.objective import StretchesObjective

DT = 0.1
CLOSED = ("linear", "linear-clock", "polynomial", "polynomial-clock")


@pytest.mark.parametrize("problem", ["duffing", "burgers-0.1", "fitting-space", "heat-triangle"])
@pytest.mark.parametrize("name", ["linear", "polynomial", "linear-level"])
def test_no_more_laws_are_tried_than_were_counted(problem, name, small_data, monkeypatch):
    totals, tried = [], []

    @contextmanager
    def progress(_label, total, *_):
        totals.append(total)
        yield lambda n=1: tried.append(n)

    monkeypatch.setattr("tino.models.closed.progress", progress)
    train, _ = small_data(problem)
    tino.fit(tino.build(name, train), train)
    assert 0 < sum(tried) <= sum(totals)


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def recorded(f: Tensor, u: Tensor, lengths: Tensor | None = None) -> tino.Dataset:
    """Signals in time, one channel for each number."""
    time = tino.TimeGrid(0.0, DT * (f.shape[1] - 1), f.shape[1])
    names = [tuple(tino.Channel(f"{word}{n}") for n in range(v.shape[2])) for word, v in (("f", f), ("u", u))]
    point, (inputs, outputs) = tino.Point(), names
    return tino.Dataset(f, u, time, point, point, lengths=lengths, input_channels=inputs, output_channels=outputs)


def driven(step, f: Tensor, first: list[list[float]], seen: int | None = None) -> Tensor:
    """x_i = step(x_{i-1}, x_{i-2}, f_{i-1}, f_i); ``first`` are the states up to x_0."""
    past = [torch.tensor(x, dtype=torch.float64).expand(len(f), -1) for x in first]
    out = [past[-1]]
    for i in range(1, f.shape[1]):
        past = [*past[1:], step(past[-1], past[0], f[:, i - 1], f[:, i])]
        out.append(past[-1])
    return torch.stack(out, 1)[..., :seen]


def fitted(name: str, train: tino.Dataset, config: tino.TrainConfig | None = None, **options: int) -> Flow:
    torch.manual_seed(0)
    model = tino.build(name, train, **options)
    assert isinstance(model, Flow)
    tino.fit(model, train, config, show_progress=False)
    return model


def law_of(model: Flow) -> CoefficientLaw:
    assert isinstance(model.law, CoefficientLaw)
    return model.law


def equation_of(model: Flow) -> EquationLaw:
    assert isinstance(model.law, EquationLaw)
    return model.law


def miss(model: Flow, data: tino.Dataset) -> float:
    """The largest error of a channel, relative to its largest value."""
    u = tino.predict(model, data.f)
    error = (u - data.u.to(u)) if data.mask is None else (u - data.u) * data.mask[..., None]
    return float((error.abs().amax((0, 1)) / data.u.abs().amax((0, 1))).max())


def in_steps(model: Flow, f: Tensor) -> Tensor:
    state, u = model.start(f[:, 0])
    return torch.cat([u[:, None], model.run(state, f[:, 1:])[1]], 1)


A = torch.tensor([[0.9, 0.2], [-0.3, 0.8]], dtype=torch.float64)
B0 = torch.tensor([[0.5, -0.1], [0.0, 0.3]], dtype=torch.float64)
B1 = torch.tensor([[0.2, 0.4], [0.1, -0.6]], dtype=torch.float64)


def linear_system(
    n: int, times: int = 40, sizes: tuple[float, float] = (1.0, 1.0), f_size: float = 1.0
) -> tino.Dataset:
    f = noise(n, times, 2)
    u = driven(lambda x, _, f0, f1: x @ A + f0 @ B0 + f1 @ B1, f, [[0.0, 0.0]] * 2)
    return recorded(f * torch.tensor([1.0, f_size]), u * torch.tensor(sizes))


def quadratic_map(n: int, start: float = 0.0) -> tino.Dataset:
    f = noise(n, 40, 1).clamp(-2, 2)
    step = lambda x, _, f0, f1: 0.7 * x - 0.1 * x * x + 0.05 * x * f1 + 0.2 * f0 + 0.1 * f1 + 0.3 * start  # noqa: E731
    return recorded(f, driven(step, f, [[start]] * 2))


def oscillator(n: int, start: float = 0.0, times: int = 40) -> tino.Dataset:
    """x_i = 1.7 x_{i-1} - 0.8 x_{i-2} + f_i / 10, of which the second state is hidden."""
    f = noise(n, times, 1)
    return recorded(f, driven(lambda x, y, f0, f1: 1.7 * x - 0.8 * y + 0.1 * f1, f, [[0.0], [start]]))


# -- what they recover ---------------------------------------------------------------------------------------


def test_a_linear_flow_recovers_a_linear_system():
    train, test = linear_system(20), linear_system(5)
    assert miss(fitted("linear", train), test) < 1e-9
    model = fitted("linear", train, delays=1)
    law = law_of(model)
    found = (law.weights @ law.to_output).split(2)  # the state's, f_{i-1}'s and f_i's factors
    for part, scale, expected in zip(found, (law.to_state, law.to_input, law.to_input), (A, B0, B1), strict=True):
        torch.testing.assert_close(scale @ part, expected, rtol=1e-8, atol=1e-8)
    expected = torch.linalg.eigvals(A).log() / DT
    assert sorted(law.poles(DT).imag.tolist()) == pytest.approx(sorted(expected.imag.tolist()), abs=1e-6)
    assert law.poles(DT).real.tolist() == pytest.approx(expected.real.tolist(), abs=1e-6)


def test_a_polynomial_flow_recovers_a_quadratic_map():
    train, test = quadratic_map(20), quadratic_map(5)
    model = fitted("polynomial", train)
    assert miss(model, test) < 1e-8
    assert miss(fitted("linear", train), test) > 1e-3
    law = law_of(fitted("polynomial", train, degree=2, delays=1))
    named = dict(law.terms_by_size())
    assert named["u(i-1)"] == pytest.approx(0.7, abs=1e-8)
    assert named["u(i-1) u(i-1)"] == pytest.approx(-0.1, abs=1e-8)


def test_delays_stand_for_a_hidden_state():
    train, test = oscillator(20), oscillator(5)
    for name in ("linear", "polynomial"):
        model = fitted(name, train)
        assert miss(model, test) < 1e-8
        assert law_of(model).sizes["delays"] > 1
    assert miss(fitted("linear", train, delays=1), test) > 0.01
    named = dict(law_of(fitted("linear", train, delays=2)).terms_by_size())
    assert (named["u(i-1)"], named["u(i-2)"]) == pytest.approx((1.7, -0.8), abs=1e-8)


def test_channels_of_very_different_sizes_are_each_recovered():
    sizes = {"sizes": (1e6, 1e-4), "f_size": 1e3}
    assert miss(fitted("linear", linear_system(20, **sizes)), linear_system(5, **sizes)) < 1e-8
    assert miss(fitted("polynomial", linear_system(20, **sizes)), linear_system(5, **sizes)) < 1e-6


@pytest.fixture(scope="module")
def burgers(own_cache):
    """30 and 4 records with a short step, and the equation fitted to them."""
    data = tino.dataset(tino.problem("burgers-0.1", n_t=60, resolution=32), train=30, test=4, show_progress=False)
    return *data, fitted("equation", data[0], steps=4)


def test_an_equation_recovers_that_of_burgers(burgers):
    _, test, model = burgers
    found = {name: a for name, a in equation_of(model).coefficients().items() if a}
    assert found == pytest.approx({"f": 1.0, "Δu": 0.1, "(u²)_x": -0.5}, rel=1e-3)
    assert model.readout() == ("u_t = 0.1 Δu - 0.5 (u²)_x + 1 f",)
    assert miss(model, test) < 1e-4


def test_an_equation_is_in_the_units_of_the_data(burgers):
    """With u in thousandths and f a thousand times as large, ν stays and the other two change."""
    train, _, _ = burgers
    other = tino.Dataset(train.f * 50, train.u / 1000, train.time, train.inputs, train.outputs)
    found = equation_of(fitted("equation", other, steps=4, degree=2)).coefficients()
    assert {n: a for n, a in found.items() if a} == pytest.approx(
        {"f": 1 / 50_000, "Δu": 0.1, "(u²)_x": -500.0}, rel=1e-3
    )


@pytest.mark.parametrize("name", CLOSED)
def test_the_same_data_give_the_same_closed_form(name):
    one, two = (fitted(name, quadratic_map(20)).state_dict() for _ in range(2))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert one.keys() == two.keys()


def test_a_rollout_that_cannot_win_is_not_finished(burgers):
    """Below the bar the error is that of the whole records; above it the rest is not computed."""
    train, _, model = burgers
    rollouts, law = Rollouts.of(train), equation_of(model)
    with torch.no_grad():
        error = rollouts.error(law)
        assert 0 < error < math.inf
        assert rollouts.error(law, bar=1.01 * error) == error
        assert rollouts.error(law, bar=0.99 * error) == math.inf
        law.numbers.data[law.names.index("f")] *= 2
        steps = []
        tried = rollouts.errors(law, lambda *one: (steps.append(one[2]), law(*one))[1], 1, bar=1e-3 * error)
        law.numbers.data[law.names.index("f")] /= 2
    assert float(tried[0]) == math.inf
    assert len(steps) < train.time.n - 1


def test_an_equation_is_the_simplest_of_those_that_follow(burgers):
    """Of other degrees and inner steps, each rolled out in full, none is much better, nor as good and simpler."""
    train, _, model = burgers
    rollouts, law = Rollouts.of(train), equation_of(fitted("equation", train))
    with torch.no_grad():
        error = rollouts.error(law)
        others = [
            (d, s, equation_of(fitted("equation", train, degree=d, steps=s))) for d in (1, 2, 3) for s in (1, 2, 4)
        ]
        for degree, steps, other in others:
            found = rollouts.error(other)
            assert error <= WORSE * WORSE * found, (degree, steps)
            if (degree, steps) < (law.sizes["degree"], law.sizes["steps"]):
                assert found > error, (degree, steps)
    assert equation_of(model).sizes["degree"] == law.sizes["degree"] == 2


def test_a_mean_square_in_parts_is_that_of_all(monkeypatch):
    values, weights = noise(7, 5, 3), torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    monkeypatch.setattr("tino.sizes.PART", 30)  # two records at once
    assert mean_square(values, weights) == pytest.approx(float((values * weights).square().mean()), rel=1e-14)
    assert mean_square(values.float()[:0]) == 0


def test_the_same_data_give_the_same_equation(burgers):
    train, _, model = burgers
    assert torch.equal(equation_of(fitted("equation", train, steps=4)).numbers, equation_of(model).numbers)


# -- records of different lengths ----------------------------------------------------------------------------


def ended(data: tino.Dataset, lengths: Tensor) -> tino.Dataset:
    return replace(data, lengths=lengths)


def some_lengths(n: int, times: int) -> Tensor:
    """All, of which the first is held out, then a third, half and all of the times, and a few of only 2."""
    return torch.tensor([times, times // 3, times // 2, 2])[torch.arange(n) % 4]


@pytest.mark.parametrize("name", ["linear", "polynomial"])
def test_closed_forms_end_where_records_end(name):
    for make in (linear_system, oscillator) if name == "linear" else (quadratic_map, oscillator):
        train = ended(make(40), some_lengths(40, 40))
        assert miss(fitted(name, train), make(5)) < 1e-7


def test_a_warmup_ends_where_records_end():
    data = oscillator(120, start=1.0)
    model = fitted("linear", ended(data, torch.where(torch.arange(120) % 3 == 1, 3, 40)), delays=4)
    assert model.warmup is not None
    assert miss(model, oscillator(5, start=1.0)) < 1e-6


def test_pairs_of_states_end_where_records_end(burgers):
    train, _, model = burgers
    lengths = some_lengths(30, 60)
    pairs = Pairs.of(equation_of(model), ended(train, lengths))
    assert float(pairs.residual(equation_of(model), equation_of(model).numbers).abs().max()) < 1e-3
    found = equation_of(fitted("equation", ended(train, lengths), steps=4, degree=2)).coefficients()
    assert {n: a for n, a in found.items() if a} == pytest.approx({"f": 1.0, "Δu": 0.1, "(u²)_x": -0.5}, rel=1e-3)


def test_what_a_closed_form_leaves_ends_where_records_end():
    train = linear_system(30)
    for data in (train, ended(train, some_lengths(30, 40))):
        model = tino.build("flow-tino", data, width=4, degree=1)
        model.solve(data)
        assert isinstance(model, Flow)
        assert isinstance(model.law, CorrectedLaw)
        assert float(model.law.left.max()) < 1e-9


# -- rest ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear", "polynomial"])
def test_data_that_start_at_zero_give_a_time_invariant_flow(name):
    for train in (oscillator(20), linear_system(20) if name == "linear" else quadratic_map(20)):
        model = fitted(name, train)
        assert not law_of(model).sizes["constant"]
        assert model.properties.time_invariant
        found = tino.certify(model, train, show_progress=False)
        assert found.time_invariant
        assert (found.causal, found.autonomous, found.at_rest) == (True, True, True)


def test_data_that_start_elsewhere_give_an_autonomous_flow_that_is_not_at_rest():
    train = quadratic_map(20, start=1.0)
    model = fitted("polynomial", train)
    assert miss(model, quadratic_map(5, start=1.0)) < 1e-7
    assert torch.allclose(tino.predict(model, train.f)[:, 0], torch.ones(20, 1, dtype=torch.float64))
    found = tino.certify(model, train, show_progress=False)
    assert (found.causal, found.autonomous, found.at_rest) == (True, True, False)
    assert not found.time_invariant


@pytest.mark.parametrize("name", ["linear-clock", "polynomial-clock"])
def test_a_clock_follows_a_system_that_changes_and_says_so(name):
    """x_i = (0.9 - 0.4 i / 39) x_{i-1} + f_i."""
    data = []
    for n in (40, 5):
        f, x = noise(n, 40, 1), [torch.zeros(n, 1, dtype=torch.float64)]
        for i in range(1, 40):
            x.append((0.9 - 0.4 * i / 39) * x[-1] + f[:, i])
        data.append(recorded(f, torch.stack(x, 1)))
    model = fitted(name, data[0], delays=1)
    assert miss(model, data[1]) < 1e-7
    assert miss(fitted(name.removesuffix("-clock"), data[0], delays=1), data[1]) > 0.01
    found = tino.certify(model, data[0], show_progress=False)
    assert (found.causal, found.autonomous, found.at_rest) == (True, False, True)
    assert model.longest == 40


def test_a_hidden_state_away_from_rest_has_a_warmup(own_cache):
    train, test = tino.dataset(tino.problem("lorenz", n_t=60), train=60, test=4, show_progress=False)
    model = fitted("polynomial", train)
    assert model.warmup is not None
    assert model.warmup.sizes["n"] == model.law.lags > 1
    assert miss(model, test) < 1e-2
    assert (model.properties.causal, model.properties.autonomous) == (True, False)
    assert "its first" in model.properties.reasons[-1]
    f = test.f.double()
    whole = model(f)
    torch.testing.assert_close(in_steps(model, f), whole, rtol=1e-12, atol=1e-12)
    error = (whole - test.u).abs().amax((0, 2))
    assert float(error[: model.law.lags].max()) < 1e-3 * float(test.u.abs().max())  # by the warm-up itself
    found = tino.certify(model, train, show_progress=False)
    assert (found.causal, found.at_rest) == (True, False)


# -- growth --------------------------------------------------------------------------------------------------


def test_a_system_that_grows_keeps_growing_and_says_so(tmp_path):
    f = noise(20, 60, 1)
    train = recorded(f, driven(lambda x, _, f0, f1: 1.03 * x + f1, f, [[0.0], [0.0]]))
    model = fitted("linear", train, delays=1)
    assert law_of(model).growth() == pytest.approx(1.03, abs=1e-6)
    assert len(model.notes) == 1
    assert "its linear part grows by 0.03 a step" in model.readout()[-1]
    model.save(tmp_path)
    assert tino.load(tmp_path).readout() == model.readout()


def test_growth_that_noise_makes_is_damped(monkeypatch):
    """Two outputs that are nearly one: in all records but the one held out, their small difference happens to grow."""
    f = noise(20, 40, 1)
    x = driven(lambda x, _, f0, f1: 0.8 * x + f1, f, [[0.0], [0.0]])
    small = 1e-3 * 1.1 ** torch.arange(-39.0, 1.0, dtype=torch.float64) * torch.sign(noise(20))[:, None]
    small[10] = 0.0
    small[:, 0] = 0.0
    train = recorded(f, torch.cat([x, x + small[..., None]], 2))
    with monkeypatch.context() as patch:
        patch.setattr(Search, "steady", lambda found: None)
        assert law_of(fitted("linear", train, delays=1)).growth() > 1.01
    model = fitted("linear", train, delays=1)
    assert law_of(model).growth() <= 1 + 1e-6
    assert not model.notes


@pytest.mark.parametrize("name", ["linear", "polynomial", "equation"])
def test_ten_times_the_horizon_stays_bounded(name, burgers):
    train, _, equation = burgers
    model = equation if name == "equation" else fitted(name, train)
    f = train.f[:20].double().reshape(2, -1, train.f.shape[2])  # ten records, one after the other
    u = model(f)
    assert u.shape[1] == 600
    assert float(u.abs().max()) < 10 * float(train.u.abs().max())
    assert float(u[:, -60:].abs().max()) > 0.05 * float(train.u.abs().max())  # nor does it die


# -- what is saved, and streams ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def every(burgers, own_cache):
    """Fitted flows of each kind of law, with inputs for them."""
    train, test, equation = burgers
    lorenz = tino.dataset(tino.problem("lorenz", n_t=60), train=60, test=4, show_progress=False)
    short = tino.TrainConfig(steps=2, times=2, batch_size=4)
    return {
        "waves": (fitted("polynomial", train), test.f),
        "coefficients": (fitted("linear", train), test.f),
        "equation": (equation, test.f),
        "equation and network": (fitted("flow-tino", train, short, width=8, layers=1), test.f),
        "warmup": (fitted("polynomial", lorenz[0]), lorenz[1].f),
        "coefficients and network": (fitted("flow-tino", lorenz[0], short, width=8), lorenz[1].f),
        "clock": (fitted("linear-clock", quadratic_map(20)), quadratic_map(4).f),
        "waves and clock": (fitted("polynomial-clock", train), test.f),
    }


EVERY = ("waves", "coefficients", "equation", "equation and network", "warmup", "coefficients and network", "clock",
         "waves and clock")  # fmt: skip


@pytest.mark.parametrize("kind", EVERY)
def test_a_fitted_flow_comes_back_from_disk_and_streams_one_record(kind, every, tmp_path):
    model, f = every[kind]
    assert kind.split()[0] in ("warmup", "clock", "equation") or model.law.kind in ("wavenumbers", kind, "corrected")
    model.save(tmp_path)
    again, u = tino.load(tmp_path), tino.predict(model, f)
    assert isinstance(again, Flow)
    assert bool(torch.isfinite(u).all())
    assert torch.equal(tino.predict(again, f), u)
    assert (again.record(), again.readout()) == (model.record(), model.readout())
    one = f[:1].to(next(model.parameters()))
    whole = again(one)
    torch.testing.assert_close(in_steps(again, one), whole, rtol=1e-9, atol=1e-9 * float(u.abs().max()))


def forged(folder, where: tuple[str, ...], **values) -> str:
    """What is said of a record with other values under a fresh checksum."""
    kept = (folder / "model.json").read_text()
    record = json.loads(kept)
    section = record["sizes"]
    for key in where:
        section = section[key]
    section |= values
    del record["sha256"]
    (folder / "model.json").write_text(json.dumps(sealed(record)))
    with pytest.raises(tino.TinoError) as caught:
        tino.load(folder)
    (folder / "model.json").write_text(kept)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return str(caught.value)


def test_forged_records_of_flows_are_one_line(every, tmp_path):
    for kind in ("coefficients", "equation", "warmup", "waves"):
        every[kind][0].save(tmp_path / kind)
    assert "no law of kind magic" in forged(tmp_path / "equation", ("law",), kind="magic")
    assert "100 inner steps" in forged(tmp_path / "equation", ("law",), steps=100)
    assert "cannot be expanded in waves" in forged(tmp_path / "equation", ("law", "waves"), fine=[2**30])
    assert "order 9" in forged(tmp_path / "waves", ("law",), order=9)
    assert "more than 20000 terms" in forged(tmp_path / "coefficients", ("law",), degree=20, products=20)
    for size in ("delays", "stride", "moments", "products", "states", "cross", "degree", "clock", "times"):
        for value in (-1, 2.5, "wide", None):
            forged(tmp_path / "warmup", ("law",), **{size: value})
        if size not in ("times", "cross"):  # which are in no tensor
            forged(tmp_path / "warmup", ("law",), **{size: 10**7})
    for size in ("n", "moments", "sources", "states"):
        forged(tmp_path / "warmup", ("warmup",), **{size: 10**7})
    forged(tmp_path / "warmup", ("law",), moments=10**7, stride=10**7)


def test_an_equation_needs_a_grid():
    with pytest.raises(
        tino.TinoError,
        match=r"^an equation needs one input and one output, on .*: try polynomial \(own data has 1 .* on point",
    ):
        tino.build("equation", quadratic_map(4))


# -- with a network ------------------------------------------------------------------------------------------


def one_step_error(model: Flow, data: tino.Dataset) -> float:
    """The mean square of single steps from the states of the data."""
    f, u = data.f.double(), data.u.double()
    memory = model.double().observe(f, u)
    errors = []
    for i in range(model.law.lags, data.time.n):
        found = model._step(tuple(part[:, i - 1] for part in memory), f[:, i], i)[1]  # pyright: ignore
        errors.append((found - u[:, i]).square().mean())
    return float(torch.stack(errors).detach().mean())


@pytest.mark.parametrize("problem", ["rational-flux", "pendulum"])
def test_a_network_learns_what_the_law_leaves(problem, own_cache):
    sizes = {"n_t": 40, "resolution": 32} if problem == "rational-flux" else {"n_t": 40}
    train, test = tino.dataset(tino.problem(problem, **sizes), train=20, test=4, show_progress=False)
    options = {"width": 16, "degree": 1} | ({"delays": 2} if problem == "pendulum" else {})
    start = tino.build("flow-tino", train, **options)
    assert isinstance(start, Flow)
    start.solve(train)
    steps = 200 if problem == "pendulum" else 100
    model = fitted("flow-tino", train, tino.TrainConfig(steps=steps, times=8, batch_size=10), **options)
    assert one_step_error(model, test) < 0.9 * one_step_error(start, test)
    f = test.f.double()
    whole = model(f)
    torch.testing.assert_close(in_steps(model, f), whole, rtol=1e-9, atol=1e-9)
    assert whole.requires_grad


@pytest.mark.parametrize("problem", ["rational-flux", "pendulum"])
def test_training_starts_where_the_flow_starts(problem, own_cache):
    """Before T_0 there was no input, which differs from an input of zero: a parabola must not be drawn through it."""
    sizes = {"n_t": 40, "resolution": 32} if problem == "rational-flux" else {"n_t": 40}
    train, _ = tino.dataset(tino.problem(problem, **sizes), train=20, test=4, show_progress=False)
    model = tino.build("flow-tino", train, width=4, **({} if problem == "rational-flux" else {"delays": 3}))
    assert isinstance(model, Flow)
    model.solve(train)
    model = model.double()
    made = StretchesObjective(model, train, torch.device("cpu"), Stretches(1))
    memory = model._first(model.rest(3, None), train.f[:3, 0].double())[0]
    for i in range(4):
        found = made._seen(model, torch.arange(3), torch.full((3,), i))
        for part, expected in zip(found, memory, strict=True):
            torch.testing.assert_close(part, expected, rtol=1e-6, atol=1e-6)
        state = model.law.state(train.u[:3, i + 1].double())
        past, inputs = model._step(memory, train.f[:3, i + 1].double(), i + 1)[0]
        memory = torch.cat([past[:, :-1], state[:, None]], 1), inputs  # the state that the data show


def test_a_network_leaves_zero_at_zero():
    """N(0) is subtracted: without input and from zero, a network with biases adds nothing."""
    train = oscillator(20)
    torch.manual_seed(0)
    model = tino.build("flow-tino", train, width=8)
    assert isinstance(model, Flow)
    law = model.law
    assert isinstance(law, CorrectedLaw)
    law.left.fill_(1.0)
    torch.nn.init.normal_(law.last.weight)
    with torch.no_grad():
        past = torch.zeros_like(law.state(train.u[:1, : law.lags].double()))
        g = law.inputs(torch.zeros_like(train.f[:1, : law.window]).double())
        assert float(law(past, g, 5).abs().max()) < 1e-12
        moved = law(past + 0.1, g, 5)
        law.left.fill_(0.0)
        assert float((law(past + 0.1, g, 5) - moved).abs().max()) > 1e-6


def test_the_network_in_coefficients_is_its_formula_and_stays_bounded():
    """b tanh(r [N(z) - N(0)] / b), z the scaled moments; far from the training it adds at most b = 2 max |residual|."""
    train = oscillator(20)
    torch.manual_seed(0)
    model = tino.build("flow-tino", train, width=8, degree=1, delays=1, stride=1)
    assert isinstance(model, Flow)
    model.solve(train)
    law = model.double().law
    assert isinstance(law, CorrectedLaw)
    torch.nn.init.normal_(law.last.weight)

    def network(z):
        for gate, factor in zip(law.gates, law.factors, strict=True):
            h, k = (z @ one.weight.T + one.bias for one in (gate, factor))
            z = 0.5 * h * (1 + torch.erf(h / 2**0.5)) * (1 + k)
        return z @ law.last.weight.T + law.last.bias

    with torch.no_grad():
        c, g = law.state(train.u[:3].double()), law.inputs(train.f[:3].double())
        times = torch.full((3,), law.window)
        past, inputs = c[:, 5 : 5 + law.lags], g[:, 5 : 5 + law.window]
        z = law.read(past, inputs) / law.inputs_size
        added = law(past, inputs, times) - law.law(past, inputs, times)
        expected = [
            b * math.tanh(r * float(n - m) / b)
            for row in network(z)
            for n, m, r, b in zip(row, network(torch.zeros_like(z[0])), law.left, law.bound, strict=True)
        ]
        torch.testing.assert_close(added.flatten(), torch.tensor(expected).to(added), rtol=1e-9, atol=1e-14)
        every, seen = histories(law, law.state(train.u.double()), law.inputs(train.f.double()))
        left = law.law(every, seen, torch.arange(train.time.n)) - law.state(train.u.double())
        assert float((law.bound / 2 - left[:, 1:].abs().amax((0, 1))).abs().max()) <= 1e-6 * float(law.bound.max())
        far = law(1e6 * past, inputs, times) - law.law(1e6 * past, inputs, times)
        assert bool((far.abs() <= law.bound * (1 + 1e-9)).all())
        assert float(far.abs().max()) > 0.5 * float(law.bound.max())


def test_the_seed_decides_the_network(own_cache):
    train, _ = tino.dataset(tino.problem("pendulum", n_t=40), train=20, test=4, show_progress=False)
    made = []
    for seed in (0, 0, 1):
        model = tino.build("flow-tino", train, seed, width=8, degree=1, delays=2)
        assert isinstance(model, Flow)
        model.solve(train)
        assert isinstance(model.law, CorrectedLaw)
        made.append(model.law.gates[0].weight.clone())  # pyright: ignore[reportCallIssue]
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
