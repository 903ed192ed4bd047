"""Exact eigenfunctions of the heat equation on an insulated equilateral triangle.

Reflections in the sides tile the plane with copies of the triangle. A function extended by them is periodic on a
lattice, and its Fourier series consists of the Neumann eigenfunctions of the triangle (Lamé), each a sum of six plane
waves. So u_t = α Δu + f becomes one scalar equation per mode.
"""

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

ROOT3 = math.sqrt(3.0)


def fold(points: Tensor) -> Tensor:
    """Reflect points of the plane (n, 2) into the triangle (0,0), (1,0), (1/2, √3/2)."""
    sides = [  # inward normals n and offsets d: inside where n·x >= d
        (torch.tensor([0.0, 1.0], dtype=points.dtype), 0.0),
        (torch.tensor([ROOT3 / 2, -0.5], dtype=points.dtype), 0.0),
        (torch.tensor([-ROOT3 / 2, -0.5], dtype=points.dtype), -ROOT3 / 2),
    ]
    folded = points.clone()
    for _ in range(64):
        moved = False
        for normal, offset in sides:
            outside = (folded @ normal - offset).clamp(max=0)  # negative distance
            moved |= bool((outside < -1e-12).any())
            folded = folded - 2 * outside[:, None] * normal
        if not moved:
            break
    return folded


@dataclass(frozen=True)
class TriangleModes:
    """The first eigenfunctions of the unit triangle, from an n x n sampling of the lattice cell."""

    n: int
    folded: Tensor  # (nodes, 2): the distinct sampling points, folded into the triangle
    spread: Tensor  # (n * n,): the node that each point of the cell folds to
    picked: Tensor  # (modes,): indices of the representatives in the flattened transform
    weight: Tensor  # (modes,)
    k: Tensor  # (modes, 2) wave vectors

    @staticmethod
    @functools.cache
    def make(n: int) -> "TriangleModes":
        # translations of the tiling, and wave vectors k with k·a in 2πZ
        lattice = ROOT3 * torch.tensor([[0.0, 1.0], [ROOT3 / 2, -0.5]], dtype=torch.float64)
        dual = 2 * torch.pi * torch.linalg.inv(lattice).T
        steps = torch.arange(n, dtype=torch.float64) / n
        cell = torch.cartesian_prod(steps, steps) @ lattice
        keys = (fold(cell) * 1e9).round().to(torch.int64)
        nodes, spread = torch.unique(keys, dim=0, return_inverse=True)
        folded = nodes.to(torch.float64) / 1e9
        # one representative of each orbit of wave vectors under reflections, rotations and k -> -k
        whole = torch.fft.fftfreq(n, 1 / n).round().to(torch.int64)
        counts = torch.cartesian_prod(whole, whole)
        k = counts.to(torch.float64) @ dual
        inside = k.norm(dim=1) < 0.999 * n / 2 * float(dual[0].norm()) * ROOT3 / 2
        orbit = torch.stack([k @ g.T for g in _group()] + [-k @ g.T for g in _group()], dim=1)  # (n², 12, 2)
        whole_orbit = (orbit @ lattice.T / (2 * torch.pi)).round().to(torch.int64)
        flat = whole_orbit[..., 0] * (4 * n) + whole_orbit[..., 1]
        own = counts[:, 0] * (4 * n) + counts[:, 1]
        first = inside & (own == flat.amin(1))
        picked = first.nonzero()[:, 0]
        distinct = torch.tensor([len(set(row)) for row in flat[picked].tolist()], dtype=torch.float64)
        return TriangleModes(n, folded, spread, picked, distinct / 6, k[picked])

    def coefficients(self, values: Tensor) -> Tensor:
        """Values at the folded nodes (b, nodes) -> complex coefficients (b, modes)."""
        cell = values[:, self.spread.to(values.device)].view(-1, self.n, self.n)
        spectrum = torch.fft.fft2(cell, norm="forward").flatten(1)
        return spectrum[:, self.picked.to(values.device)]

    def functions(self, points: Tensor) -> Tensor:
        """Weighted sums of the six plane waves of each mode at points (x, 2): complex (modes, x)."""
        waves = sum(torch.exp(1j * (self.k.to(points.device) @ (points @ g.to(points.device).T).T)) for g in _group())
        assert isinstance(waves, Tensor)
        return self.weight.to(points.device)[:, None] * waves


def _group() -> list[Tensor]:
    """The six rotations and reflections that fix the corner (0, 0) and its tiling."""
    found = []
    for turn in range(3):
        c, s = math.cos(2 * math.pi * turn / 3), math.sin(2 * math.pi * turn / 3)
        rotation = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
        found += [rotation, rotation @ torch.tensor([[1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)]
    return found
