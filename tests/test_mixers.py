"""Mixers against their sums written out, the delay mixer's routes against each other, and all step by step."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tino.parts.mixers import DelayMixer, GlobalMixer, LateMixer, MaskedMixer

B, M, WIDTH = 3, 2, 4


def inputs(n_t: int) -> torch.Tensor:
    return torch.randn(B, n_t, M, generator=torch.Generator().manual_seed(n_t), dtype=torch.float64)


def fresh(kind, n_t: int, **options):
    torch.manual_seed(1)
    mixer = kind(n_t, M, WIDTH, **options).double()
    if kind is not LateMixer:
        torch.nn.init.normal_(mixer.bias)
    return mixer


def at_lag(mixer: DelayMixer, lag: int) -> torch.Tensor:
    """W_l (m, width): zero for lags the mixer does not have."""
    at = mixer.weight.shape[0] - 1 - (lag - mixer.first_lag)
    known = mixer.first_lag <= lag < mixer.first_lag + mixer.weight.shape[0]
    return mixer.weight[at] if known else torch.zeros_like(mixer.weight[0])


def naive_delay(mixer: DelayMixer, z: torch.Tensor) -> torch.Tensor:
    """h_i = Σ_l W_l z_{i-l} + c, in loops."""
    h = mixer.bias.expand(z.shape[0], z.shape[1], WIDTH).clone()
    for i in range(z.shape[1]):
        for lag in range(i + 1):
            h[:, i] += z[:, i - lag] @ at_lag(mixer, lag)
    return h


def assert_steps_give(mixer, z: torch.Tensor, expected: torch.Tensor) -> None:
    memory = mixer.rest(B)
    for i in range(z.shape[1]):
        before = memory.clone()
        new, h = mixer.step(memory, z[:, i], i)
        assert torch.allclose(h, expected[:, i], rtol=0, atol=1e-12)
        assert torch.equal(memory, before)  # a state can be gone back to
        assert new.shape == memory.shape
        memory = new


@settings(max_examples=25, deadline=None)
@given(n_t=st.integers(2, 20), t=st.integers(1, 30), first_lag=st.sampled_from([0, 1]), data=st.data())
def test_all_routes_of_the_delay_mixer_agree(n_t, t, first_lag, data):
    """FFT, chosen times and one step at a time, also on records shorter or longer than the memory."""
    mixer = fresh(DelayMixer, n_t, first_lag=first_lag)
    z = inputs(t)
    expected = naive_delay(mixer, z)
    times = torch.tensor(data.draw(st.lists(st.integers(0, t - 1), min_size=1, max_size=5)))
    assert torch.allclose(mixer(z), expected, rtol=0, atol=1e-12)
    assert torch.allclose(mixer(z, times), expected[:, times], rtol=0, atol=1e-12)
    assert_steps_give(mixer, z, expected)


@pytest.mark.parametrize("lags", [5, 9, 12])
@pytest.mark.parametrize("first_lag", [0, 1])
def test_gradients_at_all_times(first_lag, lags):
    mixer = fresh(DelayMixer, lags, first_lag=first_lag)
    z = inputs(9).requires_grad_()
    targets = [z, mixer.weight, mixer.bias]
    weights = torch.randn(B, 9, WIDTH, dtype=torch.float64)
    fast = torch.autograd.grad((mixer(z) * weights).sum(), targets)
    slow = torch.autograd.grad((naive_delay(mixer, z) * weights).sum(), targets)
    for one, other in zip(fast, slow, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("first_lag", [0, 1])
def test_gradients_at_chosen_times(first_lag):
    mixer = fresh(DelayMixer, 6, first_lag=first_lag)
    z = inputs(8).requires_grad_()
    times = torch.tensor([0, 3, 7, 3])
    targets = [z, mixer.weight, mixer.bias]
    weights = torch.randn(B, 4, WIDTH, dtype=torch.float64)
    fast = torch.autograd.grad((mixer(z, times) * weights).sum(), targets)
    slow = torch.autograd.grad((naive_delay(mixer, z)[:, times] * weights).sum(), targets)
    for one, other in zip(fast, slow, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_masked_is_a_sum_over_the_past():
    mixer, z = fresh(MaskedMixer, 7), inputs(7)
    expected = torch.stack(
        [sum((z[:, k] @ mixer.weight[k] for k in range(i + 1)), mixer.bias) for i in range(7)], dim=1
    )
    assert torch.allclose(mixer(z), expected, atol=1e-12)
    times = torch.tensor([5, 0, 2])
    assert torch.allclose(mixer(z, times), expected[:, times], atol=1e-12)
    assert_steps_give(mixer, z, expected)


@pytest.mark.parametrize("t", [3, 7, 12])
def test_late_is_a_delay_that_never_sees_the_first_input(t):
    """Also on records shorter and longer than the memory."""
    mixer, z = fresh(LateMixer, 7), inputs(t)
    expected = torch.zeros(B, t, WIDTH, dtype=torch.float64)
    for i in range(t):
        for k in range(max(1, i - 5), i + 1):  # lags 0 ... 5
            expected[:, i] += z[:, k] @ mixer.weight[-1 - (i - k)]
    assert torch.allclose(mixer(z), expected, rtol=0, atol=1e-12)
    times = torch.tensor([2, 0, 1])
    assert torch.allclose(mixer(z, times), expected[:, times], rtol=0, atol=1e-12)
    assert_steps_give(mixer, z, expected)


def test_global_is_a_sum_over_all_times():
    mixer, z = fresh(GlobalMixer, 7), inputs(7)
    expected = sum((z[:, k] @ mixer.weight[k] for k in range(7)), mixer.bias)
    assert torch.allclose(mixer(z)[:, 0], expected, atol=1e-12)
    for call in (lambda: mixer.rest(B), lambda: mixer.step(z[:, 0], z[:, 0], 0)):
        with pytest.raises(NotImplementedError):
            call()


def test_chosen_times_are_causal_to_the_bit():
    mixer, z = fresh(DelayMixer, 9).float(), inputs(9).float()
    kicked = z.clone()
    kicked[:, 5:] += 1e3
    times = torch.arange(5)
    assert torch.equal(mixer(z, times), mixer(kicked, times))
