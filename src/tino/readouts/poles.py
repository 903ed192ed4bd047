"""The modes of small changes about an operating point: natural frequencies, damping ratios and time constants."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import jacrev

from tino.models.flow import Flow
from tino.parts.coefficients import CoefficientLaw, companion
from tino.parts.corrected import CorrectedLaw
from tino.readouts.excited import Excited
from tino.readouts.terminals import Terminals

SHOWN = 4
COUNTS = 1 / 50  # of the strongest mode: weaker ones are artefacts of the fit more often than modes of the system
LOST = 1e-9  # what is left of a mode after the window of inputs that a step reads: less cannot be computed
RATE = "rad per unit of t"


def poles(ends: Terminals, settle: int, excited: Excited) -> tuple[complex, ...]:
    """log λ / dt of the modes that count, of a flow's law in coefficients; none of other models.

    Linearised after so many times at the constant input, c_i = Σ_d A_d c_{i-ds} + Σ_w B_w f_{i-w}. An eigenvalue μ over
    a stride s, with eigenvectors v and w, adds R λ^k to the impulse response: λ = μ^(1/s), R ~ C v · Σ_w w·B_w λ^{-w},
    C c the outputs. A mode is as strong as the root of Σ_k |R λ^k|² over a record; outputs and inputs count by their
    size in training. Modes in the excited band come first, each group the strongest first; of a pair, only imag > 0.
    A negative μ turns as fast as samples can show, which is no oscillation of the system.
    """
    model, f = ends.model, ends.held(1, settle + 1)
    if not isinstance(model, Flow) or not isinstance(law := model.law, CoefficientLaw | CorrectedLaw):
        return ()
    stride, frame = (law.law if isinstance(law, CorrectedLaw) else law).sizes["stride"], model.frame
    with torch.no_grad():
        memory, _ = model._first(model.rest(1, f.new_zeros(1, frame.state) if frame.state else None), f[:, 0])
        past, before = model._run(memory, f[:, 1:-1], 1)[0] if settle > 1 else memory
        inputs = torch.cat([before, law.inputs(f[:, -1])[:, None]], 1)
    a, b = jacrev(lambda past, inputs: law(past, inputs, settle)[0], (0, 1))(past, inputs)  # (J, 1, lags or window, ..)
    onto = jacrev(law.inputs)(f[0, -1])[:, list(ends.inputs)]  # (r, inputs)
    read = jacrev(lambda c: model.normalised(law.output(c)))(past[0, -1])[list(ends.outputs)]  # (outputs, J)
    ranges = f.new_tensor([high - low for low, high in frame.seen.inputs] or [1.0] * len(ends.inputs))
    blocks = a.detach()[:, 0, ::stride].flip(1).permute(1, 2, 0)  # c_{i-s} first, each as a matrix from the right
    b = b.detach().nan_to_num()  # of a level kept within its range, at rest: 0 · ∞
    driven = b[:, 0].flip(1) @ (onto.detach() * ranges)  # (J, window, inputs), f_i first
    mu, right = torch.linalg.eig(companion(blocks))
    left, states = torch.linalg.pinv(right)[:, : len(blocks[0])], right[: len(blocks[0])]
    size = mu.abs() ** (1 / stride)
    rates, lags = torch.log(mu) / (frame.time.step * stride), torch.arange(driven.shape[1])
    turned = torch.exp(-rates[:, None] * frame.time.step * lags)  # λ^{-w}
    out = (left @ read.detach().to(mu).T).norm(dim=1)
    into = torch.einsum("jk,jwi,kw->ki", states, driven.to(mu), turned).norm(dim=1)
    strength = out * into * size[:, None].pow(2 * torch.arange(frame.time.n)).sum(1).sqrt()
    counts = (mu.imag > 0) | ((mu.imag == 0) & (mu.real > 0))
    counts &= strength.isfinite() & (size ** (len(lags) - 1) > LOST)
    return _strongest(rates[counts], strength[counts], excited)


def _strongest(rates: Tensor, strength: Tensor, excited: Excited) -> tuple[complex, ...]:
    """Those that count beside the strongest in the excited band; noise can make stronger ones outside."""
    inside = torch.tensor([not _outside(rate, excited) for rate in rates.tolist()], dtype=torch.bool)
    least = COUNTS * max((strength[inside] if bool(inside.any()) else strength).tolist(), default=0.0)
    ranked = sorted(zip((~inside).tolist(), (-strength).tolist(), rates.tolist(), strict=True), key=lambda one: one[:2])
    return tuple(rate for _, weight, rate in ranked if -weight >= least)[:SHOWN]


def _outside(rate: complex, excited: Excited) -> bool:
    """Whether it is an oscillation at whose natural frequency no input was excited."""
    return bool(rate.imag) and not bool(excited.at(torch.tensor([abs(rate)], dtype=torch.float64)).any())


def pole_lines(poles: Sequence[complex], excited: Excited) -> list[str]:
    """An oscillation as its natural frequency and damping ratio, a real pole as its time constant.

    Where no input was excited, the damping is a guess, and left out.
    """
    lines = []
    for pole in poles:
        size = abs(pole)
        if pole.imag:
            outside = _outside(pole, excited)
            told = " (outside the excited band)" if outside else f", damping ratio {-pole.real / size:.3g}"
            lines.append(f"natural frequency {size:.4g} {RATE}{told}")
        elif size:
            lines.append(f"time constant {-1 / pole.real:.4g}")
    return lines
