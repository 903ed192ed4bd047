"""The command line: parse, call, print."""

import json
import os
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, arg, subcommand

from tino.data import read_record
from tino.devices import pick_device
from tino.errors import TinoError, TinoWarning
from tino.evaluation import evaluate
from tino.files import whole_file
from tino.generation import generate
from tino.models.zoo import MODELS, GridRecipe, Recipe
from tino.problems import problem, problem_names
from tino.properties import certify
from tino.report.figures import draw_samples, png
from tino.report.page import write_report
from tino.report.tables import print_table, row
from tino.runs import DataOptions, Run, read_run, train_run
from tino.training import TrainConfig
from tino.version import VERSION

ABOUT = """Learn how physical systems respond over time.

A first run: 'tino train duffing trtino --epochs 50 --out runs/first', then 'tino report runs/first'."""


@dataclass(frozen=True)
class Problems:
    """List the problems: equation, grids, reference solver."""

    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        chosen = [problem(name) for name in problem_names()]
        records = [{"title": one.title, "section": one.section, **one.record()} for one in chosen]
        if self.json:
            return _json(records)
        table = _table("problem", "equation", "times", "sensors -> points")
        for chosen in map(problem, problem_names()):
            sizes = f"{chosen.inputs.size} -> {chosen.outputs.size}"
            table.add_row(chosen.name, chosen.equation, str(chosen.time.n), sizes)
        Console().print(table)


@dataclass(frozen=True)
class Models:
    """List the models: their parts, and what these guarantee."""

    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        if self.json:
            return _json({name: _parts(recipe) for name, recipe in MODELS.items()})
        table = _table("model", "mixer", "basis", "time factor", "what it is")
        for name, recipe in MODELS.items():
            parts = _parts(recipe)
            factor = "yes" if parts.get("time_factor") else "–"
            table.add_row(name, parts.get("mixer", "–"), parts.get("basis", "–"), factor, recipe.title)
        Console().print(table)
        Console().print(
            "mixer: global sees past and future, masked the past, delay the past by lag alone.\n"
            "Causal: masked and delay. Time-invariant: delay, no time factor, basis of y only.",
            style="dim",
        )


@dataclass(frozen=True)
class Show:
    """Draw a few samples of a problem: inputs and responses."""

    problem: Annotated[Positional[str], arg(metavar="PROBLEM")]
    """Name of the problem; 'tino problems' lists them."""
    out: Path | None = None
    """Picture to write; PROBLEM.png if left out."""
    samples: int = 3
    """How many samples."""
    n_t: int | None = None
    """Points in time; the paper's number if left out."""
    resolution: int | None = None
    """Points along each axis of space; the paper's number if left out."""
    set: tuple[str, ...] = ()
    """Other options of the problem as name=value, such as boundary=frozen."""
    seed: int = 0
    """Fixes which samples."""
    device: str = "auto"
    """Where the reference solver runs: cpu, cuda, or auto."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        chosen = DataOptions(n_t=self.n_t, resolution=self.resolution, set=self.set).problem(self.problem)
        picture = png(draw_samples(chosen, self.samples, self.seed, pick_device(self.device)))
        path = self.out or Path(f"{chosen.name}.png")
        with whole_file(path) as part:
            part.write_bytes(picture)
        if self.json:
            return _json({"picture": str(path), **chosen.record()})
        print(f"{chosen.title}: {chosen.equation}\nreference: {chosen.solver['name']}\npicture: {path}")


@dataclass(frozen=True)
class Generate:
    """Make a problem's training and test set, or find them in the cache."""

    problem: Annotated[Positional[str], arg(metavar="PROBLEM")]
    """Name of the problem; 'tino problems' lists them."""
    data: OmitArgPrefixes[DataOptions] = field(default_factory=DataOptions)
    seed: int = 0
    """Fixes every random number."""
    shard: str = "1/1"
    """i/n makes the i-th of n parts, for several processes or machines on one cache folder."""
    device: str = "auto"
    """Where the reference solver runs: cpu, cuda, or auto."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        chosen = self.data.problem(self.problem)
        device = pick_device(self.device)
        shard = _shard(self.shard)
        path = generate(chosen, self.seed, self.data.train, self.data.test, self.data.cache, device, shard=shard)
        if path is None:
            state = {"path": None, "shard": self.shard}
            return _json(state) if self.json else print(f"shard {self.shard} is done; the file waits for the others")
        if self.json:
            return _json({"path": str(path), **read_record(path)})
        size = path.stat().st_size / 2**20
        print(f"{path}\n{self.data.train} training and {self.data.test} test pairs, {size:.0f} MiB")


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
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        folder = self.out or Path("runs") / self.problem / f"{self.model}-{self.training.seed}"
        done = train_run(self.problem, self.model, folder, self.data, self.training)
        if self.json:
            return _json(_summary(done))
        print_table([row(done)])
        print(f"kept in {folder}")


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
            return _json(scores.record())
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
            _json([answer.record() for answer in answers])


@dataclass(frozen=True)
class Report:
    """Compare runs: print one table, and write a page with the table, loss curves and examples."""

    run_folders: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN")]
    """Run folders written by 'tino train'."""
    out: Path = Path("report")
    """Folder to write; its index.html is the page."""
    cache: Path | None = None
    """Folder of the generated datasets."""
    device: str = "auto"
    """Where the examples are predicted: cpu, cuda, or auto."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        runs = _runs(self.run_folders)
        page = write_report(runs, self.out, self.cache, pick_device(self.device))
        if self.json:
            return _json({"page": str(page), "runs": [_summary(done) for done in runs]})
        print_table([row(done) for done in runs])
        print(f"page: {page}")


Command = (
    Annotated[Problems, subcommand("problems")]
    | Annotated[Models, subcommand("models")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Generate, subcommand("generate")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Certify, subcommand("certify")]
    | Annotated[Report, subcommand("report")]
)


def run(arguments: list[str]) -> int:
    """Run one command -> the exit status: 0, 1 for a failed check, 2 for a wrong call, 130 for Ctrl-C."""
    if arguments == ["--version"]:
        print(f"tino {VERSION}")
        return 0
    with warnings.catch_warnings():
        warnings.showwarning = _one_line
        try:
            command = tyro.cli(
                Command,  # pyright: ignore
                prog="tino",
                description=ABOUT,
                args=arguments or ["--help"],
                config=(FlagCreatePairsOff,),
            )
            command.run()
        except BrokenPipeError:  # the reader of our output has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (TinoError, OSError) as error:
            print(f"tino: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("tino: stopped; nothing half-written is left, finished parts of a dataset are kept", file=sys.stderr)
            return 130
    return 0


def _parts(recipe: Recipe | GridRecipe) -> dict[str, Any]:
    return {key: value for key, value in vars(recipe).items() if not callable(value)}


def _runs(folders: tuple[Path, ...]) -> list[Run]:
    if not folders:
        raise TinoError("name at least one run folder, such as runs/duffing/tino-0")
    return [read_run(folder) for folder in folders]


def _shard(text: str) -> tuple[int, int]:
    try:
        i, n = map(int, text.split("/"))
    except ValueError:
        raise TinoError(f"the shard is '{text}', expected i/n such as 1/4") from None
    return i, n


def _one_line(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Our own warnings as one line; torch's and others' as they are."""
    prefix = "note: " if issubclass(category, TinoWarning) else f"{category.__name__}: "
    print(f"tino: {prefix}{message}", file=sys.stderr)


def _summary(done: Run) -> dict[str, Any]:
    scores = {key: done.scores[key] for key in ("mse_mean", "mse_sd", "rel_l2_mean")}
    return {"folder": str(done.folder), **done.record, **scores, "certificate": done.certificate}


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading)
    return table


def _json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
