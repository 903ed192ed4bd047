"""Records that start from unknown states, and long ones: what is held out, windows, laws for measured systems."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tino
from tino.holdout import between, hold_out, memory_length, windows
from tino.models.closed import coordinates
from tino.models.recurrent import Recurrent
from tino.models.rollouts import Rollouts
from tino.models.search import fit
from tino.models.simulated import Stretches
from tino.operator import Stretches as Lesson
from tino.parts.coefficients import CoefficientLaw
from tino.split import split_records
from tino.training.batches import in_windows
from tino.training.state import Training

POINT = (tino.Point(), tino.Point())
DT = 0.1


def noise(records: int, n: int, seed: int = 0, smooth: float = 0.7) -> Tensor:
    """Smooth noise (records, n), of size one."""
    chance = np.random.default_rng(seed)
    white, out = chance.normal(size=(records, n)), np.zeros((records, n))
    for i in range(1, n):
        out[:, i] = smooth * out[:, i - 1] + math.sqrt(1 - smooth**2) * white[:, i]
    return torch.from_numpy(out)


def oscillator(f: Tensor, cubic: float = 0.0, soft: float = 0.0) -> Tensor:
    """A discrete oscillator u_i = 1.6 u_{i-1} - 0.8 u_{i-2} + 0.2 f_i - cubic u_{i-1}³ + soft s_i u_{i-1}, s_i the root
    mean square of the last 100 inputs."""
    squares = torch.nn.functional.pad(f.square().cumsum(1), (100, 0))
    level = ((squares[:, 100:] - squares[:, :-100]) / 100).clamp_min(0).sqrt()
    u = torch.zeros_like(f)
    for i in range(2, f.shape[1]):
        a, b = u[:, i - 1], u[:, i - 2]
        u[:, i] = 1.6 * a - 0.8 * b + 0.2 * f[:, i] - cubic * a**3 + soft * level[:, i] * a
    return u


def dataset(f: Tensor, u: Tensor, burn_in: int, skip: int = 0) -> tino.Dataset:
    """In mid-motion where ``skip`` cuts the start off."""
    f, u = f[:, skip:, None], u[:, skip:, None]
    time = tino.TimeGrid(0.0, (f.shape[1] - 1) * DT, f.shape[1])
    return tino.Dataset(f.clone(), u.clone(), time, *POINT, burn_in=burn_in)


# -- datasets ------------------------------------------------------------------------------------------------


def test_the_burn_in_is_read_but_does_not_count(tmp_path):
    data = dataset(noise(3, 40), noise(3, 40, 1), 10)
    assert data.mask is not None
    assert data.mask.sum(1).tolist() == [30] * 3
    assert torch.equal(data.rows(data.u), data.u[:, 10:].flatten(0, 1))
    ended = tino.Dataset(data.f, data.u, data.time, *POINT, lengths=torch.tensor([40, 20, 15]), burn_in=10)
    assert ended.mask is not None
    assert ended.mask.sum(1).tolist() == [30, 10, 5]
    with pytest.raises(tino.TinoError, match="burn_in is 15, expected at most 14"):
        tino.Dataset(data.f, data.u, data.time, *POINT, lengths=torch.tensor([40, 20, 15]), burn_in=15)
    longer = dataset(noise(2, 70), noise(2, 70, 1), 25)
    tino.save_dataset(tmp_path / "both.h5", data, longer)
    train, test = tino.load_dataset(tmp_path / "both.h5")
    assert (train.burn_in, test.burn_in, train.time.n, test.time.n) == (10, 25, 40, 70)
    assert torch.equal(test.u, longer.u)


def test_scores_leave_the_burn_in_out():
    data = dataset(noise(4, 60), oscillator(noise(4, 60)), 20)
    model = tino.build("linear", data)
    tino.fit(model, data, show_progress=False)
    spoilt = tino.Dataset(data.f, data.u.index_add(1, torch.arange(20), torch.ones(4, 20, 1).double()), *_rest(data))
    assert tino.evaluate(model, data).rmse == tino.evaluate(model, spoilt).rmse


def _rest(data: tino.Dataset):
    return data.time, data.inputs, data.outputs, None, {}, data.input_channels, data.output_channels, None, data.burn_in


# -- what is held out ----------------------------------------------------------------------------------------


def test_of_one_record_the_last_quarter_is_held_out_and_its_burn_in_does_not_count():
    f = noise(1, 800)
    data = dataset(f, oscillator(f), 50)
    fitted, held = hold_out(data)
    assert (fitted.time.n, fitted.burn_in) == (600, 50)
    assert held.mask is not None
    counted = held.u[held.mask][:, 0]
    assert torch.equal(counted, data.u[0, 600:, 0])  # nothing that was fitted, nothing left out
    assert held.time.start == pytest.approx((600 - held.burn_in) * DT)
    records = dataset(noise(60, 30), noise(60, 30, 1), 0)
    fitted, held = hold_out(records)
    assert (len(fitted), len(held)) == (57, 3)


def test_two_records_are_each_cut_at_their_own_three_quarters():
    f = noise(2, 800)
    data = tino.Dataset(
        f[..., None],
        oscillator(f)[..., None],
        tino.TimeGrid(0.0, 799 * DT, 800),
        *POINT,
        lengths=torch.tensor([800, 200]),
    )
    fitted, held = hold_out(data)
    assert fitted.lengths is not None
    assert fitted.lengths.tolist() == [600, 150]
    assert held.lengths is not None
    assert (held.lengths - held.burn_in).tolist() == [200, 50]
    assert torch.equal(held.rows(held.u), torch.cat([data.u[0, 600:], data.u[1, 150:200]]))
    assert torch.equal(held.f[1, : 50 + held.burn_in], data.f[1, 150 - held.burn_in : 200])


def test_the_burn_in_does_not_depend_on_what_is_held_out():
    f = noise(1, 800)
    data = dataset(f, oscillator(f), 0)
    spoilt = tino.Dataset(data.f, data.u.clone(), *_rest(data))
    spoilt.u[:, 600:] = torch.randn(1, 200, 1, dtype=data.u.dtype).cumsum(1)
    assert hold_out(data)[1].burn_in == hold_out(spoilt)[1].burn_in
    assert hold_out(data)[1].burn_in == memory_length(hold_out(data)[0], 600, 1e-12)


def light(n: int, seed: int = 0, skip: int = 0) -> tino.Dataset:
    """An oscillator with a damping of 1 %, 20 times per period: it remembers 1470 steps."""
    f = torch.randn(1, n + skip, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    u, w, decay = torch.zeros_like(f), 2 * math.pi / 20, math.exp(-0.01 * 2 * math.pi / 20)
    for i in range(2, n + skip):
        u[:, i] = 2 * decay * math.cos(w) * u[:, i - 1] - decay**2 * u[:, i - 2] + f[:, i]
    return dataset(f, u, 0, skip)


def test_the_burn_in_of_a_lightly_damped_system_is_its_whole_memory():
    train, test = split_records(light(8000), None, None, 0)
    assert memory_length(train, 6400) == pytest.approx(math.log(1e4) / (0.02 * 2 * math.pi / 20), rel=0.05)  # 1466
    assert test.burn_in == pytest.approx(3 * 1466, rel=0.05)  # 1e-12 of the energy
    model = tino.build("linear", train)
    tino.fit(model, train, show_progress=False)
    assert tino.evaluate(model, test).fit > 99.99  # what is left of the start does not hide a good model
    _, held = hold_out(light(8000))
    assert held.burn_in == pytest.approx(test.burn_in, rel=0.05)


def test_an_unknown_start_does_not_hide_the_errors_of_a_good_model():
    """u_i = 1.9 u_{i-1} - 0.95 u_{i-2} - 0.01 u_{i-1}³ + f_i / 10: one record, which polynomial follows closely."""
    f = noise(1, 1200)
    u = torch.zeros_like(f)
    for i in range(2, 1200):
        u[:, i] = 1.9 * u[:, i - 1] - 0.95 * u[:, i - 2] - 0.01 * u[:, i - 1] ** 3 + 0.1 * f[:, i]
    part, held = hold_out(dataset(f, u, 0))
    model = tino.build("polynomial", part)
    tino.fit(model, part, show_progress=False)
    assert tino.evaluate(model, held).nrmse < 1e-4  # a memory of all but 1e-4 of the energy leaves 0.17


def test_a_memory_longer_than_the_training_is_noted():
    with pytest.warns(
        tino.TinoWarning, match=r"more than the 800 times before the test.*tino evaluate --start measured"
    ):
        _, test = split_records(light(1000, skip=500), None, None, 0)
    assert test.burn_in == 800


def test_long_records_with_a_long_memory_are_rolled_out_in_windows():
    """The burn-in of a rollout is no longer than half of a window."""
    data = light(9000)
    rollouts = Rollouts.of(tino.Dataset(data.f, data.u + 10 * data.f.cumsum(1), *_rest(data)))
    assert rollouts.held.time.n == 2000
    assert rollouts.held.burn_in == 1000


def test_the_memory_of_a_decay():
    """u_i = 0.9 u_{i-1} + f_i: of the energy of 0.9^k, 1e-4 is left from 0.81^n = 1e-4 on."""
    f = noise(2, 3000, smooth=0.0)
    u = torch.zeros_like(f)
    for i in range(1, 3000):
        u[:, i] = 0.9 * u[:, i - 1] + f[:, i]
    assert abs(memory_length(dataset(f, u, 0)) - math.log(1e-4) / math.log(0.81)) <= 2
    assert abs(memory_length(dataset(f, u, 0), 1000, 1e-12) - math.log(1e-12) / math.log(0.81)) <= 2
    assert memory_length(dataset(f[:, :40], u[:, :40], 0)) == 10  # a quarter of the record at most


def decays(f: Tensor, poles: tuple[float, ...]) -> Tensor:
    """u_i = a u_{i-1} + f_i for each input (t, m) and its pole a."""
    u = torch.zeros_like(f)
    for i in range(1, len(f)):
        u[i] = torch.tensor(poles, dtype=f.dtype) * u[i - 1] + f[i]
    return u


@pytest.mark.parametrize("several", ["inputs", "outputs"])
def test_the_memory_does_not_depend_on_units(several):
    """Poles 0.2 and 0.98: the slow one is remembered, also if the other is given in units a million times finer."""
    f = noise(2, 3000, smooth=0.0).T.clone()  # (t, 2)
    if several == "outputs":
        f[:, 1] = f[:, 0]
    u = decays(f, (0.2, 0.98))
    pair = (tino.Channel("a"), tino.Channel("b"))
    found = []
    for units in ((1, 1), (1e6, 1), (1e-6, 1), (1e3, 1e-3)):
        size = torch.tensor(units, dtype=f.dtype)
        scaled, answer = (f * size, u.sum(1, True)) if several == "inputs" else (f[:, :1], u * size)
        time = tino.TimeGrid(0.0, 2999 * DT, 3000)
        inputs, outputs = (pair if several == side else (pair[0],) for side in ("inputs", "outputs"))
        data = tino.Dataset(scaled[None], answer[None], time, *POINT, input_channels=inputs, output_channels=outputs)
        found.append((memory_length(data), hold_out(data)[1].burn_in))
    assert len(set(found)) == 1
    assert found[0][0] == pytest.approx(math.log(1e-4) / math.log(0.98**2), rel=0.1)  # 228


def test_a_channel_that_never_changes_is_weighed_by_its_size():
    f = noise(1, 2000, smooth=0.0).T.clone()
    u = decays(f, (0.98,)) + 2.0
    pair = (tino.Channel("a"), tino.Channel("b"))
    time = tino.TimeGrid(0.0, 1999 * DT, 2000)
    found = {
        memory_length(tino.Dataset(torch.cat([f, at + 0 * f], 1)[None], u[None], time, *POINT, input_channels=pair))
        for at in (1e-4, 1.0, 1e4)
    }
    assert max(found) - min(found) <= 1
    assert min(found) == pytest.approx(228, rel=0.1)


def test_windows_overlap_by_their_burn_in_and_share_memory():
    data = dataset(noise(1, 1000), noise(1, 1000, 1), 30)
    cut = windows(data, 130)
    assert cut.u.shape == (9, 130, 1)
    assert cut.u.data_ptr() == data.u.data_ptr()  # views
    assert torch.equal(cut.u[2, :, 0], data.u[0, 200:330, 0])
    assert cut.mask is not None
    assert torch.equal(cut.u[cut.mask][:, 0], data.u[0, 30:930, 0])  # each time counts once
    several = tino.Dataset(data.f.view(2, 500, 1), data.u.view(2, 500, 1), between(data, 0, 500, 30).time, *POINT)
    ended = tino.Dataset(several.f, several.u, several.time, *POINT, lengths=torch.tensor([500, 240]), burn_in=30)
    assert len(windows(ended, 130)) == 4 + 2
    assert windows(ended, 501) is ended  # none is so long


# -- closed forms --------------------------------------------------------------------------------------------


def test_normal_equations_in_parts_of_the_time_are_those_of_the_whole(monkeypatch):
    f = noise(2, 900)
    data = dataset(f, oscillator(f, 0.05), 20, skip=60)
    at = coordinates(data, 1e-6, zero=True)
    sizes = {"delays": 3, "stride": 1, "moments": 0, "products": 1, "degree": 3, "cross": 0, "constant": True}
    law = at.law(data, **sizes, clock=0, times=data.time.n, near=2)
    whole = fit(law, data, 10**6, first=3)
    monkeypatch.setattr("tino.models.search.LONG", 100)
    parts = fit(law, data, 10**6, first=3)
    assert whole.rows == parts.rows == 2 * (840 - 20)
    torch.testing.assert_close(whole.gram, parts.gram, rtol=1e-12, atol=0)
    some = fit(law, data, 400, first=3)
    assert 200 <= some.rows <= 600


def test_terms_of_near_delays_and_of_the_level_by_their_formula():
    """c_i = Σ w φ: delays 1, 2, 3, inputs i-3 ... i, a constant, all linear terms but it times the level, and products
    of the two nearest delays."""
    sizes = {"delays": 3, "stride": 1, "moments": 0, "products": 1, "degree": 2, "cross": 0, "near": 2, "level": 6}
    law = CoefficientLaw(1, 1, 1, 1, **sizes, constant=True, centred=False, clock=0, times=50)
    generator = torch.Generator().manual_seed(0)
    for name in ("to_state", "to_output", "to_input"):
        getattr(law, name).data.fill_(1.0)
    law.weights.data = torch.randn(law.weights.shape, generator=generator, dtype=torch.float64)
    law.levels.data.copy_(torch.tensor([0.4, 0.9], dtype=torch.float64))
    past, f = (torch.randn(2, n, 1, generator=generator, dtype=torch.float64) for n in (3, 6))
    for scale in (0.1, 0.7, 3.0):  # below, within and above the levels
        answer = law(past, law.inputs(scale * f), 0)
        for b in range(2):
            a, z = past[b, :, 0].tolist(), (scale * f[b, :, 0]).tolist()
            level = min(0.9, max(0.4, math.sqrt(sum(v * v for v in z) / 6)))
            linear = [a[2], a[1], a[0], z[2], z[3], z[4], z[5]]
            terms = [*linear, 1.0, *(level * v for v in linear), a[2] ** 2, a[2] * a[1], a[1] ** 2]
            expected = sum(w * v for w, v in zip(law.weights[:, 0].tolist(), terms, strict=True))
            assert float(answer[b, 0]) == pytest.approx(expected, rel=1e-12)


def test_the_growth_of_a_law_with_a_level_is_the_largest_within_its_range():
    sizes = {"delays": 1, "stride": 1, "moments": 0, "products": 0, "degree": 1, "cross": 0, "level": 5}
    law = CoefficientLaw(1, 1, 1, 1, **sizes, constant=False, centred=False, clock=0, times=50)
    law.levels.data.copy_(torch.tensor([0.5, 2.0]))
    law.weights.data[0], law.weights.data[law.linear] = 0.8, 0.15  # λ = 0.8 + 0.15 s
    assert law.growth() == pytest.approx(1.1)
    law.damp()
    assert law.growth() == pytest.approx(1.0)


def test_a_law_that_follows_the_level_beats_one_that_does_not():
    """Twelve records in mid-motion, half of them twice as strong: the stiffness depends on the level."""
    f = noise(12, 2500) * torch.tensor([0.5, 1.0]).repeat(6)[:, None]
    u = oscillator(f, soft=-0.15)
    train, test = dataset(f[:8], u[:8], 60, skip=400), dataset(f[8:], u[8:], 110, skip=400)
    errors = {}
    for name in ("linear", "linear-level"):
        model = tino.build(name, train, delays=2)
        tino.fit(model, train, show_progress=False)
        assert model.properties.causal
        assert model.properties.autonomous
        errors[name] = tino.evaluate(model, test).nrmse
    assert errors["linear-level"] < 0.15 * errors["linear"]


# -- fits by simulation --------------------------------------------------------------------------------------


def test_a_fit_by_simulation_is_not_misled_by_noise_of_the_outputs():
    """One long record of a cubic oscillator, its outputs measured with noise of 3 %: the error against the outputs
    without noise."""
    f = noise(1, 6000)
    u = oscillator(f, 0.03)
    noisy = u + 0.03 * u.std() * torch.from_numpy(np.random.default_rng(1).normal(size=u.shape))
    train, test = dataset(f[:, :4500], noisy[:, :4500], 60, 100), dataset(f, u, 100, 4500)
    errors = {}
    for name in ("polynomial", "polynomial-sim"):
        model = tino.build(name, train, delays=2, degree=3)
        tino.fit(model, train, show_progress=False)
        errors[name] = tino.evaluate(model, test).nrmse
    assert errors["polynomial-sim"] < 0.5 * errors["polynomial"]
    assert errors["polynomial-sim"] < 0.01


def test_the_residuals_of_simulations_are_a_naive_loop():
    f = noise(2, 200)
    data = dataset(f, oscillator(f, 0.03), 20, 50)
    rollouts = Rollouts.of(data)
    at = coordinates(data, 1e-6, zero=True)
    sizes = {"delays": 2, "stride": 1, "moments": 0, "products": 1, "degree": 2, "cross": 0, "constant": True}
    law = at.law(data, **sizes, clock=0, times=data.time.n)
    stretches = Stretches.of(law, data, rollouts.weights)
    weights = 0.2 * torch.randn(2, *law.weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = stretches.residuals(law, weights).view(2, *stretches.outputs.shape)
    scale = float(stretches.outputs.square().mean().sqrt())
    for n in range(2):
        law.weights.data.copy_(weights[n])
        past = stretches.past
        for i in range(stretches.outputs.shape[1]):
            c = law(past, stretches.inputs[:, i : i + 3], i)
            past = torch.cat([past[:, 1:], c[:, None]], 1)
            expected = (law.output(c) - stretches.outputs[:, i]) / scale
            torch.testing.assert_close(found[n, :, i], expected, rtol=1e-9, atol=1e-12)


def test_many_outputs_are_refused_before_a_fit_by_simulation():
    f = torch.randn(6, 40, 12)
    time, grid = tino.TimeGrid(0, 1, 40), tino.Interval(0, 1, 12)
    with pytest.raises(tino.TinoError, match="takes up to 8 outputs, own data has 12: try polynomial"):
        tino.build("polynomial-sim", tino.Dataset(f, f.cumsum(1), time, grid, grid))


# -- learning from long records ------------------------------------------------------------------------------


def test_long_records_are_learned_from_in_windows():
    f = noise(1, 4000).float()
    data = dataset(f, oscillator(f), 0)
    model = tino.build("gru", data, width=4)
    cut = in_windows(data, model)
    assert cut.burn_in >= memory_length(data)
    assert cut.time.n == max(256, 4 * cut.burn_in)
    assert cut.u.data_ptr() == data.u.data_ptr()
    run = Training(model, data, tino.TrainConfig(steps=2), torch.device("cpu"))
    assert (run.n, run.batch) == (len(cut), min(32, len(cut)))
    clocked = tino.build("don", data, mixer_width=4, branch_width=4, modes=2, trunk_width=4)
    assert in_windows(data, clocked) is data  # it takes whole records only


def test_the_delay_of_a_long_record_is_as_long_as_its_memory():
    f = noise(1, 4000).float()
    data = dataset(f, oscillator(f), 0)
    model = tino.build("tino", data, mixer_width=4, branch_width=4)
    assert isinstance(model, tino.Separable)
    assert len(model.mixer.weight) == memory_length(data)
    tino.fit(model, data, tino.TrainConfig(steps=3), show_progress=False)
    assert tino.predict(model, data.f).shape == data.u.shape


def test_a_learned_flow_starts_its_lessons_where_the_state_is_seen():
    f = noise(1, 3000)
    data = dataset(f, oscillator(f, 0.03), 60, 100)
    model = tino.build("flow-tino", data, delays=2, stride=1, width=4)
    tino.fit(model, data, tino.TrainConfig(steps=4), show_progress=False)
    assert all(lesson.first == 2 for lesson in model.learning if isinstance(lesson, Lesson))


# -- recurrent networks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "cell"), [("lstm", nn.LSTMCell), ("gru", nn.GRUCell)])
def test_a_recurrent_step_is_torchs_own_cell(name, cell):
    data = dataset(noise(4, 30).float() * 50, 1e-3 * oscillator(noise(4, 30)).float(), 0)
    model = tino.build(name, data, width=5)
    assert isinstance(model, Recurrent)
    own = cell(1, 5)
    own.load_state_dict({key.removesuffix("_l0"): value for key, value in model.cells.state_dict().items()})
    state, u = model.start(data.f[:, 0])
    memory = own(data.f[:, 0] / model.input_sizes)
    for i in range(1, 5):
        state, u = model.step(state, data.f[:, i])
        memory = own(data.f[:, i] / model.input_sizes, memory)
    h = memory[0] if name == "lstm" else memory
    torch.testing.assert_close(u, model.last(h) * model.output_sizes)
    size = float(data.u.double().square().mean().sqrt())
    assert float(model.output_sizes) == pytest.approx(size, rel=1e-5)
