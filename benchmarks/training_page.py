"""The tables and the plot of docs/training.md, from what benchmarks/training.py and benchmarks/kills.py measured."""

from pathlib import Path
from typing import Any

from tino.files import read_json, whole_file, write_text

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "training.md"
PLOT = HERE.parent / "docs" / "images" / "training-slopes.png"
Found = dict[str, Any]


def results(name: str) -> Found:
    return read_json(HERE / "results" / f"{name}.json")


def epoch_table() -> list[str]:
    found = results("training-cpu")
    rows = found["epochs"]
    theirs = rows["seconds"]["fno step"] * rows["their_steps_in_an_epoch"]
    lines = ["| an epoch of 1000 samples | seconds | FNO's epoch over it |", "|---|---|---|"]
    for name, ratio in rows["their_epoch_over_ours"].items():
        lines.append(f"| SPOD-TrTINO, {name} | {rows['seconds'][name]:.2f} | {ratio:.0f} |")
    lines.append(f"| neuraloperator's FNO, batch 20 | {theirs:.0f} | 1 |")
    goal = found["time-to-goal"]
    last, fno = goal["ours"][-1], goal["fno"]
    lines += [
        "",
        f"SPOD-TrTINO reaches a test MSE of {last['mse']:.1e} in {last['seconds']:.1f} s. After ten",
        f"times as long, {fno['seconds']:.0f} s and {fno['steps']} steps of Adam, that FNO stands at {fno['mse']:.1e}.",
    ]
    return lines


def step_table() -> list[str]:
    lines = ["| a step at batch 200 | ms | in kernels | floor: bytes | floor: operations |", "|---|---|---|---|---|"]
    for name, row in results("training-cuda")["steps"].items():
        if isinstance(row, dict):
            floors = [f"{row[key]:.3f} ms" if key in row else "" for key in ("floor_bytes_ms", "floor_operations_ms")]
            cells = [name, f"{row['ms']:.2f}", f"{100 * row['share_in_kernels']:.0f} %", *floors]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def precision_table() -> list[str]:
    rows = {k: v for k, v in results("training-cuda")["precisions"].items() if k.isdigit()}
    kinds = list(next(iter(rows.values())))
    lines = [f"| steps | {' | '.join(kinds)} |", "|---" * (1 + len(kinds)) + "|"]
    for steps, row in rows.items():
        lines.append(
            f"| {steps} | " + " | ".join(f"{row[k]['mse']:.2e} ({row[k]['seconds']:.0f} s)" for k in kinds) + " |"
        )
    return lines


def compiled_table() -> list[str]:
    lines = ["| a step at batch 100 | ms | compiled | ratio | the first step |", "|---|---|---|---|---|"]
    for name, row in results("training-cuda")["compiled"].items():
        if isinstance(row, dict):
            ms = f"{row['plain']['ms']:.0f} | {row['compiled']['ms']:.0f} | {row['compiled_over_plain']:.2f}"
            lines.append(f"| {name} | {ms} | {row['compiled']['first_seconds']:.0f} s |")
    return lines


def slope_table() -> list[str]:
    lines = ["| time of an epoch against | from | to | slope, 2 cores | slope, H200 |", "|---|---|---|---|---|"]
    cpu, gpu = results("training-cpu")["slopes"], results("training-cuda")["slopes"]
    for name in ("samples", "n_t", "sensors", "modes"):
        values = cpu[name]["values"]
        lines.append(f"| {name} | {values[0]} | {values[-1]} | {cpu[name]['slope']:.2f} | {gpu[name]['slope']:.2f} |")
    return lines


def kill_line() -> list[str]:
    found = results("kills")
    same = "the same bytes" if found["same_weights"] else "OTHER weights"
    return [f"Killed {found['kills']} times at random moments (SIGKILL) and resumed: {same} as the uninterrupted run."]


TABLES = {
    "epochs": epoch_table,
    "steps": step_table,
    "precisions": precision_table,
    "compiled": compiled_table,
    "slopes": slope_table,
    "kills": kill_line,
}


def write() -> None:
    """Each table between its marks, and the plot."""
    text = PAGE.read_text(encoding="utf-8")
    for mark, table in TABLES.items():
        begin, end = f"<!-- {mark}: written by benchmarks/training.py -->", f"<!-- end of {mark} -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n" + "\n".join(table()) + f"\n{end}{after}"
    write_text(PAGE, text)
    plot()


def plot() -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2.8), layout="constrained")
    names = ("samples", "n_t", "sensors", "modes")
    for axes, name in zip(figure.subplots(1, 4, sharey=True), names, strict=True):
        for label, file, colour in (("2 cores", "training-cpu", "C0"), ("H200", "training-cuda", "C1")):
            found = results(file)["slopes"]
            row = found[name]
            scale = 4 if name == "samples" and label == "H200" else 1
            x = [scale * value for value in row["values"]]
            axes.loglog(x, row["seconds"], "o-", color=colour, label=f"{label}: slope {row['slope']:.2f}")
        axes.set_xlabel(name)
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("seconds an epoch")
    with whole_file(PLOT) as part:
        figure.savefig(part, format="png", dpi=110, metadata={"Software": None})
