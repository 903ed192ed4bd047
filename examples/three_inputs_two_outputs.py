"""Three inputs and two outputs on the command line: two tanks, an inflow into each, and a pump between them."""

import tempfile
from pathlib import Path

import numpy as np

from tino.cli import run

HEAD = "time [s],inflow_1 [l/s],inflow_2 [l/s],pump [l/s],level_1 [m],level_2 [m]"


def write(path: Path, n: int = 700, dt: float = 2.0, seed: int = 0) -> None:
    """A h1' = q1 - p - c √h1, A h2' = q2 + p - c √h2, from levels of 1 m."""
    chance = np.random.default_rng(seed)
    drive = np.repeat(chance.uniform([4, 4, 0], [8, 8, 2], (n // 30 + 1, 3)), 30, axis=0)[:n]
    level = np.ones((n, 2))
    for i in range(n - 1):
        q1, q2, pump = drive[i]
        net = np.array([q1 - pump, q2 + pump]) - 6 * np.sqrt(level[i])
        level[i + 1] = np.maximum(level[i] + dt * net / 150, 0.05)
    rows = np.concatenate([dt * np.arange(n)[:, None], drive, level], 1)
    np.savetxt(path, rows, "%.8g", ",", header=HEAD, comments="")


def main() -> float:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write(place / "tanks.csv")
        write(place / "new.csv", 300, seed=1)
        data, model, answer = (str(place / name) for name in ("tanks.h5", "run", "response.csv"))
        names = ["--input", "inflow_1", "inflow_2", "pump", "--output", "level_1", "level_2"]
        assert run(["import", str(place / "tanks.csv"), *names, "--out", data]) == 0
        assert run(["train", data, "polynomial", "--out", model]) == 0
        assert run(["predict", model, str(place / "new.csv"), "--out", answer]) == 0
        predicted = np.loadtxt(answer, delimiter=",", skiprows=1)[:, 1:]
        measured = np.loadtxt(place / "new.csv", delimiter=",", skiprows=1)[:, 4:]
    fit = 100 * (1 - np.sqrt(np.mean((predicted - measured) ** 2 / measured.var(0))))
    print(f"fit on a new record: {fit:.2f} %")
    return float(fit)


if __name__ == "__main__":
    main()
