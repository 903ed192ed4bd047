"""One long record in a CSV file: a heater's power and the temperature of the block it heats, which also radiates.

The last part of the time is for the test. Its start is not known, so a stretch before it is read but not scored.
"""

import tempfile
from pathlib import Path

import numpy as np

import tino


def write(path: Path, hours: float = 10.0, dt: float = 20.0) -> None:
    """C T' = P - h (T - 20) - s (K⁴ - 293⁴) with T in °C, K in kelvin; the power steps at random."""
    n, chance = int(hours * 3600 / dt), np.random.default_rng(0)
    power = np.repeat(chance.uniform(0, 400, n // 25 + 1), 25)[:n]  # W
    temperature = np.full(n, 20.0)
    for i in range(n - 1):
        T = temperature[i]
        loss = 1.5 * (T - 20) + 4e-9 * ((T + 273) ** 4 - 293**4)
        temperature[i + 1] = T + dt * (power[i] - loss) / 1500
    rows = np.stack([dt * np.arange(n), power, temperature], 1)
    np.savetxt(path, rows, "%.6g", ",", header="time [s],power [W],temperature [°C]", comments="", encoding="utf-8")


def main() -> float:
    with tempfile.TemporaryDirectory() as folder:
        write(path := Path(folder) / "heater.csv")
        train, test, summary = tino.import_records(path, "power", "temperature")
    print(f"{summary.records} record of {summary.times[1]} times, dt = {summary.dt:g} s; {summary.split}")
    model = tino.build("polynomial", train)
    tino.fit(model, train)
    fit = tino.evaluate(model, test).fit
    print(f"fit on the last part: {fit:.2f} %")
    return fit


if __name__ == "__main__":
    main()
