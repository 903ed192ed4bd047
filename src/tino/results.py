"""Results: one small record for each model trained on a dataset, its reader, and all the results of a folder."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from statistics import fmean
from types import UnionType
from typing import Any, get_args, get_origin

from tino.errors import TinoError
from tino.files import read_json, write_json
from tino.metrics import METRICS
from tino.models.registry import MODELS
from tino.paper import TABLES
from tino.preview import Preview, read_preview
from tino.problems import problem_names


@dataclass(frozen=True)
class Cell:
    """One model on one dataset from one seed."""

    problem: str  # the dataset's name: a problem's, or a file's without its extension
    model: str
    seed: int
    source: str | None = field(default=None, compare=False)  # the file, if it is not a problem

    @property
    def path(self) -> Path:
        """The path of its result in a folder of results."""
        return Path(self.problem) / f"{self.model}-{self.seed}.json"

    def __str__(self) -> str:
        return f"{self.problem}, {self.model}, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """All that tables, figures and pages need of a finished training run. In its file the scores are top-level keys."""

    problem: str
    model: str
    seed: int
    scores: Mapping[str, float]  # by the keys of ``tino.metrics.METRICS``; older results lack some
    rel_l2: list[float]  # of each test sample
    parameters: int
    epochs: int
    steps: int  # 0: fitted in closed form
    batch_size: int
    lr: float
    optimizer: str
    training: Mapping[str, Any]  # the options that decide the result
    train_seconds: float
    samples_per_second: float
    causal: bool
    time_invariant: bool
    device: str
    data: Mapping[str, Any]  # a problem's options, and the number of pairs
    # what older results may lack
    title: str = ""  # of the data
    output_channels: int = 1
    seconds_per_epoch: float | None = None
    peak_memory_bytes: int | None = None
    autonomous: bool | None = None
    at_rest: bool | None = None
    leak: float | None = None
    defect: float | None = None
    compiled: bool = False
    dataset_sha256: str = ""
    parameters_sha256: str = ""
    versions: Mapping[str, Any] = field(default_factory=dict)
    commit: str | None = None

    @property
    def cell(self) -> Cell:
        return Cell(self.problem, self.model, self.seed)

    @property
    def mse(self) -> float:
        return self.scores["mse_mean"]

    @property
    def compared_by(self) -> str:
        """The metric that ranks models: the MSE, or, as several channels may have several units, the relative L2."""
        return "mse_mean" if self.output_channels == 1 else "rel_l2_mean"

    def told(self, key: str) -> float | None:
        """A metric as tables show it; None, a dash, if it is absent or mixes the units of several channels."""
        mixed = METRICS[key].unit and self.output_channels > 1
        return None if mixed else self.scores.get(key)

    def record(self) -> dict[str, Any]:
        """The record written to its file."""
        return {**{key: value for key, value in vars(self).items() if key != "scores"}, **self.scores}

    @staticmethod
    def from_record(record: Any, path: Path) -> "Result":
        """From the record read from that file, checked."""
        if not isinstance(record, dict):
            raise TinoError(f"{path} is not a result: expected a JSON object")
        own = [one for one in fields(Result) if one.name != "scores"]
        needed = [one.name for one in own if one.default is MISSING and one.default_factory is MISSING]
        if lacking := [key for key in [*needed, "mse_mean", "mse_sd", "rel_l2_mean"] if key not in record]:
            raise TinoError(f"{path} is not a result of this version: it lacks {', '.join(lacking)}")
        for one in own:
            if one.name in record and not _fits(record[one.name], one.type):
                raise TinoError(
                    f"{path}: {one.name} is {_shortened(record[one.name])}, expected {WORDS[_kinds(one.type)[0]]}"
                )
        scores = {key: record[key] for key in METRICS if record.get(key) is not None}
        for key, value in scores.items():
            if not _number(value):
                raise TinoError(f"{path}: {key} is {_shortened(value)}, expected a number")
        if not all(map(_number, record["rel_l2"])):
            raise TinoError(f"{path}: rel_l2 holds values that are not numbers")
        values = {one.name: record[one.name] for one in own if one.name in record}
        return Result(**values, scores=scores)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


WORDS = {int: "a number", float: "a number", str: "text", bool: "true or false", list: "a list", Mapping: "an object"}


def _kinds(annotation: Any) -> list[Any]:
    """The types of a field: ``float | None`` -> [float, NoneType], ``list[float]`` -> [list]."""
    choices = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    return [get_origin(one) or one for one in choices]


def _fits(value: Any, annotation: Any) -> bool:
    kinds = _kinds(annotation)
    if value is not None and (int in kinds or float in kinds):
        return _number(value)
    return isinstance(value, tuple(kinds))


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def write_result(folder: Path, result: Result) -> None:
    write_json(folder / result.cell.path, result.record())


def read_result(path: Path) -> Result:
    """One result; it must lie where its cell belongs."""
    result = Result.from_record(read_json(path), path)
    if result.cell.path != Path(path.parent.name) / path.name:
        raise TinoError(f"{path} holds the result of ({result.cell}): expected it in {result.cell.path}")
    return result


# -- all the results of a folder -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One model on one dataset: a result for each seed."""

    problem: str
    model: str
    results: tuple[Result, ...]

    def mean(self, key: str) -> float | None:
        """Over the seeds, of a metric or another number; None if a result lacks it."""
        values = [r.told(key) if key in METRICS else getattr(r, key, None) for r in self.results]
        return None if None in values else fmean(values)  # pyright: ignore

    @property
    def error(self) -> float:
        """What models are ranked by: the mean over the seeds of the MSE, or of the relative L2 of several channels."""
        return fmean(result.scores[result.compared_by] for result in self.results)

    @property
    def spread(self) -> tuple[float, float] | None:
        """The smallest and largest error of the seeds, if there are several."""
        values = [result.scores[result.compared_by] for result in self.results]
        return (min(values), max(values)) if len(values) > 1 else None

    @property
    def seconds_per_epoch(self) -> float | None:
        """In the later half of training; if a result lacks it, averaged over the whole training."""
        if any(not result.epochs for result in self.results):
            return None
        return fmean(
            r.train_seconds / r.epochs if r.seconds_per_epoch is None else r.seconds_per_epoch for r in self.results
        )


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
        """Best first, by the mean over the seeds, as the tables show it."""
        return sorted(self.of(problem), key=lambda entry: entry.error)

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(entry.problem for entry in self.entries))

    def preview(self, problem: str) -> tuple[Entry, Preview] | None:
        """The most accurate model with a saved predicted sample, and that sample."""
        for entry in self.ranked(problem):
            path = self.folder / entry.results[0].cell.path.with_suffix(".safetensors")
            if path.exists():
                return entry, read_preview(path)
        return None


def holds_results(folder: Path) -> bool:
    """Whether a folder looks like the results of a bench: NAME/MODEL-SEED.json."""
    return any(path.stem.rsplit("-", 1)[-1].isdigit() for path in folder.glob("*/*-*.json"))


def read_results(folder: Path) -> Results:
    """Every NAME/MODEL-SEED.json, in the order of the paper's tables and of the registered models."""
    found: dict[tuple[str, str], list[Result]] = {}
    for path in sorted(folder.glob("*/*-*.json")):
        result = read_result(path)
        found.setdefault((result.problem, result.model), []).append(result)
    if not found:
        raise TinoError(f"no results in {folder}: expected NAME/MODEL-SEED.json, as 'tino bench' writes them")
    problems = [*[name for table in TABLES for name in table.problems], *problem_names()]
    problems += sorted({problem for problem, _ in found})
    models = [*MODELS, *sorted({model for _, model in found})]
    order = sorted(found, key=lambda key: (problems.index(key[0]), models.index(key[1])))
    entries = [Entry(p, m, tuple(sorted(found[p, m], key=lambda r: r.seed))) for p, m in order]
    return Results(folder, tuple(entries))
