"""The first outputs of a flow whose start it cannot know from rest: a hidden state away from equilibrium."""

import math
from itertools import combinations_with_replacement

import torch
from torch import Tensor, nn

from tino.least_squares import NormalEquations
from tino.operator import Properties
from tino.parts.coefficients import check_terms
from tino.parts.law import window_moments
from tino.parts.part import Part

DEGREE, FIRST = 3, 3  # products of the first moments up to this degree
RIDGE = 1e-14


class Warmup(Part):
    """c_i = Σ_q W_qi φ_q(f_0, ..., f_i) for i < n: a fit of its own for each i, in moments of the input since T_0.

    All records start from one state, so the input since T_0 determines c_i. It knows the time since T_0.
    """

    kind = "warmup"
    weights: Tensor
    bases: Tensor
    index: Tensor

    def __init__(self, n: int, sources: int, states: int, moments: int) -> None:
        super().__init__(n=n, sources=sources, states=states, moments=moments)
        check_terms(min(FIRST, moments) * sources, 0, DEGREE, 0)
        reasons = (f"its first {n} outputs are fitted one by one: they depend on the time since the start",)
        self.properties = Properties(True, False, False, reasons)
        bases = torch.zeros(n, n + 1, moments, dtype=torch.float64)  # of a window that ends at i
        for i in range(n):
            found = window_moments(i + 1, moments)
            bases[i, n - i :, : found.shape[1]] = found
        self.register_buffer("bases", bases, persistent=False)
        places = range(1, 1 + min(FIRST, moments) * sources)
        chosen = [c for d in range(2, DEGREE + 1) for c in combinations_with_replacement(places, d)]
        index = torch.tensor([[*c, *[0] * (DEGREE - len(c))] for c in chosen], dtype=torch.long).view(-1, DEGREE)
        self.register_buffer("index", index, persistent=False)
        terms = 1 + moments * sources + len(index)
        self.weights = nn.Parameter(torch.zeros(n, terms, states, dtype=torch.float64), requires_grad=False)

    def features(self, g: Tensor, i: Tensor) -> Tensor:
        """φ (b, s, q) from windows (b, s, n + 1, r) that end at the times i (s,); longer and wider ones are cut."""
        g = g[:, :, -self.sizes["n"] - 1 :, : self.sizes["sources"]]
        moments = torch.einsum("bswr,swk->bskr", g, self.bases[i]).flatten(2)
        factors = torch.cat([torch.ones_like(moments[..., :1]), moments], -1)
        products = factors[..., self.index].prod(-1)
        return torch.cat([factors, products], -1)

    def forward(self, g: Tensor, i: int | Tensor) -> Tensor:
        """c_i (b, J) from the window (b, n + 1, r) that ends with f_i; past the last i, that of the last."""
        at = torch.as_tensor(i, device=g.device).view(1).clamp(max=self.sizes["n"] - 1)
        return torch.einsum("bq,qj->bj", self.features(g[:, None], at)[:, 0], self.weights[at][0])

    @staticmethod
    def terms(sources: int, moments: int) -> int:
        """How many terms each of its fits has."""
        few = min(FIRST, moments) * sources
        return moments * sources + math.comb(few + DEGREE, DEGREE) - few

    def fit(self, g: Tensor, c: Tensor) -> None:
        """From windows (b, n, n + 1, r) and states (b, n, J) at the first n times of all records."""
        equations = NormalEquations()
        equations.add(self.features(g, torch.arange(self.sizes["n"])), c)
        self.weights.data.copy_(equations.solve(RIDGE))
