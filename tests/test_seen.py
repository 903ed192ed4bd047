"""What was seen in training: ranges of inputs, offsets of outputs, sizes that float32 can hold."""

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import tino
from tino.frame import Frame, numbers
from tino.metrics import Comparison
from tino.preview import take_preview
from tino.seen import Seen

TIME = tino.TimeGrid(0.0, 1.0, 16)
LINE = tino.Interval(0.0, 1.0, 5)
QUICK = tino.TrainConfig(epochs=3, batch_size=8, lr=5e-3, device="cpu")
THREE, TWO = (tuple(tino.Channel(f"{letter}{i}") for i in range(n)) for letter, n in (("f", 3), ("u", 2)))
GRIDS = {"signals": tino.Point(), "fields": LINE}


def made(grid: Any, samples: int = 24) -> tino.Dataset:
    """Three inputs drive two outputs, each a leaky sum; multiples of 2^-12, so that offsets lose no digits."""
    generator = torch.Generator().manual_seed(0)
    m, x = 3 * grid.size, 2 * grid.size
    f = torch.randn(samples, TIME.n, m, generator=generator)
    drive = f @ torch.randn(m, x, generator=generator) / m**0.5
    steps, u = [], torch.zeros(samples, x)
    for now in drive.unbind(1):
        u = 0.8 * u + now
        steps.append(u)
    u = (torch.stack(steps, 1) * 4096).round() / 4096
    return tino.Dataset(f, u, TIME, grid, grid, input_channels=THREE, output_channels=TWO)


def windows(samples: int = 24) -> tino.Dataset:
    """The same signals from different states, given as ic."""
    whole = made(tino.Point(), samples)
    time = tino.TimeGrid(0.0, 0.5, 12)
    return replace(whole, f=whole.f[:, 4:], u=whole.u[:, 4:], ic=whole.u[:, 3], time=time)


def moved(data: tino.Dataset, *offset: float) -> tino.Dataset:
    """Outputs, and the states of them, plus a constant for each channel."""
    by = torch.tensor(offset).repeat_interleave(data.outputs.size)
    return replace(data, u=data.u + by, ic=None if data.ic is None else data.ic + by)


def takes(name: str, data: tino.Dataset) -> tino.Operator | None:
    try:
        return tino.build(name, data)
    except tino.TinoError:
        return None


def close(one: Tensor, other: Tensor, tolerance: float) -> bool:
    return float((one - other).abs().max()) <= tolerance


# -- offsets of the outputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [293.0, 1e5])
@pytest.mark.parametrize("name", ["tino", "fno"])
def test_an_offset_does_not_drown_the_response(name, offset):
    """The error relative to the variation is what it is without the offset: one channel, a short training."""
    data = made(tino.Point())
    data = replace(data, u=data.u[..., :1], output_channels=TWO[:1])
    config = replace(QUICK, epochs=20)
    errors = []
    for by in (0.0, offset):
        some = replace(data, u=data.u + by)
        model = tino.build(name, some)
        tino.fit(model, some, config, show_progress=False)
        errors.append(tino.evaluate(model, some).nrmse)
    assert errors[0] < 1
    assert errors[1] < 1.3 * errors[0]


@pytest.mark.parametrize("kind", ["signals", "fields", "windows"])
@pytest.mark.parametrize("name", tino.MODELS)
def test_a_model_with_an_offset_is_the_model_of_the_difference(name, kind, tmp_path):
    """At every border: whole records, steps, queries, the certificate, the disk, learning."""
    data = windows(12) if kind == "windows" else made(GRIDS[kind], 12)
    about = moved(data, 4096.0, 1024.0)
    if takes(name, data) is None:
        pytest.skip(f"{name} does not take {kind}")
    model = tino.build(name, about)
    seen = model.frame.seen
    less = [data.u.unflatten(-1, (2, -1))[:, :, i].mean() + by for i, by in enumerate((4096.0, 1024.0))]
    assert torch.allclose(torch.tensor(seen.output_offset), torch.stack(less), rtol=1e-6)
    assert (len(seen.state_offset) == 2) == (kind == "windows")
    difference = moved(about, *(-by for by in seen.output_offset))
    if difference.ic is not None and about.ic is not None:
        difference = replace(difference, ic=about.ic - torch.tensor(seen.state_offset))
    plain = tino.build(name, difference)
    assert not plain.frame.seen.output_offset
    for one, some in ((model, about), (plain, difference)):
        tino.fit(one, some, QUICK, show_progress=False)
        one.requires_grad_(False)
    by = torch.tensor(seen.output_offset).repeat_interleave(data.outputs.size)
    u, v = tino.predict(model, about.f, about.ic), tino.predict(plain, difference.f, difference.ic)
    assert close(u, v + by, 1e-3)
    assert close(model.query(about.f, ic=about.ic), u, 1e-3)
    at = None if kind != "fields" else torch.tensor([[0.25]], dtype=torch.float64)
    some = model.query(about.f, about.time.points[[2]], at, about.ic)
    assert some.shape[-1] == 2
    assert close(some, (u if at is None else u[..., [1, 6]])[:, [2]], 1e-3)
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert again.frame == model.frame
    assert torch.equal(tino.predict(again, about.f, about.ic), u)
    if model.properties.causal:
        at = numbers(model)  # closed forms are in float64
        state, first = model.start(about.f[:, 0].to(at), None if about.ic is None else about.ic.to(at))
        _, rest = model.run(state, about.f[:, 1:].to(at))
        assert close(torch.cat([first[:, None], rest], 1), u, 2e-3)
    one, other = (tino.certify(m, d, show_progress=False) for m, d in ((model, about), (plain, difference)))
    same = ("causal", "autonomous", "at_rest", "time_invariant")
    assert [getattr(one, word) for word in same] == [getattr(other, word) for word in same]


class Leaky(tino.Operator):
    """x_i = a x_{i-1} + f_i, u = x: an operator of one's own, fitted in closed form. It knows nothing of offsets."""

    learning = ()

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        self.a = torch.nn.Parameter(torch.zeros((), dtype=torch.float64), requires_grad=False)

    @property
    def properties(self) -> tino.Properties:
        return tino.Properties(True, True, True)

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        return self.by_steps(f, ic)

    def rest(self, b: int, ic: Tensor | None) -> Tensor:
        return self.a.new_zeros(b, 1)

    def _step(self, memory: Tensor, f_i: Tensor, i: int | Tensor) -> tuple[Tensor, Tensor]:
        u = self.a * memory + f_i
        return u, u

    def solve(self, train: tino.Dataset, show_progress: bool = False) -> None:
        before, now = train.u[:, :-1], train.u[:, 1:] - train.f[:, 1:]
        self.a.copy_((before * now).sum() / before.square().sum())

    def record(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_record(cls, frame: Frame, record: Any) -> "Leaky":
        return cls(frame)


def test_an_operator_of_one_s_own_learns_the_difference(monkeypatch):
    f = torch.randn(200, 30, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    f = torch.cat([f, -f])  # the mean of u is the offset itself
    u = torch.zeros_like(f)
    for i in range(30):
        u[:, i] = f[:, i] + 0.7 * (u[:, i - 1] if i else 0.0)
    data = tino.Dataset(f, u + 293, tino.TimeGrid(0, 1, 30), tino.Point(), tino.Point())
    entry = tino.Model(Leaky, lambda name, train: Leaky(Frame.of(name, train)), "a leaky sum")
    monkeypatch.setitem(tino.MODELS, "leaky", entry)
    model = tino.build("leaky", data)
    tino.fit(model, data, show_progress=False)
    assert float(model.state_dict()["a"]) == pytest.approx(0.7, abs=1e-9)
    assert close(tino.predict(model, f), u + 293, 1e-9)
    state, first = model.start(f[:, 0])
    assert close(first, u[:, 0] + 293, 1e-9)
    assert close(model.step(state, f[:, 1])[1], u[:, 1] + 293, 1e-9)
    assert tino.certify(model, data, show_progress=False).time_invariant


@pytest.mark.filterwarnings("ignore::tino.TinoWarning")  # coarse grids
def test_no_problem_of_the_paper_has_an_offset(tiny_data):
    """Those whose means are the largest beside their standard deviations: 3.7, 2.3, 2.0."""
    for name in ("lorenz", "convection-diffusion", "allen-cahn"):
        train, _ = tiny_data(name)
        seen = tino.build("don", train).frame.seen
        assert (seen.output_offset, seen.state_offset) == ((), ()), name


def test_only_a_mean_of_ten_standard_deviations_is_an_offset():
    data = made(tino.Point())
    data = replace(data, u=data.u - data.u.mean((0, 1)))
    sd = data.u.std((0, 1), correction=0).tolist()
    by = [9.9 * sd[0], -10.1 * sd[1]]
    seen = tino.build("tino", moved(data, *by)).frame.seen
    assert seen.output_offset == (0.0, pytest.approx(by[1], rel=1e-5))
    ended = replace(moved(data, *by), lengths=torch.tensor([16, 9] * 12))  # what is beyond a record's end is not u
    assert tino.build("tino", ended).frame.seen.output_offset[1] == pytest.approx(by[1], rel=0.05)


@pytest.mark.parametrize("lengths", [None, torch.tensor([16, 9] * 12)])
def test_data_whose_outputs_never_change_are_refused(lengths):
    data = replace(made(tino.Point()), lengths=lengths)
    data = replace(data, u=torch.tensor([5.0, -0.5]).expand_as(data.u), meta={"problem": "const"})
    line = r"^the output of const never changes \(u0 is 5, u1 is -0.5\): there is nothing to learn$"
    with pytest.raises(tino.TinoError, match=line):
        tino.build("tino", data)


def test_an_output_that_never_changes_beside_another_is_learnt_at_once():
    data = made(tino.Point())
    data = replace(data, u=torch.stack([data.u[..., 0], torch.full_like(data.u[..., 0], 7.0)], -1))
    model = tino.build("tino", data)
    tino.fit(model, data, replace(QUICK, epochs=20), show_progress=False)
    assert close(tino.predict(model, data.f)[..., 1], torch.tensor(7.0), 0.5)


# -- units of channels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["signals", "fields", "windows"])
@pytest.mark.parametrize("name", tino.MODELS)
def test_in_other_units_a_model_learns_the_same(name, kind):
    """Channels scaled by powers of two, which rounding does not touch: the same predictions, to the bit."""
    data = windows(12) if kind == "windows" else made(GRIDS[kind], 12)
    model = takes(name, data)
    if model is None:
        pytest.skip(f"{name} does not take {kind}")
    f_unit = torch.tensor([1.0, 2.0**10, 2.0**-10]).repeat_interleave(data.inputs.size)
    u_unit = torch.tensor([1.0, 2.0**-13]).repeat_interleave(data.outputs.size)
    ic = None if data.ic is None else data.ic * u_unit
    other_data = replace(data, f=data.f * f_unit, u=data.u * u_unit, ic=ic)
    other = tino.build(name, other_data)
    for one, some in ((model, data), (other, other_data)):
        tino.fit(one, some, QUICK, show_progress=False)
    one, same = tino.predict(model, data.f, data.ic), tino.predict(other, other_data.f, ic) / u_unit
    assert torch.equal(one, same)
    scores, others = tino.evaluate(model, data), tino.evaluate(other, other_data)
    for key in ("rel_l2_mean", "nrmse", "fit"):
        assert getattr(scores, key) == pytest.approx(getattr(others, key), rel=1e-6)


@pytest.mark.parametrize("unit", [2.0**-14, 2.0**20])
@pytest.mark.parametrize("name", ["tino", "pod-don", "fno"])
def test_the_unit_of_a_single_output_does_not_matter_either(name, unit):
    data = made(tino.Point())
    data = replace(data, u=data.u[..., :1], output_channels=(tino.Channel("u"),))
    other_data = replace(data, u=data.u * unit)
    models = [tino.build(name, some) for some in (data, other_data)]
    for one, some in zip(models, (data, other_data), strict=True):
        tino.fit(one, some, QUICK, show_progress=False)
    assert torch.equal(tino.predict(models[0], data.f), tino.predict(models[1], data.f) / unit)


@pytest.mark.parametrize("name", ["tino", "trtino", "tc-don"])
def test_numbers_of_an_initial_state_have_their_own_units(name):
    """A position and a velocity, beside outputs of another number."""
    data = windows()
    assert data.ic is not None
    data = replace(data, ic=torch.cat([data.ic, data.ic[:, :1].square()], 1))
    unit = torch.tensor([1.0, 2.0**12, 2.0**-12])
    assert data.ic is not None
    other_data = replace(data, ic=data.ic * unit)
    models = [tino.build(name, some) for some in (data, other_data)]
    answers = [tino.predict(one, data.f, some.ic) for one, some in zip(models, (data, other_data), strict=True)]
    assert torch.equal(*answers)


def test_quantities_given_as_points_are_noticed():
    data = made(tino.Point())
    grid = tino.Interval(0.0, 1.0, 3)
    as_points = replace(data, inputs=grid, input_channels=(tino.Channel("f"),))
    tino.build("tino", as_points)  # of one size: no word
    loud = replace(as_points, f=data.f * torch.tensor([1.0, 1e3, 1e-3]))
    with pytest.warns(tino.TinoWarning, match="points of the input f differ 100-fold in size or more: give different"):
        tino.build("tino", loud)


# -- inputs far outside -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [2.0, 100.0])
@pytest.mark.parametrize("problem", ["duffing", "burgers-0.1", "fitting-space"])
def test_inputs_far_outside_are_told_once(problem, factor, small_data, tmp_path):
    train, test = small_data(problem)
    model = tino.build("tino", train)
    tino.predict(model, test.f)  # of the same law: no word
    low, high = float(train.f.min()), float(train.f.max())
    given = factor * train.f
    end = max(low, high, key=abs)
    with pytest.warns(tino.TinoWarning) as caught:
        tino.predict(model, given)
    told = f"f reaches {factor * end:.3g}, {end:.3g} in training: expect larger errors there"
    assert [str(one.message) for one in caught] == [told]
    tino.predict(model, given)  # only once
    model.save(tmp_path)
    for ask in (
        lambda again: tino.predict(again, given),
        lambda again: again.query(given),
        lambda again: tino.evaluate(again, replace(train, f=given)),
    ):
        again = tino.load(tmp_path)
        with pytest.warns(tino.TinoWarning, match="expect larger errors"):
            ask(again)
        ask(again)


def test_training_steps_and_certificates_say_nothing():
    data = made(tino.Point())
    model = tino.build("tino", data)
    tino.fit(model, replace(data, f=100 * data.f), QUICK, show_progress=False)
    model(100 * data.f)
    state, _ = model.start(100 * data.f[:, 0])
    model.step(state, 100 * data.f[:, 1])
    tino.certify(model, data, show_progress=False)


def test_each_channel_and_state_has_its_own_range():
    data = windows()
    model = tino.build("tino", data)
    assert data.ic is not None
    assert len(model.frame.seen.inputs) == 3
    assert model.frame.seen.inputs[1] == (float(data.f[..., 1].min()), float(data.f[..., 1].max()))
    with pytest.warns(tino.TinoWarning) as caught:
        tino.predict(model, data.f * torch.tensor([1.0, 4.0, 1.0]), data.ic * torch.tensor([1.0, 8.0]))
    text = str(caught[0].message)
    assert text.startswith("f1 reaches ")
    assert "; ic of u1 reaches " in text
    assert text.endswith(" in training: expect larger errors there")
    assert "f0" not in text
    assert "f2" not in text
    assert "ic of u0" not in text


def test_few_records_of_one_law_seldom_lie_far_outside_one_another():
    """Five sines with Gaussian amplitudes and random phases: 40 records, of which a sixth are for the test, and twice
    as large ones, which do."""
    t, k = torch.linspace(0, 10, 50), torch.arange(1.0, 6.0)
    far, twice = 0, 0
    for seed in range(400):
        generator = torch.Generator().manual_seed(seed)
        size, phase = torch.randn(40, 5, 1, generator=generator), 6.28 * torch.rand(40, 5, 1, generator=generator)
        f = (size / k[:, None] * torch.sin(k[:, None] * t + phase)).sum(1)[..., None]
        data = tino.Dataset(f, f, tino.TimeGrid(0, 10, 50), tino.Point(), tino.Point())
        seen = Seen.of(data.take(slice(6, 40)))
        far += seen.outside(data, f[:6], None) is not None
        twice += seen.outside(data, 2 * f, None) is not None
    assert far == 0
    assert twice == 400


@pytest.mark.parametrize(
    ("value", "far"), [(296.0, False), (290.0, False), (301.0, False), (310.0, True), (250.0, True)]
)
def test_a_narrow_range_far_from_zero_counts_by_its_width(value, far):
    f = 293 + 3 * torch.rand(20, TIME.n, 1, generator=torch.Generator().manual_seed(0)).sub(0.5).mul(2).clamp(-1, 1)
    f[0, 0], f[0, 1] = 290.0, 296.0
    model = tino.build("tino", tino.Dataset(f, f - 293, TIME, tino.Point(), tino.Point()))
    given = f.clone()
    given[3, 4] = value
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tino.predict(model, given)
    assert bool(caught) == far


def test_padding_is_no_input():
    """Records of 293 K that end early hold zeros after their end."""
    f = 293 + torch.rand(20, TIME.n, 1, generator=torch.Generator().manual_seed(0))
    data = tino.Dataset(f, f - 293, TIME, tino.Point(), tino.Point())
    model = tino.build("tino", data)
    tino.evaluate(model, replace(data, lengths=torch.tensor([16, 9] * 10)))
    with pytest.warns(tino.TinoWarning, match="expect larger errors"):
        tino.evaluate(model, replace(data, f=f - 10, lengths=torch.tensor([16, 9] * 10)))


def test_padding_was_not_seen_in_training_either():
    f = 293 + torch.rand(20, TIME.n, 1, generator=torch.Generator().manual_seed(0))
    data = tino.Dataset(f, f - 293, TIME, tino.Point(), tino.Point(), lengths=torch.tensor([16, 9] * 10))
    model = tino.build("tino", data)
    assert model.frame.seen.inputs[0][0] >= 293
    for sample in range(4):
        take_preview(model, data.take(slice(sample, sample + 1)))  # no warning: the padding is no input
    with pytest.warns(tino.TinoWarning, match="expect larger errors"):
        tino.predict(model, f - 200)


def test_a_channel_that_varies_by_rounding_alone_does_not_decide():
    """One value of 1e5 is off by one unit in the last place; the other channel is a signal."""
    truth = torch.stack([torch.full((4, 8), 1e5), torch.rand(4, 8)], -1)
    truth[0, 0, 0] = torch.nextafter(truth[0, 0, 0], torch.tensor(2e5))
    compared = Comparison(truth + torch.tensor([1e-2, 1e-3]), truth, count=2)
    assert compared.nrmse == compared.channels[1].nrmse


# -- sizes beyond float32 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-30, 1e100])
@pytest.mark.parametrize(("side", "channel"), [("f", "the input f1"), ("u", "the output u1"), ("ic", "ic of u1")])
def test_units_that_float32_cannot_square_are_named(side, channel, size):
    """Before any training, and not as a loss that is nan."""
    data = windows()
    values = getattr(data, side).double()
    values[..., 1] *= size / float(values[..., 1].abs().max())
    wrong = replace(data, **{side: values})
    line = f"{channel} is of size {size:.0e}, float32 takes 1e-15 to 1e15: change its unit"
    for act in (
        lambda: tino.build("tino", wrong),
        lambda: tino.fit(tino.build("tino", data), wrong, QUICK, show_progress=False),
        lambda: tino.fit(torch.nn.Linear(3, 2), wrong, QUICK, show_progress=False),
        lambda: tino.diagnose(wrong, show_progress=False),
    ):
        with pytest.raises(tino.TinoError) as caught:
            act()
        assert str(caught.value) == line
