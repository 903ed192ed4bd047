"""What onnxruntime lacks in float64, or rounds more coarsely than torch: written in graphs by sums and products."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

MIDDLE, TERMS = 2.0, 40  # erfcx is smooth in (x - MIDDLE) / (x + MIDDLE), which goes from -1 to 1


def _erfcx_terms() -> list[float]:
    """Chebyshev coefficients of e^{x²} erfc(x), x >= 0."""
    angle = math.pi * (torch.arange(TERMS, dtype=torch.float64) + 0.5) / TERMS
    y = torch.cos(angle)
    values = torch.special.erfcx(MIDDLE * (1 + y) / (1 - y))
    found = 2 / TERMS * torch.cos(angle * torch.arange(TERMS, dtype=torch.float64)[:, None]) @ values
    return [float(found[0]) / 2, *found[1:].tolist()]


ERFCX = _erfcx_terms()


def _erf(x: Tensor) -> Tensor:
    """erf in float64 by sums and products: onnxruntime has it in float32 alone."""
    two, one, size = (x.new_tensor(2.0), x.new_tensor(1.0), torch.abs(x))
    y = (size - x.new_tensor(MIDDLE)) / (size + x.new_tensor(MIDDLE))
    last = before = torch.zeros_like(x)
    for term in reversed(ERFCX[1:]):
        last, before = two * y * last - before + x.new_tensor(term), last
    erfcx = y * last - before + x.new_tensor(ERFCX[0])
    return torch.sign(x) * (one - torch.exp(-x * x) * erfcx)


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if x.dtype != torch.float64 or approximate != "none":
        return torch.nn.functional.gelu(x, approximate=approximate)
    half, root = x.new_tensor(0.5), x.new_tensor(math.sqrt(0.5))
    return half * x * (x.new_tensor(1.0) + _erf(root * x))


def _group_norm(x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """x (b, c, ...) over groups of channels."""
    v = x.unflatten(1, (groups, -1))
    v = v - _mean(v)
    v = (v * torch.rsqrt(_mean(v * v) + v.new_tensor(eps))).flatten(1, 2)
    shape = (-1, *[1] * (x.ndim - 2))
    return v * weight.view(shape) + bias.view(shape)


def _mean(v: Tensor) -> Tensor:
    """Over all axes but the first two, one after another: onnxruntime adds numbers one by one, in float32."""
    for axis in range(2, v.ndim):
        v = v.mean(axis, keepdim=True)
    return v


PRECISE: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.gelu: _gelu,
    torch.nn.functional.group_norm: _group_norm,
}
