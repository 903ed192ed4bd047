"""Datasets: what they hold, and how that is checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tino.channels import INPUT, OUTPUT, Channels, channels_from_record, channels_record, check_channels
from tino.errors import TinoError, in_short, shown, whole
from tino.grids import Grid, TimeGrid, grid_from_record, grid_record
from tino.text import check_text


class Signals:
    """Inputs and outputs: channels on grids."""

    inputs: Grid
    outputs: Grid
    input_channels: Channels
    output_channels: Channels

    @property
    def input_size(self) -> int:
        """m: numbers in the input at one time, all channels at all points."""
        return len(self.input_channels) * self.inputs.size

    @property
    def output_size(self) -> int:
        """x: numbers in the output at one time."""
        return len(self.output_channels) * self.outputs.size


@dataclass(frozen=True)
class Dataset(Signals):
    """Pairs on fixed grids: f (n, t, m) -> u (n, t, x), with or without initial states ic (n, k).

    m and x count all channels at all points of their grids, channel after channel. Records of different lengths are
    padded to the longest, and ``lengths`` (n,) is the number of valid times of each. The first ``burn_in`` times are
    read but do not count: the records start from states that are not known, and a model needs that long to forget them.
    """

    f: Tensor
    u: Tensor
    time: TimeGrid
    inputs: Grid
    outputs: Grid
    ic: Tensor | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    input_channels: Channels = INPUT
    output_channels: Channels = OUTPUT
    lengths: Tensor | None = None
    burn_in: int = 0

    def __post_init__(self) -> None:
        for name, values in (("f", self.f), ("u", self.u), ("ic", self.ic)):
            if name != "ic" or values is not None:
                check_tensor(values, name)
        check_text("dataset's name", self.name)
        check_text("dataset's title", self.meta.get("title", ""))
        check_channels(self.input_channels, "input")
        check_channels(self.output_channels, "output")
        if self.lengths is not None:
            self._end_records(self.lengths)
        whole("burn_in", self.burn_in, 0, self.shortest - 1)
        self._check("f", self.f, len(self.input_channels), self.inputs.size)
        self._check("u", self.u, len(self.output_channels), self.outputs.size)
        if len(self.u) != len(self):
            raise TinoError(f"u has {len(self.u)} records, f has {len(self)}")
        if self.ic is not None:
            check_values(self.ic, "ic")
            if self.ic.ndim != 2 or self.ic.shape[0] != len(self):
                raise TinoError(
                    f"ic has shape {tuple(self.ic.shape)}, expected ({len(self)}, numbers): f has {len(self)} records"
                )

    def _end_records(self, lengths: Tensor) -> None:
        """Set f and u to zero after the end of each record, so that padding is never read by mistake."""
        check_lengths(lengths, len(self), self.time.n)
        for name in ("f", "u"):
            values: Tensor = getattr(self, name)
            if values.shape[:2] == (len(self), self.time.n) and values.is_floating_point():
                ended = (torch.arange(self.time.n) >= lengths[:, None]).view(
                    *values.shape[:2], *[1] * (values.ndim - 2)
                )
                if bool((values.masked_fill(~ended, 0.0) != 0).any()):
                    object.__setattr__(self, name, values.masked_fill(ended, 0.0))

    def _check(self, name: str, values: Tensor, channels: int, points: int) -> None:
        given, expected = tuple(values.shape), f"(records, {self.time.n}, {channels * points})"
        if given[2:] != (channels * points,):
            told = f"{name} has shape {given}, expected {expected}: channels x points = {channels} x {points}"
            own, usual = (self.input_channels, INPUT) if name == "f" else (self.output_channels, OUTPUT)
            lacking = own == usual and len(given) == 3 and given[2] > points and not given[2] % points
            raise TinoError(f"{told}; give {'input' if name == 'f' else 'output'}_channels" if lacking else told)
        if given[1] != self.time.n:
            raise TinoError(f"{name} has shape {given}, but the time grid has {self.time.n} times: expected {expected}")
        check_values(values, name)

    def __len__(self) -> int:
        return self.f.shape[0]

    @property
    def name(self) -> str:
        """The problem it came from, the file's name, or 'own data'."""
        return str(self.meta.get("problem", "own data"))

    @property
    def shortest(self) -> int:
        """The number of times of the shortest record."""
        return self.time.n if self.lengths is None else int(self.lengths.min())

    @property
    def mask(self) -> Tensor | None:
        """Which times of each record count, (n, t); None if all do."""
        if self.lengths is None and not self.burn_in:
            return None
        times = torch.arange(self.time.n)
        ends = torch.full((len(self),), self.time.n) if self.lengths is None else self.lengths
        return (times >= self.burn_in) & (times < ends[:, None])

    def rows(self, values: Tensor) -> Tensor:
        """The times of (n, t, ...) that count, one record after another."""
        return values.flatten(0, 1) if self.mask is None else values[self.mask]

    def take(self, samples: slice | Tensor) -> "Dataset":
        """A dataset of only the given samples."""
        ic, lengths = (None if v is None else v[samples] for v in (self.ic, self.lengths))
        return replace(self, f=self.f[samples], u=self.u[samples], ic=ic, lengths=lengths)


def grids_record(owner: Any) -> dict[str, Any]:
    """The grids and channels of a dataset or a frame, as plain JSON values."""
    return {
        "time": asdict(owner.time),
        **{side: grid_record(getattr(owner, side)) for side in ("inputs", "outputs")},
        **{key: channels_record(getattr(owner, key)) for key in ("input_channels", "output_channels")},
    }


def grids_from_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that ``grids_record`` described; older records without channels get the default ones."""
    if not isinstance(record, Mapping) or "time" not in record:
        raise TinoError(f"{in_short(record, 40)} does not describe grids")
    time = record["time"]
    return {
        "time": TimeGrid(**time) if isinstance(time, dict) else TimeGrid(*time),
        **{side: grid_from_record(record.get(side)) for side in ("inputs", "outputs")},
        **{key: channels_from_record(record[key]) for key in ("input_channels", "output_channels") if key in record},
    }


def check_tensor(values: Any, name: str) -> None:
    if not isinstance(values, Tensor):
        raise TinoError(f"{name} must be a torch tensor, got {type(values).__name__}: wrap arrays in torch.as_tensor")


def check_values(values: Tensor, name: str) -> None:
    """Check for a floating-point type, at least one record, and no NaN or inf."""
    if not values.is_floating_point():
        given = str(values.dtype).removeprefix("torch.")
        raise TinoError(f"{name} has dtype {given}, expected a floating type such as float32")
    if values.shape[:1] == (0,):
        raise TinoError(f"{name} has no records")
    finite = torch.cat([torch.isfinite(part.flatten(1)).all(1) for part in values.split(64)])  # in parts: less memory
    if not bool(finite.all()):
        bad = int((~finite).sum())
        first = int((~finite).nonzero()[0])
        told = f"{name} has NaN or infinite values in {bad} of {len(values)} records, first in record {first}"
        raise TinoError(f"{told}, counted from 0: leave it out or fill the gap")


def check_dataset(data: Any, name: str) -> None:
    if not isinstance(data, Dataset):
        raise TinoError(f"{name} is {shown(data)}, expected a tino.Dataset")


def same_steps(one: TimeGrid, other: TimeGrid) -> bool:
    """Whether times are equally far apart, whatever their number."""
    return abs(one.step - other.step) <= 1e-9 * other.step


def check_lengths(lengths: Tensor, samples: int, n_t: int) -> None:
    if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.shape != (samples,):
        shape = tuple(lengths.shape) if isinstance(lengths, Tensor) else type(lengths).__name__
        raise TinoError(f"lengths is {shape}, expected whole numbers, one for each of {samples} records")
    if not bool(((lengths >= 2) & (lengths <= n_t)).all()):
        wrong = int(lengths[(lengths < 2) | (lengths > n_t)][0])
        raise TinoError(f"a record has {wrong} times, expected 2 to {n_t}")
