"""Flows beside FNO and the paper's models: which one is chosen for each problem, and the tables of docs/beyond.md.

    tino bench --problems burgers-0.1 --models linear polynomial equation --out results/beyond   # and so on
    python benchmarks/beyond.py --choose runs/beyond   # scores those runs on samples of another seed
    python benchmarks/beyond.py                        # writes docs/beyond.md's tables

The model of a row is the one with the least MSE on 200 samples of seed 1, which no table uses, after training on seed
0, of those that were trained with all seeds of the row and do not take longer than FNO's training: flow-tino does.
benchmarks/results/beyond.json holds these errors. Test samples choose nothing.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import tino
from tino.files import read_json, write_json, write_text
from tino.models.flow import Flow
from tino.paper import PAPER, own_model
from tino.parts.coefficients import CoefficientLaw
from tino.parts.equation import EquationLaw
from tino.parts.wavenumbers import WavenumberLaw
from tino.report.tables import short
from tino.results import Entry, Results, read_results
from tino.runs import read_run

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "beyond"
CHOICES = Path(__file__).parent / "results" / "beyond.json"
RIVALS = Path(__file__).parent / "results" / "rivals.json"
OVERFLOWS = Path(__file__).parent / "results" / "overflows.json"  # cells whose models predict no finite numbers
HORIZON = Path(__file__).parent / "results" / "horizon.json"
COARSE = Path(__file__).parent / "results" / "coarse.json"
DESIGNS = Path(__file__).parent / "results" / "designs.json"
FLOW_COSTS = Path(__file__).parent / "results" / "flow-costs.json"
GPU_COSTS = Path(__file__).parent / "results" / "flow-costs-cuda.json"
MODELS = ROOT / "results" / "beyond-models"  # small ones, for read-outs
PAGE, README = ROOT / "docs" / "beyond.md", ROOT / "README.md"
HELD_OUT, SAMPLES = 1, 200
ROWS = [name for name in PAPER if "fno" in PAPER[name] and name != "fitting-time"]
BEYOND = ("pendulum", "rational-flux")
LONGER = ("flow-tino", "flow-tino-clock")  # to train than FNO on a GPU (benchmarks/flow_costs.py)


def choose(runs: Path) -> None:
    """Score every finished run of seed 0 on samples that no table uses."""
    found: dict[str, Any] = read_json(CHOICES) if CHOICES.exists() else {}
    for folder in sorted(runs.glob("*/*-0")):
        problem, model = folder.parent.name, folder.name.removesuffix("-0")
        if model in found.get(problem, {}) or not (folder / "run.json").exists():
            continue
        run = read_run(folder)
        _, others = tino.dataset(tino.problem(problem), seed=HELD_OUT, train=1, test=SAMPLES)
        try:
            error = tino.evaluate(run.model(), others).mse_mean
        except tino.TinoError:  # it overflows on one of them
            error = None
        found.setdefault(problem, {})[model] = {"held_out_mse": error, "samples": len(others)}
        print(f"{problem}, {model}: {'diverges' if error is None else f'{error:.3e}'}", flush=True)
        write_json(CHOICES, {name: dict(sorted(found[name].items())) for name in sorted(found)})


def chosen(problem: str) -> str:
    """The model with the least error on the held-out samples, of those with results for all seeds of the problem that
    take no longer than FNO."""
    rows = read_json(CHOICES)[problem]
    errors = {model: row["held_out_mse"] for model, row in rows.items() if model not in LONGER}
    seeds = {model: len(list((RESULTS / problem).glob(f"{model}-[0-9].json"))) for model in errors}
    whole = [model for model in errors if errors[model] is not None and seeds[model] == max(seeds.values())]
    return min(whole, key=errors.__getitem__)


def entry(results: Results, problem: str, model: str) -> Entry | None:
    return next((one for one in results.entries if (one.problem, one.model) == (problem, model)), None)


def stepper(results: Results, problem: str) -> Entry | None:
    """fno-step, with the clock where that is its form."""
    return entry(results, problem, "fno-step") or entry(results, problem, "fno-step-clock")


def error(results: Results, problem: str, model: str) -> float | None:
    found = entry(results, problem, model)
    return None if found is None else found.error


def table(paper: Results, beyond: Results) -> str:
    """One line a problem: FNO, the paper's own model, the flows, and the chosen one beside FNO."""
    models = ("linear", "polynomial", "equation", "flow-tino")
    heads = ["problem", "paper's best", "FNO", "paper's own model", *models, "seeds", "chosen", "of FNO's error"]
    lines = [f"| {' | '.join(heads)} |", f"| :--- |{' ---: |' * (len(heads) - 1)}"]
    for problem in ROWS:
        fno, best = error(paper, problem, "fno"), chosen(problem)
        assert fno is not None
        clock = "-clock" if problem == "advection-reaction" else ""
        cells = [short(min(figure[0] for figure in PAPER[problem].values())), short(fno)]
        own = error(paper, problem, own_model(problem))
        cells.append("–" if own is None else short(own))
        for model in models:
            value = error(beyond, problem, model + (clock if model != "equation" else ""))
            text = "–" if value is None else short(value)
            cells.append(f"**{text}**" if model + clock == best or model == best else text)
        one = entry(beyond, problem, best)
        assert one is not None
        lines.append(f"| {problem} | {' | '.join(cells)} | {len(one.results)} | {best} | {one.error / fno:.1e} |")
    return "\n".join(lines)


def short_table(paper: Results, beyond: Results) -> str:
    """For the README: FNO, the paper's own model, the chosen flow."""
    lines = ["| problem | FNO | the paper's own model | a flow | which |", "| :--- | ---: | ---: | ---: | :--- |"]
    for problem in ROWS:
        values = (error(paper, problem, "fno"), error(paper, problem, own_model(problem)))
        best = chosen(problem)
        flow = error(beyond, problem, best)
        assert flow is not None
        cells = ["–" if value is None else short(value) for value in values]
        lines.append(f"| {problem} | {' | '.join(cells)} | **{short(flow)}** | `{best}` |")
    return "\n".join(lines)


def others(beyond: Results) -> str:
    """The problems whose nonlinearity is not polynomial; a model may overflow on the test records of a seed."""
    models = ("linear", "polynomial", "equation", "flow-tino")
    lines = [f"| problem | {' | '.join(models)} |", f"| :--- |{' ---: |' * len(models)}"]
    for problem in BEYOND:
        cells = []
        for model in models:
            value, seeds = error(beyond, problem, model), read_json(OVERFLOWS).get(problem, {}).get(model, [])
            told = [] if value is None else [short(value)]
            told += [f"overflows with seed {' and '.join(map(str, seeds))}"] if seeds else []
            cells.append("; ".join(told) or "–")
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    return "\n".join(lines)


def steppers(beyond: Results) -> str:
    """fno-step beside the chosen flow, the range of its seeds, and how long it was trained."""
    heads = "| problem | chosen flow | fno-step | seed by seed | steps | seconds | the flow's over its error |"
    lines = [heads, f"| :--- |{' ---: |' * 6}"]
    for problem in ROWS:
        found = stepper(beyond, problem)
        flow = error(beyond, problem, chosen(problem))
        if found is None or flow is None:
            continue
        seeds = [short(result.mse) for result in found.results] if len(found.results) > 1 else ["–"]
        steps = [f"{result.steps:,}" for result in found.results]
        seconds = max(result.train_seconds for result in found.results)
        cells = [short(flow), short(found.error), ", ".join(seeds), ", ".join(steps), f"{seconds:.0f}"]
        lines.append(f"| {problem} | {' | '.join(cells)} | {flow / found.error:.1e} |")
    return "\n".join(lines)


def coarse() -> tuple[str, str]:
    """The errors on advection-diffusion-3d, from benchmarks/coarse.py: over time and amplitude; over waves."""
    found = read_json(COARSE)
    names = {"floor": "not determined by the samples of f"}
    times = list(found["floor"]["by_time"])
    heads = ["", "MSE", *(f"i = {i}" for i in times), "weakest quarter of A", "strongest", "worst sample"]
    lines = [f"| {' | '.join(heads)} |", f"| :--- |{' ---: |' * (len(heads) - 1)}"]
    for name, row in found.items():
        quarters = row["by_quarter_of_amplitude"]
        cells = [row["mse"], *row["by_time"].values(), quarters[0], quarters[-1], row["samples"]["worst"]]
        lines.append(f"| {names.get(name, name)} | {' | '.join(short(cell) for cell in cells)} |")
    waves = [f"| | {' | '.join(str(n) for n in range(9))} | along x_3 |", f"| :--- |{' ---: |' * 10}"]
    for name, row in found.items():
        cells = [*row["by_wave"]["plane"], sum(row["by_wave"]["line"])]
        waves.append(f"| {names.get(name, name)} | {' | '.join(short(cell) for cell in cells)} |")
    return "\n".join(lines), "\n".join(waves)


def flow_costs() -> str:
    """Fits beside FNO's training, on one core, from benchmarks/flow_costs.py."""
    heads = ["problem", "chosen flow", "fit, s", "FNO, s a step", "steps", "FNO, s", "flow's numbers", "FNO's"]
    lines = [f"| {' | '.join(heads)} |", f"| :--- | :--- |{' ---: |' * 6}"]
    for problem, row in read_json(FLOW_COSTS).items():
        cells = [f"{row['flow_seconds']:.0f}", f"{row['fno_seconds_per_step']:.1f}", f"{row['fno_steps']:,}"]
        cells += [f"{row[key]:,.0f}" for key in ("fno_seconds", "flow_stored_numbers", "fno_stored_numbers")]
        lines.append(f"| {problem} | {row['flow']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def gpu_costs() -> str:
    """Fits beside FNO's training on a machine with a GPU, from benchmarks/flow_costs.py --cuda."""
    heads = ["problem", "chosen flow", "fit, s", "FNO, ms a step", "steps", "FNO, s", "fit over FNO"]
    lines = [f"| {' | '.join(heads)} |", f"| :--- | :--- |{' ---: |' * 5}"]
    for problem, row in read_json(GPU_COSTS).items():
        cells = [f"{row['flow_seconds']:.1f}", f"{1e3 * row['fno_seconds_per_step']:.1f}", f"{row['fno_steps']:,}"]
        cells += [f"{row['fno_seconds']:.1f}", f"{row['flow_seconds'] / row['fno_seconds']:.2f}"]
        lines.append(f"| {problem} | {row['flow']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def designs() -> str:
    """flow-tino with other options than its own, from benchmarks/designs.py."""
    heads = [
        "problem",
        "design",
        "steps",
        "processor s",
        "test MSE",
        "below the top",
        "over the top",
        "samples of seed 1",
    ]
    lines = [f"| {' | '.join(heads)} |", f"| :--- | :--- |{' ---: |' * 6}"]
    for problem, row in read_json(DESIGNS).items():
        design = ", ".join(f"`{name}={value}`" for name, value in row["design"].items())
        keys = ("mse", "mse_below_the_top", "mse_over_the_top")
        cells = [f"{row['steps']:,}", f"{row['processor_seconds']:.0f}", *(short(row["test"][key]) for key in keys)]
        lines.append(f"| {problem} | {design} | {' | '.join(cells)} | {short(row['seed 1']['mse'])} |")
    return "\n".join(lines)


def rivals(beyond: Results) -> str:
    """pysindy and DMDc, from benchmarks/rivals.py, beside the flows, all on seed 0; then the seconds of each."""
    methods, ours = ("pysindy", "DMDc"), ("linear", "polynomial", "equation")
    lines = [f"| problem | {' | '.join(f'{one} | s' for one in (*methods, *ours))} |", f"| :--- |{' ---: |' * 10}"]
    for problem, row in sorted((name, row) for name, row in read_json(RIVALS).items() if name in PAPER):
        cells = [(row[method]["test_mse"], row[method]["seconds"]) if method in row else None for method in methods]
        for found in (entry(beyond, problem, model) for model in ours):
            first = None if found is None else found.results[0]
            cells.append(None if first is None else (first.mse, first.train_seconds))
        told = ["– | –" if cell is None else f"{short(cell[0])} | {cell[1]:.0f}" for cell in cells]
        lines.append(f"| {problem} | {' | '.join(told)} |")
    return "\n".join(lines)


def readouts() -> str:
    """What the kept models say of themselves."""
    lines = ["| problem | model | read-out |", "| :--- | :--- | :--- |"]
    for folder in sorted(MODELS.glob("*/*-0")):
        said = "<br>".join(tino.load(folder).readout())
        lines.append(f"| {folder.parent.name} | {folder.name.removesuffix('-0')} | {said} |")
    return "\n".join(lines)


def rates() -> str:
    """Learned decay rates beside those of the equations, linearised at zero."""
    pi = math.pi
    true = {  # of the n-th wave
        ("burgers-0.1", "equation"): lambda n: 0.1 * (2 * pi * n) ** 2,
        ("burgers-0.1", "polynomial"): lambda n: 0.1 * (2 * pi * n) ** 2,
        ("burgers-0.01", "equation"): lambda n: 0.01 * (2 * pi * n) ** 2,
        ("allen-cahn", "equation"): lambda n: 1e-4 * (pi * n) ** 2 - 1,
        ("convection-diffusion", "linear"): lambda n: 0.1**2 / (4 * 0.01) + 0.01 * (pi * n) ** 2,
    }
    lines = ["| problem, model | rates of the first waves, learned | of the equation |", "| :--- | ---: | ---: |"]
    for (problem, model), rate in true.items():
        learned = ", ".join(f"{one:.4g}" for one in _rates(MODELS / problem / f"{model}-0"))
        lines.append(f"| {problem}, {model} | {learned} | {', '.join(f'{rate(n):.4g}' for n in range(1, 5))} |")
    return "\n".join(lines)


def _rates(folder: Path) -> list[float]:
    """Of waves 1 to 4."""
    model = tino.load(folder)
    assert isinstance(model, Flow)
    law, dt = model.law, model.frame.time.step
    if isinstance(law, CoefficientLaw):
        return [-float(pole.real) for pole in law.poles(dt)[1:5]]  # the first is the mean, which stays
    if isinstance(law, EquationLaw):
        found = -law.rates(law.numbers).real.detach()
        return [float(found[law.waves.kept[:, 0] == n]) for n in range(1, 5)]
    assert isinstance(law, WavenumberLaw)
    return [rate for _, rate in law.rates(dt)[:4]]


def horizon() -> str:
    lines = ["| problem, model | largest &#124;u&#124; | of the reference | MSE | of the first tenth |"]
    lines.append(f"| :--- |{' ---: |' * 4}")
    for name, row in read_json(HORIZON).items():
        values = [row[key] for key in ("largest", "largest_of_reference", "mse", "mse_of_the_first_tenth")]
        cells = ["overflows" if value is None else short(value) for value in values]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def costs(beyond: Results) -> str:
    lines = ["| problem | model | stored numbers | fit s | device | causal | autonomous | at rest |"]
    lines.append(f"| :--- | :--- |{' ---: |' * 6}")
    for one in beyond.entries:
        result = one.results[0]
        words = [{True: "yes", False: "no", None: "–"}[getattr(result, w)] for w in ("causal", "autonomous", "at_rest")]
        cells = [one.problem, one.model, f"{result.parameters:,}", f"{result.train_seconds:.0f}", result.device, *words]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def pieces() -> dict[Path, dict[str, str]]:
    """By page and mark."""
    paper, beyond = read_results(ROOT / "results" / "paper"), read_results(RESULTS)
    found = {"table": table(paper, beyond), "others": others(beyond), "costs": costs(beyond)}
    found |= {"steppers": steppers(beyond), "flow costs": flow_costs(), "gpu costs": gpu_costs(), "designs": designs()}
    found["coarse"], found["coarse waves"] = coarse()
    found |= {"rivals": rivals(beyond), "readouts": readouts(), "horizon": horizon(), "rates": rates()}
    return {PAGE: found, README: {"beyond": short_table(paper, beyond)}}


def write() -> None:
    for page, found in pieces().items():
        text = page.read_text(encoding="utf-8")
        for mark, content in found.items():
            begin, end = f"<!-- {mark}: written by benchmarks/beyond.py -->", f"<!-- end of {mark} -->"
            before, after = text.split(begin)[0], text.split(end)[1]
            text = f"{before}{begin}\n{content}\n{end}{after}"
        write_text(page, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choose", type=Path, metavar="RUNS", help="score the runs in this folder first")
    asked = parser.parse_args()
    if asked.choose is not None:
        choose(asked.choose)
    write()


if __name__ == "__main__":
    main()
