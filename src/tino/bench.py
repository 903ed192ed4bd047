"""Many (problem, model, seed) cells: each trained like any run, its result one small JSON file.

OUT/PROBLEM/MODEL-SEED.json is written when a cell is finished, so that a bench that was stopped, or is spread over
machines, does each cell once. The runs themselves, with weights and checkpoints, lie in a folder of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tino.errors import Stopped, TinoError
from tino.examples import write_example
from tino.files import read_json, write_json
from tino.models.zoo import model_recipe, of_the_family
from tino.paper import PAPER, RECIPE, TABLES
from tino.problems import problem
from tino.runs import DataOptions, Run, read_run, train_run
from tino.training import TrainConfig, distributed


@dataclass(frozen=True)
class Cell:
    """One model on one problem from one seed."""

    problem: str
    model: str
    seed: int

    @property
    def path(self) -> Path:
        """Where its result lies in a folder of results."""
        return Path(self.problem) / f"{self.model}-{self.seed}.json"

    def __str__(self) -> str:
        return f"{self.problem}, {self.model}, seed {self.seed}"


def cells(problems: Sequence[str], models: Sequence[str], seeds: Sequence[int], shard: tuple[int, int]) -> list[Cell]:
    """Every combination, a problem's together; of n shards every n-th cell, beginning with the i-th."""
    for name in problems:
        problem(name)
    for name in models:
        model_recipe(name)
    found = [
        Cell(p, m, s) for p in dict.fromkeys(problems) for s in dict.fromkeys(seeds) for m in dict.fromkeys(models)
    ]
    return _shard(found, shard)


def _shard(found: list[Cell], shard: tuple[int, int]) -> list[Cell]:
    if not 1 <= shard[0] <= shard[1]:
        raise TinoError(f"the shard is {shard[0]}/{shard[1]}, expected i/n with 1 <= i <= n")
    return found[shard[0] - 1 :: shard[1]]


def paper_cells(
    problems: Sequence[str], models: Sequence[str], seeds: Sequence[int], shard: tuple[int, int]
) -> list[Cell]:
    """The cells the paper has a figure for, of these problems and models, or of all where none is named."""
    all_models = dict.fromkeys(model for row in PAPER.values() for model in row)
    found = cells(problems or tuple(PAPER), models or tuple(all_models), seeds, (1, 1))
    kept = [cell for cell in found if cell.model in PAPER[cell.problem]]
    if not kept:
        raise TinoError(f"the paper has no figure for {', '.join(models)} on {', '.join(problems)}")
    return _shard(kept, shard)


def paper_config(cell: Cell, asked: TrainConfig) -> TrainConfig:
    """The recipe of the cell's table; what was asked for beyond the defaults comes first."""
    table = next(table for table in TABLES if cell.problem in table.problems)
    given = {key: value for key, value in asdict(asked).items() if value != getattr(TrainConfig(), key)}
    if "optimizer" in given:
        given = {"lr": None, "weight_decay": 0.0, **given}  # its own, not another optimiser's
    own = {"epochs": table.epochs[cell.problem], "lr": table.lr, "weight_decay": table.weight_decay}
    return TrainConfig(**{**RECIPE, **own, **given})


def run_cell(cell: Cell, out: Path, runs: Path, data: DataOptions, config: TrainConfig) -> dict[str, Any]:
    """Train the cell, or go on where it was stopped, and write its result."""
    folder = runs / cell.path.with_suffix("")
    finished = (folder / "run.json").exists()
    run = read_run(folder) if finished else train_run(cell.problem, cell.model, folder, data, config, resume=True)
    assert run is not None  # one process alone
    record = result(run, cell.seed)
    if not _asked_for(record, data, config):
        raise TinoError(f"{folder} was trained with other options: choose another --runs, or delete it")
    if cell.seed == 0 and of_the_family(cell.model):
        write_example(out / cell.path.with_suffix(".safetensors"), run.example())  # for the figures of a report
    write_json(out / cell.path, record)
    return record


# what a result takes from a run's record as it is
KEPT = (
    "problem model parameters epochs steps batch_size lr train_seconds seconds_per_epoch samples_per_second "
    "peak_memory_bytes device versions commit"
)


def result(run: Run, seed: int) -> dict[str, Any]:
    """What a table needs of a finished run."""
    config = TrainConfig(**run.record["training"])
    return {
        "seed": seed,
        **{key: run.record[key] for key in KEPT.split()},
        **{key: run.scores[key] for key in ("mse_mean", "mse_sd", "rel_l2_mean", "rel_l2")},
        **{key: run.certificate[key] for key in ("causal", "time_invariant", "leak", "defect")},
        "optimizer": config.optimizer,
        "compiled": config.compile,
        "training": replace(config, seed=seed).recipe(),
        "dataset_sha256": run.record["data"]["checksum"],
        "parameters_sha256": run.record["data"]["parameters_sha256"],
        "data": {key: run.record["data"][key] for key in ("options", "train", "test")},
    }


def _asked_for(record: dict[str, Any], data: DataOptions, config: TrainConfig) -> bool:
    """Whether a result is of these training and data options."""
    sizes = {"options": data.options(), "train": data.train, "test": data.test}
    return record.get("training") == config.recipe() and record.get("data") == sizes


def run_bench(
    todo: list[Cell], out: Path, runs: Path, data: DataOptions, recipe_of: Callable[[Cell], TrainConfig]
) -> tuple[list[dict[str, Any]], dict[Cell, str]]:
    """All cells that have no result yet, one after the other -> all results, and why some failed."""
    if distributed.launched():
        raise TinoError("a bench runs its cells one by one in one process: use --shard, not torchrun")
    found, failed = [], {}
    for i, cell in enumerate(todo, 1):
        path, config = out / cell.path, replace(recipe_of(cell), seed=cell.seed)
        try:
            if path.exists():
                known = read_json(path)
                if not _asked_for(known, data, config):
                    raise TinoError(f"{path} was trained with other options: choose another --out, or delete it")
                found.append(known)
                print(f"[{i}/{len(todo)}] {cell}: finished before")
                continue
            print(f"[{i}/{len(todo)}] {cell}: {config}", flush=True)
            found.append(run_cell(cell, out, runs, data, config))
        except Stopped as stopped:
            raise Stopped(stopped.step, stopped.number, "the same command") from None
        except (TinoError, torch.OutOfMemoryError) as error:  # the other cells can do without this one
            failed[cell] = str(error).splitlines()[0]
            print(f"failed: {failed[cell]}", flush=True)
    return found, failed
