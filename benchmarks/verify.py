"""The long checks: many kills, the full demo. Writes results/verify.json (benchmarks/problems.py has the solvers).

Run by ``make verify`` (about 5 minutes on 2 cores); ``verify.py demo`` measures the demo alone again. A bar that is
missed is printed and makes the script fail, after the results are written.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from tino.files import write_json, write_text
from tino.paper import PAPER

ROOT = Path(__file__).parent.parent
KEPT = (
    "mse_mean",
    "mse_sd",
    "rel_l2_mean",
    "parameters",
    "train_seconds",
    "causal",
    "time_invariant",
    "dataset_sha256",
)


def kills(count: int = 20) -> dict[str, object]:
    """The kill test of tests/test_data.py at many random moments: a whole file or none, every time."""
    command = [sys.executable, "-m", "pytest", "tests/test_data.py", "-k", "kill_leaves"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "TINO_KILLS": str(count)}, check=False)
    return {"kills": count, "every_file_whole_or_absent": done.returncode == 0}


def demo(cache: str) -> dict[str, object]:
    """``make demo`` twice with an empty cache at first: seconds, seconds to the first step, scores."""
    first = demo_once(cache)
    rows = {}
    for model in ("don", "spod-trtino", "equation"):
        record = json.loads((ROOT / "runs" / "demo" / model / "run.json").read_text())
        figure = PAPER["burgers-0.1"].get(model)
        rows[model] = {key: record[key] for key in KEPT} | {"paper_mse": None if figure is None else figure[0]}
    fno = json.loads((ROOT / "results" / "paper" / "burgers-0.1" / "fno-0.json").read_text())["mse_mean"]
    second = demo_once(cache, until_training=True)
    ratio = rows["don"]["mse_mean"] / rows["spod-trtino"]["mse_mean"]
    return {
        "seconds": first,
        "second_demo_seconds_to_training": second,
        "models": rows,
        "don_over_spod_trtino": ratio,
        "equation_over_fno": rows["equation"]["mse_mean"] / fno,
    }


def demo_once(cache: str, until_training: bool = False) -> float:
    """Run make demo -> its seconds, or the seconds until its first training line appears."""
    start = time.perf_counter()
    process = subprocess.Popen(
        ["make", "demo"],
        cwd=ROOT,
        env={**os.environ, "TINO_CACHE": cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if not re.match(r"(training|generating) ", line):
            print(line, end="", flush=True)
        if until_training and line.startswith("training"):
            seconds = time.perf_counter() - start
            process.terminate()
            process.communicate()
            return seconds
    if process.wait() != 0:
        raise SystemExit("make demo failed")
    return time.perf_counter() - start


def main() -> None:
    torch.set_num_threads(2)
    path = ROOT / "results" / "verify.json"
    results = json.loads(path.read_text()) if sys.argv[1:] == ["demo"] else {"kills_while_generating": kills()}
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__}
    results = {"machine": machine, **results}
    with tempfile.TemporaryDirectory() as cache:
        results["demo"] = demo(cache)
    write_json(path, results)
    write_table(results["demo"])
    missed = bars(results)
    print("\n".join(missed) or "all bars met: see results/verify.json")
    sys.exit(bool(missed))


def write_table(demo: dict) -> None:
    """Put the demo's figures into the README, between its two marks."""
    columns = (
        "model",
        "MSE ± SD",
        "relative L2",
        "parameters",
        "training",
        "causal",
        "time-inv.",
        "paper's MSE",
    )
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for model, r in demo["models"].items():
        cells = (
            f"`{model}`",
            f"{r['mse_mean']:.2e} ± {r['mse_sd']:.2e}",
            f"{r['rel_l2_mean']:.2e}",
            f"{r['parameters']:,}",
            f"{r['train_seconds']:.0f} s",
            "yes" if r["causal"] else "no",
            "yes" if r["time_invariant"] else "no",
            "–" if r["paper_mse"] is None else f"{r['paper_mse']:.2e}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    path = ROOT / "README.md"
    begin, end = "<!-- demo table: written by benchmarks/verify.py -->", "<!-- end of demo table -->"
    text = path.read_text(encoding="utf-8")
    before, after = text.split(begin)[0], text.split(end)[1]
    write_text(path, f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{after}")


def bars(results: dict) -> list[str]:
    """What the results fall short of."""
    demo = results["demo"]
    don = demo["models"]["don"]
    checks = {
        "a kill left a broken file": results["kills_while_generating"]["every_file_whole_or_absent"],
        "the demo takes over 4 minutes": demo["seconds"] <= 240,
        "the second demo takes over 15 s to start training": demo["second_demo_seconds_to_training"] <= 15,
        "DON is above the paper's figure": don["mse_mean"] <= don["paper_mse"],
        "SPOD-TrTINO is above a tenth of DON": demo["don_over_spod_trtino"] >= 10,
        "the equation is above FNO's figure on an H200": demo["equation_over_fno"] <= 1,
    }
    return [text for text, met in checks.items() if not met]


if __name__ == "__main__":
    main()
