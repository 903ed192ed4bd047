"""Results of a bench, read from their files: what the tables and box plots of a comparison are made of."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from tino.bench import Cell
from tino.errors import TinoError, unknown
from tino.examples import Example, read_example
from tino.files import read_json
from tino.models.zoo import MODELS
from tino.paper import PAPER, TABLES
from tino.problems import problem_names

NUMBERS = "seed mse_mean mse_sd rel_l2_mean parameters epochs steps batch_size lr train_seconds samples_per_second"
OTHERS = "problem model rel_l2 optimizer training causal time_invariant device data"


@dataclass(frozen=True)
class Entry:
    """One model on one problem: a record for each seed."""

    problem: str
    model: str
    records: tuple[dict[str, Any], ...]

    def mean(self, key: str) -> float:
        """Over the seeds."""
        return fmean(record[key] for record in self.records)

    @property
    def mse(self) -> float:
        return self.mean("mse_mean")

    @property
    def spread(self) -> tuple[float, float] | None:
        """The smallest and largest MSE of the seeds, where there are several."""
        values = [record["mse_mean"] for record in self.records]
        return (min(values), max(values)) if len(values) > 1 else None

    @property
    def paper(self) -> tuple[float, float] | None:
        """The paper's MSE and SD."""
        return PAPER.get(self.problem, {}).get(self.model)

    @property
    def seconds_per_epoch(self) -> float:
        """Of a training under way; where a result does not have it, of the whole training."""
        whole = (record["train_seconds"] / record["epochs"] for record in self.records)
        return fmean(r.get("seconds_per_epoch", w) for r, w in zip(self.records, whole, strict=True))


@dataclass(frozen=True)
class Results:
    """All entries of a folder."""

    folder: Path
    entries: tuple[Entry, ...]

    @cached_property
    def by_name(self) -> dict[tuple[str, str], Entry]:
        return {(entry.problem, entry.model): entry for entry in self.entries}

    def of(self, problem: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.problem == problem]

    def ranked(self, problem: str) -> list[Entry]:
        """Best first, by the seeds that all models of the problem have: another seed is other data."""
        entries = self.of(problem)
        shared = set.intersection(*({record["seed"] for record in entry.records} for entry in entries))

        def mse(entry: Entry) -> float:
            return fmean(r["mse_mean"] for r in entry.records if r["seed"] in shared or not shared)

        return sorted(entries, key=mse)

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(entry.problem for entry in self.entries))

    def example(self, problem: str) -> tuple[Entry, Example] | None:
        """The most accurate model of which an example is kept, and that example."""
        for entry in self.ranked(problem):
            path = self.folder / problem / f"{entry.model}-{entry.records[0]['seed']}.safetensors"
            if path.exists():
                return entry, read_example(path)
        return None


def holds_results(folder: Path) -> bool:
    """Whether a folder looks like the results of a bench: PROBLEM/MODEL-SEED.json."""
    return any(path.parent.name in problem_names() for path in folder.glob("*/*-*.json"))


def read_results(folder: Path) -> Results:
    """Every PROBLEM/MODEL-SEED.json, in the order of the paper's tables and models."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*/*-*.json")):
        record = _checked(path)
        found.setdefault((record["problem"], record["model"]), []).append(record)
    if not found:
        raise TinoError(f"no results in {folder}: expected PROBLEM/MODEL-SEED.json, as 'tino bench' writes them")
    problems = [*[name for table in TABLES for name in table.problems], *problem_names()]
    models = [*MODELS, *sorted({model for _, model in found})]
    order = sorted(found, key=lambda key: (problems.index(key[0]), models.index(key[1])))
    entries = [Entry(p, m, tuple(sorted(found[p, m], key=lambda r: r["seed"]))) for p, m in order]
    return Results(folder, tuple(entries))


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not math.isnan(value)


def _checked(path: Path) -> dict[str, Any]:
    record = read_json(path)
    keys = [*NUMBERS.split(), *OTHERS.split()]
    if lacking := [key for key in keys if not isinstance(record, dict) or key not in record]:
        raise TinoError(f"{path} is not a result of 'tino bench': it lacks {', '.join(lacking)}")
    for key in NUMBERS.split():
        if not _number(record[key]):
            raise TinoError(f"{path}: {key} is {record[key]!r}, expected a number")
    if not isinstance(record["rel_l2"], list) or not all(map(_number, record["rel_l2"])):
        raise TinoError(f"{path}: rel_l2 holds something else than numbers")
    if record["problem"] not in problem_names():
        raise unknown("problem", str(record["problem"]), problem_names())
    cell = Cell(record["problem"], record["model"], record["seed"])
    if cell.path != Path(path.parent.name) / path.name:
        raise TinoError(f"{path} holds the result of ({cell}): expected it in {cell.path}")
    return record
