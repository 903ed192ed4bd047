"""A controller that plans with a learned model: the Duffing oscillator follows a path, pushed by a force f(t).

The model, ``polynomial``, is fitted in seconds to records of random pushes. At every sample the controller reads the
measured output, plans the next second of forces by one Gauss-Newton step through the model's own derivatives, and
applies the first of them. The system itself, which the controller never sees, is integrated beside it.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch import Tensor

import tino

DT, HORIZON, LIMIT = 0.05, 20, 4.0  # seconds, samples planned ahead, largest |f|
EFFORT = 1e-4  # weight of changes of the force, beside that of the error
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "mpc.png"


def slope(y: Tensor, f: Tensor) -> Tensor:
    """u'' + u'/2 + u + u³ = f."""
    u, v = y.unbind(-1)
    return torch.stack([v, f - 0.5 * v - u - u**3], -1)


def simulate(y: Tensor, before: Tensor, now: Tensor, steps: int = 10) -> Tensor:
    """One sample later, the force changing linearly: classical Runge-Kutta."""
    h = DT / steps
    for k in range(steps):
        f0, f1, f2 = (before + (now - before) * (k + part) / steps for part in (0.0, 0.5, 1.0))
        k1 = slope(y, f0)
        k2 = slope(y + h / 2 * k1, f1)
        k3 = slope(y + h / 2 * k2, f1)
        k4 = slope(y + h * k3, f2)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def records(count: int, times: int = 200) -> tino.Dataset:
    """Random pushes from rest, and what they do."""
    generator = torch.Generator().manual_seed(0)
    knots = LIMIT * (2 * torch.rand(count, 1, times // 4 + 2, generator=generator, dtype=torch.float64) - 1)
    f = torch.nn.functional.interpolate(knots, scale_factor=4.0, mode="linear")[:, 0, :times]
    y, u = torch.zeros(count, 2, dtype=torch.float64), torch.zeros(count, times, dtype=torch.float64)
    for i in range(1, times):
        y = simulate(y, f[:, i - 1], f[:, i])
        u[:, i] = y[:, 0]
    grid = tino.TimeGrid(0.0, DT * (times - 1), times)
    return tino.Dataset(f[..., None], u[..., None], grid, tino.Point(), tino.Point())


def planned(model: tino.Operator, state: tino.State, plan: Tensor, before: Tensor, path: Tensor) -> Tensor:
    """Better forces for the next samples: one Gauss-Newton step on the error and on the changes of the force."""

    def ahead(f: Tensor) -> Tensor:
        return model.run(state, f[None, :, None])[1][0, :, 0]

    error, change = ahead(plan) - path, torch.diff(plan, prepend=before[None])
    to_change = torch.eye(len(plan), dtype=plan.dtype) - torch.diag(torch.ones(len(plan) - 1, dtype=plan.dtype), -1)
    rows = torch.cat([torch.func.jacrev(ahead)(plan), EFFORT**0.5 * to_change])
    step = torch.linalg.lstsq(rows, -torch.cat([error, EFFORT**0.5 * change])[:, None]).solution[:, 0]
    return (plan + step).clamp(-LIMIT, LIMIT)


def main(samples: int = 200, seconds: float = 20.0, picture: Path | None = None) -> float:
    train = records(samples)
    model = tino.build("polynomial", train)
    tino.fit(model, train, show_progress=False)
    model.requires_grad_(False)
    n = round(seconds / DT)
    t = DT * torch.arange(n + HORIZON, dtype=torch.float64)
    holds = torch.sigmoid(3 * (t - 12))  # first a wave, then a fixed place
    path = (1 - torch.exp(-((t / 0.8) ** 2))) * 0.8 * torch.sin(0.9 * t) * (1 - holds) + 0.6 * holds  # from rest
    y = torch.zeros(2, dtype=torch.float64)
    f, u = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    plan = torch.zeros(HORIZON, dtype=torch.float64)
    for i in range(1, n):
        state = model.synchronise(f[None, :, None], u[None, :, None])  # what was measured is the model's memory
        plan = planned(model, state, torch.cat([plan[1:], plan[-1:]]), f[-1], path[i : i + HORIZON])
        y = simulate(y, f[-1], plan[0])
        f, u = torch.cat([f, plan[:1]]), torch.cat([u, y[:1]])
    error = float((u - path[:n]).square().mean().sqrt() / path[:n].square().mean().sqrt())
    print(f"the output follows the path with a relative error of {error:.2g}")
    if picture is not None:
        draw(t[:n], path[:n], u, f, picture)
    return error


def draw(t: Tensor, path: Tensor, u: Tensor, f: Tensor, picture: Path) -> None:
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7.5, 4.2), height_ratios=(2, 1))
    above.plot(t, path, color="0.6", linewidth=4, label="the path to follow")
    above.plot(t, u, color="C1", linewidth=1.2, label="the Duffing oscillator, controlled")
    above.set_ylabel("u")
    above.legend(frameon=False, loc="lower right", fontsize=8)
    below.plot(t, f, color="C0", linewidth=1.2)
    below.set_ylabel("force f")
    below.set_xlabel("t [s]")
    figure.tight_layout()
    figure.savefig(picture, dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    main(picture=Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
