"""Flows far beyond the time they were fitted on: ten times the training horizon, beside the reference.

    python benchmarks/horizon.py runs/beyond    # of every autonomous flow there -> benchmarks/results/horizon.json

The forcing law is continued over ten times the horizon and solved by the reference solver. The bar: |u| of the flow
stays within ten times the largest |u| of the reference over the same time. Nothing is clamped.
"""

import math
import sys
from dataclasses import replace
from pathlib import Path

import tino
from tino.files import read_json, write_json
from tino.runs import read_run

RESULTS = Path(__file__).parent / "results" / "horizon.json"
TIMES, SAMPLES, BAR = 10, 4, 10.0


def finite(value: float) -> float | None:
    """None where it overflows."""
    return value if math.isfinite(value) else None


def measure(folder: Path) -> dict[str, float | int | bool | None]:
    run = read_run(folder)
    problem, model = tino.problem(folder.parent.name), run.model()
    short = problem.time
    longer = tino.TimeGrid(short.start, short.start + TIMES * (short.stop - short.start), TIMES * (short.n - 1) + 1)
    problem = replace(problem, time=longer, windows=None)
    forcing = problem.law.sample(1, 1, range(SAMPLES))
    f, u = problem.sensors(forcing), problem.solve(forcing)
    ic = u[:, 0] if model.frame.state else None
    found = tino.predict(model, f, ic)
    largest, reference = float(found.abs().max()), float(u.abs().max())
    return {
        "times": longer.n,
        "largest": finite(largest),
        "largest_of_reference": reference,
        "mse": finite(float((found - u).square().mean())),
        "mse_of_the_first_tenth": finite(float((found - u)[:, : short.n].square().mean())),
        "within_bar": largest <= BAR * reference,
    }


def main() -> None:
    found = read_json(RESULTS) if RESULTS.exists() else {}
    for folder in sorted(Path(sys.argv[1]).glob("*/*-0")):
        name = f"{folder.parent.name}, {folder.name.removesuffix('-0')}"
        if name in found or not (folder / "run.json").exists() or tino.load(folder).longest is not None:
            continue
        found[name] = measure(folder)
        print(name, found[name], flush=True)
        write_json(RESULTS, dict(sorted(found.items())))


if __name__ == "__main__":
    main()
