"""Certificates: on operators with known answers, on operators that lie, and on every registered model."""

import json
import re
from typing import Any

import pytest
import torch
from conftest import PAIRS, separable
from torch import Tensor, nn

import tino
from tino import probes
from tino.certificates import TOLERANCE, certify
from tino.frame import Frame
from tino.operator import Operator, Properties
from tino.subjects import Found, Subject

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
    assert 0.1 < answer.leak <= 1  # relative to the largest change at any time
    assert (answer.cuts, answer.all_cuts, answer.sizes) == (8, N_T - 1, (1.0,))  # seen at once: kicked no further


def test_a_clock_is_causal_but_not_time_invariant(signals):
    answer = certify(Clock(), signals)
    assert answer.causal
    assert answer.leak == 0
    assert not answer.time_invariant
    # (10 - t) f(t - τ) - (10 - (t - τ)) f(t - τ) = -τ f(t - τ), relative to (10 - t) f(t), for a τ above a quarter of T
    assert N_T // 4 * STEP / 10 * 0.5 < answer.defect < 1


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


def test_a_broken_promise_is_a_warning_and_a_note_where_it_is_asked(signals):
    with pytest.warns(tino.TinoWarning, match="toy should be causal by its parts, but measures otherwise"):
        found = certify(Peeks(), signals, strict=False)
    assert not found.causal
    assert any("it should be causal by its parts" in note and "magnifies rounding" in note for note in found.notes)


def test_measurements_have_the_size_of_what_is_wrong(signals):
    """Of operators that promise no more than they keep."""

    def modest(kind: type[Decay], autonomous: bool | None) -> Decay:
        return type(kind.__name__, (kind,), {"properties": Properties(True, autonomous)})()

    clock = certify(modest(ReadsTheClock, None), signals)
    assert clock.clock is not None
    assert 1e-7 < clock.clock < 1e-6 * N_T  # relative to the effect of the input
    assert clock.autonomous is False
    assert clock.word == "not time-invariant"
    drifts = certify(modest(Drifts, True), signals)
    largest = float(signals.abs().max())
    assert 1e-6 / (6 * 2 * largest) < drifts.drift < 1e-6 / largest  # from 1e-6 at T_0 to 2e-6; noise reaches 5 or so
    begins = certify(modest(BeginsOtherwise, True), signals)
    assert (begins.causal, begins.autonomous, begins.at_rest, begins.time_invariant) == (True, True, True, False)
    assert 0.05 < begins.defect < 1


def test_only_a_start_not_at_rest_is_reported_as_autonomous(signals):
    answer = certify(DriftsAsItSays(), signals)
    assert (answer.causal, answer.autonomous, answer.at_rest, answer.time_invariant) == (True, True, False, False)
    assert answer.word == "autonomous, not at rest"
    assert "\n  autonomous: proved by construction, and measured to 0\n  not at rest: by construction" in str(answer)
    assert "\n  why: a constant acts on it\n" in str(answer)


def test_a_kept_secret_is_a_note(signals):
    answer = certify(Modest(), signals)
    assert answer.time_invariant
    assert answer.notes == ("not autonomous, not time-invariant by its parts, but measures so on these inputs",)
    assert "not autonomous, not time-invariant by its parts, but measures" in str(answer)


def test_rest_that_the_parts_deny_is_a_note(signals):
    class Humble(Decay):
        properties = Properties(True, True, False, ("it thinks little of itself",))

    answer = certify(Humble(), signals, show_progress=False)
    assert answer.at_rest  # the verdict is the measurement's
    assert answer.notes == ("not at rest, not time-invariant by its parts, but measures so on these inputs",)


class RunsAway(DriftsAsItSays):
    """From 1e-6 to 2e-6 without input; noise, larger than any input of the data, is answered by 1e30."""

    def _step(self, memory, f_i, i):
        memory, u = super()._step(memory, f_i, i)
        return memory, u + 1e30 * torch.relu(f_i.abs() - LARGEST)


def test_noise_that_makes_an_operator_run_away_does_not_hide_its_drift(usual):
    answer = certify(RunsAway(), usual, show_progress=False)
    assert (answer.causal, answer.autonomous, answer.at_rest, answer.time_invariant) == (True, True, False, False)
    assert answer.drift == pytest.approx(1e-6 / LARGEST, rel=0.6)
    assert answer.notes == ()


def test_a_drift_that_noise_would_hide_breaks_a_promise(usual):
    proud = type("Proud", (RunsAway,), {"properties": ALL_THREE})()
    with pytest.raises(tino.CertificateError, match="should be at rest by its parts, but measures otherwise"):
        certify(proud, usual, show_progress=False)


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
    "fno-step": (True, True, False),
    "fno-step-clock": (True, False, False),
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
    "lstm": (True, True, False),
    "gru": (True, True, False),
}
# whether these are at rest depends on where the data start: tests/test_flows.py
FLOWS = {"linear", "linear-clock", "linear-level", "polynomial", "polynomial-clock", "polynomial-sim"}
FLOWS |= {"equation", "flow-tino", "flow-tino-clock"}


def test_every_model_has_a_row_above():
    assert set(DERIVED) | FLOWS == set(tino.MODELS)


def test_the_reasons_are_the_parts_own(small_data):
    train, test = small_data("duffing")
    reasons = {
        "don": "its mixer sees the future and its basis depends on t",
        "tc-don": "its mixer weights depend on absolute time and its basis depends on t",
        "causality-don": "its mixer ignores f(T_0) and its basis depends on t",
        "trtino": "its time factor depends on t",
    }
    for name, why in reasons.items():
        assert f"why: {why} tried: " in " ".join(str(certify(separable(name, train), test)).split())


@pytest.mark.parametrize(
    ("problem", "name"), [*PAIRS, *[("burgers-0.1", name) for name in ("fno", "unet", "fno-step", "lstm", "gru")]]
)
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
    rests = name == "causality-don"  # it has no bias: there zero stays zero, which its parts do not promise
    assert answer.notes == (("not at rest by its parts, but measures so on these inputs",) if rests else ())
    if answer.causal:
        assert answer.autonomous == derived.autonomous
        assert answer.at_rest == (derived.at_rest or rests)
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
    assert answer.leak == pytest.approx(1)  # all of the change comes too early, however faint


def test_noise_finds_what_typical_inputs_hide():
    calm = torch.ones(4, N_T, 1)
    assert not certify(Cubic(), calm).causal


def test_answers_that_are_not_finite_are_refused(signals):
    with pytest.raises(tino.TinoError, match="returns NaN"):
        certify(Fragile(), 2 * signals)


def test_noise_that_overflows_is_made_smaller_and_noted(signals):
    answer = certify(Fragile(), signals.clamp(-1, 1))
    assert answer.causal
    assert 1e-2 in answer.sizes
    assert {1.0, 10.0, 100.0} <= set(answer.overflows)
    assert any(note.startswith("not finite") for note in answer.notes)


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


def test_the_lines_read_well(small_data):
    train, test = small_data("burgers-0.1")
    first, *others = str(certify(tino.build("spod-trtino", train), test)).splitlines()
    assert first == "spod-trtino: causal, not autonomous, at rest, not time-invariant"
    assert others[0].startswith("  causal: proved by construction, and measured to ")
    assert others[1].startswith("  not autonomous: by construction, and measured, clock ")
    assert others[2] == "  at rest: measured without input, drift 0"  # its biases are zero before training
    assert others[3].startswith("  not time-invariant: by construction, and measured, defect ")
    assert others[4] == "  why: its time factor depends on t"
    assert others[5].startswith("  tried: 23 of 23 cuts, ")
    assert max(map(len, [first, *others])) <= 80


def test_what_is_not_proved_is_said_to_be_measured(signals):
    answer = certify(Integral(), signals, seed=3)
    lines = str(answer).splitlines()
    assert lines[0] == "Integral: causal, at rest, time-invariant"
    assert lines[1] == "  causal: not proved, measured at 39 cuts and 5 sizes, leak 0"
    assert lines[2] == "  at rest: not proved, measured without input, drift 0"
    assert lines[3].startswith("  time-invariant: not proved, measured at 5 sizes, defect ")
    assert " ".join(" ".join(lines[4:]).split()) == (
        f"tried: 39 of 39 cuts, {answer.kicks} kicks; 0.0001, 0.01, 1, 10, 100 times the largest input; "
        "initial state left out, zero, 10 times, random; seed 3"
    )
    assert max(map(len, lines)) <= 80
    record = json.loads(json.dumps(answer.record()))
    assert (record["cuts"], record["all_cuts"], record["seed"]) == (39, 39, 3)
    assert record["sizes"] == [1e-4, 1e-2, 1, 10, 100]
    assert record["declared"] == {"causal": None, "autonomous": None, "at_rest": None, "time_invariant": None}


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


# -- attackers: each has one hidden fault, which eight even cuts at the size of the data do not see ---------------

LARGEST = 2.0  # of the inputs that the attackers are certified with


@pytest.fixture
def usual():
    """Inputs within ±LARGEST, which they reach; none is so small that a change of it shows LeaksQuiet by luck."""
    f = torch.randn(6, N_T, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    f = LARGEST * f / f.abs().max()
    assert f.abs().min() > 2e-3 * LARGEST
    return f


def ahead(f: Tensor) -> Tensor:
    """The next input."""
    return torch.cat([f[:, 1:], torch.zeros_like(f[:, :1])], 1)


class LeaksLoud(nn.Module):
    """Sees the next input where it is above five times the largest."""

    def forward(self, f):
        return f.cumsum(1) + 1e-3 * torch.relu(ahead(f).abs() - 5 * LARGEST)


class LeaksQuiet(nn.Module):
    """Sees the next input where it is below a thousandth of the largest."""

    def forward(self, f):
        return f.cumsum(1) + torch.where(ahead(f).abs() < 1e-3 * LARGEST, ahead(f), 0.0)


class LeaksQuietRecords(nn.Module):
    """Sees the next input where the whole record is below a thousandth of the largest."""

    def forward(self, f):
        return f.cumsum(1) + torch.where(f.abs().amax(1, True) < 1e-3 * LARGEST, ahead(f), 0.0)


class LeaksSmallChanges(nn.Module):
    """Sees how far the next input is from a ramp of slope 0.01 a step, if it is within 1e-3."""

    def forward(self, f):
        surprise = ahead(f) - (f + 0.01)
        return f.cumsum(1) + torch.where(surprise.abs() < 1e-3, surprise, 0.0)


class LeaksOnce(nn.Module):
    """Sees the next input at one output time, between the eight even cuts."""

    def forward(self, f):
        return f.cumsum(1) + 1e-3 * ahead(f) * (torch.arange(N_T) == 13)[:, None]


class LeaksOnceLoud(nn.Module):
    """Both: at one output time, and only from above five times the largest input."""

    def forward(self, f):
        seen = torch.relu(ahead(f).abs() - 5 * LARGEST)
        return f.cumsum(1) + 1e-3 * seen * (torch.arange(N_T) == 13)[:, None]


class LeaksWithState(nn.Module):
    """Sees the next input if the initial state is not zero."""

    def forward(self, f, ic=None):
        return f.cumsum(1) + (0.0 if ic is None else ic[:, None, :1] * ahead(f))


class ClockWithState(nn.Module):
    """Its initial state fades with time: with another than zero it is not at rest."""

    def forward(self, f, ic=None):
        fading = torch.exp(-STEP * torch.arange(N_T, dtype=f.dtype))[:, None]
        return f.cumsum(1) + (0.0 if ic is None else ic[:, None, :1] * fading)


class ClockWithoutState(nn.Module):
    """Reads the clock if the initial state is left out."""

    def forward(self, f, ic=None):
        t = STEP * torch.arange(N_T, dtype=f.dtype)[:, None]
        return f.cumsum(1) * (1.0 + (1e-3 * t if ic is None else 0.0))


class ClockLoud(nn.Module):
    """Reads the clock where the input is above five times the largest."""

    def forward(self, f):
        t = STEP * torch.arange(N_T, dtype=f.dtype)[:, None]
        return (f * (1 + 1e-3 * t * (f.abs() > 5 * LARGEST))).cumsum(1)


class ClockQuiet(nn.Module):
    """Reads the clock where the whole record is below a thousandth of the largest."""

    def forward(self, f):
        t = STEP * torch.arange(N_T, dtype=f.dtype)[:, None]
        return f.cumsum(1) * (1 + 1e-3 * t * (f.abs().amax(1, True) < 1e-3 * LARGEST))


SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "attacker", [LeaksLoud, LeaksQuiet, LeaksQuietRecords, LeaksOnce, LeaksOnceLoud], ids=lambda a: a.__name__
)
def test_a_hidden_leak_is_found(attacker, seed, usual):
    answer = certify(attacker(), usual, seed=seed, show_progress=False)
    assert not answer.causal
    assert not answer.time_invariant
    assert answer.leak > 1e-9


def test_a_leak_of_small_changes_is_found():
    f = (
        0.01 * torch.arange(N_T, dtype=torch.float64)[None, :, None].expand(4, -1, -1)
        + torch.arange(4.0)[:, None, None]
    )
    assert not certify(LeaksSmallChanges(), f, show_progress=False).causal


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("channel", [0, 1])
def test_a_leak_in_one_channel_once_is_found(channel, seed, usual):
    """Of size 1e9 and 1e-6, beside one that is causal."""
    units = torch.tensor([1e9, 1e-6], dtype=torch.float64)

    class OneChannel(nn.Module):
        def forward(self, f):
            both = [f.cumsum(1), f.cumsum(1)]
            both[channel] = LeaksOnceLoud()(f)
            return torch.cat(both, -1) * units

    pair = (tino.Channel("a"), tino.Channel("b"))
    f = usual
    data = tino.Dataset(f, f.repeat(1, 1, 2), FRAME.time, tino.Point(), tino.Point(), output_channels=pair)
    assert not certify(OneChannel(), data, seed=seed, show_progress=False).causal


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("given", ["zero", "left out"])
def test_a_response_to_the_initial_state_is_found(given, seed, usual):
    ic = torch.zeros(6, 1, dtype=torch.float64) if given == "zero" else None
    leaks = certify(LeaksWithState(), usual, ic=ic, seed=seed, show_progress=False)
    assert not leaks.causal
    fades = certify(ClockWithState(), usual, ic=ic, seed=seed, show_progress=False)
    assert (fades.causal, fades.at_rest, fades.time_invariant) == (True, False, False)
    assert set(fades.states) >= {"zero", "10 times", "random", "left out"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_state_left_out_is_tried_too(seed, usual):
    assert not certify(ClockWithoutState(), usual, ic=torch.ones(6, 1), seed=seed, show_progress=False).time_invariant


def test_a_state_of_unknown_length_is_a_note(usual):
    class Three(nn.Module):
        def forward(self, f, ic=None):
            u = f.cumsum(1)
            return u if ic is None else u + (ic @ f.new_ones(3, 1))[..., None]

    answer = certify(Three(), usual, show_progress=False)
    assert answer.states == ("left out",)
    assert answer.notes == ("it takes an initial state, which was left out: others may change what was measured",)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("attacker", [ClockLoud, ClockQuiet], ids=lambda a: a.__name__)
def test_a_clock_of_other_sizes_is_found(attacker, seed, usual):
    answer = certify(attacker(), usual, seed=seed, show_progress=False)
    assert (answer.causal, answer.at_rest, answer.time_invariant) == (True, True, False)
    assert "times the largest input" in str(answer)


class StepsByTheClockLoud(Decay):
    properties = Properties(True, None, True)

    def _step(self, memory, f_i, i):
        memory, u = super()._step(memory, f_i, i)
        return memory, u * (1 + 1e-6 * i * (f_i.abs() > 5 * LARGEST))


class StepsByTheClockOnce(Decay):
    """At one number of inputs, where few windows of eight steps look."""

    properties = Properties(True, None, False, ("of an offset",))

    def _step(self, memory, f_i, i):
        memory, u = super()._step(memory, f_i, i)
        return memory, u * (1 + 1e-6 * (i == 10))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("attacker", [StepsByTheClockLoud, StepsByTheClockOnce], ids=lambda a: a.__name__)
def test_a_hidden_clock_in_the_steps_is_found(attacker, seed, usual):
    answer = certify(attacker(), usual, seed=seed, show_progress=False)
    assert (answer.causal, answer.autonomous) == (True, False)


def test_a_broken_promise_names_the_size(usual):
    class Proud(StepsByTheClockLoud):
        properties = ALL_THREE

    with pytest.raises(tino.CertificateError) as error:
        certify(Proud(), usual, show_progress=False)
    assert str(error.value).startswith("toy should be autonomous by its parts, but measures otherwise (clock ")
    assert re.search(r" at (10|100) times the largest input\)$", str(error.value))


def test_sizes_that_overflow_are_left_out_and_noted(usual):
    class Explodes(nn.Module):
        def forward(self, f):
            return f.cumsum(1) + torch.where(f.abs() > 100 * LARGEST, torch.inf, 0.0)

    answer = certify(Explodes(), usual, show_progress=False)
    assert answer.causal
    assert 100.0 not in answer.sizes
    assert answer.overflows == (100.0,)
    assert answer.notes == ("not finite, so not measured, at 100 times the largest input",)


def test_the_cuts_cover_the_record_and_move_with_the_seed(usual, monkeypatch):
    class Sum(nn.Module):
        def forward(self, f):
            return f.cumsum(1)

    seen = []
    kick = probes._kick

    def spy(subject, kicks, *more):
        seen.append([k.cut for k in kicks])
        kick(subject, kicks, *more)

    monkeypatch.setattr(probes, "_kick", spy)
    monkeypatch.setattr(probes, "WORK", 20 * N_T * 64)  # room for 20 kicks of 39 cuts
    for seed in (0, 1):
        answer = certify(Sum(), usual, seed=seed, show_progress=False)
        assert answer.cuts < answer.all_cuts == N_T - 1
    first, many, _, other = seen
    assert len(first) == 8
    assert len(many) == 20
    assert many != other
    for cuts in (many, other):  # one in each of 20 equal stretches
        edges = [round(39 * k / 20) for k in range(21)]
        assert all(edges[k] <= cut < edges[k + 1] for k, cut in enumerate(cuts))


def test_the_numbers_are_the_formulas_of_the_docstring():
    """Written out in loops, for one kicked record of two channels: in rounding, and well above it."""
    eps, f = torch.finfo(torch.float64).eps, torch.Generator().manual_seed(0)
    for early in (0.0, 3e-16, 1e-10, 0.3):
        before = torch.randn(5, 2, generator=f, dtype=torch.float64)
        after = before.clone()
        after[:3, 1] += early  # too early: the cut is 2
        after[3:] += 0.5
        expected, holds = 0.0, True
        for channel in range(2):
            change = max(abs(float(after[i, channel] - before[i, channel])) for i in range(3))
            effect = max(abs(float(after[i, channel] - before[i, channel])) for i in range(5))
            size = max(max(abs(float(after[i, channel])), abs(float(before[i, channel]))) for i in range(5))
            by = effect if change > 64 * eps * size else max(effect, size)
            expected = max(expected, change / by)
            holds = holds and change <= 1e-12 * effect + 64 * eps * size
        worst = probes.Worst()
        difference = (after - before).abs()
        worst.take(
            difference[:3].amax(0), difference.amax(0), torch.maximum(after.abs(), before.abs()).amax(0), 1, 1e-12
        )
        assert worst.number == pytest.approx(expected, rel=1e-12)
        assert worst.holds is holds is (early < 1e-12)


def test_how_far_outputs_move_is_asked_only_where_it_counts():
    """It takes two runs of the model. The worst number is the same as if it were always asked."""
    one, asked = torch.ones(1, dtype=torch.float64), []

    def moves(number):
        return lambda: asked.append(number) or 1e-2 * one

    worst = probes.Worst()
    for number in (1e-14, 0.2, 0.1, 1e-3, 0.3, 0.3):  # 1e-14 is rounding, 1e-3 would be with moves
        worst.take(number * one, one, one, 1, 1e-12, moves(number))
    assert asked == [0.2, 0.3]
    assert (worst.number, worst.holds) == (0.3, False)
    lonely = probes.Worst()
    lonely.take(1e-3 * one, one, one, 1, 1e-12, moves(1e-3))
    assert lonely.holds
    assert asked[-1] == 1e-3
    for number, holds in ((0.1, True), (0.2, False)):  # one draw of noise does not show the largest move
        near = probes.Worst()
        near.take(number * one, one, one, 1, 1e-12, moves(number))
        assert near.holds is holds


def test_a_slow_model_is_kicked_less_often(small_data, monkeypatch):
    """Every kick more would take its time; those that remain are spread over all cuts and sizes."""
    train, test = small_data("duffing")
    model = tino.build("tino", train)
    whole = tino.certify(model, test, show_progress=False)
    monkeypatch.setattr(probes, "SLOW", 0.0)
    monkeypatch.setattr(probes, "PATIENCE", 0.0)
    found = tino.certify(model, test, show_progress=False)
    assert found.time_invariant
    assert found.kicks == probes.FIRST_CUTS + probes.FEWEST < whole.kicks
    assert len(found.sizes) >= 3


def test_a_slow_flow_is_shifted_once_and_stepped_twice(small_data, monkeypatch):
    """Each of these runs takes as long as a kick."""
    train, test = small_data("duffing")
    model = tino.build("linear", train)
    tino.fit(model, train, show_progress=False)
    runs: list[int] = []
    after_silence = probes._after_silence
    monkeypatch.setattr(
        probes, "_after_silence", lambda subject, f, steps: runs.append(steps) or after_silence(subject, f, steps)
    )
    assert tino.certify(model, test, show_progress=False).time_invariant
    usual = len(runs)
    monkeypatch.setattr(probes, "SLOW", 0.0)
    monkeypatch.setattr(probes, "PATIENCE", 0.0)
    assert tino.certify(model, test, show_progress=False).time_invariant
    assert len(runs) == usual + 1


def test_a_slow_model_that_leaks_is_certified_too(signals, monkeypatch):
    monkeypatch.setattr(probes, "SLOW", -1.0)
    monkeypatch.setattr(probes, "PATIENCE", 0.0)
    for seed in range(6):
        with pytest.warns(tino.TinoWarning, match="should be causal"):
            assert not certify(Peeks(), signals, seed=seed, strict=False, show_progress=False).causal


def test_steps_that_differ_are_noted(signals):
    with pytest.warns(tino.TinoWarning, match="toy differs between step by step and the whole record"):
        found = certify(StepsOtherwise(), signals, strict=False, show_progress=False)
    assert any(note.startswith("it differs between step by step") for note in found.notes)


class SteepConvolution(nn.Module):
    """Causal, by FFT: rounding reaches every time, and the read-out magnifies it where the response is large."""

    def forward(self, f: torch.Tensor) -> torch.Tensor:
        n, kernel = f.shape[1], 0.9 ** torch.arange(f.shape[1], dtype=f.dtype)
        spectrum = torch.fft.rfft(f, 2 * n, dim=1) * torch.fft.rfft(kernel, 2 * n)[None, :, None]
        return torch.cosh(torch.fft.irfft(spectrum, 2 * n, dim=1)[:, :n]) - 1


@pytest.mark.parametrize("seed", range(3))
def test_rounding_magnified_by_a_steep_read_out_is_no_leak(seed):
    f = torch.randn(5, 60, 1, generator=torch.Generator().manual_seed(0))
    assert tino.certify(SteepConvolution(), f, seed=seed, show_progress=False).time_invariant


# -- responses that grow: what comes early is small beside what comes later ---------------------------------------

GROWTH = 60.0  # natural logarithm of how far a response grows in a record


class Grows(nn.Module):
    """Σ f, times e^60 at the end of the record, and the next input as some function."""

    def __init__(self, leak) -> None:
        super().__init__()
        self.leak = leak

    def forward(self, f):
        growth = torch.exp(torch.linspace(0, GROWTH, f.shape[1], dtype=f.dtype))
        return f.cumsum(1) * growth[:, None] + self.leak(ahead(f))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "leak", [lambda f: f, lambda f: 1e-2 * f, torch.tanh, torch.square], ids=["full", "small", "bent", "square"]
)
def test_a_leak_beside_a_growing_response_is_found(leak, seed, dtype, usual):
    answer = certify(Grows(leak), usual, seed=seed, dtype=dtype, show_progress=False)
    assert not answer.causal
    assert answer.leak > 1e-6  # relative to the response up to the cut


def test_a_growing_response_is_no_leak(usual):
    answer = certify(Grows(torch.zeros_like), usual, show_progress=False)
    assert answer.causal
    assert answer.leak == 0


def test_the_leak_beside_a_growing_response_is_the_formula_of_the_docstring():
    """u_i = 2^i f_0 + f_{i+1} / 10: an impulse at T_0, and inputs of 1/2 after the cut 1."""

    class Doubles(nn.Module):
        def forward(self, f):
            return f[:, :1] * 2.0 ** torch.arange(f.shape[1], dtype=f.dtype)[:, None] + 0.1 * ahead(f)

    f = torch.zeros(1, 100, 1, dtype=torch.float64)
    f[:, 0] = 1.0
    kicked, later = f.clone(), (torch.arange(100) > 1)[None, :, None]
    kicked[:, 2:] = 0.5
    found, one = Found(), torch.ones(1)
    subject = Subject(Doubles(), f, None, one, 1, 1e-12, torch.Generator(), torch.device("cpu"), print)
    subject.silence, before = torch.zeros_like(f), subject(f, None)
    early = (subject(kicked, None) - before)[0, 1].abs()
    kick = probes.Kick(1, 0, 1.0, "added")
    probes._beside_growth(subject, kick, early, before[0], lambda: subject.follow(f, kicked, None, later), found)
    assert found.leak.number == pytest.approx(0.1 * 0.5 / 2)
    assert not found.leak.holds
    found = Found()
    probes._beside_growth(subject, kick, early, before[0], lambda: torch.zeros(1, dtype=torch.bool), found)
    assert (found.leak.number, found.leak.holds) == (0, True)  # it does not follow the kick


def by_fft(f: Tensor, growth: float) -> Tensor:
    """A causal convolution whose rounding reaches every time."""
    n = f.shape[1]
    kernel = torch.exp(growth * torch.linspace(0, 1, n, dtype=f.dtype))
    spectrum = torch.fft.rfft(f, 2 * n, dim=1) * torch.fft.rfft(kernel, 2 * n)[None, :, None]
    return torch.fft.irfft(spectrum, 2 * n, dim=1)[:, :n]


ROUNDED = {
    "convolution": lambda f: by_fft(f, -5.0),
    "growth": lambda f: by_fft(f, GROWTH),
    "square": lambda f: by_fft(f, -5.0) ** 2,
    "network": lambda f: torch.tanh(0.5 + by_fft(f, -3.0)) - torch.tanh(0.5 + torch.zeros_like(f)),
    "sums back": lambda f: f.sum(1, True) - f.flip(1).cumsum(1).flip(1) + f,
    "whole grains": lambda f: (f.cumsum(1) + f.sum(1, True)) - f.sum(1, True),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("start", ["silent", "slow", "an impulse", "zero records"])
@pytest.mark.parametrize("name", ROUNDED)
def test_rounding_is_no_leak_where_the_response_is_still_small(name, start, dtype, usual):
    """Some of these change by more than the response up to the cut."""

    class Rounded(nn.Module):
        def forward(self, f):
            return ROUNDED[name](f)

    t, f = torch.arange(N_T)[:, None], usual.clone()
    if start == "silent":
        f = f * (t >= N_T // 3)
    elif start == "slow":
        f = f * torch.linspace(0, 1, N_T, dtype=f.dtype)[:, None] ** 6
    elif start == "an impulse":
        f = (t == N_T // 2) * f
    else:
        f[1:] = 0.0
    for seed in range(2):
        assert certify(Rounded(), f, seed=seed, dtype=dtype, show_progress=False).causal
