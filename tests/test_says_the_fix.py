"""What errors, notes and read-outs tell a user to do next, and that it works."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import tino
from tino.cli import run
from tino.commands.printing import as_typed
from tino.models.flow import Flow
from tino.parts.corrected import CorrectedLaw

DT = 0.05


def pendulums(n: int = 12, n_t: int = 60) -> tuple[Tensor, Tensor]:
    """Two damped oscillators with one input each -> f (n, t, 1) and both positions and velocities (n, t, 4)."""
    generator = torch.Generator().manual_seed(3)
    f = torch.randn(n, n_t, 1, dtype=torch.float64, generator=generator).cumsum(1) * 0.1
    x = [torch.randn(n, 4, dtype=torch.float64, generator=generator)]
    for i in range(1, n_t):
        place, speed = x[-1][:, :2], x[-1][:, 2:]
        speed = speed + DT * (f[:, i] - place * torch.tensor([3.0, 9.0]) - 0.6 * speed)
        x.append(torch.cat([place + DT * speed, speed], 1))
    return f, torch.stack(x, 1)


def of_signals(f: Tensor, u: Tensor, ic: Tensor | None = None, burn_in: int = 0) -> tino.Dataset:
    channels = tuple(tino.Channel(f"u{n}") for n in range(u.shape[2]))
    time = tino.TimeGrid(0.0, DT * (f.shape[1] - 1), f.shape[1])
    point = tino.Point()
    return tino.Dataset(f, u, time, point, point, ic, output_channels=channels, burn_in=burn_in)


def test_a_flow_with_a_larger_state_says_what_works():
    f, x = pendulums()
    start = torch.cat([x[:, 0, 2:], x[:, 0, :2]], 1)
    told = r"starts from u\(T_0\), 2 numbers, but ic has 4: leave ic out and import with burn_in, or make the other"
    with pytest.raises(tino.TinoError, match=told) as error:
        tino.build("linear", of_signals(f, x[..., :2], x[:, 0]))
    assert "import with --burn-in, or make the other state variables outputs" in as_typed(str(error.value))
    with pytest.raises(tino.TinoError, match="ic of own data is another state: leave ic out and import with burn_in"):
        tino.build("linear", of_signals(f, x, start))
    for data, how in ((of_signals(f, x[..., :2], burn_in=8), "measured"), (of_signals(f, x, x[:, 0]), "rest")):
        model = tino.build("linear", data)
        tino.fit(model, data, show_progress=False)
        assert tino.evaluate(model, data, how).overall["rel_l2_mean"] < 1e-4


def test_first_outputs_that_differ_may_be_noise():
    f, x = pendulums()
    data = of_signals(f, x[..., :2])
    model = tino.build("linear", data)
    tino.fit(model, data, show_progress=False)
    told = "the first outputs of the records differ (noise, or starts that are not given as ic)"
    assert f"{told}: it starts from their mean" in model.readout()


def test_inputs_of_zeros_beside_states():
    f, x = pendulums()
    silent = of_signals(torch.zeros_like(f), x, x[:, 0])
    with pytest.raises(tino.TinoError, match="are all zero: as only ic drives it, set f to 1, as") as error:
        tino.build("tino", silent)
    assert "as an import with --input none and --ic does" in as_typed(str(error.value))
    model = tino.build("linear", ones := replace(silent, f=torch.ones_like(f)))
    tino.fit(model, ones, show_progress=False)
    with pytest.raises(tino.TinoError, match="are all zero: there is nothing to learn from"):
        tino.build("tino", replace(silent, ic=None))


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        (
            "runs/a holds a finished run: replace it with force = True",
            "runs/a holds a finished run: replace it with --force",
        ),
        ("continue that with force = True and resume = True", "continue that with --force and --resume"),
        (
            "column 'fill': no value: repair it with fill, cut or drop",
            "column 'fill': no value: repair it with --fill, --cut or --drop",
        ),
        ("3 values are missing: use cut instead of fill", "3 values are missing: use --cut instead of --fill"),
        ("its steps are 0.1: use resample and dt", "its steps are 0.1: use --resample and --dt"),
        ("its steps are 0.1: use resample and dt = 0.2", "its steps are 0.1: use --resample and --dt 0.2"),
        (
            "drop leaves records out, fill repairs them: choose one",
            "--drop leaves records out, --fill repairs them: choose one",
        ),
        ("a.csv has no column 'forze': did you mean 'force'? known: force, drop, fill", None),
        ("a.csv was cut at 3 missing values", None),
    ],
)
def test_advice_names_options_as_they_are_typed(said, typed):
    assert as_typed(said) == (typed or said)


@pytest.mark.parametrize(("name", "least"), [("polynomial", 501), ("linear", 2000), ("polynomial-sim", 2000)])
def test_too_many_delays_are_told(name, least):
    f, x = pendulums(n_t=300)
    data = of_signals(f, x[..., :1])
    told = f"500 delays need records of {least} times or more, those that are fitted have 300: use fewer"
    with pytest.raises(tino.TinoError, match=told):
        tino.fit(tino.build(name, data, delays=500), data, show_progress=False)


def test_a_clock_and_a_network_say_what_they_add(small_data):
    f, x = pendulums()
    data = of_signals(f, x[..., :1] - x[:, :1, :1])
    model = tino.build("linear-clock", data)
    tino.fit(model, data, show_progress=False)
    assert model.readout()[0].startswith("linear terms with a clock: ")
    assert "delay" in model.readout()[0]
    model = tino.build("flow-tino-clock", data)
    assert isinstance(model, Flow)
    model.solve(data)
    law = model.law
    assert isinstance(law, CorrectedLaw)
    idle = "its network adds nothing: training did not lower the held-out error"
    assert model.readout()[0].startswith("linear terms with a clock")
    assert model.readout()[1] == idle
    torch.nn.init.ones_(law.last.weight)
    assert model.readout()[1] == "and a network for what this leaves"
    field, _ = small_data("burgers-0.1")
    waves = tino.build("linear-clock", field, coordinates="waves")
    tino.fit(waves, field, show_progress=False)
    assert waves.readout()[0] in (
        "linear terms with a clock, for each wavenumber",
        "linear terms with a clock, and products, for each wavenumber",
    )


def test_a_second_channel_has_to_be_named():
    time, point, ones = tino.TimeGrid(0, 1, 9), tino.Point(), torch.ones
    with pytest.raises(tino.TinoError, match=r"channels x points = 1 x 1; give input_channels$"):
        tino.Dataset(ones(3, 9, 2), ones(3, 9, 1), time, point, point)
    with pytest.raises(tino.TinoError, match=r"channels x points = 1 x 1; give output_channels$"):
        tino.Dataset(ones(3, 9, 1), ones(3, 9, 2), time, point, point)
    with pytest.raises(tino.TinoError, match=r"channels x points = 1 x 4$"):  # points are missing, not channels
        tino.Dataset(ones(3, 9, 3), ones(3, 9, 1), time, tino.Interval(0, 1, 4), point)


def test_a_record_with_other_channels_is_named():
    records = [torch.randn(30, 1) for _ in range(4)]
    told = r"record 2 of f \(counted from 0\) has 2 channels, record 0 has 1"
    with pytest.raises(tino.TinoError, match=told):
        tino.Surrogate("linear", dt=0.1).fit([*records[:2], torch.randn(30, 2), records[3]], records)


def test_training_tells_why_a_model_is_not_time_invariant(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    f, x = pendulums()
    np.savez("mine.npz", f=f[..., 0], u=x[..., 0], t=np.arange(60) * DT)
    assert run(["train", "mine.npz", "linear-clock", "--device", "cpu"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "not time-invariant: it does not start at zero and it has a constant term and it reads the clock" in said


def test_a_poor_fit_says_where_to_look(tmp_path, capsys):
    data = ["advection-reaction", "--train", "20", "--test", "4", "--n-t", "20", "--resolution", "24"]
    assert run(["train", *data[:1], "linear", *data[1:], "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert re.search("note: (a poor fit|no better than the mean).*: tino diagnose says", said)


def test_a_model_that_is_named_takes_the_data():
    """Flows start from u(T_0): where ic is more than that, diagnose names a network."""
    f, x = pendulums(30)
    time = tino.TimeGrid(0.0, DT * (f.shape[1] - 1), f.shape[1])
    data = tino.Dataset(f, x[..., :1], time, tino.Point(), tino.Point(), ic=x[:, 0])
    named = tino.diagnose(data, show_progress=False)
    assert named.model == named.network
    tino.build(named.model, data)


def test_a_channel_named_like_an_option_is_no_option():
    assert as_typed("the unit of force = 3 N differs") == "the unit of force = 3 N differs"
    assert "my drop/x.npz" in as_typed("repair it with tino import my drop/x.npz --fill 0")
