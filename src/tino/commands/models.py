"""Commands about models and their runs."""

import sys
import textwrap
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console
from tyro.conf import OmitArgPrefixes, Positional, arg

from tino.commands.parsing import Given
from tino.commands.printing import print_json, read_shard, say
from tino.errors import Stopped, TinoError
from tino.folders import RUN, place_to_train
from tino.options import DataOptions
from tino.report.terminal import TextTable
from tino.training.config import TrainConfig

if TYPE_CHECKING:
    from tino.models.registry import Model
    from tino.results import Cell
    from tino.runs import Run

POOR = 50.0  # per cent of fit: below, a note says where to look


@dataclass(frozen=True)
class Models:
    """List the models and their parts, and which parts make them causal and time-invariant."""

    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.models.registry import MODELS

        if self.json:
            return print_json({name: _parts(model) for name, model in MODELS.items()})
        table = TextTable("model", "mixer", "basis", "time factor", "what it is")
        for name, model in MODELS.items():
            parts = _parts(model)
            factor = "yes" if parts.get("time_factor") else "–"
            table.add_row(name, parts.get("mixer", "–"), parts.get("basis", "–"), factor, model.title)
        Console().print(table)
        Console().print(
            "mixer: global sees past and future, masked the past, delay the past by lag only, late the same without "
            "f(T_0). Causal: masked, delay, late. Time-invariant: delay, no time factor, a basis of y only. 'tino "
            "train DATA auto' races the models that suit the data, and keeps the best.",
            style="dim",
        )


@dataclass(frozen=True)
class Train:
    """Train, score and certify a model on a dataset; save everything in a run folder."""

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Name of a problem ('tino problems' lists them), a dataset written by 'tino import' or 'tino generate', or an .npz
    file with arrays f, u and t."""
    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """Name of the model; 'tino models' lists them. auto: race those that suit the data, for the budget (5m if left
    out), and keep the best."""
    out: Path | None = None
    """Run folder (runs/NAME/MODEL-SEED if left out, where NAME is the problem or file name)."""
    training: OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)
    dataset: OmitArgPrefixes[DataOptions] = field(default_factory=DataOptions)
    resume: bool = False
    """Resume from the checkpoint in the run folder, if there is one."""
    force: bool = False
    """Replace a finished run in the run folder; it stays as it is until the new one is finished."""
    tensorboard: bool = False
    """Also write the losses for TensorBoard, into RUN/tensorboard."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        if self.out is not None:  # an error here does not wait for torch
            place_to_train(self.out, self.resume, self.force)
        from tino.report.runs_report import write_figures
        from tino.report.tables import in_units, print_race, print_scores, print_table
        from tino.runs import train_run
        from tino.sources import Source

        source = Source(self.data)
        folder = self.out or Path("runs") / source.name / f"{self.model}-{self.training.seed}"
        how = {"resume": self.resume, "force": self.force, "tensorboard": self.tensorboard}
        try:
            done = train_run(source, self.model, folder, self.dataset, self.training, **how)
        except Stopped as stopped:
            again = "--force --resume" if self.force else "--resume"
            raise Stopped(stopped.step, stopped.number, again) from None
        if done is None:
            return None
        write_figures(done)
        if self.json:
            return print_json(_summary(done))
        if done.race is not None:
            print_race(done.race)
        print_table([done.result])
        outputs = done.preview().data.output_channels
        if done.channels:
            print_scores(done.result.scores, done.channels, outputs)
        else:
            say(in_units(done.result.scores, outputs[0]))
        model = done.model()
        if (reasons := model.properties.reasons) and not done.result.time_invariant:
            say(*textwrap.wrap(f"not time-invariant: {' and '.join(reasons)}", 80, subsequent_indent="  "))
        for line in model.readout():
            say(*textwrap.wrap(line, 80, subsequent_indent="  "))
        if (fit := done.result.scores["fit"]) < POOR:
            told = "a poor fit" if fit > 0 else "no better than the mean of the outputs"
            say(f"note: {told}: tino diagnose says what suits")
        say(f"saved in {folder}")


@dataclass(frozen=True)
class Bench:
    """Train every combination of dataset, model and seed, skipping finished ones."""

    suite: Literal["own", "paper"] = "own"
    """own: each model on each dataset; paper: the cells of the paper's tables with the recipe in docs/results.md.
    Training options you give override the recipe."""
    problems: Annotated[tuple[str, ...], arg(metavar="DATA [DATA ...]")] = ()
    """Names of problems, or your own files; with --suite paper, all of its problems if left out."""
    models: Annotated[tuple[str, ...], arg(metavar="MODEL [MODEL ...]")] = ()
    """Names of models; with --suite paper, all of its models if left out."""
    seeds: Annotated[tuple[int, ...], arg(metavar="SEED [SEED ...]")] = (0,)
    """Seeds of a cell's data, initial weights and batches."""
    out: Path | None = None
    """Folder for the results, OUT/NAME/MODEL-SEED.json; a cell with a result is not run again. If left out:
    results/bench, or results/paper with --suite paper."""
    runs: Path | None = None
    """Folder for the runs: weights, checkpoints, histories; runs/ followed by the name of OUT if left out."""
    shard: str = "1/1"
    """i/n runs every n-th cell beginning with the i-th, for several machines."""
    training: OmitArgPrefixes[Given] = field(default_factory=Given)
    """Options of training; those of the recipe with --suite paper, unless given."""
    dataset: OmitArgPrefixes[DataOptions] = field(default_factory=DataOptions)
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.bench import cells, paper_cells, run_bench
        from tino.report.tables import print_table

        shard = read_shard(self.shard)
        if not self.seeds:
            raise TinoError("give --seeds one number or more")
        if self.suite == "paper":
            todo = paper_cells(self.problems, self.models, self.seeds, shard, self.dataset)
        elif self.problems and self.models:
            todo = cells(self.problems, self.models, self.seeds, shard, self.dataset)
        else:
            raise TinoError("give --problems and --models, or --suite paper")
        out = self.out or Path("results") / ("paper" if self.suite == "paper" else "bench")
        with redirect_stdout(sys.stderr):
            found, failed = run_bench(todo, out, self.runs or Path("runs") / out.name, self.dataset, self._config)
        if self.json:
            print_json(
                {
                    "results": [result.record() for result in found],
                    "failed": {str(cell): reason for cell, reason in failed.items()},
                }
            )
        elif found:
            print_table(found)
            say(f"saved in {out}")
        if failed:
            some = ", ".join(f"({cell})" for cell in list(failed)[:5]) + ", ..." * (len(failed) > 5)
            raise TinoError(f"{len(failed)} of {len(todo)} cells failed: {some}")

    def _config(self, cell: "Cell") -> TrainConfig:
        from tino.bench import paper_config

        return paper_config(cell, self.training) if self.suite == "paper" else TrainConfig(**self.training)


@dataclass(frozen=True)
class Certify:
    """Measure whether trained models are causal, autonomous and at rest, in float64."""

    run_folders: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN [RUN ...]", help_behavior_hint="(required)")]
    """Run folders written by 'tino train'."""
    seed: int = 0
    """Seed of the random inputs, changes and cuts."""
    cache: Path | None = None
    """Folder of the generated datasets."""
    device: str = "auto"
    """cpu, cuda, or auto."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.certificates import certify
        from tino.devices import pick_device

        device, answers = pick_device(self.device), []
        for done in _runs(self.run_folders):
            _, test = done.data(self.cache)
            answers.append(certify(done.model().to(device), test, seed=self.seed))
            if not self.json:
                for line in str(answers[-1]).splitlines():
                    say(line)
        if self.json:
            print_json([answer.record() for answer in answers])


@dataclass(frozen=True)
class Report:
    """Compare runs, or the results of a bench: print tables, and write a page with tables and figures."""

    folders: Annotated[
        Positional[tuple[Path, ...]], arg(metavar="FOLDER [FOLDER ...]", help_behavior_hint="(required)")
    ]
    """Run folders written by 'tino train', or one folder of results written by 'tino bench', such as results/paper."""
    out: Path = Path("report")
    """Folder for index.html and its figures; for a bench also report.md and tables.tex."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.files import check_writable
        from tino.report.bench_report import write_bench_report
        from tino.report.runs_report import labels, write_report
        from tino.report.tables import print_table
        from tino.results import holds_results, read_results

        check_writable(self.out)
        of_a_bench = [folder for folder in self.folders if holds_results(folder)]
        if of_a_bench:
            if len(self.folders) > 1:
                raise TinoError("give either one results folder or run folders, not both")
            results = read_results(of_a_bench[0])
            page = write_bench_report(results, self.out)
            found = [result for entry in results.entries for result in entry.results]
            if self.json:
                return print_json({"page": str(page), "results": [result.record() for result in found]})
            print_table(found)
        else:
            for folder in self.folders:
                _check_reportable(folder)
            runs = _runs(self.folders)
            page = write_report(runs, self.out)
            if self.json:
                return print_json({"page": str(page), "runs": [_summary(done) for done in runs]})
            print_table([done.result for done in runs], labels(runs))
        say(f"page: {page}")


def _check_reportable(folder: Path) -> None:
    from tino.results import holds_results

    if (folder / RUN).exists() or (folder / "config.json").exists():
        return  # a run, finished or not
    for below in ("*", "*/*"):
        if any(folder.glob(f"{below}/{RUN}")):
            raise TinoError(f"{folder} holds runs: give them as {folder}/{below}")
    above = folder.resolve().parent
    hint = f", such as {above}" if holds_results(above) else ""
    kinds = f"a folder written by 'tino train', or a results folder of 'tino bench' (NAME/MODEL-SEED.json){hint}"
    raise TinoError(f"nothing to report in {folder}: expected {kinds}")


def _parts(model: "Model") -> dict[str, Any]:
    from tino.models.family import Family

    built, about = model.builder, {"title": model.title, "equation": model.equation}
    if not isinstance(built, Family):
        return about
    of = "" if built.basis.kind == "constant" else " of (t, y)" if built.of_time else " of y"
    return {"mixer": built.mixer.kind, "basis": built.basis.kind + of, "time_factor": built.time_factor, **about}


def _runs(folders: tuple[Path, ...]) -> "list[Run]":
    from tino.runs import read_run

    if not folders:
        raise TinoError("name at least one folder, such as runs/duffing/tino-0")
    each_once = {folder.resolve(): folder for folder in folders}
    return [read_run(folder) for folder in each_once.values()]


def _summary(done: "Run") -> dict[str, Any]:
    race = {} if done.race is None else {"race": done.race.record()}
    return {"folder": str(done.folder), **done.result.record(), "certificate": done.certificate, **race}
