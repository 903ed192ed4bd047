"""A signal that drives a field: the temperature at one end of a rod, and eight sensors along it, as arrays."""

import numpy as np

import tino

PLACES = np.array([0.05, 0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 0.95])  # closer together near the driven end


def measure(runs: int = 24, times: int = 120, points: int = 41) -> tuple[np.ndarray, np.ndarray]:
    """T_t = D T_xx on [0, 1], T(t, 0) = f(t), no flux at x = 1, from T = 0 -> f (runs, t), T at the sensors."""
    chance, x = np.random.default_rng(0), np.linspace(0, 1, points)
    f = np.repeat(chance.normal(size=(runs, times // 10 + 1)), 10, axis=1)[:, :times]
    T, seen = np.zeros((runs, points)), []
    for i in range(times):
        seen.append(np.stack([np.interp(PLACES, x, row) for row in T]))
        for _ in range(20):
            T[:, 0] = f[:, i]
            beyond = np.concatenate([T, T[:, -2:-1]], 1)  # mirrored: no flux
            T[:, 1:] += 0.0025 * 0.1 * (points - 1) ** 2 * (beyond[:, 2:] - 2 * T[:, 1:] + T[:, :-1])
    return f, np.stack(seen, 1)


def main() -> float:
    f, u = measure()
    units = ["K"]
    data = tino.from_arrays(
        f,
        u,
        dt=0.05,
        input_names=["end"],
        input_units=units,
        output_names=["rod"],
        output_units=units,
        output_points=PLACES,
    )
    train, test = data.take(slice(20)), data.take(slice(20, 24))
    print(f"{data.input_channels[0]} drives {data.output_channels[0]} on {data.outputs}")
    model = tino.build("linear", train)
    tino.fit(model, train)
    fit = tino.evaluate(model, test).fit
    print(f"fit on {len(test)} test runs: {fit:.2f} %")
    return fit


if __name__ == "__main__":
    main()
