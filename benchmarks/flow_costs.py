"""What a flow's fit costs beside FNO's training, both on one core of a CPU in one run.

    python benchmarks/flow_costs.py duffing burgers-0.1 ...   # -> benchmarks/results/flow-costs.json

For each problem: the processor seconds of the chosen flow's whole fit, its search included, on the table's 1000
records; and the processor seconds of a step of FNO, with the table's optimiser and all times, timed with two small
batches and continued on a straight line to the table's batch, times the table's number of steps. Processor seconds of
one thread do not depend on what else runs on the machine, up to shared caches. Stored numbers are all that a model
saves. benchmarks/beyond.py writes the table.
"""

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tino
from tino.files import read_json, write_json
from tino.paper import recipe
from tino.results import read_result

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "flow-costs.json"
SMALL, LARGE, POINTS = (10, 30), (2, 4), 50_000  # batches that are timed; the latter for records of more points
STEPS = (1, 5)


def chosen(problem: str) -> str:
    spec = importlib.util.spec_from_file_location("beyond", Path(__file__).parent / "beyond.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.chosen(problem)


def seconds(work: Callable[[], object]) -> float:
    """Of the processor."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def step_of_fno(problem: str, train: tino.Dataset, batch: int) -> float:
    """Processor seconds of one step: what more steps cost beyond fewer."""
    options = {**recipe(problem, "fno"), "precision": "float32", "batch_size": batch, "device": "cpu"}
    del options["epochs"]
    some, took = train.take(torch.arange(batch)), []
    for steps in (1, *STEPS):  # the first one also loads what it needs
        model = tino.build("fno", some)
        config = tino.TrainConfig(**options, steps=steps)
        took.append(seconds(lambda m=model, c=config: tino.fit(m, some, c, show_progress=False)))
    return (took[2] - took[1]) / (STEPS[1] - STEPS[0])


def measure(problem: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tino.TinoWarning)
        train, _ = tino.dataset(tino.problem(problem))
    table = read_result(ROOT / "results" / "paper" / problem / "fno-0.json")
    name = chosen(problem)
    flow: list[Any] = []

    def fit() -> None:
        flow.append(tino.build(name, train))
        tino.fit(flow[0], train, show_progress=False)

    took = seconds(fit)
    batches = LARGE if train.time.n * train.output_size > POINTS else SMALL
    few, many = (step_of_fno(problem, train, batch) for batch in batches)
    each = max(many - few, 0.0) / (batches[1] - batches[0])
    step = few + (table.batch_size - batches[0]) * each
    return {
        "flow": name,
        "flow_seconds": took,
        "flow_stored_numbers": sum(tensor.numel() for tensor in flow[0].state_dict().values()),
        "fno_seconds_per_step": step,
        "fno_timed": {str(batch): one for batch, one in zip(batches, (few, many), strict=True)},
        "fno_batch": table.batch_size,
        "fno_steps": table.steps,
        "fno_seconds": step * table.steps,
        "fno_stored_numbers": table.parameters,
    }


def main() -> None:
    torch.set_num_threads(1)
    found = read_json(RESULTS) if RESULTS.exists() else {}
    for problem in sys.argv[1:]:
        found[problem] = measure(problem)
        print(problem, found[problem], flush=True)
        write_json(RESULTS, dict(sorted(found.items())))


if __name__ == "__main__":
    main()
