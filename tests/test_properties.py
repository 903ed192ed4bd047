"""Certificates: on operators with known answers, and on every member of the family."""

import pytest
import torch
from conftest import PAIRS, RECIPES, separable
from torch import nn

import tino
from tino.properties import TOLERANCE

N_T, STEP = 40, 0.25


class Integral(nn.Module):
    """∫_{T_0}^t f, by the left rule."""

    def forward(self, f, ic=None):
        return torch.cumsum(f, dim=1) * STEP


class LookAhead(nn.Module):
    """The mean of f now and one step ahead (of f now at the end)."""

    def forward(self, f, ic=None):
        return (f + torch.cat([f[:, 1:], f[:, -1:]], dim=1)) / 2


class Clock(nn.Module):
    """(10 - t) f(t)."""

    def forward(self, f, ic=None):
        t = STEP * torch.arange(f.shape[1], dtype=f.dtype)
        return (10 - t)[:, None] * f


class Liar(Clock):
    causal = True
    time_invariant = True


class Modest(Integral):
    causal = True
    time_invariant = False


@pytest.fixture
def signals():
    return torch.randn(6, N_T, 1, generator=torch.Generator().manual_seed(0))


def test_integration_is_time_invariant(signals):
    answer = tino.certify(Integral(), signals)
    assert answer.causal
    assert answer.time_invariant
    assert answer.leak == 0
    assert answer.derived_causal is None


def test_looking_ahead_is_seen_at_its_size(signals):
    answer = tino.certify(LookAhead(), signals)
    assert not answer.causal
    assert not answer.time_invariant  # time-invariant includes causal
    assert 0.1 < answer.leak < 0.5 + 1e-12  # half of the change one step ahead, relative to the largest change


def test_a_clock_is_causal_but_not_time_invariant(signals):
    answer = tino.certify(Clock(), signals)
    assert answer.causal
    assert answer.leak == 0
    assert not answer.time_invariant
    # (10 - t) f(t - τ) - (10 - (t - τ)) f(t - τ) = -τ f(t - τ): largest for a shift of half the record
    assert answer.defect >= N_T // 2 * STEP * float(signals[:4].abs().mean())


def test_units_do_not_matter(signals):
    class Scaled(nn.Module):
        def __init__(self, inner, factor):
            super().__init__()
            self.inner, self.factor = inner, factor

        def forward(self, f, ic=None):
            return self.factor * self.inner(f)

    for factor in (1e-20, 1e20):
        assert tino.certify(Scaled(Integral(), factor), signals).time_invariant
        assert not tino.certify(Scaled(LookAhead(), factor), signals).causal
        assert not tino.certify(Scaled(Clock(), factor), signals).time_invariant


def test_a_broken_promise_is_an_error_and_a_kept_secret_a_note(signals):
    with pytest.raises(tino.CertificateError, match="time-invariant by its parts, but the measurement denies it"):
        tino.certify(Liar(), signals)
    answer = tino.certify(Modest(), signals)
    assert answer.time_invariant
    assert "not time-invariant by its parts, yet measured so" in str(answer)


DERIVED = {  # from the definitions of the models: (causal, time-invariant)
    "don": (False, False),
    "pod-don": (False, False),
    "spod-don": (False, False),
    "tc-don": (True, False),
    "tc-spod-don": (True, False),
    "causality-don": (True, False),
    "tdnn": (True, True),
    "tino": (True, True),
    "pod-tino": (True, True),
    "trtino": (True, False),
    "spod-trtino": (True, False),
}


def test_the_reasons_are_the_parts_own(small_data):
    train, test = small_data("duffing")
    reasons = {
        "don": "its mixer sees the future and its basis depends on t",
        "tc-don": "its mixer has weights for each absolute time and its basis depends on t",
        "causality-don": "its mixer leaves f(T_0) out and its basis depends on t",
        "trtino": "its time factor depends on t",
    }
    for name, why in reasons.items():
        assert str(tino.certify(separable(name, train), test)).endswith(f": {why}")


def test_every_model_has_a_row_above():
    assert set(DERIVED) == set(RECIPES)


@pytest.mark.parametrize(("problem", "name"), PAIRS)
def test_declared_equals_measured(problem, name, small_data):
    train, test = small_data(problem)
    model = separable(name, train)
    answer = tino.certify(model, test)
    assert (model.causal, model.time_invariant) == DERIVED[name]
    assert (answer.causal, answer.time_invariant) == DERIVED[name]
    assert answer.notes == ()
    if answer.causal:
        assert answer.leak <= 1e-12  # relative to the kick, in float64
    if answer.time_invariant:
        assert answer.defect <= 1e-12 * float(test.f.abs().max())
    assert next(model.parameters()).dtype == torch.float32  # the model itself was left alone


class Faint(nn.Module):
    """A large constant, and a faint look at the far end of the signal."""

    def forward(self, f):
        return 1e3 + 1e-9 * f.flip(1)


class Cubic(nn.Module):
    """Looks ahead only for signals above all typical ones."""

    def forward(self, f):
        return f + torch.relu(f.roll(-1, 1).abs() - 1.5) * 1e-3


class Fragile(nn.Module):
    """NaN where a signal is large."""

    def forward(self, f):
        return f + torch.where(f.abs() > 1.5, torch.nan, 0.0)


def test_a_faint_leak_is_seen(signals):
    answer = tino.certify(Faint(), signals)
    assert not answer.causal
    assert answer.leak == pytest.approx(1e-9, rel=0.9)


def test_noise_finds_what_typical_inputs_hide():
    calm = torch.ones(4, N_T, 1)
    assert not tino.certify(Cubic(), calm).causal


def test_answers_that_are_not_finite_are_refused(signals):
    with pytest.raises(tino.TinoError, match="answers with NaN"):
        tino.certify(Fragile(), signals.clamp(-1, 1))


class TwiceShy(nn.Module):
    """Time-invariant for a shift by one step (and all odd ones): the sign of f at even distance alternates."""

    def forward(self, f):
        clock = torch.where(torch.arange(f.shape[1]) >= f.shape[1] // 2, 1.0, 0.0).to(f.dtype)
        return torch.cumsum(f, 1) * (1 + 1e-6 * clock[:, None])


def test_long_shifts_are_tried(signals):
    assert not tino.certify(TwiceShy(), signals).time_invariant


def test_an_initial_state_is_a_parameter_of_the_operator(small_data):
    """It enters equally at all times, so the map from f to u stays time-invariant."""
    train, _ = small_data("burgers-0.1")
    state = torch.randn(len(train), 3, generator=torch.Generator().manual_seed(0))
    data = tino.Dataset(train.f, train.u, train.time, train.inputs, train.outputs, state)
    answer = tino.certify(tino.build("tino", data), data)
    assert answer.derived_time_invariant
    assert answer.time_invariant
    assert not tino.certify(tino.build("trtino", data), data).time_invariant


def test_the_line_reads_well(small_data):
    train, test = small_data("burgers-0.1")
    line = str(tino.certify(tino.build("spod-trtino", train), test))
    assert line.startswith("spod-trtino: causal (leak ")
    assert "not time-invariant (defect " in line
    assert line.endswith("): its time factor depends on t")


def test_float32_is_measured_with_its_own_tolerance(small_data):
    train, test = small_data("burgers-0.1")
    answer = tino.certify(tino.build("tino", train), test, dtype=torch.float32)
    assert answer.time_invariant
    assert answer.leak < TOLERANCE[torch.float32]


def test_bad_inputs_are_one_line(signals):
    with pytest.raises(tino.TinoError, match="expected \\(samples, times, sensors\\)"):
        tino.certify(Integral(), signals[0])
    with pytest.raises(tino.TinoError, match="measures in torch"):
        tino.certify(Integral(), signals, dtype=torch.float16)
    with pytest.raises(tino.TinoError, match="NaN"):
        tino.certify(Integral(), signals * torch.nan)
