"""The paper's five tables: their problems and models, the figures printed there, and our recipe for each.

Z. Zhou, W. Zhang, L. Liu, "Time-Invariant Neural Operators with Applications in Solving Time-Dependent PDEs".
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PaperTable:
    """One table: its problems with their epochs, and the learning rate and weight decay of its models."""

    name: str
    title: str
    epochs: dict[str, int]  # by problem
    lr: float = 5e-3
    weight_decay: float = 0.0

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(self.epochs)


TABLES = (
    PaperTable("fitting", "Operators given by a formula", {"fitting-time": 600, "fitting-space": 600}),
    PaperTable("ode", "Ordinary differential equations", {"duffing": 600, "gradient-flow": 600, "lorenz": 600}),
    PaperTable(
        "pde-1d",
        "PDEs in one dimension",
        {"allen-cahn": 250, "burgers-0.1": 250, "burgers-0.01": 250, "convection-diffusion": 250},
    ),
    PaperTable(
        "pde-2d-3d",
        "PDEs in two and three dimensions",
        {"navier-stokes": 100, "navier-stokes-ic": 20, "advection-diffusion-3d": 500, "heat-triangle": 130},
        weight_decay=0.3,
    ),
    PaperTable("advection-reaction", "Causal, but not time-invariant", {"advection-reaction": 250}),
)

# what the models of all tables share; batches are the paper's
RECIPE = {"optimizer": "soap", "times": 0, "precision": "tf32"}

# of the fitting table each cell has its own rate and weight decay, chosen by benchmarks/choices.py
FITTING: dict[str, dict[str, tuple[float, float]]] = {
    "fitting-time": {
        "fno": (5e-3, 0.0),
        "don": (2e-2, 0.3),
        "pod-don": (2e-2, 0.3),
        "tc-don": (2e-2, 0.0),
        "tino": (2e-2, 0.0),
    },
    "fitting-space": {
        "don": (1e-2, 0.1),
        "pod-don": (1e-2, 0.1),
        "spod-don": (1e-2, 0.1),
        "tc-don": (5e-3, 0.1),
        "tc-spod-don": (1e-2, 0.1),
        "tino": (5e-3, 0.1),
    },
}


def recipe(problem: str, model: str) -> dict[str, Any]:
    """The training options of a cell, by their names in ``TrainConfig``; the others have their general defaults."""
    table = next(table for table in TABLES if problem in table.problems)
    lr, weight_decay = FITTING.get(problem, {}).get(model, (table.lr, table.weight_decay))
    return {**RECIPE, "epochs": table.epochs[problem], "lr": lr, "weight_decay": weight_decay}


# (MSE, SD) on the paper's own test sets, by problem and model, as printed
PAPER: dict[str, dict[str, tuple[float, float]]] = {
    "fitting-time": {
        "fno": (2.20e-2, 7.01e-2),
        "don": (1.20e-1, 8.43e-2),
        "pod-don": (1.31e-1, 7.16e-2),
        "tc-don": (1.81e-1, 9.77e-2),
        "tino": (6.85e-2, 6.18e-2),
    },
    "fitting-space": {
        "don": (3.92e-5, 9.01e-5),
        "pod-don": (1.63e-4, 6.25e-4),
        "spod-don": (1.75e-5, 6.75e-5),
        "tc-don": (1.16e-5, 3.31e-5),
        "tc-spod-don": (4.00e-5, 1.18e-4),
        "tino": (5.09e-6, 1.28e-5),
    },
    "duffing": {
        "fno": (8.18e-6, 1.41e-5),
        "don": (1.48e-3, 2.43e-3),
        "pod-don": (1.97e-3, 3.42e-3),
        "tc-don": (1.48e-3, 2.54e-3),
        "trtino": (3.93e-5, 6.32e-5),
    },
    "gradient-flow": {
        "fno": (2.14e-2, 1.10e-1),
        "don": (7.25e-2, 1.30e-1),
        "pod-don": (1.18e-1, 1.58e-1),
        "tc-don": (3.56e-2, 9.89e-2),
        "trtino": (3.67e-2, 1.05e-1),
    },
    "lorenz": {
        "fno": (1.71e-6, 2.16e-6),
        "don": (2.61e-3, 3.09e-3),
        "pod-don": (1.02e-6, 2.14e-6),
        "tc-don": (1.71e-3, 1.04e-3),
        "trtino": (6.32e-4, 7.73e-4),
    },
    "allen-cahn": {
        "fno": (4.07e-7, 6.98e-7),
        "unet": (4.19e-6, 3.67e-6),
        "don": (2.59e-5, 5.68e-5),
        "pod-don": (8.65e-7, 2.71e-6),
        "spod-don": (7.80e-7, 2.33e-6),
        "tc-don": (1.53e-5, 4.02e-5),
        "tc-spod-don": (4.32e-7, 1.33e-6),
        "spod-trtino": (9.90e-8, 2.92e-7),
    },
    "burgers-0.1": {
        "fno": (3.00e-7, 2.52e-7),
        "unet": (2.44e-5, 7.00e-5),
        "don": (2.84e-4, 5.31e-5),
        "pod-don": (1.52e-6, 2.05e-6),
        "spod-don": (1.07e-6, 3.27e-6),
        "tc-don": (7.85e-5, 7.61e-5),
        "tc-spod-don": (1.35e-6, 2.82e-6),
        "spod-trtino": (6.86e-8, 1.08e-7),
    },
    "burgers-0.01": {
        "fno": (2.03e-5, 3.24e-5),
        "unet": (3.05e-4, 4.58e-4),
        "don": (3.29e-3, 2.48e-3),
        "pod-don": (6.02e-4, 1.06e-3),
        "spod-don": (3.45e-4, 7.04e-4),
        "tc-don": (1.98e-3, 1.98e-3),
        "tc-spod-don": (1.49e-4, 3.10e-4),
        "spod-trtino": (1.04e-4, 2.08e-4),
    },
    "convection-diffusion": {
        "fno": (6.07e-6, 7.82e-6),
        "unet": (3.15e-4, 1.03e-3),
        "don": (1.97e-4, 1.57e-4),
        "pod-don": (5.59e-4, 8.97e-4),
        "spod-don": (2.35e-5, 4.69e-5),
        "tc-don": (5.57e-5, 5.33e-5),
        "tc-spod-don": (2.84e-6, 8.33e-6),
        "spod-trtino": (7.63e-7, 9.05e-7),
    },
    "navier-stokes": {
        "fno": (1.16e-3, 1.96e-3),
        "unet": (1.11e-2, 2.30e-2),
        "don": (2.76e-2, 9.84e-3),
        "spod-don": (2.58e-2, 1.49e-2),
        "tc-don": (2.48e-2, 7.67e-3),
        "tc-spod-don": (1.29e-3, 2.49e-3),
        "spod-trtino": (9.13e-4, 1.92e-3),
    },
    "navier-stokes-ic": {
        "fno": (7.83e-6, 1.92e-5),
        "unet": (6.65e-4, 2.60e-3),
        "don": (7.75e-3, 7.32e-3),
        "spod-don": (2.35e-4, 9.60e-4),
        "tc-don": (6.81e-3, 6.59e-3),
        "tc-spod-don": (2.18e-4, 9.16e-4),
        "spod-trtino": (8.59e-5, 4.94e-4),
    },
    "advection-diffusion-3d": {
        "fno": (4.29e-5, 4.36e-5),
        "unet": (7.68e-1, 1.24e-2),
        "don": (1.42e-2, 1.47e-2),
        "spod-don": (6.88e-4, 9.54e-4),
        "tc-don": (5.92e-3, 3.46e-3),
        "tc-spod-don": (2.10e-3, 2.58e-3),
        "spod-trtino": (2.95e-5, 1.26e-4),
    },
    "heat-triangle": {
        "fno": (1.38e-6, 2.30e-6),
        "unet": (5.03e-5, 1.86e-4),
        "don": (2.27e-5, 3.95e-5),
        "spod-don": (2.79e-7, 5.71e-7),
        "tc-don": (1.24e-5, 2.42e-5),
        "tc-spod-don": (9.34e-8, 2.75e-7),
        "spod-trtino": (5.67e-8, 1.39e-7),
    },
    "advection-reaction": {
        "fno": (4.23e-6, 5.96e-6),
        "unet": (4.15e-4, 9.34e-4),
        "don": (3.84e-3, 1.90e-3),
        "pod-don": (7.78e-6, 1.43e-5),
        "spod-don": (1.53e-4, 2.27e-4),
        "tc-don": (9.63e-4, 1.33e-3),
        "tc-spod-don": (8.49e-5, 1.13e-4),
        "spod-trtino": (2.17e-4, 2.90e-4),
    },
}


# models whose committed results were trained with another implementation of the same network
EARLIER_FORMS = {"unet": "U-Net: trained with an earlier, faster form of the same network."}


def own_model(problem: str) -> str:
    """The paper's own model on a problem: the last of its row."""
    return list(PAPER[problem])[-1]
