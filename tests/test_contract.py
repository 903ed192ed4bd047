"""The contract, asked of every registered model: what it declares it keeps, on every kind of data it takes."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import tino
from tino.frame import Frame
from tino.operator import Properties
from tino.parts.bases import Basis
from tino.parts.mixers import Mixer
from tino.parts.part import Part
from tino.training.objective import RecordsObjective

pytestmark = pytest.mark.filterwarnings("ignore::tino.TinoWarning")  # these grids are coarse on purpose

# in time, periodic, unlike grids, in two dimensions, with an initial state
PROBLEMS = ("duffing", "burgers-0.1", "fitting-space", "heat-triangle", "navier-stokes-ic")
ROUNDING = 1e-12  # in float64, of the largest |u|
CPU = torch.device("cpu")


# -- data that are made here ---------------------------------------------------------------------------------

TIME = tino.TimeGrid(0.0, 1.0, 12)
LINE = tino.Interval(0.0, 1.0, 6)
PAIR = (tino.Channel("force", "N"), tino.Channel("torque", "Nm"))
ANSWER = (tino.Channel("path", "m"), tino.Channel("strain"))
ONE_IN, ONE_OUT = (tino.Channel("inlet", "K"),), (tino.Channel("heat", "K"),)
KINDS = {  # inputs and outputs, where and what
    "two signals": (tino.Point(), tino.Point(), PAIR, ANSWER),
    "two fields": (LINE, LINE, PAIR, ANSWER),
    "two signals to two fields": (tino.Point(), LINE, PAIR, ANSWER),
    "a boundary signal": (tino.Point(), LINE, ONE_IN, ONE_OUT),
    "one signal": (tino.Point(), tino.Point(), ONE_IN, ONE_OUT),
    "one field": (LINE, LINE, ONE_IN, ONE_OUT),
}


def sizes_of(channels: tuple[tino.Channel, ...], points: int, first: float) -> Tensor:
    """Channels of very different sizes: 1e3 and 1e-3, or the other way around."""
    return torch.tensor([first, 1 / first][: len(channels)]).repeat_interleave(points)


def made(kind: str, samples: int = 10) -> tino.Dataset:
    """Noise, and what it drives: a leaky sum over time, with a square, mixed over channels and points."""
    inputs, outputs, channels_in, channels_out = KINDS[kind]
    generator = torch.Generator().manual_seed(0)
    m, x = len(channels_in) * inputs.size, len(channels_out) * outputs.size
    f = torch.randn(samples, TIME.n, m, generator=generator)
    mixed = f @ torch.randn(m, x, generator=generator) / m**0.5
    steps, u = [], torch.zeros(samples, x)
    for drive in mixed.unbind(1):
        u = 0.9 * u + drive + 0.1 * drive**2
        steps.append(u)
    f, u = (
        f * sizes_of(channels_in, inputs.size, 1e3),
        torch.stack(steps, 1) * sizes_of(channels_out, outputs.size, 1e-3),
    )
    return tino.Dataset(f, u, TIME, inputs, outputs, input_channels=channels_in, output_channels=channels_out)


def takes(name: str, data: tino.Dataset) -> tino.Operator | None:
    """The model, where it applies to the data."""
    try:
        return tino.build(name, data)
    except tino.TinoError:
        return None


def declared(name: str) -> Properties:
    models = (takes(name, made(kind)) for kind in KINDS)
    return next((model.properties for model in models if model is not None), Properties())


DECLARED = {name: declared(name) for name in tino.MODELS}
CAUSAL = [name for name, it in DECLARED.items() if it.causal]
NOT_CAUSAL = [name for name in DECLARED if name not in CAUSAL]
AUTONOMOUS = [name for name in CAUSAL if DECLARED[name].autonomous]
CLOCKED = [name for name in CAUSAL if name not in AUTONOMOUS]
AT_REST = [name for name, it in DECLARED.items() if it.at_rest]


# -- every model on every problem it takes ---------------------------------------------------------------------


def shaken(model: tino.Operator) -> tino.Operator:
    """In float64, no weight at its first value: zeros would hide what they multiply."""
    generator = torch.Generator().manual_seed(1)
    model = model.double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.02 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return model.requires_grad_(False)


Case = tuple[str, tino.Operator, Tensor, Tensor | None]


@pytest.fixture(scope="module")
def cases(tiny_data):
    """name -> the problems it takes, each with a model, inputs and initial states."""
    known: dict[str, list[Case]] = {}

    def get(name: str) -> list[Case]:
        if name not in known:
            known[name] = list(applied(name))
            assert known[name], f"{name} takes none of the problems"
        return known[name]

    def applied(name: str) -> Iterator[Case]:
        for problem in PROBLEMS:
            train, test = tiny_data(problem)
            model, ic = takes(name, train), None if test.ic is None else test.ic[:2].double()
            if model is not None:
                yield problem, shaken(model), test.f[:2].double(), ic

    return get


def close(one: Tensor, other: Tensor, tolerance: float = ROUNDING) -> bool:
    return one.shape == other.shape and float((one - other).abs().max()) <= tolerance * float(other.abs().max())


def in_steps(model: tino.Operator, f: Tensor, ic: Tensor | None) -> Tensor:
    """The first input, then two single ones, then blocks of three and of all that is left."""
    state, u = model.start(f[:, 0], ic)
    answers = [u[:, None]]
    for i in (1, 2):
        state, u = model.step(state, f[:, i])
        assert state.i == i + 1
        answers.append(u[:, None])
    for block in (f[:, 3:6], f[:, 6:]):
        state, u = model.run(state, block)
        answers.append(u)
    assert state.i == f.shape[1]
    return torch.cat(answers, 1)


def four_times(f: Tensor) -> Tensor:
    return torch.cat([f, 0.5 * f.flip(1), -f, f.roll(3, 1)], 1)


def refusal(call) -> str:
    """The one line with which it ends."""
    with pytest.raises(tino.TinoError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_property_is_declared_by_some_model():
    """Else a test below would have nothing to ask."""
    assert all((CAUSAL, NOT_CAUSAL, AUTONOMOUS, CLOCKED, AT_REST))


@pytest.mark.parametrize("name", tino.MODELS)
def test_every_model_takes_some_problem(name, cases):
    for problem, model, f, ic in cases(name):
        assert model.frame.model == name
        found, known = model.properties, DECLARED[name]  # where a flow starts, and so whether at rest, the data decide
        assert (found.causal, found.autonomous) == (known.causal, known.autonomous), problem
        assert model(f, ic).shape == (len(f), f.shape[1], model.frame.output_size), problem


# -- step by step ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CAUSAL)
def test_steps_give_the_whole_record(name, cases):
    for problem, model, f, ic in cases(name):
        whole = model(f, ic)
        assert close(in_steps(model, f, ic), whole), problem
        assert close(model.by_steps(f, ic), whole), problem


@pytest.mark.parametrize("name", CAUSAL)
def test_the_first_part_of_a_record_gives_the_first_part_of_the_answer(name, cases):
    for problem, model, f, ic in cases(name):
        whole, half = model(f, ic), f.shape[1] // 2
        for n in (1, half):
            part = model(f[:, :n], ic)
            assert float((part - whole[:, :n]).abs().max()) <= ROUNDING * float(whole.abs().max()), problem
        steps = model.by_steps(f[:, :half], ic)
        assert float((steps - whole[:, :half]).abs().max()) <= ROUNDING * float(whole.abs().max()), problem


@pytest.mark.parametrize("name", CAUSAL)
def test_a_state_can_be_gone_back_to(name, cases):
    """A step leaves the state before it as it was, and all memories have the same shapes."""

    def shapes(memory: Any) -> Any:
        return [shapes(part) for part in memory] if isinstance(memory, tuple) else getattr(memory, "shape", None)

    for problem, model, f, ic in cases(name):
        state, _ = model.start(f[:, 0], ic)
        once, u = model.step(state, f[:, 1])
        model.run(once, f[:, 2:5])
        again, same = model.step(state, f[:, 1])
        assert torch.equal(u, same), problem
        assert shapes(state.memory) == shapes(again.memory), problem


@pytest.mark.parametrize("name", AUTONOMOUS)
def test_autonomous_models_take_records_four_times_as_long(name, cases, tiny_data):
    for problem, model, f, ic in cases(name):
        longer, n_t = four_times(f), f.shape[1]
        assert model.longest is None
        whole = model(longer, ic)
        assert close(in_steps(model, longer, ic), whole), problem
        size = float(whole.abs().max())
        assert float((whole[:, :n_t] - model(f, ic)).abs().max()) <= ROUNDING * size, problem
        assert float((whole[:, n_t:].diff(dim=1)).abs().max()) > 1e-6 * size, problem  # it goes on answering
        frame = model.frame
        grid = tino.TimeGrid(frame.time.start, frame.time.start + (4 * n_t - 1) * frame.time.step, 4 * n_t)
        data = replace(tiny_data(problem)[1].take(slice(2)), f=longer, u=whole, time=grid, ic=ic)
        assert tino.evaluate(model, data).max_error == 0, problem


@pytest.mark.parametrize("name", CLOCKED)
def test_other_causal_models_end_at_the_last_time_they_know(name, cases):
    for problem, model, f, ic in cases(name):
        n_t = f.shape[1]
        assert model.longest == n_t
        limit = f"{name} takes 1 to {n_t} times: {'; '.join(model.properties.reasons)}"
        assert model.properties.reasons
        assert refusal(lambda m=model, f=f, ic=ic: m(four_times(f), ic)) == f"f has {4 * n_t} times, {limit}", problem
        state, _ = model.start(f[:, 0], ic)
        state, _ = model.run(state, f[:, 1:])
        beyond = refusal(lambda m=model, s=state, f=f: m.step(s, f[:, 0]))
        assert beyond == f"the stream has {n_t + 1} times, {limit}", problem


@pytest.mark.parametrize("name", NOT_CAUSAL)
def test_models_that_see_the_future_need_the_whole_record(name, cases):
    for _, model, f, ic in cases(name):
        n_t = f.shape[1]
        line = f"{name} cannot run step by step: it is not causal; give it whole records, or train a causal model"
        assert refusal(lambda m=model, f=f, ic=ic: m.start(f[:, 0], ic)) == line
        for other in (f[:, :-1], four_times(f)):
            found = refusal(lambda m=model, f=other, ic=ic: m(f, ic))
            assert found == f"f has {other.shape[1]} times, the model was built for {n_t}"
        assert model.longest == n_t


@pytest.mark.parametrize("name", CAUSAL)
def test_only_a_clock_knows_how_many_inputs_came_before(name, cases):
    for problem, model, f, ic in cases(name):
        state, _ = model.start(f[:, 0], ic)
        state, _ = model.run(state, f[:, 1:4])
        _, u = model.run(state, f[:, 4:6])
        for told in (0, f.shape[1] - 3):
            _, moved = model.run(replace(state, i=told), f[:, 4:6])
            if name in AUTONOMOUS:
                assert torch.equal(moved, u), problem
            else:
                assert not close(moved, u, 1e-6), problem


# -- at rest -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tino.MODELS)
def test_zero_input_leaves_a_system_at_rest(name, cases):
    for problem, model, f, ic in cases(name):
        if not model.properties.at_rest:
            continue
        u = model(torch.zeros_like(f), ic)
        assert not close(model(f, ic), u, 1e-6), problem
        assert close(u, u[:, :1].expand_as(u)), problem


# -- several channels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tino.MODELS)
def test_channels_of_very_different_sizes(name, tmp_path):
    taken = 0
    for kind in KINDS:
        train = made(kind)
        model = takes(name, train)
        if model is None:
            continue
        taken += 1
        u = tino.predict(model, train.f)
        assert u.shape == train.u.shape, kind
        channels = model.normalised(train.u).unflatten(-1, (len(train.output_channels), -1))
        if len(train.output_channels) > 1:  # one channel keeps its unit
            assert torch.allclose(channels.square().mean((0, 1, 3)).sqrt(), torch.ones(2), rtol=1e-4), kind
            answers = model.normalised(u).unflatten(-1, (2, -1)).square().mean((0, 1, 3)).sqrt()
            assert 0.02 < float(answers[0] / answers[1]) < 50, kind  # of one size before training, too
        model.save(tmp_path / kind)
        again = tino.load(tmp_path / kind)
        assert again.frame == model.frame
        assert (again.frame.input_channels, again.frame.output_channels) == KINDS[kind][2:]
        assert torch.equal(tino.predict(again, train.f), u), kind
        if model.properties.causal:
            model, f = shaken(model), train.f.double()
            u, steps = (model.normalised(values) for values in (model(f), in_steps(model, f, None)))
            assert close(steps, u), kind
    assert taken


@pytest.mark.parametrize("name", tino.MODELS)
def test_the_loss_is_the_error_of_the_normalised_field(name):
    """Its weight and constant lead from coefficients to the field, of several channels too."""
    for kind in KINDS:
        train = made(kind)
        model = takes(name, train)
        if model is None:
            continue
        model, data = shaken(model), replace(train, f=train.f.double(), u=train.u.double())
        objective = RecordsObjective(model, data, CPU)
        loss = float(objective(torch.arange(len(data)), None))
        error = model.normalised(model(data.f)) - model.normalised(data.u)
        found = loss * objective.weight + objective.constant
        assert found == pytest.approx(float(error.square().mean()), rel=1e-4), kind


@pytest.mark.parametrize("name", tino.MODELS)
def test_units_do_not_matter(name):
    """In other units of each channel the answers are the same, in those units."""
    for kind in KINDS:
        train = made(kind)
        model = takes(name, train)
        if model is None:
            continue
        f_unit = sizes_of(train.input_channels, train.inputs.size, 2.0**9)
        u_unit = sizes_of(train.output_channels, train.outputs.size, 2.0**-7)
        other = tino.build(name, replace(train, f=train.f * f_unit, u=train.u * u_unit))
        one, same = tino.predict(model, train.f), tino.predict(other, train.f * f_unit) / u_unit
        assert close(model.normalised(same), model.normalised(one), 1e-4), kind


def test_other_channels_are_refused():
    two, one = made("two signals"), made("one signal")
    line = refusal(lambda: tino.evaluate(tino.build("tino", two), one))
    assert line == "the data have 1 input channels, the model was built for 2"
    line = refusal(lambda: tino.build("tino", two)(one.f))
    assert line == "f has shape (10, 12, 1), the model was built for (records, 12, 2)"


# -- records of different lengths --------------------------------------------------------------------------------


def cut(kind: str, filling: float) -> tino.Dataset:
    """Records that end early, and after their end noise of this size, relative to the data."""
    data = made(kind)
    lengths = 3 + torch.arange(len(data)) % (TIME.n - 2)
    lengths[0] = TIME.n
    noise = torch.Generator().manual_seed(2)
    after = ~(torch.arange(TIME.n) < lengths[:, None])[..., None]
    f, u = (
        torch.where(after, filling * values.abs().amax((0, 1)) * torch.randn(values.shape, generator=noise), values)
        for values in (data.f, data.u)
    )
    return replace(data, f=f, u=u, lengths=lengths)


@pytest.mark.parametrize("filling", [30.0, torch.nan])
@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_after_the_end_of_a_record_is_gone(kind, filling):
    """The data hold zeros there, so that nothing can read it by mistake."""
    zeros, other = cut(kind, 0.0), cut(kind, filling)
    assert torch.equal(zeros.f, other.f)
    assert torch.equal(zeros.u, other.u)
    assert zeros.mask is not None
    assert not zeros.u[~zeros.mask].any()
    assert bool((zeros.u[zeros.mask] == made(kind).u[zeros.mask]).all())


@pytest.mark.parametrize("name", CAUSAL)
def test_the_loss_counts_each_time_of_each_record_once(name):
    for kind in KINDS:
        data = cut(kind, 30.0)
        model = takes(name, data)
        if model is None:
            continue
        model, data = shaken(model), replace(data, f=data.f.double(), u=data.u.double())
        objective = RecordsObjective(model, data, CPU)
        found = float(objective(torch.arange(len(data)), None)) * objective.weight + objective.constant
        error = model.normalised(model(data.f)) - model.normalised(data.u)
        assert data.lengths is not None
        rows = torch.cat([one[:n] for one, n in zip(error, data.lengths.tolist(), strict=True)])
        assert found == pytest.approx(float(rows.square().mean()), rel=1e-4), kind


@pytest.mark.parametrize("name", NOT_CAUSAL)
def test_models_that_see_the_whole_record_need_one_length(name):
    taken = 0
    for kind in KINDS:
        model = takes(name, made(kind))
        if model is not None:
            taken += 1
            line = f"{name} needs records of equal length: it is not causal"
            assert refusal(lambda kind=kind: tino.build(name, cut(kind, 0.0))) == line
            assert refusal(lambda kind=kind, model=model: tino.evaluate(model, cut(kind, 0.0))) == line
    assert taken


@pytest.mark.parametrize("kind", ["one signal", "two fields"])
def test_scores_count_only_the_times_that_count(kind):
    data = cut(kind, 30.0)
    model = tino.build("tino", data)
    scores, u = tino.evaluate(model, data), tino.predict(model, data.f).double()
    assert data.lengths is not None
    pairs = [(u[k, :n], data.u[k, :n].double()) for k, n in enumerate(data.lengths.tolist())]
    mse = torch.stack([(a - b).square().mean() for a, b in pairs])
    count = len(data.output_channels)
    sizes = torch.cat([b for _, b in pairs]).unflatten(-1, (count, -1)).square().mean((0, 2)).sqrt()
    unit = sizes.repeat_interleave(data.outputs.size)  # channels weigh alike in relative errors
    rel = torch.stack([((a - b) / unit).norm() / (b / unit).norm() for a, b in pairs])
    error = torch.cat([(a - b).flatten() for a, b in pairs])
    assert torch.allclose(scores.mse, mse)
    assert torch.allclose(scores.rel_l2, rel)
    rmse = float(error.square().mean().sqrt())
    errors, truths = (
        torch.cat([side.unflatten(-1, (count, -1)) for side in sides]).transpose(0, 1).flatten(1)
        for sides in ([a - b for a, b in pairs], [b for _, b in pairs])
    )
    relative = errors.square().mean(1).sqrt() / truths.std(1, correction=0)
    expected = {
        "mse_mean": float(mse.mean()),
        "mse_sd": float(mse.std()),
        "rel_l2_mean": float(rel.mean()),
        "rmse": rmse,
        "nrmse": float(relative.square().mean().sqrt()),
        "max_error": float(error.abs().max()),
    }
    assert {key: scores.overall[key] for key in expected} == pytest.approx(expected, rel=1e-6)


# -- the record on disk ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tino.MODELS)
def test_the_record_is_plain_and_rebuilds_the_shapes(name, cases):
    models = [model for _, model, _, _ in cases(name)]
    models += [model for kind in KINDS if (model := takes(name, made(kind))) is not None]
    for model in models:
        record, frame = json.loads(json.dumps(model.record())), json.loads(json.dumps(model.frame.record()))
        assert record == model.record()  # no tuple, no tensor
        assert record
        again = tino.MODELS[name].kind.from_record(Frame.from_record(frame), record)
        assert type(again) is type(model)
        assert again.frame == model.frame
        assert again.record() == record
        shapes, same = ({k: v.shape for k, v in m.state_dict().items()} for m in (model, again))
        assert shapes == same
        assert again.properties == model.properties


# -- the base classes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [tino.Operator, Part, Mixer, Basis])
def test_what_is_abstract_cannot_be_made(kind: Any):
    with pytest.raises(TypeError, match="abstract class"):
        kind()


class Leak(tino.Operator):
    """u_i = a u_{i-1} + f_i, an operator of one's own: the least that the contract asks."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        self.a = torch.nn.Parameter(torch.zeros(()))

    @property
    def properties(self) -> Properties:
        return Properties(True, True, True)

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        return self.by_steps(f, ic)

    def rest(self, b: int, ic: Tensor | None) -> Tensor:
        return self.a.new_zeros(b, self.frame.output_size)

    def _step(self, memory: Tensor, f_i: Tensor, i: int | Tensor) -> tuple[Tensor, Tensor]:
        u = self.a * memory + f_i
        return u, u

    def record(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_record(cls, frame: Frame, record: Any) -> "Leak":
        return cls(frame)


@pytest.mark.parametrize("missing", ["forward", "from_record", "properties", "record"])
def test_an_operator_without_one_of_its_methods_cannot_be_made(missing):
    assert missing in tino.Operator.__abstractmethods__
    assert len(tino.Operator.__abstractmethods__) == 4
    body = {key: value for key, value in vars(Leak).items() if key != missing and not key.startswith("__")}
    lacking: Any = type("Lacking", (tino.Operator,), body)
    with pytest.raises(TypeError, match=f"abstract class Lacking .*{missing}"):
        lacking()


def test_the_least_operator_does_all_that_others_do(tmp_path, monkeypatch):
    """Registered, it is built, learns, is certified, streamed, saved and loaded."""
    f = torch.randn(8, TIME.n, 1, generator=torch.Generator().manual_seed(0))
    u = torch.zeros_like(f)
    for i in range(TIME.n):
        u[:, i] = f[:, i] + 0.7 * (u[:, i - 1] if i else 0.0)
    train = tino.Dataset(f, u, TIME, tino.Point(), tino.Point())
    entry = tino.Model(Leak, lambda name, data: Leak(Frame.of(name, data)), "a leaky sum")
    monkeypatch.setitem(tino.MODELS, "leak", entry)
    model = tino.build("leak", train)
    config = tino.TrainConfig(epochs=60, batch_size=8, lr=5e-2, optimizer="adam", device="cpu")
    tino.fit(model, train, config, show_progress=False)
    model.requires_grad_(False)
    assert float(model.state_dict()["a"]) == pytest.approx(0.7, abs=0.02)
    assert tino.certify(model, train, show_progress=False).time_invariant
    assert close(model(four_times(f))[:, : TIME.n], model(f), 1e-6)
    assert torch.equal(model.query(f, TIME.points[[3]]), model(f)[:, [3]])
    model.save(tmp_path)
    assert torch.equal(tino.predict(tino.load(tmp_path), f), tino.predict(model, f))
    monkeypatch.setattr(Leak, "rest", tino.Operator.rest)
    with pytest.raises(NotImplementedError, match="Leak has no rest: a causal operator needs one"):
        model.start(f[:, 0])


def test_a_stream_refuses_what_is_not_its_own():
    model = tino.build("tdnn", made("two signals"))
    state, _ = model.start(torch.ones(3, 2))
    with pytest.raises(tino.TinoError, match="f has 2 records, but the state has 3"):
        model.step(state, torch.ones(2, 2))
    with pytest.raises(tino.TinoError, match=r"f has shape \(3, 1, 1\), the model was built for \(records, 12, 2\)"):
        model.step(state, torch.ones(3, 1))
    same, nothing = model.run(state, torch.ones(3, 0, 2))
    assert same is state
    assert nothing.shape == (3, 0, 2)


def test_another_unit_is_told_of():
    """A unit that the data or the model do not state is no other unit."""
    data = made("two signals")
    for units, told in ((("", ""), ()), (("N", ""), ()), (("N", "kNm"), ("is in kNm, the model was trained with Nm",))):
        channels = [tuple(map(tino.Channel, ("force", "torque"), pair)) for pair in (("N", "Nm"), units)]
        model = tino.build("tdnn", replace(data, input_channels=channels[0]))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tino.evaluate(model, replace(data, input_channels=channels[1]))
        assert tuple(str(one.message).removeprefix("'torque' of the data ") for one in caught) == told


def test_channels_in_another_order_are_refused():
    data = made("two signals")
    swapped = replace(data, input_channels=PAIR[::-1])
    with pytest.raises(
        tino.TinoError, match="input channels are torque, force; the model was built for this order: force"
    ):
        tino.evaluate(tino.build("tdnn", data), swapped)
