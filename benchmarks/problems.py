"""The problems measured: accuracy, other coefficients, time invariance, what their sets cost, beside plain loops.

    python benchmarks/problems.py                        # everything, about 45 minutes on 2 cores
    python benchmarks/problems.py --accuracy [PROBLEM ...]   # accuracy alone, of all problems or of these
    python benchmarks/problems.py --coefficients         # other coefficients alone
    python benchmarks/problems.py --only PROBLEM ...     # all of these problems, the results of the others kept
    python benchmarks/problems.py --beyond               # how far the problems beyond the paper are from polynomials
    python benchmarks/problems.py --page                 # write the page again from the results
    python benchmarks/problems.py --cost cuda gpu.json   # the cost alone, on another machine
    python benchmarks/problems.py --gpu gpu.json         # take that into the results

Writes results/problems.json and the tables of docs/problems.md. Times are compared within one run only.
"""

import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tino
from tino.files import write_json, write_text
from tino.generation import generate
from tino.problems import measure_invariance, problem_names
from tino.problems.base import problem_options
from tino.problems.periodic import burgers, flux_equation, forced_periodic, saturating
from tino.problems.refinement import find_refinement

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "results" / "problems.json", ROOT / "docs" / "problems.md"
SET = {"train": 1000, "test": 200}
SAMPLES = {"navier-stokes": 20, "navier-stokes-ic": 20, "advection-diffusion-3d": 20, "heat-triangle": 20}  # else all
OTHERS = [  # coefficients other than the usual ones
    (tino.problem, "duffing", {"damping": 0.1}),
    (tino.problem, "lorenz", {"rho": 28.0}),
    (tino.problem, "pendulum", {"damping": 0.1, "amplitude": 3.0}),
    (tino.problem, "allen-cahn", {"epsilon": 0.003}),
    (tino.problem, "convection-diffusion", {"diffusion": 0.001, "velocity": 0.03}),
    (burgers, "burgers-0.003", {"nu": 0.003}),
    (burgers, "burgers-0.001", {"nu": 0.001}),
    (tino.problem, "rational-flux", {"nu": 0.003}),
    (tino.problem, "navier-stokes", {"nu": 1e-3}),
    (tino.problem, "navier-stokes", {"nu": 1e-4}),
    (tino.problem, "navier-stokes", {"nu": 1e-6}),
    (tino.problem, "heat-triangle", {"alpha": 0.001}),
]
OPTIONS = {  # what --set names: meaning, values
    "clock": ("the paper's 10 - t, or 10 in its place", "printed, constant"),
    "damping": ("c", "any number"),
    "input": ("the paper's sine, or lines at random frequencies up to 8", "sine, multisine"),
    "rho": ("ρ", "any number"),
    "epsilon": ("ε; fronts are about as wide", "above 0"),
    "boundary": ("u_x = 0 at the ends, or the end values fixed", "neumann, frozen"),
    "diffusion": ("D", "above 0"),
    "velocity": ("v", "-30 D to 30 D"),
    "nu": ("ν", "above 0"),
    "saturation": ("a; where abs(u) = a the flux is half its limit", "above 0"),
    "amplitude": ("a factor of the paper's A", "above 0"),
    "alpha": ("α", "above 0"),
    "scheme": ("exact along characteristics, or the paper's first-order scheme", "characteristics, upwind"),
}


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


def other_coefficients(only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """How finely generation solves with other coefficients, and its cost in CPU seconds relative to 1200 samples."""
    rows = []
    for factory, name, options in OTHERS:
        if only and name not in only:
            continue
        problem = factory(name, **options)
        start = time.process_time()
        found = find_refinement(problem)
        middle = time.process_time()
        samples = problem.chunk if problem.outputs.size < 200 else 8
        problem.solve(problem.law.sample(0, 0, range(samples)), found.refine)
        whole = (time.process_time() - middle) * sum(SET.values()) / samples
        row = {"problem": name, "options": options, **asdict(found), "cost_share": (middle - start) / whole}
        print(row, flush=True)
        rows.append(row)
    return rows


def measure_only(names: Sequence[str], results: dict[str, Any]) -> None:
    """Take what is measured of these problems into the results, in the order of a whole run."""
    for name in names:
        results["cost"]["sets"][name] = cost(name, "cpu")
        results["accuracy"][name] = accuracy(name)
    results["accuracy"] = {name: results["accuracy"][name] for name in problem_names() if name in results["accuracy"]}
    order = [(name, options) for _, name, options in OTHERS]
    rows = [row for row in results["coefficients"] if row["problem"] not in names] + other_coefficients(names)
    results["coefficients"] = sorted(rows, key=lambda row: order.index((row["problem"], row["options"])))


def beyond() -> dict[str, Any]:
    """The problems beyond the paper: how far they leave the range where a polynomial would do, on the test samples."""
    problem = tino.problem("pendulum")
    angles = problem.solve(problem.law.sample(0, 1, range(SET["test"]))).abs().amax((1, 2))
    found: dict[str, Any] = {"samples": SET["test"], "pendulum": {"over_the_top": int((angles > math.pi).sum())}}
    problem = tino.problem("rational-flux")
    nu, a, law = problem.options["nu"], problem.options["saturation"], problem.law.sample(0, 1, range(SET["test"]))

    def solved(flux: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """As the problem is solved, with another flux."""
        points, step = problem.solver["points"], problem.time.step / problem.solver["steps_per_output"]
        equation = flux_equation(nu, flux)
        return forced_periodic("", equation, title="", formula="", stop=4.0, points=points, step=step).solve(law)

    u = problem.solve(law)
    spectrum, late = torch.fft.rfft(u).abs(), u[:, problem.time.n // 4 :].abs().amax((1, 2))
    flux = found["rational-flux"] = {
        "largest": float(u.abs().max()),
        "largest_after_1": float(late.max()),
        "past_a_after_1": int((late > a).sum()),
        "past_2a_after_1": int((late > 2 * a).sum()),
        "highest_mode": float((spectrum[..., -1] / spectrum.amax(-1)).max()),
        "without_flux": relative(solved(torch.zeros_like), u),
    }
    for limit in (a, 1.0):  # the flux of the problem, and one that bends where |u| = 1
        true = u if limit == a else solved(lambda v, limit=limit: saturating(v, limit))
        values = true.flatten()[::50].numpy()
        heights = saturating(torch.from_numpy(values), limit).numpy()
        for degree in (2, 3, 5, 8):
            fitted = np.polynomial.Polynomial.fit(values, heights, degree)
            flux[f"a={limit:g} degree={degree}"] = relative(solved(lambda v, fitted=fitted: within(fitted, v)), true)
    print(found, flush=True)
    return found


def within(fitted: np.polynomial.Polynomial, u: torch.Tensor) -> torch.Tensor:
    """The polynomial on the range it was fitted on, constant outside, where it would blow up."""
    low, high = fitted.domain
    return torch.from_numpy(fitted(u.clamp(low, high).numpy()))


def relative(u: torch.Tensor, reference: torch.Tensor) -> float:
    """Relative L2, on average over the samples."""
    return float(((u - reference).flatten(1).norm(dim=1) / reference.flatten(1).norm(dim=1)).mean())


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
    """The tables of docs/problems.md, between their marks."""
    text = PAGE.read_text(encoding="utf-8")
    for mark, table in TABLES.items():
        lines = table(results)
        begin, end = f"<!-- {mark}: written by benchmarks/problems.py -->", f"<!-- end of {mark} -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{after}"
    write_text(PAGE, text)


def option_table(results: dict[str, Any]) -> list[str]:
    rows: dict[tuple[str, str], list[str]] = {}  # option and default -> problems
    for name in problem_names():
        for option, default in problem_options(name).items():
            if option not in ("n_t", "resolution"):
                rows.setdefault((option, f"{default}"), []).append(f"`{name}`")
    lines = ["| option | of | default | meaning | values |", "|---|---|---|---|---|"]
    for (option, default), names in rows.items():
        lines.append(f"| `{option}` | {', '.join(names)} | {default} | {' | '.join(OPTIONS[option])} |")
    return lines


def accuracy_table(results: dict[str, Any]) -> list[str]:
    heads = ("problem", "samples", "refined 2x", "refined 4x", "worst sample")
    heads += ("shift defect", "time-invariant", "flow defect", "autonomous")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, row in results["accuracy"].items():
        cells = (f"`{name}`", str(row["samples"]), _short(row["refined_2x_mse"]), _short(row["refined_4x_mse"]))
        worst = (_short(row["refined_4x_worst_sample_mse"]), _short(row["shift_defect"]))
        verdicts = (_yes(row["time_invariant"]), _short(row["flow_defect"]), _yes(row["autonomous"]))
        lines.append(f"| {' | '.join((*cells, *worst, *verdicts))} |")
    return lines


def above_lines(results: dict[str, Any]) -> list[str]:
    rows = results["accuracy"].items()
    found = [(name, row["refined_4x_above_1e-12"], row["samples"]) for name, row in rows]
    told = [f"{above} of {samples} samples of `{name}`" for name, above, samples in found if above]
    return [f"Refined 4x, {' and '.join(told)} differ by more than 1e-12." if told else "No sample exceeds 1e-12."]


def coefficient_table(results: dict[str, Any]) -> list[str]:
    lines = ["| problem | coefficients | unrefined | factor | error | cost |", "|---|---|---|---|---|---|"]
    for row in results["coefficients"]:
        given = ", ".join(f"{name} = {value:g}" for name, value in row["options"].items())
        errors = (f"{row['unrefined']:.0e}", str(row["refine"]), f"{row['error']:.0e}")
        lines.append(f"| `{row['problem']}` | {given} | {' | '.join(errors)} | {100 * row['cost_share']:.1f} % |")
    return lines


def beyond_lines(results: dict[str, Any]) -> list[str]:
    found = results["beyond"]
    flux, samples = found["rational-flux"], found["samples"]
    heads = [key.split("=")[-1] for key in flux if key.startswith("a=0.2 degree=")]
    lines = [
        f"- `pendulum`: {found['pendulum']['over_the_top']} of {samples} records pass π.",
        f"- `rational-flux`: abs(u) is at most {flux['largest']:.2f}, and {flux['largest_after_1']:.2f} after t = 1,"
        f" where {flux['past_a_after_1']} of {samples} records",
        f"  pass a and {flux['past_2a_after_1']} pass 2a. The highest mode on 128 points is at most"
        f" {flux['highest_mode']:.0e} of the largest. Without the flux the",
        f"  solution is off by {100 * flux['without_flux']:.0f} %.",
        "",
        f"| the best polynomial in place of the flux, of degree | {' | '.join(heads)} |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for limit in ("0.2", "1"):
        cells = [f"{100 * flux[f'a={limit} degree={degree}']:.1f} %" for degree in heads]
        lines.append(f"| relative L2 of the solution, a = {limit} | {' | '.join(cells)} |")
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


TABLES = {
    "options": option_table,
    "accuracy": accuracy_table,
    "above": above_lines,
    "coefficients": coefficient_table,
    "beyond": beyond_lines,
    "cost": cost_table,
    "loops": loop_lines,
}


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
    elif arguments[:1] == ["--accuracy"]:
        for name in arguments[1:] or problem_names():
            results["accuracy"][name] = accuracy(name)
            write_json(RESULTS, results)
    elif arguments == ["--coefficients"]:
        results["coefficients"] = other_coefficients()
        write_json(RESULTS, results)
    elif arguments == ["--beyond"]:
        results["beyond"] = beyond()
        write_json(RESULTS, results)
    elif arguments[:1] == ["--only"]:
        measure_only(arguments[1:], results)
        write_json(RESULTS, results)
    elif arguments != ["--page"]:
        results["cost"] = costs("cpu")
        results["duffing_against_scipy_loop"] = scipy_loop()
        results["burgers_against_sample_loop"] = sample_loop()
        results["accuracy"] = {name: accuracy(name) for name in problem_names()}
        results["coefficients"] = other_coefficients()
        results["beyond"] = beyond()
        write_json(RESULTS, results)
    write_page(results)


if __name__ == "__main__":
    main(sys.argv[1:])
