"""Your own forced ODE: a pendulum with friction, pushed by a torque f(t)."""

import torch

import tino
from tino.problems import register
from tino.problems.oscillators import forced_ode


@register("my-pendulum")
def my_pendulum(name: str, n_t: int = 200) -> tino.Problem:
    def slope(f, y):  # y' for y = (angle, speed)
        angle, speed = y.unbind(1)
        return torch.stack([speed, f - 0.5 * speed - torch.sin(angle)], dim=1)

    equation = "u'' + u'/2 + sin u = f(t)"
    return forced_ode(name, slope, (0.0, 0.0), title="Pendulum", equation=equation, n_t=n_t)


def main(samples: int = 200, epochs: int = 100) -> float:
    train, test = tino.dataset(tino.problem("my-pendulum"), train=samples, test=50)
    model = tino.build("tino", train)
    tino.fit(model, train, tino.TrainConfig(epochs=epochs, batch_size=50))
    scores = tino.evaluate(model, test)
    print(f"relative error {scores.rel_l2_mean:.1%}; {tino.certify(model, test)}")
    return scores.rel_l2_mean


if __name__ == "__main__":
    main()
