"""Bands, and what the commands readout, calibrate and card write into a run's folder."""

import json
import math
import re
import shutil
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import tino
from tino.bands import Coverage, band_of, band_record, channel_weights, rank_of, read_band, record_scores
from tino.cli import run
from tino.files import write_sealed
from tino.folders import NEW, adopt
from tino.readouts.readout import read_readout
from tino.report.card import card_text, latency_text, step_seconds
from tino.runs import read_run

SMALL = ["--train", "24", "--test", "40", "--n-t", "40"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "linear"
    assert run(["train", "duffing", "linear", *SMALL, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def made(finished):
    """The same run, with read-outs and a band."""
    assert run(["readout", str(finished)]) == 0
    assert run(["calibrate", str(finished), "--level", "0.8", "--seed", "3"]) == 0
    return finished


@pytest.fixture
def measured(made, tmp_path):
    """A copy of it that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "linear"))


@pytest.fixture(scope="module")
def fitted(finished):
    """The model of the run, and its test records."""
    done = read_run(finished)
    return done.model(), done.data()[1]


@pytest.fixture
def own(tmp_path):
    """Records of two channels on different scales, of different lengths, with names that need care; an .npz file."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=(60, 30, 1)).cumsum(1) * 0.1
    u = np.stack([f[..., 0].cumsum(1) * 0.1, 300 * np.tanh(f[..., 0])], 2)
    names = {"f_names": ["push"], "f_units": ["N"], "u_names": ["<i>|move", "heat"], "u_units": ["m", "W"]}
    path = tmp_path / "own.npz"
    lengths = rng.integers(12, 31, 60)
    np.savez(path, f=f, u=u, t=0.1 * np.arange(30), lengths=lengths, title="A | title <b>", **names)  # pyright: ignore
    return path


# -- bands ---------------------------------------------------------------------------------------------------


def test_the_rank_is_exact_and_too_few_records_are_refused():
    for n in range(1, 60):
        for level in (0.28, 0.5, 0.7, 0.9, 0.95):
            k = math.ceil((n + 1) * Fraction(str(level)))
            if k <= n:
                assert rank_of(n, level) == k
            else:
                with pytest.raises(tino.TinoError, match=f"{n} calibration records are too few for the level {level}"):
                    rank_of(n, level)
    with pytest.raises(tino.TinoError, match=r"8 calibration records are too few for the level 0\.9: it needs 9"):
        rank_of(8, 0.9)
    assert rank_of(9, 0.9) == 9
    for level in (0.0, 1.0, -1.0, 7.0):
        with pytest.raises(tino.TinoError, match=r"expected a number between 0 and 1, such as 0\.9"):
            rank_of(100, level)
    with pytest.raises(tino.TinoError, match="level is nan, expected a finite number"):
        rank_of(100, math.nan)


def test_the_score_is_the_largest_error_over_a_record(fitted):
    model, test = fitted
    scores, prediction = record_scores(model, test), tino.predict(model, test.f)
    for r in range(len(test)):
        by_hand = max(abs(float(a) - float(b)) for a, b in zip(test.u[r, :, 0], prediction[r, :, 0], strict=True))
        assert float(scores[r]) == pytest.approx(by_hand, rel=1e-6)
    band = tino.calibrate(model, test.take(slice(19)), 0.9)
    assert band.width == (float(scores[:19].sort().values[math.ceil(20 * 0.9) - 1]),)
    low, high = band(test.f[:3])
    assert torch.allclose((high - low) / 2, torch.full_like(high, band.width[0]), rtol=1e-3)
    assert torch.allclose((high + low) / 2, prediction[:3], atol=1e-6)
    inside = ((test.u[19:] - prediction[19:]).abs() <= band.width[0]).all(1)
    assert band.coverage(test.take(slice(19, None))).share == pytest.approx(float(inside.float().mean()))


def test_over_random_splits_the_band_holds_as_often_as_it_promises(fitted):
    """Scores once, then 1000 splits: the mean coverage is k / (n + 1), within two standard errors."""
    model, test = fitted
    scores, n = record_scores(model, test), 24
    assert len(scores.unique()) == len(scores)
    k = rank_of(n, 0.8)
    order = torch.rand(1000, len(scores), generator=torch.Generator().manual_seed(0)).argsort(1)
    drawn = scores[order]
    wide = drawn[:, :n].sort(1).values[:, k - 1 : k]
    shares = (drawn[:, n:] <= wide).double().mean(1)
    assert abs(float(shares.mean()) - k / (n + 1)) < 2 * float(shares.std()) / math.sqrt(1000)
    said = band_of(model, scores[:n], 0.8)
    assert said.expected == k / (n + 1)
    spread = said.coverage(test.take(slice(n, None))).error
    assert float(shares.std()) == pytest.approx(spread, rel=0.15)


def test_channels_are_weighed_jointly_and_ended_records_end(own):
    data = tino.read_arrays(own)
    model = tino.build("linear", data)
    model.solve(data)
    weights = channel_weights(model)
    assert weights[1] / weights[0] > 100  # by their sizes in training
    prediction, scores = tino.predict(model, data.f), record_scores(model, data)
    assert data.lengths is not None
    for r in (0, 7, 31):
        end = int(data.lengths[r])
        errors = (data.u[r, :end] - prediction[r, :end]).abs().double() / torch.tensor(weights)
        assert float(scores[r]) == pytest.approx(float(errors.max()), rel=1e-5)
    band = tino.calibrate(model, data)
    assert band.width[1] / band.width[0] == pytest.approx(weights[1] / weights[0])
    assert band.coverage(data).share >= 0.9


def test_blocks_of_long_records_are_approximate(fitted):
    model, test = fitted
    few = test.take(slice(3))
    with pytest.raises(tino.TinoError, match="3 calibration records are too few"):
        tino.calibrate(model, few)
    band = tino.calibrate(model, few, blocks=5)
    errors = (few.u - tino.predict(model, few.f)).abs().double()[..., 0]
    by_hand = sorted(float(errors[r, 8 * k : 8 * k + 8].max()) for r in range(3) for k in range(5))
    assert band.width == (pytest.approx(by_hand[math.ceil(16 * 0.9) - 1], rel=1e-6),)
    assert "approximately, over one block of a record" in band.about
    said = str(band.coverage(test.take(slice(3, None))))
    assert re.fullmatch(
        r"the band holds over [0-9.]+% of 185 other blocks, expected about 93\.8%: blocks are not independent", said
    )
    with pytest.raises(tino.TinoError, match="a record has 40 times that count, too few for 41 blocks"):
        tino.calibrate(model, few, blocks=41)
    with pytest.raises(tino.TinoError, match="the model is a"):
        tino.calibrate(torch.nn.Linear(1, 1), few)  # pyright: ignore[reportArgumentType]


def test_inputs_outside_the_training_are_told_each_time(fitted):
    model, test = fitted
    """The band as soon as an input leaves the range, a prediction only of what is far outside."""
    band, (low, high) = tino.calibrate(model, test), model.frame.seen.inputs[0]
    inside = test.f[:1].clamp(low, high)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        band(inside)
        band(torch.full_like(inside, high).double() * (1 + 1e-8))  # rounding
        tino.predict(model, torch.full_like(inside, 1.05 * high))
    for factor in (1.001, 1.05, 20.0):
        for _ in range(2):
            with pytest.warns(
                tino.TinoWarning, match=r"f reaches (\S+), (?!\1)\S+ in training: the band need not hold"
            ):
                band(torch.full_like(inside, factor * high))


def test_a_band_is_kept_beside_its_model(fitted, tmp_path):
    model, test = fitted
    band = tino.calibrate(model, test)
    with pytest.raises(tino.TinoError, match="no file"):
        band.save(tmp_path)
    model.save(tmp_path)
    with pytest.raises(tino.TinoError, match="no band in "):
        tino.load_band(tmp_path)
    band.save(tmp_path, {"calibration": "all"})
    assert tino.load_band(tmp_path) == band
    assert torch.equal(tino.load_band(tmp_path)(test.f)[0], band(test.f)[0])
    record = band_record(tmp_path)
    assert record is not None
    for change, why in (
        ({"weights_sha256": "0"}, "belongs to other weights"),
        ({"width": [1.0, 2.0]}, "its widths are"),
        ({"width": [math.inf]}, "its widths are"),
        ({"rank": 3}, "its rank is 3"),
        ({"level": 2.0}, "expected a number between 0 and 1"),
        ({"format": 99}, "has format 99"),
    ):
        write_sealed(tmp_path / "band.json", {**record, **change})
        with pytest.raises(tino.TinoError, match=why):
            read_band(tmp_path, model)
    (tmp_path / "band.json").write_text(json.dumps({**record, "sha256": "0"}))
    with pytest.raises(tino.TinoError, match="was changed or damaged"):
        read_band(tmp_path, model)


# -- the commands --------------------------------------------------------------------------------------------


def test_readout_prints_keeps_and_draws(measured, capsys):
    capsys.readouterr()
    assert run(["readout", str(measured), "--json", "--point", "0.1", "--level", "0.01"]) == 0
    kept = read_readout(measured)
    assert kept is not None
    assert kept.record() == json.loads(capsys.readouterr().out)
    assert kept.impulse.point == (0.1,)
    lines = kept.lines()
    assert lines[1].startswith("  f -> u: static gain ")
    assert lines[-1].startswith("excited band of f: 0 to ")
    assert max(map(len, lines)) <= 80
    assert {"impulse.png", "frequency.png", "second-order.png"} <= {path.name for path in measured.glob("*.png")}


def test_readouts_of_other_weights_or_changed_ones_are_refused(measured):
    text = (measured / "readout.json").read_text()
    record = json.loads(text)
    (measured / "readout.json").write_text(text.replace('"unsteady"', '"unsteadier"'))
    with pytest.raises(tino.TinoError, match="was changed or damaged"):
        read_readout(measured)
    record.pop("sha256")
    for change, why in (
        ({"weights_sha256": "0"}, "belongs to other weights than those beside it: read it out again"),
        ({"frequency": {**record["frequency"], "frequency": [1.0]}}, "does not hold read-outs"),
        ({"impulse": {**record["impulse"], "values": [[1.0]]}}, "does not hold read-outs"),
        ({"poles": None}, "does not hold read-outs"),
        ({"notes": [1]}, "does not hold read-outs"),
        ({"second": {"values": [], "width": 1}}, "does not hold read-outs"),
        ({"second": {**record["second"], "width": 0}}, "does not hold read-outs"),
    ):
        write_sealed(measured / "readout.json", {**record, **change})
        with pytest.raises(tino.TinoError, match=why):
            read_readout(measured)
    (measured / "readout.json").write_text(text)


READ = ("impulse", "frequency", "second-order", "band")


def test_calibrate_halves_the_test_records_and_says_so(measured, capsys, tmp_path):
    capsys.readouterr()
    assert run(["calibrate", str(measured), "--json", "--level", "0.8", "--seed", "3"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["calibration"] == "half of the 40 test records, drawn with seed 3"
    assert (said["scores"], said["rank"], said["coverage"]["records"]) == (20, 17, 20)
    record = band_record(measured)
    assert record is not None
    done = read_run(measured)
    drawn = record["about"]["test_records"]
    scores = record_scores(done.model(), done.data()[1])
    assert record["width"] == [float(scores[drawn].sort().values[16])]
    others = [r for r in range(40) if r not in drawn]
    assert said["coverage"]["share"] == float((scores[others] <= record["width"][0]).double().mean())
    assert run(["report", str(measured), "--out", str(tmp_path / "page")]) == 0
    names = {path.name for path in (tmp_path / "page").glob("*.png")}
    assert names == {f"duffing-{end}.png" for end in ("errors", "linear", *(f"linear-{one}" for one in READ))}
    text = (tmp_path / "page" / "index.html").read_text()
    assert "did not excite" in text
    assert "with its band, which holds over a whole record with probability 80% or more, by 20 records" in text


def test_blocks_are_counted_as_blocks(measured, capsys):
    capsys.readouterr()
    assert run(["calibrate", str(measured), "--blocks", "4", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["scores"], said["coverage"]) == (80, {"share": said["coverage"]["share"], "blocks": 80})
    assert "blocks are not independent" in card_text(read_run(measured))


def test_all_records_of_a_file_are_used_but_not_the_training_s_own(measured, capsys, tmp_path):
    capsys.readouterr()
    done = read_run(measured)
    train, test = done.data()
    others = replace(train, u=1.01 * train.u), replace(test, u=0.99 * test.u)
    tino.save_dataset(new := tmp_path / "new.h5", *others)
    assert run(["calibrate", str(measured), "--data", str(new), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["scores"], said["coverage"]["records"]) == (64, 40)
    assert said["calibration"] == f"all 64 records of {new}"
    scores = torch.cat([record_scores(done.model(), part) for part in others])
    assert said["width"] == [float(scores.sort().values[rank_of(64, 0.9) - 1])]
    tino.save_dataset(copy := tmp_path / "copy.h5", train, test)
    assert run(["calibrate", str(measured), "--data", str(copy)]) == 1
    told = f"{measured} was trained on the data in {copy}: leave out --data to use its test records"
    assert capsys.readouterr().err == f"tino: {told}\n"


def test_a_low_coverage_is_said_in_a_short_and_true_line():
    assert str(Coverage(0.2, 5, 5 / 6, 5)).endswith(" 83.3% ± 20.9%: unlikely by chance, so the records may differ")
    assert str(Coverage(0.8, 5, 5 / 6, 5)).endswith(" 83.3% ± 20.9%")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--level", "0.99"],
            "20 calibration records are too few for the level 0.99: it needs 99 or more, or a level of 0.95 or less "
            "(half of the 40 test records: give more with --data, or use --blocks)",
        ),
        (["--level", "1"], "level is 1, expected a number between 0 and 1"),
        (["--data", "nowhere.npz"], "no file nowhere.npz"),
        (["--blocks", "-1"], "blocks is -1, expected 0 or more"),
    ],
)
def test_what_calibrate_refuses_is_one_line(arguments, message, finished, capsys):
    assert run(["calibrate", str(finished), *arguments]) == 1
    said = capsys.readouterr().err.splitlines()
    assert message in said[-1]


def test_the_card_of_one_s_own_data(own, tmp_path, capsys):
    """Own data: the card escapes names, and calibration on the training's own file is refused."""
    folder = tmp_path / "run`|<"
    assert run(["train", str(own), "linear", "--test", "24", "--out", str(folder)]) == 0
    assert run(["calibrate", str(folder), "--data", str(own)]) == 1
    assert "leave out --data to use its test records" in capsys.readouterr().err
    held = dict(np.load(own))
    np.savez(other := tmp_path / "other.npz", **{**held, "u": 1.01 * held["u"]})
    assert run(["calibrate", str(folder), "--data", str(other), "--level", "0.5"]) == 0
    assert f"calibrated on all 60 records of {other}" in capsys.readouterr().out
    assert run(["card", str(folder), "--json"]) == 0
    pages = json.loads(capsys.readouterr().out)["pages"]
    text, page = ((folder / name).read_text() for name in ("card.md", "card.html"))
    assert pages == [str(folder / "card.md"), str(folder / "card.html")]
    assert r"&lt;i&gt;\|move" in text
    assert "<i>" not in text.split("```")[0]
    assert "<i>" not in page
    assert "&lt;i&gt;|move" in page
    assert "A | title &lt;b&gt;" in page
    for needed in (
        "range of push",
        "excited band of push",
        "± of heat",
        " W",
        "fingerprint",
        "tino.load(",
        "µs median",
    ):
        assert needed in text, needed
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}  # two columns, whatever the names hold
    other.unlink()
    own.unlink()  # the training data are gone: the card says that the band is not known
    again = card_text(read_run(folder))
    assert re.search(r"excited band of push \| not known: .* which is gone", again)


def test_the_card_says_what_is_proved_and_what_is_not_known(measured):
    text = card_text(read_run(measured))
    assert "| causal | yes: proved by construction, and measured, leak" in text
    assert "40 for the test" in text
    assert "state, u_0 = model.start(f_0); state, u_1 = model.step(state, f_1)  # f_i (1, 1), float64" in text
    assert "No band was calibrated" not in text
    (measured / "band.json").unlink()
    assert "No band was calibrated" in card_text(read_run(measured))


def test_latency_is_of_single_steps(fitted, tiny_data):
    model, _ = fitted
    short = tino.build("trtino", tiny_data("duffing")[0])  # its records end after 40 times
    assert len(step_seconds(short, 90)) == 90
    assert len(step_seconds(model, 50)) == 50
    assert latency_text([1e-6 * k for k in range(1, 202)]) == "101 µs median, 199 µs at 99 %, on one core"


def test_a_run_that_takes_the_place_leaves_nothing_measured_on_the_old_one(finished, measured):
    afterwards = ("readout.json", "band.json", "card.md", "card.html", *(f"{one}.png" for one in READ))
    shutil.copytree(finished, measured / NEW, ignore=shutil.ignore_patterns(*afterwards))
    for name in ("card.md", "card.html"):
        (measured / name).touch()
    assert all((measured / name).exists() for name in afterwards)
    assert adopt(measured)
    assert not any((measured / name).exists() for name in afterwards)
    assert read_run(measured).result.model == "linear"
