"""Errors per test sample, as the paper defines them."""

from torch import Tensor


def mse(prediction: Tensor, truth: Tensor) -> Tensor:
    """Mean squared error of each sample, (b, ...) -> (b,) (eq_single_mse)."""
    return (prediction - truth).double().square().flatten(1).mean(1)


def relative_l2(prediction: Tensor, truth: Tensor) -> Tensor:
    """‖u - û‖ / ‖u‖ of each sample, (b, ...) -> (b,) (the summand of eq_rela_l2)."""
    error = (prediction - truth).double().flatten(1).norm(dim=1)
    return error / truth.double().flatten(1).norm(dim=1)
