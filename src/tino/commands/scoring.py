"""The command that scores a trained model, on its own data or on others."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from tino.commands.printing import print_json, say
from tino.errors import TinoError, counted
from tino.options import DataOptions

if TYPE_CHECKING:
    from tino.data import Dataset
    from tino.runs import Run


@dataclass(frozen=True)
class Evaluate:
    """Score a trained model on its test set again, or on other data."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """Run folder written by 'tino train'."""
    data: str | None = None
    """Other data to score on: a dataset file, an .npz file, or the name of a problem."""
    split: Literal["test", "train"] = "test"
    """Which of the two sets."""
    burn_in: int | None = None
    """The first times of each record that are read but do not count; the data's own number if left out."""
    start: Literal["rest", "measured"] = "rest"
    """measured: the outputs of the burn-in set the model's state, where it can read them (flows and fno-step)."""
    dataset: OmitArgPrefixes[DataOptions] = field(default_factory=DataOptions)
    seed: int = 0
    """Seed of a problem given as --data, or of the draw of an .npz file's test records."""
    device: str = "auto"
    """cpu, cuda, or auto."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.devices import pick_device
        from tino.evaluation import evaluate
        from tino.report.tables import print_scores
        from tino.runs import read_run

        device = pick_device(self.device)
        done = read_run(self.run_folder)
        data = self._sets(done)[self.split == "test"]
        if self.burn_in is not None:
            data = replace(data, burn_in=self.burn_in)
        if self.start == "measured" and not data.burn_in:
            raise TinoError("--start measured reads the outputs of the burn-in: give its number of times as --burn-in")
        scores = evaluate(done.model().to(device), data, self.start)
        if self.json:
            return print_json(scores.record())
        kind = {"test": "test", "train": "training"}[self.split]
        say(f"{done.result.model} on {data.name}, {counted(len(data), f'{kind} sample')}")
        print_scores(scores.overall, scores.channels, data.output_channels)

    def _sets(self, done: "Run") -> "tuple[Dataset, Dataset]":
        from tino.sources import Source

        if self.data is not None:
            return Source(self.data).load(self.dataset, self.seed)
        if replace(self.dataset, cache=None) != DataOptions() or self.seed:
            raise TinoError("the run's own data have their own sizes and seed: give others with --data")
        return done.data(self.dataset.cache)
