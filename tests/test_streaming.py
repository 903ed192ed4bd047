"""Streams: the same numbers as the whole record, in pieces of any size, saved and restored, and line by line."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import tino
from tino.cli import run
from tino.commands import streaming
from tino.linear import AffineBlocks
from tino.memories import as_vector, from_vector
from tino.models.flow import Flow
from tino.parts.coefficients import CoefficientLaw

pytestmark = pytest.mark.filterwarnings("ignore::tino.TinoWarning")

PROBLEMS = ("duffing", "burgers-0.1", "from a state")


def from_a_state() -> tino.Dataset:
    """A field on a box that decays from a random start, and is driven."""
    generator = torch.Generator().manual_seed(0)
    f, u = torch.randn(8, 12, 10, generator=generator), torch.zeros(8, 12, 10)
    u[:, 0] = torch.randn(8, 10, generator=generator)
    for i in range(1, 12):
        u[:, i] = 0.9 * u[:, i - 1] + 0.1 * f[:, i] * u[:, i - 1].roll(1, -1)
    grid = tino.Periodic(1.0, (10,))
    return tino.Dataset(f, u, tino.TimeGrid(0.0, 1.0, 12), grid, grid, ic=u[:, 0])


def streamed(name: str, problem: str, tiny_data) -> tuple[tino.Operator, Tensor, Tensor | None] | None:
    train, test = (from_a_state(),) * 2 if problem == "from a state" else tiny_data(problem)
    try:
        model = tino.build(name, train).double().requires_grad_(False)
    except tino.TinoError:
        return None
    return model, test.f[:2].double(), None if test.ic is None else test.ic[:2].double()


def close(one: Tensor, other: Tensor, tolerance: float = 1e-12) -> bool:
    return one.shape == other.shape and float((one - other).abs().max()) <= tolerance * float(other.abs().max())


@pytest.mark.parametrize("name", sorted(tino.MODELS))
def test_a_stream_in_pieces_is_the_whole_record_and_needs_a_causal_model(name, tiny_data, tmp_path):
    taken = 0
    for problem in PROBLEMS:
        found = streamed(name, problem, tiny_data)
        if found is None:
            continue
        taken += 1
        model, f, ic = found
        if not model.properties.causal:
            with pytest.raises(tino.TinoError, match=f"^{name} cannot run step by step: it is not causal; give it"):
                tino.Stream(model)
            continue
        whole = model(f, ic)
        stream = tino.Stream(model, None if ic is None else ic[0].numpy())
        stream.save(tmp_path / "first")
        pieces = [stream.push(f[0, 0])[None], stream.push(f[0, 1])[None], stream.push(f[0, 2:5])]
        stream.save(tmp_path / "state")
        pieces.append(stream.push(f[0, 5:]))
        assert close(torch.cat(pieces), whole[0]), problem
        assert stream.state.i == f.shape[1]
        again = tino.Stream.load(tmp_path / "state", model)
        assert torch.equal(again.push(f[0, 5:]), pieces[-1])
        assert close(tino.Stream.load(tmp_path / "first", model).push(f[0]), whole[0])
        both = tino.Stream(model, ic, records=2)
        assert close(torch.cat([both.push(f[:, 0])[:, None], both.push(f[:, 1:])], 1), whole), problem
        vector = as_vector(both.state.memory)
        assert torch.equal(as_vector(from_vector(both.state.memory, vector)), vector)
    assert taken


def test_arrays_give_arrays_and_types_are_cast(tiny_data):
    model = tino.build("tino", tiny_data("duffing")[0])
    f = tiny_data("duffing")[1].f[0]
    u = tino.Stream(model).push(f)
    assert isinstance(u, Tensor)
    assert not u.requires_grad
    for given in (f.numpy(), f.numpy().astype(np.float64), f.numpy().tolist()):
        same = tino.Stream(model).push(given)
        assert isinstance(same, np.ndarray)
        assert same.dtype == np.float32
        assert np.array_equal(same, u.numpy())
    stream = tino.Stream(model)
    frozen = f.numpy()[3].copy()
    frozen.setflags(write=False)
    assert stream.push(frozen).shape == (1,)
    assert stream.push(np.zeros((0, 1))).shape == (0, 1)
    assert stream.push(np.array([2])).dtype == np.float32


def test_a_state_keeps_its_own_numbers(tiny_data):
    """A caller may fill one buffer again and again."""
    model = tino.build("fno-step", tiny_data("burgers-0.1")[0]).requires_grad_(False)
    f = tiny_data("burgers-0.1")[1].f[0]
    stream, buffer, found = tino.Stream(model), torch.empty_like(f[0]), []
    for one in f[:5]:
        found.append(stream.push(buffer.copy_(one)))
    assert torch.allclose(torch.stack(found), model(f[None, :5])[0], rtol=1e-4)


def test_a_clock_ends_a_stream(tiny_data):
    found = streamed("trtino", "duffing", tiny_data)
    assert found is not None
    model, f, _ = found
    stream = tino.Stream(model)
    stream.push(f[0, :-1])
    line = f"the stream has {f.shape[1] + 1} times, trtino takes 1 to {f.shape[1]} times: its time factor depends on t"
    with pytest.raises(tino.TinoError, match=line):
        stream.push(f[0, :2])
    stream.push(f[0, -1])  # the refused block left the state as it was
    with pytest.raises(tino.TinoError, match=line):
        stream.push(f[0, -1])


WRONG = {
    "shape (2,)": ([1.0, 2.0], r"f has shape \(2,\), expected \(1,\) for one input or \(n, 1\) for a block"),
    "a number": (1.0, r"f has shape \(\), expected \(1,\)"),
    "nan": ([float("nan")], "f has NaN or infinite numbers: leave them out or fill the gap"),
    "beyond float32": ([1e300], "f has numbers too large for float32, the model's type: use smaller ones"),
    "beyond float32, a tensor": (torch.tensor([1e300], dtype=torch.float64), "f has numbers too large for float32"),
    "words": (["x"], "f is a list, expected an array of real numbers"),
    "complex": (np.array([1j]), "f is a ndarray, expected an array of real numbers"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_inputs_are_one_line_and_change_nothing(wrong, tiny_data):
    model = tino.build("tino", tiny_data("duffing")[0])
    given, line = WRONG[wrong]
    stream = tino.Stream(model)
    stream.push(np.ones(1))
    before = stream.state
    with pytest.raises(tino.TinoError, match=line):
        stream.push(given)
    assert stream.state is before


def test_a_stream_needs_its_initial_state_and_its_model(tiny_data, tmp_path):
    model = tino.build("pod-tino", from_a_state())
    with pytest.raises(tino.TinoError, match="pod-tino takes an initial state of 10 numbers, give it as ic"):
        tino.Stream(model)
    with pytest.raises(tino.TinoError, match="the model is 'tino', expected one that"):
        tino.Stream("tino")  # pyright: ignore
    one, other = (tino.build("tino", tiny_data("duffing")[0], seed=seed) for seed in (0, 1))
    tino.Stream(one).save(tmp_path / "state")
    with pytest.raises(tino.TinoError, match="state is the state of another model than this tino: start the stream"):
        tino.Stream.load(tmp_path / "state", other)
    with pytest.raises(tino.TinoError, match="no file"):
        tino.Stream.load(tmp_path / "none", one)
    raw = bytearray((tmp_path / "state").read_bytes())
    raw[-1] ^= 1
    (tmp_path / "state").write_bytes(raw)
    with pytest.raises(tino.TinoError, match="was changed or damaged"):
        tino.Stream.load(tmp_path / "state", one)


def test_a_state_that_has_diverged_is_not_saved(tiny_data, tmp_path):
    stream = tino.Stream(tino.build("tino", tiny_data("duffing")[0]))
    stream.push(np.ones((3, 1)))
    stream.save(tmp_path / "state")
    before = (tmp_path / "state").read_bytes()
    memory = from_vector(stream.state.memory, torch.full_like(as_vector(stream.state.memory), torch.inf))
    stream.state = tino.State(stream.state.i, memory)
    with pytest.raises(tino.TinoError, match=r"the state has NaN or infinite numbers, so .* is not written: start"):
        stream.save(tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == before


# -- long streams of a linear law ------------------------------------------------------------------------------


def fitted(weights: tuple[float, ...], offset: float = 0.0) -> Flow:
    """u_i = offset + Σ_d w_d (u_{i-d} - offset) + 0.1 f_i + 0.05 f_{i-1}, fitted."""
    f = torch.randn(12, 60, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u = torch.zeros(12, 60 + len(weights), 1, dtype=torch.float64)  # zeros before the start
    for i in range(1, 60):
        before = u[:, i : i + len(weights)].flip(1) * torch.tensor(weights, dtype=torch.float64)[:, None]
        u[:, i + len(weights)] = before.sum(1) + 0.1 * f[:, i] + 0.05 * f[:, i - 1]
    data = tino.Dataset(f, u[:, len(weights) :] + offset, tino.TimeGrid(0.0, 0.059, 60), tino.Point(), tino.Point())
    model = tino.build("linear", data, delays=len(weights))
    model.solve(data)
    assert isinstance(model, Flow)
    assert isinstance(model.law, CoefficientLaw)
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def oscillator() -> Flow:
    return fitted((1.8, -0.9))


def test_long_blocks_of_a_linear_law_are_its_steps(oscillator):
    f = torch.randn(3000, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    stream = tino.Stream(oscillator)
    u = stream.push(f)
    assert stream._blocks is not None
    assert stream._blocks.length == 128
    assert close(u, oscillator(f[None])[0])
    state, _ = oscillator.run(oscillator.start(f[None, 0])[0], f[None, 1:])
    assert close(as_vector(stream.state.memory), as_vector(state.memory))
    assert AffineBlocks.of(oscillator, tino.State(0, stream.state.memory)) is None  # the first step is another one


def test_blocks_know_constants_and_offsets():
    model = fitted((0.9,), offset=300.0)
    assert model.frame.seen.output_offset
    assert model.law.sizes["constant"] is True
    f = torch.randn(2000, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    stream = tino.Stream(model)
    u = stream.push(f)
    assert stream._blocks is not None
    assert close(u, model(f[None])[0])
    assert float((u - 300).abs().mean()) > 0.1


def test_powers_that_would_lose_digits_are_not_used(oscillator):
    """Ten equal poles of size 0.97: every entry of A^128 is the small difference of huge ones."""
    law = oscillator.law
    sizes = {**law.sizes, "delays": 10}
    kept = type(law)(**sizes)
    for name in ("to_state", "to_output", "to_input"):
        getattr(kept, name).data.copy_(getattr(law, name))
    roots = np.poly(np.full(10, 0.97))
    kept.weights.data[:10, 0] = -torch.from_numpy(roots[1:])
    kept.weights.data[-1, 0] = 1e-9
    model = type(oscillator)(oscillator.frame, oscillator.plan, oscillator.start_part, kept)
    stream, f = tino.Stream(model), torch.randn(1200, 1, generator=torch.Generator().manual_seed(2)).double()
    u = stream.push(f)
    assert stream._tried
    assert stream._blocks is None or stream._blocks.length < 128
    assert close(u, model(f[None])[0])


def test_a_long_stream_stays_exact_and_small(oscillator):
    """A short form of benchmarks/stream_day.py: a steady sine, whose exact answer is known at any time."""
    stream = tino.Stream(oscillator)
    memory = as_vector(stream.state.memory).shape
    period, n = 125, 20_000
    z = np.exp(2j * np.pi / period)
    gain = (0.1 + 0.05 / z) / (1 - 1.8 / z + 0.9 / z**2)
    errors = []
    for first in range(0, 10 * n, n):
        wave = z ** (np.arange(first, first + n) % period)
        u = stream.push(wave.imag[:, None])
        exact = (gain * wave).imag
        errors.append(np.abs(u[:, 0] - exact)[1000 if first == 0 else 0 :].max())
    assert max(errors) < 1e-9  # the fit finds the numbers to 1e-11
    assert max(errors[5:]) <= 1.1 * max(errors[1:5])
    assert as_vector(stream.state.memory).shape == memory


# -- derivatives -----------------------------------------------------------------------------------------------


def test_the_derivatives_of_a_linear_law_are_its_matrices(oscillator):
    """With two delays, s = (c_{i-2}, c_{i-1}, g_{i-2}, g_{i-1}) and the law's weights are rows of A and B."""
    stream = tino.Stream(oscillator)
    stream.push(np.random.default_rng(0).standard_normal((5, 1)))
    a, b, c, d = tino.linearise(oscillator, stream.state, torch.tensor([0.3], dtype=torch.float64))
    law = oscillator.law
    w, source, size = law.weights[:, 0], law.to_input[0, 0], law.to_output[0, 0]  # of c_{i-1}, c_{i-2}, g_{i-2..i}
    zero, one = torch.zeros(()).double(), torch.ones(()).double()
    row = torch.stack([w[1], w[0], w[2], w[3]])
    expected = torch.stack(
        [torch.stack([zero, one, zero, zero]), row, torch.stack([zero, zero, zero, one]), torch.zeros(4).double()]
    )
    assert close(a, expected)
    assert close(b[:, 0], torch.stack([zero, w[4] * source, zero, source]))
    assert close(c[0], row * size)
    assert close(d[0, 0], w[4] * source * size)


@pytest.mark.parametrize(
    ("name", "problem"), [("polynomial", "duffing"), ("tino", "duffing"), ("equation", "burgers-0.1")]
)
def test_derivatives_are_finite_differences(name, problem, tiny_data):
    found = streamed(name, problem, tiny_data)
    assert found is not None
    model, f, _ = found
    if name == "polynomial":
        model.solve(tiny_data(problem)[0])
    stream = tino.Stream(model)
    stream.push(f[0, :6])
    state, now = stream.state, f[0, 6]
    parts = tino.linearise(model, state, now)
    s = as_vector(state.memory)
    scales = (1e-5 * (1 + float(s.abs().max())), 1e-5 * float(f.abs().max()))

    def stepped(ds: Tensor, df: Tensor) -> tuple[Tensor, Tensor]:
        after, u = model.step(tino.State(state.i, from_vector(state.memory, s + ds)), (now + df)[None])
        return as_vector(after.memory)[0], u[0]

    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        ds = torch.randn(s.shape, generator=generator, dtype=torch.float64)
        df = torch.randn(now.shape, generator=generator, dtype=torch.float64)
        for s_part, f_part, (of_memory, of_u) in (
            (ds, torch.zeros_like(df), (parts.A @ ds[0], parts.C @ ds[0])),
            (torch.zeros_like(ds), df, (parts.B @ df, parts.D @ df)),
        ):
            h = scales[0] if s_part.any() else scales[1]
            up, down = stepped(h * s_part, h * f_part), stepped(-h * s_part, -h * f_part)
            for exact, one, other in zip((of_memory, of_u), up, down, strict=True):
                assert torch.allclose((one - other) / (2 * h), exact, rtol=1e-5, atol=1e-6 * float(exact.abs().max()))


def test_derivatives_refuse_what_is_not_one_record(oscillator):
    with pytest.raises(tino.TinoError, match="linearise takes the State of one record"):
        tino.linearise(oscillator, tino.Stream(oscillator, records=2).state, torch.ones(1))
    with pytest.raises(tino.TinoError, match=r"f has shape \(2,\), expected \(1,\)"):
        tino.linearise(oscillator, tino.Stream(oscillator).state, torch.ones(2))
    with pytest.raises(tino.TinoError, match="f has NaN or infinite numbers"):
        tino.linearise(oscillator, tino.Stream(oscillator).state, torch.tensor([float("inf")]))
    don = tino.build("don", from_a_state())
    with pytest.raises(tino.TinoError, match="don cannot run step by step: it is not causal; give it"):
        tino.linearise(don, tino.Stream(oscillator).state, torch.ones(10))


def test_the_first_step_of_a_flow_is_its_start(oscillator):
    """u_0 is the start, whatever f_0 is; the states stay, the input is kept."""
    a, b, c, d = tino.linearise(oscillator, tino.Stream(oscillator).state, torch.zeros(1))
    law = oscillator.law
    assert a.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    assert close(b[:, 0], torch.stack([*torch.zeros(3).double(), law.to_input[0, 0]]))
    assert close(c[0], torch.stack([torch.zeros(()).double(), law.to_output[0, 0], *torch.zeros(2).double()]))
    assert not d.any()


# -- the command -----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(oscillator, tmp_path) -> Path:
    oscillator.save(tmp_path / "model")
    return tmp_path / "model"


def answers(folder: Path, given: str, monkeypatch, capsys, *options: str, status: int = 0) -> tuple[list[str], str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(given))
    assert run(["stream", str(folder), *options]) == status
    said = capsys.readouterr()
    return said.out.splitlines(), said.err


def test_lines_are_answered_one_by_one(folder, oscillator, monkeypatch, capsys, tmp_path):
    u = tino.Stream(oscillator).push(np.array([[1.0], [0.5], [-2.0]]))[:, 0]
    lines, _ = answers(folder, "1\n\n 0.5 \n-2e0\n", monkeypatch, capsys)
    assert [float(line) for line in lines] == u.tolist()
    lines, _ = answers(folder, "[1]\n[0.5]\n", monkeypatch, capsys)
    assert [json.loads(line) for line in lines] == [[u[0]], [u[1]]]
    lines, _ = answers(folder, "f\n1\n", monkeypatch, capsys, "--json")
    assert json.loads(lines[0]) == [u[0]]
    lines, _ = answers(folder, "force\n1\n", monkeypatch, capsys)
    assert lines == ["u", str(u[0])]
    keep = ("--state", str(tmp_path / "state"))
    first, _ = answers(folder, "1\n0.5\n", monkeypatch, capsys, *keep)
    then, _ = answers(folder, "-2\n", monkeypatch, capsys, *keep)
    assert [float(line) for line in first + then] == u.tolist()


BAD = {
    "x 1": 'the line is "x 1", expected numbers separated by commas or spaces',
    "1,2": "it has 2 numbers, expected 1 (f)",
    "[]": "it has 0 numbers, expected 1 (f)",
    "nan": "it has nan, expected finite numbers of at most 1.8e+308",
    "1e999": "it has inf, expected finite numbers of at most 1.8e+308",
    "[[1]]": 'the line is "[[1]]", expected',
    "[true]": 'the line is "[true]", expected',
    "[": 'the line is "[", expected',
    "1_000": 'the line is "1_000", expected numbers separated by commas or spaces',
    "1,,": 'the line is "1,,", expected',
    "f": 'the line is "f", expected',
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_line_is_named(bad, folder, monkeypatch, capsys):
    lines, told = answers(folder, f"1\n{bad}\n2\n", monkeypatch, capsys, status=1)
    assert told.startswith(f"tino: line 2: {BAD[bad]}")
    assert (len(lines), told.count("\n")) == (1, 1)
    without, _ = answers(folder, "1\n2\n", monkeypatch, capsys)
    assert answers(folder, f"1\n{bad}\n2\n", monkeypatch, capsys, "--skip-bad") == (without, told)


def test_the_first_line_with_text_may_be_a_header(folder, monkeypatch, capsys):
    assert answers(folder, "\ufeff1\n", monkeypatch, capsys) == (["0.0"], "")
    assert answers(folder, '\ufeff"f"\n1\n', monkeypatch, capsys) == (["u", "0.0"], "")
    assert answers(folder, "\n \nf\n1\n", monkeypatch, capsys) == (["u", "0.0"], "")
    note = "tino: note: the columns are force, read as the model's f\n"
    assert answers(folder, "force\n1\n1\n", monkeypatch, capsys)[1] == note
    told = "tino: line 2: the header has 2 names, expected 1 (f)\n"
    assert answers(folder, "\nt,f\n1\n", monkeypatch, capsys, status=1) == ([], told)
    assert answers(folder, "\nt,f\n1\n", monkeypatch, capsys, "--skip-bad") == (["0.0"], told)


@pytest.fixture
def named(tmp_path):
    """folder(channels, ...): a model with inputs of these names and units."""

    def folder(*inputs: str, output: str = "u") -> Path:
        parts = (name[:-1].split(" [") if " [" in name else [name] for name in inputs)
        channels = tuple(tino.Channel(*part) for part in parts)
        f, grids = torch.rand(4, 20, len(inputs)), (tino.TimeGrid(0.0, 1.0, 20), tino.Point(), tino.Point())
        data = tino.Dataset(f, f[..., :1], *grids, input_channels=channels, output_channels=(tino.Channel(output),))
        tino.build("linear", data, delays=2).save(tmp_path / "named")
        return tmp_path / "named"

    return folder


@pytest.mark.parametrize(
    ("channels", "headers"),
    [
        (("force [N]",), ["force", "force [N]", '"force"', '"force [N]"', '"force" [N]', "force[N]"]),
        (("shaft speed [rad/s]",), ["shaft speed", '"shaft speed"', "shaft speed [rad/s]", '"shaft speed [rad/s]"']),
        (("a, b",), ["a, b", '"a, b"']),
        (("x[0]",), ["x[0]", '"x[0]"']),
        (("1st mass",), ["1st mass"]),
        (
            ("shaft speed [rad/s]", "load [N m]"),
            [
                '"shaft speed","load"',
                "shaft speed,load",
                "shaft speed [rad/s], load [N m]",
                '"shaft speed [rad/s]","load [N m]"',
                '"shaft speed" load',
                '"shaft speed" [rad/s]\tload [N m]',
            ],
        ),
        (("a,b", "c"), ['"a,b",c', '"a,b" c']),
    ],
)
def test_a_header_may_have_quotes_and_units(channels, headers, named, monkeypatch, capsys):
    folder = named(*channels, output="shaft angle")
    for header in headers:
        assert answers(folder, f"{header}\n", monkeypatch, capsys) == (['"shaft angle"'], ""), header


def test_another_unit_in_a_header_is_told(named, monkeypatch, capsys):
    folder = named("shaft speed [rad/s]", "load [N m]")
    _, told = answers(folder, "shaft speed [rpm],load\n", monkeypatch, capsys)
    assert told == "tino: note: shaft speed is in rpm, read as the model's rad/s\n"
    _, told = answers(folder, "load [N m],shaft speed\n", monkeypatch, capsys, status=1)
    order = "the columns are load, shaft speed; the model was built for this order: shaft speed, load"
    assert told == f"tino: line 1: {order}\n"


@pytest.mark.parametrize("line", ["0.1;0.2", "0x1f", "-.5e", "1,x", "nan", "-Inf", "12:30", '"0,1"'])
def test_a_first_line_that_begins_like_a_number_is_no_header(line, folder, monkeypatch, capsys):
    lines, told = answers(folder, f"{line}\n1\n", monkeypatch, capsys, status=1)
    assert lines == []
    assert told.startswith("tino: line 1: ")
    assert answers(folder, "inflow\n1\n", monkeypatch, capsys)[0] == ["u", "0.0"]


def test_inputs_far_outside_the_training_are_told_once(folder, monkeypatch, capsys):
    _, told = answers(folder, "1\n200\n-1\n300\n", monkeypatch, capsys)
    assert told == "tino: note: line 2: f reaches 200, 2.83 in training: expect larger errors there\n"


def test_a_model_that_diverges_leaves_the_saved_state(folder, monkeypatch, capsys, tmp_path):
    state = tmp_path / "state"
    keep = ("--state", str(state))
    answers(folder, "1\n", monkeypatch, capsys, *keep)
    before = state.read_bytes()
    lines, told = answers(folder, "1e308\n" * 20, monkeypatch, capsys, *keep, status=1)
    said = f"line {len(lines) + 1}: the model has diverged, its answer is not finite; its state is not saved"
    assert told.splitlines()[1:] == [f"tino: {said}"]
    assert state.read_bytes() == before


@pytest.mark.parametrize(
    ("where", "why"),
    [(".", "a folder, expected a file"), ("model/model.json/state", "cannot write into .*: Not a directory")],
)
def test_a_state_that_cannot_be_written_is_refused_before_the_first_line(where, why, folder, monkeypatch, capsys):
    lines, told = answers(folder, "1\n", monkeypatch, capsys, "--state", str(folder.parent / where), status=1)
    assert lines == []
    assert re.fullmatch(f"tino: .*{why}\n", told)


def test_a_missing_initial_state_is_asked_for_as_an_option(monkeypatch, capsys, tmp_path):
    tino.build("pod-tino", from_a_state()).save(tmp_path / "model")
    _, told = answers(tmp_path / "model", "", monkeypatch, capsys, status=1)
    assert told == "tino: pod-tino takes an initial state of 10 numbers: give it with --ic\n"


def test_an_initial_state_that_is_not_taken_is_refused(folder, monkeypatch, capsys):
    _, told = answers(folder, "1\n", monkeypatch, capsys, "--ic", "0", status=1)
    assert told == "tino: linear takes no initial state: leave out --ic\n"


def test_a_state_file_that_is_none_names_what_to_do(folder, monkeypatch, capsys, tmp_path):
    state, todo = tmp_path / "state", "delete it or name another --state"
    other = tino.build("pod-tino", from_a_state())
    other.save(tmp_path / "other")
    for write in (
        lambda: state.write_bytes(b"notes"),
        lambda: tino.Stream(other, np.zeros(10)).save(state),
        lambda: tino.Stream(tino.load(folder), records=2).save(state),
    ):
        write()
        lines, told = answers(folder, "1\n", monkeypatch, capsys, "--state", str(state), status=1)
        assert lines == []
        assert todo in told
        assert told.count("\n") == 1


@pytest.mark.parametrize("command", ["stream", "export"])
@pytest.mark.parametrize("name", ["none", "a-file", "folder"])
def test_what_holds_no_model_is_told_as_for_other_commands(command, name, tmp_path, capsys):
    (tmp_path / "a-file").write_text("")
    (tmp_path / "folder").mkdir()
    assert run([command, str(tmp_path / name)]) == 1
    told = f"tino: no finished run in {tmp_path / name}: expected a folder written by 'tino train'\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_starts_ends_it_as_later(number, folder, monkeypatch, capsys):
    def interrupted(_: Path) -> None:
        os.kill(os.getpid(), number)
        time.sleep(5)

    monkeypatch.setattr(streaming, "_model", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell's job runs the tests
    try:
        assert answers(folder, "1\n", monkeypatch, capsys) == ([], "")
    finally:
        signal.signal(signal.SIGINT, before)


def opened(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    command, pipe = [sys.executable, "-m", "tino", "stream", str(folder), *options], subprocess.PIPE
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)


def test_sigterm_ends_a_stream_and_its_state_is_kept(folder, oscillator, tmp_path):
    with opened(folder, "--state", str(tmp_path / "state")) as asked:
        assert asked.stdin
        assert asked.stdout
        asked.stdin.write(b"1\n0.5\n")
        asked.stdin.flush()
        for _ in range(2):
            asked.stdout.readline()
        asked.terminate()
        assert asked.wait(60) == 0
        assert asked.stderr
        assert asked.stderr.read() == b""
    assert tino.Stream.load(tmp_path / "state", oscillator).state.i == 2


def test_bytes_that_are_no_text_are_a_bad_line(folder):
    with opened(folder, "--skip-bad") as asked:
        lines, told = asked.communicate(b"1\n\xff\xfe\n2\n", 60)
    assert len(lines.splitlines()) == 2
    assert told.startswith(b"tino: line 2: the line is ")
    assert told.count(b"\n") == 1


def test_a_closed_pipe_ends_it_cleanly(folder):
    command = f"yes 1 | {sys.executable} -m tino stream {folder} | head -n 2"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == ""
