"""Read-outs of learned models beside closed forms, and how often bands hold.

    python benchmarks/readouts.py           # two minutes on 2 cores -> benchmarks/results/readouts.json, and the page
    python benchmarks/readouts.py --page    # only write the tables of docs/readouts.md

Three oscillators, u'' + c u' + k u + a u² + b u³ = f, driven by multisines: linear (c = 0.8, k = 2), a quadratic spring
(the same with a = 0.7), and Duffing's (c = k = b = 1). The figures in docs/images are drawn from Duffing's.
"""

import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch import Tensor

import tino
from tino.bands import rank_of, record_scores
from tino.files import write_json, write_text
from tino.inputs import multisine
from tino.preview import take_preview
from tino.problems.oscillators import column, forced_ode
from tino.report.page import keep
from tino.report.readings import draw_band, draw_frequency

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "readouts.json", HERE.parent / "docs" / "readouts.md"
IMAGES = HERE.parent / "docs" / "images"
N_T, TRAIN, TEST, SPLITS = 200, 400, 200, 20_000
LINES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
PAIRS = ((0.4, 0.4), (0.5, 1.3), (1.0, -0.6), (1.4, 1.4), (1.4, -1.4))
LEVELS = (0.01, 0.25, 0.5, 1.0)


def oscillator(name: str, bend: float, highest: float = 6.0) -> tino.Problem:
    def slope(f: Tensor, y: Tensor) -> Tensor:
        u, v = y.unbind(1)
        return column(v, f - 0.8 * v - 2.0 * u - bend * u**2)

    law, equation = multisine(highest=highest), "u'' + 0.8 u' + 2 u + a u² = f"
    return forced_ode(name, slope, (0.0, 0.0), title=name, equation=equation, law=law, stop=12.0, n_t=N_T)


def receptance(omega: Tensor, damping: float, stiffness: float) -> Tensor:
    """H(ω) = 1 / (k - ω² + iωc)."""
    return 1 / (stiffness - omega**2 + 1j * omega * damping)


def fitted(problem: tino.Problem, name: str, **options: Any) -> tuple[tino.Operator, tino.Dataset, tino.Dataset]:
    with tempfile.TemporaryDirectory() as folder:
        train, test = tino.dataset(problem, 0, TRAIN, TEST, cache=folder)
        model = tino.build(name, train, **options)
        tino.fit(model, train)
    return model, train, test


def first_order(model: tino.Operator, train: tino.Dataset, test: tino.Dataset, c: float, k: float) -> dict[str, Any]:
    """Small changes, beside the closed forms of the linearised equation."""
    found, omega = tino.read_out(model, train), torch.tensor(LINES, dtype=torch.float64)
    exact, read = receptance(omega, c, k), found.impulse.response(omega)[:, 0, 0]
    pole = next(one for one in found.poles if one.imag > 0)
    return {
        "model": model.frame.model,
        "rel_l2": tino.evaluate(model, test).rel_l2_mean,
        "gain": [float(found.impulse.gain), 1 / k],
        "natural_frequency": [abs(pole), math.sqrt(k)],
        "damping_ratio": [-pole.real / abs(pole), c / (2 * math.sqrt(k))],
        "memory": float(found.impulse.memory),
        "excited": found.excited.bands(0),
        "response_error": {f"{w:g}": float(e) for w, e in zip(LINES, (read / exact - 1).abs(), strict=True)},
    }


def measure() -> dict[str, Any]:
    linear = fitted(oscillator("linear-oscillator", 0.0), "linear", delays=5)
    bent = fitted(oscillator("quadratic-spring", 0.7), "polynomial", degree=3, delays=3, stride=1)
    duffing = fitted(tino.problem("duffing", input="multisine", n_t=N_T), "polynomial")
    results: dict[str, Any] = {
        "first_order": {
            "linear oscillator": first_order(*linear, 0.8, 2.0),
            "quadratic spring": first_order(*bent, 0.8, 2.0),
            "duffing": first_order(*duffing, 1.0, 1.0),
        }
    }
    pairs = torch.tensor(PAIRS, dtype=torch.float64)
    one, two = pairs.unbind(1)
    h_1, h_2, h_sum = (receptance(w, 0.8, 2.0) for w in (one, two, one + two))
    exact = -0.7 * h_1 * h_2 * h_sum
    found = tino.second_order_response(bent[0], pairs)[:, 0]
    rows = zip(PAIRS, exact.abs().tolist(), found.abs().tolist(), (found / exact - 1).abs().tolist(), strict=True)
    results["second_order"] = [dict(zip(("pair", "exact", "read", "error"), row, strict=True)) for row in rows]
    model, train, test = duffing
    excited = tino.Excited.of(train)
    results["levels"] = {}
    for level in LEVELS:
        driven = tino.frequency_response(model, level=level, excited=excited)
        low, high = (float(end) for end in driven.coherence.aminmax())
        slowest = float(driven.values[0, 0, 0].abs())
        results["levels"][f"{level:g}"] = {"slowest": slowest, "coherence": [low, high], "unsteady": driven.unsteady}
    results["coverage"] = coverage(record_scores(model, test))
    draw(model, train, test)
    return results


def coverage(scores: Tensor) -> dict[str, Any]:
    """Over random halves of the test records."""
    n, found = len(scores) // 2, {}
    for level in (0.5, 0.8, 0.9, 0.95):
        order = torch.rand(SPLITS, len(scores), generator=torch.Generator().manual_seed(0)).argsort(1)
        drawn, k = scores[order], rank_of(n, level)
        shares = (drawn[:, n:] <= drawn[:, :n].sort(1).values[:, k - 1 : k]).double().mean(1)
        error = float(shares.std()) / math.sqrt(SPLITS)
        found[f"{level:g}"] = {"expected": k / (n + 1), "mean": float(shares.mean()), "error": error, "k": k, "n": n}
    return found


def draw(model: tino.Operator, train: tino.Dataset, test: tino.Dataset) -> None:
    found = tino.read_out(model, train)
    figure = draw_frequency(found)
    size, phase, _ = figure.axes
    low, high = size.get_xlim()
    omega = torch.logspace(math.log10(low), math.log10(high), 400, dtype=torch.float64)
    exact = receptance(omega, 1.0, 1.0)
    size.loglog(omega, exact.abs(), "k:", lw=1.2, label="linearised equation")
    phase.semilogx(omega, torch.rad2deg(exact.angle()), "k:", lw=1.2)
    size.legend(framealpha=0.7, edgecolor="none", fontsize=9)
    keep(figure, IMAGES / "readout-duffing.png")
    half = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[: len(test) // 2]
    band = tino.calibrate(model, test.take(half))
    keep(draw_band(take_preview(model, test), band.width, model.frame.model, band.level), IMAGES / "band-duffing.png")


# -- the page ------------------------------------------------------------------------------------------------


def first_table(results: dict[str, Any]) -> list[str]:
    heads = ("system", "model", "test error", "static gain", "natural frequency", "damping ratio", "largest error of H")
    lines = [f"| {' | '.join(heads)} |", "|---|---" + "|---:" * 5 + "|"]
    for name, row in results["first_order"].items():
        told = [f"{row[key][0]:.4f} ({row[key][1]:.4f})" for key in ("gain", "natural_frequency", "damping_ratio")]
        worst = max(row["response_error"].values())
        lines.append(f"| {name} | `{row['model']}` | {row['rel_l2']:.1e} | {' | '.join(told)} | {worst:.2%} |")
    return lines


def second_table(results: dict[str, Any]) -> list[str]:
    lines = ["| ω1, ω2 | abs(H2), closed form | read | error |", "|---|---:|---:|---:|"]
    for row in results["second_order"]:
        one, two = row["pair"]
        lines.append(f"| {one:g}, {two:g} | {row['exact']:.4f} | {row['read']:.4f} | {row['error']:.2%} |")
    return lines


def level_table(results: dict[str, Any]) -> list[str]:
    lines = ["| rms of f | abs(H) at the lowest line | coherence |", "|---:|---:|---:|"]
    for level, row in results["levels"].items():
        low, high = row["coherence"]
        lines.append(f"| {level} | {row['slowest']:.3f} | {low:.4f} to {high:.4f} |")
    return lines


def coverage_table(results: dict[str, Any]) -> list[str]:
    lines = ["| level | k / (n + 1) | holds over | standard error |", "|---:|---:|---:|---:|"]
    for level, row in results["coverage"].items():
        lines.append(f"| {level} | {row['expected']:.4f} | {row['mean']:.4f} | {row['error']:.4f} |")
    return lines


TABLES = {"first": first_table, "second": second_table, "levels": level_table, "coverage": coverage_table}


def write_page(results: dict[str, Any]) -> None:
    """The tables of docs/readouts.md, between their marks."""
    text = PAGE.read_text(encoding="utf-8")
    for mark, table in TABLES.items():
        begin, end = f"<!-- {mark}: written by benchmarks/readouts.py -->", f"<!-- end of {mark} -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n" + "\n".join(table(results)) + f"\n{end}{after}"
    write_text(PAGE, text)


if __name__ == "__main__":
    if "--page" not in sys.argv:
        write_json(RESULTS, measure())
    write_page(json.loads(RESULTS.read_text(encoding="utf-8")))
