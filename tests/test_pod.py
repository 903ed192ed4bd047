"""POD against numpy's SVD."""

import numpy as np
import pytest
import torch

import tino
from tino.pod import pod


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
