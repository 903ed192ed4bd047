"""What the tables' recipe was chosen by: trainings of the tables' cells, scored on samples that no table uses.

    python benchmarks/choices.py                      # all, several side by side; half an hour on an H200
    python benchmarks/choices.py lorenz fno           # only those with these words in their names
    python benchmarks/choices.py --workers 6 --file F # so many at a time; into F instead

Each is written to benchmarks/results/choices.json when it ends, and one that is there is not run again. The rules,
which ``chosen_fitting`` and ``chosen_length`` apply and a test compares with ``tino.paper``:

- rate and weight decay of each cell of the fitting table: the pair of one list with the least held-out MSE, at the
  longest length;
- the length of a problem, one for all its models: a quarter, a half or all of its longest length, whichever has the
  least geometric mean of held-out MSEs over its models. The longest length is the longest that any result of the
  problem was ever committed with, so a length is never shortened to save time.

U-Net takes no part in the choice of lengths, nor FNO above one dimension: their trainings take minutes.
"""

import argparse
import math
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import tino
from tino.environment import environment
from tino.files import read_json, write_json
from tino.paper import PAPER, RECIPE, TABLES
from tino.report.tables import short

RESULTS = Path(__file__).parent / "results" / "choices.json"
HELD_OUT = 1  # the seed whose test samples things are chosen on: no table may have it
SAMPLES = 200
LONGEST = {
    **dict.fromkeys(("fitting-time", "fitting-space", "duffing", "gradient-flow", "lorenz"), 600),
    **dict.fromkeys(("allen-cahn", "burgers-0.1", "burgers-0.01", "convection-diffusion", "advection-reaction"), 250),
    **{"navier-stokes": 100, "navier-stokes-ic": 20, "advection-diffusion-3d": 500, "heat-triangle": 130},
}
FITTING = TABLES[0].problems
FITTING_RATES, FITTING_DECAYS = (5e-3, 1e-2, 2e-2), (0.0, 0.1, 0.3, 0.6, 1.0)
FITTING_LIST = [(rate, decay) for rate in FITTING_RATES for decay in FITTING_DECAYS]
ABOVE_1D = TABLES[3].problems
RATES = (2.5e-3, 5e-3, 1e-2)
RATE_TRIALS = [
    *[("burgers-0.1", model) for model in ("fno", "don", "spod-trtino")],
    *[("lorenz", model) for model in ("fno", "don", "trtino")],
    *[("navier-stokes", model) for model in ("don", "spod-trtino")],
]


@dataclass(frozen=True)
class Trial:
    """One cell trained for so many epochs at this rate and weight decay, from seed 0."""

    problem: str
    model: str
    epochs: int
    lr: float
    weight_decay: float

    @property
    def name(self) -> str:
        options = f"{self.epochs} epochs, rate {self.lr:g}, weight decay {self.weight_decay:g}"
        return f"{self.problem}, {self.model}: {options}"


def lengths(problem: str) -> list[int]:
    return [LONGEST[problem] // 4, LONGEST[problem] // 2, LONGEST[problem]]


def models(problem: str) -> list[str]:
    """Those that take part in the choice of the length."""
    return [model for model in PAPER[problem] if model != "unet" and not (model == "fno" and problem in ABOVE_1D)]


def _table_options(problem: str) -> tuple[float, float]:
    table = next(table for table in TABLES if problem in table.problems)
    return table.lr, table.weight_decay


def fitting_trials() -> list[Trial]:
    return [
        Trial(problem, model, LONGEST[problem], *pair)
        for problem in FITTING
        for model in PAPER[problem]
        for pair in FITTING_LIST
    ]


def length_trials(found: dict[str, Any]) -> Iterator[Trial]:
    """Those of the fitting table follow when its rates and weight decays are chosen."""
    for problem in PAPER:
        for model in models(problem):
            pair = chosen_fitting(found, problem, model) if problem in FITTING else _table_options(problem)
            if pair:
                yield from (Trial(problem, model, epochs, *pair) for epochs in lengths(problem))


def rate_trials() -> list[Trial]:
    return [
        Trial(problem, model, lengths(problem)[0], rate, _table_options(problem)[1])
        for problem, model in RATE_TRIALS
        for rate in RATES
    ]


# -- the rules -------------------------------------------------------------------------------------------------


def chosen_fitting(found: dict[str, Any], problem: str, model: str) -> tuple[float, float] | None:
    """The pair of the list with the least held-out MSE; None until all of the list are there."""
    errors = {}
    for trial in fitting_trials():
        if (trial.problem, trial.model) == (problem, model):
            if trial.name not in found:
                return None
            errors[trial.lr, trial.weight_decay] = found[trial.name]["held_out_mse"]
    return min(errors, key=errors.__getitem__)


def length_errors(found: dict[str, Any], problem: str) -> dict[int, dict[str, float]]:
    """Held-out MSEs by length and model."""
    rows: dict[int, dict[str, float]] = {epochs: {} for epochs in lengths(problem)}
    for trial in length_trials(found):
        if trial.problem == problem and trial.name in found:
            rows[trial.epochs][trial.model] = found[trial.name]["held_out_mse"]
    return rows


def geometric_mean(errors: dict[str, float]) -> float:
    return math.exp(sum(map(math.log, errors.values())) / len(errors))


def chosen_length(found: dict[str, Any], problem: str) -> int | None:
    """The length with the least geometric mean; None until all models have all lengths."""
    rows = length_errors(found, problem)
    if any(set(row) != set(models(problem)) for row in rows.values()):
        return None
    return min(rows, key=lambda epochs: geometric_mean(rows[epochs]))


# -- the page's tables -----------------------------------------------------------------------------------------


def _row(begin: str, errors: dict[Any, float | None], bold: Any) -> str:
    """The errors of a row, one of them in bold; a dash where there is none."""
    texts = {key: "–" if error is None else short(error) for key, error in errors.items()}
    return f"| {begin} | {' | '.join(f'**{text}**' if key == bold else text for key, text in texts.items())} |"


def _error(found: dict[str, Any], trial: Trial) -> float | None:
    return found.get(trial.name, {}).get("held_out_mse")


def fitting_lines(found: dict[str, Any]) -> str:
    lines = [f"| problem | model | rate | {' | '.join(f'weight decay {decay:g}' for decay in FITTING_DECAYS)} |"]
    lines.append(f"| :--- | :--- | ---: |{' ---: |' * len(FITTING_DECAYS)}")
    for problem in FITTING:
        for model in PAPER[problem]:
            at = {pair: _error(found, Trial(problem, model, LONGEST[problem], *pair)) for pair in FITTING_LIST}
            chosen = chosen_fitting(found, problem, model)
            for rate in FITTING_RATES:
                errors = {decay: at[rate, decay] for decay in FITTING_DECAYS}
                lines.append(
                    _row(f"{problem} | {model} | {rate:g}", errors, chosen[1] if chosen and chosen[0] == rate else None)
                )
    return "\n".join(lines)


def length_lines(found: dict[str, Any]) -> str:
    lines = ["| problem | models | a quarter | a half | the longest | epochs |", f"| :--- | ---: |{' ---: |' * 4}"]
    for problem in PAPER:
        rows = length_errors(found, problem)
        complete = {epochs: set(row) == set(models(problem)) for epochs, row in rows.items()}
        means = {epochs: geometric_mean(row) if complete[epochs] else None for epochs, row in rows.items()}
        chosen = chosen_length(found, problem)
        lines.append(f"{_row(f'{problem} | {len(models(problem))}', means, chosen)} {chosen or '–'} |")
    return "\n".join(lines)


def rate_lines(found: dict[str, Any]) -> str:
    lines = [f"| problem | model | epochs | {' | '.join(f'rate {rate:g}' for rate in RATES)} |"]
    lines.append(f"| :--- | :--- | ---: |{' ---: |' * len(RATES)}")
    for problem, model in RATE_TRIALS:
        epochs, decay = lengths(problem)[0], _table_options(problem)[1]
        errors = {rate: _error(found, Trial(problem, model, epochs, rate, decay)) for rate in RATES}
        least = min((error for error in errors.values() if error is not None), default=None)
        best = next((rate for rate, error in errors.items() if error is not None and error == least), None)
        lines.append(_row(f"{problem} | {model} | {epochs}", errors, best))
    return "\n".join(lines)


# -- running ---------------------------------------------------------------------------------------------------


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@lru_cache(maxsize=2)
def data(name: str) -> tuple[tino.Dataset, tino.Dataset]:
    """The table's training samples, and samples of another seed to choose on."""
    train, _ = tino.dataset(tino.problem(name), device=device())
    _, others = tino.dataset(tino.problem(name), seed=HELD_OUT, train=1, test=SAMPLES, device=device())
    return train, others


def run(trial: Trial) -> tuple[str, dict[str, Any] | str]:
    """The trial's name, and its result or why it failed."""
    try:
        return trial.name, train_and_score(trial)
    except (tino.TinoError, RuntimeError) as error:  # out of memory beside the others, say: the next round tries again
        return trial.name, str(error).splitlines()[0]
    finally:
        torch.cuda.empty_cache()


def train_and_score(trial: Trial) -> dict[str, Any]:
    train, others = data(trial.problem)
    options = {"epochs": trial.epochs, "lr": trial.lr, "weight_decay": trial.weight_decay}
    model = tino.build(trial.model, train)
    tino.fit(model, train, tino.TrainConfig(**{**RECIPE, **options}), show_progress=False)  # pyright: ignore
    held_out = tino.evaluate(model, others)
    about = {key: environment(device())[key] for key in ("device", "commit")}
    return {**asdict(trial), "held_out_mse": held_out.mse_mean, "samples": len(others), **about}


def make_data(name: str) -> None:
    data(name)
    data.cache_clear()
    torch.cuda.empty_cache()  # the other workers need the room


def cost(trial: Trial) -> float:
    """Roughly, and those of the fitting table first: others wait for them."""
    first = 1e5 if trial.problem in FITTING else 0
    return first + {"fno": 10, "tino": 3, "trtino": 3, "tc-don": 2}.get(trial.model, 1) * trial.epochs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only trials with these words in their names")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--file", type=Path, default=RESULTS)
    asked = parser.parse_args()
    found: dict[str, Any] = read_json(asked.file) if asked.file.exists() else {}

    def missing() -> list[Trial]:
        trials = dict.fromkeys([*fitting_trials(), *length_trials(found), *rate_trials()])
        asked_for = [trial for trial in trials if all(word in trial.name for word in asked.words)]
        return sorted((trial for trial in asked_for if trial.name not in found), key=cost, reverse=True)

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with multiprocessing.get_context("spawn").Pool(asked.workers) as pool:
        pool.map(make_data, dict.fromkeys(trial.problem for trial in missing()), chunksize=1)
        known = -1
        while len(found) > known and (todo := missing()):  # a second round for the lengths of the fitting table
            known = len(found)
            for name, result in pool.imap_unordered(run, todo):
                if isinstance(result, str):
                    print(f"{name} failed: {result}", flush=True)
                    continue
                found[name] = result
                write_json(asked.file, dict(sorted(found.items())))
                print(f"{name}: {result['held_out_mse']:.3e}", flush=True)
    for problem in PAPER:
        print(problem, chosen_length(found, problem))


if __name__ == "__main__":
    main()
