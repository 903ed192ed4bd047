"""Small datasets, made once per test session in a cache of their own."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from typing import Any

import pytest

import tino
from tino.models.family import Family
from tino.parts.bases import Constant, PodModes
from tino.parts.mixers import LateMixer

SMALL = {"n_t": 24, "resolution": 24}


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """No test touches the user's cache."""
    os.environ["TINO_CACHE"] = str(tmp_path_factory.mktemp("cache"))


def small_problem(name: str) -> tino.Problem:
    if tino.problem(name).outputs.size == 1:
        return tino.problem(name, n_t=24)
    return tino.problem(name, resolution=24) if name == "navier-stokes-ic" else tino.problem(name, **SMALL)


@pytest.fixture(scope="session")
def small_data(own_cache):
    """name -> (train, test): 24 and 6 pairs on a coarse grid."""
    made = {}

    def get(name: str) -> tuple[tino.Dataset, tino.Dataset]:
        if name not in made:
            train, test = (3, 1) if name == "navier-stokes-ic" else (24, 6)
            made[name] = tino.dataset(small_problem(name), train=train, test=test, show_progress=False)
        return made[name]

    return get


@pytest.fixture(scope="session")
def tiny_data(own_cache):
    """name -> (train, test): 12 and 2 pairs on a very coarse grid."""
    made = {}

    def get(name: str) -> tuple[tino.Dataset, tino.Dataset]:
        if name not in made:
            axes = tino.problem(name).outputs.points.shape[1]
            options = [
                {"n_t": 40},
                {"n_t": 16, "resolution": 16},
                {"n_t": 10, "resolution": 10},
                {"n_t": 8, "resolution": 8},
            ]
            chosen = options[axes] if name != "navier-stokes-ic" else {"resolution": 10}
            made[name] = tino.dataset(tino.problem(name, **chosen), train=12, test=2, show_progress=False)
        return made[name]

    return get


def separable(name: str, train: tino.Dataset, **options: Any) -> tino.Separable:
    """A fresh member of the DeepONet family."""
    model = tino.build(name, train, **options)
    assert isinstance(model, tino.Separable)
    return model


BUILDERS = {name: entry.builder for name, entry in tino.MODELS.items() if isinstance(entry.builder, Family)}
TIME_ONLY = [name for name, recipe in BUILDERS.items() if recipe.basis is Constant or recipe.mixer is LateMixer]
FAMILY = [name for name in BUILDERS if name not in TIME_ONLY]
SPATIAL_POD = [name for name, recipe in BUILDERS.items() if recipe.basis is PodModes and not recipe.of_time]
GLOBAL = [name for name, recipe in BUILDERS.items() if not recipe.mixer.properties.causal]
PAIRS = [  # one problem in time, one with unlike grids, one periodic; with every model that fits it
    (problem, model)
    for problem in ("duffing", "fitting-space", "burgers-0.1")
    for model in BUILDERS
    if not (problem == "duffing" and model in SPATIAL_POD) and not (problem != "duffing" and model in TIME_ONLY)
] + [("heat-triangle", "spod-trtino"), ("navier-stokes-ic", "pod-tino"), ("advection-diffusion-3d", "pod-tino")]


class OneForcing:
    """A single forcing f(t, x) of any form, for the solvers; x are points (m, d)."""

    batch = 1

    def __init__(self, f):
        self.f = f

    def through(self, x, linear):
        return lambda t: linear(self.f(t, x)[None])
