"""The problems measured: refinement, time invariance, and what their sets cost to make, beside plain loops.

    python benchmarks/problems.py              # accuracy and CPU cost, about 15 minutes on 2 cores
    python benchmarks/problems.py --cost cuda gpu.json   # the cost alone, on another machine
    python benchmarks/problems.py --gpu gpu.json         # take that into the results

Writes results/problems.json and the tables of docs/problems.md. Times are compared within one run only.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tino
from tino.files import write_json, write_text
from tino.generation import generate
from tino.problems import measure_invariance, problem_names

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "results" / "problems.json", ROOT / "docs" / "problems.md"
SET = {"train": 1000, "test": 200}
SAMPLES = {"navier-stokes": 20, "navier-stokes-ic": 20, "advection-diffusion-3d": 20, "heat-triangle": 20}  # else all


def machine(device: str) -> dict[str, Any]:
    name = torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"
    return {"device": name, "cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__}


def cost(name: str, device: str) -> dict[str, float]:
    """Make the whole set of 1200 in a process of its own: seconds, samples per second, peak memory."""
    code = (
        "import sys, time, warnings; warnings.simplefilter('ignore')\n"
        "import tino\n"
        "problem, start = tino.problem(sys.argv[1]), time.perf_counter()\n"
        "path = tino.generate(problem, 0, 1000, 200, sys.argv[2], sys.argv[3], False)\n"
        "import resource\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "print(time.perf_counter() - start, path.stat().st_size, peak)"
    )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code, name, folder, device]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, size, peak = map(float, done.stdout.split())
    row = {"seconds": seconds, "trajectories_per_second": 1200 / seconds, "file_bytes": size, "peak_memory_bytes": peak}
    print(f"{name} on {device}: 1200 trajectories in {seconds:.1f} s", flush=True)
    return row


def costs(device: str, out: Path | None = None) -> dict[str, Any]:
    """Of every problem, the heaviest last; written as they finish, so that a cut run loses nothing."""
    found: dict[str, Any] = {"machine": machine(device), "sets": {}}
    for name in sorted(problem_names(), key=lambda n: tino.problem(n).outputs.size):
        found["sets"][name] = cost(name, device)
        if out is not None:
            write_json(out, found)
    return found


def accuracy(name: str) -> dict[str, float]:
    """The first test samples solved with twice and four times the points and steps, chunk by chunk as in the data."""
    problem = tino.problem(name)
    samples = SAMPLES.get(name, SET["test"])
    off: dict[int, list[torch.Tensor]] = {2: [], 4: []}  # mean squared differences, one for each sample
    for first in range(0, samples, problem.chunk):
        forcing = problem.law.sample(0, 1, range(first, min(first + problem.chunk, samples)))
        stored = problem.solve(forcing)
        for refine, found in off.items():
            found.append((stored - problem.solve(forcing, refine)).square().flatten(1).mean(1))
    twice, four_times = (torch.cat(found) for found in off.values())
    found = measure_invariance(problem)
    row = {
        "samples": samples,
        "refined_2x_mse": float(twice.mean()),
        "refined_4x_mse": float(four_times.mean()),
        "refined_4x_worst_sample_mse": float(four_times.max()),
        "refined_4x_worst_sample": int(four_times.argmax()),
        "refined_4x_above_1e-12": int((four_times > 1e-12).sum()),
        "shift_defect": found.shift,
        "flow_defect": found.flow,
        "time_invariant": found.time_invariant,
        "autonomous": found.autonomous,
    }
    print(f"{name}: {row}", flush=True)
    return row


def scipy_loop(samples: int = 300) -> dict[str, float]:
    """1200 Duffing pairs by us, and a loop of scipy's solve_ivp (RK45, the same tolerances) over some, scaled up."""
    from scipy.integrate import solve_ivp

    problem = tino.problem("duffing")
    forcing = problem.law.sample(0, 0, range(1200))
    start = time.perf_counter()
    problem.solve(forcing)
    ours = time.perf_counter() - start
    a, b, c = (forcing.params[k][:, 0].numpy() for k in "Abc")
    t = problem.time.points.numpy()
    start = time.perf_counter()
    for i in range(samples):

        def slope(s, y, i=i):
            return (y[1], a[i] * np.sin(b[i] * s + c[i]) - y[1] - y[0] - y[0] ** 3)

        solve_ivp(slope, (0.0, 10.0), (0.0, 0.0), "RK45", t, rtol=1e-8, atol=1e-10)
    theirs = (time.perf_counter() - start) * 1200 / samples
    return {"seconds": ours, "scipy_loop_seconds": theirs, "ratio": theirs / ours}


def sample_loop(samples: int = 40) -> dict[str, float]:
    """1200 Burgers pairs by us, and the same scheme one sample at a time over some, scaled up."""
    problem = tino.problem("burgers-0.1")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        generate(problem, 0, 1000, 200, folder, show_progress=False)
        ours = time.perf_counter() - start
    start = time.perf_counter()
    for i in range(samples):
        problem.solve(problem.law.sample(0, 0, [i]))
    theirs = (time.perf_counter() - start) * 1200 / samples
    return {"seconds": ours, "sample_loop_seconds": theirs, "ratio": theirs / ours}


def write_page(results: dict[str, Any]) -> None:
    """The two tables of docs/problems.md, between their marks."""
    text = PAGE.read_text(encoding="utf-8")
    tables = {"accuracy": accuracy_table(results), "cost": cost_table(results), "loops": loop_lines(results)}
    for mark, lines in tables.items():
        begin, end = f"<!-- {mark}: written by benchmarks/problems.py -->", f"<!-- end of {mark} -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{after}"
    write_text(PAGE, text)


def accuracy_table(results: dict[str, Any]) -> list[str]:
    lines = [
        "| problem | refined 2x | refined 4x | shift defect | time-invariant | flow defect | autonomous |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in results["accuracy"].items():
        cells = (f"`{name}`", _short(row["refined_2x_mse"]), _short(row["refined_4x_mse"]), _short(row["shift_defect"]))
        verdicts = (_yes(row["time_invariant"]), _short(row["flow_defect"]), _yes(row["autonomous"]))
        lines.append(f"| {' | '.join((*cells, *verdicts))} |")
    return lines


def cost_table(results: dict[str, Any]) -> list[str]:
    columns = [results["cost"], *([results["gpu_cost"]] if "gpu_cost" in results else [])]
    names = [
        f"{c['machine']['cores']} cores" if c["machine"]["device"] == "cpu" else c["machine"]["device"] for c in columns
    ]
    lines = [f"| problem | {' | '.join(f'{n}: seconds | samples/s' for n in names)} | file |"]
    lines.append("|---" * (2 * len(columns) + 2) + "|")
    for name in problem_names():
        cells = []
        for column in columns:
            row = column["sets"].get(name)
            cells += [f"{row['seconds']:.1f}", f"{row['trajectories_per_second']:.0f}"] if row else ["–", "–"]
        size = results["cost"]["sets"][name]["file_bytes"] / 2**20
        lines.append(f"| `{name}` | {' | '.join(cells)} | {size:.0f} MiB |")
    return lines


def loop_lines(results: dict[str, Any]) -> list[str]:
    duffing, burgers = results["duffing_against_scipy_loop"], results["burgers_against_sample_loop"]
    peak = results["cost"]["sets"]["advection-diffusion-3d"]["peak_memory_bytes"] / 2**30
    return [
        f"- `duffing`, 1200 pairs at rtol 1e-8: {duffing['ratio']:.0f} times faster than looping scipy's `solve_ivp`.",
        f"- `burgers-0.1`, 1200 pairs: {burgers['ratio']:.0f} times faster than the same scheme sample by sample.",
        f"- `advection-diffusion-3d`: peak memory {peak:.1f} GiB while the set of 1200 is made.",
    ]


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore", tino.TinoWarning)
    if arguments[:1] == ["--cost"]:
        costs(arguments[1], Path(arguments[2]))
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if arguments[:1] == ["--gpu"]:  # the costs measured on another machine
        results["gpu_cost"] = json.loads(Path(arguments[1]).read_text())
        write_json(RESULTS, results)
    elif arguments != ["--page"]:
        results["cost"] = costs("cpu")
        results["duffing_against_scipy_loop"] = scipy_loop()
        results["burgers_against_sample_loop"] = sample_loop()
        results["accuracy"] = {name: accuracy(name) for name in problem_names()}
        write_json(RESULTS, results)
    write_page(results)


if __name__ == "__main__":
    main(sys.argv[1:])
