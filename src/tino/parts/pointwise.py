"""A network of a field at each point: what the terms of an equation leave."""

import itertools

import torch
from torch import Tensor, nn

from tino.parts.fourier import Fourier
from tino.parts.part import Part


class Pointwise(Part):
    """ĝ + Σ_x ∂_x ĥ_x, (g, h) = s [N(z) - N(0)] at each point, N a network of z.

    z are u, its first derivatives, in two or three dimensions the velocity of a vorticity u, ``filters`` learned
    multipliers of û_k, and f, each scaled to size one. On an interval N reads u_x² and h is multiplied by u_x, so that
    g is even under a mirror and h odd. No input and a zero field give zero.
    """

    kind = "pointwise"
    inputs: Tensor
    output: Tensor

    def __init__(self, waves: Fourier, length: float, width: int, layers: int, filters: int) -> None:
        super().__init__(width=width, layers=layers, filters=filters)
        self.length, self.axes = length, len(waves.axes)
        self.two, self.mirrored = self.axes > 1, bool(waves.sizes["mirrored"])
        count = 2 + self.axes + 2 * self.two + filters
        shape = (filters, waves.sizes["waves"]) + (() if self.mirrored else (2,))
        self.multipliers = nn.Parameter(torch.randn(shape, dtype=torch.float64) / (1 + waves.sizes["waves"]) ** 0.5)
        self.register_buffer("inputs", torch.ones(count, dtype=torch.float64))
        self.register_buffer("output", torch.zeros((), dtype=torch.float64))
        sizes = [count, *[width] * layers, 1 + self.axes]
        parts: list[nn.Module] = []
        for a, b in itertools.pairwise(sizes):
            parts += [nn.Linear(a, b, dtype=torch.float64), nn.GELU()]
        self.net = nn.Sequential(*parts[:-1])
        last = parts[-2]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)  # it begins as nothing

    def fields(self, waves: Fourier, v: Tensor, f: Tensor) -> tuple[Tensor, list[Tensor]]:
        """z (..., *fine, inputs), not scaled, and k along each axis."""
        k = [one.to(v.real) for one in waves.wavenumbers(self.length)]
        spectra = [v, *[1j * one * v for one in k]]
        if self.two:
            plane = k[0].square() + k[1].square()
            psi = torch.where(plane > 0, 1 / plane, 0.0) * v
            spectra += [1j * k[1] * psi, -1j * k[0] * psi]
        own = self.multipliers if self.mirrored else torch.view_as_complex(self.multipliers)
        spectra += [one * v for one in own]
        return torch.stack([*waves.fine(torch.stack([*spectra, f]))], -1), k

    def forward(self, waves: Fourier, v: Tensor, f: Tensor) -> Tensor:
        """û (..., k), f̂ (..., k) -> (..., k)."""
        z, k = self.fields(waves, v, f)
        z = z / self.inputs
        slope = z[..., 1:2]
        if self.mirrored:
            z = torch.cat([z[..., :1], slope.square(), z[..., 2:]], -1)
        out = self.net(z) - self.net(torch.zeros_like(self.inputs))
        g, h = out[..., 0], out[..., 1:]
        if self.mirrored:
            h = h * slope
        parts = waves.back(torch.stack([g, *h.unbind(-1)]))
        flux = sum((1j * one * part for one, part in zip(k, parts[1:], strict=True)), torch.zeros_like(parts[0]))
        return self.output * (parts[0] + flux * (self.length / (2 * torch.pi)))

    def fit(self, waves: Fourier, v: Tensor, f: Tensor, rate: float) -> None:
        """Scale the inputs by their sizes on these states, and the output by the rate that is left to learn."""
        with torch.no_grad():
            z, _ = self.fields(waves, v, f)
            self.inputs.copy_(z.flatten(0, -2).square().mean(0).sqrt().clamp_min(1e-30))
            self.output.fill_(rate)
