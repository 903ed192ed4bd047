"""Waves beyond the samples: what aliases are, an equation that carries them, and how their start is found."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tino
from tino.errors import TinoError
from tino.models.finer import Unknowns, has_hidden_waves
from tino.models.flow import Flow
from tino.parts.equation import EquationLaw
from tino.parts.fourier import Fourier


def beyond(shape: list[int], highest: list[int]) -> Fourier:
    """All waves up to the highest along each axis; along the last, k and -k are one."""
    ranges = [range(-k, k + 1) for k in highest[:-1]] + [range(highest[-1] + 1)]
    kept = torch.tensor(list(itertools.product(*ranges)))
    waves = Fourier(shape, len(kept), [4 * k + 2 for k in highest], False, True)
    waves.kept.copy_(kept)
    return waves


def real_field(waves: Fourier, seed: int = 0) -> Tensor:
    """Random û of a real field: û_{-k} is the conjugate of û_k."""
    v = torch.randn(waves.sizes["waves"], dtype=torch.complex128, generator=torch.Generator().manual_seed(seed))
    kept = waves.kept.tolist()
    for n, k in enumerate(kept):
        if k[-1] == 0:
            v[kept.index([-one for one in k])] = v[n].conj() if any(k) else v[n].real + 0j
    return v


def points(shape: list[int]) -> list[tuple[float, ...]]:
    return [tuple(j / n for j, n in zip(at, shape, strict=True)) for at in itertools.product(*map(range, shape))]


@pytest.mark.parametrize(("shape", "highest"), [([8], [6]), ([7], [5]), ([4, 6], [3, 5]), ([2, 4, 4], [1, 2, 3])])
def test_samples_of_waves_are_their_sum_at_the_points(shape, highest):
    waves = beyond(shape, highest)
    v = real_field(waves)
    expected = []
    for x in points(shape):
        total = 0.0
        for k, one in zip(waves.kept.tolist(), v.tolist(), strict=True):
            wave = one * complex(
                math.cos(p := 2 * math.pi * sum(a * b for a, b in zip(k, x, strict=True))), math.sin(p)
            )
            total += wave.real * (2 if k[-1] > 0 else 1)
        expected.append(total)
    assert waves.sampled(v).tolist() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("shape", "highest"), [([8], [6]), ([7], [5]), ([4, 6], [3, 5])])
def test_a_state_shows_the_samples_and_nothing_beyond(shape, highest):
    waves = beyond(shape, highest)
    u = torch.randn(3, math.prod(shape), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(waves.output(waves.state(u)), u, atol=1e-12)
    outside = (2 * waves.kept.abs() > torch.tensor(shape)).any(1)
    assert outside.any()
    assert waves.spectrum(u)[:, outside].abs().max() == 0
    every = torch.fft.fftn(u.view(-1, *shape), dim=tuple(range(1, 1 + len(shape))), norm="forward")
    place = [(waves.kept % torch.tensor(shape))[:, a] for a in range(len(shape))]
    assert torch.allclose(waves.aliases(u), every[(slice(None), *place)], atol=1e-12)


def test_a_field_of_the_third_coordinate_is_not_moved():
    """W(x_1, x_2) + g(x_3): W moves as in the plane, g only diffuses; and powers count all of it."""
    plane, box = beyond([6, 6], [3, 3]), beyond([6, 6, 6], [3, 3, 3])
    chosen = (box.kept[:, 2] == 0) | (box.kept[:, :2] == 0).all(1)
    box = box.part(chosen, 1.5)
    terms = {"f": 0.3, "Δu": 0.2, "v·∇u": -0.4}
    laws = [EquationLaw(waves, 1.0, 0.1, 4, 2) for waves in (plane, box)]
    for law in laws:
        law.shares.data.copy_(law.waves.own())
        law.numbers.data.copy_(torch.tensor([terms.get(name, 0.0) for name in law.names], dtype=torch.float64))
    w, f = (plane.sampled(real_field(plane, seed)).view(6, 6) for seed in (1, 2))
    line = torch.cos(2 * torch.pi * torch.arange(6, dtype=torch.float64) / 6)
    fields = [[w.flatten(), (w[..., None] + line).flatten()], [f.flatten(), f[..., None].expand(6, 6, 6).flatten()]]
    after = []
    for law, u, g in zip(laws, *fields, strict=True):
        c = law(law.state(u)[None, None], law.inputs(g).expand(1, 3, -1), 3)
        after.append(law.output(c)[0])
    k = 2 * math.pi / (2 * math.pi * 3)  # over the highest
    expected = after[0].view(6, 6, 1) + line * math.exp(-0.2 * k**2)
    assert (after[0].view(6, 6) - w).abs().max() > 0.05
    assert torch.allclose(after[1].view(6, 6, 6), expected, atol=1e-12)


# -- the fit -----------------------------------------------------------------------------------------------------


def coarse(count: int, points: int = 16, times: int = 12) -> tino.Dataset:
    """Burgers' equation on so few points that modes 8 to 10 of the start and of the forcings fold onto others."""
    problem = tino.problem("burgers-0.1", n_t=800, resolution=points)
    with pytest.warns(tino.TinoWarning, match="cannot resolve") if points < 20 else pytest.MonkeyPatch.context():
        train, _ = tino.dataset(problem, train=count, test=1, show_progress=False)
    time = tino.TimeGrid(0.0, train.time.step * (times - 1), times)
    return replace(train, f=train.f[:, :times], u=train.u[:, :times], time=time)


def found(train: tino.Dataset, finer: float) -> Flow:
    model = tino.build("equation", train, finer=finer, steps=2, degree=2)
    assert isinstance(model, Flow)
    tino.fit(model, train, show_progress=False)
    return model


def test_hidden_waves_are_carried_from_a_start_that_is_fitted(own_cache, tmp_path):
    every = coarse(18)
    train, test = every.take(torch.arange(12)), every.take(torch.arange(12, 18))
    plain, model = found(train, 1.0), found(train, 1.25)
    errors = [float((tino.predict(one, test.f) - test.u).square().mean()) for one in (plain, model)]
    assert errors[1] < 1e-3 * errors[0]
    law = model.law
    assert isinstance(law, EquationLaw)
    assert {n: a for n, a in law.coefficients().items() if a} == pytest.approx(
        {"f": 1.0, "Δu": 0.1, "(u²)_x": -0.5}, rel=2e-3
    )
    assert model.readout()[1] == "2 of its 11 waves lie beyond the samples; they start as fitted"
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert torch.equal(tino.predict(again, test.f), tino.predict(model, test.f))
    state, u = again.start(test.f[:, 0].double())
    later = [u]
    for i in range(1, test.time.n):
        state, u = again.step(state, test.f[:, i].double())
        later.append(u)
    assert torch.allclose(torch.stack(later, 1), again(test.f.double()), atol=1e-12)


def test_the_hidden_start_of_a_known_equation_is_found():
    """Records of an equation with waves 4 to 6 on 8 points; their values at T_0 are the fit's to find."""
    law = EquationLaw(beyond([8], [6]), 1.0, 0.02, 1, 2)
    law.shares.data.copy_(law.waves.own())
    terms = {"f": 0.02, "Δu": 0.05, "(u²)_x": -0.15}
    law.numbers.data.copy_(torch.tensor([terms.get(name, 0.0) for name in law.names], dtype=torch.float64))
    hidden = torch.tensor([0, 0, 0, 0, 0.05j, 0.04 - 0.03j, 0.02 + 0.02j], dtype=torch.complex128)
    law.start.data.copy_(torch.view_as_real(hidden))
    x, t = torch.arange(8) / 8, torch.arange(16) * 0.02
    phases = 6 * torch.rand(20, 1, 1, generator=torch.Generator().manual_seed(3))
    f = (torch.sin(5 * t[:, None] + phases) * torch.cos(2 * torch.pi * x + 3 * phases)).double()
    u_0 = torch.sin(2 * torch.pi * x).double() + 0.4 * torch.cos(6 * torch.pi * x) + 0.3 * torch.cos(4 * torch.pi * x)
    u_0 = (u_0 + law.waves.sampled(hidden) + 0.1 * torch.cos(8 * torch.pi * x)).expand(20, -1)
    c, g, fields = law.state(u_0), law.inputs(f), [u_0]
    g = torch.cat([torch.zeros_like(g[:, :2]), g], 1)
    with torch.no_grad():
        for i in range(1, 16):
            c = law(c[:, None], g[:, i : i + 3], i)
            fields.append(law.output(c))
    grid, time = tino.Periodic(1.0, (8,)), tino.TimeGrid(0.0, 0.3, 16)
    data = tino.Dataset(f, torch.stack(fields, 1), time, grid, grid)
    model = tino.build("equation", data, finer=1.5, steps=1, degree=2)
    model.solve(data)
    made = model.law
    assert isinstance(made, EquationLaw)
    start = torch.view_as_complex(made.start.data) * made.scale[0]
    assert made.waves.kept[:, 0].tolist() == list(range(7))
    assert torch.allclose(start[5:], hidden[5:], atol=1e-5)
    assert abs(start[4].imag - 0.05) < 1e-5
    assert made.coefficients() == pytest.approx(law.coefficients(), abs=1e-5)


def test_shares_of_waves_that_look_alike_add_up():
    """On 8 points 5 looks like -3 and 6 like -2, so that what one gains the other loses."""
    waves = beyond([8], [6])
    law = EquationLaw(waves, 1.0, 0.1, 1, 2)
    law.shares.data.copy_(waves.own())
    fields = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    unknowns = Unknowns.of(law, torch.ones(len(law.names), dtype=torch.bool), fields[0], fields)
    assert (len(unknowns.start), len(unknowns.shares)) == (5, 2)  # 4: its sine alone; 5 and 6: both
    expected = torch.zeros(2, 7, dtype=torch.float64)
    expected[0, [3, 5]], expected[1, [2, 6]] = torch.tensor([-1.0, 1.0]).double(), torch.tensor([-1.0, 1.0]).double()
    assert torch.equal(unknowns.shares, expected)
    unknowns.put(torch.cat([law.numbers.data, torch.randn(7, dtype=torch.float64)]))
    u = law.output(law.state(fields))
    assert torch.allclose(u, fields, atol=1e-12)  # whatever is hidden, the samples stay
    g = law.waves.sampled(law.waves.waves(law.inputs(fields)[..., :-1]))
    assert torch.allclose(g, fields, atol=1e-12)


def test_nothing_is_hidden_in_resolved_fields_nor_behind_starts_that_differ(own_cache):
    for data, hidden in ((coarse(4), True), (coarse(4, points=32), False)):
        waves = Fourier.of(data.outputs, data.u.flatten(0, 1).double(), 1e-7, 1.5)
        assert has_hidden_waves(data, waves) == hidden
        moved = replace(data, u=data.u * torch.linspace(1, 2, 4)[:, None, None])
        assert not has_hidden_waves(moved, waves)
        assert not has_hidden_waves(replace(data, ic=data.u[:, 0]), waves)
        assert not has_hidden_waves(replace(data, burn_in=2), waves)


def test_waves_beyond_need_a_box_and_points_for_them():
    with pytest.raises(TinoError, match="waves beyond the samples need a periodic box, not an interval"):
        Fourier([8], 2, [16], True, True)
    waves = beyond([8], [6])
    state = {"kept": torch.full_like(waves.kept, 20)}
    with pytest.raises(RuntimeError, match="not on the grid"):
        waves.load_state_dict(state)
