"""How many POD modes the inputs and outputs of a dataset need."""

from typing import Any

from tino.data import Dataset
from tino.pod import Pod, input_pod, output_pod
from tino.progress import progress

SHARES = (0.9, 0.99, 0.999, 0.999999)


def pod_rows(data: Dataset) -> list[dict[str, Any]]:
    """One row per POD that models use: modes for each share of the energy, modes kept by the cut, and its loss."""
    wanted = {
        "inputs f(x), all times": lambda: input_pod(data),
        "outputs u(y), quartile": lambda: output_pod(data, "quartile"),
        "outputs u(y), all times": lambda: output_pod(data, "all"),
        "outputs u(t, y)": lambda: output_pod(data, "of (t, y)"),
    }
    rows = []
    with progress("decomposing", len(wanted)) as advance:
        for name, decompose in wanted.items():
            rows.append(_row(name, decompose()))
            advance()
    return rows


def _row(name: str, found: Pod) -> dict[str, Any]:
    return {
        "snapshots": name,
        "points": found.modes.shape[1],
        "modes_for_energy": {str(share): found.modes_for(share) for share in SHARES},
        "kept": len(found.modes),
        "lost": found.left,
    }
