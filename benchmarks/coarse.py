"""What limits the error on advection-diffusion-3d, whose field is sampled on 16 points along each axis.

    python benchmarks/coarse.py runs/beyond/advection-diffusion-3d/equation-0 ...   # folders of runs or models
    python benchmarks/coarse.py --designs    # also fits two other designs, about ten minutes on one core

On 200 samples of seed 1, which no table uses and no fit has seen: the error over time, over wavenumbers and over the
parameters of the forcing, and the share of u that the sampled forcing does not determine. Modes n and 16 - n of the
forcing look alike on 16 points, and the sine of mode 8 vanishes there. So one sampled forcing stands for many, and the
variance of u over them is an error that no model of these inputs can avoid. It is measured with a second draw of what
the samples leave open. benchmarks/results/coarse.json holds the figures; benchmarks/beyond.py writes the tables.
"""

import math
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tino
from tino.files import read_json, write_json
from tino.inputs import MODES, Forcing

RESULTS = Path(__file__).parent / "results" / "coarse.json"
PROBLEM, POINTS = "advection-diffusion-3d", 16
HELD_OUT, SAMPLES, PART = 1, 200, 20
TIMES = (1, 5, 10, 20, 30, 40, 49)
TRIED = {  # fitted here, with the degree and the inner steps that the search finds for `equation`
    "equation, samples' waves": {"finer": 1.0, "degree": 2, "steps": 1},
    "equation, to mode 10": {"finer": 1.25, "degree": 2, "steps": 1},
}


def redrawn(forcing: Forcing, seed: int = 0) -> Forcing:
    """Another forcing of the same law with the same samples: uniform over what they leave open."""
    generator = torch.Generator().manual_seed(seed)
    params = {name: values.clone() for name, values in forcing.params.items()}
    for name, x in params.items():
        if "_" not in name:
            continue
        sign = -1.0 if name.startswith("a") else 1.0  # of the alias of a sine, of a cosine
        for n in range(1, MODES + 1):
            m = POINTS - n
            if n < m <= MODES:  # x_n / n² ± x_m / m² is seen
                seen = x[..., n - 1] / n**2 + sign * x[..., m - 1] / m**2
                ends = [sign * (seen + one / n**2) * m**2 for one in (-1, 1)]
                low, high = torch.minimum(*ends).clamp_min(-1), torch.maximum(*ends).clamp_max(1)
                x[..., m - 1] = low + (high - low) * torch.rand(low.shape, generator=generator, dtype=low.dtype)
                x[..., n - 1] = n**2 * (seen - sign * x[..., m - 1] / m**2)
            elif n == m and sign < 0:
                x[..., n - 1] = 2 * torch.rand(x[..., 0].shape, generator=generator, dtype=x.dtype) - 1
    return Forcing(forcing.law, params)


def shells(error: Tensor) -> dict[str, list[float]]:
    """Σ |ê_k|² over the plane waves with max(|k_1|, |k_2|) = 0, 1, ..., 8, and over the waves along x_3 alone."""
    field = error.unflatten(-1, (POINTS,) * 3)
    spectrum = torch.fft.fftn(field, dim=(-3, -2, -1), norm="forward").abs().square().flatten(0, 1).mean(0)
    k = torch.fft.fftfreq(POINTS, 1 / POINTS).abs().round().long()
    plane = torch.maximum(k[:, None], k[None])
    found = {"plane": [float(spectrum[..., 0][plane == n].sum()) for n in range(POINTS // 2 + 1)]}
    found["line"] = [float(spectrum[0, 0][k == n].sum()) for n in range(1, POINTS // 2 + 1)]
    return found


def summary(error: Tensor, forcing: Forcing, hidden: Tensor) -> dict[str, Any]:
    """Of errors (n, t, x): over time, waves and samples."""
    squares = error.square().mean(-1)
    of_samples = squares.mean(1)
    amplitude = forcing.params["A"][:, 0]
    order = of_samples.sort().values
    quarters = [float(part.mean()) for part in of_samples[amplitude.argsort()].chunk(4)]
    logs = torch.stack([of_samples.log(), amplitude.log(), (amplitude * hidden).log(), forcing.params["b"][:, 0]])
    related = torch.corrcoef(logs)[0]
    return {
        "mse": float(squares.mean()),
        "by_time": {str(i): float(squares[:, i].mean()) for i in TIMES},
        "by_wave": shells(error),
        "by_quarter_of_amplitude": quarters,
        "samples": {"median": float(order[len(order) // 2]), "worst": float(order[-1])},
        "worst_tenth_of_all": float(order[-len(order) // 10 :].sum() / order.sum()),
        "correlation_of_logs": {"A": float(related[1]), "A times hidden": float(related[2]), "b": float(related[3])},
    }


def main() -> None:
    problem = tino.problem(PROBLEM)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tino.TinoWarning)  # that 16 points do not resolve the forcing: the subject
        _, others = tino.dataset(problem, seed=HELD_OUT, train=1, test=SAMPLES)
    forcing = problem.law.sample(HELD_OUT, 1, range(SAMPLES))
    second = redrawn(forcing)
    assert (problem.sensors(second) - others.f).abs().max() < 1e-5
    n = torch.arange(1, MODES + 1)
    parts = [
        ((second.params[f"{kind}_{i}"] - forcing.params[f"{kind}_{i}"]) / n**2).square()
        for kind in "ab"
        for i in (1, 2)
    ]
    hidden = torch.stack(parts).sum((0, 2, 3)).sqrt()  # of the plane's modes that the samples leave open
    found = read_json(RESULTS) if RESULTS.exists() else {}
    if "floor" not in found:
        rows = []
        for some in torch.arange(SAMPLES).split(PART):
            of_some = Forcing(second.law, {name: values[some] for name, values in second.params.items()})
            rows.append((problem.solve(of_some) - others.u[some]) / math.sqrt(2))
        found["floor"] = summary(torch.cat(rows), forcing, hidden)
    models = {Path(word).name.removesuffix("-0"): tino.load(word) for word in sys.argv[1:] if word != "--designs"}
    models |= tried() if "--designs" in sys.argv else {}
    for name, model in models.items():
        error = tino.predict(model, others.f).double() - others.u
        found[name] = {**summary(error, forcing, hidden), "readout": list(model.readout())}
    write_json(RESULTS, dict(sorted(found.items())))


def tried() -> dict[str, tino.Operator]:
    train, _ = tino.dataset(tino.problem(PROBLEM))
    found = {}
    for name, options in TRIED.items():
        found[name] = tino.build("equation", train, **options)
        tino.fit(found[name], train)
    return found


if __name__ == "__main__":
    main()
