"""A run: one model trained on one dataset, saved in a folder that people can read.

config.json       data, model and training options, as requested
environment.json  versions, device, commit
checkpoint.safetensors   during training: all that resuming needs
model.json        what the model is made of          model.safetensors   its weights
history.csv       loss by epoch                      scores.json         errors on the test set
certificate.json  causal, autonomous, at rest: measured    example.safetensors   a test sample and its prediction
race.json         of 'auto': which models raced, which won, and why
run.json          the whole result in short; written last: its presence means that the run is finished
Afterwards 'tino readout', 'tino calibrate' and 'tino card' add readout.json, band.json, card.md and card.html.

A run that replaces a finished one is trained in .new inside the folder, and takes its place when it is finished too.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tino.calls import parameter_count
from tino.certificates import Certificate, certify
from tino.data import Dataset
from tino.devices import pick_device
from tino.environment import device_name, environment, forget_peak_memory, peak_memory
from tino.errors import TinoError, in_short
from tino.evaluation import Scores, evaluate, samples_per_second
from tino.files import check_seal, check_writable, read_json, write_json, write_sealed, write_text
from tino.folders import AFTERWARDS, CHECKPOINT, NEW, RUN, TENSORBOARD, adopt, alone_in, place_to_train, stoppable
from tino.metrics import OverTime
from tino.models.registry import AUTO, build, model_entry
from tino.models.store import load
from tino.operator import Operator
from tino.options import DataOptions
from tino.preview import Preview, read_preview, take_preview, write_preview
from tino.race import RACE, Race, race_config, race_models, read_race, write_race
from tino.results import Result
from tino.sources import Source, fingerprint
from tino.training import TrainConfig, distributed
from tino.training.checkpoint import check_room
from tino.training.history import History
from tino.training.loop import fit
from tino.training.tensorboard import tensorboard_log, tensorboard_writer

RUN_FORMAT = 3  # of the folder; its records carry checksums
PREVIEW = "example.safetensors"
WRITTEN_BY_A_RUN = ("scores.json", "certificate.json", "model.json", "model.safetensors", "history.csv", PREVIEW, RACE)


@dataclass(frozen=True)
class Run:
    """A finished run, read from its folder."""

    folder: Path
    result: Result
    config: dict[str, Any]  # as requested
    mse: list[float]  # of each test sample
    certificate: dict[str, Any]
    channels: dict[str, dict[str, float]]  # the scores of each output channel, if there are several
    over_time: OverTime | None = None  # older runs have none
    race: Race | None = None  # which the model won, if 'auto' was asked for

    def model(self) -> Operator:
        return load(self.folder)

    def data(self, cache: Path | None = None) -> tuple[Dataset, Dataset]:
        """The data of the run: from the cache or its file, or generated again."""
        asked = self.config["data"]
        options = DataOptions(
            asked["train"],
            asked["test"],
            cache=cache,
            set=tuple(f"{name}={value}" for name, value in asked["options"].items()),
        )
        source = Source(asked["source"])
        if not source.is_problem and not Path(source.text).exists():
            raise TinoError(f"{self.folder} was trained on {source.text}, which is gone: put it back")
        train, test = source.load(options, asked["seed"])
        if fingerprint(train) != asked["fingerprint"]:
            raise TinoError(f"{asked['source']} has changed since {self.folder} was trained: train again")
        return train, test

    def has(self, name: str) -> bool:
        """Whether a file of this name is in the folder."""
        return (self.folder / name).is_file()

    def preview(self) -> Preview:
        return read_preview(self.folder / PREVIEW)

    def history(self) -> list[tuple[int, float]]:
        """(epoch, loss) rows; none if the model was fitted in closed form."""
        try:
            lines = (self.folder / "history.csv").read_text(encoding="utf-8").splitlines()[1:]
            return [(int(row[0]), float(row[1])) for row in (line.split(",") for line in lines)]
        except (OSError, ValueError, IndexError) as error:
            raise TinoError(f"{self.folder / 'history.csv'} is not a readable loss history") from error


def train_run(
    source: Source,
    model_name: str,
    folder: Path,
    options: DataOptions,
    config: TrainConfig,
    resume: bool = False,
    force: bool = False,
    tensorboard: bool = False,
) -> Run | None:
    """The whole pipeline for one model: dataset, model, training, scores, certificate, all saved in the folder.

    The model 'auto' is the winner of a race, which is not resumed: it begins anew, as nothing is saved before its end.
    ``resume`` goes on from the folder's checkpoint, if there is one. ``force`` replaces a finished run, which stays
    as it is until the new one is finished. ``tensorboard`` also writes the losses for TensorBoard. Started by torchrun,
    the processes train together, and all but the first return None.
    """
    with distributed.processes(config.device) as place:
        config = replace(config, device=place)
        device = pick_device(place)
        source.check(options)  # invalid input fails before data are made
        if model_name == AUTO:
            config = race_config(config)
            if tensorboard:
                raise TinoError("a race writes no losses for TensorBoard: train the winner by its name")
        else:
            model_entry(model_name)
        if tensorboard:
            tensorboard_writer()
        check_writable(folder)
        with _alone(folder, device) as adopted:
            if adopted and resume:  # what was to be resumed only had to move in
                return read_run(folder) if distributed.rank() == 0 else None
            where = place_to_train(folder, resume, force)
            train, test = distributed.first_then_others(lambda: source.load(options, config.seed, device))
            asked = {
                "source": source.place,
                "options": options.overrides(),
                "train": options.train,
                "test": options.test,
                "seed": config.seed,
                "fingerprint": fingerprint(train),
            }
            with stoppable(where):
                if not _train(train, test, model_name, where, asked, config, resume, tensorboard):
                    return None
            adopt(folder)
            return read_run(folder)


@contextmanager
def _alone(folder: Path, device: torch.device) -> Iterator[bool]:
    """The first process keeps strangers out of the folder, and finishes an interrupted replacement: did it?"""
    refused, adopted = None, False
    with ExitStack() as held:
        if distributed.rank() == 0:
            try:
                held.enter_context(alone_in(folder))
                adopted = adopt(folder)
            except TinoError as error:
                refused = error
        if distributed.any_of(refused is not None, device):
            raise refused or TinoError(f"the first process cannot train in {folder}")
        yield distributed.any_of(adopted, device)


def _train(
    train: Dataset,
    test: Dataset,
    model_name: str,
    folder: Path,
    asked: dict[str, Any],
    config: TrainConfig,
    resume: bool,
    tensorboard: bool,
) -> bool:
    """Train and write the run -> whether this process wrote it: the first of them does."""
    device, checkpoint = pick_device(config.device), folder / CHECKPOINT
    started, history, race = time.perf_counter(), History(), None
    if model_name == AUTO:  # before anything is written: a race that is stopped leaves nothing
        if checkpoint.exists():
            raise TinoError(f"{checkpoint} is of a model by its name, not of a race: resume that one, or delete it")
        model, history, race = race_models(train, config, True)
    else:
        model = build(model_name, train, config.seed)
    size = 8 if config.precision == "float64" else 4
    check_room(folder, parameter_count(model), config.optimizer, bool(config.average or config.validation), size)
    first = distributed.rank() == 0
    if first and not checkpoint.exists():
        for old in (*WRITTEN_BY_A_RUN, *AFTERWARDS):  # of an earlier run here that did not finish
            (folder / old).unlink(missing_ok=True)
        shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)
        about = {"format": RUN_FORMAT, "model": model_name, "training": asdict(config), "data": asked}
        write_sealed(folder / "config.json", about)
        write_json(folder / "environment.json", environment(device))
    if race is None:
        started = time.perf_counter()
        forget_peak_memory(device)
        with tensorboard_log(folder / TENSORBOARD if tensorboard and first else None) as log:
            history = fit(model, train, config, True, checkpoint, resume, log)
    else:
        write_race(folder, race)
    peak = peak_memory(device)
    seconds = max(time.perf_counter() - started, history.seconds[-1] if history.seconds else 0.0)
    if not first:
        return False
    model.save(folder)
    write_text(folder / "history.csv", history.csv())
    scores = evaluate(model, test)
    write_sealed(folder / "scores.json", scores.record())
    certificate = certify(model, test, strict=False)  # whatever it finds, the run is kept
    write_sealed(folder / "certificate.json", certificate.record())
    write_preview(folder / PREVIEW, take_preview(model, test))
    costs = {
        "train_seconds": seconds,
        "peak_memory_bytes": peak,
        "samples_per_second": samples_per_second(model, test),
        "device": device_name(device),
    }
    result = _result(model, train, test, asked, config, history, scores, certificate, costs)
    write_sealed(folder / RUN, result.record())
    checkpoint.unlink(missing_ok=True)  # the run is complete without it
    return True


def _result(
    model: Operator,
    train: Dataset,
    test: Dataset,
    asked: dict[str, Any],
    config: TrainConfig,
    history: History,
    scores: Scores,
    certificate: Certificate,
    costs: dict[str, Any],
) -> Result:
    about = environment(pick_device(config.device))
    by_gradients = bool(history.steps)
    return Result(
        problem=train.name,
        model=model.frame.model,
        seed=config.seed,
        scores=scores.overall,
        rel_l2=scores.rel_l2.tolist(),
        parameters=parameter_count(model),
        epochs=len(history.loss),
        steps=history.steps,
        batch_size=history.batch if by_gradients else len(train),
        lr=config.rate if by_gradients else 0.0,
        optimizer=config.optimizer if by_gradients else "closed form",
        training=config.decisive(),
        causal=certificate.causal,
        time_invariant=certificate.time_invariant,
        autonomous=certificate.autonomous,
        at_rest=certificate.at_rest,
        leak=certificate.leak,
        defect=certificate.defect,
        data={"options": asked["options"], **_counts(train, test)},
        title=str(train.meta.get("title", "")),
        output_channels=len(train.output_channels),
        seconds_per_epoch=history.seconds_per_epoch if by_gradients else None,
        compiled=config.compile,
        dataset_sha256=train.meta["checksum"],
        parameters_sha256=fingerprint(train),
        versions=about["versions"],
        commit=about["commit"],
        **costs,
    )


def _counts(train: Dataset, test: Dataset) -> dict[str, int]:
    """Trajectories, if a problem's were cut into windows; otherwise samples."""
    windows = train.meta.get("windows", {}).get("count", 1)
    return {"train": len(train) // windows, "test": len(test) // windows}


def read_run(folder: Path) -> Run:
    """A finished run's records; run.json, the last file written, marks it as finished."""
    if not (folder / RUN).is_file():
        if (folder / NEW / RUN).is_file():
            with alone_in(folder):
                adopt(folder)
            return read_run(folder)
        if (folder / "config.json").is_file():
            raise TinoError(f"the run in {folder} is not finished: continue it with 'tino train' and resume = True")
        raise TinoError(f"no finished run in {folder}: expected a folder written by 'tino train'")
    config = read_json(folder / "config.json")
    held = config.get("format") if isinstance(config, dict) else None
    if held != RUN_FORMAT:
        given = in_short(repr(held), 20)
        raise TinoError(f"{folder} is a run of format {given}, this version reads format {RUN_FORMAT}: train it again")
    config = _read(folder / "config.json", data=dict, training=dict)
    kinds = {"source": str, "options": dict, "train": int | None, "test": int | None, "seed": int, "fingerprint": str}
    _check(config["data"], folder / "config.json", kinds)
    scores = _read(folder / "scores.json", mse=list)
    if not all(isinstance(value, float | int) for value in scores["mse"]):
        raise TinoError(f"{folder / 'scores.json'} holds errors that are not numbers: train again")
    certificate = _read(folder / "certificate.json", causal=bool, time_invariant=bool)
    channels = scores.get("channels", {})
    if not isinstance(channels, dict) or not all(isinstance(numbers, dict) for numbers in channels.values()):
        raise TinoError(f"{folder / 'scores.json'} is damaged: channels is not an object of scores, train again")
    result = Result.from_record(_read(folder / RUN), folder / RUN)
    over_time = OverTime.from_record(scores["over_time"]) if "over_time" in scores else None
    race = read_race(folder) if config.get("model") == AUTO else None
    return Run(folder, result, config, scores["mse"], certificate, channels, over_time, race)


def _read(path: Path, **needed: Any) -> dict[str, Any]:
    """A record with its checksum and the types of what is needed of it checked."""
    record = check_seal(read_json(path), path, "train again")
    _check(record, path, needed)
    return record


def _check(record: dict[str, Any], path: Path, needed: dict[str, Any]) -> None:
    if lacking := [key for key, kind in needed.items() if key not in record or not isinstance(record[key], kind)]:
        raise TinoError(f"{path} lacks {', '.join(lacking)}: it is damaged or of an older version, train again")
