"""Records with missing values, gaps and irregular times: found and named, and repaired where that was asked for."""

from dataclasses import replace

import numpy as np

from tino.errors import TinoError, counted
from tino.importing.content import TIMES
from tino.importing.options import ImportOptions
from tino.importing.records import Record, Side, neat

FILLED = 5  # missing values in a row that may be interpolated
SHORTEST = 8  # times of a record; shorter pieces are left out
STEP, DRIFT = 0.02, 0.1  # of a step: how far one may be from the median, and a time from its place on an equal grid
GAP = 1.5  # steps
LONGER, FOLDED = 1.1, 0.01  # steps, and of a channel's variance: what a new step folds to lower frequencies is noted
SAME = 1e-3  # of a step: records with steps this close have one step


def repaired(records: list[Record], f: Side, u: Side, options: ImportOptions) -> tuple[list[Record], float, list[str]]:
    """Records without missing values and with one time step, that step, and what was repaired."""
    notes = list(dict.fromkeys(note for record in records for note in record.content.notes))
    first, count = records[0].where, len(records)
    records = [piece for record in records for piece in _complete(record, f, u, options, notes)]
    if not records and options.drop:
        told = "the only record, which has" if count == 1 else f"all {count} records, which have"
        raise TinoError(f"{first}: drop leaves out {told} missing values: use fill or cut instead")
    records = [piece for record in records for piece in _in_time(record, options, notes)]
    short = [record for record in records if len(record) < SHORTEST]
    if len(short) == len(records):
        longest = max((len(record) for record in records), default=0)
        told = f"its longest record has {counted(longest, 'time')}" if records else "every row has a missing value"
        raise TinoError(f"{records[0].where if records else first}: {told}, at least {SHORTEST} are needed")
    if short:
        told = f"{counted(len(short), 'record')} of fewer than {SHORTEST} times left out"
        notes.append(f"{told}, the first in {short[0].where}")
        records = [record for record in records if len(record) >= SHORTEST]
    step = _one_step(records, options)
    if options.resample:
        return [_resampled(record, f, u, step, notes) for record in records], step, notes
    return records, step, notes


# -- missing values ------------------------------------------------------------------------------------------


def _complete(record: Record, f: Side, u: Side, options: ImportOptions, notes: list[str]) -> list[Record]:
    """The record, or the pieces of it, without NaN and infinite values."""
    bad = _bad(record)
    if bad.any() and options.fill:
        t = np.arange(len(record)) if record.t is None else record.t
        filled = replace(record, f=_filled(t, record.f), u=_filled(t, record.u))
        left = _bad(filled)
        if (done := bad & ~left).any() and (options.cut or not left.any()):
            notes.append(f"{record.where}: {_lacking(record, done, 'interpolated')}")
        record, bad = filled, left
    if not bad.any():
        return [record]
    if options.drop:
        notes.append(f"{record.where} was left out: {_lacking(record, bad)}")
        return []
    if options.cut:
        notes.append(f"{record.where} was cut at {_lacking(record, bad)}")
        edges = np.flatnonzero(np.diff(np.concatenate([[True], bad, [True]]).astype(int)))
        return [record.part(slice(a, b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    row = int(np.flatnonzero(bad)[0])
    more = _others(int(bad.sum()))
    if record.t is not None and not np.isfinite(record.t[row]):
        raise TinoError(
            f"{record.at(row)}: the time is missing{more}: leave the row out, or repair it with cut or drop"
        )
    if options.fill:
        found = f"more than {FILLED} values in a row are missing, or those before or after them"
        raise TinoError(f"{record.at(row)}: {found}: use cut instead of fill")
    at_f = np.flatnonzero(~np.isfinite(record.f[row]))
    column = f.column(int(at_f[0])) if len(at_f) else u.column(int(np.flatnonzero(~np.isfinite(record.u[row]))[0]))
    counting = "" if record.content.lines else ", counted from 1"
    raise TinoError(f"{record.at(row)}, column '{column}': no value{more}{counting}: repair it with fill, cut or drop")


def _lacking(record: Record, rows: np.ndarray, done: str = "") -> str:
    """How many rows have missing values, for a note, and where the first is."""
    told = f"{counted(int(rows.sum()), 'row')} with missing values {done}".rstrip()
    return f"{told}, the first at {record.at(int(np.flatnonzero(rows)[0]))}"


def _others(count: int) -> str:
    return f" (and in {counted(count - 1, 'other row')})" if count > 1 else ""


def _bad(record: Record) -> np.ndarray:
    """Which rows have a missing value, or no time."""
    bad = np.asarray(~np.isfinite(np.concatenate([record.f, record.u], 1)).all(1))
    return bad if record.t is None else bad | ~np.isfinite(record.t)


def _filled(t: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Short runs of missing values between an earlier and a later one, interpolated linearly in time."""
    values = values.copy()
    for column in values.T:
        bad = ~np.isfinite(column)
        if not bad.any() or bad.all():
            continue
        edges = np.flatnonzero(np.diff(np.concatenate([[False], bad, [False]]).astype(int)))
        for a, b in zip(edges[::2], edges[1::2], strict=True):
            if b - a <= FILLED and a > 0 and b < len(column) and (np.diff(t[a - 1 : b + 1]) > 0).all():
                column[a:b] = np.interp(t[a:b], t[[a - 1, b]], column[[a - 1, b]])
    return values


# -- times ---------------------------------------------------------------------------------------------------


def _in_time(record: Record, options: ImportOptions, notes: list[str]) -> list[Record]:
    """The record, or its pieces, in which time runs forward without gaps."""
    if record.t is None or len(record) < 2:
        return [record]
    steps = np.diff(record.t)
    back = np.flatnonzero(steps <= 0)
    if len(back) and (steps[back[0]] == 0 or not options.cut):
        row = int(back[0]) + 1
        word = "is that of the row before" if steps[back[0]] == 0 else "is less than in the row before"
        more = _others(len(back))
        fix = "leave the row out" if steps[back[0]] == 0 else "sort the rows, or use cut if a new record begins there"
        raise TinoError(f"{record.at(row)}: the time {word}{more}: {fix}")
    usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
    rounding = _rounding(record.t)
    gaps = np.flatnonzero((steps > GAP * usual + rounding) | (steps <= 0))
    if len(gaps) and options.cut:
        found = counted(len(gaps), "gap")
        notes.append(f"{record.where} was cut at {found} in time, the first at {record.at(int(gaps[0]) + 1)}")
        pieces = np.split(np.arange(len(record)), gaps + 1)
        return [piece for rows in pieces for piece in _in_time(record.part(rows), options, notes)]
    if options.resample or _even(record.t):
        return [record]
    if len(gaps) and _even_between(steps, usual, rounding):
        row = int(gaps[0]) + 1
        more = f" ({len(gaps)} gaps in all)" if len(gaps) > 1 else ""
        found = f"{record.at(row)}: a gap of {steps[gaps[0]]:.4g} after steps of {usual:.4g}{more}"
        raise TinoError(f"{found}: use cut for two records, or resample to interpolate")
    row = int(np.argmax(np.abs(steps - usual))) + 1
    found = f"{record.where}: the time steps range from {steps.min():.4g} to {steps.max():.4g}, the farthest from the "
    raise TinoError(f"{found}median {usual:.4g} at {record.at(row).removeprefix(record.where + ', ')}: use resample")


def _even(t: np.ndarray) -> bool:
    steps, usual, rounding = np.diff(t), (t[-1] - t[0]) / (len(t) - 1), _rounding(t)
    drift = np.abs(t - t[0] - usual * np.arange(len(t))).max()
    return bool((np.abs(steps - usual) <= STEP * usual + rounding).all() and drift <= DRIFT * usual + rounding)


def _even_between(steps: np.ndarray, usual: float, rounding: float) -> bool:
    near = steps <= GAP * usual + rounding
    return bool((np.abs(steps - usual) <= STEP * usual + rounding)[near].all())


def _rounding(t: np.ndarray) -> float:
    """How far the distance of two times may be off by rounding: to float32, if they are all numbers of it."""
    with np.errstate(over="ignore"):
        kind = np.float32 if (t == t.astype(np.float32)).all() else np.float64
    return float(np.spacing(np.abs(t).max().astype(kind)))


def _one_step(records: list[Record], options: ImportOptions) -> float:
    """The time step of all records."""
    timed = [record for record in records if record.t is not None and len(record) > 1]
    if not timed:
        if options.dt is None:
            content = records[0].content
            text = next(
                (f" ('{name}' {content.not_numbers(name)})" for name in content.texts if name.lower() in TIMES), ""
            )
            told = f"{content.path} has no column of times{text}"
            raise TinoError(f"{told}: give dt, the time step, or time, the name of the column")
        return float(options.dt)
    found = np.array([_usual_step(record) if options.resample else _mean_step(record) for record in timed])
    middle = int(np.argsort(found)[len(found) // 2])
    usual = float(found[middle])
    slack = np.array([_slack(record) for record in timed]) + SAME * usual
    if options.dt is not None and (options.resample or abs(options.dt - usual) <= slack[middle]):
        return float(options.dt)
    if options.dt is not None:
        factor = usual / options.dt
        told = f"dt is {options.dt:g}, but the times in {timed[middle].where} step by {usual:.6g}"
        ms = " milliseconds and seconds?" if like_milliseconds(factor) else ""
        raise TinoError(f"{told}, {factor:.4g} times as much:{ms} leave dt out, or give dt = {usual:.6g}")
    far = int(np.argmax(np.abs(found - usual) - slack))
    if options.resample and not like_milliseconds(float(found[far]) / usual):
        return neat(usual)
    if abs(found[far] - usual) > slack[far] + _slack(timed[middle]):
        told = f"the time step is {found[far]:.6g} in {timed[far].where}, {usual:.6g} in {timed[middle].where}"
        raise TinoError(f"{told}: {steps_fix(float(found[far]) / usual, 'use resample, or import them apart')}")
    return neat(float(np.average(found, weights=[len(record) - 1 for record in timed])))


def like_milliseconds(factor: float) -> bool:
    """Whether steps of which one is so many times the other seem to be in milliseconds and seconds."""
    return 900 < max(factor, 1 / factor) < 1100


def steps_fix(factor: float, otherwise: str) -> str:
    """What to do about records with such steps."""
    return "milliseconds and seconds? convert the times of one" if like_milliseconds(factor) else otherwise


def _slack(record: Record) -> float:
    """How far the mean step may be off by the rounding of the times."""
    return 0.0 if record.t is None else _rounding(record.t) / (len(record) - 1)


def _mean_step(record: Record) -> float:
    assert record.t is not None
    return float((record.t[-1] - record.t[0]) / (len(record) - 1))


def _usual_step(record: Record) -> float:
    """The mean of even steps, the median of others."""
    assert record.t is not None
    return _mean_step(record) if _even(record.t) else float(np.median(np.diff(record.t)))


def _resampled(record: Record, f: Side, u: Side, step: float, notes: list[str]) -> Record:
    """Interpolated linearly on equal steps, unless its times are such already."""
    t = record.t
    if t is None or (_even(t) and abs(_mean_step(record) / step - 1) <= SAME):
        return record
    n = int(np.floor((t[-1] - t[0]) / step * (1 + 1e-9))) + 1
    if n > 100 * len(record):
        raise TinoError(
            f"{record.where}: resampling to steps of {step:g} makes {n} times of {len(record)}: cut it at gaps"
        )
    times = t[0] + step * np.arange(n)
    told = f"{record.where} was resampled from {len(record)} times to {n} of step {step:g}"
    notes.append(told + _folded(record, f, u, step))
    rows = record.rows[np.searchsorted(t, times).clip(max=len(record) - 1)]
    inputs, outputs = (_at(times, t, values) for values in (record.f, record.u))
    return replace(record, t=times, f=inputs, u=outputs, rows=rows)


def _at(times: np.ndarray, t: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values at other times, interpolated linearly."""
    found = np.empty((len(times), values.shape[1]))
    for j, column in enumerate(values.T):
        found[:, j] = np.interp(times, t, column)
    return found


def _folded(record: Record, f: Side, u: Side, step: float) -> str:
    """What a note says of a step so long that the fast part of a channel appears as a slow one."""
    if record.t is None or step < LONGER * _usual_step(record):
        return ""
    times = np.linspace(record.t[0], record.t[-1], len(record))
    fast = np.fft.rfftfreq(len(times), times[1] - times[0]) > 0.5 / step
    shares: dict[str, float] = {}
    for side, values in ((f, record.f), (u, record.u)):
        for j, channel in enumerate(side.channels):
            own = _at(times, record.t, values[:, j * side.grid.size : (j + 1) * side.grid.size])
            own = own / max(np.abs(own).max(), 1e-300)
            power = np.square(np.abs(np.fft.rfft((own - own.mean(0)) * np.hanning(len(times))[:, None], axis=0)))
            shares[channel.name] = float(power[fast].sum() / max(power.sum(), 1e-300))
    name, share = max(shares.items(), key=lambda one: one[1])
    if share < FOLDED:
        return ""
    told = f", which folds {share:.0%} of the variance of '{name}' to lower frequencies"
    return f"{told}: filter it before, or give a smaller dt"
