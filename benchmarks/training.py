"""What training costs: epochs and time to an error beside neuraloperator's FNO, steps on a GPU, slopes.

    python benchmarks/training.py cpu            # 10 minutes on 2 cores -> benchmarks/results/training-cpu.json
    python benchmarks/training.py cuda           # 6 minutes -> benchmarks/results/training-cuda.json
    python benchmarks/training.py cpu slopes     # one part again, into the same file
    python benchmarks/training.py --page         # the tables and the plot of docs/training.md from both files

The CPU's parts need neuraloperator on PYTHONPATH (benchmarks/peers.py says what of it). Each part is written when it
ends. Ours and the peer's times are compared within one run.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from torch import Tensor

import tino
from tino.environment import environment
from tino.files import read_json, write_json
from tino.training.batches import draws
from tino.training.optimizer import set_rate
from tino.training.state import Training

RESULTS = Path(__file__).parent / "results"
# A malloc that keeps what was freed: without it large tensors are mapped and zeroed anew in every step.
KEEP = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=268435456"
GOAL = 1e-5
Found = dict[str, Any]


def burgers(device: str) -> tuple[tino.Dataset, tino.Dataset]:
    return tino.dataset(tino.problem("burgers-0.1"), device=device)


class Steps:
    """Steps of a training, without the looks of tino.fit between them."""

    def __init__(self, model: str, train: tino.Dataset, config: tino.TrainConfig) -> None:
        device = torch.device(config.device)
        self.run = Training(tino.build(model, train).to(device).train(), train, config, device)
        (self.step,) = self.run.make_steps(False)
        self.epoch = 0
        set_rate(self.run.optimizer, 1e-4)

    def epochs(self, count: int) -> None:
        run = self.run
        for _ in range(count):
            order, times = draws(run.config, run.n, run.epoch_steps, run.objectives[0].n_t, self.epoch, run.device)
            self.epoch += 1
            for i in range(run.epoch_steps):
                self.step(order[i * run.batch : (i + 1) * run.batch], None if times is None else times[i])

    def seconds(self, count: int, repeats: int = 5) -> float:
        """Of an epoch: the median over the repeats of ``count`` epochs each."""
        found = []
        for _ in range(repeats):
            start = time.perf_counter()
            self.epochs(count)
            if self.run.device.type == "cuda":
                torch.cuda.synchronize()
            found.append((time.perf_counter() - start) / count)
        return median(found)


# -- on a CPU: beside neuraloperator's FNO ------------------------------------------------------------------


def their_fno(train: tino.Dataset) -> tuple[Callable[[Tensor], Tensor], torch.nn.Module]:
    """neuraloperator's FNO as it comes, behind the same border as ours: f (b, t, x) -> u (b, t, x)."""
    import peers

    ours: Any = tino.build("fno", train)
    net = peers.fno(ours, same=False)
    return lambda f: peers.run_fno(ours, net, f), net


def epochs(device: str) -> Found:
    """An epoch over 1000 samples: SPOD-TrTINO at all times and at 32, FNO at batch 20 (steps measured, epoch = 50)."""
    train, _ = burgers(device)
    predict, net = their_fno(train)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def their_step() -> None:
        optimizer.zero_grad(set_to_none=True)
        (predict(train.f[:20]) - train.u[:20]).square().mean().backward()
        optimizer.step()

    kinds = {f"{o}, {t or 'all'} times": (o, t) for o in ("adam", "soap") for t in (0, 32)}
    ours = {
        name: Steps("spod-trtino", train, tino.TrainConfig(optimizer=o, times=t, device=device))
        for name, (o, t) in kinds.items()
    }
    for steps in ours.values():
        steps.epochs(1)
    their_step()
    times: dict[str, list[float]] = {name: [] for name in (*ours, "fno step")}
    for _ in range(5):
        for name, steps in ours.items():
            times[name].append(steps.seconds(1, 1))
        start = time.perf_counter()
        their_step()
        times["fno step"].append(time.perf_counter() - start)
    ratios = {name: median(50 * b / a for a, b in zip(times[name], times["fno step"], strict=True)) for name in ours}
    seconds = {name: median(values) for name, values in times.items()}
    return {"seconds": seconds, "their_steps_in_an_epoch": 50, "their_epoch_over_ours": ratios}


def time_to_goal(device: str) -> Found:
    """Our seconds to a test MSE of 1e-5, and the MSE of FNO (Adam, cosine) after ten times as long."""
    train, test = burgers(device)
    tries = []
    for steps in (200, 250, 300, 350, 400, 500):
        model = tino.build("spod-trtino", train)
        config = tino.TrainConfig(steps=steps, batch_size=50, device=device)
        start = time.perf_counter()
        tino.fit(model, train, config, show_progress=False)
        tries.append(
            {"steps": steps, "seconds": time.perf_counter() - start, "mse": tino.evaluate(model, test).mse_mean}
        )
        print(tries[-1], flush=True)
        if tries[-1]["mse"] < GOAL:
            break
    budget = 10 * tries[-1]["seconds"]
    predict, net = their_fno(train)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(0)
    scale = 1 / train.u.square().mean()
    shape = tino.TrainConfig(lr=2e-3)
    start, taken = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < budget:
        set_rate(optimizer, shape.lr_at(elapsed / budget))
        picked = torch.randperm(len(train), generator=generator)[:20]
        optimizer.zero_grad(set_to_none=True)
        (scale * (predict(train.f[picked]) - train.u[picked]).square().mean()).backward()
        optimizer.step()
        taken += 1
    with torch.no_grad():
        errors = [(predict(f) - u).square().mean() for f, u in zip(test.f.split(20), test.u.split(20), strict=True)]
    theirs = {"seconds": budget, "steps": taken, "batch": 20, "mse": float(torch.stack(errors).mean())}
    return {"goal": GOAL, "ours": tries, "fno": theirs, "fno_still_above": theirs["mse"] > GOAL}


# -- on a GPU -------------------------------------------------------------------------------------------------


def steps(device: str) -> Found:
    """A step at batch 200: milliseconds, the share of it inside kernels; and that the host never waits in it."""
    train, _ = burgers(device)
    found: Found = {}
    for model, optimizer, times in (
        ("spod-trtino", "adam", 32),
        ("spod-trtino", "adam", 0),
        ("spod-trtino", "soap", 32),
        ("don", "adam", 32),
        ("pod-don", "adam", 0),
        ("fno", "adam", 0),
    ):
        one = Steps(model, train, tino.TrainConfig(optimizer=optimizer, times=times, device=device))
        warm = 90 if optimizer == "soap" else 5  # 450 steps: beyond them SOAP's own part is a graph too
        one.epochs(warm)
        count = 4 if model == "fno" else 40
        ms = 1e3 * one.seconds(count) / one.run.epoch_steps
        torch.cuda.set_sync_debug_mode("error")  # an operation that makes the host wait raises
        if optimizer != "soap":  # whose every tenth step asks the host for a decomposition
            one.epochs(2)
        torch.cuda.set_sync_debug_mode("default")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            one.epochs(4)
            torch.cuda.synchronize()
        kernels = (
            sum(event.self_device_time_total for event in profiler.key_averages()) / 1e3 / (4 * one.run.epoch_steps)
        )
        name = f"{model}, {optimizer}, {times or 'all'} times"
        found[name] = {"ms": ms, "kernel_ms": kernels, "share_in_kernels": min(1.0, kernels / ms)}
        if model == "spod-trtino":
            found[name] |= floors(one.run.model, one.run.batch, times or 200)
        print(name, found[name], flush=True)
    return found


def floors(model: Any, b: int, times: int) -> Found:
    """The least a step moves and computes, over what the device can (H200: 4.8 TB/s, 67 TFLOP/s in float32).

    Bytes: weights, gradients and Adam's two moments read and written once, the batch read once. Operations: products of
    branch, time factor and mixer, the mixer as a direct sum at the chosen times or by FFTs over all, whichever is less;
    backward counts twice.
    """
    parameters = sum(p.numel() for p in model.parameters())
    lags, m, width = model.mixer.weight.shape
    branch_modes, modes = model.time_factor.shape
    moved = 4 * (7 * parameters + b * lags * m + b * times * modes)
    layers = [layer.weight.numel() for layer in model.branch.net if isinstance(layer, torch.nn.Linear)]
    rows = b * times
    ffts = (b + width) * m + b * width
    fft = 2.5 * ffts * 2 * lags * np.log2(2 * lags) + 8 * b * (lags + 1) * m * width
    direct = 2 * rows * lags / 2 * m * width
    products = 2 * rows * (sum(layers) + branch_modes * modes) + min(fft, direct)
    return {"floor_bytes_ms": 1e3 * moved / 4.8e12, "floor_operations_ms": 1e3 * 3 * products / 67e12}


def precisions(device: str) -> Found:
    """The test MSE of the same training in float32, TF32 and bfloat16, short and long: where does rounding show?"""
    train, test = burgers(device)
    found: Found = {}
    for count in (300, 1000, 3000):
        for precision in ("float32", "tf32", "bfloat16"):
            model = tino.build("spod-trtino", train)
            config = tino.TrainConfig(steps=count, precision=precision, device=device)
            start = time.perf_counter()
            tino.fit(model, train, config, show_progress=False)
            row = {"mse": tino.evaluate(model, test).mse_mean, "seconds": time.perf_counter() - start}
            found.setdefault(str(count), {})[precision] = row
            print(count, precision, row, flush=True)
    return found


def compiled(device: str) -> Found:
    """A step of the networks on the grid in three dimensions at batch 100, in TF32, as it is and compiled."""
    train, _ = tino.dataset(tino.problem("advection-diffusion-3d"), train=100, test=1, device=device)
    found: Found = {}
    for model in ("unet", "fno"):
        row: Found = {}
        for way in (False, True):
            options = {"optimizer": "adam", "times": 0, "precision": "tf32", "device": device}
            start = time.perf_counter()
            one = Steps(model, train, tino.TrainConfig(**options, compile=way))
            first = time.perf_counter() - start + one.seconds(1, 1)
            one.epochs(5)  # an epoch is a step
            kind = "compiled" if way else "plain"
            row[kind] = {"first_seconds": first, "ms": 1e3 * one.seconds(5, 3)}
            del one
            torch.cuda.empty_cache()
        found[model] = {**row, "compiled_over_plain": row["compiled"]["ms"] / row["plain"]["ms"]}
        print(model, found[model], flush=True)
    return found


# -- on either ------------------------------------------------------------------------------------------------


def slopes(device: str) -> Found:
    """Seconds of a SPOD-TrTINO epoch against samples, times, sensors and modes, and the fitted slopes of their logs."""
    base = {"samples": 400, "n_t": 200, "sensors": 64, "modes": 32}
    large = device == "cuda"
    ranges = {
        "samples": [200, 400, 800, 1600],
        "n_t": [100, 200, 400, 800, 1600],
        "sensors": [16, 32, 64, 128, 256],
        "modes": [8, 16, 32, 64, 128],
    }
    found: Found = {"base": base, "batch": 200, "times": "all"}
    for name, values in ranges.items():
        seconds = []
        for value in values:
            sizes = {**base, name: value * (4 if large and name == "samples" else 1)}
            data = made_up(**sizes)
            config = tino.TrainConfig(optimizer="adam", times=0, batch_size=200, device=device)
            one = Steps("spod-trtino", data, config)
            one.epochs(3)
            seconds.append(one.seconds(10 if large else 1, 5 if large else 3))
        fitted = float(np.polyfit(np.log(values), np.log(seconds), 1)[0])
        found[name] = {"values": values, "seconds": seconds, "slope": fitted}
        print(name, found[name], flush=True)
    return found


def made_up(samples: int, n_t: int, sensors: int, modes: int) -> tino.Dataset:
    """Noise with that many sensors and an output of that rank."""
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    u = noise(samples, n_t, modes) @ noise(modes, 256)
    inputs, outputs = tino.Interval(0, 1, sensors), tino.Interval(0, 1, 256)
    return tino.Dataset(noise(samples, n_t, sensors), u, tino.TimeGrid(0, 1, n_t), inputs, outputs)


PARTS: dict[str, dict[str, Callable[[str], Found]]] = {
    "cpu": {"epochs": epochs, "time-to-goal": time_to_goal, "slopes": slopes},
    "cuda": {"steps": steps, "precisions": precisions, "compiled": compiled, "slopes": slopes},
}


def main(arguments: list[str]) -> None:
    if arguments == ["--page"]:
        import training_page

        return training_page.write()
    if not arguments or arguments[0] not in PARTS or any(name not in PARTS[arguments[0]] for name in arguments[1:]):
        raise SystemExit(__doc__)
    device, names = arguments[0], arguments[1:] or list(PARTS[arguments[0]])
    if device == "cpu" and os.environ.get("GLIBC_TUNABLES") != KEEP:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "GLIBC_TUNABLES": KEEP})
    out = Path(os.environ.get("OUT", RESULTS)) / f"training-{device}.json"
    found: Found = read_json(out) if out.exists() else {}
    found["environment"] = environment(torch.device(device))
    commit = found["environment"].pop("commit")  # a part's own: others may be older
    for name in names:
        start = time.perf_counter()
        found[name] = PARTS[device][name](device)
        found[name] |= {"wall_seconds": time.perf_counter() - start, "commit": commit}
        write_json(out, found)
        print(f"{name}: {found[name]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
