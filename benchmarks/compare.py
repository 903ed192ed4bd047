"""Training speed of two source trees, side by side: what a change costs.

    python benchmarks/compare.py BEFORE/src src cpu          # -> benchmarks/results/compare-cpu.json
    python benchmarks/compare.py BEFORE/src src cuda fno     # only cases with this in their names, into the same file

Each tree trains in its own process, using only the public API. The two take turns in one run; the result is the
median over the turns of the ratio of their seconds per step.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parent / "results"
KEEP = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=268435456"
# problem, model, training options, steps per turn on a CPU and on a GPU (0: not run)
CASES: dict[str, tuple[str, str, dict[str, Any], int, int]] = {
    "spod-trtino, adam, 32 times": ("burgers-0.1", "spod-trtino", {"optimizer": "adam", "times": 32}, 12, 1500),
    "spod-trtino, adam, all times": ("burgers-0.1", "spod-trtino", {"optimizer": "adam", "times": 0}, 6, 1000),
    "spod-trtino, soap, 32 times": ("burgers-0.1", "spod-trtino", {"optimizer": "soap", "times": 32}, 12, 1200),
    "don, adam, 32 times": ("burgers-0.1", "don", {"optimizer": "adam", "times": 32}, 12, 2000),
    "pod-don, adam, all times": ("burgers-0.1", "pod-don", {"optimizer": "adam", "times": 0}, 60, 4000),
    "tc-don, adam, 32 times": ("burgers-0.1", "tc-don", {"optimizer": "adam", "times": 32}, 12, 1500),
    "trtino on duffing, soap, all times": ("duffing", "trtino", {"optimizer": "soap", "times": 0}, 6, 1000),
    "fno, adam, all times": ("burgers-0.1", "fno", {"optimizer": "adam", "times": 0, "batch_size": 20}, 4, 400),
    "fno on navier-stokes, adam": ("navier-stokes", "fno", {"optimizer": "adam", "times": 0}, 0, 60),
    "fno on advection-diffusion-3d, adam": ("advection-diffusion-3d", "fno", {"optimizer": "adam", "times": 0}, 0, 24),
}


def work(device: str) -> None:
    """One tree: reads the names of cases from standard input, prints the seconds per step of each."""
    import tino

    sets: dict[str, Any] = {}
    for line in sys.stdin:
        problem, model, options, on_cpu, on_gpu = CASES[line.strip()]
        if problem not in sets:
            sets[problem] = tino.dataset(tino.problem(problem), train=400, test=1, device=device, show_progress=False)[
                0
            ]
        steps = on_cpu if device == "cpu" else on_gpu
        batch = 50 if problem == "advection-diffusion-3d" else 200
        config = tino.TrainConfig(**{"steps": steps, "device": device, "batch_size": batch, **options})
        history = tino.fit(tino.build(model, sets[problem]), sets[problem], config, show_progress=False)
        print(json.dumps(history.seconds_per_step), flush=True)


class Tree:
    """A process that trains with one source tree."""

    def __init__(self, source: str, device: str) -> None:
        path = os.pathsep.join([str(Path(source).resolve()), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_WAIT_POLICY": "PASSIVE", "GLIBC_TUNABLES": KEEP}
        command = [sys.executable, __file__, "--work", device]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, case: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{case}\n")
        self.process.stdin.flush()
        return float(json.loads(self.process.stdout.readline()))


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--work"]:
        return work(arguments[1])
    if len(arguments) < 3 or arguments[2] not in ("cpu", "cuda"):
        raise SystemExit(__doc__)
    before, after, device, *words = arguments
    trees = {"before": Tree(before, device), "after": Tree(after, device)}
    out = Path(os.environ.get("OUT", RESULTS)) / f"compare-{device}.json"
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"device": device, "cases": {}}
    for case, (*_, on_cpu, on_gpu) in CASES.items():
        if not (on_cpu if device == "cpu" else on_gpu) or not all(word in case for word in words):
            continue
        times: dict[str, list[float]] = {"before": [], "after": []}
        for turn in range(6):
            for name in times if turn % 2 else reversed(times):  # so that neither always follows the other
                seconds = trees[name].seconds(case)
                if turn:  # the first turn warms up
                    times[name].append(seconds)
        ratio = median(b / a for a, b in zip(times["before"], times["after"], strict=True))
        found["cases"][case] = {"ms": {k: 1e3 * median(v) for k, v in times.items()}, "after_over_before": ratio}
        print(f"{case}: {found['cases'][case]}", flush=True)
        out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
