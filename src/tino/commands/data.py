"""Commands about problems and their data."""

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from tyro.conf import OmitArgPrefixes, Positional, arg

from tino.commands.printing import print_json, read_shard, say
from tino.errors import TinoError
from tino.options import TEST, TRAIN, DataOptions
from tino.report.terminal import TextTable


@dataclass(frozen=True)
class Problems:
    """List the problems: equation, grids, reference solver."""

    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.problems import problem, problem_names

        chosen = [problem(name) for name in problem_names()]
        if self.json:
            return print_json([{"title": one.title, "section": one.section, **one.record()} for one in chosen])
        table = TextTable("problem", "equation", "times", "sensors -> points")
        for one in chosen:
            table.add_row(one.name, one.equation, str(one.time.n), f"{one.inputs.size} -> {one.outputs.size}")
        Console().print(table)


@dataclass(frozen=True)
class Show:
    """Draw a few samples of a problem, and print how many POD modes its inputs and outputs need."""

    problem: Annotated[Positional[str], arg(metavar="PROBLEM")]
    """Name of the problem; 'tino problems' lists them."""
    out: Path | None = None
    """Picture to write; PROBLEM.png if left out."""
    samples: int = 3
    """How many samples to draw."""
    pod: int = 100
    """Training pairs used for the POD table; 0: no table."""
    n_t: int | None = None
    """Points in time; the problem's own number if left out."""
    resolution: int | None = None
    """Points along each axis of space; the problem's own number if left out."""
    set: tuple[str, ...] = ()
    """Other options of the problem as name=value, such as boundary=frozen."""
    seed: int = 0
    """Seed of the samples."""
    device: str = "auto"
    """Where the reference solver runs: cpu, cuda, or auto."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        if not 1 <= self.samples <= 8:
            raise TinoError(f"samples is {self.samples}, expected 1 to 8")
        if self.pod < 0:
            raise TinoError(f"pod is {self.pod}, expected 0 or more")
        from tino.devices import pick_device
        from tino.files import check_writable, whole_file
        from tino.generation import dataset
        from tino.pod import CUT
        from tino.report.figures import draw_samples, png
        from tino.report.spectra import pod_rows

        chosen = DataOptions(n_t=self.n_t, resolution=self.resolution, set=self.set).problem(self.problem)
        path = self.out or Path(f"{chosen.name}.png")
        if path.is_dir():
            raise TinoError(f"{path} is a folder, expected the name of a picture, such as {path / chosen.name}.png")
        check_writable(path.parent)
        with tempfile.TemporaryDirectory() as folder:  # for a look, not for the cache
            count = max(self.samples, self.pod)
            train, _ = dataset(chosen, self.seed, count, 1, cache=folder, device=pick_device(self.device))
            picture = png(draw_samples(train.take(slice(self.samples))))
            pairs = self.pod * len(train) // count  # a trajectory may be cut into several
            rows = pod_rows(train.take(slice(pairs))) if self.pod and train.outputs.shape else []
        with whole_file(path) as part:
            part.write_bytes(picture)
        if self.json:
            return print_json({"picture": str(path), **chosen.record(), "pod": rows})
        say(f"{chosen.title}: {chosen.equation}", f"reference: {chosen.solver['name']}", f"picture: {path}")
        if rows:
            most = "which is also the most modes of (t, y) there can be"
            print(f"\nPOD of {pairs} training pairs, {most}; modes with σ_i / σ_max < {CUT:g} are cut")
            _print_pod(rows)


@dataclass(frozen=True)
class Generate:
    """Make a problem's training and test set, or find them in the cache."""

    problem: Annotated[Positional[str], arg(metavar="PROBLEM")]
    """Name of the problem; 'tino problems' lists them."""
    train: int = TRAIN
    """Training pairs."""
    test: int = TEST
    """Test pairs."""
    n_t: int | None = None
    """Points in time; the problem's own number if left out."""
    resolution: int | None = None
    """Points along each axis of space; the problem's own number if left out."""
    set: tuple[str, ...] = ()
    """Other options of the problem as name=value, such as boundary=frozen; docs/problems.md has them."""
    cache: Path | None = None
    """Folder for the dataset; $TINO_CACHE, or else the user's cache folder, if left out."""
    seed: int = 0
    """Seed of all random numbers."""
    shard: str = "1/1"
    """i/n makes the i-th of n parts, for several processes or machines that share a cache folder."""
    device: str = "auto"
    """Where the reference solver runs: cpu, cuda, or auto."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.devices import pick_device
        from tino.generation import generate
        from tino.storage import read_record

        chosen = DataOptions(n_t=self.n_t, resolution=self.resolution, set=self.set).problem(self.problem)
        device = pick_device(self.device)
        shard = read_shard(self.shard)
        path = generate(chosen, self.seed, self.train, self.test, self.cache, device, shard=shard)
        if path is None:
            state = {"path": None, "shard": self.shard}
            return (
                print_json(state) if self.json else print(f"shard {self.shard} is done; the file waits for the others")
            )
        if self.json:
            return print_json({"path": str(path), **read_record(path)})
        size = path.stat().st_size / 2**20
        say(str(path), f"{self.train} training and {self.test} test pairs, {size:.0f} MiB")


@dataclass(frozen=True)
class Diagnose:
    """Test whether data look causal, autonomous and at rest, and whether u is the state; name a model to begin with."""

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """A dataset written by 'tino import' or 'tino generate', an .npz file with arrays f, u and t, or the name of a
    problem."""
    dataset: OmitArgPrefixes[DataOptions] = field(default_factory=DataOptions)
    seed: int = 0
    """Seed of the choice of samples."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.diagnosis import diagnose
        from tino.sources import Source, read_arrays

        source, options = Source(self.data), self.dataset
        if source.is_problem:  # 200 pairs are enough, and none are needed for a test
            train, test = options.counts(200, 1)
            options = replace(options, train=train, test=test)
        if self.data.endswith(".npz"):
            source.check(options)
            train = read_arrays(self.data)
        else:
            train, _ = source.load(options, self.seed)
        found = diagnose(train, self.seed)
        print_json(found.record()) if self.json else say(*str(found).split("\n"))


def _print_pod(rows: list[dict[str, Any]]) -> None:
    from tino.report.spectra import SHARES

    table = TextTable("snapshots", "points", *[f"{100 * share:.7g} %" for share in SHARES], "kept", "lost")
    for row in rows:
        counts = [str(count) if count else "–" for count in row["modes_for_energy"].values()]
        table.add_row(row["snapshots"], str(row["points"]), *counts, str(row["kept"]), f"{row['lost']:.1e}")
    Console().print(table)
    Console().print(
        "Modes that hold a share of the energy, modes kept, and the relative L2 error these leave. The inputs' modes "
        "are the family's sensors, where they are at most half the points; those of the first quartile of time the "
        "basis of pod-tino, spod-trtino, spod-don and tc-spod-don; those of (t, y) pod-don's.",
        style="dim",
    )
