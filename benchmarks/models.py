"""What the models cost: mixers against the record's length, FNO and DeepONets beside their peers, forms kept for their
speed beside plain ones, the largest tensors.

    python benchmarks/models.py cpu             # 10 minutes on 2 cores -> benchmarks/results/models-cpu.json
    python benchmarks/models.py cuda            # -> benchmarks/results/models-cuda.json
    python benchmarks/models.py cpu --part fno  # one part again, into the same file
    python benchmarks/models.py cpu --quick --out quick.json  # every part on tiny sizes
    python benchmarks/models.py --page          # the tables of docs/cost.md from both files

The peers must be on PYTHONPATH (benchmarks/peers.py says what of them). Ours and theirs take turns in one process; what
is compared is the median over the turns of the ratio of their times. Each part runs in a process of its own, and is
written when it ends.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.metadata import distributions
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import forms
import numpy as np
import peers
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import tino
from tino.files import read_json, write_json
from tino.parts.mixers import DelayMixer, MaskedMixer

RESULTS = Path(__file__).parent / "results"
# A malloc that keeps what was freed: without it large tensors are mapped and zeroed anew in every step.
KEEP = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=268435456"
Found = dict[str, Any]


def alternate(steps: peers.Steps, device: str, repeats: int) -> dict[str, list[float]]:
    """Seconds of each step in each turn, after two calls that do not count; told by the step itself, or measured."""
    for step, _ in steps.values():
        for _ in range(2):
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repeats):
        for name in steps if turn % 2 else reversed(steps):  # so that none always follows the same
            step, calls = steps[name]
            wait(device)
            start = time.perf_counter()
            told = [step() for _ in range(calls)][-1]
            wait(device)
            times[name].append(told or (time.perf_counter() - start) / calls)
    return times


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def mixers(device: str, quick: bool) -> Found:
    """Forward and backward over all times: seconds, peak memory, and their slopes in n_t."""
    b, m, width = (2, 2, 8) if quick else (16, 4, 128)
    lengths = [50, 100, 200] if quick else [250 * 2**i for i in range(6)]
    found: Found = {"batch": b, "sensors": m, "width": width, "n_t": lengths}
    for make in (DelayMixer, MaskedMixer):
        steps: peers.Steps = {}
        for n in lengths:
            mixer, z = make(n, m, width).to(device), torch.randn(b, n, m, device=device)
            back = torch.randn(b, n, width, device=device)
            steps[str(n)] = (lambda mixer=mixer, z=z, back=back: mixer(z).backward(back), 20 if device == "cuda" else 1)
        times = alternate(steps, device, 2 if quick else 9)
        seconds = [median(times[str(n)]) for n in lengths]
        memory = [peak_memory(step, device) for step, _ in steps.values()]
        slopes = {"time_slope": slope(lengths, seconds), "memory_slope": slope(lengths, memory)}
        found[make.__name__] = {"seconds": seconds, "peak_bytes": memory, **slopes}
    return found


def slope(x: list[int], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def peak_memory(step: Callable[[], float | None], device: str) -> float:
    """The most bytes a step holds beyond what was there before it."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        wait(device)
        return float(torch.cuda.max_memory_allocated() - before)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    results: Any = profiler.profiler.kineto_results if profiler.profiler else None
    events = sorted((e.start_ns(), e.nbytes()) for e in results.events() if e.name() == "[memory]")
    return float(np.cumsum([size for _, size in events]).max())


def same_function(device: str, quick: bool) -> Found:
    """How far our Fourier layer and our FNO are from neuraloperator's with the same weights."""
    errors = peers.errors(device)
    return {"relative_errors": errors, "largest": max(v for k, v in errors.items() if "theirs" not in k)}


def fno(device: str, quick: bool) -> Found:
    """A training step of our FNO and of neuraloperator's, in one to four dimensions; Burgers' is 200x128."""
    return steps_of(peers.fno_cases(device, quick), device, quick)


def fno_plain(device: str, quick: bool) -> Found:
    """The first of these with the usual malloc."""
    return steps_of(islice(peers.fno_cases(device, quick), 1), device, quick)


def deeponets(device: str, quick: bool) -> Found:
    """A training step of DON and POD-DON and of DeepXDE's networks, on Burgers' sizes."""
    return steps_of(peers.deeponet_cases(device, quick), device, quick)


def steps_of(cases: Iterable[peers.Case], device: str, quick: bool) -> Found:
    """For each case the median seconds of its steps, and the median over the turns of the ratio of each pair."""
    found: Found = {}
    for case in cases:
        times = alternate(case.steps, device, 2 if quick else 7)
        ratios = {f"{a} / {b}": median(x / y for x, y in zip(times[a], times[b], strict=True)) for a, b in case.pairs}
        seconds = {name: median(values) for name, values in times.items()}
        row = found.setdefault(case.name, {**case.facts, "seconds": {}, "ratios": {}})
        row["seconds"] |= seconds
        row["ratios"] |= ratios
    return found


def special_forms(device: str, quick: bool) -> Found:
    """What is written in a special form for its speed, beside the plain one."""
    return steps_of(forms.cases(device, quick), device, quick)


class Largest(TorchDispatchMode):
    """The most elements that a tensor made by any operation holds."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return made


def tensors(device: str, quick: bool) -> Found:
    """Forward and backward of every model over all times: the largest tensor, at n_t and at twice n_t."""
    b, m, lengths = 8, 16, (50, 100) if quick else (1000, 2000)
    rows: Found = {}
    for name in tino.MODELS:
        largest = []
        for n_t in lengths:
            data = peers.noise(n_t, (m,), 2 * m)
            try:
                model = tino.build(name, data)
            except tino.TinoError:  # for one output signal alone
                data = tino.Dataset(data.f, data.u[..., :1], data.time, data.inputs, tino.Point())
                model = tino.build(name, data)
            model, f, u = model.to(device), data.f[:b].to(device), data.u[:b].to(device)
            with Largest() as seen:
                (model(f) - u).square().mean().backward()
            largest.append(seen.elements)
        growth, share = largest[1] / largest[0], largest[1] / (b * lengths[1] ** 2 * m)
        rows[name] = {"elements": largest, "growth": growth, "share_of_bttm": share}
    worst = {key: max(row[key] for row in rows.values()) for key in ("growth", "share_of_bttm")}
    below = worst["growth"] < 2.1 and worst["share_of_bttm"] < 0.1
    return {"batch": b, "sensors": m, "n_t": lengths, "models": rows, "worst": worst, "far_below_bttm": below}


PARTS: dict[str, Callable[[str, bool], Found]] = {
    "mixers": mixers,
    "same-function": same_function,
    "fno": fno,
    "fno-plain": fno_plain,
    "deeponets": deeponets,
    "forms": special_forms,
    "tensors": tensors,
}


def run(device: str, names: list[str], out: Path, quick: bool) -> bool:
    """The parts one after another, each in its own process; true if all ended well."""
    found: Found = read_json(out) if out.exists() else {}
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    software = {"python": platform.python_version(), "torch": torch.__version__}
    software |= {d.name: d.version for d in distributions() if d.name in ("neuraloperator", "DeepXDE", "deepxde")}
    found["machine"] = found.get("machine", {}) | {"device": name, "cores": os.cpu_count(), **software}
    well = True
    for name in names:
        start = time.perf_counter()
        keep = device == "cpu" and name != "fno-plain"
        env = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "GLIBC_TUNABLES": KEEP if keep else ""}
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / "part.json"
            command = [sys.executable, __file__, device, "--part", name, "--here", "--out", str(part)]
            subprocess.run([*command, *(["--quick"] if quick else [])], env=env, check=False)
            well &= part.exists()
            found[name] = read_json(part) if part.exists() else {"failed": True}
        found[name]["wall_seconds"] = time.perf_counter() - start
        write_json(out, found)
        print(f"{name}: {found[name]}", flush=True)
    return well


def main() -> None:
    parser = argparse.ArgumentParser(description="What the models cost; see the top of this file.")
    parser.add_argument("device", nargs="?", choices=("cpu", "cuda"))
    parser.add_argument("--out", type=Path, help="default: benchmarks/results/models-DEVICE.json")
    parser.add_argument("--part", choices=PARTS, help="this part alone")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the script")
    parser.add_argument("--here", action="store_true", help="measure the part in this process, and write it alone")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/cost.md")
    given = parser.parse_args()
    if given.page:
        import cost_page

        cost_page.write()
        return
    if given.device is None or (given.here and given.part is None):
        parser.error("expected cpu, cuda or --page; --here needs --part")
    out = given.out or RESULTS / f"models-{given.device}.json"
    if given.here:
        torch.manual_seed(0)
        write_json(out, PARTS[given.part](given.device, given.quick))
        return
    names = [given.part] if given.part else [name for name in PARTS if (given.device, name) != ("cuda", "fno-plain")]
    sys.exit(not run(given.device, names, out, given.quick))


if __name__ == "__main__":
    main()
