"""Commands for records of your own: read them from files, and predict with a trained model."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from tyro.conf import OmitArgPrefixes, Positional, arg

from tino.commands.printing import as_typed, print_json, say
from tino.errors import TinoError
from tino.importing.options import ImportOptions
from tino.report.terminal import TextTable

if TYPE_CHECKING:
    from tino.importing.reading import Summary
    from tino.importing.response import Response


@dataclass(frozen=True)
class ReadOptions:
    """How new inputs are read."""

    time: str | None = None
    """Column of the times; t or time if left out."""
    dt: float | None = None
    """Time step, where there is no column of times."""
    units: tuple[str, ...] = ()
    """Units of columns, as force=N or T*=K."""
    record: str | None = None
    """Column that numbers the records."""
    points: str | None = None
    """Where the values of a field lie: a variable of the file, or numbers such as 0,0.1,0.2. For a grid use axes."""
    axes: tuple[str, ...] = ()
    """Axes of an array that has no names for them, as p=record,time,x,y; variables x and y give coordinates."""
    periodic: bool = False
    """The field repeats: its points are those of a periodic box."""
    resample: bool = False
    """Interpolate on the model's time step."""
    cut: bool = False
    """Cut records into two at gaps in time and at missing values."""
    drop: bool = False
    """Leave out records with missing values."""
    fill: bool = False
    """Interpolate up to 5 missing values in a row."""

    def options(self) -> ImportOptions:
        return ImportOptions(**vars(self))


@dataclass(frozen=True)
class Import:
    """Read records from CSV, NPZ, NPY, MAT, HDF5 or netCDF files, check them, and save them as a dataset."""

    files: Annotated[Positional[tuple[str, ...]], arg(metavar="FILE [FILE ...]", help_behavior_hint="(required)")]
    """Files with one record or many, or benchmark:NAME for a system of the package nonlinear_benchmarks."""
    input: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Columns or variables that drive the system; 'none' if only its initial state does."""
    output: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Columns or variables that answer."""
    test: Annotated[tuple[str, ...], arg(metavar="FILE [FILE ...]")] = ()
    """Files for the test; otherwise one record in six, or of fewer than 6 records the last part of the time."""
    out: Path | None = None
    """Dataset to write; FILE.h5 if left out."""
    reading: OmitArgPrefixes[ImportOptions] = field(default_factory=ImportOptions)
    seed: int = 0
    """Seed of the choice of test records."""
    force: bool = False
    """Replace OUT if it exists."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        if not self.files:
            raise TinoError("name one file or more, such as records.csv")
        from tino.importing.reading import understood
        from tino.sources import file_name
        from tino.storage import save_dataset

        name = self.files[0].replace(":", "-")
        out = self.out or Path(f"{file_name(name)}.h5")
        if out.suffix != ".h5":
            raise TinoError(f"--out is {out}, expected a name that ends in .h5")
        if any(out.resolve() == Path(file).resolve() for file in (*self.files, *self.test)):
            raise TinoError(f"{out} is read and would be replaced: give another name with --out")
        if out.exists() and not self.force:
            raise TinoError(f"{out} exists: give another name with --out, or replace it with --force")
        train, test, summary = understood(self.files, self.input, self.output, self.test, self.reading, self.seed)
        save_dataset(out, train, test)
        summary = replace(summary, notes=tuple(map(as_typed, summary.notes)))
        if self.json:
            return print_json({"path": str(out), **summary.record()})
        _print_summary(summary)
        say(f"saved in {out}; next: tino train {out} auto")


def _print_summary(summary: "Summary") -> None:
    files = ", ".join(summary.files[:3]) + (f", ... ({len(summary.files)} files)" if len(summary.files) > 3 else "")
    least, most = summary.times
    times = f"{most} times" if least == most else f"{least} to {most} times"
    unit = f" {summary.time_unit}" if summary.time_unit else ""
    say(f"files     {files}")
    say(f"records   {summary.records} of {times}, dt = {summary.dt:g}{unit}, duration {summary.duration:g}{unit}")
    say(f"split     {summary.split}")
    if any(summary.burn_in):
        say(f"burn-in   {summary.burn_in[0]} times in training, {summary.burn_in[1]} in the test")
    for line in summary.repaired:
        say(f"repaired  {line}")
    table = TextTable("channel", "role", "unit", "min", "max", "mean", "RMS", "where", show_edge=False, pad_edge=False)
    for one in summary.channels:
        numbers = [f"{value:.4g}" for value in (one.least, one.largest, one.mean, one.rms)]
        table.add_row(one.name, one.role, one.unit or "–", *numbers, one.grid)
    Console().print(table)
    for line in summary.notes:
        say(f"note      {line}")


@dataclass(frozen=True)
class Predict:
    """Predict the response to new inputs from a file, and draw it; score it if the file has the outputs too."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """Run folder written by 'tino train'."""
    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """Inputs, in any kind of file that 'tino import' reads; columns are matched by name."""
    out: Path = Path("response.csv")
    """File for the response: .csv or .npz."""
    input: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Columns in the order of the model's inputs; matched by name if left out."""
    output: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Columns in the order of the model's outputs, to score; matched by name if left out."""
    reading: OmitArgPrefixes[ReadOptions] = field(default_factory=ReadOptions)
    no_plot: bool = False
    """Write no picture beside the response."""
    force: bool = False
    """Replace the response and its picture if they exist."""
    device: str = "auto"
    """cpu, cuda, or auto."""
    json: bool = False
    """Print JSON for scripts."""

    def run(self) -> None:
        from tino.devices import pick_device
        from tino.importing.prediction import respond
        from tino.importing.response import write_response
        from tino.runs import read_run

        self._check_places()
        done = read_run(self.run_folder)
        model = done.model().to(pick_device(self.device))
        found = respond(model, self.file, self.input, self.output, self.reading.options())
        write_response(self.out, found)
        if not self.no_plot:
            from tino.files import whole_file
            from tino.report.figures import png
            from tino.report.responses import draw_response

            with whole_file(self._picture) as part:
                part.write_bytes(png(draw_response(found, model.frame.model)))
        if not self.json:
            return self._print(found, done.result.model)
        return print_json(
            {
                "response": str(self.out),
                "picture": None if self.no_plot else str(self._picture),
                "scores": None if found.scores is None else found.scores.record(),
                "repaired": found.repaired,
                "notes": found.notes,
            }
        )

    @property
    def _picture(self) -> Path:
        return self.out.with_suffix(".png")

    def _check_places(self) -> None:
        from tino.files import check_writable
        from tino.importing.response import WRITTEN

        if self.out.suffix not in WRITTEN:
            raise TinoError(f"--out is {self.out}, expected a name that ends in {' or '.join(WRITTEN)}")
        if self.out.resolve() == self.file.resolve():
            raise TinoError(f"{self.out} is read and would be replaced: give another name with --out")
        for path in (self.out, *[self._picture] * (not self.no_plot)):
            if path.exists() and not self.force:
                raise TinoError(f"{path} exists: give another name with --out, or replace it with --force")
        check_writable(self.out.parent)

    def _print(self, found: "Response", model: str) -> None:
        from tino.report.tables import print_scores

        for line in found.repaired:
            say(f"repaired  {line}")
        for line in found.notes:
            say(f"note      {line}")
        count = len(found.answers)
        times = ", ".join(str(len(answer)) for answer in found.answers[:5]) + ", ..." * (count > 5)
        say(f"{model} on {self.file}: {count} record{'s' * (count > 1)} of {times} times")
        if found.scores is not None:
            print_scores(found.scores.overall, found.scores.channels, found.data.output_channels)
        say(f"response: {self.out}" + ("" if self.no_plot else f", picture: {self._picture}"))
