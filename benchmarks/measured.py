"""Measured systems, from their files to scores, by the commands that a user would type.

    TINO_DATA=FOLDER python benchmarks/measured.py           # everything that has no result yet -> results/measured
    TINO_DATA=FOLDER python benchmarks/measured.py silverbox linear gru
    python benchmarks/measured.py page                       # docs/measured.md from the results

FOLDER holds silverbox/SNLS80mV.csv (T. Wigren and J. Schoukens, ECC 2013) and fine-steering-mirror/*.npy (M. Floren
et al., ISMA-USD 2024). The splits and the protocol are the official ones: nothing of a test record is seen in training
or in any choice.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measured_page import page

import tino
from tino.cli import run
from tino.evaluation import evaluate
from tino.files import read_json, write_json
from tino.runs import read_run

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "results" / "measured", ROOT / "docs" / "measured.md"
BUDGET = "2m"  # of every model that learns by gradients, and of auto
MULTISINE, ARROW, INSIDE = "multisine", "arrow", "arrow without extrapolation"
LEARNED = ("lstm", "gru", "flow-tino", "auto")


def command(*arguments: object) -> None:
    """As typed after 'tino'."""
    print("tino", *arguments, flush=True)
    if run([str(one) for one in arguments]):
        raise SystemExit(f"tino {arguments[0]} failed")


# -- Silverbox -----------------------------------------------------------------------------------------------

FIRST, LAST = 40650, 127400  # the multisine's samples; three quarters of them are for training
CUT = FIRST + int(0.75 * (LAST - FIRST))
SILVERBOX = {"train": (FIRST, CUT), MULTISINE: (CUT, LAST), ARROW: (100, 40575), INSIDE: (100, 32100)}
RATE, UNSCORED, BURN_IN = 610.35, 50, 150  # in Hz; samples


def silverbox_data(source: Path, folder: Path) -> None:
    """The official parts of the record as files of their own, imported."""
    head, *rows = (source / "silverbox" / "SNLS80mV.csv").read_text().splitlines()
    for name, (first, end) in SILVERBOX.items():
        (folder / f"{name}.csv").write_text("\n".join([head, *rows[first:end]]) + "\n")
    how = ("--input", "V1", "--output", "V2", "--dt", 1 / RATE, "--units", "V1=V", "V2=V", "--burn-in", BURN_IN)
    for name in (MULTISINE, ARROW, INSIDE):
        command("import", folder / "train.csv", "--test", folder / f"{name}.csv", *how, "--out", folder / f"{name}.h5")


def silverbox_scores(folder: Path, model: tino.Operator) -> dict[str, float]:
    """RMSE in mV. The outputs of the first 50 samples may set the state, and are not scored."""
    found = {}
    for name in (MULTISINE, ARROW, INSIDE):
        _, test = tino.load_dataset(folder / f"{name}.h5")
        test = tino.Dataset(test.f, test.u, test.time, test.inputs, test.outputs, burn_in=UNSCORED, **_channels(test))
        found[name] = 1e3 * evaluate(model, test, "measured").rmse
    return found


def _channels(data: tino.Dataset) -> dict[str, Any]:
    return {"input_channels": data.input_channels, "output_channels": data.output_channels}


# -- Fine Steering Mirror ------------------------------------------------------------------------------------

LEVELS, RUN_IN, SKIPPED, MEMORY = (100, 200), 1000, 100, 500  # mV; samples


def mirror_data(source: Path, folder: Path) -> None:
    """Every period of every realisation as a record. Test records begin with the last 1000 samples of their period."""
    held: dict[tuple[int, str], tuple[np.ndarray, np.ndarray]] = {}
    for level in LEVELS:
        for part in ("train", "test"):
            files = (source / "fine-steering-mirror" / f"{kind}_{level}mV_{part}.npy" for kind in "uy")
            voltage, metres = (np.moveaxis(np.load(file), (2, 3), (0, 1)).reshape(-1, 8192, 3) for file in files)
            held[level, part] = voltage, 1e6 * metres
    for name, levels in {"100 mV": (100,), "200 mV": (200,), "both": LEVELS}.items():
        for part in ("train", "test"):
            f, u = (np.concatenate([held[level, part][k] for level in levels]) for k in (0, 1))
            if part == "test":
                f, u = (np.concatenate([v[:, -RUN_IN:], v], 1) for v in (f, u))
            np.savez(folder / f"{name} {part}.npz", voltage=f, displacement=u)
        files = (folder / f"{name} train.npz", "--test", folder / f"{name} test.npz")
        axes = ("--axes", "voltage=record,time,channel", "displacement=record,time,channel")
        how = ("--input", "voltage", "--output", "displacement", "--dt", 1, *axes, "--burn-in", MEMORY)
        command("import", *files, *how, "--units", "voltage=V", "displacement=um", "--out", folder / f"{name}.h5")


def mirror_scores(folder: Path, model: tino.Operator, levels: tuple[int, ...]) -> dict[str, float]:
    """RMSE in µm of each level: of each record, from sample 100 on, then the mean over records and outputs."""
    found = {}
    for level in levels:
        _, test = tino.load_dataset(folder / f"{level} mV.h5")
        errors = (tino.predict(model, test.f) - test.u)[:, RUN_IN + SKIPPED :].double()
        found[f"{level} mV"] = float(errors.square().mean(1).sqrt().mean())
    return found


# -- the runs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    """A measured system: its files, its training sets with the models for each, its scores and published figures."""

    title: str
    unit: str
    prepare: Callable[[Path, Path], None]
    sets: dict[str, tuple[str, ...]]
    scores: Callable[[Path, str, tino.Operator], dict[str, float]]
    published: dict[str, tuple[float | None, ...]]


SYSTEMS = {
    "silverbox": System(
        "Silverbox, an electronic Duffing oscillator",
        "mV",
        silverbox_data,
        {MULTISINE: ("linear", "polynomial", "polynomial-sim", "flow-tino", "lstm", "gru", "auto")},
        lambda folder, _, model: silverbox_scores(folder, model),
        {
            "linear": (6.96, 14.4, 6.58),
            "LSTM": (1.50, 2.68, 0.96),
            "GRU": (1.49, 2.80, 0.95),
            "SUBNET": (0.36, 1.4, 0.32),
            "GP-NARX": (0.30, 0.60, 0.26),
            "polynomial nonlinear state space": (None, 0.26, None),
        },
    ),
    "mirror": System(
        "Fine Steering Mirror, three piezo voltages and three displacements",
        "µm",
        mirror_data,
        {"100 mV": ("linear",), "200 mV": ("linear",), "both": ("linear", "linear-level", "lstm", "gru", "auto")},
        lambda folder, name, model: mirror_scores(folder, model, LEVELS if name == "both" else (int(name.split()[0]),)),
        {
            "linear, a model for each level": (0.1142, 0.2161),
            "linear, one model": (0.2523, 0.1790),
            "nonlinear LFR, one model": (0.0866, 0.1309),
        },
    ),
}
COLUMNS = {"silverbox": (MULTISINE, ARROW, INSIDE), "mirror": ("100 mV", "200 mV")}


def place(system: str, name: str, model: str) -> Path:
    return RESULTS / system / f"{model}{'' if system == 'silverbox' else '-' + name.split()[0]}.json"


def measure(system: str, wanted: tuple[str, ...]) -> None:
    about = SYSTEMS[system]
    todo = [(name, model) for name, models in about.sets.items() for model in models if not wanted or model in wanted]
    todo = [(name, model) for name, model in todo if wanted or not place(system, name, model).exists()]
    if not todo:
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        about.prepare(Path(os.environ["TINO_DATA"]), folder)
        for name, model in todo:
            out = folder / "runs" / name / model
            budget = ("--budget", BUDGET) if model in LEARNED else ()
            command("train", folder / f"{name}.h5", model, *budget, "--device", "cpu", "--out", out)
            done = read_run(out)
            result, trained = done.result, done.model()
            certificate = {key: done.certificate[key] for key in ("causal", "autonomous", "at_rest", "leak", "defect")}
            found = {
                "system": system,
                "trained_on": name,
                "model": result.model,
                "asked": model,
                "rmse": about.scores(folder, name, trained),
                "unit": about.unit,
                "train_seconds": result.train_seconds,
                "threads": torch.get_num_threads(),
                "parameters": result.parameters,
                "certificate": certificate,
                "budget": BUDGET if budget else None,
                "found": list(trained.readout()),
                "race": None if done.race is None else done.race.record(),
                "versions": result.versions,
                "commit": result.commit,
            }
            write_json(place(system, name, model), found)
            print(model, name, found["rmse"], round(result.train_seconds), "s", flush=True)


def main() -> None:
    asked = sys.argv[1:]
    if asked != ["page"]:
        for system in [asked[0]] if asked else SYSTEMS:
            measure(system, tuple(asked[1:]))
    PAGE.write_text(page_text(), encoding="utf-8")


def page_text() -> str:
    tables = {system: [read_json(path) for path in sorted((RESULTS / system).glob("*.json"))] for system in SYSTEMS}
    return page(SYSTEMS, COLUMNS, tables)


if __name__ == "__main__":
    main()
