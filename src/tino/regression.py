"""Least squares by normal equations, summed over parts of the data: memory does not grow with the number of rows."""

import torch
from torch import Tensor

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
            size = gram.diagonal(dim1=1, dim2=2).real.sqrt().clamp_min(1e-300)
            values, vectors = torch.linalg.eigh(gram / size[:, :, None] / size[:, None])
            self._factored = (terms, (size, values, vectors, vectors.mH @ (right / size[..., None])))
        return self._factored[1]
