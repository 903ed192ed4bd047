"""Every registered model through ONNX, run by onnxruntime beside torch; those of ``results/beyond-models`` as fitted.

    python benchmarks/exports.py [MODEL ...] [PROBLEM ...]   # -> benchmarks/results/exports.json, about ten minutes
    python benchmarks/exports.py fitted                      # only those of results/beyond-models, by torch.export too

On small data: a signal (``duffing``), a periodic field (``burgers-0.1``) and a triangle; closed forms are fitted first.
What differs by more than ``tino.export`` allows is refused, what does not take the data is not built; each says why.
"""

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

import tino
from tino.files import read_json, write_json

ROOT = Path(__file__).parent.parent
RESULTS, FITTED = ROOT / "benchmarks" / "results" / "exports.json", ROOT / "results" / "beyond-models"
PROBLEMS = {
    "duffing": {"n_t": 40},
    "burgers-0.1": {"n_t": 16, "resolution": 16},
    "heat-triangle": {"n_t": 10, "resolution": 10},
}
SOLVED = ("linear", "polynomial", "linear-clock", "polynomial-clock", "flow-tino", "flow-tino-clock")


def exported(model: tino.Operator, format: str = "onnx") -> dict[str, Any]:
    """The difference, or why it was refused."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            done = tino.export(model.requires_grad_(False), Path(folder) / f"model.{format}", format)
    except tino.TinoError as error:
        return {"refused": str(error)}
    return {"difference": done.difference, "tolerance": done.tolerance}


def built(name: str, train: tino.Dataset) -> tino.Operator:
    model = tino.build(name, train)
    if name in SOLVED:
        model.solve(train)
    if not name.startswith("flow-tino"):
        return model
    with torch.no_grad():
        for p in model.parameters():  # its network begins at zero
            p.add_(0.02 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0)))
    return model


def small(name: str, train: tino.Dataset) -> dict[str, Any]:
    try:
        return exported(built(name, train))
    except tino.TinoError as error:
        return {"not built": str(error)}


def note(name: str, row: dict[str, Any]) -> None:
    found = read_json(RESULTS) if RESULTS.exists() else {}
    print(name, row, flush=True)
    write_json(RESULTS, dict(sorted({**found, name: row}.items())))


def main(asked: list[str]) -> None:
    names, chosen = [one for one in asked if one in tino.MODELS], [one for one in asked if one in PROBLEMS]
    warnings.simplefilter("ignore", tino.TinoWarning)  # the grids are coarse on purpose
    for problem, options in PROBLEMS.items():
        if "fitted" in asked or (chosen and problem not in chosen):
            continue
        train, _ = tino.dataset(tino.problem(problem, **options), train=24, test=2, show_progress=False)
        for name in names or tino.MODELS:
            note(f"{name} on {problem}", small(name, train))
    for folder in sorted(FITTED.glob("*/*")) if asked in ([], ["fitted"]) else []:
        model = tino.load(folder)
        for format in ("onnx", "pt2"):
            note(f"{model.frame.model} on {folder.parent.name}, fitted, {format}", exported(model, format))


if __name__ == "__main__":
    main(sys.argv[1:])
