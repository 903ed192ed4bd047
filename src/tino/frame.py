"""What an operator was built for: its name, its data's name, the grids and channels of its inputs and outputs, and what
it saw in training. ``Framed`` is the border where that matters: offsets, and inputs far outside."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from tino.channels import INPUT, OUTPUT, Channels
from tino.data import Dataset, Signals, check_tensor, grids_from_record, grids_record, same_steps
from tino.errors import TinoError, TinoWarning, of_kind, shown, whole
from tino.grids import Grid, Periodic, TimeGrid
from tino.seen import Seen, column, shifted

ON_GRID = 1e-4  # of a step: a time this close to a grid time counts as one, in float32 too


@dataclass(frozen=True)
class Frame(Signals):
    """The border of an operator: f (b, t, m) and ic (b, k) come in, u (b, t, x) goes out."""

    model: str
    problem: str
    time: TimeGrid
    inputs: Grid
    outputs: Grid
    state: int = 0  # numbers in the initial state; 0: not an input
    input_channels: Channels = INPUT
    output_channels: Channels = OUTPUT
    seen: Seen = field(default_factory=Seen)  # in training; ``build`` sets it
    time_unit: str = ""  # of the training, where it is known

    @staticmethod
    def of(name: str, train: Dataset) -> "Frame":
        state = 0 if train.ic is None else train.ic.shape[1]
        if not state and "windows" in train.meta:
            raise TinoError(f"{train.name} is cut into windows, which start from different states: give them as ic")
        channels = (train.input_channels, train.output_channels)
        unit = str(train.meta.get("time_unit", ""))
        return Frame(name, train.name, train.time, train.inputs, train.outputs, state, *channels, time_unit=unit)

    # -- its record ----------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        about = {"model": self.model, "problem": self.problem, "state": self.state}
        about |= {"time_unit": self.time_unit} if self.time_unit else {}
        return {**about, **grids_record(self), "seen": asdict(self.seen)}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Frame":
        frame = Frame(**{**record, **grids_from_record(record), "seen": Seen.from_record(record["seen"])})
        frame.seen.check_counts(frame, whole("state", frame.state, 0))
        for name in (frame.model, frame.problem):
            of_kind(name, str, "the name of a model or a problem")
        of_kind(frame.time_unit, str, "the unit of time")
        return frame

    # -- checks --------------------------------------------------------------------------------------------

    def check_input(self, f: Tensor) -> None:
        m = self.input_size
        if f.ndim != 3 or f.shape[2] != m:
            raise TinoError(f"f has shape {tuple(f.shape)}, the model was built for (records, {self.time.n}, {m})")

    def check_state(self, ic: Tensor | None, samples: int | None = None) -> None:
        given, expected = 0 if ic is None else ic.shape[-1], self.state
        if expected and ic is None:
            raise TinoError(f"{self.model} takes an initial state of {expected} numbers, give it as ic")
        if given != expected:
            raise TinoError(f"the initial state has {given} numbers, the model was built for {expected}")
        if ic is not None and samples is not None and (ic.ndim != 2 or ic.shape[0] != samples):
            raise TinoError(
                f"ic has shape {tuple(ic.shape)}, expected ({samples}, {expected}): f has {samples} records"
            )

    def check_data(self, data: Dataset, any_length: bool) -> None:
        """Check that the data have the model's grids, channels and initial states."""
        for name in ("inputs", "outputs"):
            if getattr(data, name) != getattr(self, name):
                given = f"the data's {name} grid is {getattr(data, name)}"
                raise TinoError(f"{given}, the model was built for {getattr(self, name)}")
            key, word = f"{name[:-1]}_channels", f"{name[:-1]} channels"
            have, want = ([channel.name for channel in getattr(side, key)] for side in (data, self))
            if len(have) != len(want):
                raise TinoError(f"the data have {len(have)} {word}, the model was built for {len(want)}")
            if have != want and sorted(have) == sorted(want):
                order = f"the data's {word} are {', '.join(have)}"
                raise TinoError(f"{order}; the model was built for this order: {', '.join(want)}")
            for given, own in zip(getattr(data, key), getattr(self, key), strict=True):
                if given.unit and own.unit and given.unit != own.unit:
                    told = f"'{given.name}' of the data is in {given.unit}, the model was trained with {own.unit}"
                    warnings.warn(told, TinoWarning, stacklevel=4)
        if not (data.time == self.time or (any_length and same_steps(data.time, self.time))):
            raise TinoError(f"the data's time grid is {data.time}, the model was built for {self.time}")
        self.check_state(data.ic)

    # -- places on the grids -------------------------------------------------------------------------------

    def time_index(self, t: Tensor) -> Tensor:
        """The indices of the times t on the grid, (s,); a time off the grid is an error."""
        place = (t.double() - self.time.start) / self.time.step
        index = place.round().long()
        off = (place - index).abs() > ON_GRID
        if bool(off.any()):
            given, near = float(t[off][0]), self.time.start + int(index[off][0]) * self.time.step
            rule = f"{self.model} can be queried only at grid times"
            raise TinoError(f"{rule}; {given:g} is not one, the nearest is {near:g}")
        return index

    def last_index(self, t: Tensor) -> Tensor:
        """The last grid time t_i <= t of each, (s,)."""
        place = (t.double() - self.time.start) / self.time.step
        return (place + ON_GRID).floor().long().clamp(min=0)

    def point_index(self, y: Tensor) -> Tensor:
        """The indices of the outputs at the points y (q, d), (c q,); a point off the grid is an error."""
        points = self.outputs.points
        distance = torch.cdist(y.double(), points)
        size, index = distance.min(1)
        spacing = float((points.amax(0) - points.amin(0)).max()) / len(points) if points.shape[1] else 1.0
        if bool((size > 1e-3 * spacing).any()):
            given = y[size > 1e-3 * spacing][0].tolist()
            raise TinoError(f"{self.model} is defined only at the grid points; {given} is not one of them")
        blocks = torch.arange(len(self.output_channels)) * self.outputs.size
        return (blocks[:, None] + index).flatten()

    def times_within(self, t: Any, known: int) -> Tensor:
        """The requested times in a record of ``known`` times, (s,) float64 on the CPU; all of them if t is None."""
        stop = self.time.start + (known - 1) * self.time.step
        if t is None:
            return self.time.start + torch.arange(known, dtype=torch.float64) * self.time.step
        t = torch.as_tensor(t, dtype=torch.float64, device="cpu")
        if t.ndim != 1 or len(t) == 0:
            raise TinoError(f"t has shape {tuple(t.shape)}, expected (s,) with one time or more")
        slack = ON_GRID * self.time.step
        if not bool(((t >= self.time.start - slack) & (t <= stop + slack)).all()):
            asked = f"t reaches from {float(t.min()):g} to {float(t.max()):g}"
            raise TinoError(f"{asked}, this record covers [{self.time.start:g}, {stop:g}]")
        return t

    def points_within(self, y: Tensor | None) -> Tensor:
        """The requested points, (q, d) float64 on the CPU; the grid's if y is None."""
        points = self.outputs.points
        y = points if y is None else torch.as_tensor(y, dtype=torch.float64, device="cpu")
        if y.ndim != 2 or y.shape[1] != points.shape[1] or not bool(torch.isfinite(y).all()):
            raise TinoError(f"y has shape {tuple(y.shape)}, expected finite coordinates (points, {points.shape[1]})")
        if not points.shape[1]:
            return y
        low, high = points.amin(0), points.amax(0)
        if isinstance(self.outputs, Periodic):
            y, high = y.remainder(self.outputs.length), torch.full_like(high, self.outputs.length)
        if not bool(((y >= low - 1e-6) & (y <= high + 1e-6)).all()):
            raise TinoError(f"y leaves the domain, which reaches from {low.tolist()} to {high.tolist()}")
        return y


class Framed(nn.Module):
    """A module with a frame. Its ``forward`` maps ic to u without their offsets, ``module(f, ic)`` with them."""

    frame: Frame
    output_offset: Tensor | None  # (channels, 1)
    state_offset: Tensor | None
    _warned = False

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("output_offset", None, persistent=False)
        self.register_buffer("state_offset", None, persistent=False)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "frame":
            self.output_offset, self.state_offset = map(column, (value.seen.output_offset, value.seen.state_offset))

    def __call__(self, f: Tensor, ic: Tensor | None = None, *more: Any, **options: Any) -> Tensor:
        self.check_dtypes(f, ic)
        return self.with_offset(self.inside(f, self.centred(ic), *more, **options))

    def inside(self, f: Tensor, ic: Tensor | None, *more: Any, **options: Any) -> Tensor:
        """``forward``, with its hooks."""
        return super().__call__(f, ic, *more, **options)

    def centred(self, ic: Tensor | None) -> Tensor | None:
        return None if ic is None else shifted(ic, self.state_offset, -1)

    def as_output(self, ic: Tensor) -> Tensor:
        """An initial state that is u(T_0), from without its own offset to without that of the outputs."""
        state, output = (0.0 if offset is None else offset for offset in (self.state_offset, self.output_offset))
        by = state - output  # first, so that ic loses no digits
        return shifted(ic, by, 1) if isinstance(by, Tensor) else ic

    def with_offset(self, u: Tensor) -> Tensor:
        return shifted(u, self.output_offset, 1)

    def without_offset(self, u: Tensor) -> Tensor:
        return shifted(u, self.output_offset, -1)

    def warn_if_far(self, f: Tensor, ic: Tensor | None) -> None:
        """Warn, once, of inputs (..., m) or initial states far outside what was seen in training.

        ``predict``, ``evaluate`` and ``query`` call it. A stream's steps do not: they would wait for the values.
        """
        told = None if self._warned else self.frame.seen.outside(self.frame, f, ic)
        if told is not None:
            self._warned = True
            warnings.warn(f"{told}: expect larger errors there", TinoWarning, stacklevel=3)

    def check_dtypes(self, f: Tensor, ic: Tensor | None) -> None:
        """``predict`` and ``query`` convert inputs; ``model(f)``, ``start`` and ``step`` leave it to the caller."""
        own = numbers(self, f).dtype
        for name, values in (("f", f), ("ic", ic)):
            if values is None:
                continue
            check_tensor(values, name)
            if values.dtype != own:
                given, wanted = (str(one).removeprefix("torch.") for one in (values.dtype, own))
                how = {torch.float32: "float()", torch.float64: "double()"}.get(own, f"to({own})")
                raise TinoError(f"{name} is {given}, the model is {wanted}: pass {name}.{how}")


def numbers(model: nn.Module, default: Tensor | None = None) -> Tensor:
    """A floating-point tensor of the model, for its device and dtype; the default if the model has none."""
    if not isinstance(model, nn.Module):
        raise TinoError(f"the model is {shown(model)}, expected a torch module, such as tino.build returns")
    found: Iterator[Tensor] = (v for v in chain(model.parameters(), model.buffers()) if v.is_floating_point())
    return next(found, torch.empty(0) if default is None else default)
