"""Models on disk: readable, whole, and unable to run code."""

import json
import pickle

import pytest
import safetensors.torch
import torch

import tino


@pytest.fixture
def saved(small_data, tmp_path):
    train, _ = small_data("burgers-0.1")
    tino.build("spod-trtino", train).save(tmp_path / "run")
    return tmp_path / "run"


def test_the_record_is_readable(saved):
    record = json.loads((saved / "model.json").read_text())
    assert record["model"] == "spod-trtino"
    assert record["problem"] == "burgers-0.1"
    assert record["time"] == {"start": 0.0, "stop": 4.0, "n": 24}
    assert record["normalisation"]["input_scale"] > 0
    assert sorted(p.name for p in saved.iterdir()) == ["model.json", "model.safetensors"]


def change_json(folder, **values):
    record = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**record, **values}))


def damage(folder, how):
    weights = folder / "model.safetensors"
    if how == "weights cut in half":
        weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    elif how == "weights missing":
        weights.unlink()
    elif how == "weights pickled":
        weights.write_bytes(pickle.dumps({"mixer.weight": 1}))
    elif how == "weights of a torch file":
        torch.save({"mixer.weight": torch.zeros(2)}, weights)
    elif how == "record cut in half":
        text = (folder / "model.json").read_text()
        (folder / "model.json").write_text(text[: len(text) // 2])
    elif how == "record missing":
        (folder / "model.json").unlink()
    elif how == "other sizes":
        change_json(folder, branch_modes=7)
    elif how == "an unknown key":
        change_json(folder, surprise=1)
    elif how == "an unknown grid":
        change_json(folder, inputs={"kind": "sphere"})
    elif how == "an unknown mixer":
        change_json(folder, mixer="magic")
    elif how == "an unknown basis":
        change_json(folder, basis="magic")
    elif how == "weights that are NaN":
        tensors = safetensors.torch.load_file(weights)
        tensors["mixer.weight"][0, 0, 0] = torch.nan
        safetensors.torch.save_file(tensors, weights)
    elif how == "a list":
        (folder / "model.json").write_text("[1, 2]")


@pytest.mark.parametrize(
    "how",
    [
        "weights cut in half",
        "weights missing",
        "weights pickled",
        "weights of a torch file",
        "record cut in half",
        "record missing",
        "other sizes",
        "an unknown key",
        "an unknown grid",
        "an unknown mixer",
        "an unknown basis",
        "weights that are NaN",
        "a list",
    ],
)
def test_whatever_is_wrong_is_one_line(how, saved):
    damage(saved, how)
    with pytest.raises(tino.TinoError) as caught:
        tino.load(saved)
    assert "\n" not in str(caught.value)


def test_saving_where_nothing_can_be_written_is_one_line(small_data, tmp_path):
    (tmp_path / "file").write_text("in the way")
    train, _ = small_data("burgers-0.1")
    with pytest.raises(tino.TinoError, match="cannot write"):
        tino.build("tino", train).save(tmp_path / "file" / "run")
