"""Method of lines on an interval: a cosine or sine series in space, ETDRK4 in time.

    u_t = D u_xx + R(u) + f(t, x)   on [0, length]

with u_x = 0 at both ends (cosine series) or with fixed end values (sine series plus a linear function).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tino.solvers.etd import etdrk4
from tino.solvers.march import Mesh, Solution, Tick, march
from tino.solvers.spectral import BatchedForcing

BOUNDARIES = ("neumann", "frozen")


@dataclass(frozen=True)
class LineEquation:
    """u_t = D u_xx + R(u) + f, u(0, x) = u_0(x)."""

    diffusion: float
    reaction: Callable[[Tensor], Tensor]
    initial: Callable[[Tensor], Tensor]  # points (x, 1) -> u_0, (x,)
    length: float = 1.0
    boundary: str = "neumann"


def solve_line(
    equation: LineEquation, forcing: BatchedForcing, times: Tensor, mesh: Mesh, state: Tensor | None, tick: Tick
) -> Solution:
    """The solution at ``times`` on n_out points including both ends, (b, t, n_out), and the final state.

    The series has n_inner cells, so n_inner + 1 nodes, and is a real Fourier transform of the even (odd) extension
    of u. The state holds its coefficients. The outputs are the series evaluated at the output points.
    """
    cells = mesh.n_inner
    even = equation.boundary == "neumann"
    x = torch.linspace(0, equation.length, cells + 1, dtype=torch.float64, device=times.device)[:, None]
    k = torch.pi / equation.length * torch.arange(cells + 1, dtype=torch.float64, device=times.device)
    u_0 = equation.initial(x)

    def floor(points: Tensor) -> Tensor:
        """The linear function between the initial end values, to which the sine series is added; 0 if even."""
        return torch.zeros_like(points) if even else u_0[0] + (u_0[-1] - u_0[0]) * points / equation.length

    j = torch.arange(1, cells + 1, dtype=torch.float64, device=times.device)
    line_of_left = torch.nn.functional.pad(-2 * cells / (j * torch.pi), (1, 0))
    line_of_right = torch.nn.functional.pad(2 * cells * (-1) ** j / (j * torch.pi), (1, 0))

    def forward(u: Tensor) -> Tensor:
        if even:
            return torch.fft.rfft(torch.cat([u, u[..., 1:-1].flip(-1)], dim=-1)).real
        # the odd extension jumps where u does not vanish at the ends, so the linear function between the end values
        # is transformed analytically, and the rest, which vanishes there, by FFT
        left, right = u[..., :1], u[..., -1:]
        rest = u - left - (right - left) * x[:, 0] / equation.length
        rest = torch.fft.rfft(torch.cat([rest, -rest[..., 1:-1].flip(-1)], dim=-1)).imag
        return rest + left * line_of_left + right * line_of_right

    on_nodes = floor(x[:, 0])

    def backward(v: Tensor) -> Tensor:
        spectrum = torch.complex(v, torch.zeros_like(v)) if even else torch.complex(torch.zeros_like(v), v)
        return torch.fft.irfft(spectrum, 2 * cells)[..., : cells + 1] + on_nodes

    y = torch.linspace(0, equation.length, mesh.n_out, dtype=torch.float64, device=times.device)
    ends = torch.ones_like(k)
    ends[0] = ends[-1] = 0.5  # the first and last coefficients occur once in the transform, the others twice
    waves = torch.cos(k[:, None] * y) if even else -torch.sin(k[:, None] * y)
    series, below = ends[:, None] * waves / cells, floor(y)
    source = forcing.through(x, forward)
    if state is None:
        state = forward(u_0 - on_nodes).expand(forcing.batch, -1)

    def nonlinear(t: float, v: Tensor) -> Tensor:
        return forward(equation.reaction(backward(v))) + source(t)

    linear = -equation.diffusion * k**2

    def observe(t: float, v: Tensor) -> Tensor:
        return v @ series + below

    return march(lambda h: etdrk4(linear, nonlinear, h), state, times, mesh.substeps, observe, tick)
