"""The page on measured systems, written from its results."""

from typing import Any

HEAD = """# Measured systems

Models learned from measurements: imported and trained by the commands of [own-data.md](own-data.md), scored by each
benchmark's own protocol (`benchmarks/measured.py`; results in `results/measured`). Splits and protocols are the
official ones. Nothing of a test record is seen in training or in any choice: delays, terms, ridges and winners are
chosen on held-out training data.
"""

SILVERBOX = """\
V1 drives, V2 answers, sampled at 610.35 Hz. Training: the first three quarters of the multisine. The outputs of the
first 50 samples of a test may set the state, and are not scored. The arrow's amplitude grows beyond that of the
training; *without extrapolation* is its part that does not. Published figures: Champneys et al., arXiv 2405.10779.
Data: T. Wigren and J. Schoukens, ECC 2013, 2933-2938.

On the whole arrow the published polynomial nonlinear state space model is ahead of every model here. Three ways were
tried: least squares of one step (`polynomial`), of whole simulations (`polynomial-sim`), and a polynomial with a small
network (`flow-tino`), which gains less than fitting whole simulations does.
"""

MIRROR = """\
Periodic multisines at two levels. Test records are simulated from the inputs alone, after 1000 samples of the same
period, and scored from sample 100 on: the RMSE of each record, then the mean over records and outputs. The resonances
move with the level, so that one linear law for both levels fails; `linear-level` has coefficients that follow the root
mean square of the inputs over the last steps, within the range that was met in training. That one model comes within
2 % of the two linear ones. Our aim for it was 0.06 and 0.10. Published figures and data: M. Floren et al., ISMA-USD
2024, 2042-2052, and doi 10.5281/zenodo.19591136.
"""

NOTES = {"silverbox": SILVERBOX, "mirror": MIRROR}

TAIL = """## What the columns say

- *seconds*: from reading the data to the fitted model, on a CPU with the number of threads that the result file gives,
  beside other work on the same machine: for orders of magnitude only. `lstm`, `gru`, `flow-tino` and `auto` had a
  budget of {budget} for what is learned by gradients: the closed form inside `flow-tino`, and the last fit of `auto`'s
  winner, come on top. The others have no time limit.
- *numbers*: all stored fitted numbers.
- *certified*: measured on the trained model in float64 ([certificates.md](certificates.md)). All models here are causal
  and autonomous; those with a constant term or biases are not at rest.
- `auto` is the winner of a race on training data that were held out ([own-data.md](own-data.md)).
"""


def page(systems: Any, columns: dict[str, tuple[str, ...]], tables: dict[str, list[dict[str, Any]]]) -> str:
    parts, budget = [HEAD], ""
    for system, about in systems.items():
        names = columns[system]
        lines = [f"## {about.title}", "", NOTES[system]]
        lines.append(f"RMSE in {about.unit}:\n")
        lines.append(f"| model | trained on | {' | '.join(names)} | seconds | numbers | certified |")
        lines.append(f"| :--- | :--- |{' ---: |' * len(names)} ---: | ---: | :--- |")
        for one in sorted(tables[system], key=lambda one: min(one["rmse"].values())):
            budget = one["budget"] or budget
            figures = [f"{one['rmse'][name]:.3g}" if name in one["rmse"] else "–" for name in names]
            words = [word for word in ("causal", "autonomous") if one["certificate"][word]]
            words += ["at rest"] if one["certificate"]["at_rest"] else []
            label = f"`{one['model']}`" + (", found by `auto`" if one["asked"] == "auto" else "")
            seconds = f"{one['train_seconds']:.0f}"
            row = [label, one["trained_on"], *figures, seconds, f"{one['parameters']:,}", ", ".join(words)]
            lines.append(f"| {' | '.join(row)} |")
        for label, values in about.published.items():
            figures = ["–" if value is None else f"{value:g}" for value in values]
            lines.append(f"| *published:* {label} | | {' | '.join(figures)} | | | |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join([*parts, TAIL.format(budget=budget)])
