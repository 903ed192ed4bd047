"""Least squares: by normal equations, summed over parts of the data, and by Gauss-Newton where it is not linear."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

DAMPING, MOST_ITERATIONS, ENOUGH, SMALL = 1e-3, 30, 0.99, 1e-6  # of Gauss-Newton
RIDGES = (1e-15, 1e-14, 1e-12, 1e-10, 1e-8)  # of the largest eigenvalue, features scaled to one size


class NormalEquations:
    """y ≈ x W for groups of features x (r, k, p) and targets y (r, k, j), real or complex, in double precision.

    With features scaled to one size, W = (G + ρ λ_max I)⁻¹ R, where G = Σ x̄ x, R = Σ x̄ y, λ_max is the largest
    eigenvalue of G, and ρ the ridge.
    """

    def __init__(self) -> None:
        self.gram: Tensor | None = None  # (k, p, p)
        self.right: Tensor | None = None  # (k, p, j)
        self.rows = 0
        self._factored: tuple[tuple[int, ...] | None, tuple[Tensor, ...]] | None = None

    def add(self, x: Tensor, y: Tensor) -> None:
        x, y = x.transpose(0, 1), y.transpose(0, 1)  # (k, r, p), (k, r, j): batched products are fast
        gram, right = x.mH @ x, x.mH @ y
        self.gram = gram if self.gram is None else self.gram + gram
        self.right = right if self.right is None else self.right + right
        self.rows += x.shape[1]
        self._factored = None

    def leave_out(self, features: Tensor) -> None:
        """Take these for zero, (k, p): their factors are zero."""
        assert self.gram is not None
        assert self.right is not None
        self.gram = self.gram.masked_fill(features[:, :, None] | features[:, None, :], 0.0)
        self.right = self.right.masked_fill(features[:, :, None], 0.0)
        self._factored = None

    def solve(self, ridge: float, terms: tuple[int, ...] | None = None) -> Tensor:
        """W (k, p, j), with these features alone if ``terms`` names them."""
        size, values, vectors, turned = self._factors(terms)
        damped = (values.clamp_min(0.0) + ridge * values[:, -1:]).clamp_min(1e-300)
        return (vectors @ (turned / damped[..., None])) / size[..., None]

    def _factors(self, terms: tuple[int, ...] | None) -> tuple[Tensor, ...]:
        """The features' sizes, the eigenvalues and eigenvectors of the scaled G, and R in their coordinates."""
        if self._factored is None or self._factored[0] != terms:
            assert self.gram is not None
            assert self.right is not None
            kept = list(range(self.gram.shape[1])) if terms is None else list(terms)
            gram, right = self.gram[:, kept][:, :, kept], self.right[:, kept]
            size = gram.diagonal(dim1=1, dim2=2).real.sqrt()
            size = torch.where(size > 0, size, 1.0)  # a feature that is always zero gets the factor zero
            values, vectors = torch.linalg.eigh(gram / size[:, :, None] / size[:, None])
            self._factored = (terms, (size, values, vectors, vectors.mH @ (right / size[..., None])))
        return self._factored[1]


def gauss_newton(
    residuals: Callable[[Tensor], Tensor],
    x: Tensor,
    active: Tensor,
    units: Tensor | None = None,
    enough: float = ENOUGH,
) -> tuple[Tensor, float, Tensor]:
    """The x (p,) with the least mean square of its residuals, by Levenberg-Marquardt steps; only ``active`` move.

    ``residuals`` maps several x at once, (c, p), to (c, r). -> x, its error, and the effect of each number: the root
    mean square of what it adds to the residuals. Derivatives are differences over ``units`` (p,) of the numbers, or
    over steps that change the residuals by about a millionth. It ends when a step leaves more than ``enough`` of the
    error.
    """
    (left,) = residuals(x[None])
    error, damping = float(left.square().mean()), DAMPING
    places = active.nonzero()[:, 0].tolist()
    if not places:
        return x, error, torch.zeros_like(x)
    units = _differences(residuals, x, left, places) if units is None else units[places]
    effects = torch.zeros_like(x)
    for _ in range(MOST_ITERATIONS):
        slopes = ((residuals(_moved(x, places, units)) - left) / units[:, None]).T  # (r, p)
        size = torch.linalg.vector_norm(slopes, dim=0).clamp_min(1e-300)
        effects[places] = x[places].abs() * size / math.sqrt(len(left))
        gram, right = (slopes / size).T @ (slopes / size), (slopes / size).T @ left
        before = error
        while damping < 1e8:
            change = -torch.linalg.solve(gram + damping * torch.eye(len(gram), dtype=gram.dtype), right) / size
            moved = x.clone()
            moved[places] += change
            (tried,) = residuals(moved[None])
            if (found := float(tried.square().mean())) < error:  # NaN is not
                x, left, error, damping = moved, tried, found, max(damping / 10, 1e-12)
                break
            damping *= 10
        if error > enough * before:
            break
    return x, error, effects


def _moved(x: Tensor, places: list[int], by: Tensor) -> Tensor:
    """Copies of x (c, p), each with one of its numbers moved."""
    copies = x.expand(len(places), -1).clone()
    copies[torch.arange(len(places)), places] += by
    return copies


def _differences(residuals: Callable[[Tensor], Tensor], x: Tensor, left: Tensor, places: list[int]) -> Tensor:
    """Steps of the numbers x_n, each of which changes the residuals by about SMALL."""
    found, step, open_ = torch.full((len(places),), 1e12, dtype=x.dtype), 1e-12, list(range(len(places)))
    while step < 1e12 and open_:
        moved = _moved(x, [places[n] for n in open_], torch.full((len(open_),), step, dtype=x.dtype))
        changes = (residuals(moved) - left).square().mean(1).sqrt().tolist()
        for n, change in zip(open_, changes, strict=True):
            if change > SMALL or not math.isfinite(change):
                found[n] = step * SMALL / change if math.isfinite(change) else step / 10
        open_ = [n for n, change in zip(open_, changes, strict=True) if math.isfinite(change) and change <= SMALL]
        step *= 10
    return found
