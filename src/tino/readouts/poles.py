"""The poles of small changes about an operating point: natural frequencies, damping ratios and time constants."""

from collections.abc import Sequence

import torch
from torch.func import jacrev

from tino.models.flow import Flow
from tino.parts.coefficients import CoefficientLaw, eigenvalues
from tino.parts.corrected import CorrectedLaw
from tino.readouts.terminals import Terminals

SHOWN = 4
RATE = "rad per unit of t"


def poles(ends: Terminals, settle: int) -> tuple[complex, ...]:
    """log λ / dt of a flow's law in coefficients, the slowest first; none of other models.

    λ are the eigenvalues of c_i = Σ_d A_d c_{i-ds}, A_d = ∂c_i / ∂c_{i-ds}, after so many times at the constant input.
    """
    model, f = ends.model, ends.held(1, settle + 1)
    if not isinstance(model, Flow) or not isinstance(law := model.law, CoefficientLaw | CorrectedLaw):
        return ()
    sizes = law.law.sizes if isinstance(law, CorrectedLaw) else law.sizes
    with torch.no_grad():
        memory, _ = model._first(
            model.rest(1, f.new_zeros(1, model.frame.state) if model.frame.state else None), f[:, 0]
        )
        past, before = model._run(memory, f[:, 1:-1], 1)[0] if settle > 1 else memory
        inputs = torch.cat([before, law.inputs(f[:, -1])[:, None]], 1)
    slopes = jacrev(lambda past: law(past, inputs, settle)[0])(past)[:, 0]  # (J, lags, J), the oldest first
    found = eigenvalues(slopes.detach()[:, :: sizes["stride"]].flip(1).permute(1, 2, 0))
    rates = (torch.log(found) / (model.frame.time.step * sizes["stride"])).tolist()
    return tuple(one for one in rates if abs(one) < float("inf"))


def pole_lines(poles: Sequence[complex]) -> list[str]:
    """The slowest poles: a pair as its natural frequency and damping ratio, a real one as its time constant."""
    lines = []
    for pole in [one for one in poles if one.imag >= 0][:SHOWN]:
        size = abs(pole)
        if pole.imag > 1e-9 * size:
            lines.append(f"natural frequency {size:.4g} {RATE}, damping ratio {-pole.real / size:.3g}")
        elif size:
            lines.append(f"time constant {-1 / pole.real:.4g}")
    return lines
