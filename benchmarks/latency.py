"""How long one step takes on one core: in torch, in onnxruntime, in numpy and in C, beside a scipy integrator's step.

    python benchmarks/latency.py    # -> benchmarks/results/latency.json and the table in docs/realtime.md

One sensor: ``duffing`` with its 1000 times. 128 sensors: a Duffing oscillator that is driven by the mean of a field on
an interval. Networks keep their first weights: their speed does not depend on them. Every call is timed by itself, from
numpy to numpy; C is called through ctypes, whose own cost counts.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import onnxruntime
import torch
from scipy.integrate import solve_ivp

import tino
from tino.environment import environment
from tino.exporting.runner import Runner
from tino.files import read_json, write_json

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "latency.json", ROOT / "docs" / "realtime.md"
CALLS, WARM = 2000, 200
MODELS = ("linear", "polynomial", "tino")
WAYS = {"torch": "torch", "onnx": "onnxruntime", "numpy": "numpy", "c": "C"}
Step = Callable[[np.ndarray], Any]


def field_driven(records: int = 60, times: int = 200, sensors: int = 128) -> tino.Dataset:
    """u'' + u' + u + u³ = the mean of f over the interval, by small Euler steps; f is a sum of six moving waves."""
    generator = torch.Generator().manual_seed(0)
    x = torch.linspace(0, 1, sensors, dtype=torch.float64)
    waves = torch.stack([torch.cos(torch.pi * k * x) for k in range(6)])
    t = torch.linspace(0, 10, times, dtype=torch.float64)
    rate, phase, size = (torch.rand(records, 1, 6, generator=generator, dtype=torch.float64) for _ in range(3))
    f = (2 * size * torch.sin(3 * rate * t[:, None] + 6 * phase)) @ waves
    u, v, path = torch.zeros(records).double(), torch.zeros(records).double(), []
    for drive in f.mean(-1).unbind(1):
        path.append(u)
        for _ in range(20):
            v = v + (t[1] / 20) * (drive - v - u - u**3)
            u = u + (t[1] / 20) * v
    grid = tino.TimeGrid(0.0, 10.0, times)
    return tino.Dataset(f, torch.stack(path, 1)[..., None], grid, tino.Interval(0.0, 1.0, sensors), tino.Point())


def timed(step: Step, inputs: np.ndarray) -> dict[str, float]:
    """Median and 99th percentile of one call, in microseconds."""
    found = []
    for n in range(WARM + CALLS):
        given = inputs[n % len(inputs)]
        began = time.perf_counter_ns()
        step(given)
        found.append(time.perf_counter_ns() - began)
    median, late = np.percentile(np.array(found[WARM:]) / 1000, (50, 99))
    return {"median": float(median), "p99": float(late)}


def in_onnx(model: tino.Operator, folder: Path) -> Step:
    done = tino.export(model, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    step, start = (onnxruntime.InferenceSession(str(file), options) for file in done.files)
    kind = {"tensor(float)": np.float32}.get(step.get_inputs()[0].type, np.float64)
    state = start.run(None, {"f": np.zeros((1, model.frame.input_size), kind)})[1:]

    def call(f: np.ndarray) -> None:
        nonlocal state
        held = {f"state_{n}": one for n, one in enumerate(state)}
        state = step.run(None, {"f": f[None].astype(kind), **held})[1:]

    return call


def in_numpy(model: tino.Operator, folder: Path) -> Step:
    tino.export(model, folder / "model.npz", "numpy")
    return Runner(folder / "model.npz").step


def in_c(model: tino.Operator, folder: Path) -> Step:
    source = tino.export(model, folder / "model.c", "c").files[1]
    library = source.with_suffix(".so")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    step = ctypes.CDLL(str(library)).model_step
    kind = np.float32 if torch.float32 in {p.dtype for p in model.parameters()} else np.float64
    state, u = ctypes.create_string_buffer(2**24), np.zeros(model.frame.output_size, kind)
    ctypes.CDLL(str(library)).model_start(state, None)
    answer = u.ctypes.data

    def call(f: np.ndarray) -> None:
        given = f.astype(kind)
        step(state, ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(answer))

    return call


WAY: dict[str, Callable[[tino.Operator, Path], Step]] = {
    "torch": lambda model, _: tino.Stream(model).push,
    "onnx": in_onnx,
    "numpy": in_numpy,
    "c": in_c,
}


def measure(name: str, train: tino.Dataset) -> dict[str, Any]:
    model = tino.build(name, train)
    model.solve(train)
    model.requires_grad_(False)
    inputs = train.f[0].double().numpy()
    row: dict[str, Any] = {"sensors": train.input_size, "parameters": sum(p.numel() for p in model.parameters())}
    with tempfile.TemporaryDirectory() as folder:
        for way, made in WAY.items():
            row[way] = timed(made(model, Path(folder)), inputs)
            print(name, train.input_size, way, row[way], flush=True)
    return row


def integrator(dt: float, inputs: np.ndarray) -> dict[str, float]:
    """One sample of the Duffing equation by scipy's RK45 at the tolerance of the reference solutions."""
    y = np.zeros(2)

    def step(f: np.ndarray) -> None:
        nonlocal y
        force = float(f[0])
        slope = lambda t, y: (y[1], force - y[1] - y[0] - y[0] ** 3)  # noqa: E731
        y = solve_ivp(slope, (0.0, dt), y, rtol=1e-8, atol=1e-10).y[:, -1]

    return timed(step, inputs)


def table(results: dict[str, Any]) -> list[str]:
    lines = ["| one step of | sensors | " + " | ".join(WAYS.values()) + " |", "|---|--:|" + "--:|" * len(WAYS)]
    for name, row in results["models"].items():
        cells = [f"{row[way]['median']:.3g} ({row[way]['p99']:.3g})" for way in WAYS]
        lines.append(f"| `{name.split(',')[0]}` | {row['sensors']} | {' | '.join(cells)} |")
    scipy = results["scipy"]
    blank = " | ".join("" for _ in WAYS)
    return [*lines, f"| scipy's RK45, Duffing | 1 | {scipy['median']:.3g} ({scipy['p99']:.3g}) | {blank[3:]}|"]


TABLES = {"latency": table}


def write_page() -> None:
    text, results = PAGE.read_text(encoding="utf-8"), read_json(RESULTS)
    for name, made in TABLES.items():
        start, end = f"<!-- {name}: written by benchmarks/latency.py -->", f"<!-- end of {name} -->"
        head, rest = text.split(start)
        text = "\n".join([head + start, *made(results), end + rest.split(end)[1]])
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    duffing, _ = tino.dataset(tino.problem("duffing"), train=200, test=2)
    many, rows = field_driven(), {}
    for name in MODELS:
        for data in (duffing, many):
            rows[f"{name}, {data.input_size} sensors"] = measure(name, data)
    record = {
        "unit": "microseconds, median and 99th percentile of single calls on one core",
        "calls": CALLS,
        "models": rows,
        "scipy": integrator(duffing.time.step, duffing.f[0].double().numpy()),
        "load_average": os.getloadavg(),
        "environment": environment(torch.device("cpu")),
    }
    write_json(RESULTS, record)
    write_page()


if __name__ == "__main__":
    write_page() if sys.argv[1:] == ["page"] else main()
