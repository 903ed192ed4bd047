"""Records: what the chosen variables of a file say, as inputs (t, m) and outputs (t, x) with their grids."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tino.channels import Channel, Channels
from tino.errors import TinoError, in_short
from tino.grids import Grid, Interval, Periodic, Point, Points
from tino.importing.content import TIMES, Content, split_unit
from tino.importing.options import ImportOptions

RECORDS = ("record", "records", "sample", "samples", "trajectory", "run", "case", "realization", "ensemble", "batch")
CHANNELS = ("channel", "channels", "component")
EVEN = 1e-3  # of the spacing: coordinates this close to equal steps are a grid
NOTHING = "none"  # the input of a system that only its initial state drives


@dataclass(frozen=True)
class Side:
    """Channels on a grid: what the inputs are, or the outputs."""

    channels: Channels
    grid: Grid

    @property
    def size(self) -> int:
        return len(self.channels) * self.grid.size

    def column(self, j: int) -> str:
        """The name of one of the numbers at a time, for messages."""
        return self.channels[j // self.grid.size].name


@dataclass(frozen=True, eq=False)
class Record:
    """One record: times (n,) or None, inputs (n, m), outputs (n, x), and which rows of the file they were."""

    content: Content
    number: int  # counted from 1
    t: np.ndarray | None
    f: np.ndarray
    u: np.ndarray
    rows: np.ndarray

    @property
    def where(self) -> str:
        return self.content.path if self.number == 0 else f"{self.content.path}, record {self.number}"

    def at(self, row: int) -> str:
        """A place for a message: the file, the line and the time."""
        time = "" if self.t is None or not np.isfinite(self.t[row]) else f" (time {self.t[row]:.6g})"
        return f"{self.where}, {self.content.place(int(self.rows[row]))}{time}"

    def part(self, rows: slice | np.ndarray) -> "Record":
        t = None if self.t is None else self.t[rows]
        return replace(self, t=t, f=self.f[rows], u=self.u[rows], rows=self.rows[rows])

    def __len__(self) -> int:
        return len(self.f)


def read_records(
    content: Content, inputs: Sequence[str], outputs: Sequence[str], options: ImportOptions
) -> tuple[list[Record], Side, Side]:
    """The records of a file and what its inputs and outputs are. Without outputs, they have no channels."""
    time = content.named([options.time])[0] if options.time else content.time_name((*inputs, *outputs))
    content.named(options.described())  # an error if there is none of that name
    _check_points(content, outputs or inputs, options)
    places = [name for name in (time, options.record, options.points) if name]
    axes = [axis for name in (*inputs, *outputs) if name != NOTHING for axis in content.variables[name].axes]
    content = content.fetched([*inputs, *outputs, *places, *axes, *(f"{axis}-coordinate" for axis in axes)])
    content = content if time is None else content.with_time(time)
    t = None if time is None else np.asarray(content.array(time), float)
    if t is not None and t.ndim not in (1, 2):
        raise TinoError(f"the times '{time}' of {content.path} have shape {t.shape}, expected (times,)")
    n_t = None if t is None else t.shape[-1]
    content = _noted(content, (*inputs, *outputs), n_t, options)
    f, f_side, cut_f = _side(content, inputs, n_t, options)
    u, u_side, cut_u = _side(content, outputs, n_t, options) if outputs else (f[..., :0], Side((), Point()), False)
    if outputs and (options.points or options.periodic) and f_side.grid == u_side.grid == Point():
        word = f"points are '{options.points}'" if options.points else "periodic was asked for"
        told = f"{word}, but neither the inputs nor the outputs of {content.path} have an axis of points"
        raise TinoError(f"{told}: name the columns of the field, such as 'T*', or leave the option out")
    if list(inputs) == [NOTHING]:
        f = np.ones_like(u[..., :1])
    records = max(len(f), len(u))
    if f.shape[1] != u.shape[1] or {len(f), len(u)} - {1, records}:
        given = f"inputs are {len(f)} x {f.shape[1]}, outputs {len(u)} x {u.shape[1]} (records x times)"
        raise TinoError(f"{content.path}: {given}: they must be of one size")
    if t is not None and t.shape[-1] == f.shape[1] + 1 and (cut_f or cut_u):
        t = t[..., :-1]  # PDEBench lists the ends of its steps
    if t is not None and t.shape[-1] != f.shape[1]:
        raise TinoError(f"{content.path} has {t.shape[-1]} times '{time}', but the records have {f.shape[1]}")
    number = _numbers(content, options, f.shape[1])
    found = []
    for r in range(records):
        own = t if t is None or t.ndim == 1 else t[min(r, len(t) - 1)]
        whole = Record(content, r + 1 if records > 1 else 0, own, f[r % len(f)], u[r % len(u)], np.arange(f.shape[1]))
        if number is None:
            found.append(whole)
            continue
        ends = np.flatnonzero(np.diff(number)) + 1
        pieces = np.split(np.arange(len(whole)), ends)
        found += [replace(whole.part(rows), number=i) for i, rows in enumerate(pieces, 1)]
    return found, f_side, u_side


def _numbers(content: Content, options: ImportOptions, n_t: int) -> np.ndarray | None:
    """The column that numbers the records."""
    if options.record is None:
        return None
    name = content.named([options.record])[0]
    values = content.array(name)
    if values.shape != (n_t,) or not np.isfinite(values).all():
        raise TinoError(f"'{name}' of {content.path} must number the records: one finite number for each row")
    return values


def _side(
    content: Content, names: Sequence[str], n_t: int | None, options: ImportOptions
) -> tuple[np.ndarray, Side, bool]:
    """Values (records, times, channels x points), what they are, and whether the file names the axis of time."""
    if list(names) == [NOTHING]:
        return np.ones((1, 1, 1)), Side((Channel(NOTHING),), Point()), False
    parts, channels, spaces, named = [], [], [], False
    for name in names:
        values, space = _canonical(content, name, n_t, options)
        count = values.shape[2]
        channels += _channels(content, name, count, options)
        parts.append(values)
        spaces.append(space)
        named = named or any(axis.lower() in TIMES for axis in content.variables[name].axes)
    if len({(space, part.shape[3:]) for space, part in zip(spaces, parts, strict=True)}) > 1:
        shapes = ", ".join(f"{name} on {part.shape[3:]}" for name, part in zip(names, parts, strict=True))
        raise TinoError(
            f"{content.path}: {in_short(shapes)} lie on different points: give inputs, and outputs, on one grid"
        )
    if len({part.shape[:2] for part in parts}) > 1:
        shapes = ", ".join(f"{name} {part.shape[:2]}" for name, part in zip(names, parts, strict=True))
        raise TinoError(f"{content.path}: {in_short(shapes)} differ in their records or times")
    values = np.concatenate(parts, 2)
    places = options.places()
    if places is not None and values.ndim == 3 and len(places) == values.shape[2]:  # columns are points of one field
        stem = _stem([channel.name for channel in channels])
        return values, Side((Channel(stem, channels[0].unit),), _grid(content, [np.array(places)], options)), named
    grid = (
        Point()
        if values.ndim == 3
        else _grid(content, _coordinates(content, names[0], values.shape[3:], spaces[0], options), options)
    )
    flat = values.reshape(*values.shape[:2], -1)
    return flat, Side(tuple(channels), grid), named


def _channels(content: Content, name: str, count: int, options: ImportOptions) -> list[Channel]:
    """The channels of an array: as the file names them, or numbered."""
    shown, found = split_unit(name)[0].rpartition("/")[2], content.variables[name]
    for what, given in (("names", found.names), ("units", found.units)):
        if len(given) not in (0, count):
            raise TinoError(f"{content.path} has {len(given)} {name}_{what} for {count} channels")
    names = found.names or [shown if count == 1 else f"{shown}{i}" for i in range(1, count + 1)]
    units = found.units or [found.unit] * count
    return [Channel(one, options.unit(name, unit)) for one, unit in zip(names, units, strict=True)]


def _stem(names: list[str]) -> str:
    """What the names of columns share: T of T1, T2, T3."""
    stem = names[0]
    for name in names:
        while not name.startswith(stem):
            stem = stem[:-1]
    return stem.rstrip("_- 0123456789@=([") or names[0]


def _canonical(
    content: Content, name: str, n_t: int | None, options: ImportOptions
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The values as (records, times, channels, *space), and the names of the axes of space."""
    variable = content.variables[name]
    roles = _roles(content, name, n_t, options)
    if len(roles) == 1 and "time" not in roles and not any(variable.axes) and options.roles(name) is None:
        raise TinoError(f"{content.path}: '{name}' has {variable.shape[0]} times, '{content.time}' has {n_t}")
    if roles.count("time") != 1 or roles.count("record") > 1 or roles.count("channel") > 1:
        shape, path = variable.shape, content.path
        hint = f"say what they are, such as axes = '{name}=record,time,x'"
        raise TinoError(f"the axes of '{name}' in {path}, of shape {shape}, are not clear: {hint}")
    values = content.array(name)
    order = [roles.index(role) for role in ("record", "time", "channel") if role in roles]
    order += [i for i, role in enumerate(roles) if role not in ("record", "time", "channel")]
    space = tuple(roles[i] for i in order if roles[i] not in ("record", "time", "channel"))
    values = values.transpose(order)
    if "record" not in roles:
        values = values[None]
    return (values if "channel" in roles else values[:, :, None]), space


def _roles(content: Content, name: str, n_t: int | None, options: ImportOptions) -> tuple[str, ...]:
    """record, time, channel, or the name of an axis of space, for each axis of an array."""
    shape, axes = content.variables[name].shape, content.variables[name].axes
    if (given := options.roles(name)) is not None:
        if len(given) != len(shape):
            raise TinoError(f"axes of '{name}' are {len(given)}, but its shape is {shape}")
        return tuple(_role(axis) or f"axis {i}" for i, axis in enumerate(given))
    found = [_role(axis) for axis in axes] if any(axes) else [""] * len(shape)
    if "time" not in found:
        free = [i for i, role in enumerate(found) if not role and (n_t is None or shape[i] == n_t)]
        if free:
            first = [1] if n_t is None and len(shape) == 2 and shape[1] > shape[0] else [0] if len(shape) < 3 else [1]
            found[next((i for i in first if i in free), free[0])] = "time"
    if "" in found and "record" not in found and "time" in found and found.index("time") == 1 and not found[0]:
        found[0] = "record"
    left = [i for i, role in enumerate(found) if not role]
    in_space = options.points is not None or len(left) > 1
    for i in left:
        found[i] = f"axis {i - len(shape)}" if in_space else "channel"
    return tuple(found)


def _role(axis: str) -> str:
    word = axis.lower()
    return "time" if word in TIMES else "record" if word in RECORDS else "channel" if word in CHANNELS else axis


def _check_points(content: Content, names: Sequence[str], options: ImportOptions) -> None:
    """An error if points list the axes of a grid."""
    known = options.points is None or options.places() is not None or options.points in content.variables
    if not known and "," in (options.points or ""):
        told = f"points are '{options.points}', expected one variable or numbers"
        raise TinoError(f"{told}: for a grid leave them out, and give axes = '{names[0]}=record,time,{options.points}'")


def _noted(content: Content, names: Sequence[str], n_t: int | None, options: ImportOptions) -> Content:
    """With advice on arrays on a periodic box that have no coordinates."""
    if not options.periodic or options.points is not None:
        return content
    lacking = []
    for name in names:
        roles = () if name == NOTHING else _roles(content, name, n_t, options)
        space = [role for role in roles if role not in ("record", "time", "channel")]
        if any(not {axis, f"{axis}-coordinate"} & set(content.variables) for axis in space):
            lacking.append(f"'{name}'")
    note = f"{content.path}: no coordinates of {' and '.join(lacking)}: lengths are in grid steps"
    return replace(content, advice=(note,)) if lacking else content


# -- grids ---------------------------------------------------------------------------------------------------


def _coordinates(
    content: Content, name: str, shape: tuple[int, ...], space: tuple[str, ...], options: ImportOptions
) -> list[np.ndarray]:
    """The coordinates of each axis of space, or of all points, (n, d); numbers where the file gives none."""
    if (places := options.places()) is not None:
        given = np.array(places)
    elif options.points is not None:
        given = np.asarray(content.array(content.named([options.points])[0]), float)
        given = given.T if given.ndim == 2 and given.shape[1] == np.prod(shape) != given.shape[0] else given
    else:
        return [_axis(content, name, n) for name, n in zip(space, shape, strict=True)]
    if given.ndim not in (1, 2) or len(given) != np.prod(shape):
        told = f"points of {content.path} have shape {given.shape}, but '{name}' has {shape} points"
        raise TinoError(f"{told}: if these are channels, say so, such as axes = '{name}=record,time,channel'")
    return [given]


def _axis(content: Content, name: str, n: int) -> np.ndarray:
    for known in (name, f"{name}-coordinate"):
        if known in content.variables and content.variables[known].shape[:1] == (n,):
            return np.asarray(content.array(known), float)
    return np.arange(n, dtype=float)


def _grid(content: Content, coordinates: list[np.ndarray], options: ImportOptions) -> Grid:
    """A periodic box, an interval, or points, whichever the coordinates are."""
    if not all(np.isfinite(axis).all() for axis in coordinates):
        raise TinoError(f"points of {content.path} have NaN or infinite coordinates")
    steps = [_spacing(axis) for axis in coordinates]
    if options.periodic and coordinates[0].ndim == 2 and (d := coordinates[0].shape[1]) > 1:
        axes = ",".join(("x", "y", "z")[:d])
        told = f"{content.path}: listed points cannot be a periodic box in {d}-D"
        raise TinoError(
            f"{told}: give f as (records, times, {axes.replace(',', ', ')}), with axes = 'f=record,time,{axes}'"
        )
    if options.periodic:
        lengths = [len(axis) * (step or 0.0) for axis, step in zip(coordinates, steps, strict=True)]
        if None in steps or max(lengths) - min(lengths) > EVEN * max(lengths):
            told = ", ".join(
                "uneven" if step is None else f"{length:.6g}" for step, length in zip(steps, lengths, strict=True)
            )
            raise TinoError(f"{content.path}: a periodic box has equal steps and one length for all axes, got {told}")
        return Periodic(neat(lengths[0]), tuple(map(len, coordinates)))
    if len(coordinates) == 1 and steps[0] is not None:
        return Interval(float(coordinates[0][0]), float(coordinates[0][-1]), len(coordinates[0]))
    if len(coordinates) > 1:
        mesh = np.meshgrid(*coordinates, indexing="ij")
        rows = np.stack([axis.ravel() for axis in mesh], 1)
    else:
        rows = coordinates[0].reshape(len(coordinates[0]), -1)
    return Points(tuple(map(tuple, rows.tolist())))


def _spacing(axis: np.ndarray) -> float | None:
    """The step of coordinates that rise in equal steps."""
    if axis.ndim != 1 or len(axis) < 2:
        return None
    steps, mean = np.diff(axis), (axis[-1] - axis[0]) / (len(axis) - 1)
    return float(mean) if mean > 0 and np.allclose(steps, mean, rtol=EVEN, atol=1e-6 * np.abs(axis).max()) else None


def neat(number: float) -> float:
    """A number in as few digits as its rounding allows: 0.01 rather than 0.010000000000000002."""
    return next(
        (short for n in (3, 4, 6, 9) if abs((short := float(f"{number:.{n}g}")) - number) <= 1e-7 * number), number
    )
