"""tino's closed-form models beside pysindy and PyDMD's DMDc: test error and seconds on the same data.

    pip install pysindy==2.1.0 pydmd==2025.8.1   # beside tino; they bring scipy and scikit-learn
    python benchmarks/rivals.py                  # all problems -> benchmarks/results/rivals.json
    python benchmarks/rivals.py --problem duffing --method pysindy  # one cell again, into the same file
    python benchmarks/rivals.py --table          # the table, in Markdown

The data: seed 0, 1000 training records, 200 test records. A rival's options come from a short list (``candidates`` in
rivals_pysindy.py and rivals_pydmd.py). Each candidate is fitted to the first 980 training records, or to as many of
them as its row says, and rolled out over the last 20; the best of them is tested as it is. The error is the mean square
over whole test records, rolled out from the known start. Seconds are those of the whole list, by the clock and of the
processor; "fit_cpu_seconds" are the chosen fit's alone. A rollout that grows beyond bounds has no error, and is called
diverged.
"""

import argparse
import importlib
import json
import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import rivals_data
from rivals_data import Diverged, Records

import tino
from tino.files import read_json, write_json

RESULTS = Path(__file__).parent / "results" / "rivals.json"
PROBLEMS = (
    "duffing",
    "gradient-flow",
    "lorenz",
    "allen-cahn",
    "burgers-0.1",
    "burgers-0.01",
    "convection-diffusion",
    "navier-stokes",
    "heat-triangle",
)
RIVALS = {"pysindy": "rivals_pysindy", "DMDc": "rivals_pydmd"}
OURS = ("linear", "polynomial")
HELD_OUT = 20  # training records to choose options on
PACKAGES = ("pysindy", "pydmd", "scikit-learn", "scipy", "numpy", "torch")
NOTES = {
    ("lorenz", "pysindy"): "quotients by u are in its library because the known equations have them",
    ("navier-stokes", "pysindy"): "the velocities are given as inputs, from the Poisson equation of the vorticity",
}
Found = dict[str, Any]


def rival(method: str, name: str, train: tino.Dataset, test: tino.Dataset) -> Found:
    """The best of the rival's candidates on held-out records, and its error on the test set."""
    records = Records.of(train)
    rest, held_out = records.take(slice(-HELD_OUT)), records.take(slice(-HELD_OUT, None))
    tried: list[Found] = []
    best, chosen = None, {}
    start, worked = time.perf_counter(), time.process_time()
    for candidate in importlib.import_module(RIVALS[method]).candidates(name, records):
        began = time.process_time()
        given = rest if candidate.records is None else rest.take(slice(candidate.records))
        rollout = candidate.fit(given)
        seconds = time.process_time() - began
        row = {"options": candidate.options, "records": len(given.u), "fit_cpu_seconds": seconds}
        row["held_out_mse"] = error(rollout, held_out)
        row["equations"] = getattr(rollout, "equations", None)
        print(f"  {row}", flush=True)
        tried.append({key: row[key] for key in ("options", "held_out_mse")})
        if best is None or _size(row["held_out_mse"]) < _size(chosen["held_out_mse"]):
            best, chosen = rollout, row
    seconds = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - worked}
    mse = error(best, Records.of(test))
    known = NOTES.get((name, method))
    note = {"note": "diverged"} if mse is None else {"note": known} if known else {}
    return {"test_mse": mse, **seconds, **chosen, **note, "tried": tried}


def _size(mse: float | None) -> float:
    return np.inf if mse is None else mse


def error(rollout: Any, records: Records) -> float | None:
    """The mean square error over whole records; None if a rollout diverged."""
    try:
        with np.errstate(all="ignore"):
            found = rollout(records.f, records.u[:, 0])
    except Diverged:
        return None
    mse = float(np.square(found - records.u).mean())
    return mse if np.isfinite(mse) else None


def ours(method: str, train: tino.Dataset, test: tino.Dataset) -> Found:
    if method not in tino.MODELS:
        return {"test_mse": None, "note": f"this version of tino has no model '{method}'"}
    start = time.perf_counter()
    try:
        model = tino.build(method, train)
        tino.fit(model, train, show_progress=False)
    except tino.TinoError as problem:
        return {"test_mse": None, "note": str(problem)}
    seconds = time.perf_counter() - start
    mse = tino.evaluate(model, test).mse_mean
    diverged = {} if mse < rivals_data.FAR else {"note": "diverged"}
    return {"test_mse": None if diverged else mse, "seconds": seconds, **diverged}


def versions() -> Found:
    found: Found = {"python": platform.python_version(), "tino": tino.__version__, "cores": os.cpu_count()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def lines(found: Found) -> str:
    """The results as a table in Markdown, and under it what a rival was told beyond the data."""
    methods = (*RIVALS, *OURS)
    rows = ["| problem | " + " | ".join(methods) + " |", "|---|" + "---|" * len(methods)]
    for name in PROBLEMS:
        if name in found:
            rows.append(f"| {name} | " + " | ".join(_cell(found[name].get(method)) for method in methods) + " |")
    told = [_told(name, method, found[name][method]) for name, method in NOTES if method in found.get(name, {})]
    return "\n".join([*rows, "", *told])


def _told(name: str, method: str, row: Found) -> str:
    """The note, and what the rival's best library without it reached on held-out records."""
    others = [_size(t["held_out_mse"]) for t in row["tried"] if t["options"]["library"] != row["options"]["library"]]
    ends = f"held-out error {row['held_out_mse']:.1e}, without {min(others):.1e}"
    return f"- {name}, {method}: {NOTES[name, method]} ({ends})."


def _cell(row: Found | None) -> str:
    if row is None:
        return "–"
    if row["test_mse"] is None:
        return "diverges" if row.get("note") == "diverged" else "–"
    return f"{row['test_mse']:.1e} ({row['seconds']:.0f} s)"


def run(names: Sequence[str], methods: Sequence[str], out: Path) -> None:
    """Every cell, written when it ends."""
    for name in names:
        train, test = tino.dataset(tino.problem(name), show_progress=False)
        for method in methods:
            print(f"{name}, {method}", flush=True)
            row = ours(method, train, test) if method in OURS else rival(method, name, train, test)
            found: Found = read_json(out) if out.exists() else {}
            found["versions"] = found.get("versions", {}) | versions()
            if method in RIVALS or "seconds" in row or method not in found.get(name, {}):
                found.setdefault(name, {})[method] = row
            write_json(out, found)
            print(json.dumps({k: v for k, v in row.items() if k != "tried"}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Closed-form models beside their rivals; see the top of this file.")
    parser.add_argument("--problem", choices=PROBLEMS, help="this problem alone")
    parser.add_argument("--method", choices=(*RIVALS, *OURS), help="this method alone")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the table of what was found")
    given = parser.parse_args()
    if given.table:
        print(lines(read_json(given.out)))
        return
    names = (given.problem,) if given.problem else PROBLEMS
    run(names, [given.method] if given.method else [*RIVALS, *OURS], given.out)


if __name__ == "__main__":
    main()
