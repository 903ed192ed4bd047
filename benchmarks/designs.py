"""A learned flow on the pendulum, whose sine no closed form follows: strided delays, and long unrolling.

    python benchmarks/designs.py    # -> benchmarks/results/designs.json

Two delays 10 samples (0.1) apart show angle and velocity well above the rounding of float32; neighbouring samples do
not. The linear law of these delays comes first, then a network for what it leaves, one step ahead and then through
60 steps: with fewer than 10, no prediction is ever read again. The design was fixed before it was run, and is scored on
200 samples of seed 1 and on the test samples of seed 0. The steps are counted, so that a second run repeats it.
"""

import math
import time
from pathlib import Path

import torch

import tino
from tino.environment import environment
from tino.files import write_json

RESULTS = Path(__file__).parent / "results" / "designs.json"
DESIGN = {"degree": 1, "delays": 2, "stride": 10, "unroll": 60, "width": 64, "layers": 2}
TRAINING = tino.TrainConfig(steps=3000, batch_size=32, times=8, lr=5e-3, device="cpu")


def error(model: torch.nn.Module, data: tino.Dataset) -> dict[str, float | None]:
    """The mean square over all records, over those below half a turn, and over those that swing over the top."""
    squares = (tino.predict(model, data.f) - data.u).square().mean((1, 2))
    over = data.u.abs().amax((1, 2)) > math.pi
    parts = {"mse": squares, "mse_below_the_top": squares[~over], "mse_over_the_top": squares[over]}
    found = {name: float(part.mean()) for name, part in parts.items()}
    return {
        **{name: value if math.isfinite(value) else None for name, value in found.items()},
        "median": float(squares.median()),
        "records_over_the_top": int(over.sum()),
    }


def main() -> None:
    torch.set_num_threads(1)
    problem = tino.problem("pendulum")
    train, test = tino.dataset(problem)
    _, others = tino.dataset(problem, seed=1, train=1, test=200)
    model = tino.build("flow-tino", train, **DESIGN)
    begun = time.process_time()
    history = tino.fit(model, train, TRAINING)
    found = {
        "design": DESIGN,
        "training": TRAINING.decisive(),
        "steps": history.steps,
        "processor_seconds": time.process_time() - begun,
        "stored_numbers": sum(p.numel() for p in model.parameters()),
        "seed 1": error(model, others),
        "test": error(model, test),
        "commit": environment(torch.device("cpu"))["commit"],
    }
    write_json(RESULTS, {"pendulum": found})


if __name__ == "__main__":
    main()
