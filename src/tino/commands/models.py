"""Commands about models and their runs."""

import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console
from tyro.conf import OmitArgPrefixes, Positional, arg

from tino.bench import Cell, cells, paper_cells, paper_config, run_bench
from tino.commands.printing import empty_table, print_json, read_shard
from tino.devices import pick_device
from tino.errors import TinoError
from tino.evaluation import evaluate
from tino.models.zoo import MODELS, GridRecipe, Recipe
from tino.properties import certify
from tino.report.bench_report import write_bench_report
from tino.report.results import holds_results, read_results
from tino.report.runs_report import write_figures, write_report
from tino.report.tables import print_table, result_row, row
from tino.runs import DataOptions, Run, read_run, train_run
from tino.training import TrainConfig
from tino.training.tensorboard import tensorboard_log


@dataclass(frozen=True)
class Models:
    """List the models: their parts, and what these guarantee."""

    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        if self.json:
            return print_json({name: _parts(recipe) for name, recipe in MODELS.items()})
        table = empty_table("model", "mixer", "basis", "time factor", "what it is")
        for name, recipe in MODELS.items():
            parts = _parts(recipe)
            factor = "yes" if parts.get("time_factor") else "–"
            table.add_row(name, parts.get("mixer", "–"), parts.get("basis", "–"), factor, recipe.title)
        Console().print(table)
        Console().print(
            "mixer: global sees past and future, masked the past, delay the past by lag alone, late likewise without\n"
            "f(T_0). "
            "Causal: masked, delay, late. Time-invariant: delay, no time factor, basis of y only.",
            style="dim",
        )


@dataclass(frozen=True)
class Train:
    """Train a model on a problem, score and certify it, and keep all of it in a run folder."""

    problem: Annotated[Positional[str], arg(metavar="PROBLEM")]
    """Name of the problem; 'tino problems' lists them."""
    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """Name of the model; 'tino models' lists them."""
    out: Path | None = None
    """Run folder to write; runs/PROBLEM/MODEL-SEED if left out."""
    training: OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)
    data: OmitArgPrefixes[DataOptions] = field(default_factory=DataOptions)
    resume: bool = False
    """Go on from the checkpoint in the run folder, where there is one."""
    tensorboard: bool = False
    """Write the losses for TensorBoard too, into RUN/tensorboard."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        folder = self.out or Path("runs") / self.problem / f"{self.model}-{self.training.seed}"
        first = int(os.environ.get("RANK", "0")) == 0
        with tensorboard_log(folder / "tensorboard" if self.tensorboard and first else None) as log:
            done = train_run(self.problem, self.model, folder, self.data, self.training, self.resume, log)
        if done is None:
            return None
        write_figures(done)
        if self.json:
            return print_json(_summary(done))
        print_table([row(done)])
        print(f"kept in {folder}")


@dataclass(frozen=True)
class Bench:
    """Train many cells (problem, model, seed), skip the finished ones, and print one table."""

    suite: Literal["own", "paper"] = "own"
    """own: each model on each problem; paper: the cells of the paper's tables by its own recipe, docs/results.md, in
    which training options that are not left at their defaults take the place of the recipe's."""
    problems: Annotated[tuple[str, ...], arg(metavar="PROBLEM [PROBLEM ...]")] = ()
    """Names of problems; with --suite paper all of its problems if left out."""
    models: Annotated[tuple[str, ...], arg(metavar="MODEL [MODEL ...]")] = ()
    """Names of models; with --suite paper all of its models if left out."""
    seeds: Annotated[tuple[int, ...], arg(metavar="SEED [SEED ...]")] = (0,)
    """Each seed fixes a cell's data, initial weights and batches."""
    out: Path | None = None
    """Folder of the results, OUT/PROBLEM/MODEL-SEED.json; a cell that has one is not run again. results/bench, or
    results/paper with --suite paper, if left out."""
    runs: Path | None = None
    """Folder of the runs themselves: weights, checkpoints, histories; runs/ and the name of OUT if left out."""
    shard: str = "1/1"
    """i/n runs every n-th cell beginning with the i-th, for several machines."""
    training: OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)
    data: OmitArgPrefixes[DataOptions] = field(default_factory=DataOptions)
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        shard = read_shard(self.shard)
        if self.suite == "paper":
            todo = paper_cells(self.problems, self.models, self.seeds, shard)
        elif self.problems and self.models:
            todo = cells(self.problems, self.models, self.seeds, shard)
        else:
            raise TinoError("name --problems and --models, or take --suite paper")
        out = self.out or Path("results") / ("paper" if self.suite == "paper" else "bench")
        with redirect_stdout(sys.stderr):
            found, failed = run_bench(todo, out, self.runs or Path("runs") / out.name, self.data, self._recipe)
        if self.json:
            print_json({"results": found, "failed": {str(cell): reason for cell, reason in failed.items()}})
        elif found:
            print_table([result_row(record) for record in found])
            print(f"kept in {out}")
        if failed:
            some = ", ".join(f"({cell})" for cell in list(failed)[:5]) + ", ..." * (len(failed) > 5)
            raise TinoError(f"{len(failed)} of {len(todo)} cells failed: {some}")

    def _recipe(self, cell: Cell) -> TrainConfig:
        return paper_config(cell, self.training) if self.suite == "paper" else self.training


@dataclass(frozen=True)
class Evaluate:
    """Score a trained model on its test set again."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """Run folder written by 'tino train'."""
    cache: Path | None = None
    """Folder of the generated datasets."""
    device: str = "auto"
    """cpu, cuda, or auto."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        done = read_run(self.run_folder)
        _, test = done.data(self.cache)
        scores = evaluate(done.model().to(pick_device(self.device)), test)
        if self.json:
            return print_json(scores.record())
        errors = f"MSE {scores.mse_mean:.3e} ± {scores.mse_sd:.3e}, relative L2 {scores.rel_l2_mean:.3e}"
        print(f"{done.record['model']} on {done.record['problem']}, {len(test)} test samples: {errors}")


@dataclass(frozen=True)
class Certify:
    """Measure whether trained models are causal and time-invariant, in float64."""

    run_folders: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN")]
    """Run folders written by 'tino train'."""
    seed: int = 0
    """Fixes the kicks that are tried."""
    cache: Path | None = None
    """Folder of the generated datasets."""
    device: str = "auto"
    """cpu, cuda, or auto."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        answers = []
        for done in _runs(self.run_folders):
            _, test = done.data(self.cache)
            answers.append(certify(done.model().to(pick_device(self.device)), test, seed=self.seed))
            if not self.json:
                print(answers[-1])
        if self.json:
            print_json([answer.record() for answer in answers])


@dataclass(frozen=True)
class Report:
    """Compare runs, or the results of a bench: print the tables, and write a page with them and with figures."""

    folders: Annotated[Positional[tuple[Path, ...]], arg(metavar="FOLDER")]
    """Run folders written by 'tino train', or one folder of results written by 'tino bench', such as results/paper."""
    out: Path = Path("report")
    """Folder to write: index.html and its figures; of a bench report.md and tables.tex too."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        of_a_bench = [folder for folder in self.folders if holds_results(folder)]
        if of_a_bench:
            if len(self.folders) > 1:
                raise TinoError("a report is of one folder of results, or of run folders: name them one at a time")
            results = read_results(of_a_bench[0])
            page = write_bench_report(results, self.out)
            records = [record for entry in results.entries for record in entry.records]
            if self.json:
                return print_json({"page": str(page), "results": records})
            print_table([result_row(record) for record in records])
        else:
            for folder in self.folders:
                _check_reportable(folder)
            runs = _runs(self.folders)
            page = write_report(runs, self.out)
            if self.json:
                return print_json({"page": str(page), "runs": [_summary(done) for done in runs]})
            print_table([row(done) for done in runs])
        print(f"page: {page}")


def _check_reportable(folder: Path) -> None:
    if not (folder / "run.json").exists():
        above = folder.resolve().parent
        hint = f", such as {above}" if holds_results(above) else ""
        kinds = f"a run folder of 'tino train', or a folder of results of 'tino bench' (PROBLEM/MODEL-SEED.json){hint}"
        raise TinoError(f"nothing to report in {folder}: expected {kinds}")


def _parts(recipe: Recipe | GridRecipe) -> dict[str, Any]:
    return {key: value for key, value in vars(recipe).items() if not callable(value)}


def _runs(folders: tuple[Path, ...]) -> list[Run]:
    if not folders:
        raise TinoError("name at least one folder, such as runs/duffing/tino-0")
    return [read_run(folder) for folder in folders]


def _summary(done: Run) -> dict[str, Any]:
    scores = {key: done.scores[key] for key in ("mse_mean", "mse_sd", "rel_l2_mean")}
    return {"folder": str(done.folder), **done.record, **scores, "certificate": done.certificate}
