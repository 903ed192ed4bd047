"""Certificates: on operators with known answers, on operators that lie, and on every registered model."""

import json
from typing import Any

import pytest
import torch
from conftest import PAIRS, separable
from torch import Tensor, nn

import tino
from tino.certificates import TOLERANCE, certify
from tino.frame import Frame
from tino.operator import Operator, Properties

N_T, STEP = 40, 0.25
FRAME = Frame("toy", "own data", tino.TimeGrid(0.0, STEP * (N_T - 1), N_T), tino.Point(), tino.Point())
ALL_THREE = Properties(True, True, True)


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


class Decay(Operator):
    """x_i = x_{i-1} / 2 + f_i, u = x: causal, autonomous and at rest, whatever its properties claim."""

    frame = FRAME
    properties: Any = ALL_THREE
    zero: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero", torch.zeros(1))  # has the dtype

    def forward(self, f, ic=None):
        self.check_shapes(f, ic)
        return self.by_steps(f)

    def rest(self, b, ic):
        return self.zero.expand(b, 1)

    def _step(self, memory, f_i, i):
        memory = memory / 2 + f_i
        return memory, memory

    def record(self):
        return {}

    @classmethod
    def from_record(cls, frame, record):
        return cls()


class ReadsTheClock(Decay):
    """A gain that drifts by a millionth a step."""

    def _step(self, memory, f_i, i):
        memory, u = super()._step(memory, f_i, i)
        return memory, u * (1 + 1e-6 * i)


class Drifts(Decay):
    """Zero input moves it: to 2e-6."""

    def _step(self, memory, f_i, i):
        return super()._step(memory, f_i + 1e-6, i)


class DriftsAsItSays(Drifts):
    properties = Properties(True, True, False, ("a constant acts on it",))


class Peeks(Decay):
    def forward(self, f, ic=None):
        return super().forward(f) + 1e-6 * torch.cat([f[:, 1:], torch.zeros_like(f[:, :1])], 1)


class StepsOtherwise(Decay):
    """The whole record by another formula than its steps."""

    def forward(self, f, ic=None):
        return super().forward(f) * (1 + 1e-6)


class BeginsOtherwise(Decay):
    """Its first step halves the input: another count of inputs in the state does not show it, a shifted record does."""

    def _first(self, memory, f_0):
        return self._step(memory, f_0 / 2, 0)


class Modest(Decay):
    properties = Properties(True, False, True, ("it thinks little of itself",))


@pytest.fixture
def signals():
    return torch.randn(6, N_T, 1, generator=torch.Generator().manual_seed(0))


def test_integration_is_time_invariant(signals):
    answer = certify(Integral(), signals)
    assert (answer.causal, answer.at_rest, answer.time_invariant) == (True, True, True)
    assert answer.leak == 0
    assert answer.drift == 0
    assert answer.derived == Properties()
    assert (answer.clock, answer.mismatch, answer.autonomous) == (None, None, None)  # a plain module has no steps


def test_looking_ahead_is_seen_at_its_size(signals):
    answer = certify(LookAhead(), signals)
    assert not answer.causal
    assert not answer.time_invariant  # time-invariant includes causal
    assert 0.1 < answer.leak < 0.5 + 1e-12  # half of the change one step ahead, relative to the largest change


def test_a_clock_is_causal_but_not_time_invariant(signals):
    answer = certify(Clock(), signals)
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
        assert certify(Scaled(Integral(), factor), signals).time_invariant
        assert not certify(Scaled(LookAhead(), factor), signals).causal
        assert not certify(Scaled(Clock(), factor), signals).time_invariant


def test_an_honest_operator_is_measured_in_every_way(signals):
    answer = certify(Decay(), signals)
    assert (answer.causal, answer.autonomous, answer.at_rest, answer.time_invariant) == (True, True, True, True)
    assert (answer.leak, answer.defect, answer.drift, answer.clock, answer.mismatch) == (0, 0, 0, 0, 0)
    assert answer.word == "time-invariant"
    assert answer.notes == ()


@pytest.mark.parametrize(
    ("liar", "said"),
    [
        (Peeks, "toy should be causal by its parts, but measures otherwise (leak "),
        (ReadsTheClock, "toy should be autonomous by its parts, but measures otherwise (clock "),
        (Drifts, "toy should be at rest by its parts, but measures otherwise (drift "),
        (BeginsOtherwise, "toy should be time-invariant by its parts, but measures otherwise (defect "),
        (StepsOtherwise, "toy differs between step by step and the whole record (by "),
    ],
)
def test_a_broken_promise_is_an_error(liar, said, signals):
    with pytest.raises(tino.CertificateError) as error:
        certify(liar(), signals)
    assert str(error.value).startswith(said)


def test_measurements_have_the_size_of_what_is_wrong(signals):
    """Of operators that promise no more than they keep."""

    def modest(kind: type[Decay], autonomous: bool | None) -> Decay:
        return type(kind.__name__, (kind,), {"properties": Properties(True, autonomous)})()

    u = Decay().double()(signals[:4].double())
    clock = certify(modest(ReadsTheClock, None), signals)
    assert clock.clock is not None
    assert 1e-7 < clock.clock < 1e-6 * N_T * 3 * float(u.abs().max())
    assert clock.autonomous is False
    assert clock.word == "not time-invariant"
    drifts = certify(modest(Drifts, True), signals)
    assert drifts.drift == pytest.approx(1e-6, rel=1e-9)  # from 1e-6 at T_0 to 2e-6
    begins = certify(modest(BeginsOtherwise, True), signals)
    assert (begins.causal, begins.autonomous, begins.at_rest, begins.time_invariant) == (True, True, True, False)
    assert 0.1 < begins.defect < 3 * float(signals.abs().max())


def test_only_a_start_not_at_rest_is_reported_as_autonomous(signals):
    answer = certify(DriftsAsItSays(), signals)
    assert (answer.causal, answer.autonomous, answer.at_rest, answer.time_invariant) == (True, True, False, False)
    assert answer.word == "autonomous, not at rest"
    assert ", autonomous (clock 0), not at rest (drift " in str(answer)
    assert str(answer).endswith("): a constant acts on it")


def test_a_kept_secret_is_a_note(signals):
    answer = certify(Modest(), signals)
    assert answer.time_invariant
    assert answer.notes == ("not time-invariant by its parts, but measures so on these inputs",)
    assert "not time-invariant by its parts, but measures so" in str(answer)


def test_the_record_is_plain(signals):
    found = json.loads(json.dumps(certify(DriftsAsItSays(), signals).record()))
    assert found["derived"] == {
        "causal": True,
        "autonomous": True,
        "at_rest": False,
        "reasons": ["a constant acts on it"],
    }
    assert found["word"] == "autonomous, not at rest"
    assert found["notes"] == []
    assert found["clock"] == 0


DERIVED = {  # from the definitions of the models: causal, autonomous, at rest
    "fno": (False, None, None),
    "unet": (False, None, None),
    "don": (False, False, False),
    "pod-don": (False, False, False),
    "spod-don": (False, False, False),
    "tc-don": (True, False, False),
    "tc-spod-don": (True, False, False),
    "causality-don": (True, False, False),
    "tdnn": (True, True, True),
    "tino": (True, True, True),
    "pod-tino": (True, True, True),
    "trtino": (True, False, False),
    "spod-trtino": (True, False, False),
}


def test_every_model_has_a_row_above():
    assert set(DERIVED) == set(tino.MODELS)


def test_the_reasons_are_the_parts_own(small_data):
    train, test = small_data("duffing")
    reasons = {
        "don": "its mixer sees the future and its basis depends on t",
        "tc-don": "its mixer weights depend on absolute time and its basis depends on t",
        "causality-don": "its mixer ignores f(T_0) and its basis depends on t",
        "trtino": "its time factor depends on t",
    }
    for name, why in reasons.items():
        assert str(certify(separable(name, train), test)).endswith(f": {why}")


@pytest.mark.parametrize(("problem", "name"), [*PAIRS, ("burgers-0.1", "fno"), ("burgers-0.1", "unet")])
def test_declared_equals_measured(problem, name, small_data):
    train, test = small_data(problem)
    model = tino.build(name, train)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # biases that are not zero, as after a training
        for p in model.parameters():
            p += 0.05 * torch.randn(p.shape, generator=generator)
    answer = certify(model, test)
    derived = model.properties
    assert (derived.causal, derived.autonomous, derived.at_rest) == DERIVED[name]
    assert answer.derived == derived
    assert answer.causal == derived.causal
    assert answer.time_invariant == (DERIVED[name] == (True, True, True))
    assert answer.notes == ()
    if answer.causal:
        assert answer.autonomous == derived.autonomous
        assert answer.at_rest == (derived.at_rest or name == "causality-don")  # has no bias: there zero stays zero
    assert next(model.parameters()).dtype == torch.float32  # the model itself is unchanged


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
    answer = certify(Faint(), signals)
    assert not answer.causal
    assert answer.leak == pytest.approx(1e-9, rel=0.9)


def test_noise_finds_what_typical_inputs_hide():
    calm = torch.ones(4, N_T, 1)
    assert not certify(Cubic(), calm).causal


def test_answers_that_are_not_finite_are_refused(signals):
    with pytest.raises(tino.TinoError, match="returns NaN"):
        certify(Fragile(), signals.clamp(-1, 1))


class LateRiser(nn.Module):
    """∫ f, a millionth larger where the record begins with five zeros or more: a shift by one step does not show it."""

    def forward(self, f):
        slept = (f[:, :5] == 0).all(dim=(1, 2))
        return torch.cumsum(f, 1) * torch.where(slept, 1 + 1e-6, 1.0).to(f.dtype)[:, None, None]


def test_long_shifts_are_tried(signals):
    answer = certify(LateRiser(), signals)
    assert (answer.causal, answer.at_rest, answer.time_invariant) == (True, True, False)
    assert answer.defect > 1e-7


def test_an_initial_state_is_a_parameter_of_the_operator(small_data):
    """It enters equally at all times, so the map from f to u stays time-invariant."""
    train, _ = small_data("burgers-0.1")
    state = torch.randn(len(train), 3, generator=torch.Generator().manual_seed(0))
    data = tino.Dataset(train.f, train.u, train.time, train.inputs, train.outputs, state)
    answer = certify(tino.build("tino", data), data)
    assert answer.derived.time_invariant
    assert answer.time_invariant
    assert not certify(tino.build("trtino", data), data).time_invariant


def test_the_line_reads_well(small_data):
    train, test = small_data("burgers-0.1")
    line = str(certify(tino.build("spod-trtino", train), test))
    assert line.startswith("spod-trtino: causal (leak ")
    assert "not time-invariant (defect " in line
    assert line.endswith("): its time factor depends on t")


def test_float32_is_measured_with_its_own_tolerance(small_data):
    train, test = small_data("burgers-0.1")
    answer = certify(tino.build("tino", train), test, dtype=torch.float32)
    assert answer.time_invariant
    assert answer.leak < TOLERANCE[torch.float32]


def test_bad_inputs_are_one_line(signals):
    with pytest.raises(tino.TinoError, match="expected \\(samples, times, sensors\\)"):
        certify(Integral(), signals[0])
    with pytest.raises(tino.TinoError, match="measures in torch"):
        certify(Integral(), signals, dtype=torch.float16)
    with pytest.raises(tino.TinoError, match="NaN"):
        certify(Integral(), signals * torch.nan)


class TwoChannels(nn.Module):
    """A stress of size 1e9, and a strain of size 1e-6 that may look ahead; inputs of size 1 and 1e-9."""

    def __init__(self, ahead: bool) -> None:
        super().__init__()
        self.ahead = ahead

    def forward(self, f: Tensor) -> Tensor:
        stress, strain = 1e9 * f[..., :1].cumsum(1), 1e3 * f[..., 1:].cumsum(1)
        return torch.cat([stress, strain.roll(-1, 1) if self.ahead else strain], -1)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_small_channel_is_measured_like_a_large_one(ahead):
    f = torch.randn(6, N_T, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1e-9])
    pair = (tino.Channel("a"), tino.Channel("b"))
    data = tino.Dataset(f, f, FRAME.time, tino.Point(), tino.Point(), input_channels=pair, output_channels=pair)
    answer = certify(TwoChannels(ahead), data, show_progress=False)
    assert answer.causal is not ahead
    assert answer.time_invariant is not ahead
