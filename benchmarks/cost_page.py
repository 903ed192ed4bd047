"""The tables of docs/cost.md, from what benchmarks/models.py measured."""

from pathlib import Path
from typing import Any

from tino.files import read_json, write_text

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "cost.md"
Results = list[tuple[str, dict[str, Any]]]  # (device's name, results)


def results() -> Results:
    """What was measured, the CPU first."""
    found = [
        read_json(path) for path in (HERE / "results" / f"models-{d}.json" for d in ("cpu", "cuda")) if path.exists()
    ]
    names = (r["machine"] for r in found)
    return [
        (f"{m['cores']} cores" if m["device"] == "cpu" else m["device"], r) for m, r in zip(names, found, strict=True)
    ]


def write() -> None:
    """Each table between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    for mark, table in TABLES.items():
        begin, end = f"<!-- {mark}: written by benchmarks/models.py -->", f"<!-- end of {mark} -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n" + "\n".join(table(results())) + f"\n{end}{after}"
    write_text(PAGE, text)


def mixer_table(found: Results) -> list[str]:
    lines = _head("mixer", "on", "n_t = 250", "n_t = 8000", "peak memory at 8000", "slope of time", "slope of memory")
    for device, r in found:
        for name in ("DelayMixer", "MaskedMixer"):
            row = r["mixers"][name]
            first, last = (_seconds(row["seconds"][i]) for i in (0, -1))
            slopes = (f"{row['time_slope']:.2f}", f"{row['memory_slope']:.2f}")
            lines.append(_row(f"`{name}`", device, first, last, f"{row['peak_bytes'][-1] / 2**20:.0f} MiB", *slopes))
    return lines


def fno_table(found: Results) -> list[str]:
    lines = _head("grid", "on", "batch", "tino", "neuraloperator", "ratio", "ratio to it as it comes")
    for device, r in found:
        for part, note in (("fno", ""), ("fno-plain", ", usual malloc")):
            for grid, row in r.get(part, {}).items():
                if isinstance(row, dict):
                    ours, theirs = (_seconds(row["seconds"][key]) for key in ("tino", "neuraloperator"))
                    ratios = (f"{value:.2f}" for value in row["ratios"].values())
                    lines.append(_row(f"{grid}{note}", device, str(row["batch"]), ours, theirs, *ratios))
    return lines


def deeponet_table(found: Results) -> list[str]:
    lines = _head("network", "on", "batch", "step", "seconds", "ratio to DeepXDE's")
    for device, r in found:
        for name in ("don", "pod-don"):
            row = r["deeponets"][name]
            for step, seconds in row["seconds"].items():
                ratio = row["ratios"].get(f"{step} / deepxde", 1.0)
                lines.append(_row(f"`{name}`", device, str(row["batch"]), step, _seconds(seconds), f"{ratio:.2f}"))
    return lines


def form_table(found: Results) -> list[str]:
    lines = _head("what", "on", "batch", "form", "seconds", "plain form", "seconds", "ratio")
    for device, r in found:
        for name, row in r.get("forms", {}).items():
            for pair, ratio in row["ratios"].items() if isinstance(row, dict) else ():
                form, plain = pair.split(" / ")
                times = [_seconds(row["seconds"][key]) for key in (form, plain)]
                lines.append(_row(name, device, str(row["batch"]), form, times[0], plain, times[1], f"{ratio:.2f}"))
    return lines


def tensor_table(found: Results) -> list[str]:
    tensors = found[0][1]["tensors"]
    lines = _head("model", *[f"n_t = {n}" for n in tensors["n_t"]], "growth", "share of b·t·t·m")
    for name, row in tensors["models"].items():
        sizes = (f"{elements / 1e6:.2f} M" for elements in row["elements"])
        lines.append(_row(f"`{name}`", *sizes, f"{row['growth']:.2f}", f"{100 * row['share_of_bttm']:.1f} %"))
    return lines


TABLES = {
    "mixers": mixer_table,
    "fno": fno_table,
    "deeponets": deeponet_table,
    "forms": form_table,
    "tensors": tensor_table,
}


def _head(*cells: str) -> list[str]:
    return [_row(*cells), "|---" * len(cells) + "|"]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1e3 * value:.3g} ms"
