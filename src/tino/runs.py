"""A run: one model trained on one problem, kept in a folder a person can read.

run.json          problem, data, training options, versions, seconds
model.json        what the model is made of          model.safetensors   its numbers
history.csv       loss by epoch                      scores.json         errors on the test set
certificate.json  causality and time invariance, measured
"""

import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from tino.data import Dataset, dataset
from tino.errors import TinoError
from tino.evaluation import evaluate
from tino.files import make_folder, read_json, write_json, write_text
from tino.models.separable import Separable
from tino.models.store import load, save
from tino.models.zoo import build, model_recipe
from tino.problems import Problem, problem
from tino.properties import certify
from tino.training import TrainConfig, fit
from tino.training.config import pick_device


@dataclass(frozen=True)
class DataOptions:
    """Which data: sizes of the sets, other grids than the paper's, and where they are kept."""

    train: int = 1000
    """Training pairs."""
    test: int = 200
    """Test pairs."""
    n_t: int | None = None
    """Points in time; the paper's number if left out."""
    resolution: int | None = None
    """Points along each axis of space; the paper's number if left out."""
    cache: Path | None = None
    """Folder of the generated datasets; else $TINO_CACHE, else the user's cache folder."""

    def problem(self, name: str) -> Problem:
        given = {"n_t": self.n_t, "resolution": self.resolution}
        return problem(name, **{key: value for key, value in given.items() if value is not None})


@dataclass(frozen=True)
class Run:
    """A finished run, read from its folder."""

    folder: Path
    record: dict[str, Any]
    scores: dict[str, Any]
    certificate: dict[str, Any]

    def model(self) -> Separable:
        return load(self.folder)

    def data(self, cache: Path | None = None) -> tuple[Dataset, Dataset]:
        """The very data of the run: from the cache, or generated again."""
        data = self.record["data"]
        train, test = dataset(
            problem(self.record["problem"], **data["options"]),
            seed=data["seed"],
            train=data["train"],
            test=data["test"],
            cache=cache,
        )
        if train.meta["checksum"] != data["checksum"]:
            name = self.record["problem"]
            raise TinoError(
                f"{name} generated here differs from the data of {self.folder} (other device or version)"
            )
        return train, test

    def history(self) -> list[tuple[int, float]]:
        """(epoch, loss) rows."""
        try:
            lines = (self.folder / "history.csv").read_text(encoding="utf-8").splitlines()[1:]
            return [(int(row[0]), float(row[1])) for row in (line.split(",") for line in lines)]
        except (OSError, ValueError, IndexError) as error:
            raise TinoError(f"{self.folder / 'history.csv'} is not a readable loss history") from error


def train_run(name: str, model_name: str, folder: Path, data: DataOptions, config: TrainConfig) -> Run:
    """The whole line for one model: dataset, model, training, scores, certificate, all kept in the folder."""
    device = pick_device(config.device)
    chosen = data.problem(name)
    model_recipe(model_name)  # a wrong name is told before any work is done
    train, test = dataset(chosen, config.seed, data.train, data.test, data.cache, device)
    model = build(model_name, train, config.seed)
    make_folder(folder)  # one that cannot be written is told before training, not after
    started = time.perf_counter()
    history = fit(model, train, config)
    seconds = time.perf_counter() - started
    scores = evaluate(model, test)
    certificate = certify(model, test)
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__}
    record = {
        "problem": name,
        "model": model_name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "train_seconds": seconds,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "training": asdict(config),
        "data": {
            "options": {k: v for k, v in chosen.options.items() if getattr(data, k, None) is not None},
            "seed": config.seed,
            "train": data.train,
            "test": data.test,
            "checksum": train.meta["checksum"],
        },
        "versions": {"tino": train.meta["version"], **versions},
    }
    (folder / "run.json").unlink(missing_ok=True)  # from here to the end the folder holds no finished run
    save(model, folder)
    write_text(folder / "history.csv", history.csv())
    write_json(folder / "scores.json", scores.record())
    write_json(folder / "certificate.json", certificate.record())
    write_json(folder / "run.json", record)
    return Run(folder, record, scores.record(), certificate.record())


def read_run(folder: Path) -> Run:
    """A finished run's records; the last file written, run.json, tells that it is finished."""
    if not (folder / "run.json").is_file():
        raise TinoError(f"no finished run in {folder}: expected a folder written by 'tino train'")
    records = [read_json(folder / f"{name}.json") for name in ("run", "scores", "certificate")]
    return Run(folder, *records)
