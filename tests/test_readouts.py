"""Read-outs beside closed forms: exact recurrences to rounding, models learned from oscillators to their own error."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pytest
import torch
from torch import Tensor

import tino
from tino.channels import Channel
from tino.data import Dataset
from tino.frame import Frame
from tino.grids import Point, TimeGrid
from tino.inputs import multisine
from tino.problems import base
from tino.problems.oscillators import column, forced_ode
from tino.readouts.derivatives import ImpulseResponse
from tino.readouts.poles import pole_lines
from tino.readouts.readout import Readout
from tino.report.figures import png
from tino.report.readings import draw_frequency, draw_impulse, draw_second
from tino.seen import Seen

DT, DAMPING, STIFFNESS, BEND = 0.1, 0.8, 2.0, 0.7
LINES = torch.tensor([0.3, 0.9, 1.4, 2.2, 3.7], dtype=torch.float64)


class Bent(tino.Operator):
    """u_i = a u_{i-1} + b u_{i-2} + f_i + q u_{i-1}² for each of two outputs, of two inputs with gains."""

    a, b, q = 1.2, -0.5, 0.3
    gains = ((1.0, 0.0), (-0.5, 2.0))  # of the inputs, to each output

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        self.mix = torch.nn.Parameter(torch.tensor(self.gains), requires_grad=False)

    @property
    def properties(self) -> tino.Properties:
        return tino.Properties(causal=True, autonomous=True, at_rest=True)

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        return self.by_steps(f, ic)

    def rest(self, b: int, ic: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.mix.new_zeros(b, 2), self.mix.new_zeros(b, 2)

    def _step(self, memory: Any, f_i: Tensor, i: int | Tensor) -> tuple[Any, Tensor]:
        before, older = memory
        u = self.a * before + self.b * older + self.q * before.square() + f_i @ self.mix.T
        return (u, before), u

    def record(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_record(cls, frame: Frame, record: Mapping[str, Any]) -> Self:
        return cls(frame)


def signals(n: int = 64, records: int = 4, size: float = 0.01) -> Dataset:
    f = size * torch.randn(records, n, 2, generator=torch.Generator().manual_seed(0))
    inputs, outputs = (Channel("force", "N"), Channel("heat", "W")), (Channel("<b>|", "m"), Channel("bend"))
    time = TimeGrid(0.0, DT * (n - 1), n)
    return Dataset(f, torch.zeros_like(f), time, Point(), Point(), input_channels=inputs, output_channels=outputs)


@pytest.fixture(scope="module")
def bent() -> Bent:
    return Bent(Frame.of("bent", signals()))


def transfer(omega: Tensor) -> Tensor:
    """Of u_i = a u_{i-1} + b u_{i-2} + f_i: 1 / (1 - a z - b z²), z = e^{-iω dt}."""
    z = torch.exp(-1j * omega * DT)
    return 1 / (1 - Bent.a * z - Bent.b * z**2)


# -- exact ---------------------------------------------------------------------------------------------------


def test_the_impulse_response_is_the_recurrence_s(bent):
    found = tino.impulse_response(bent)
    g = [1.0, Bent.a]
    while len(g) < len(found.values):
        g.append(Bent.a * g[-1] + Bent.b * g[-2])
    for j in range(2):
        for i in range(2):
            assert found.values[:, j, i].tolist() == pytest.approx([Bent.gains[j][i] * v for v in g], abs=1e-12)
    assert torch.allclose(found.density * DT, found.values)
    static = 1 / (1 - Bent.a - Bent.b)
    assert found.gain.flatten().tolist() == pytest.approx([static * v for row in Bent.gains for v in row], abs=1e-6)
    last = max(k for k, v in enumerate(g) if abs(v) > 0.01 * max(map(abs, g)))
    assert float(found.memory[0, 0]) == pytest.approx((last + 1) * DT)
    assert torch.allclose(found.response(LINES)[:, 1, 1], 2 * transfer(LINES), atol=1e-6)
    assert (float(found.gain[0, 1]), float(found.memory[0, 1])) == (0.0, 0.0)  # heat does not move the first output


def test_a_readout_beyond_the_training_says_so():
    data = signals()
    bent = Bent(replace(Frame.of("bent", data), seen=Seen.of(data)))
    low, high = bent.frame.seen.inputs[0]
    assert not any("training" in line for line in tino.read_out(bent, data).lines())
    found = tino.read_out(bent, data, point=(0.05, 0.0), level=(0.02, 0.01))
    rms = float(tino.Excited.of(data).rms[0])
    assert found.lines()[-2:] == [
        f"note: force = 0.05 is outside {low:.3g} to {high:.3g}, the range of the training",
        f"note: force has a root mean square of 0.02, {rms:.3g} in training",
    ]
    assert Readout.from_record(json.loads(json.dumps(found.record()))).lines() == found.lines()


def test_about_another_point_the_slope_is_another(bent):
    """u* = (a + b) u* + q u*² + f*: its derivative is 1 / (1 - a - b - 2 q u*)."""
    steady = (1 - Bent.a - Bent.b - math.sqrt((1 - Bent.a - Bent.b) ** 2 - 4 * Bent.q * 0.05)) / (2 * Bent.q)
    found = tino.impulse_response(bent, point=(0.05, 0.0))
    assert float(found.gain[0, 0]) == pytest.approx(1 / (1 - Bent.a - Bent.b - 2 * Bent.q * steady), rel=1e-3)
    assert found.at == "force = 0.05, heat = 0"


class Slow(Bent):
    """u_i = 0.97 u_{i-1} - 0.05 u_{i-1}² + f_i."""

    a, b, q = 0.97, 0.0, -0.05
    gains = ((1.0, 0.0), (0.0, 1.0))


class Slower(Slow):
    a, q = 0.9999, -1e-5


class Creeping(Bent):
    """u_i = f_i - f_{i-1} + s_i / 10000, s_i = 0.98 s_{i-1} + f_i: the small, slow part is all of the static gain."""

    def _step(self, memory: Any, f_i: Tensor, i: int | Tensor) -> tuple[Any, Tensor]:
        slow, before = memory
        slow = 0.98 * slow + f_i
        return (slow, f_i), f_i - before + 1e-4 * slow


def test_a_slow_model_gets_more_time_to_settle():
    """u* = 0.97 u* - 0.05 u*² + f*, which one record does not reach."""
    slow, root = Slow(Frame.of("slow", signals())), math.sqrt(0.03**2 + 4 * 0.05 * 0.01)
    found = tino.impulse_response(slow, point=(0.01, 0.0))
    assert float(found.gain[0, 0]) == pytest.approx(1 / root, rel=1e-6)
    assert found.drift < 1e-4
    kernel = tino.second_order_kernel(slow, 2, point=(0.01, 0.0))[..., 0]
    assert kernel.flatten().tolist() == pytest.approx([0, 0, 0, Slow.q], rel=1e-6)
    pole = 1 - root
    gains = [1 / (1 - pole * np.exp(-1j * w * DT)) for w in (0.1, 0.2, 0.3)]
    expected = Slow.q * np.exp(-0.3j * DT) * np.prod(gains)
    pair = torch.tensor([[0.1, 0.2]], dtype=torch.float64)
    assert complex(tino.second_order_response(slow, pair, point=(0.01, 0.0))[0, 0]) == pytest.approx(expected, rel=1e-4)


def test_a_model_that_does_not_settle_is_told():
    slower, point = Slower(Frame.of("slower", signals())), (0.01, 0.0)
    found = tino.read_out(slower, signals(), point=point)
    assert found.impulse.drift > 0.01
    told = f"  the model has not settled there: its answer still moves by {found.impulse.drift:.1%}"
    assert told in found.lines()
    assert told in Readout.from_record(found.record()).lines()
    line = r"slower has not settled: about the constant input 0\.01, 0 it still moves by [0-9.]+% after 512 times"
    with pytest.warns(tino.TinoWarning, match=line):
        tino.second_order_kernel(slower, 2, point=point)
    with pytest.warns(tino.TinoWarning, match=line):
        tino.second_order_response(slower, torch.tensor([[0.1, 0.2]]), point=point)


def test_a_small_and_slow_part_counts_by_its_area():
    found = tino.impulse_response(Creeping(Frame.of("creeping", signals())))
    assert float(found.gain[0, 0]) == pytest.approx(1e-4 / 0.02, rel=1e-3)
    k = torch.arange(2000.0, dtype=torch.float64)
    for g, gain in ((0.5**k + 1e-3 * torch.exp(-k / 1e4), math.nan), (0.9**k - 2 * 0.8**k, 0.0)):
        one = ImpulseResponse(g[:, None, None], DT, (0.0,), (Channel("f"),), (Channel("u"),))
        assert float(one.left) < 0.01
        assert float(one.gain) == pytest.approx(gain, abs=1e-9, nan_ok=True)
        assert math.isfinite(float(one.memory)) == math.isfinite(gain)


def test_multisines_find_the_linear_part_and_what_is_not_linear(bent):
    small = tino.frequency_response(bent, level=1e-6, period=128, realisations=3)
    assert torch.allclose(small.values[:, 0, 0], transfer(small.frequency), rtol=1e-4)
    assert float(small.coherence.min()) == pytest.approx(1.0, abs=1e-6)
    assert small.unsteady < 1e-6
    large = tino.frequency_response(bent, level=(0.03, 0.01), period=128)
    assert bool(((large.coherence >= 0) & (large.coherence <= 1)).all())
    assert float(large.coherence[:, 0, 0].min()) < 0.999
    assert float(large.deviation[:, 0, 0].max()) > 100 * float(small.deviation[:, 0, 0].max())


def test_the_best_linear_approximation_by_hand(bent):
    """One realisation after another, driven in a plain loop: mean of U / F, its standard deviation, coherence."""
    found = tino.frequency_response(bent, level=(0.1, 0.01), period=16, realisations=3, seed=4)
    phases = torch.rand(2, 3, 7, generator=torch.Generator().manual_seed(4), dtype=torch.float64) * 2 * torch.pi
    n, ratios, cross, out, into = np.arange(48), [], [], [], []
    for r in range(3):
        waves = [np.cos(2 * np.pi * (k + 1) * n / 16 + float(phases[0, r, k])) for k in range(4)]
        f, u = 0.1 * math.sqrt(2 / 4) * np.sum(waves, 0), [0.0, 0.0]
        for value in f:
            u.append(Bent.a * u[-1] + Bent.b * u[-2] + Bent.q * u[-1] ** 2 + float(value))
        big_u, big_f = np.fft.rfft(u[2:][32:])[1:5], np.fft.rfft(f[32:])[1:5]
        ratios.append(big_u / big_f)
        cross.append(big_u * big_f.conj())
        out.append(abs(big_u) ** 2)
        into.append(abs(big_f) ** 2)
    assert found.values[:, 0, 0].numpy() == pytest.approx(np.mean(ratios, 0), rel=1e-9)
    assert found.deviation[:, 0, 0].numpy() == pytest.approx(np.std(ratios, 0, ddof=1) / math.sqrt(3), rel=1e-6)
    coherence = abs(np.mean(cross, 0)) ** 2 / (np.mean(out, 0) * np.mean(into, 0))
    assert found.coherence[:, 0, 0].numpy() == pytest.approx(coherence, rel=1e-9)


def test_the_second_order_kernel_by_finite_differences_and_in_closed_form(bent):
    """u_2 solves the linear recurrence driven by q u_1²: H2 = q z_1 z_2 H(ω1) H(ω2) H(ω1 + ω2), z = e^{-iω dt}."""
    pairs = torch.tensor([[0.3, 0.9], [1.4, -0.5], [2.0, 2.0]], dtype=torch.float64)
    one, two = pairs.unbind(1)
    late = torch.exp(-1j * (one + two) * DT)
    expected = Bent.q * late * transfer(one) * transfer(two) * transfer(one + two)
    assert torch.allclose(tino.second_order_response(bent, pairs)[:, 0], expected, rtol=1e-4)
    kernel = tino.second_order_kernel(bent, 12)[..., 0]
    assert torch.equal(kernel, kernel.T)

    def last(*lags: int, size: float = 1e-3) -> float:  # u at time 20 after impulses so many steps before
        f = torch.zeros(1, 21, 2, dtype=torch.float64)
        for lag in lags:
            f[0, 20 - lag, 0] += size
        return float(bent.double().by_steps(f)[0, -1, 0])

    for k, m in ((3, 1), (7, 2), (0, 5)):
        mixed = (last(k, m) - last(k) - last(m)) / 2e-6
        assert float(kernel[k, m]) == pytest.approx(mixed, abs=2e-3)
    bent.float()


# -- learned from oscillators --------------------------------------------------------------------------------


def oscillator(name: str, bend: float) -> tino.Problem:
    """u'' + c u' + k u + a u² = f, at rest at the start, driven by multisines."""

    def slope(f: Tensor, y: Tensor) -> Tensor:
        u, v = y.unbind(1)
        return column(v, f - DAMPING * v - STIFFNESS * u - bend * u**2)

    equation, law = "u'' + c u' + k u + a u² = f", multisine(highest=5.0)
    return forced_ode(name, slope, (0.0, 0.0), title=name, equation=equation, law=law, stop=12.0, n_t=120)


def receptance(omega: Tensor, damping: float = DAMPING, stiffness: float = STIFFNESS) -> Tensor:
    """H(ω) = 1 / (k - ω² + iωc)."""
    return 1 / (stiffness - omega**2 + 1j * omega * damping)


def learned(problem: tino.Problem, name: str, train: int, tmp: Any, **options: Any) -> tuple[tino.Operator, Dataset]:
    data, _ = tino.dataset(problem, 0, train, 1, cache=tmp, show_progress=False)
    model = tino.build(name, data, **options)
    model.solve(data)
    return model, data


@pytest.fixture(scope="module")
def spring(tmp_path_factory):
    return learned(oscillator("spring", 0.0), "linear", 40, tmp_path_factory.mktemp("data"), delays=10)


def test_a_linear_oscillator_is_read_from_its_learned_model(spring):
    """A sampled sine is answered by H(ω) of the continuous system: the model has learned how f moves between samples.

    h(t) is compared at the samples: a sample of f stands for a pulse about one step wide, so h is off by O(dt²),
    and its corner at t = 0 is rounded off.
    """
    model, train = spring
    found = tino.read_out(model, train)
    assert torch.allclose(found.impulse.response(LINES)[:, 0, 0], receptance(LINES), rtol=4e-3)
    assert float(found.impulse.gain[0, 0]) == pytest.approx(1 / STIFFNESS, rel=4e-3)
    lines = found.frequency.frequency
    assert torch.allclose(found.frequency.values[:, 0, 0], receptance(lines), rtol=2e-2)
    assert float(found.frequency.coherence.min()) > 1 - 1e-6
    t, ringing = found.impulse.times, math.sqrt(STIFFNESS - DAMPING**2 / 4)
    h = torch.exp(-DAMPING / 2 * t) * torch.sin(ringing * t) / ringing
    assert torch.allclose(found.impulse.density[2:, 0, 0], h[2:], atol=1e-2 * float(h.max()))
    (pole,) = found.poles  # the artefacts of ten delays are left out
    assert abs(pole) == pytest.approx(math.sqrt(STIFFNESS), rel=1e-2)
    assert -pole.real == pytest.approx(DAMPING / 2, rel=1e-2)
    assert [line for line in found.lines() if "natural" in line] == [f"  {pole_lines([pole], found.excited)[0]}"]
    assert float(found.impulse.memory[0, 0]) == pytest.approx(math.log(100) / (DAMPING / 2), rel=0.2)
    ((low, high),) = found.excited.bands(0)
    assert low == 0
    assert 5.0 <= high < 6.5  # the law's highest frequency, and the width of the window's main lobe


def test_both_modes_of_two_masses_are_read(tmp_path):
    """u'' + 0.4 u' + 6 u - 2 v = f, v'' + 0.4 v' + 3 v - 2 u = 0, of which u is measured: frequencies √7 and √2."""

    def slope(f: Tensor, y: Tensor) -> Tensor:
        u, du, v, dv = y.unbind(1)
        return torch.stack([du, f - 6 * u + 2 * v - 0.4 * du, dv, 2 * u - 3 * v - 0.4 * dv], 1)

    law = multisine(highest=5.0)
    masses = forced_ode("masses", slope, (0.0,) * 4, title="", equation="", law=law, stop=24.0, n_t=240)
    found = tino.read_out(*learned(masses, "linear", 60, tmp_path, delays=20))
    assert [abs(one) for one in found.poles] == pytest.approx([math.sqrt(7), math.sqrt(2)], rel=1e-2)
    assert [-one.real for one in found.poles] == pytest.approx([0.2, 0.2], rel=1e-2)


def test_noise_does_not_displace_the_true_mode(spring, tmp_path):
    """Where no input was excited, noise makes strong modes: they come later, and are marked."""
    _, train = spring
    noise = torch.randn(train.u.shape, generator=torch.Generator().manual_seed(3))
    noisy = replace(train, u=train.u + 0.01 * train.u.std() * noise)
    model = tino.build("linear", noisy, delays=10)
    model.solve(noisy)
    found = tino.read_out(model, noisy)
    true, *others = (line for line in found.lines() if "natural" in line)
    assert abs(found.poles[0]) == pytest.approx(math.sqrt(STIFFNESS), rel=1e-2)
    assert not true.endswith("(outside the excited band)")
    assert others
    assert all(line.endswith("(outside the excited band)") for line in others)
    assert Readout.from_record(json.loads(json.dumps(found.record()))).lines() == found.lines()


def test_a_negative_eigenvalue_is_no_oscillation():
    """u_i = 0.3 u_{i-1} + 0.54 u_{i-2} + f_i: λ = 0.9 and -0.6."""
    f = torch.randn(8, 64, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    f[:, 0] = 0
    u = torch.zeros_like(f)
    for i in range(1, 64):
        u[:, i] = 0.3 * u[:, i - 1] + 0.54 * u[:, i - 2] * (i > 1) + f[:, i]
    data = Dataset(f, u, TimeGrid(0.0, DT * 63, 64), Point(), Point())
    model = tino.build("linear", data, delays=2)
    model.solve(data)
    found = tino.read_out(model, data)
    assert found.poles == (pytest.approx(math.log(0.9) / DT, rel=1e-6),)
    assert f"  time constant {-DT / math.log(0.9):.4g}" in found.lines()


def test_duffing_s_small_vibrations_are_those_of_the_linearised_equation(tmp_path):
    problem = tino.problem("duffing", input="multisine", n_t=120)
    model, train = learned(problem, "polynomial", 80, tmp_path, degree=3, delays=3, stride=1)
    found = tino.impulse_response(model, times=240)
    lines = torch.tensor([0.3, 0.7, 1.0, 1.5, 3.0, 6.0], dtype=torch.float64)
    assert torch.allclose(found.response(lines)[:, 0, 0], receptance(lines, 1.0, 1.0), rtol=1e-2)
    small = tino.frequency_response(model, level=1e-3, excited=tino.Excited.of(train), realisations=2, period=240)
    assert torch.allclose(small.values, found.response(small.frequency), rtol=1e-2)
    for point, u in ((0.0, 0.0), (1.0, 0.6823278)):  # u + u³ = f: about u the stiffness is 1 + 3 u²
        (pole,) = tino.read_out(model, train, point=point).poles
        assert abs(pole) == pytest.approx(math.sqrt(1 + 3 * u**2), rel=1e-2)
        assert pole.real == pytest.approx(-0.5, rel=1e-2)
    large = tino.frequency_response(model, level=1.0, excited=tino.Excited.of(train), realisations=4, period=240)
    assert abs(large.values[0, 0, 0]) < 0.9  # a hardening spring yields less to large forces


def test_a_quadratic_spring_s_second_order_response(tmp_path):
    """H2(ω1, ω2) = -a H(ω1) H(ω2) H(ω1 + ω2)."""
    model, _ = learned(oscillator("quadratic", BEND), "polynomial", 60, tmp_path, degree=3, delays=3, stride=1)
    pairs = torch.tensor([[0.4, 0.4], [0.5, 1.3], [1.0, -0.6], [1.4, -1.4]], dtype=torch.float64)
    one, two = pairs.unbind(1)
    expected = -BEND * receptance(one) * receptance(two) * receptance(one + two)
    assert torch.allclose(tino.second_order_response(model, pairs)[:, 0], expected, rtol=4e-2)


# -- the band that the training excited ----------------------------------------------------------------------


def test_the_excited_band_by_hand():
    """Two records of different lengths: |Σ w_n (f_n - mean) e^{-iωn}|², averaged, and what is above a thousandth."""
    time, lengths = TimeGrid(0.0, DT * 63, 64), torch.tensor([64, 40])
    t = time.points
    f = torch.stack([3 + torch.sin(2 * torch.pi * 8 / (64 * DT) * t), torch.full_like(t, 3.2)])[..., None]
    data = Dataset(f, torch.zeros_like(f), time, Point(), Point(), lengths=lengths)
    found = tino.Excited.of(data)
    mean = (float(data.f[0].sum()) + 40 * 3.2) / 104
    total = np.zeros(33)
    for row, n in ((data.f[0, :, 0], 64), (data.f[1, :40, 0], 40)):
        window = [0.5 - 0.5 * math.cos(2 * math.pi * i / (n - 1)) for i in range(n)]
        windowed = list(zip(window, row.tolist(), strict=True))
        for k in range(33):
            terms = [w * (v - mean) * np.exp(-2j * np.pi * k * i / 64) for i, (w, v) in enumerate(windowed)]
            total[k] += abs(sum(terms)) ** 2 / 2
    assert found.power[0].numpy() == pytest.approx(total, rel=1e-9, abs=1e-9)
    assert found.lines[0].tolist() == (total >= 1e-3 * total.max()).tolist()
    assert found.at(found.frequency[[8, 20]]).tolist() == [[True, False]]
    assert found.at(torch.tensor([1e6])).tolist() == [[False]]
    again = tino.Excited.from_record(found.record())
    assert torch.equal(again.power, found.power)
    assert again.bands(0) == found.bands(0)


def test_an_input_that_never_varied_is_not_driven(bent):
    data = signals()
    data.f[..., 1] = 0.0
    found = tino.read_out(bent, data)
    assert found.excited.bands(1) == []
    assert bool(found.frequency.coherence[..., 1].isnan().all())
    assert found.lines()[-1] == "excited band of heat: none, it never varied"
    assert not any("heat -> " in line for line in found.lines()[5:])
    again = Readout.from_record(json.loads(json.dumps(found.record())))
    assert again.lines() == found.lines()
    assert torch.equal(again.frequency.values[..., 0], found.frequency.values[..., 0])


def test_a_readout_holds_the_second_order_over_the_memory(bent):
    """The mean of the kernel over cells of so many lags, of each input with itself."""
    found = tino.read_out(bent, signals())
    assert found.width == math.ceil(float(found.impulse.memory.amax()) / DT / 24)
    assert found.second.shape == (24, 24, 2, 2)
    again = Readout.from_record(json.loads(json.dumps(found.record())))
    assert (again.width, again.second.tolist()) == (found.width, found.second.tolist())
    slow = Slow(Frame.of("slow", signals()))
    found = tino.read_out(slow, signals(), level=0.01)
    assert found.width > 1
    for i in range(2):
        whole = tino.second_order_kernel(slow, 24 * found.width, input=i)
        cells = whole.unflatten(1, (24, -1)).unflatten(0, (24, -1)).mean((1, 3))
        assert float(cells.abs().max()) > 0.01
        assert torch.allclose(found.second[..., i], cells, rtol=1e-9, atol=1e-15)


def test_several_channels_are_drawn_each_to_each(bent):
    data = signals()
    data.f[..., 1] = 0.0
    found = tino.read_out(bent, data)
    titles = [axes.get_title() for axes in draw_frequency(found).axes[:4]]
    assert titles == ["force → <b>|", "heat → <b>|", "force → bend", "heat → bend"]
    labels = [axes.get_ylabel() for axes in draw_impulse(found).axes]
    assert labels == ["h(t)  [m/(N · t)]", "h(t)  [m/(W · t)]", "h(t)  [1/(N · t)]", "h(t)  [1/(W · t)]"]
    bent = draw_second(found).axes
    zero = ["force × force → <b>|", "heat × heat → <b>|: none"]
    assert [axes.get_title() for axes in bent[:2]] == zero
    assert bent[4].get_ylabel() == "h2(t1, t2)  [m/(N · t)²]"
    for figure in (draw_frequency(found), draw_impulse(found), draw_second(found)):
        assert png(figure).startswith(b"\x89PNG")


def test_what_has_not_died_away_has_no_gain():
    growing = ImpulseResponse(torch.exp(torch.arange(40.0))[:, None, None].double(), DT, (0.0,), (Channel("f"),), ())
    assert math.isnan(float(growing.gain))
    assert float(growing.memory) == math.inf


def test_poles_as_engineers_say_them():
    band = tino.Excited(
        torch.arange(0.0, 4.0), torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]), torch.ones(2)
    )
    said = pole_lines([complex(-0.5, 1.0), complex(-0.5, 3.0), complex(-5.0, 0.0)], band)
    assert said == [
        f"natural frequency {abs(-0.5 + 1j):.4g} rad per unit of t, damping ratio {0.5 / abs(-0.5 + 1j):.3g}",
        "natural frequency 3.041 rad per unit of t (outside the excited band)",
        "time constant 0.2",
    ]


# -- refusals and models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tino", "tdnn", "linear", "linear-level", "flow-tino"])
def test_every_causal_autonomous_model_can_be_read(name, tiny_data):
    train, _ = tiny_data("duffing")
    model = tino.build(name, train)
    if name.startswith("linear"):
        model.solve(train)
    found = tino.impulse_response(model, times=40).values[:, 0, 0]
    f = torch.zeros(1, 80, 1, dtype=torch.float64)
    f[0, 40] = 1e-5
    assert len(tino.read_out(model, train, level=0.1).poles) > 0 or name in ("tino", "tdnn")
    model = model.double()
    moved = (model(f) - model(-f))[0, 40:, 0].detach() / 2e-5
    assert torch.allclose(found, moved, atol=1e-5 * max(1e-3, float(moved.abs().max())))


def test_what_cannot_be_read_says_why(tiny_data, bent):
    train, _ = tiny_data("duffing")
    for name, why in (("don", "it is not causal"), ("trtino", "its answer depends on the time since T_0")):
        with pytest.raises(tino.TinoError, match=f"{name} has no impulse response: {why}"):
            tino.impulse_response(tino.build(name, train))
    with pytest.raises(tino.TinoError, match="expected one of tino's operators"):
        tino.impulse_response(torch.nn.Linear(1, 1))  # pyright: ignore[reportArgumentType]
    with pytest.raises(tino.TinoError, match="point has 1 numbers, expected one for each of 2"):
        tino.impulse_response(bent, point=[0.0])
    with pytest.raises(tino.TinoError, match="bent does not stay finite about the constant input 5, 0: choose another"):
        tino.impulse_response(bent, point=(5.0, 0.0))
    with pytest.raises(tino.TinoError, match=r"constant input 0, 0 at the level 9, 9: choose a smaller one"):
        tino.frequency_response(bent, level=9.0)
    with pytest.raises(tino.TinoError, match="level is 0, 0, expected numbers above 0"):
        tino.frequency_response(bent, level=0.0)
    with pytest.raises(tino.TinoError, match="level has 3 numbers, expected one for each of 2"):
        tino.frequency_response(bent, level=[1, 1, 1])
    with pytest.raises(tino.TinoError, match="bent does not say which inputs it has seen: give a level"):
        tino.frequency_response(bent)
    slow = tino.Excited(torch.tensor([0.0, 1e-3]), torch.tensor([[1.0, 1.0]] * 2), torch.ones(2))
    with pytest.raises(tino.TinoError, match=r"no line of a period of 4 times lies where force \[N\] was excited"):
        tino.frequency_response(bent, excited=slow, period=4)
    with pytest.raises(tino.TinoError, match=r"frequencies have shape \(2,\), expected \(pairs, 2\)"):
        tino.second_order_response(bent, torch.ones(2))
    with pytest.raises(tino.TinoError, match="input is 2, expected at most 1"):
        tino.second_order_kernel(bent, 4, input=2)


def test_of_a_field_one_point_is_read(tiny_data):
    train, _ = tiny_data("convection-diffusion")
    model = tino.build("tino", train)
    with pytest.raises(tino.TinoError, match="the input is a field of 16 points: choose one of them, such as input_po"):
        tino.impulse_response(model)
    with pytest.raises(tino.TinoError, match="output_point is 16, expected at most 15"):
        tino.impulse_response(model, input_point=3, output_point=16)
    found = tino.impulse_response(model, times=6, point=0.0, input_point=3, output_point=5)
    f = torch.zeros(1, 22, 16, dtype=torch.float64)
    f[0, 16, 3] = 1e-5
    model = model.double()
    moved = (model(f) - model(-f))[0, 16:, 5].detach() / 2e-5
    assert torch.allclose(found.values[:, 0, 0], moved, atol=1e-6 * max(1e-3, float(moved.abs().max())))


def test_an_option_added_later_leaves_the_names_of_earlier_data():
    assert tino.problem("duffing").options == {"n_t": 1000, "damping": 1.0}
    assert tino.problem("duffing", input="sine").record() == tino.problem("duffing").record()
    assert tino.problem("duffing", input="multisine").options["input"] == "multisine"
    assert "input" in base.problem_options("duffing")
    with pytest.raises(tino.TinoError, match="duffing: input is 'noise', expected one of sine, multisine"):
        tino.problem("duffing", input="noise")


def test_a_multisine_by_hand():
    drawn = multisine(lines=3).sample(1, 0, [4])
    p, t = drawn.params, torch.tensor([0.0, 0.4, 7.0], dtype=torch.float64)
    waves = p["b"][0, 0].tolist(), p["c"][0, 0].tolist()
    by_hand = [
        float(p["A"]) * math.sqrt(2 / 3) * sum(math.sin(b * s + c) for b, c in zip(*waves, strict=True))
        for s in t.tolist()
    ]
    assert drawn.amplitude(t)[0].tolist() == pytest.approx(by_hand)
    assert drawn.ahead(0.4).amplitude(t[:1])[0].tolist() == pytest.approx(by_hand[1:2])
    assert drawn.amplitude(t[1:2, None])[0].tolist() == pytest.approx(by_hand[1:2])
    assert not bool(drawn.silent().amplitude(t).any())
