"""Small datasets, made once per test session in a cache of their own."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest

import tino

SMALL = {"n_t": 24, "resolution": 24}


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """No test touches the user's cache."""
    os.environ["TINO_CACHE"] = str(tmp_path_factory.mktemp("cache"))


def small_problem(name: str) -> tino.Problem:
    options = {"n_t": 24} if name == "duffing" else SMALL
    return tino.problem(name, **options)


@pytest.fixture(scope="session")
def small_data(own_cache):
    """name -> (train, test): 24 and 6 pairs on a coarse grid."""
    made = {}

    def get(name: str) -> tuple[tino.Dataset, tino.Dataset]:
        if name not in made:
            made[name] = tino.dataset(small_problem(name), train=24, test=6, show_progress=False)
        return made[name]

    return get


def doubled(model: tino.Separable) -> tino.Separable:
    return model.double().eval()


FAMILY = list(tino.MODELS)
SPATIAL_POD = [name for name, recipe in tino.MODELS.items() if recipe.basis == "pod(y)"]
PAIRS = [  # every registered problem with every model that fits it
    (problem, model)
    for problem in tino.problem_names()
    for model in FAMILY
    if not (problem == "duffing" and model in SPATIAL_POD)
]
