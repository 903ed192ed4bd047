"""Bands around predictions that hold over a whole record with a chosen probability: split-conformal prediction.

The score of a calibration record is its largest error, s_r = max over t, channels and points of |u - û| / size, with
one size for each channel. Of n scores, let q be the k-th smallest, k = ⌈(n + 1) level⌉. For a new record that is drawn
like the calibration records, P(|u - û| <= q size everywhere) >= level: all n + 1 scores are equally likely to be the
largest, the second largest and so on. The sizes are those by which the model weighs its channels, from the training
data: they know nothing of the calibration records. One channel needs none.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tino.channels import split_channels
from tino.data import Dataset, check_dataset
from tino.errors import TinoError, TinoWarning, in_short, of_kind, shown, whole
from tino.evaluation import predict
from tino.files import read_sealed, write_sealed
from tino.folders import BAND
from tino.frame import numbers
from tino.models.store import load, weights_checksum
from tino.operator import Operator

FORMAT = 1
FIX = "calibrate it again with 'tino calibrate'"


@dataclass(frozen=True)
class Coverage:
    """The share of records, or of blocks, that stay inside the band at all times, of so many.

    ``expected`` is k / (n + 1), by a calibration with n scores.
    """

    share: float
    records: int  # or blocks, in which case what is expected is approximate
    expected: float
    scores: int
    blocks: int = 0  # per record

    @property
    def error(self) -> float:
        """The standard deviation of the share over random calibration and test records, p = k / (n + 1), m test
        records: √(p (1 - p) (1 + (m - 1) / (n + 2)) / m), that of the beta-binomial distribution."""
        p, m = self.expected, self.records
        return math.sqrt(p * (1 - p) * (1 + (m - 1) / (self.scores + 2)) / m)

    def __str__(self) -> str:
        said = f"{self.share:.1%} of {self.records} other {'blocks' if self.blocks else 'records'}"
        if self.blocks:  # neighbours are alike, so this spread would be too small
            return f"the band holds over {said}, expected about {self.expected:.1%}: blocks are not independent"
        low = self.share < self.expected - 2 * self.error
        why = ": unlikely by chance, so the records may differ" if low else ""
        return f"the band holds over {said}, expected {self.expected:.1%} ± {self.error:.1%}{why}"


@dataclass(frozen=True)
class Band:
    """û ± width: it holds over a whole record with probability ``level`` or more."""

    model: Operator = field(repr=False, compare=False)
    level: float
    width: tuple[float, ...]  # of each output channel, in its unit
    scores: int  # n
    rank: int  # k
    blocks: int = 0  # per record: then it holds over a block, approximately; 0: whole records

    @property
    def expected(self) -> float:
        """k / (n + 1): the probability with which it holds, if no two scores are equal."""
        return self.rank / (self.scores + 1)

    @property
    def about(self) -> str:
        """What it promises, in words."""
        counted = f"{self.scores} {'blocks' if self.blocks else 'records'}"
        over = "approximately, over one block of a record" if self.blocks else "over a whole record"
        return f"holds {over} with probability {self.level:.0%} or more, by {counted}"

    def __call__(self, f: Tensor, ic: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The lower and the upper end, (n, t, x) each, around the prediction for f (n, t, m)."""
        u = self._predict(f, ic)
        wide = self.wide(u)
        return u - wide, u + wide

    def wide(self, like: Tensor) -> Tensor:
        """The half width for each number of an output, (x,)."""
        points = like.shape[-1] // len(self.width)
        return torch.tensor(self.width, dtype=torch.float64).repeat_interleave(points).to(like)

    def coverage(self, test: Dataset) -> Coverage:
        """Measured on other records than those of the calibration."""
        found = record_scores(self.model, test, self.blocks, self.width)
        return Coverage(float((found <= 1).double().mean()), len(found), self.expected, self.scores, self.blocks)

    def _predict(self, f: Tensor, ic: Tensor | None) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TinoWarning)  # ours says more, and each time
            u = predict(self.model, f, ic)
        if told := self.model.frame.seen.outside(self.model.frame, f, ic, far=0.0):  # the band promises nothing there
            warnings.warn(f"{told}: the band need not hold there", TinoWarning, stacklevel=3)
        return u

    # -- on disk -------------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        keys = ("level", "scores", "rank", "blocks")
        return {**{key: getattr(self, key) for key in keys}, "width": list(self.width), "expected": self.expected}

    def save(self, folder: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Write band.json beside the model, which must be in the folder; ``about`` goes with it, for people."""
        folder = Path(folder)
        held = {"format": FORMAT, "weights_sha256": weights_checksum(folder)}
        write_sealed(folder / BAND, {**held, **self.record(), "about": dict(about or {})})


def calibrate(model: Operator, calibration: Dataset, level: float = 0.9, *, blocks: int = 0) -> Band:
    """A band from records that the model was not trained on and that are drawn like those it will meet.

    ``blocks`` cuts each record into so many blocks of time, for data with only a few long records. Blocks that follow
    one another are not independent: the band then holds over one block, and only approximately.
    """
    return band_of(model, record_scores(model, calibration, blocks), level, blocks)


def band_of(model: Operator, scores: Tensor, level: float, blocks: int = 0) -> Band:
    """The band that scores (n,) of calibration records give."""
    sizes = channel_weights(model)
    wide = kth_smallest(scores, rank := rank_of(len(scores), level, "blocks" if blocks else "records"))
    return Band(model, level, tuple(float(wide * size) for size in sizes), len(scores), rank, blocks)


def rank_of(n: int, level: float, word: str = "records") -> int:
    """k = ⌈(n + 1) level⌉; an error if n is too small for it."""
    share = Fraction(str(of_kind(level, float, "level")))  # 0.28 · 25 is 7, not a little more
    if not 0 < share < 1:
        raise TinoError(f"level is {level:g}, expected a number between 0 and 1, such as 0.9")
    if (k := math.ceil((n + 1) * share)) > n:
        needed, lower = math.ceil(share / (1 - share)), math.floor(100 * n / (n + 1)) / 100
        fix = f"it needs {needed} or more" + (f", or a level of {lower:g} or less" if n else "")
        raise TinoError(f"{n} calibration {word} are too few for the level {level:g}: {fix}")
    return k


def kth_smallest(scores: Tensor, k: int) -> float:
    return float(scores.double().kthvalue(k).values)


def channel_weights(model: Operator) -> tuple[float, ...]:
    """The size of each output channel, as the model's loss weighs them; 1 for a single channel."""
    count = len(model.frame.output_channels)
    if count == 1:
        return (1.0,)
    ones = torch.ones(1, 1, model.frame.output_size).to(numbers(model))
    with torch.no_grad():
        scaled = split_channels(model.normalised(ones)[0, 0], count)[:, 0]
    return tuple((1 / scaled.double()).tolist())


def record_scores(model: Operator, data: Dataset, blocks: int = 0, sizes: tuple[float, ...] | None = None) -> Tensor:
    """max |u - û| / size of each record, or of each block of its valid times, (n,), in float64."""
    if not isinstance(model, Operator):
        raise TinoError(f"the model is {shown(model)}, expected one of tino's operators")
    check_dataset(data, "calibration")
    model.check_data(data)
    blocks = whole("blocks", blocks, 0)
    prediction = predict(model, data.f, data.ic)
    if not bool(torch.isfinite(prediction).all()):
        raise TinoError(f"{model.frame.model} predicts NaN or infinite values: no band holds them")
    sizes = channel_weights(model) if sizes is None else sizes
    unit = torch.tensor(sizes, dtype=torch.float64).repeat_interleave(data.outputs.size)
    unit = unit.clamp_min(torch.finfo(unit.dtype).tiny)  # a band of width zero holds only what has no error
    errors = ((data.u.double() - prediction.double()).abs() / unit).amax(2)  # (n, t)
    if data.mask is not None:
        errors = errors.masked_fill(~data.mask, 0.0)
    if not blocks:
        return errors.amax(1)
    ends = torch.full((len(data),), data.time.n) if data.lengths is None else data.lengths
    if int(ends.min()) - data.burn_in < blocks:
        raise TinoError(f"a record has {int(ends.min()) - data.burn_in} times that count, too few for {blocks} blocks")
    parts = (row[data.burn_in : end].tensor_split(blocks) for row, end in zip(errors, ends.tolist(), strict=True))
    return torch.stack([part.amax() for row in parts for part in row])


def load_band(folder: str | Path) -> Band:
    """The band saved in a folder, around the model saved there."""
    if (found := read_band(Path(folder), load(folder))) is None:
        raise TinoError(f"no band in {folder}: make one with 'tino calibrate', or tino.calibrate and band.save")
    return found


def read_band(folder: Path, model: Operator) -> Band | None:
    """None if there is none, an error if it is another model's."""
    record = band_record(folder)
    if record is None:
        return None
    try:
        level, width = float(record["level"]), tuple(map(float, record["width"]))
        scores, rank, blocks = (whole(key, record[key], 0) for key in ("scores", "rank", "blocks"))
        if len(width) != len(model.frame.output_channels) or not all(0 <= one < math.inf for one in width):
            raise ValueError(f"its widths are {in_short(width)}")
        if rank != rank_of(scores, level):
            raise ValueError(f"its rank is {rank}")
    except (LookupError, TypeError, ValueError, TinoError) as error:
        raise TinoError(f"{folder / BAND} does not hold a band ({in_short(error)}): {FIX}") from error
    return Band(model, level, width, scores, rank, blocks)


def band_record(folder: Path) -> dict[str, Any] | None:
    """What band.json says, if there is one and it belongs to the weights beside it."""
    if not (folder / BAND).exists():
        return None
    record = read_sealed(folder / BAND, FIX, FORMAT)
    if record.get("weights_sha256") != weights_checksum(folder):
        raise TinoError(f"{folder / BAND} belongs to other weights than those beside it: {FIX}")
    return record
