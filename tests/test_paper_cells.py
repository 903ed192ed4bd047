"""Every (problem, model) pair the paper has a figure for: trains, saves, loads, predicts the same."""

import pytest
import torch

import tino
from tino.paper import PAPER

CELLS = [(problem, model) for problem, row in PAPER.items() for model in row]


@pytest.fixture(scope="module")
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


def test_all_94_are_here():
    assert len(CELLS) == 94


@pytest.mark.filterwarnings("ignore::tino.TinoWarning")  # these grids are too coarse for the forcings, on purpose
@pytest.mark.parametrize(("problem", "name"), CELLS)
def test_a_cell_trains_and_is_kept(problem, name, tiny_data, tmp_path):
    train, test = tiny_data(problem)
    model = tino.build(name, train)
    heavy = name in ("fno", "unet") and train.outputs.shape  # networks on the grid take long steps
    few, epochs = (4, 4) if heavy else (12, 8)
    train = train.take(slice(few))
    config = tino.TrainConfig(epochs=epochs, batch_size=6, lr=2e-3, device="cpu")
    history = tino.fit(model, train, config, show_progress=False)
    assert history.loss[-1] < history.loss[0]
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert torch.equal(tino.predict(again, test.f, test.ic), tino.predict(model, test.f, test.ic))
