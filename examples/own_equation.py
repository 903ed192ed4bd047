"""Your own forced periodic PDE: reaction and diffusion, u_t = D u_xx + u - u³ + f(t, x), from rest."""

import tino
from tino.problems import register
from tino.problems.periodic import forced_periodic
from tino.solvers.spectral import PeriodicEquation


@register("reaction-diffusion")
def reaction_diffusion(name: str, n_t: int = 50, resolution: int = 64) -> tino.Problem:
    def nonlinear(v, box):  # the spectrum of N(u) = u - u³, from the spectrum of u
        u = box.backward(v)
        return box.forward(u - u**3)

    equation = PeriodicEquation(lambda box: -0.05 * box.k[0] ** 2, nonlinear, lambda x: 0 * x[:, 0])
    return forced_periodic(
        name,
        equation,
        title="Reaction and diffusion",
        formula="u_t = D u_xx + u - u³ + f(t, x)",
        stop=2.0,
        points=128,  # the solver's points along each axis
        step=0.01,  # the solver's largest time step
        n_t=n_t,
        resolution=resolution,
    )


def main(samples: int = 200, epochs: int = 40) -> float:
    train, test = tino.dataset(tino.problem("reaction-diffusion"), train=samples, test=50)
    model = tino.build("pod-tino", train)
    tino.fit(model, train, tino.TrainConfig(epochs=epochs, batch_size=50))
    scores = tino.evaluate(model, test)
    print(f"relative error {scores.rel_l2_mean:.1%}; {tino.certify(model, test)}")
    return scores.rel_l2_mean


if __name__ == "__main__":
    main()
