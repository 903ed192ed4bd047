"""Fifty records of different lengths, one CSV file each: the voltage of a motor and its speed, from standstill."""

import tempfile
from pathlib import Path

import numpy as np

import tino


def write(folder: Path, records: int = 50, dt: float = 0.01) -> list[Path]:
    """J w' = k (V - k w) / R - b w: a motor with resistance R, constant k and friction b."""
    chance, paths = np.random.default_rng(0), []
    for number in range(records):
        n = int(chance.integers(80, 200))
        voltage = np.repeat(chance.normal(0, 6, n // 20 + 1), 20)[:n]
        speed = np.zeros(n)
        for i in range(n - 1):
            torque = 0.5 * (voltage[i] - 0.5 * speed[i]) / 2.0 - 0.01 * speed[i]
            speed[i + 1] = speed[i] + dt * torque / 0.02
        rows = np.stack([dt * np.arange(n), voltage, speed], 1)
        paths.append(folder / f"run-{number:02d}.csv")
        np.savetxt(paths[-1], rows, "%.7g", ";", header="t;voltage (V);speed (rad/s)", comments="")
    return paths


def main() -> float:
    with tempfile.TemporaryDirectory() as folder:
        train, test, summary = tino.import_records(write(Path(folder)), "voltage", "speed")
    least, most = summary.times
    print(f"{summary.records} records of {least} to {most} times; {summary.split}")
    model = tino.build("linear", train)
    tino.fit(model, train)
    fit = tino.evaluate(model, test).fit
    print(f"fit on {len(test)} test records: {fit:.2f} %")
    return fit


if __name__ == "__main__":
    main()
