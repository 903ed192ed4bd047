"""Many (dataset, model, seed) cells: each is trained like any run, and its result is one small JSON file.

OUT/NAME/MODEL-SEED.json is written when a cell is finished, so that a bench that was stopped, or is spread over
machines, runs each cell once. The runs themselves, with weights and checkpoints, are in another folder.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tino.devices import pick_device
from tino.errors import Stopped, TinoError, TinoWarning, in_short
from tino.files import check_writable
from tino.folders import is_finished
from tino.models.registry import MODELS, model_entry
from tino.options import DataOptions
from tino.paper import PAPER, recipe
from tino.preview import write_preview
from tino.results import Cell, Result, read_result, write_result
from tino.runs import read_run, train_run
from tino.sources import Source
from tino.text import visible
from tino.training import TrainConfig, distributed


def cells(
    sources: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    shard: tuple[int, int],
    options: DataOptions = DataOptions(),  # noqa: B008  # frozen
) -> list[Cell]:
    """Every combination, grouped by dataset; shard i of n has every n-th cell, beginning with the i-th."""
    names: dict[str, str] = {}
    for text in dict.fromkeys(sources):
        Source(text).check(options)
        if (other := names.setdefault(Source(text).name, text)) != text:
            raise TinoError(f"{other} and {text} would both have results named {Source(text).name}: rename one of them")
    for name in models:
        model_entry(name)
    found = [
        Cell(Source(text).name, model, seed, text)
        for text in dict.fromkeys(sources)
        for seed in dict.fromkeys(seeds)
        for model in dict.fromkeys(models)
    ]
    return _shard(found, shard)


def _shard(found: list[Cell], shard: tuple[int, int]) -> list[Cell]:
    if not 1 <= shard[0] <= shard[1]:
        raise TinoError(f"the shard is {shard[0]}/{shard[1]}, expected i/n with 1 <= i <= n")
    return found[shard[0] - 1 :: shard[1]]


def paper_cells(
    problems: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    shard: tuple[int, int],
    options: DataOptions = DataOptions(),  # noqa: B008  # frozen
) -> list[Cell]:
    """The cells the paper has a figure for, of these problems and models, or of all if none are named.

    A warning tells which models were named but are left out.
    """
    all_models = dict.fromkeys(model for row in PAPER.values() for model in row)
    found = cells(problems or tuple(PAPER), models or tuple(all_models), seeds, (1, 1), options)
    for text in problems:
        if text not in PAPER:
            raise TinoError(f"{text} is not one of the paper's problems: {', '.join(PAPER)}")
    kept = [cell for cell in found if cell.model in PAPER[cell.problem]]
    if problems:
        absent = [f"{model} on {name}" for model in models for name in problems if model not in PAPER[name]]
    else:
        absent = [model for model in models if model not in all_models]
    if absent:
        said = f"the paper has no figure for {', '.join(dict.fromkeys(absent))}"
        if not kept:
            raise TinoError(said)
        warnings.warn(f"left out: {said}", TinoWarning, stacklevel=2)
    return _shard(kept, shard)


def paper_config(cell: Cell, given: Mapping[str, Any]) -> TrainConfig:
    """The recipe of the cell's table; the given options of a ``TrainConfig`` override it, whatever their values."""
    if "optimizer" in given:
        given = {"lr": None, "weight_decay": 0.0, **given}  # this optimiser's own, not the recipe's
    return TrainConfig(**{**recipe(cell.problem, cell.model), **given})


def run_cell(cell: Cell, out: Path, runs: Path, options: DataOptions, config: TrainConfig) -> Result:
    """Train the cell, or continue where it stopped, and write its result."""
    folder = runs / cell.path.with_suffix("")
    source = Source(cell.source or cell.problem)
    try:
        run = None if is_finished(folder) else train_run(source, cell.model, folder, options, config, resume=True)
    except TinoError:
        if not is_finished(folder):
            raise
        run = None  # another process has just finished it
    run = run or read_run(folder)
    if other := _difference(run.result, cell, options, config):
        raise TinoError(f"{folder} was trained {other}: choose another folder of runs, or delete it")
    if cell.seed == 0 and (MODELS[cell.model].own or not source.is_problem):
        write_preview(out / cell.path.with_suffix(".safetensors"), run.preview())  # for the figures of a report
    write_result(out, run.result)
    return run.result


def _difference(result: Result, cell: Cell, options: DataOptions, config: TrainConfig) -> str:
    """What a result was trained with, if that is not what is asked for now; else nothing."""
    source = Source(cell.source or cell.problem)
    if source.fingerprint() not in (None, result.parameters_sha256):
        return f"on other contents of {source.text}"
    train, test = options.counts() if source.is_problem else (options.train, options.test)
    given = {key: value for key, value in (("train", train), ("test", test)) if value is not None}
    for held, asked in (
        (result.training, config.decisive()),
        (result.data["options"], options.overrides()),
        ({key: result.data[key] for key in given}, given),
    ):
        for name in {**asked, **held}:
            was, now = (each.get(name, "the default") for each in (held, asked))
            if was != now:
                return f"with {name} = {in_short(was, 40)}, not {in_short(now, 40)}"
    return ""


def run_bench(
    todo: list[Cell], out: Path, runs: Path, options: DataOptions, config_of: Callable[[Cell], TrainConfig]
) -> tuple[list[Result], dict[Cell, str]]:
    """Run all cells that have no result yet, one by one -> all results, and why some cells failed."""
    if distributed.launched():
        raise TinoError("a bench runs its cells one by one in one process: give each process a shard, not torchrun")
    for folder in (out, runs):
        check_writable(folder)
    configs = {cell: replace(config_of(cell), seed=cell.seed) for cell in todo}
    for device in {config.device for config in configs.values()}:
        pick_device(device)
    found, failed = [], {}
    for i, cell in enumerate(todo, 1):
        path, config = out / cell.path, configs[cell]
        try:
            if path.exists():
                known = read_result(path)
                if other := _difference(known, cell, options, config):
                    raise TinoError(f"{path} was trained {other}: choose another folder, or delete it")
                found.append(known)
                print(f"[{i}/{len(todo)}] {cell}: already finished")
                continue
            print(f"[{i}/{len(todo)}] {cell}: {config}", flush=True)
            found.append(run_cell(cell, out, runs, options, config))
        except Stopped as stopped:
            raise Stopped(stopped.step, stopped.number, "the same command") from None
        except (TinoError, torch.OutOfMemoryError) as error:  # the other cells do not need this one
            failed[cell] = str(error).splitlines()[0]
            print(f"failed: {visible(failed[cell])}", flush=True)
    return found, failed
