"""Every (problem, model) pair the paper has a figure for: trains, saves, loads, predicts the same."""

import pytest
import torch

import tino
from tino.paper import PAPER

CELLS = [(problem, model) for problem, row in PAPER.items() for model in row]


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
