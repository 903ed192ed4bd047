"""How often tino.diagnosis is right: false alarms on systems known to be causal and autonomous, power on others.

    python benchmarks/diagnosis.py            # 15 minutes on 2 cores -> benchmarks/results/diagnosis.json
    python benchmarks/diagnosis.py --state    # only whether u is the state, 4 minutes -> results/statehood.json
    python benchmarks/diagnosis.py --page     # only write the tables of docs/diagnose.md from both

The thresholds were set on draws with seed 0; all draws here have seed 1. A trial is a random subset of a pool, so the
trials of one system share samples.
"""

import dataclasses
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch import Tensor

import tino
from tino.diagnosis import diagnose
from tino.files import write_json, write_text
from tino.inputs import Uniform

HERE = Path(__file__).parent
STATES = HERE / "results" / "statehood.json"
RESULTS, PAGE = HERE / "results" / "diagnosis.json", HERE.parent / "docs" / "diagnose.md"
SEED = 1
LARGE = ("heat-triangle", "navier-stokes", "navier-stokes-ic", "advection-diffusion-3d")
AT_REST = ("fitting-space", "duffing", "gradient-flow", "pendulum", "heat-triangle")  # by their shift defect
CLOCKED = ("fitting-time", "advection-reaction")  # by their flow defect
RICH = ("duffing", "gradient-flow", "lorenz", "convection-diffusion", "burgers-0.1", "advection-reaction")
N_T, POOL = 200, 400  # of the systems made here


@dataclass(frozen=True)
class Case:
    """A system, what is true of it, and the trials to run: how many of which size, with how much noise on u."""

    name: str
    group: str
    causal: bool
    autonomous: bool
    at_rest: bool | None  # None: neither answer is wrong
    trials: tuple[tuple[int, int, float], ...]  # (samples, trials, noise)


def cases() -> list[Case]:
    found = []
    for name in tino.problem_names():
        few = (5, 5, 2) if name in LARGE else (10, 10, 4)
        trials = ((100, few[0], 0.0), (200, few[1], 0.0), (200, few[2], 0.01))
        found.append(Case(name, "problem", True, name not in CLOCKED, name in AT_REST, trials))
    standard = ((100, 10, 0.0), (200, 10, 0.0), (200, 4, 0.01))
    found.append(Case("fitting-time, clock=constant", "problem", True, True, True, standard))
    short = ((100, 4, 0.0), (200, 4, 0.0), (200, 2, 0.01))
    for name in RICH:
        at_rest = name in AT_REST
        found.append(Case(f"{name}, rich input", "rich input", True, name not in CLOCKED, at_rest, short))
    for name, (causal, autonomous, at_rest, _, _) in MADE.items():
        found.append(Case(name, "made here", causal, autonomous, at_rest, short))
    return found


def rich(problem: tino.Problem) -> tino.Problem:
    """The problem driven by eight sines of 0.1 to 10 cycles a record in place of one: a future that is news."""
    cycle = 2 * math.pi / (problem.time.stop - problem.time.start)

    def amplitude(p: Any, t: Tensor) -> Tensor:
        return p["A"] * torch.sin(p["b"] * t[..., None] + p["c"]).sum(-1) / 2

    ranges = {**problem.law.ranges, "b": Uniform(0.1 * cycle, 10 * cycle, 8), "c": Uniform(0.0, 2 * math.pi, 8)}
    law = dataclasses.replace(problem.law, formula="A Σ_k sin(b_k t + c_k) / 2 ...", ranges=ranges, amplitude=amplitude)
    return dataclasses.replace(problem, law=law, name=f"{problem.name}-rich")


def smooth_noise(generator: torch.Generator) -> Tensor:
    """White noise under a Gaussian of width T / 40, also before T_0 and after T -> (n, 2 N_T)."""
    width = N_T // 40
    s = torch.arange(-4 * width, 4 * width + 1, dtype=torch.float64) / width
    white = torch.randn(POOL, 1, 2 * N_T + 8 * width, generator=generator, dtype=torch.float64)
    weights = torch.exp(-(s**2) / 2)
    return torch.nn.functional.conv1d(white, (weights / weights.norm())[None, None])[:, 0]


def single_sines(generator: torch.Generator) -> Tensor:
    """A sin(b t + c), half a cycle to three a record."""
    a, b, c = torch.rand(3, POOL, 1, generator=generator, dtype=torch.float64)
    t = torch.linspace(-0.5, 1.5, 2 * N_T, dtype=torch.float64)
    return (0.5 + a) * torch.sin(math.pi * (1 + 5 * b) * t + 2 * math.pi * c)


def response(f: Tensor, kernel: Callable[[Tensor], Tensor], start: int = N_T // 2) -> Tensor:
    """∫ kernel(t - s) f(s) ds over s from the start on, kernel in records; on the middle half of f."""
    f = torch.where(torch.arange(2 * N_T) >= start, f, 0.0)
    lag = torch.arange(-2 * N_T + 1, 2 * N_T, dtype=torch.float64) / N_T
    weights = kernel(lag)[None, None] / N_T
    full = torch.nn.functional.conv1d(f[:, None], weights.flip(-1), padding=2 * N_T - 1)[:, 0]
    return full[:, N_T // 2 : N_T // 2 + N_T]


def decay(rate: float, cycles: float = 0.0, shift: float = 0.0) -> Callable[[Tensor], Tensor]:
    """e^{-rate s} cos(2π cycles s) for s >= 0, s = lag + shift: it comes early by the shift."""

    def kernel(lag: Tensor) -> Tensor:
        s = lag + shift
        return torch.where(s >= 0, torch.exp(-rate * s.clamp_min(0)) * torch.cos(2 * math.pi * cycles * s), 0.0)

    return kernel


def gain(depth: float) -> Callable[[Tensor], Tensor]:
    return lambda f: response(f, decay(10)) * (1 + depth * torch.linspace(-1, 1, N_T, dtype=torch.float64))


def pendulum(f: Tensor) -> Tensor:
    """Three cycles of a shared free motion, little forced: the time says where every sample is."""
    t = torch.linspace(0, 1, N_T, dtype=torch.float64)
    forced = response(f, lambda s: torch.where(s >= 0, torch.exp(-s / 2) * torch.sin(6 * math.pi * s), 0.0))
    return torch.exp(-t / 2) * torch.cos(6 * math.pi * t) + 2 * forced


def early(f: Tensor) -> Tensor:
    return response(f, decay(10, shift=0.05), 0)


def average(f: Tensor) -> Tensor:
    return response(f, lambda s: (s.abs() <= 0.05).double(), 0)


def two_sided(f: Tensor) -> Tensor:
    return response(f, lambda s: torch.exp(-20 * s.abs()), 0)


# name -> causal, autonomous, at rest, input, response
MADE: dict[str, tuple[bool, bool, bool | None, Callable[..., Tensor], Callable[[Tensor], Tensor]]] = {
    "decay": (True, True, True, smooth_noise, lambda f: response(f, decay(10))),
    "resonance": (True, True, True, smooth_noise, lambda f: response(f, decay(3, 6))),
    "resonance, single sines": (True, True, True, single_sines, lambda f: response(f, decay(1, 3))),
    "decay of tanh(2 f)": (True, True, True, smooth_noise, lambda f: response(torch.tanh(2 * f), decay(10))),
    "shared swing, single sines": (True, True, False, single_sines, pendulum),
    "gain drifts by ±10 %": (True, False, None, smooth_noise, gain(0.1)),
    "gain drifts by ±30 %": (True, False, None, smooth_noise, gain(0.3)),
    "gain drifts by ±30 %, single sines": (True, False, None, single_sines, gain(0.3)),
    "centred moving average": (False, True, None, smooth_noise, average),
    "decay, early by T/20": (False, True, None, smooth_noise, early),
    "two-sided decay": (False, True, None, smooth_noise, two_sided),
    "decay, early by T/20, single sines": (False, True, None, single_sines, early),
}


def pool(name: str) -> tino.Dataset:
    """All samples of a system that trials draw from."""
    if name in MADE:
        *_, inputs, answer = MADE[name]
        f = inputs(torch.Generator().manual_seed(SEED))
        middle = f[:, N_T // 2 : N_T // 2 + N_T, None].float()
        u = answer(f)[:, :, None].float()
        return tino.Dataset(middle, u, tino.TimeGrid(0.0, 1.0, N_T), tino.Point(), tino.Point())
    base, _, option = name.partition(", ")
    problem = tino.problem(base, clock="constant") if option == "clock=constant" else tino.problem(base)
    problem = rich(problem) if option == "rich input" else problem
    train = 60 if base == "navier-stokes-ic" else 300 if base in LARGE else POOL
    return tino.dataset(problem, SEED, train, 1, show_progress=False)[0]


def measure(case: Case) -> dict[str, Any]:
    """All trials of a case: verdicts counted, numbers as medians."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", tino.TinoWarning)
    data = pool(case.name)
    rows = []
    for samples, trials, noise in case.trials:
        found, seconds = [], []
        for trial in range(trials):
            generator = torch.Generator().manual_seed(1000 * samples + trial)
            some = data.take(torch.randperm(len(data), generator=generator)[:samples])
            if noise:
                error = noise * some.u.std() * torch.randn(some.u.shape, generator=generator)
                some = dataclasses.replace(some, u=some.u + error)
            start = time.perf_counter()
            found.append(diagnose(some, trial, show_progress=False))
            seconds.append(time.perf_counter() - start)
        numbers: dict[str, list[float]] = {
            "unexplained": [d.unexplained for d in found],
            "clock_share": [d.clock[0] for d in found],
            "clock_standard_errors": [d.clock[1] for d in found],
            "velocity_share": [d.velocity for d in found],
            "clock_share_beside_velocity": [d.clock_beside[0] for d in found],
            "clock_standard_errors_beside_velocity": [d.clock_beside[1] for d in found],
            "novelty": [d.novelty for d in found],
            "future_share": [d.future[0] for d in found],
            "history_unexplained": [d.history for d in found],
            "history_ratio": [d.history_ratio[0] for d in found],
            "seconds": seconds,
        }
        rows.append(
            {
                "samples": samples,
                "noise": noise,
                "trials": trials,
                "not_causal": sum(d.causal is False for d in found),
                "causality_unknown": sum(d.causal is None for d in found),
                "not_autonomous": sum(not d.autonomous for d in found),
                "at_rest": sum(d.at_rest is True for d in found),
                "models": dict(Counter(d.network for d in found)),
                "medians": {key: statistics.median(values) for key, values in numbers.items()},
            }
        )
    print(f"{case.name}: {sum(r['trials'] for r in rows)} trials", flush=True)
    return {**dataclasses.asdict(case), "trials": rows}


def totals(results: list[dict[str, Any]], noisy: bool) -> dict[str, list[int]]:
    """[wrong or found, of]: false alarms and hits over all trials, with noise or without."""
    count = {key: [0, 0] for key in ("clock false alarms", "clock hits", "future false alarms", "future hits", "start")}
    for case in results:
        for row in case["trials"]:
            if bool(row["noise"]) != noisy:
                continue
            n = row["trials"]
            clock = "clock false alarms" if case["autonomous"] else "clock hits"
            future = "future false alarms" if case["causal"] else "future hits"
            told = n - row["causality_unknown"]
            counted = [(clock, row["not_autonomous"], n), (future, row["not_causal"], told)]
            if case["at_rest"] is not None and case["autonomous"]:
                counted.append(("start", row["at_rest"] if case["at_rest"] else n - row["at_rest"], n))
            for key, hits, of in counted:
                count[key][0] += hits
                count[key][1] += of
    return count


def case_table(results: dict[str, Any]) -> list[str]:
    """One line a system: what the trials said, 100 and 200 samples without noise and 200 with 1 %."""
    lines = [
        "| system | autonomous? | said not: 100 samples | 200 | 200, 1 % noise | clock's share | causal? | said not"
        " | cannot tell | at rest? | said so |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in results["cases"]:
        rows = case["trials"]
        total = sum(row["trials"] for row in rows)

        def of(key: str, rows: Any = rows, total: int = total) -> str:
            return f"{sum(row[key] for row in rows)}/{total}"

        clock = [f"{row['not_autonomous']}/{row['trials']}" for row in rows]
        share = max(0.0, rows[1]["medians"]["clock_share"])
        rest = "–" if case["at_rest"] is None else _yes(case["at_rest"])
        cells = [case["name"], _yes(case["autonomous"]), *clock, f"{100 * share:.2g} %", _yes(case["causal"])]
        lines.append(f"| {' | '.join([*cells, of('not_causal'), of('causality_unknown'), rest, of('at_rest')])} |")
    return lines


def total_lines(results: dict[str, Any]) -> list[str]:
    lines = ["| | without noise | 1 % noise on u |", "|---|---|---|"]
    labels = {
        "clock false alarms": "false alarms: an autonomous system called clocked",
        "clock hits": "clocked systems found",
        "future false alarms": "false alarms: a causal system called not causal, where the inputs can tell",
        "future hits": "non-causal systems found, where the inputs can tell",
        "start": "start at rest or not, right (autonomous systems)",
    }
    for key, label in labels.items():
        cells = [f"{n} of {of}" for n, of in (results["totals"][noise][key] for noise in ("none", "1 %"))]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def measure_states() -> list[dict[str, Any]]:
    """For tino's problems: what is said of the state, of 200 samples, of 100, and of 200 with 1 % noise on u."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", tino.TinoWarning)
    rows = []
    for name in tino.problem_names():
        train = 60 if name == "navier-stokes-ic" else 200
        data = tino.dataset(tino.problem(name), SEED, train, 1, show_progress=False)[0]
        generator, said = torch.Generator().manual_seed(SEED), []
        error = 0.01 * data.u.std() * torch.randn(data.u.shape, generator=generator)
        noisy = dataclasses.replace(data, u=data.u + error)
        for some in (data, data.take(torch.arange(100)), noisy):
            found = diagnose(some, SEED, show_progress=False)
            said.append({"said": found.state.word, **dataclasses.asdict(found.state)})
        rows.append({"name": name, "found": said})
        print(f"{name}: {', '.join(one['said'] for one in said)}", flush=True)
    return rows


def state_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| problem | 200 samples | over time steps | left by 1, 2, ... delays | 100 samples | 200, 1 % noise on u |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        full, fewer, noisy = row["found"]
        left = ", ".join(f"{100 * share:.2g} %" for share in full["left"])
        clock = " (time given)" if full["timed"] else ""
        cells = [row["name"], full["said"] + clock, str(full["stride"]), left, fewer["said"], noisy["said"]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def write_page(results: dict[str, Any], states: list[dict[str, Any]]) -> None:
    """The tables of docs/diagnose.md, between their marks."""
    text = PAGE.read_text(encoding="utf-8")
    tables = {"totals": total_lines(results), "systems": case_table(results), "states": state_table(states)}
    for mark, lines in tables.items():
        begin, end = f"<!-- {mark}: written by benchmarks/diagnosis.py -->", f"<!-- end of {mark} -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{after}"
    write_text(PAGE, text)


def main(arguments: list[str]) -> None:
    if arguments != ["--page"]:
        write_json(STATES, measure_states())
    if arguments not in (["--page"], ["--state"]):
        start = time.perf_counter()
        slow = {name: i for i, name in enumerate(reversed(LARGE), 1)}
        order = sorted(cases(), key=lambda case: -slow.get(case.name, 0))  # the slowest first
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as workers:
            measured = dict(zip([case.name for case in order], workers.map(measure, order), strict=True))
        rows = [measured[case.name] for case in cases()]
        versions = {"tino": tino.__version__, "python": platform.python_version(), "torch": torch.__version__}
        results = {
            "machine": {"cores": os.cpu_count(), **versions},
            "seconds": time.perf_counter() - start,
            "totals": {"none": totals(rows, False), "1 %": totals(rows, True)},
            "cases": rows,
        }
        write_json(RESULTS, results)
    write_page(*[json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS, STATES)])


if __name__ == "__main__":
    main(sys.argv[1:])
