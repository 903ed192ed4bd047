"""Train one cell of the paper's tables again and compare it with the committed result.

    python benchmarks/reproduce.py lorenz pod-don             # seed 0, on a GPU if there is one
    python benchmarks/reproduce.py lorenz pod-don --seed 2

It takes the recipe from ``tino.paper``, trains in runs/reproduce, and prints both errors and their ratio. The status
is 1 if the ratio lies outside 1/2 to 2: the same seed gives the same data, weights and batches, but rounding differs
between devices, and the seeds of a cell themselves spread by up to a factor of 2.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from tino.bench import paper_cells, paper_config, run_cell
from tino.errors import TinoError
from tino.options import DataOptions
from tino.results import Result, read_result

ROOT = Path(__file__).parent.parent
COMMITTED = ROOT / "results" / "paper"
AGREES = 2.0  # the largest ratio, either way


def compare(again: Result, committed: Result) -> tuple[str, bool]:
    """A line about both errors, and whether they agree."""
    ratio = again.mse / committed.mse
    agrees = 1 / AGREES <= ratio <= AGREES
    errors = f"MSE {again.mse:.3e} on {again.device}, committed {committed.mse:.3e} on {committed.device}"
    verdict = "agrees" if agrees else f"outside a factor of {AGREES:g}"
    return f"{again.cell}: {errors}, ratio {ratio:.2f}: {verdict}", agrees


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem")
    parser.add_argument("model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "reproduce")
    asked = parser.parse_args()
    (cell,) = paper_cells((asked.problem,), (asked.model,), (asked.seed,), (1, 1))
    committed = read_result(COMMITTED / cell.path)
    config = replace(paper_config(cell, {}), seed=cell.seed)
    again = run_cell(cell, asked.out / "results", asked.out / "runs", DataOptions(), config)
    line, agrees = compare(again, committed)
    print(line)
    return 0 if agrees else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinoError as error:
        sys.exit(f"reproduce: {error}")
