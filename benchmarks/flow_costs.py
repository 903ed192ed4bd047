"""What a flow's fit costs beside FNO's training, both in one run: on one core of a CPU, or on a machine with a GPU.

    python benchmarks/flow_costs.py duffing burgers-0.1 ...          # -> benchmarks/results/flow-costs.json
    python benchmarks/flow_costs.py --cuda duffing burgers-0.1 ...   # -> benchmarks/results/flow-costs-cuda.json

With --cuda: the wall-clock seconds of the chosen flow's whole fit, its search included, on the machine's CPU;
and those of a step of FNO on the GPU with the table's recipe and batch, its captured steps alone, times the table's
number of steps. Nothing else may run.

Without: the processor seconds of the chosen flow's whole fit, its search included, on the table's 1000
records; and the processor seconds of a step of FNO, with the table's optimiser and all times, timed with two small
batches and continued on a straight line to the table's batch, times the table's number of steps. Processor seconds of
one thread do not depend on what else runs on the machine, up to shared caches. Stored numbers are all that a model
saves. benchmarks/beyond.py writes the table.
"""

import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

import tino
import tino.training.cuda
from tino.devices import products
from tino.files import read_json, write_json
from tino.paper import recipe
from tino.results import read_result
from tino.training.batches import draws
from tino.training.state import Training

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
SMALL, LARGE, POINTS = (10, 30), (2, 4), 50_000  # batches that are timed; the latter for records of more points
STEPS = (1, 5)
CAPTURED, EPOCHS, AT_LEAST = 24, 3, 1.0  # steps before a GPU is timed, epochs, seconds


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


def step_on_gpu(problem: str, train: tino.Dataset) -> float:
    """Seconds of one captured step of FNO: the median over epochs."""
    config = tino.TrainConfig(**recipe(problem, "fno"), device="cuda")
    torch.manual_seed(0)
    run = Training(tino.build("fno", train).to("cuda").train(), train, config, torch.device("cuda"))
    (step,) = run.make_steps(False)
    took, seen, begun = [], 0, time.perf_counter()
    while len(took) < EPOCHS or time.perf_counter() - begun < AT_LEAST:
        order, times = draws(config, run.n, run.epoch_steps, run.objectives[0].n_t, seen, run.device)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(run.epoch_steps):
            step(order[i * run.batch : (i + 1) * run.batch], None if times is None else times[i])
        torch.cuda.synchronize()
        seen += 1
        if seen * run.epoch_steps > CAPTURED:
            took.append((time.perf_counter() - start) / run.epoch_steps)
    return median(took)


def on_gpu(problem: str) -> dict[str, Any]:
    """FNO's step first, so that the fit does not wait for the GPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tino.TinoWarning)
        train, _ = tino.dataset(tino.problem(problem), device="cuda")
    table = read_result(ROOT / "results" / "paper" / problem / "fno-0.json")
    with products(tf32=False):
        step = step_on_gpu(problem, train)
    torch.cuda.empty_cache()
    begun = time.perf_counter()
    model = tino.build(chosen(problem), train)
    tino.fit(model, train, tino.TrainConfig(device="cuda"), show_progress=False)
    torch.cuda.synchronize()
    took = time.perf_counter() - begun
    return {
        "flow": chosen(problem),
        "flow_seconds": took,
        "flow_stored_numbers": sum(tensor.numel() for tensor in model.state_dict().values()),
        "fno_seconds_per_step": step,
        "fno_batch": table.batch_size,
        "fno_steps": table.steps,
        "fno_seconds": step * table.steps,
        "fno_stored_numbers": table.parameters,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(),
    }


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
    cuda = sys.argv[1:2] == ["--cuda"]
    if cuda:
        tino.training.cuda.SETTLED = CAPTURED // 2  # SOAP's own graph, sooner: the same work, and less of it before
    else:
        torch.set_num_threads(1)
    path = Path(os.environ.get("OUT", RESULTS)) / f"flow-costs{'-cuda' if cuda else ''}.json"
    found = read_json(path) if path.exists() else {}
    for problem in sys.argv[1 + cuda :]:
        found[problem] = (on_gpu if cuda else measure)(problem)
        print(problem, found[problem], flush=True)
        write_json(path, dict(sorted(found.items())))


if __name__ == "__main__":
    main()
