"""Every member of the family against the paper's formula, written out in loops; and what it refuses."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from conftest import BUILDERS, FAMILY, GLOBAL, PAIRS, SPATIAL_POD, separable

import tino
from tino.models.family import Family
from tino.models.separable import Separable
from tino.parts.bases import Constant, PodModes, Trunk
from tino.parts.mixers import DelayMixer, GlobalMixer, LateMixer, MaskedMixer
from tino.parts.networks import OwnBranches


def mixed(model: Separable, z: torch.Tensor, i: int) -> torch.Tensor:
    """h_i by the mixer's sum, one term at a time."""
    mixer: Any = model.mixer
    n_t = z.shape[1]
    h = torch.zeros(len(z), mixer.weight.shape[-1], dtype=z.dtype)
    if not isinstance(mixer, LateMixer):
        h = h + mixer.bias
    for k in range(n_t):
        if isinstance(mixer, LateMixer):
            h = h + z[:, k] @ mixer.weight[k - i - 1] if 1 <= k <= i else h
        elif isinstance(mixer, DelayMixer):
            lag = i - k
            if lag >= mixer.first_lag:
                h = h + z[:, k] @ mixer.weight[-1 - (lag - mixer.first_lag)]
        elif isinstance(mixer, GlobalMixer) or k <= i:
            h = h + z[:, k] @ mixer.weight[k]
    return h


TIMES = [0, 1, 2, 5, 12, -2, -1]  # at which formulas are evaluated


def by_the_formula(model: Separable, f: torch.Tensor, ic: torch.Tensor | None = None) -> torch.Tensor:
    """u(t_i, y) = φ_0(y) + Σ_j [Σ_p B_p(h_i; IC) τ_pj(t_i)] φ_j(t_i, y), sums and times in loops: (b, TIMES, x)."""
    basis, modes = model.basis, model.basis.sizes["modes"]
    u = torch.zeros(len(f), model.frame.time.n, model.frame.outputs.size, dtype=f.dtype)
    z = f @ model.sensors.matrix if model.sensors.projects else f * model.sensors.matrix
    for i in torch.arange(model.frame.time.n)[TIMES].tolist():
        h = mixed(model, z, i)
        if ic is not None:
            assert model.initial is not None
            h = h + (ic * model.initial.scale) @ model.initial.linear.weight.T
        branch = model.branch(h[:, None])[:, 0]  # (b, p)
        if model.time_factor is not None:
            tau = model.time_factor.net(model.time_factor.features[i]).view(-1, modes)
        else:
            tau = torch.eye(modes, dtype=f.dtype)
        for j in range(modes):
            c = sum(branch[:, p] * tau[p, j] for p in range(len(tau)))
            if isinstance(basis, Constant):
                phi, mean, scale = torch.ones(1, dtype=f.dtype), 0.0, basis.scale
            elif isinstance(basis, PodModes):
                phi = basis.modes[j, i] if basis.of_time else basis.modes[j]
                mean, scale = basis.mean[i] if basis.of_time else basis.mean, basis.scale[j]
            else:
                assert isinstance(basis, Trunk)
                features = basis.features[i] if basis.of_time else basis.features
                phi, mean, scale = basis.net(features)[:, j], 0.0, basis.scale
            u[:, i] += (c * scale)[:, None] * phi + (mean if j == 0 else 0.0)
    return u[:, TIMES]


@pytest.mark.parametrize(("problem", "name"), PAIRS)
def test_the_model_is_its_formula(problem, name, small_data):
    train, test = small_data(problem)
    model = separable(name, train).double().eval()
    f, ic = test.f[:2].double(), None if test.ic is None else test.ic[:2].double()
    with torch.no_grad():
        expected = by_the_formula(model, f, ic)
        assert torch.allclose(model(f, ic)[:, TIMES], expected, rtol=1e-12, atol=1e-12)
        assert torch.allclose(model(f, ic, torch.arange(f.shape[1])[TIMES]), expected, rtol=1e-12, atol=1e-12)


def test_causality_don_as_printed(small_data):
    """Σ_j Σ_k c_k^j σ_b(Σ_{i=1}^{n} ξ_{k,m-n+i}^j f(s_i)) σ_t(ω_j t + ζ_j), n = ⌈(t - T_0) / h⌉ (eq_causality_don)."""
    train, test = small_data("duffing")
    model = separable("causality-don", train).double().eval()
    assert isinstance(model.branch, OwnBranches)
    c = model.branch.weight  # (J, K)
    modes, kernels = c.shape
    grid, m = train.time, train.time.n - 1
    xi = model.mixer.weight[:, 0].unflatten(-1, (modes, kernels)) * model.sensors.matrix  # ξ_1 ... ξ_m
    assert isinstance(model.basis, Trunk)
    linear: Any = model.basis.net[0]
    omega, zeta = linear.weight, linear.bias
    f = test.f[:2, :, 0].double()
    u = torch.zeros_like(f)
    for place, t in enumerate(grid.points):
        n = math.ceil(round(float((t - grid.start) / grid.step), 9))
        for j in range(modes):
            trunk = torch.nn.functional.gelu(omega[j] @ model.basis.features[place, 0] + zeta[j])
            for k in range(kernels):
                inner = sum((xi[m - n + i - 1, j, k] * f[:, i] for i in range(1, n + 1)), torch.zeros(2).double())
                u[:, place] += c[j, k] * torch.nn.functional.gelu(inner) * trunk * model.basis.scale
    with torch.no_grad():
        assert torch.allclose(model(test.f[:2].double())[..., 0], u, rtol=1e-12, atol=1e-12)
        kicked = test.f[:2].double().clone()
        kicked[:, 0] += 7.0
        assert torch.equal(model(kicked), model(test.f[:2].double()))  # f(s_0) never enters


@pytest.mark.parametrize(("problem", "name"), [p for p in PAIRS if p[1] not in GLOBAL])
def test_truncation_of_causal_operators(problem, name, small_data):
    """The proposition of the paper: on [T_0, T'] a causal model gives the first part of its answer on [T_0, T]."""
    train, test = small_data(problem)
    model = separable(name, train).double().eval()
    f, ic = test.f[:2].double(), None if test.ic is None else test.ic[:2].double()
    with torch.no_grad():
        whole = model(f, ic)
        for n in (1, 7, train.time.n - 1):
            assert torch.allclose(model(f[:, :n], ic), whole[:, :n], rtol=1e-12, atol=1e-12)
    assert torch.allclose(tino.predict(model, f[:, :7], ic), whole[:, :7], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["don", "pod-don", "spod-don", "fno"])
def test_others_need_the_whole_record(name, small_data):
    train, test = small_data("burgers-0.1")
    with pytest.raises(tino.TinoError, match=f"f has 7 times, the model was built for {train.time.n}$"):
        tino.build(name, train)(test.f[:, :7])


@pytest.mark.parametrize("name", ["tino", "trtino", "spod-trtino"])
def test_options_keep_the_formula(name, small_data):
    train, test = small_data("burgers-0.1")
    state = torch.randn(len(train), 3, generator=torch.Generator().manual_seed(0))
    with_state = tino.Dataset(train.f, train.u, train.time, train.inputs, train.outputs, state)
    snapshots = "all" if name in SPATIAL_POD else "quartile"
    model = separable(name, with_state, first_lag=1, project_sensors=False, snapshots=snapshots).double().eval()
    f, ic = test.f[:2].double(), state[:2].double()
    with torch.no_grad():
        assert torch.allclose(model(f, ic)[:, TIMES], by_the_formula(model, f, ic), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("problem", ["burgers-0.1", "fitting-space", "navier-stokes-ic"])
@pytest.mark.parametrize("name", ["don", "tc-don", "tino"])
def test_what_enters_and_leaves_the_first_layer_has_one_size(problem, name, small_data):
    train, _ = small_data(problem)
    model = separable(name, train)
    with torch.no_grad():
        ways = [(model.sensors(train.f), model.mixer(model.sensors(train.f))[:, -1])]
        if model.initial is not None:
            assert train.ic is not None
            ways += [(train.ic * model.initial.scale, model.initial(train.ic))]
    for values, h in ways:
        assert float(values.flatten(1).abs().sum(1).mean()) == pytest.approx(BUILDERS[name].input_sum, rel=1e-3)
        assert float(h.square().mean().sqrt()) == pytest.approx(BUILDERS[name].first_size, rel=0.2)


def test_projected_sensors_lose_nothing_on_the_training_span(small_data):
    train, _ = small_data("burgers-0.1")
    assert not separable("tino", train).sensors.projects  # 20 modes on 24 points: nothing gained
    problem = tino.problem("fitting-space", n_t=8, resolution=64)
    gaussian, _ = tino.dataset(problem, train=40, test=1, show_progress=False)
    projected = separable("tino", gaussian).sensors.matrix.double()
    assert projected.shape[1] < gaussian.inputs.size  # Gaussians: numerically of low rank
    back = torch.linalg.pinv(projected)
    error = (gaussian.f.double() @ projected @ back - gaussian.f.double()).abs().max()
    assert error < 1e-5 * gaussian.f.abs().max()


def test_what_the_projection_loses_is_reported(small_data):
    problem = tino.problem("fitting-space", n_t=8, resolution=64)
    gaussian, _ = tino.dataset(problem, train=40, test=1, show_progress=False)
    model = separable("tino", gaussian)
    modes = torch.linalg.svd(gaussian.f.double().flatten(0, 1), full_matrices=False)[2][: model.sensors.sizes["used"]]
    f = gaussian.f.double().flatten(0, 1)
    lost = float((f - f @ modes.T @ modes).norm() / f.norm())
    record = model.normalisation()["sensors"]
    assert record["points"] == 64
    assert record["used"] == model.sensors.sizes["used"]
    assert record["lost"] == pytest.approx(lost, rel=0.05)


def test_pod_modes_are_taken_at_the_first_quartile(small_data):
    train, _ = small_data("burgers-0.1")
    quartile = round((train.time.n - 1) / 4)
    basis = separable("pod-tino", train).basis
    assert isinstance(basis, PodModes)
    assert torch.allclose(basis.mean, train.u[:, quartile].mean(0), atol=1e-6)


@pytest.mark.parametrize("name", FAMILY)
def test_the_seed_fixes_the_weights(name, small_data):
    train, _ = small_data("burgers-0.1")
    one, same, other = (tino.build(name, train, seed=s).state_dict() for s in (0, 0, 1))
    assert all(torch.equal(one[k], same[k]) for k in one)
    assert any(not torch.equal(one[k], other[k]) for k in one)


def test_building_leaves_the_global_stream_alone(small_data):
    train, _ = small_data("duffing")
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    tino.build("tino", train)
    assert torch.equal(torch.rand(1), expected)


def test_what_build_refuses(small_data):
    train, _ = small_data("duffing")
    for name in SPATIAL_POD:
        with pytest.raises(tino.TinoError, match=f"{name} needs outputs in space.*: try tino or tdnn"):
            tino.build(name, train)
    with pytest.raises(tino.TinoError, match="did you mean 'trtino'"):
        tino.build("trtin", train)
    with pytest.raises(tino.TinoError, match="snapshots is 'some'"):
        tino.build("tino", train, snapshots="some")
    for name in ("tino", "don"):
        with pytest.raises(tino.TinoError, match=f"{name} has no POD of y, so snapshots='all' has no effect"):
            tino.build(name, train, snapshots="all")
    with pytest.raises(tino.TinoError, match="fno has no option 'snapshots': it takes width, modes, "):
        tino.build("fno", train, snapshots="all")
    with pytest.raises(tino.TinoError, match="first_lag is 2, expected 0 or 1"):
        tino.build("tino", train, first_lag=2)
    with pytest.raises(tino.TinoError, match="tc-don has no delay mixer, so first_lag=1 has no effect"):
        tino.build("tc-don", train, first_lag=1)
    windows, _ = small_data("navier-stokes-ic")
    lost = dataclasses.replace(windows, ic=None)
    for name in ("pod-tino", "fno"):
        with pytest.raises(tino.TinoError, match="cut into windows, which start from different states"):
            tino.build(name, lost)
        with pytest.raises(tino.TinoError, match=f"{name} takes an initial state of 576 numbers"):
            tino.build(name, windows)(windows.f[:1])
    zero, silent = dataclasses.replace(train, f=0 * train.f), dataclasses.replace(train, u=0 * train.u)
    for project in (True, False):
        with pytest.raises(tino.TinoError, match=r"the inputs of .* are all zero"):
            tino.build("tino", zero, project_sensors=project)
    with pytest.raises(tino.TinoError, match=r"the outputs of .* are all zero"):
        tino.build("tino", silent)
    tiny = dataclasses.replace(windows, ic=1e-40 * windows.ic)
    with pytest.raises(tino.TinoError, match=r"ic of u is of size 4e-40, float32 takes 1e-15 to 1e15"):
        tino.build("pod-tino", tiny)


@pytest.mark.parametrize("mixer", [MaskedMixer, DelayMixer])
def test_coefficients_of_a_pod_of_time_cannot_depend_on_it(mixer, small_data):
    with pytest.raises(tino.TinoError, match=r"mine has a POD of \(t, y\), .* use a global mixer"):
        Family(mixer, PodModes, of_time=True)("mine", small_data("burgers-0.1")[0])


@pytest.mark.parametrize(
    ("name", "f", "message"),
    [
        ("tino", torch.zeros(2, 24, 23), r"f has shape \(2, 24, 23\), the model was built for \(records, 24, 24\)$"),
        ("tino", torch.zeros(24, 24), r"f has shape \(24, 24\), the model was built for \(records, 24, 24\)$"),
        ("tino", torch.zeros(2, 0, 24), "f has 0 times, tino takes 1 or more times$"),
        ("trtino", torch.zeros(2, 28, 24), "f has 28 times, trtino takes 1 to 24 times: its time factor depends on t$"),
        ("don", torch.zeros(2, 28, 24), "f has 28 times, the model was built for 24$"),
    ],
)
def test_forward_checks_shapes(name, f, message, small_data):
    model = tino.build(name, small_data("burgers-0.1")[0])
    with pytest.raises(tino.TinoError, match=message):
        model(f)
    with pytest.raises(tino.TinoError, match="initial state has 3 numbers, the model was built for 0"):
        model(torch.zeros(2, 24, 24), torch.zeros(2, 3))
