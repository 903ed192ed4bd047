"""A closed form and a network for what it leaves, in coefficients."""

import itertools

import torch
from torch import Tensor, nn

from tino.parts.coefficients import CoefficientLaw
from tino.parts.law import Law, window_moments


class CorrectedLaw(Law):
    """c_i = law(...) + b tanh(r [N(z) - N(0)] / b): z what the law reads, r and b the size of what it leaves.

    r is its root mean square for each state, b twice its largest value in the fit. The network adds at most b, so it
    cannot drive a linear law away whose own steps decay, however far the states are from those of the training.

    z are the delayed states' mean, slope, bend, ... over their window, and the inputs' moments, each scaled to size
    one: neighbouring samples are nearly alike, and their differences carry the velocity.

    N(z) = V gelu(W z) ⊙ (1 + W' z): a network with product units.
    """

    kind = "corrected"
    shapes: Tensor
    left: Tensor
    bound: Tensor
    inputs_size: Tensor

    def __init__(self, law: CoefficientLaw, width: int, layers: int) -> None:
        super().__init__(width=width, layers=layers)
        self.law = law
        self.lags, self.window, self.properties = law.lags, law.window, law.properties
        count, states = law.linear - int(law.sizes["constant"]), law.sizes["states"]
        self.register_buffer("shapes", window_moments(law.sizes["delays"], law.sizes["delays"]), persistent=False)
        self.register_buffer("left", torch.zeros(states, dtype=torch.float64))
        self.register_buffer("bound", torch.ones(states, dtype=torch.float64))
        self.register_buffer("inputs_size", torch.ones(count, dtype=torch.float64))
        sizes = [count, *[width] * layers]
        pairs = list(itertools.pairwise(sizes))
        self.gates = nn.ModuleList(nn.Linear(a, b, dtype=torch.float64) for a, b in pairs)
        self.factors = nn.ModuleList(nn.Linear(a, b, dtype=torch.float64) for a, b in pairs)
        self.last = nn.Linear(width, states, dtype=torch.float64)
        nn.init.zeros_(self.last.weight)

    def state(self, u: Tensor) -> Tensor:
        return self.law.state(u)

    def output(self, c: Tensor) -> Tensor:
        return self.law.output(c)

    def inputs(self, f: Tensor) -> Tensor:
        return self.law.inputs(f)

    def read(self, past: Tensor, g: Tensor) -> Tensor:
        """z, not scaled."""
        seen = past[..., :: self.law.sizes["stride"], :]  # the oldest first
        shapes = torch.einsum("...dj,dk->...kj", seen, self.shapes).flatten(-2)
        return torch.cat([shapes, torch.einsum("...wr,wk->...kr", g, self.law.basis).flatten(-2)], -1)

    def network(self, z: Tensor) -> Tensor:
        for gate, factor in zip(self.gates, self.factors, strict=True):
            z = nn.functional.gelu(gate(z)) * (1 + factor(z))
        return self.last(z)

    def forward(self, past: Tensor, g: Tensor, i: int | Tensor) -> Tensor:
        z = self.read(past, g) / self.inputs_size
        found = self.network(z) - self.network(torch.zeros_like(self.inputs_size))
        return self.law(past, g, i) + self.bound * torch.tanh(self.left / self.bound * found)

    def fit(self, past: Tensor, g: Tensor, after: Tensor, times: Tensor) -> None:
        """Scales from states (n, lags, J), inputs (n, window, r) and the states after them (n, J), at times (n,)."""
        with torch.no_grad():
            self.inputs_size.copy_(self.read(past, g).square().mean(0).sqrt().clamp_min(1e-30))
            left = self.law(past, g, times) - after
            self.left.copy_(left.square().mean(0).sqrt())
            self.bound.copy_(2 * left.abs().amax(0).clamp_min(1e-30))

    def readout(self, dt: float) -> tuple[str, ...]:
        if not bool(self.last.weight.any()):  # the biases cancel in N(z) - N(0)
            told = "its network adds nothing: training did not lower the held-out error"
        else:
            told = "and a network for what this leaves"
        return (*self.law.readout(dt), told)
