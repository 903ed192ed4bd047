"""The models by name: one line each, and the one function that builds them from data."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tino.data import Dataset
from tino.errors import TinoError, unknown
from tino.grids import Point
from tino.models.bases import Constant, PodModes
from tino.models.fno import build_fno
from tino.models.operator import Frame, Operator
from tino.models.separable import Separable, Spec
from tino.models.unet import build_unet
from tino.pod import Pod, pod

TRUNK_MODES = 128  # J' and J where nothing else fixes them
# The first layer is a sum over times and sensors. A step of the optimiser moves every weight by about the rate, and so
# what the layer gives by the rate times INPUT_SUM, the absolute sum of a sample's inputs, on average. FIRST_SIZE is the
# root mean square of what it gives before the first step, at the last time, where all inputs have come; an initial
# state adds as much. Where that is large the model overfits, where it is small the network begins as a linear one and
# learns slower what is not: a compromise between problems (docs/results.md has the errors)
INPUT_SUM = 50.0
FIRST_SIZE = 0.75
LATE_MODES = 16  # J of Causality-DON, each with 256 / 16 kernels: as many in all as the other delays have


@dataclass(frozen=True)
class Recipe:
    """A member of the family: which mixer, which basis, with a time factor or without."""

    mixer: str
    basis: str
    time_factor: bool
    equation: str  # its label in the paper
    title: str


@dataclass(frozen=True)
class GridRecipe:
    """A network on the space-time grid, and the function that builds it."""

    build: Callable[[str, Dataset], Operator]
    equation: str
    title: str


MODELS: dict[str, Recipe | GridRecipe] = {
    "fno": GridRecipe(build_fno, "section FNO", "Fourier neural operator"),
    "unet": GridRecipe(build_unet, "section Numerical Tests", "U-Net on space-time"),
    "don": Recipe("global", "trunk(t,y)", False, "eq_deepont", "DeepONet"),
    "pod-don": Recipe("global", "pod(t,y)", False, "eq_pod_deepont", "POD-DeepONet"),
    "spod-don": Recipe("global", "pod(y)", True, "eq_spod_don", "DeepONet with spatial POD"),
    "tc-don": Recipe("masked", "trunk(t,y)", False, "eq_TC_DON", "time-causal DeepONet"),
    "tc-spod-don": Recipe("masked", "pod(y)", True, "eq_TC_SPOD_DON", "time-causal DeepONet, spatial POD"),
    "causality-don": Recipe("late", "trunk(t)", False, "eq_causality_don", "Causality-DeepONet (time-only outputs)"),
    "tdnn": Recipe("delay", "constant", False, "section TDNN", "time-delay neural network (time-only outputs)"),
    "tino": Recipe("delay", "trunk(y)", False, "eq_TINO_txy", "time-invariant neural operator"),
    "pod-tino": Recipe("delay", "pod(y)", False, "section POD-TINO", "TINO with spatial POD"),
    "trtino": Recipe("delay", "trunk(y)", True, "eq_TrTINO_txy", "truncated TINO"),
    "spod-trtino": Recipe("delay", "pod(y)", True, "eq_spod_trtino", "truncated TINO, spatial POD"),
}


def model_recipe(name: str) -> Recipe | GridRecipe:
    """The recipe of that name, or an error with the nearest known one."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name]


def of_the_family(name: str) -> bool:
    """Whether a model is of the paper's own kind: TINO, TrTINO, their POD forms, whose mixer is a delay."""
    return getattr(MODELS.get(name), "mixer", "") == "delay"


def build(
    name: str,
    train: Dataset,
    seed: int = 0,
    *,
    snapshots: str = "quartile",
    project_sensors: bool = True,
    first_lag: int = 0,
) -> Operator:
    """A fresh model of that name for a dataset: all sizes, scales and POD modes come from the data.

    ``snapshots``: the POD of y uses the outputs at the first quartile of time, as the paper does, or of "all"
    times. ``project_sensors``: the mixer sees the POD coefficients of the inputs, exact on their span, where
    that at least halves their number. ``first_lag``: 0, or 1 as in the paper's derivation.
    """
    recipe = model_recipe(name)
    if snapshots not in ("quartile", "all"):
        raise TinoError(f"snapshots is '{snapshots}', expected 'quartile' or 'all'")
    if first_lag not in (0, 1):
        raise TinoError(f"first_lag is {first_lag}, expected 0 or 1")
    if snapshots != "quartile" and getattr(recipe, "basis", "") != "pod(y)":
        raise TinoError(f"{name} has no POD of y, so snapshots='{snapshots}' means nothing to it")
    if first_lag and getattr(recipe, "mixer", "") != "delay":
        raise TinoError(f"{name} has no delay mixer, so first_lag={first_lag} means nothing to it")
    if isinstance(recipe, GridRecipe):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return recipe.build(name, train)
    basis = recipe.basis
    if isinstance(train.outputs, Point):
        if basis == "pod(y)":
            raise TinoError(f"{name} needs outputs in space for its POD, {train.name} has time-only outputs")
        if basis == "trunk(y)":
            basis = "constant"
    if basis in ("constant", "trunk(t)") and not isinstance(train.outputs, Point):
        raise TinoError(f"{name} has one output signal, {train.name} has {train.outputs.size} output points: use tino")
    modes, outputs = _output_pod(basis, train, snapshots)
    branch_modes = TRUNK_MODES if recipe.time_factor else modes
    if not train.f.any():
        raise TinoError(f"the inputs of {train.name} are all zero: there is nothing to learn from")
    sensors = input_pod(train) if project_sensors else None
    if sensors is not None and 2 * len(sensors.modes) > train.inputs.size:
        sensors = None
    spec = Spec(
        mixer=recipe.mixer,
        basis=basis,
        time_factor=recipe.time_factor,
        sensors=train.inputs.size if sensors is None else len(sensors.modes),
        branch_modes=branch_modes,
        modes=modes,
        first_lag=first_lag,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Separable(Frame.of(name, train), spec)
    with torch.no_grad():
        _scale_inputs(model, train, sensors)
        _scale_outputs(model, train, outputs)
    return model


def _output_pod(basis: str, train: Dataset, snapshots: str) -> tuple[int, Pod | None]:
    """J, and the POD of the outputs where the basis is one."""
    if basis == "constant":
        return 1, None
    if basis == "trunk(t)":
        return LATE_MODES, None
    if basis.startswith("trunk"):
        return TRUNK_MODES, None
    found = output_pod(train, "of (t, y)" if basis == "pod(t,y)" else snapshots)
    return len(found.modes), found


def input_pod(data: Dataset) -> Pod:
    """Of the inputs at all times, no mean subtracted: physical zero stays zero."""
    return pod(data.f.flatten(0, 1), subtract_mean=False)


def output_pod(data: Dataset, snapshots: str) -> Pod:
    """Of the outputs as functions of y, at the first "quartile" of time or at "all" times, or "of (t, y)"."""
    if snapshots == "of (t, y)":
        return pod(data.u.flatten(1))
    if snapshots == "all":
        return pod(data.u.flatten(0, 1))
    return pod(data.u[:, round((data.time.n - 1) / 4)])  # the grid time nearest to T_0 + (T - T_0) / 4


def _scale_inputs(model: Separable, train: Dataset, sensors: Pod | None) -> None:
    if sensors is None:
        model.sensors.matrix.fill_(_scale_first_layer(model.mixer.weight, train.f, "inputs"))
    else:
        seen = train.f @ sensors.modes.T.to(train.f)
        model.sensors.matrix.copy_(_scale_first_layer(model.mixer.weight, seen, "inputs") * sensors.modes.T)
        model.sensors.left.fill_(sensors.left)
    if model.initial is not None and train.ic is not None and train.ic.any():
        model.state_scale.fill_(_scale_first_layer(model.initial.weight, train.ic, "initial states"))


def _scale_first_layer(weight: Tensor, values: Tensor, name: str) -> float:
    """Scale its weights, so that it gives FIRST_SIZE, and return what to scale the values by that enter it."""
    mean = float(torch.linalg.vector_norm(values, 1, dtype=torch.float64)) / len(values)
    if not 1e-30 < mean < 1e30:  # in float32 the scale would be 0 or infinite
        raise TinoError(f"the {name} of a sample sum up to {mean:.1e}: give them in other units")
    scale = INPUT_SUM / mean
    norm = scale * float(torch.linalg.vector_norm(values, dtype=torch.float64)) / len(values) ** 0.5
    weight.mul_(FIRST_SIZE / (norm * weight.std()))
    return scale


def _scale_outputs(model: Separable, train: Dataset, outputs: Pod | None) -> None:
    basis = model.basis
    if isinstance(basis, PodModes):
        assert outputs is not None
        basis.fill(outputs)
        basis.scale.copy_(basis.project(train.u.float()).square().mean((0, 1)).sqrt())
    else:
        size = train.u.double().square().mean().sqrt()
        if not size > 0:
            raise TinoError(f"the outputs of {train.name} are all zero: there is nothing to learn from")
        basis.scale.copy_(size if isinstance(basis, Constant) else size * model.spec.modes**-0.5)
