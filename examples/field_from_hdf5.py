"""A field from an HDF5 file: heat released along a rod, and the temperature along it, thirty runs of a simulation."""

import tempfile
from pathlib import Path

import h5py
import numpy as np

import tino


def write(path: Path, runs: int = 30, times: int = 60, points: int = 24) -> None:
    """T_t = D T_xx + q(t, x) on [0, 1], cold at both ends, from T = 0."""
    chance, x, t = np.random.default_rng(0), np.linspace(0, 1, points), np.linspace(0, 3, times)
    shapes = np.stack([np.sin(np.pi * k * x) for k in (1, 2, 3)])
    steps = 40  # of the solver in each step of the record
    q = np.repeat(chance.normal(size=(runs, times // 5 + 1, 3)), 5, axis=1)[:, :times] @ shapes
    T = np.zeros_like(q)
    for i in range(times - 1):
        now = T[:, i].copy()
        for _ in range(steps):
            bend = np.zeros_like(now)
            bend[:, 1:-1] = (now[:, 2:] - 2 * now[:, 1:-1] + now[:, :-2]) * (points - 1) ** 2
            now += (t[1] / steps) * (0.05 * bend + q[:, i])
            now[:, [0, -1]] = 0
        T[:, i + 1] = now
    with h5py.File(path, "w") as file:
        file["heat"], file["temperature"], file["t"], file["x"] = q, T, t, x
        file["heat"].attrs["units"], file["temperature"].attrs["units"] = "K/s", "K"


def main() -> float:
    with tempfile.TemporaryDirectory() as folder:
        write(path := Path(folder) / "rod.h5")
        options = tino.ImportOptions(points="x")  # the third axis is x
        train, test, summary = tino.import_records(path, "heat", "temperature", options=options)
    for channel in summary.channels:
        print(f"{channel.role} {channel.name} [{channel.unit}]: {channel.grid}, RMS {channel.rms:.3g}")
    model = tino.build("linear", train)
    tino.fit(model, train)
    fit = tino.evaluate(model, test).fit
    print(f"fit on {len(test)} test runs: {fit:.2f} %")
    return fit


if __name__ == "__main__":
    main()
