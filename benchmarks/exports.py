"""Every registered model through ONNX, run by onnxruntime beside torch.

    python benchmarks/exports.py [MODEL ...] [PROBLEM ...]   # -> benchmarks/results/exports.json, about ten minutes

On small data: a signal (``duffing``), a periodic field (``burgers-0.1``) and a triangle; closed forms are fitted first.
What differs by more than ``tino.export`` allows is refused, with its line.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import tino
from tino.files import read_json, write_json

RESULTS = Path(__file__).parent / "results" / "exports.json"
PROBLEMS = {
    "duffing": {"n_t": 40},
    "burgers-0.1": {"n_t": 16, "resolution": 16},
    "heat-triangle": {"n_t": 10, "resolution": 10},
}
SOLVED = ("linear", "polynomial", "linear-clock", "polynomial-clock")


def main(asked: list[str]) -> None:
    names, chosen = [one for one in asked if one in tino.MODELS], [one for one in asked if one in PROBLEMS]
    warnings.simplefilter("ignore", tino.TinoWarning)  # the grids are coarse on purpose
    found = read_json(RESULTS) if RESULTS.exists() else {}
    for problem, options in PROBLEMS.items():
        if chosen and problem not in chosen:
            continue
        train, _ = tino.dataset(tino.problem(problem, **options), train=24, test=2, show_progress=False)
        for name in names or tino.MODELS:
            try:
                model = tino.build(name, train)
                if name in SOLVED:
                    model.solve(train)
            except tino.TinoError:  # it does not take these data
                continue
            if name == "flow-tino":
                model.float()  # as training leaves it
            try:
                with tempfile.TemporaryDirectory() as folder:
                    done = tino.export(model.requires_grad_(False), Path(folder) / "model.onnx")
                row = {"difference": done.difference, "tolerance": done.tolerance}
            except tino.TinoError as error:
                row = {"refused": str(error)}
            found[f"{name} on {problem}"] = row
            print(name, problem, row, flush=True)
            write_json(RESULTS, dict(sorted(found.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
