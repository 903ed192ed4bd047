"""FNO as a stepper: its formula, its start, its clock, its lessons."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from test_fno import by_full_transform
from torch import Tensor

import tino
from tino.operator import Stretches
from tino.training.objective import objective

TIME = tino.TimeGrid(0.0, 1.0, 12)
LINE, RING, TRIANGLE = tino.Interval(0.0, 1.0, 7), tino.Periodic(1.0, (8,)), tino.Triangle(6)
SMALL = {"width": 5, "modes": 3, "layers": 3, "projection": 7}
CPU = torch.device("cpu")


def made(grid: Any, inputs: Any = None, start: float = 0.0, spread: float = 0.0, channels: int = 2) -> tino.Dataset:
    """Forces that are followed slowly, from one field or, with a spread, from many, which are given as ic."""
    chance, inputs = torch.Generator().manual_seed(0), grid if inputs is None else inputs
    m, x = channels * inputs.size, channels * grid.size
    f = torch.randn(8, TIME.n, m, generator=chance)
    drive = f @ torch.randn(m, x, generator=chance) / m**0.5
    u = start * torch.linspace(1, 2, x) + spread * torch.randn(8, x, generator=chance)
    states = [u]
    for i in range(1, TIME.n):
        u = u + 0.1 * (drive[:, i - 1] + drive[:, i]) - 0.1 * (u - start)
        states.append(u)
    u = torch.stack(states, 1) * torch.tensor([1.0, 1e3][:channels]).repeat_interleave(grid.size)
    names: Any = {
        f"{side}_channels": tuple(tino.Channel(f"{side}{i}") for i in range(channels)) for side in ("input", "output")
    }
    return tino.Dataset(f, u, TIME, inputs, grid, ic=u[:, 0] if spread else None, **names)


def stepper(train: tino.Dataset, **options: Any) -> Any:
    return tino.build("fno-step", train, **{**SMALL, **options})


def boxed(grid: Any, values: Tensor) -> Tensor:
    """One channel at the grid's points, or one number for all of them, put on the box point by point."""
    values = values.expand(grid.size)
    if not isinstance(grid, tino.Triangle):
        return values.view(grid.shape)
    box = torch.zeros(grid.n, grid.n, dtype=values.dtype)
    for (row, column), value in zip(grid.inside.nonzero().tolist(), values, strict=True):
        box[row, column] = value
    return box


def naive_step(model: Any, u: Tensor, f: Tensor, f_next: Tensor, i: int) -> Tensor:
    """u_i (x,), f_i and f_{i+1} (m,) of one record -> u_{i+1}, written out with full FFTs; i + 1 is given as i."""
    grid, border = model.frame.outputs, model.border
    rows = [boxed(grid, one / scale) for one, scale in zip(u.chunk(border.outputs), border.scale_out, strict=True)]
    for now, then, scale in zip(f.chunk(border.inputs), f_next.chunk(border.inputs), border.scale_in, strict=True):
        rows += [boxed(grid, now / scale), boxed(grid, then / scale)]
    box = rows[0].shape
    rows += torch.meshgrid(*[torch.linspace(-1, 1, n, dtype=torch.float64) for n in box], indexing="ij")
    if model.record()["clock"]:
        rows.append(torch.full(box, -1 + 2 * i / (TIME.n - 1), dtype=torch.float64))
    v = torch.stack(rows, -1) @ model.lift.weight.T + model.lift.bias  # (*box, c)
    padding = model.record()["padding"]
    padded = v.new_zeros(*[n + padding for n in box], v.shape[-1])
    inside = tuple(slice(n) for n in box)
    padded[inside] = v
    v = padded
    for k, (spectral, local) in enumerate(zip(model.spectral, model.local, strict=True)):
        v = by_full_transform(spectral, v.movedim(-1, 0)[None])[0].movedim(0, -1) + v @ local.weight.T + local.bias
        v = torch.nn.functional.gelu(v) if k < len(model.local) - 1 else v
    v = torch.nn.functional.gelu(v[inside] @ model.project[0].weight.T + model.project[0].bias)
    v = v @ model.project[2].weight.T + model.project[2].bias
    v = v[grid.inside] if isinstance(grid, tino.Triangle) else v.reshape(grid.size, -1)  # (x, channels)
    return u + (v * model.scale_step).T.flatten()


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize(
    ("grid", "inputs"),
    [
        (RING, None),
        (LINE, None),
        (LINE, tino.Point()),
        (TRIANGLE, None),
        (tino.Periodic(1.0, (6, 5)), None),
        (tino.Periodic(1.0, (4, 5, 6)), None),
    ],
    ids=str,
)
def test_a_step_is_its_formula(grid, inputs, clock):
    """Every step of a record, whole and one by one, of two channels of unlike size."""
    train = made(grid, inputs, start=1.0)
    model, f = stepper(train, clock=clock).double().eval().requires_grad_(False), train.f[:2].double()
    whole = model(f)
    state, u = model.start(f[:, 0])
    for i in range(1, TIME.n):
        expected = torch.stack([naive_step(model, u[n], f[n, i - 1], f[n, i], i) for n in range(2)])
        state, u = model.step(state, f[:, i])
        assert torch.allclose(model.normalised(u), model.normalised(expected), rtol=0, atol=1e-12)
        assert torch.allclose(model.normalised(u), model.normalised(whole[:, i]), rtol=0, atol=1e-12)


def test_its_sizes_are_the_paper_s(small_data):
    for problem, axes, padding in (("burgers-0.1", 1, 0), ("allen-cahn", 1, 9), ("heat-triangle", 2, 9)):
        model: Any = tino.build("fno-step", small_data(problem)[0])
        sizes = {"width": 20, "modes": [12] * axes, "layers": 4, "projection": 128, "padding": padding}
        assert model.record() == {**sizes, "clock": False, "zero": not small_data(problem)[0].u[:, 0].any()}
        assert model.spectral[0].sizes == (24 + padding,) * axes


@pytest.mark.parametrize("lengths", [None, [12, 5, 2, 2, 12, 12, 3, 9]])
def test_scales_are_sizes_in_the_data(lengths):
    data = made(LINE)
    data = data if lengths is None else replace(data, lengths=torch.tensor(lengths))
    model = stepper(data)
    records = [u[:n].view(n, 2, -1) for u, n in zip(data.u, lengths or [TIME.n] * 8, strict=True)]
    moved = torch.cat([u[1:] - u[:-1] for u in records])
    assert torch.allclose(model.scale_step, moved.square().mean((0, 2)).sqrt(), rtol=1e-5)
    assert torch.allclose(model.border.scale_out, torch.cat(records).square().mean((0, 2)).sqrt(), rtol=1e-5)
    assert model.normalisation()["step_scale"] == model.scale_step.tolist()


# -- the start -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0.0, 3.0])
def test_without_ic_it_starts_from_the_field_all_records_share(start, tmp_path):
    train = made(RING, start=start)
    model = stepper(train)
    assert model.record()["zero"] == (start == 0)
    assert torch.allclose(model(train.f)[:, 0], train.u[:, 0], rtol=1e-6)
    assert ("it does not start at zero" in model.properties.reasons) == (start != 0)
    model.save(tmp_path)
    assert torch.equal(tino.predict(tino.load(tmp_path), train.f), tino.predict(model, train.f))


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_it_starts_from_ic(offset):
    """Outputs and initial states may lie about different constants: u(T_0) is ic all the same."""
    train = made(RING, spread=1.0)
    by = offset * torch.tensor([1.0, 1e3]).repeat_interleave(RING.size)
    ic = train.u[:, 0] + by
    later = torch.where(torch.arange(TIME.n) > 0, 1.1, 1.0)[:, None]  # the mean of u is not that of ic
    data = replace(train, u=train.u + by * later, ic=ic)
    model = stepper(data)
    seen = model.frame.seen
    assert (seen.output_offset != seen.state_offset) == bool(offset)
    assert torch.allclose(model(data.f, ic)[:, 0], ic, rtol=1e-5)
    state, u = model.start(data.f[:, 0], ic)
    assert torch.allclose(u, ic, rtol=1e-5)
    assert torch.equal(state.memory[1], data.f[:, 0])
    with pytest.raises(tino.TinoError, match="fno-step takes an initial state of 16 numbers, give it as ic"):
        model(data.f)


# -- the clock -------------------------------------------------------------------------------------------------


def test_with_a_clock_each_row_has_its_own_time():
    train = made(LINE)
    model = stepper(train, clock=True).requires_grad_(False)
    memory, f = model.observe(train.f, train.u), train.f
    now = torch.tensor([3, 1, 11])
    rows = torch.arange(3)
    _, u = model._step(tuple(part[rows, now - 1] for part in memory), f[rows, now], now)
    for n, i in enumerate(now.tolist()):
        one = tuple(part[n : n + 1, i - 1] for part in memory)
        assert torch.allclose(model._step(one, f[n : n + 1, i], i)[1][0], u[n], rtol=1e-5, atol=1e-6)
        assert not torch.allclose(model._step(one, f[n : n + 1, i], 6)[1][0], u[n], rtol=1e-5, atol=1e-6)


def test_a_clock_ends_and_the_properties_say_so():
    train = made(RING)
    free, clocked = stepper(train), stepper(train, clock=True)
    known = [(m.properties.causal, m.properties.autonomous, m.properties.at_rest) for m in (free, clocked)]
    assert known == [(True, True, False), (True, False, False)]
    assert free.properties.reasons == ("its network's biases act without input",)
    assert clocked.properties.reasons == ("its network sees t", "its network's biases act without input")
    assert (free.longest, clocked.longest) == (None, TIME.n)
    longer = torch.cat([train.f, train.f], 1)
    assert free(longer).shape == (8, 2 * TIME.n, train.output_size)
    with pytest.raises(tino.TinoError, match="fno-step takes 1 to 12 times: its network sees t; its network's biases"):
        clocked(longer)


# -- what it refuses, and how it learns ------------------------------------------------------------------------


def test_time_only_outputs_are_refused(small_data):
    with pytest.raises(
        tino.TinoError, match=r"^fno-step needs outputs in space, duffing has .*: try polynomial or lstm$"
    ):
        tino.build("fno-step", small_data("duffing")[0])
    with pytest.raises(tino.TinoError, match=r"^fno-step needs inputs and outputs on one grid, "):
        tino.build("fno-step", small_data("fitting-space")[0])


def one_step_error(model: Any, data: tino.Dataset) -> float:
    """Of u_{i+1} from the data's u_i, beside the size of u_{i+1} - u_i."""
    goal = objective(model, Stretches(1), data, CPU)
    with torch.no_grad():
        return float(goal(torch.arange(len(data)), None)) ** 0.5 / float(model.scale_step)


@pytest.mark.parametrize("problem", ["burgers-0.1", "heat-triangle"])
def test_it_learns_to_step(problem, small_data):
    train, test = small_data(problem)
    model = tino.build("fno-step", train, width=8, modes=6)
    before, error = one_step_error(model, test), tino.evaluate(model, test).nrmse
    config = tino.TrainConfig(steps=120, batch_size=12, times=4, device="cpu")
    tino.fit(model, train, config, show_progress=False)
    assert one_step_error(model, test) < 0.4 * before
    assert tino.evaluate(model, test).nrmse < 0.5 * error


def test_it_learns_one_step_then_eight():
    model = stepper(made(RING))
    assert [lesson.steps for lesson in model.learning] == [1, 8]
    short = replace(made(RING), f=made(RING).f[:, :5], u=made(RING).u[:, :5], time=tino.TimeGrid(0.0, 1.0, 5))
    model = stepper(short)
    assert [lesson.steps for lesson in model.learning] == [1, 4]
    tino.fit(model, short, tino.TrainConfig(steps=3, device="cpu"), show_progress=False)


def test_the_state_in_the_data_is_the_state_of_a_run():
    """After i inputs the memory is (u_i, f_i), seen or stepped to."""
    train = made(RING, spread=1.0)
    model = stepper(train).requires_grad_(False)
    u = model(train.f, train.ic)
    seen = model.observe(train.f, u)
    state, _ = model.start(train.f[:, 0], train.ic)
    state, _ = model.run(state, train.f[:, 1:6])
    for part, own in zip(seen, state.memory, strict=True):
        assert torch.allclose(part[:, 5], own, rtol=1e-5, atol=1e-5)
