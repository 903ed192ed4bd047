"""What matters for accuracy: the suite's recipe, mostly shortened, one thing changed at a time; and its length.

    python benchmarks/recipe.py            # 4 hours on one core, FNO's apart -> benchmarks/results/recipe.json
    python benchmarks/recipe.py lorenz     # only the studies with these words in their names

Each study is written when it ends, and one that has a result is not run again. Errors are those on 200 samples of
another seed, never on the test samples of the tables, which leave that seed out. docs/results.md shows them.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from choices import data, device

import tino
from tino.bench import paper_config
from tino.environment import environment
from tino.files import read_json, write_json
from tino.paper import PaperTable
from tino.results import Cell

RESULTS = Path(__file__).parent / "results" / "recipe.json"
OF_MODELS = ("modes", "input_sum", "first_size", "snapshots", "waves", "decays")  # options of ``tino.build``


@dataclass(frozen=True)
class Study:
    """A cell, trained for so many epochs, with something changed: options of the training, or of the model."""

    problem: str
    model: str
    epochs: int
    change: str
    training: dict[str, Any]
    built: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.problem}, {self.model}, {self.epochs} epochs: {self.change}"


def _on(problem: str, model: str, epochs: int, changes: dict[str, dict[str, Any]]) -> list[Study]:
    return [
        Study(
            problem,
            model,
            epochs,
            change,
            {key: value for key, value in what.items() if key not in OF_MODELS},
            {key: value for key, value in what.items() if key in OF_MODELS},
        )
        for change, what in changes.items()
    ]


AS_IT_IS: dict[str, dict[str, Any]] = {"as it is": {}}
DECAYS: dict[str, dict[str, Any]] = {f"weight decay {decay:g}": {"weight_decay": decay} for decay in (0.3, 1.0)}
WITH_DECAY = {"weight decay 0.3": DECAYS["weight decay 0.3"]}  # as in the tables of two and three dimensions
SIZES: dict[str, dict[str, Any]] = {
    **{f"inputs summing up to {size:g}": {"input_sum": size} for size in (10.0, 250.0)},
    **{f"first layer beginning at {first:g}": {"first_size": first} for first in (0.05, 2.0)},
}
FITTING: dict[str, dict[str, Any]] = {
    "weight decay 0.6": {"weight_decay": 0.6},
    "rate 0.01, weight decay 0.6": {"lr": 1e-2, "weight_decay": 0.6},
}
TIME: dict[str, dict[str, Any]] = {  # of models whose networks see the time and no point of space
    "t with waves": {"decays": 0},
    "t as one number": {"waves": 0, "decays": 0},
}
STUDIES = [
    *_on("burgers-0.1", "fno", 125, AS_IT_IS | DECAYS),
    *_on("burgers-0.1", "spod-don", 100, AS_IT_IS | SIZES | DECAYS),
    *_on("burgers-0.01", "spod-don", 100, AS_IT_IS | SIZES | DECAYS),
    *_on("lorenz", "don", 200, AS_IT_IS | SIZES | TIME | {"rate 0.01": {"lr": 1e-2}}),
    *_on(
        "fitting-time",
        "don",
        600,
        AS_IT_IS
        | SIZES
        | DECAYS
        | FITTING
        | {
            "a tenth kept for validation": {"validation": 0.1},
            "adam": {"optimizer": "adam", "lr": 1e-3},
            "adamw, weight decay 0.3": {"optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.3},
        },
    ),
    *_on("fitting-time", "pod-don", 600, AS_IT_IS | SIZES | DECAYS | FITTING),
    *_on("heat-triangle", "spod-trtino", 80, AS_IT_IS | SIZES | DECAYS),
    *_on("advection-diffusion-3d", "spod-trtino", 40, AS_IT_IS | SIZES | DECAYS | {"rate 0.01": {"lr": 1e-2}}),
    *_on("advection-diffusion-3d", "spod-trtino", 200, AS_IT_IS),
    *[
        study
        for epochs in (200, 300, 400, 500, 600)
        for study in _on("advection-diffusion-3d", "spod-trtino", epochs, WITH_DECAY)
    ],
    *_on(
        "burgers-0.1",
        "spod-trtino",
        60,
        AS_IT_IS
        | SIZES
        | TIME
        | DECAYS
        | {
            "rate 0.01": {"lr": 1e-2},
            "32 random times a step": {"times": 32},
            "averaged weights (0.99)": {"average": 0.99},
            "64 branch modes": {"modes": 64},
            "POD of all times": {"snapshots": "all"},
        },
    ),
]


def run(study: Study) -> dict[str, Any]:
    config = paper_config(Cell(study.problem, study.model, 0), {})
    config = replace(config, **{"lr": PaperTable.lr, "weight_decay": 0.0, **study.training, "epochs": study.epochs})
    train, others = data(study.problem)
    model = tino.build(study.model, train, **study.built)
    history = tino.fit(model, train, config)
    fitted, held_out = tino.evaluate(model, train.take(slice(0, 200))), tino.evaluate(model, others)
    return {
        "problem": study.problem,
        "model": study.model,
        "epochs": study.epochs,
        "steps": history.steps,
        "change": study.change,
        "held_out_mse": held_out.mse_mean,
        "train_mse": fitted.mse_mean,
        **{key: environment(device())[key] for key in ("device", "commit")},
    }


def main() -> None:
    found = read_json(RESULTS) if RESULTS.exists() else {}
    for study in STUDIES:
        if study.name not in found and all(word in study.name for word in sys.argv[1:]):
            found[study.name] = run(study)
            write_json(RESULTS, found)
            print(study.name, found[study.name])


if __name__ == "__main__":
    main()
