"""A day at 1 kHz: 86.4 million samples through one stream, in blocks. Error and memory must stay flat.

    python benchmarks/stream_day.py    # -> benchmarks/results/stream_day.json, some seconds to minutes on one core

The system is u_i = 1.98 u_{i-1} - 0.985 u_{i-2} + 0.004 f_i + 0.001 f_{i-1}, and ``linear`` is fitted to records of it.
The input is a sum of sines that repeats every second, so the exact steady answer is known at any time from a transfer
function, the fitted model's own or the system's: no second recursion is needed, whose own rounding would have to be
judged. The last second is pushed sample by sample.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import torch

import tino
from tino.files import write_json

RESULTS = Path(__file__).parent / "results" / "stream_day.json"
RATE, HOUR, BLOCK = 1000, 3_600_000, 100_000
Gain = Callable[[complex], complex]
A, B = (1.98, -0.985), (0.004, 0.001)
WAVES = {1: 1.0, 7: 0.7, 16: 0.5, 133: 0.8}  # cycles per second and amplitudes


def fitted() -> tino.Operator:
    f = torch.randn(40, 200, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u = torch.zeros_like(f)
    for i in range(1, 200):
        u[:, i] = A[0] * u[:, i - 1] + (A[1] * u[:, i - 2] if i > 1 else 0.0) + B[0] * f[:, i] + B[1] * f[:, i - 1]
    train = tino.Dataset(f, u, tino.TimeGrid(0.0, 0.199, 200), tino.Point(), tino.Point())
    model = tino.build("linear", train, delays=2)
    model.solve(train)
    return model.requires_grad_(False)


def model_gain(model: tino.Operator) -> Gain:
    """C (z - A)^-1 B + D of the fitted step."""
    state, _ = model.start(torch.zeros(1, 1, dtype=torch.float64))
    a, b, c, d = (one.numpy() for one in tino.linearise(model, state, torch.zeros(1, dtype=torch.float64)))
    return lambda z: (c @ np.linalg.solve(z * np.eye(len(a)) - a, b) + d).item()


def system_gain(z: complex) -> complex:
    return (B[0] + B[1] / z) / (1 - A[0] / z - A[1] / z**2)


def second(gain: Gain) -> tuple[np.ndarray, np.ndarray]:
    """The input over one second, and the steady answer to it."""
    t, f, u = np.arange(RATE), np.zeros(RATE), np.zeros(RATE)
    for cycles, size in WAVES.items():
        wave = size * np.exp(2j * np.pi * ((cycles * t) % RATE) / RATE)
        f, u = f + wave.imag, u + (gain(np.exp(2j * np.pi * cycles / RATE)) * wave).imag
    return f, u


def main(hours: int = 24) -> None:
    torch.set_num_threads(1)
    model = fitted()
    stream, (f, exact), (_, truth) = tino.Stream(model), second(model_gain(model)), second(system_gain)
    block, expected = np.tile(f, BLOCK // RATE)[:, None], np.tile(exact, BLOCK // RATE)
    stream.push(block)  # what is left of the start is below rounding after this
    errors, memory, began = [], [], time.perf_counter()
    for hour in range(hours):
        worst = 0.0
        for _ in range(HOUR // BLOCK):
            worst = max(worst, float(np.abs(stream.push(block)[:, 0] - expected).max()))
        errors.append(worst)
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        print(f"hour {hour + 1}: error {worst:.2e}, {memory[-1]:.0f} MiB", flush=True)
    seconds = time.perf_counter() - began
    last = np.stack([stream.push(one) for one in f[:, None]])[:, 0]
    record = {
        "samples": hours * HOUR,
        "read_in_all": stream.state.i,
        "seconds": round(seconds, 1),
        "microseconds_per_sample": 1e6 * seconds / (hours * HOUR),
        "largest_u": float(np.abs(exact).max()),
        "largest_error_by_hour": errors,
        "largest_error_of_the_last_second_by_steps": float(np.abs(last - exact).max()),
        "largest_error_of_the_fit": float(np.abs(exact - truth).max()),
        "peak_memory_mib_by_hour": memory,
        "blocks_of": BLOCK,
    }
    assert max(errors[1:], default=0.0) <= 2 * errors[0], "the error grows"
    assert memory[-1] <= memory[0] + 1, "the memory grows"
    write_json(RESULTS, record)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 24)
