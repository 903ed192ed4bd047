"""POD against numpy's SVD."""

import numpy as np
import pytest
import torch

import tino
from tino.pod import input_pod, output_pod, pod


@pytest.mark.parametrize("shape", [(50, 12), (12, 50), (20, 20)])
@pytest.mark.parametrize("subtract_mean", [True, False])
def test_pod_is_the_svd_cut_at_1e_minus_6(shape, subtract_mean):
    generator = torch.Generator().manual_seed(0)
    rank = 6
    sizes = 10.0 ** -torch.arange(0, 2 * rank, 2, dtype=torch.float64)  # 1, 1e-2, ..., 1e-10
    left = torch.linalg.qr(torch.randn(shape[0], rank, generator=generator, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(shape[1], rank, generator=generator, dtype=torch.float64))[0]
    data = left * sizes @ right.T + 0.3 * subtract_mean
    found = pod(data, subtract_mean)
    centred = data.numpy() - (data.numpy().mean(0) if subtract_mean else 0)
    sigmas = np.linalg.svd(centred, compute_uv=False)
    expected = sigmas[sigmas >= 1e-6 * sigmas[0]]
    assert np.allclose(found.sigmas, expected, rtol=1e-6)
    identity = torch.eye(len(expected), dtype=torch.float64)
    assert torch.allclose(found.modes @ found.modes.T, identity, atol=1e-12)
    centred = torch.from_numpy(centred)
    left_over = centred - centred @ found.modes.T @ found.modes
    assert float(left_over.abs().max()) <= 1.5e-6 * sigmas[0]


def test_constant_snapshots_are_refused():
    with pytest.raises(tino.TinoError, match="are the same or zero"):
        pod(torch.ones(4, 3))


@pytest.mark.parametrize("subtract_mean", [False, True])
@pytest.mark.parametrize("shape", [(900, 700), (700, 900)])
def test_random_projections_find_the_same_modes(shape, subtract_mean, monkeypatch):
    """Where both sides are long: singular values down to the cut, and the space they span."""
    generator = torch.Generator().manual_seed(1)
    left = torch.linalg.qr(torch.randn(shape[0], 60, generator=generator, dtype=torch.float64)).Q
    right = torch.linalg.qr(torch.randn(shape[1], 60, generator=generator, dtype=torch.float64)).Q
    sigmas = 10.0 ** torch.linspace(0, -9, 60, dtype=torch.float64)
    data = (left * sigmas) @ right.T + 1e-3
    exact = pod(data, subtract_mean)
    monkeypatch.setattr("tino.pod.LONG", 500)
    monkeypatch.setattr("tino.pod._all_modes", None)  # the exact route is not taken
    found = pod(data, subtract_mean)
    assert len(found.modes) == len(exact.modes)
    assert torch.allclose(found.sigmas, exact.sigmas, rtol=1e-6, atol=0)
    overlap = torch.linalg.svdvals(found.modes @ exact.modes.T)
    assert float(overlap.min()) > 1 - 1e-6
    eye = torch.eye(len(found.modes), dtype=torch.float64)
    assert torch.allclose(found.modes @ found.modes.T, eye, atol=1e-12)


def test_noise_just_below_the_cut_is_not_taken_for_modes(monkeypatch):
    """A plateau under the cut spoils random projections: the exact route must be taken."""
    generator = torch.Generator().manual_seed(2)
    left, right = (torch.linalg.qr(torch.randn(n, 600, generator=generator, dtype=torch.float64)).Q for n in (700, 620))
    sigmas = torch.cat([10.0 ** torch.linspace(0, -5.5, 30), torch.full((15,), 1.3e-6), torch.full((555,), 0.9e-6)])
    data = (left * sigmas.double()) @ right.T
    monkeypatch.setattr("tino.pod.LONG", 500)
    assert len(pod(data, subtract_mean=False).modes) == 45


def test_a_few_hundred_modes_are_found_too(monkeypatch):
    generator = torch.Generator().manual_seed(3)
    left, right = (
        torch.linalg.qr(torch.randn(n, 300, generator=generator, dtype=torch.float64)).Q for n in (2400, 2100)
    )
    sigmas = 10.0 ** torch.linspace(0, -9, 300, dtype=torch.float64)
    monkeypatch.setattr("tino.pod._all_modes", None)
    found = pod((left * sigmas) @ right.T, subtract_mean=False)
    assert len(found.modes) == int((sigmas >= 1e-6).sum())


def test_many_modes_take_the_exact_route(monkeypatch):
    data = torch.randn(600, 520, generator=torch.Generator().manual_seed(0))
    exact = pod(data)
    monkeypatch.setattr("tino.pod.LONG", 500)
    assert torch.equal(pod(data).sigmas, exact.sigmas)


def test_energies_and_what_the_cut_leaves():
    data = torch.diag(torch.tensor([3.0, 2.0, 1.0, 1e-7])).double()
    found = pod(data, subtract_mean=False)
    assert len(found.modes) == 3
    assert found.energy == pytest.approx(14.0)
    assert [found.modes_for(share) for share in (0.5, 0.9, 0.95, 1.0)] == [1, 2, 3, None]
    assert found.left == pytest.approx(1e-7 / 14**0.5, rel=0.1)


def test_weights_and_lengths_of_records():
    """Times after the end of a record are no snapshots, and weights make channels alike."""
    generator = torch.Generator().manual_seed(4)
    f, u = (torch.randn(5, 8, 2, generator=generator) * torch.tensor([1e3, 1e-3]) for _ in range(2))
    two = tuple(tino.Channel(name) for name in "ab")
    lengths = torch.tensor([8, 2, 5, 3, 6])
    time, point = tino.TimeGrid(0, 1, 8), tino.Point()
    data = tino.Dataset(f, u, time, point, point, input_channels=two, output_channels=two, lengths=lengths)
    weights = torch.tensor([1e-3, 1e3]).double()
    for values, found in ((f, input_pod(data, weights)), (u, output_pod(data, "all", weights))):
        rows = torch.cat([one[:n] for one, n in zip(values, lengths.tolist(), strict=True)]) * weights.float()
        expected = pod(rows, subtract_mean=values is u)
        assert torch.equal(found.sigmas, expected.sigmas)
        assert torch.equal(found.mean, expected.mean)
        assert len(found.modes) == 2
        assert float(found.sigmas[0] / found.sigmas[1]) < 3
    assert torch.equal(output_pod(data, "quartile", weights).mean, output_pod(data, "all", weights).mean)
