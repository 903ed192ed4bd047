"""Commands that measure a finished run: read-outs, a band, its card."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from tino.commands.printing import print_json, say
from tino.errors import TinoError
from tino.folders import RESPONSES

if TYPE_CHECKING:
    from torch import Tensor

    from tino.data import Dataset
    from tino.runs import Run

RunFolder = Annotated[Positional[Path], arg(metavar="RUN")]


@dataclass(frozen=True)
class Readout:
    """Read a model's impulse, frequency and second-order response, static gain, memory, and the band its training
    excited."""

    run_folder: RunFolder
    """Run folder written by 'tino train'; readout.json and its figures are written into it."""
    level: Annotated[tuple[float, ...], arg(metavar="VALUE [VALUE ...]")] = ()
    """Root mean square of the multisines, one for all input channels or one for each; that of the training inputs if
    left out."""
    point: Annotated[tuple[float, ...], arg(metavar="VALUE [VALUE ...]")] = ()
    """Constant input about which small changes are read, one for each input channel; 0 if left out, or the middle of
    the training inputs if 0 is outside them."""
    input_point: int | None = None
    """Which point of an input field is driven, counted from 0."""
    output_point: int | None = None
    """Which point of an output field is read, counted from 0."""
    seed: int = 0
    """Seed of the multisines' phases."""
    cache: Path | None = None
    """Folder of the generated datasets."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.readouts.readout import read_out
        from tino.report.runs_report import write_responses
        from tino.runs import read_run

        done = read_run(self.run_folder)
        found = read_out(
            done.model(),
            done.data(self.cache)[0],
            level=self.level[0] if len(self.level) == 1 else self.level or None,
            point=self.point or None,
            input_point=self.input_point,
            output_point=self.output_point,
            seed=self.seed,
        )
        found.save(done.folder)
        write_responses(done)
        if self.json:
            return print_json(found.record())
        say(f"{done.result.model} on {done.result.problem}", *found.lines())
        say(f"figures in {done.folder}: {', '.join(RESPONSES[:3])}")


@dataclass(frozen=True)
class Calibrate:
    """Find a band around a model's predictions that holds over a whole record with a chosen probability."""

    run_folder: RunFolder
    """Run folder written by 'tino train'; band.json and band.png are written into it."""
    data: Path | None = None
    """Records to calibrate on, all of an .npz or dataset file that the model was not trained on. If left out: half of
    the run's test records, and the band is tried on the other half."""
    level: float = 0.9
    """Probability with which the band holds over a record."""
    blocks: int = 0
    """Cut each record into so many blocks, for a few long records; the band then holds over a block, approximately."""
    seed: int = 0
    """Seed that draws the half."""
    cache: Path | None = None
    """Folder of the generated datasets."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        import torch

        from tino.bands import band_of, rank_of, record_scores
        from tino.report.runs_report import write_band
        from tino.runs import read_run

        done = read_run(self.run_folder)
        rank_of(10**9, self.level)  # a level that is none fails before any data are read
        model, test, drawn = done.model(), done.data(self.cache)[1], None
        if self.data is None:
            drawn, others = self._halves(len(test))
            these = f"half of the {len(test)} test records"
            of = f"{these}, drawn with seed {self.seed}"
            parts, test = [test.take(drawn)], test.take(others)
        else:
            parts = self._records(done)
            of = these = f"all {sum(map(len, parts))} records of {self.data}"
        scores = torch.cat([record_scores(model, part, self.blocks) for part in parts])
        try:
            band = band_of(model, scores, self.level, self.blocks)
        except TinoError as error:
            raise TinoError(f"{error} ({these}: give more with --data, or use --blocks)") from error
        coverage = band.coverage(test)
        used = {} if drawn is None else {"test_records": drawn.tolist()}
        band.save(done.folder, {"calibration": of, "coverage": str(coverage), **used})
        write_band(done)
        if self.json:
            counted = {"blocks" if band.blocks else "records": coverage.records}
            error = {} if band.blocks else {"error": coverage.error}
            shares = {"share": coverage.share, **counted, **error}
            return print_json({**band.record(), "calibration": of, "coverage": shares})
        widths = zip(model.frame.output_channels, band.width, strict=True)
        say(f"calibrated on {of}", *(f"{c.name} ± {w:.4g} {c.unit}".rstrip() for c, w in widths))
        say(f"the band {band.about}", str(coverage), f"saved in {done.folder / 'band.json'}")

    def _halves(self, count: int) -> "tuple[Tensor, Tensor]":
        import torch

        order = torch.randperm(count, generator=torch.Generator().manual_seed(self.seed))
        if count < 2:
            raise TinoError(f"the run has {count} test record, which cannot be halved: give records with --data")
        return order[: count // 2].sort().values, order[count // 2 :].sort().values

    def _records(self, done: "Run") -> "list[Dataset]":
        """All that the file holds: a dataset's training and test part, as the model was trained on neither."""
        from tino.sources import fingerprint, read_arrays
        from tino.storage import load_dataset

        assert self.data is not None
        parts = [read_arrays(self.data)] if self.data.suffix == ".npz" else list(load_dataset(self.data))
        known = {done.config["data"]["fingerprint"], done.result.dataset_sha256}
        if known & {fingerprint(parts[0]), parts[0].meta["checksum"]}:  # a copy has another path
            told = f"{done.folder} was trained on the data in {self.data}"
            raise TinoError(f"{told}: leave out --data to use its test records")
        return parts


@dataclass(frozen=True)
class Card:
    """Write a run's model card: its data, training, errors, certificate, range of validity, band, speed and limits."""

    run_folder: RunFolder
    """Run folder written by 'tino train'; card.md and card.html are written into it."""
    cache: Path | None = None
    """Folder of the generated datasets."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.report.card import write_card
        from tino.runs import read_run

        pages = write_card(read_run(self.run_folder), self.cache)
        if self.json:
            return print_json({"pages": [str(page) for page in pages]})
        say(*(f"page: {page}" for page in pages))
