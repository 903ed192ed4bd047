"""The diagnosis of a dataset: what it says of systems whose nature is known."""

import dataclasses
import json
import math

import pytest
import torch

import tino
from tino.blocks import samples_of
from tino.diagnosis import Diagnosis, diagnose
from tino.models.registry import Suits

N_T = 120


def made(name: str, samples: int, **options: object) -> tino.Dataset:
    """A small training set of one of tino's problems."""
    return tino.dataset(tino.problem(name, **options), train=samples, test=1, seed=3, show_progress=False)[0]


def own(f: torch.Tensor, u: torch.Tensor, outputs: tino.Point | tino.Interval | None = None) -> tino.Dataset:
    return tino.Dataset(
        f.float(), u.float(), tino.TimeGrid(0.0, 1.0, f.shape[1]), tino.Point(), outputs or tino.Point()
    )


def noise(samples: int, times: int = N_T) -> torch.Tensor:
    """Smooth random inputs (n, t, 1) whose future is news."""
    white = torch.randn(samples, 1, times + 12, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return torch.nn.functional.avg_pool1d(white, 13, stride=1)[:, 0, :, None]


def decaying(f: torch.Tensor, rate: float = 10.0) -> torch.Tensor:
    """u(t) = ∫_0^t e^{-rate (t - s)} f(s) ds, written out."""
    lag = torch.arange(f.shape[1])[:, None] - torch.arange(f.shape[1])
    kernel = torch.where(lag >= 0, torch.exp(-rate * lag.clamp_min(0) / f.shape[1]), 0.0).double()
    return torch.einsum("ts,nsx->ntx", kernel, f)


def look(data: tino.Dataset, seed: int = 0) -> Diagnosis:
    return diagnose(data, seed, show_progress=False)


def test_duffing_passes_and_its_sines_cannot_show_causality():
    found = look(made("duffing", 60, n_t=N_T))
    assert found.autonomous
    assert found.causal is None
    assert found.model == "polynomial"
    assert found.network in ("tino", "trtino")
    assert "cannot tell" in str(found)
    assert found.delays == 2


def test_advection_reaction_has_a_clock():
    found = look(made("advection-reaction", 50, n_t=100, resolution=32))
    assert not found.autonomous
    assert not found.time_invariant
    assert "so it is        not autonomous" in str(found)
    assert (found.model, found.network) == ("polynomial-clock", "tc-spod-don")
    assert found.clock[0] > 0.5
    assert found.delays == 1  # beside the clock
    assert "\n  state           u itself     u, f and the time leave" in str(found)


def test_fitting_time_has_a_clock_as_printed():
    found = look(made("fitting-time", 200, n_t=N_T))
    assert not found.autonomous
    assert (found.model, found.network) == ("polynomial-clock", "tc-don")


def test_fitting_time_without_its_clock_passes():
    found = look(made("fitting-time", 60, n_t=N_T, clock="constant"))
    assert found.autonomous
    assert found.model == "polynomial"
    assert found.network in ("tino", "trtino")


def test_a_convolution_starts_at_rest():
    f = noise(50)
    found = look(own(f, decaying(f)))
    assert (found.causal, found.autonomous, found.at_rest) == (True, True, True)
    assert found.time_invariant
    assert found.record()["time_invariant"] is True
    assert (found.model, found.network) == ("polynomial", "tino")
    assert not found.notes
    _, *lines = str(found).splitlines()
    labels = ["causal", "autonomous", "starts at rest", "state", "so it is", "begin with"]
    assert [line[2:18].strip() for line in lines] == labels
    assert lines[-2] == "  so it is        time-invariant"
    assert lines[-1] == "  begin with      polynomial; of the networks, tino"


def test_a_given_start_needs_the_time():
    f = noise(50)
    fading = torch.exp(-3 * torch.linspace(0, 1, N_T, dtype=torch.float64))[:, None]
    found = look(own(f, decaying(f, 3.0) + 20 * fading))
    assert found.autonomous
    assert not found.at_rest
    assert not found.time_invariant  # which is all three
    assert (found.model, found.network) == ("polynomial", "trtino")
    assert "\n  so it is        autonomous, not at rest\n" in str(found)


def test_an_unknown_start_gets_a_note():
    f = noise(50)
    starts = 20 * torch.randn(50, 1, 1, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    fading = torch.exp(-3 * torch.linspace(0, 1, N_T, dtype=torch.float64))[:, None]
    data = own(f, decaying(f, 3.0) + starts * fading)
    found = look(data)
    assert (found.model, found.network) == ("polynomial", "trtino")
    assert any("ic" in note for note in found.notes)
    given = tino.Dataset(data.f, data.u, data.time, data.inputs, data.outputs, data.u[:, 0])
    assert not look(given).notes


def cut_into_windows(step: float) -> tino.Dataset:
    """A swing that never dies, cut into windows: u at a window's start is its ic, and the velocity is not known."""
    f = noise(50, 400)
    turn = 0.9995 * torch.tensor([[math.cos(step), -math.sin(step)], [math.sin(step), math.cos(step)]]).double()
    x, swings = torch.zeros(50, 2, dtype=torch.float64), []
    for f_i in f.unbind(1):
        x = x @ turn.T + 0.1 * torch.cat([f_i, 0 * f_i], 1)
        swings.append(x[:, :1])
    u, starts = torch.stack(swings, 1), range(80, 360, 80)
    forces, answers = (torch.cat([values[:, s + 1 : s + 41] for s in starts]) for values in (f, u))
    data = own(forces, answers)
    return dataclasses.replace(data, ic=torch.cat([u[:, s] for s in starts]).float())


def test_windows_cannot_tell_whether_the_system_starts_at_rest():
    """The past leaves nearly all of u open, and the time does not help: no reason to say yes."""
    found = look(cut_into_windows(0.9))
    assert found.history is not None
    assert found.history > 0.8
    assert found.autonomous
    assert found.at_rest is None
    assert found.time_invariant is None
    assert found.record()["at_rest"] is None
    assert (found.model, found.network) == ("trtino", "trtino")  # ic is not u(T_0), and a flow starts from that
    text = str(found)
    assert "\n  starts at rest  cannot tell  samples start from different states (ic); past inputs leave" in text
    assert "\n  so it is        autonomous; at rest or not: cannot tell\n" in text


def test_one_start_for_all_samples_is_no_start():
    """An ic that is the same in all samples says nothing."""
    f = noise(50)
    data = own(f, decaying(f))
    found, usual = look(dataclasses.replace(data, ic=torch.zeros(50, 1))), look(data)
    assert dataclasses.replace(found, model=usual.model) == usual
    assert found.model == usual.network  # ic is not u(T_0), and a flow starts from that


def test_an_offset_gets_a_note():
    f = noise(50)
    found = look(own(f, decaying(f) + 293))
    assert found.notes == ("u lies about 293: models learn the difference",)
    assert found.time_invariant


@pytest.mark.parametrize("outputs", [tino.Point(), tino.Interval(0.0, 1.0, 3)])
def test_a_response_that_comes_early_is_not_causal(outputs):
    f = noise(50, N_T + 8)
    u = decaying(f)[:, 8:].expand(-1, -1, outputs.size) * torch.arange(1, outputs.size + 1)
    found = look(own(f[:, :-8], u, outputs))
    assert found.causal is False
    assert not found.time_invariant
    assert "\n  so it is        not causal\n" in str(found)
    assert found.model == found.network == ("fno" if outputs == tino.Point() else "pod-don")


def test_a_drifting_gain_is_a_clock():
    f = noise(50)
    found = look(own(f, decaying(f) * torch.linspace(0.8, 1.2, N_T)[:, None]))
    assert not found.autonomous
    assert (found.model, found.network) == ("polynomial-clock", "tc-don")


def test_a_swing_that_all_samples_share_is_no_clock():
    t = torch.linspace(0, 1, N_T, dtype=torch.float64)
    f = noise(50)
    lag = (t[:, None] - t).clamp_min(0)
    forced = torch.einsum("ts,nsx->ntx", torch.sin(6 * math.pi * lag) / 10, f)
    assert look(own(f, torch.cos(6 * math.pi * t)[:, None] + forced)).autonomous


def test_pure_noise_gets_a_note():
    f = noise(50)
    found = look(own(f, torch.randn(f.shape, generator=torch.Generator().manual_seed(7))))
    assert any("noise" in note for note in found.notes)


def test_the_same_seed_gives_the_same_answer():
    f = noise(30, 40)
    data = own(f, decaying(f) + f**2)
    first, again, other = look(data), look(data), look(data, 1)
    assert first == again
    assert first.unexplained != other.unexplained
    assert json.loads(json.dumps(first.record()))["model"] == first.model


@pytest.mark.parametrize(("samples", "times", "said"), [(3, 47, "20 records, or 12"), (40, 11, "12 times")])
def test_too_little_data_is_one_line(samples, times, said):
    f = noise(samples, times)
    with pytest.raises(tino.TinoError, match=said) as error:
        look(own(f, f))
    assert "\n" not in str(error.value)


def test_nothing_to_diagnose_is_one_line():
    f = noise(40)
    with pytest.raises(tino.TinoError, match="u is the same"):
        look(own(f, 0 * f + 1))


def test_the_least_data_do():
    f = noise(20, 12)
    assert look(own(f, decaying(f))).model in tino.MODELS


def test_a_field_that_is_the_state_on_a_box_has_an_equation():
    f = noise(320, 60).view(40, 8, 60).transpose(1, 2).float()
    u = torch.zeros_like(f)
    for i in range(1, 60):
        x = u[:, i - 1]
        u[:, i] = x + 0.2 * (x.roll(1, -1) - 2 * x + x.roll(-1, -1)) + 0.1 * f[:, i]
    box, line = tino.Periodic(1.0, (8,)), tino.Interval(0.0, 1.0, 8)
    for grid, model in ((box, "equation"), (line, "polynomial")):
        found = look(tino.Dataset(f, u, tino.TimeGrid(0.0, 1.0, 60), grid, grid))
        assert (found.state.word, found.model, found.network) == ("u itself", model, "pod-tino")


def test_the_network_beside_it_is_the_registry_s_word(monkeypatch):
    f = noise(50)
    data = own(f, decaying(f))
    suited = dataclasses.replace(tino.MODELS["tdnn"], suits=(Suits(space=False),))
    monkeypatch.setitem(tino.MODELS, "tdnn", suited)  # it comes before tino there
    assert look(data).network == "tdnn"
    for name, entry in list(tino.MODELS.items()):
        monkeypatch.setitem(tino.MODELS, name, dataclasses.replace(entry, suits=()))
    with pytest.raises(tino.TinoError, match="no registered model suits these data"):
        look(data)


def channels(letter: str, count: int) -> tuple[tino.Channel, ...]:
    return tuple(tino.Channel(f"{letter}{i}") for i in range(count))


@pytest.mark.parametrize("factor", [1.0, 1e4])
def test_a_large_output_channel_does_not_hide_what_a_small_one_shows(factor):
    """The large one is time-invariant about a large mean, the small one has a clock."""
    f = noise(50)
    clocked = decaying(f) * torch.linspace(0.8, 1.2, N_T)[:, None]
    u = torch.cat([factor * (decaying(f, 3.0) + 100), clocked], -1)
    data = dataclasses.replace(own(f, clocked), u=u.float(), output_channels=channels("u", 2))
    found = look(data)
    assert not found.autonomous
    assert (found.model, found.network) == ("polynomial-clock", "tc-don")


def test_a_large_input_channel_does_not_hide_a_small_one():
    """u responds only to the small one."""
    f = noise(50)
    loud = 1e4 * noise(100)[50:]
    u = decaying(f)
    data = dataclasses.replace(own(f, u), f=torch.cat([loud, f], -1).float(), input_channels=channels("f", 2))
    found = look(data)
    assert found.time_invariant
    assert found.history is not None
    assert found.history < 0.1
    assert not found.notes


def test_units_of_channels_do_not_matter():
    f = noise(50)
    u = torch.cat([decaying(f), decaying(f**2, 3.0)], -1)
    data = dataclasses.replace(own(f, u[..., :1]), u=u.float(), output_channels=channels("u", 2))
    other = dataclasses.replace(data, u=data.u * torch.tensor([2.0**-14, 2.0**14]))
    found, same = look(data), look(other)
    for name in ("unexplained", "velocity", "novelty", "history", "initial"):
        assert getattr(same, name) == pytest.approx(getattr(found, name), rel=1e-3, abs=1e-6), name
    assert same.state.left == pytest.approx(found.state.left, rel=1e-3, abs=1e-6)


def test_only_times_that_all_records_have_are_examined():
    f = noise(50)
    data = own(f, decaying(f))
    first = tino.Dataset(data.f[:, :80], data.u[:, :80], tino.TimeGrid(0.0, 1.0, 80), data.inputs, data.outputs)
    lengths = torch.tensor([80, 120] * 25)
    ended = (torch.arange(N_T) >= lengths[:, None])[..., None]
    padded = dataclasses.replace(data, u=torch.where(ended, 1e6, data.u), lengths=lengths)
    assert look(padded) == look(first)


def swinging(f: torch.Tensor, cycles: float = 6.0) -> torch.Tensor:
    """x'' + 4 x' + w² x = f from rest, exactly for an f that is constant between times: x and x' -> (n, t, 2)."""
    w, step = 2 * math.pi * cycles, 1 / (f.shape[1] - 1)
    law = torch.tensor([[0.0, 1.0, 0.0], [-(w**2), -4.0, 1.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    whole = torch.linalg.matrix_exp(law * step)
    x, seen = torch.zeros(len(f), 2, dtype=torch.float64), []
    for f_i in f.unbind(1):
        seen.append(x)
        x = torch.cat([x, f_i], 1) @ whole[:2].T
    return torch.stack(seen, 1)


def noisy(u: torch.Tensor, share: float) -> torch.Tensor:
    return u + share * u.std() * torch.randn(u.shape, generator=torch.Generator().manual_seed(8), dtype=u.dtype)


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_the_output_of_a_first_order_system_is_its_state(share):
    f = noise(50)
    found = look(own(f, noisy(decaying(f), share)))
    assert (found.delays, found.state.at_least, found.state.delays_of_f) == (1, False, 1)
    assert found.state.left[0] < 0.03
    assert found.record()["delays"] == 1
    assert "\n  state           u itself     u and f leave" in str(found)


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_an_oscillator_s_place_is_half_its_state(share):
    f = noise(50)
    found = look(own(f, noisy(swinging(f)[..., :1], share)))
    assert (found.delays, found.state.at_least) == (2, False)
    assert found.state.left[0] > 0.1
    assert found.state.left[1] < (0.03 if share else 1e-3)
    assert json.loads(json.dumps(found.record()))["state"]["left"] == list(found.state.left)
    assert "\n  state           2 delays     u and f leave" in str(found)


@pytest.mark.parametrize("factor", [1.0, 1e4])
def test_an_oscillator_s_place_and_velocity_are_its_state(factor):
    f = noise(50)
    u = swinging(f) * torch.tensor([factor, 1.0])
    data = dataclasses.replace(own(f, u[..., :1]), u=u.float(), output_channels=channels("u", 2))
    assert look(data).delays == 1


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_field_of_oscillators_needs_two_delays_or_its_velocity(outputs):
    """Three points that swing at paces of their own, and on a third of a grid each."""
    f = noise(50)
    points = [swinging(f, cycles).repeat_interleave(4, 0).view(50, 4, N_T, 2) for cycles in (3.0, 4.0, 5.0)]
    field = torch.cat(points, 1).permute(0, 2, 3, 1)[:, :, :outputs]  # (n, t, c, x)
    data = own(f, field[:, :, 0], tino.Interval(0.0, 1.0, 12))
    data = dataclasses.replace(data, u=field.flatten(2).float(), output_channels=channels("u", outputs))
    assert look(data).delays == 3 - outputs


def test_noise_can_hide_the_state():
    f = noise(50)
    found = look(own(f, noisy(decaying(f), 0.5)))
    assert found.delays is None
    assert found.record()["delays"] is None
    assert "\n  state           cannot tell  " in str(found)
    assert "noise of u hides the rest" in str(found)
    pure = look(own(f, torch.randn(f.shape, generator=torch.Generator().manual_seed(7))))
    assert pure.delays is None


def test_an_input_that_arrives_late_is_part_of_the_state():
    f = noise(50, N_T + 6)
    found = look(own(f[:, 6:], decaying(f)[:, :-6]))
    assert found.delays == 1
    assert found.state.delays_of_f > 1
    assert "\n  state           u and past f u and f leave" in str(found)


def test_the_state_of_a_field_with_a_local_law_is_the_field():
    """Without powers of u point by point the regression would miss the law, and an earlier u would show it."""
    found = look(made("allen-cahn", 60, n_t=100, resolution=32))
    assert found.delays == 1


def test_lorenz_needs_three_delays():
    assert look(made("lorenz", 60, n_t=500)).delays == 3


def test_a_field_of_two_values_can_be_diagnosed():
    """Its square is the same everywhere."""
    f = noise(50)
    u = torch.where(decaying(f) > torch.linspace(-1, 1, 5, dtype=torch.float64), 1.0, -1.0)
    assert look(own(f, u, tino.Interval(0.0, 1.0, 5))).samples == 50


def test_strides_count_the_time_steps_of_the_data():
    f = noise(30, 2000)
    fast = own(f, decaying(f))
    assert look(fast).state.stride in (40, 100)


# -- few records: blocks of time -----------------------------------------------------------------------------


def oscillator(records: int, times: int, gain: float = 0.0, early: int = 0) -> tino.Dataset:
    """u'' + 0.12 u' + 0.36 u = g(t) f, with noise for f; the gain g drifts by ±gain, u is ``early`` steps too early."""
    f = torch.randn(records, times, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x, v, u = *torch.zeros(2, records, 1, dtype=torch.float64), []
    for i in range(times):
        for _ in range(4):
            v = v + 0.25 * ((1 + gain * math.sin(2 * math.pi * i / times)) * f[:, i] - 0.36 * x - 0.12 * v)
            x = x + 0.25 * v
        u.append(x)
    return own(f[:, : times - early], torch.stack(u, 1)[:, early:])


def test_one_record_is_cut_into_blocks():
    found = diagnose(oscillator(1, 3000), show_progress=False)
    assert (found.causal, found.autonomous, found.at_rest, found.time_invariant) == (True, None, None, None)
    assert (found.delays, found.model, found.network, found.records) == (2, "polynomial", "tino", 1)
    assert found.block is not None
    assert found.samples == 3000 // found.block
    text = str(found)
    assert f"own data, {found.samples} blocks of {found.block} times from 1 record examined" in text
    assert "autonomous      cannot tell  one record: a clock could be any slow cause; assumed autonomous" in text
    assert "starts at rest  cannot tell  a block of time starts from a state that is not known" in text
    assert "so it is        taken to be autonomous; at rest or not: cannot tell" in text
    assert json.loads(json.dumps(found.record()))["history"] is None


def test_several_long_records_tell_of_a_clock():
    plain, drifting = (diagnose(oscillator(4, 1200, gain), show_progress=False) for gain in (0.0, 0.5))
    assert (plain.autonomous, plain.model) == (True, "polynomial")
    assert (drifting.autonomous, drifting.model) == (False, "polynomial-clock")
    assert (plain.at_rest, drifting.at_rest) == (None, None)


def test_few_records_tell_of_the_future():
    found = diagnose(oscillator(3, 1200, early=5), show_progress=False)
    assert (found.causal, found.model) == (False, "fno")


def test_records_of_very_different_lengths_and_a_burn_in():
    data = oscillator(3, 2000)
    uneven = dataclasses.replace(data, lengths=torch.tensor([2000, 60, 30]), burn_in=20)
    found = diagnose(uneven, show_progress=False)
    assert found.unknown_clock == "mostly one record: a clock could be any slow cause"
    assert (found.causal, found.autonomous, found.delays) == (True, None, 2)
    before = dataclasses.replace(uneven, u=uneven.u.clone())
    before.u[:, :20] = 1e3  # the burn-in does not count
    again = diagnose(before, show_progress=False)
    assert dataclasses.replace(again, notes=()) == dataclasses.replace(found, notes=())


def test_a_burn_in_of_many_records_leaves_the_start_untold():
    data = oscillator(40, 120)
    found = diagnose(dataclasses.replace(data, burn_in=60), show_progress=False)
    assert (found.at_rest, found.block, found.autonomous, found.network) == (None, None, True, "tino")
    assert "the first 60 times (burn_in) are left out: starts are not known" in str(found)
    assert diagnose(data, show_progress=False).at_rest is True


def test_blocks_cover_the_times_that_count_and_halves_share_no_record():
    data = oscillator(5, 400)
    marked = dataclasses.replace(data, f=torch.arange(2000.0).view(5, 400, 1), burn_in=10)
    for samples in samples_of(marked, seed=1):
        length = samples.block
        assert length is not None
        records = samples.f[:, 0, 0].long() // 400
        first = samples.f[:, 0, 0].long() % 400
        assert int(first.min()) == 10
        assert bool(((first - 10) % length == 0).all())
        assert torch.equal(samples.f[:, :, 0], samples.f[:, :1, 0] + torch.arange(float(length)))
        assert len(set(samples.f[:, 0, 0].tolist())) == len(samples.f) == min(200, 5 * (390 // length))
        assert not set(records[samples.half].tolist()) & set(records[~samples.half].tolist())
        assert torch.allclose(torch.as_tensor(samples.begin)[:, 0], first.double() / 399)
