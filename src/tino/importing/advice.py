"""What looks like a mistake in whole records: constant channels, inputs without influence, sizes that tell of units."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from tino.channels import split_channels
from tino.data import Dataset
from tino.importing.records import Record, Side

FACTORS = {  # between sizes of one quantity in different units
    9.80665: "g and m/s²",
    10.0: "cm and mm",
    25.4: "inches and mm",
    180 / math.pi: "degrees and radians",
    100.0: "m and cm",
    1000.0: "m and mm, or s and ms",
    1e6: "Pa and MPa",
    4.448222: "lbf and N",
    6.894757: "psi and kPa",
}
NEAR, SPREAD = 0.1, 6.0  # in logarithms: of a factor; between records, in their usual distances
SMALL, CLOSE = 20.0, 0.15  # a factor that records of one file may well differ by, and how near to it is a mistake there
TAIL, ALIKE = 0.6, 0.3  # of that distance: a record so far out shows a tail; records this close to it may be its twins
DELAYS, AVERAGES, ROWS = 6, (8, 32, 128), 6000  # of the inputs that an output may depend on
GAIN = 1.01  # an input without which the error on held-out rows grows by less has no influence
POINTS = 4  # of a field that are looked at


def constant_channels(records: Sequence[Record], f: Side, u: Side) -> list[str]:
    """Channels that never change."""
    said = []
    for word, side, name in (("input", f, "f"), ("output", u, "u")):
        constant = []
        for j, channel in enumerate(side.channels):
            columns = slice(j * side.grid.size, (j + 1) * side.grid.size)
            parts = [getattr(record, name)[:, columns] for record in records]
            low, high = _ends(parts)
            if low == high and channel.name != "none":
                constant.append(f"the {word} '{channel.name}' is {low:.6g} throughout")
        nothing = word == "output" and len(constant) == len(side.channels)
        what = "no output varies, so there is nothing to learn" if nothing else "drop_channel leaves it out"
        said += [f"{one}: {what}" for one in constant]
    return said


def _ends(parts: list[np.ndarray]) -> tuple[float, float]:
    return min(float(part.min()) for part in parts), max(float(part.max()) for part in parts)


# -- units ---------------------------------------------------------------------------------------------------


def unit_mistakes(records: Sequence[Record], f: Side, u: Side) -> list[str]:
    """Channels that are larger or smaller in some files, or records of one file, by a factor between units."""
    paths = list(dict.fromkeys(record.content.path for record in records))
    several = len(paths) > 1
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.content.path if several else record.where, []).append(record)
    said = []
    for side, name in ((f, "f"), (u, "u")):
        for j, channel in enumerate(side.channels):
            columns = slice(j * side.grid.size, (j + 1) * side.grid.size)
            sizes = {where: _size([getattr(one, name)[:, columns] for one in some]) for where, some in groups.items()}
            said += _outliers(channel.name, {where: size for where, size in sizes.items() if size > 0}, several)
    return said


def _size(parts: list[np.ndarray]) -> float:
    return math.sqrt(
        sum(float(np.square(part, dtype=float).sum()) for part in parts) / sum(part.size for part in parts)
    )


def _outliers(channel: str, sizes: dict[str, float], several: bool) -> list[str]:
    """``several``: sizes are of files, not of the records of one."""
    if len(sizes) < 2:
        return []
    logs = np.log(np.array(list(sizes.values())))
    usual = float(np.median(logs)) if len(logs) > 2 else float(logs[0])
    away = np.abs(logs - usual)
    same = np.sign(logs - usual)
    near = max(NEAR, 3 * float(np.median(away))) if len(logs) > 2 else NEAR
    said = []
    for where, log in zip(sizes, logs, strict=True):
        distance = abs(log - usual)
        factor, words = min(FACTORS.items(), key=lambda one: abs(math.log(one[0]) - distance))
        between = away[(same == np.sign(log - usual)) & (away < distance - ALIKE)]
        if between.max(initial=0.0) > TAIL * distance:
            continue  # sizes thin out towards it, as of records from random starts: it is merely quiet
        slack = near if several or factor > SMALL else min(near, CLOSE)
        if abs(math.log(factor) - distance) <= slack and distance > SPREAD * max(float(np.median(away)), 1e-9) * (
            len(logs) > 2
        ):
            word = "larger" if log > usual else "smaller"
            others = "the others" if len(sizes) > 2 else next(iter(sizes))
            told = f"'{channel}' is about {factor:.4g} times {word} in {where} than in {others}"
            said.append(f"{told} (RMS {math.exp(log):.3g} and {math.exp(usual):.3g}): a mistake of units ({words})?")
    return said[:5]


# -- inputs without influence --------------------------------------------------------------------------------


def dead_inputs(data: Dataset) -> list[str]:
    """Inputs that help to predict no output, neither its next value nor the value itself.

    Held-out rows of two regressions, with and without each input: on its last values, their squares and products with
    the last output, beside the outputs before; and on averages of the inputs over longer times alone. None if no
    output varies.
    """
    count = len(data.input_channels)
    outputs = data.rows(data.u)
    if data.input_channels[0].name == "none" or bool((outputs == outputs[0]).all()):
        return []
    blocks_in = [_picked(split_channels(data.f, count)[:, :, j]) for j in range(count)]
    out = np.concatenate(
        [_picked(split_channels(data.u, len(data.output_channels))[:, :, j]) for j in range(len(data.output_channels))],
        2,
    )
    dead = set(range(count))
    for own, others, targets in (_by_steps(blocks_in, out, data), _by_averages(blocks_in, out, data)):
        if len(targets) < 40:
            return []
        full = _errors(np.concatenate([others, *own], 1), targets)
        for j in list(dead):
            without = [block for i, block in enumerate(own) if i != j]
            if bool((_errors(np.concatenate([others, *without], 1), targets) > GAIN * full).any()):
                dead.discard(j)
    names = [data.input_channels[j].name for j in sorted(dead)]
    return [
        f"the input '{name}' has no influence on any output that the others do not explain: drop_channel leaves it out"
        for name in names
    ]


def _picked(values: torch.Tensor) -> np.ndarray:
    """A few points of a field, (n, t, p), each of size 1."""
    places = torch.linspace(0, values.shape[-1] - 1, min(POINTS, values.shape[-1])).round().long()
    some = values[..., places].double().numpy()
    some = some - some.mean((0, 1))
    return some / np.maximum(np.sqrt(np.square(some).mean((0, 1))), 1e-300)


def _rows(data: Dataset, before: int) -> tuple[np.ndarray, np.ndarray]:
    """Records and times that count and have so many before them, spread evenly."""
    mask = np.ones(data.f.shape[:2], bool) if data.mask is None else data.mask.numpy().copy()
    mask[:, :before] = False
    found = np.argwhere(mask)
    found = found[np.linspace(0, len(found) - 1, min(ROWS, len(found))).round().astype(int)] if len(found) else found
    return found[:, 0], found[:, 1]


def _by_steps(
    inputs: list[np.ndarray], out: np.ndarray, data: Dataset
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    n, i = _rows(data, DELAYS)
    last = out[n, i - 1]
    own = []
    for block in inputs:
        lags = np.concatenate([block[n, i - d] for d in range(DELAYS)], 1)
        now = block[n, i]
        products = (now[:, :, None] * last[:, None]).reshape(len(n), -1)
        own.append(np.concatenate([lags, now**2, products], 1))
    before = np.concatenate([np.ones((len(n), 1)), *(out[n, i - d] for d in range(1, DELAYS + 1)), last**2], 1)
    return own, before, out[n, i]


def _by_averages(
    inputs: list[np.ndarray], out: np.ndarray, data: Dataset
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    longest = [width for width in AVERAGES if width <= max(1, data.shortest // 4)]
    n, i = _rows(data, max([DELAYS, *longest]))
    own = []
    for block in inputs:
        sums = np.concatenate([np.zeros_like(block[:, :1]), block.cumsum(1)], 1)
        means = [(sums[n, i + 1] - sums[n, i + 1 - width]) / width for width in longest]
        lags = [block[n, i - d] for d in range(DELAYS)]
        own.append(np.concatenate([*lags, *means, *(one**2 for one in (lags[0], *means))], 1))
    return own, np.ones((len(n), 1)), out[n, i]


def _errors(terms: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Mean squares on every third stretch of rows, of a regression on the others, and what rounding leaves of them."""
    held = (np.arange(len(terms)) * 30 // max(1, len(terms))) % 3 == 2
    sizes = np.maximum(np.sqrt(np.square(terms[~held]).mean(0)), 1e-12)
    scaled = terms / sizes
    square = scaled[~held].T @ scaled[~held]
    square += 1e-10 * np.trace(square) / len(square) * np.eye(len(square))
    weights = np.linalg.solve(square, scaled[~held].T @ targets[~held])
    return np.square(scaled[held] @ weights - targets[held]).mean(0) + 1e-14
