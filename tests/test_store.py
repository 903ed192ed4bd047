"""Models on disk: readable, whole, and unable to run code."""

import hashlib
import json
import pickle
from dataclasses import fields
from typing import Any

import pytest
import safetensors.torch
import torch

import tino
from tino.files import sealed
from tino.models.simulated import Simulated


@pytest.fixture
def saved(small_data, tmp_path):
    train, _ = small_data("burgers-0.1")
    tino.build("spod-trtino", train).save(tmp_path / "run")
    return tmp_path / "run"


def test_the_record_is_readable(saved):
    record = json.loads((saved / "model.json").read_text())
    assert sorted(record) == ["format", "frame", "normalisation", "sha256", "sizes", "weights_sha256"]
    assert record["format"] == 6
    assert record["weights_sha256"] == hashlib.sha256((saved / "model.safetensors").read_bytes()).hexdigest()
    frame = record["frame"]
    assert (frame["model"], frame["problem"]) == ("spod-trtino", "burgers-0.1")
    assert frame["time"] == {"start": 0.0, "stop": 4.0, "n": 24}
    assert frame["input_channels"] == [{"name": "f", "unit": ""}]
    assert record["sizes"]["mixer"] == {"kind": "delay", "n_t": 24, "m": 24, "width": 256, "first_lag": 0}
    assert record["sizes"]["initial"] is None
    assert record["normalisation"]["input_scale"] > 0
    assert sorted(p.name for p in saved.iterdir()) == ["model.json", "model.safetensors"]


UNUSUAL = [
    ("spod-trtino", dict(mixer_width=48, branch_width=40, factor_width=24, modes=16, waves=3, decays=2, first_lag=1)),
    ("tino", dict(trunk_width=32, trunk_layers=2, waves=5, modes=7)),
    ("tc-don", dict(mixer_width=20, trunk_width=16, trunk_layers=1, decays=3)),
    ("pod-don", dict(branch_width=24, project_sensors=False)),
    ("fno", dict(width=6, modes=3, layers=2, projection=8, padding=4, clock=False)),
    ("unet", dict(features=8, levels=2, groups=4, clock=False)),
]


@pytest.mark.parametrize(("name", "sizes"), UNUSUAL, ids=[name for name, _ in UNUSUAL])
def test_every_size_is_in_the_record(name, sizes, small_data, tmp_path):
    """None in a constant of the code: a model of unusual sizes comes back as it was."""
    train, test = small_data("burgers-0.1")
    model = tino.build(name, train, **sizes)
    usual = tino.build(name, train)
    assert model.record() != usual.record()
    assert sum(p.numel() for p in model.parameters()) != sum(p.numel() for p in usual.parameters()) or name == "pod-don"
    model.save(tmp_path)
    again = tino.load(tmp_path)
    assert again.record() == model.record()
    assert torch.equal(tino.predict(again, test.f), tino.predict(model, test.f))


BUILDERS: dict[type, Any] = {type(entry.builder): entry.builder for entry in tino.MODELS.values()}
STRUCTURE = ("mixer", "basis", "of_time", "time_factor", "cell")  # which parts, not how large
OPTIONS = [(b, f.name) for b, it in BUILDERS.items() for f in fields(it) if f.name not in STRUCTURE]


def another(value: Any) -> Any:
    if isinstance(value, str):
        return "all"
    return not value if isinstance(value, bool) else value / 2 if isinstance(value, float) else _size(value)


def _size(value: int) -> int:
    return 2 if value == 1 else (value or 2) // 2 or 1


@pytest.fixture(scope="module")
def two_sets(small_data):
    """Burgers, and Gaussians on so many points that sensors are projected."""
    gaussians = tino.problem("fitting-space", n_t=8, resolution=64)
    return small_data("burgers-0.1")[0], tino.dataset(gaussians, train=40, test=1, show_progress=False)[0]


def numbers_of(model: tino.Operator, part: str) -> list[torch.Tensor]:
    """The numbers of a part of that name, or of the whole model."""
    return [v for key, v in model.state_dict().items() if not hasattr(model, part) or key.startswith(f"{part}.")]


@pytest.mark.parametrize(("kind", "option"), OPTIONS, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_every_option_does_something_and_comes_back(kind, option, two_sets, small_data, tmp_path):
    """What it changes in the record it changes in the model; to some models it may mean nothing."""
    effects = 0
    for name, entry in tino.MODELS.items():
        if type(entry.builder) is not kind:
            continue
        for train in two_sets if kind is not Simulated else [small_data("duffing")[0]]:  # of few outputs
            try:
                usual = tino.build(name, train)
                model = tino.build(name, train, **{option: another(getattr(entry.builder, option))})
            except tino.TinoError:
                continue
            record, f = model.record(), train.f[:2]
            u, moved = tino.predict(model, f), not all(map(torch.equal, numbers_of(model, ""), numbers_of(usual, "")))
            for part in (part for part in record if record[part] != usual.record()[part]):
                if part == "plan":  # of a flow: it acts when the flow is fitted
                    moved = True
                    continue
                same = all(map(torch.equal, numbers_of(model, part), numbers_of(usual, part)))
                assert not same or not torch.equal(u, tino.predict(usual, f)), f"{name}: {part}"
                moved = True
            if moved:
                effects += 1
                model.save(tmp_path)
                assert torch.equal(tino.predict(tino.load(tmp_path), f), u), name
    assert effects, f"{option} changes no model"


def test_a_causality_don_of_unusual_sizes(small_data, tmp_path):
    train, test = small_data("duffing")
    model = tino.build("causality-don", train, mixer_width=60, modes=12, trunk_layers=2, trunk_width=9)
    model.save(tmp_path)
    assert torch.equal(tino.predict(tino.load(tmp_path), test.f), tino.predict(model, test.f))


def test_a_model_in_float64_stays_so(small_data, tmp_path):
    train, test = small_data("burgers-0.1")
    model = tino.build("trtino", train).double()
    model.save(tmp_path)
    again, f = tino.load(tmp_path), test.f.double()
    assert all(v.dtype == torch.float64 for v in again.parameters())
    assert torch.equal(tino.predict(again, f), tino.predict(model, f))


def test_a_record_of_the_old_format_is_refused(saved):
    """Format 5 had no checksums."""
    record = json.loads((saved / "model.json").read_text())
    kept = {key: record[key] for key in ("frame", "sizes", "normalisation")}
    (saved / "model.json").write_text(json.dumps({"format": 5, **kept}))
    with pytest.raises(tino.TinoError, match=r"model.json has format 5, this version reads 6: train it again$"):
        tino.load(saved)


def test_a_changed_number_is_refused_and_the_file_is_named(saved):
    """In the record (a time that ends later), and in the weights (one bit of one of them)."""
    record, weights = saved / "model.json", saved / "model.safetensors"
    text, raw = record.read_text(), weights.read_bytes()
    record.write_text(text.replace('"stop": 4.0', '"stop": 7.0'))
    with pytest.raises(tino.TinoError, match=r"model.json was changed or damaged .*: train it again$"):
        tino.load(saved)
    record.write_text(text)
    weights.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(tino.TinoError, match=r"model.safetensors was changed or damaged .*: train it again$"):
        tino.load(saved)
    weights.write_bytes(raw)
    tino.load(saved)


def test_an_unknown_device_is_one_line(saved):
    for device in ("tpu", None, 5):
        with pytest.raises(tino.TinoError, match=f"no device '{device}', expected auto, cpu or cuda"):
            tino.load(saved, device)  # pyright: ignore[reportArgumentType]


def change_json(folder, where, **values):
    """Replace values of a section of the record, and seal it again."""
    record = json.loads((folder / "model.json").read_text())
    section = record
    for key in where:
        section = section[key]
    section |= values
    del record["sha256"]
    (folder / "model.json").write_text(json.dumps(sealed(record)))


WILD = [10**7, 2**31, 10**15, -1, 0, 2.5, True, None, "wide", "a\nb" * 1000, [], [1, 2], {}, float("nan"), float("inf")]
PLACES = [
    (("frame", "time"), "n"),
    (("frame",), "state"),
    (("frame",), "model"),
    (("frame", "inputs"), "length"),
    (("frame", "outputs"), "shape"),
    (("sizes",), "basis"),
    (("sizes", "sensors"), "points"),
    (("sizes", "mixer"), "n_t"),
    (("sizes", "mixer"), "width"),
    (("sizes", "branch"), "widths"),
    (("sizes", "branch"), "activate"),
    (("sizes", "time_factor"), "waves"),
    (("sizes", "basis"), "shape"),
    (("sizes", "basis"), "modes"),
]


@pytest.mark.parametrize(("where", "key"), PLACES, ids=lambda v: str(v))
def test_a_wild_value_under_a_fresh_checksum_is_one_line_and_takes_no_memory(where, key, saved):
    """It is compared with the shapes of the weights before any number is allocated."""
    kept = (saved / "model.json").read_text()
    held = json.loads(kept)
    for part in (*where, key):
        held = held[part]
    for value in (value for value in WILD if value != held):
        change_json(saved, where, **{key: value})
        said = refusal(saved)
        assert said or key in ("n", "state", "length"), value  # which are in no tensor of this model
        assert "\n" not in (said or "")
        assert len(said or "") < 500
        (saved / "model.json").write_text(kept)


def refusal(folder) -> str | None:
    try:
        assert sum(value.nbytes for value in tino.load(folder).buffers()) < 2**27
    except tino.TinoError as error:
        return str(error)
    return None


def test_ten_million_times_are_refused_unless_the_weights_show_them(small_data, tmp_path):
    train, _ = small_data("burgers-0.1")
    tino.build("fno", train, width=4, modes=3, layers=1).save(tmp_path)
    change_json(tmp_path, ("frame", "time"), n=10**7)
    with pytest.raises(tino.TinoError, match=r"describes a model that needs \d+ MiB for its grids"):
        tino.load(tmp_path)
    for layers in (-1, 101, 10**9):
        change_json(tmp_path, ("sizes",), layers=layers)
        with pytest.raises(tino.TinoError, match=f"layers is {layers}, expected"):
            tino.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "problem"), [("don", "heat-triangle"), ("fno", "heat-triangle"), ("unet", "burgers-0.1")]
)
def test_every_kind_can_be_made_without_memory(name, problem, small_data, tmp_path):
    """On torch's meta device, the triangle's too, whose number of points has to be counted."""
    train, _ = small_data(problem)
    model = tino.build(name, train)
    with torch.device("meta"):
        shapes = type(model).from_record(model.frame, model.record()).state_dict()
    assert all(value.is_meta for value in shapes.values())
    assert {name: v.shape for name, v in shapes.items()} == {name: v.shape for name, v in model.state_dict().items()}


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
    elif how in CHANGES:
        where, values = CHANGES[how]
        change_json(folder, where, **values)
    elif how == "weights that are NaN":
        tensors = safetensors.torch.load_file(weights)
        tensors["mixer.weight"][0, 0, 0] = torch.nan
        safetensors.torch.save_file(tensors, weights)
        change_json(folder, (), weights_sha256=hashlib.sha256(weights.read_bytes()).hexdigest())
    elif how == "a list":
        (folder / "model.json").write_text("[1, 2]")


CHANGES = {  # of the record: in which section what
    "other sizes": (("sizes", "mixer"), {"width": 7}),
    "sizes that do not fit each other": (("sizes", "branch"), {"widths": [3, 4]}),
    "a size of another kind": (("sizes", "mixer"), {"width": "wide"}),
    "an unknown key": (("sizes", "mixer"), {"surprise": 1}),
    "an unknown key of the frame": (("frame",), {"surprise": 1}),
    "an unknown part": (("sizes",), {"magic": None}),
    "an unknown grid": (("frame",), {"inputs": {"kind": "sphere"}}),
    "an unknown mixer": (("sizes", "mixer"), {"kind": "magic"}),
    "an unknown basis": (("sizes", "basis"), {"kind": "magic"}),
    "an unknown model": (("frame",), {"model": "magic"}),
    "channels that are none": (("frame",), {"input_channels": [1]}),
    "no mixer": (("sizes",), {"mixer": None}),
    "no sizes": ((), {"sizes": None}),
    "no frame": ((), {"frame": None}),
}


@pytest.mark.parametrize(
    "how",
    [
        "weights cut in half",
        "weights missing",
        "weights pickled",
        "weights of a torch file",
        "record cut in half",
        "record missing",
        "weights that are NaN",
        "a list",
        *CHANGES,
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
