"""HDF5 and netCDF-4 files, read by the child process: variables by path, with units and the names of their axes.

PDEBench's layouts (``tensor`` with ``x-coordinate``; one group for each sample) and The Well's (``t0_fields``,
``t1_fields``, ``dimensions``) are recognised. Links to other files and virtual datasets are refused.
"""

import math
import os
import re
from typing import Any

MOST, DEEPEST, AXES = 20_000, 12, 6  # objects in a file, groups inside one another, axes of an array
PIECE = 2**24  # bytes read at once
AT_ONCE, RATIO = 2**22, 200  # bytes handed over without being asked for; of a request, times the file's size
UNPACKED = 1100  # times its bytes in the file, at most: more than compression achieves
BOX = ("x", "y", "z")
MATLAB = ("#refs#", "#subsystem#")  # where its version 7.3 keeps cells and objects
UNITS = ("units", "unit", "Units", "Unit")


def warm_up() -> None:
    import h5py  # noqa: F401


def read(path: str, folder: str, names: list[str] | None) -> list[dict[str, Any]]:
    """The named variables, with values written into the folder; without names all, with values if they are few."""
    import h5py

    with h5py.File(path, "r") as file:
        arrays: dict[str, Any] = {}
        _walk(file, "", arrays, {_place(file)}, 0)
        found = _the_well(file, arrays) or _samples(arrays) or _plain(arrays)
        described = [_described(name, about) for name, about in found.items()]
        wanted = described if names is None else [one for one in described if one["name"] in names]
        total = sum(math.prod(one["shape"]) * int(one["type"][1]) for one in wanted)
        if names is None and total > AT_ONCE:
            return described
        if total > max(2**30, RATIO * os.path.getsize(path)):
            raise ValueError(f"it claims {total / 2**30:.0f} GiB, more than {RATIO} times its own size")
        for number, one in enumerate(wanted):
            one["file"] = f"{number}.raw"
            with open(os.path.join(folder, one["file"]), "wb") as out:
                for dataset in found[one["name"]]["datasets"]:
                    _write(dataset, out)
        return wanted


def _walk(group: Any, before: str, arrays: dict[str, Any], seen: set[Any], depth: int) -> None:
    """All arrays of numbers by their paths. A group that holds itself is visited once."""
    import h5py

    if depth > DEEPEST:
        raise ValueError("its groups are nested too deeply")
    for key in group:
        if key in MATLAB:
            continue
        link = group.get(key, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise ValueError(f"'{before}{key}' is a link to another file, which is not followed")
        if isinstance(link, h5py.SoftLink):
            continue  # what it names is listed under its own name
        one = group.get(key)
        place = _place(one)
        if place in seen:
            continue
        seen.add(place)
        if len(seen) > MOST:
            raise ValueError(f"it holds more than {MOST} objects")
        if isinstance(one, h5py.Group):
            _walk(one, f"{before}{key}/", arrays, seen, depth + 1)
        elif isinstance(one, h5py.Dataset) and one.dtype.kind in "fiu" and one.shape is not None:
            if one.is_virtual or one.external:
                raise ValueError(f"'{before}{key}' lies in another file, which is not followed")
            if math.prod(one.shape) and one.ndim <= AXES and _matlab_class(one) != "char":
                arrays[f"{before}{key}"] = one


def _place(one: Any) -> int:
    """Where an object lies in its file."""
    from h5py import h5o  # pyright: ignore[reportAttributeAccessIssue]

    return h5o.get_info(one.id).addr


def _text(value: Any) -> str:
    value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return value[:80] if isinstance(value, str) else ""


def _matlab_class(dataset: Any) -> str:
    return _text(dataset.attrs.get("MATLAB_class", ""))


def _unit(dataset: Any) -> str:
    for key in UNITS:
        if key in dataset.attrs:
            value = dataset.attrs[key]
            return _text(value.flat[0] if getattr(value, "size", 0) == 1 and hasattr(value, "flat") else value)
    return ""


def _described(name: str, about: dict[str, Any]) -> dict[str, Any]:
    first, *others = about["datasets"]
    if any(one.shape != first.shape or one.dtype != first.dtype for one in others):
        raise ValueError(f"'{name}' has not the same shape in all samples")
    for one in about["datasets"]:
        if one.nbytes > max(2**20, UNPACKED * one.id.get_storage_size()):
            raise ValueError(f"'{name}' claims shape {one.shape}, far more than it holds")
    shape = [len(others) + 1, *first.shape] if about.get("stacked") else list(first.shape)
    type_ = "f4" if first.dtype.kind == "f" and first.dtype.itemsize <= 4 else "f8"
    said = {"name": name, "shape": shape, "type": type_, "unit": _unit(first), "axes": about["axes"]}
    return {**said, "turned": True} if _matlab_class(first) else said  # MATLAB counts the first axis fastest


def _write(dataset: Any, out: Any) -> None:
    """In pieces along the first axis, in the machine's own order of bytes."""
    import numpy as np

    kind = np.float32 if dataset.dtype.kind == "f" and dataset.dtype.itemsize <= 4 else np.float64
    if not dataset.shape:
        out.write(np.asarray(dataset[()], kind).tobytes())
        return
    rows = max(1, PIECE // max(1, 8 * math.prod(dataset.shape[1:])))
    fill = dataset.fillvalue if "_FillValue" in dataset.attrs else None
    for first in range(0, dataset.shape[0], rows):
        piece = dataset[first : first + rows]
        values = piece.astype(kind)
        if fill is not None:
            values[piece == fill] = np.nan  # netCDF's mark of a missing value
        out.write(_unpacked(dataset, values).tobytes())


def _unpacked(dataset: Any, values: Any) -> Any:
    """netCDF's packed values: scale_factor times them, plus add_offset."""
    for key, act in (("scale_factor", values.__imul__), ("add_offset", values.__iadd__)):
        if key in dataset.attrs:
            act(float(dataset.attrs[key].flat[0] if hasattr(dataset.attrs[key], "flat") else dataset.attrs[key]))
    return values


# -- layouts -------------------------------------------------------------------------------------------------


def _plain(arrays: dict[str, Any]) -> dict[str, Any]:
    """Any other file; netCDF's dimension scales and PDEBench's coordinates name axes."""
    by_length = {f"{axis}-coordinate": axis for axis in (*BOX, "t")}
    pdebench = any(name in by_length for name in arrays)
    found = {}
    for name, dataset in arrays.items():
        axes = [""] * dataset.ndim
        if pdebench and name in by_length:
            axes = [by_length[name]]
        elif pdebench and dataset.ndim >= 3:
            axes = ["record", "t", *BOX, "channel"][: dataset.ndim]
        else:
            axes = _scales(dataset, name)
        found[name] = {"datasets": [dataset], "axes": axes}
    return found


def _scales(dataset: Any, name: str) -> list[str]:
    if dataset.is_scale:
        return [name.rpartition("/")[2]]
    if "DIMENSION_LIST" not in dataset.attrs:  # h5py would look through the whole file
        return [""] * dataset.ndim
    said = []
    for dimension in dataset.dims:
        scales = list(dimension.values())
        said.append(scales[0].name.rpartition("/")[2] if scales else "")
    return said


def _samples(arrays: dict[str, Any]) -> dict[str, Any]:
    """PDEBench's one group for each sample, 0000/data (t, x, ..., channel) with 0000/grid/x and 0000/grid/t."""
    groups = sorted({match[1] for name in arrays if (match := re.fullmatch(r"(\d+)/data", name))})
    if not groups:
        return {}
    first = groups[0]
    found = {}
    for axis in ("t", *BOX):
        if (name := f"{first}/grid/{axis}") in arrays:
            found[axis] = {"datasets": [arrays[name]], "axes": [axis]}
    space = [axis for axis in BOX if axis in found]
    datasets = [arrays[f"{group}/data"] for group in groups]
    axes = ["record", "t", *space, "channel"]
    found["data"] = {"datasets": datasets, "axes": axes[: datasets[0].ndim + 1], "stacked": True}
    return found


def _the_well(file: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Fields t0_fields/NAME (record, time, *space), and of vectors, t1_fields/NAME (record, time, *space, channel)."""
    if "dimensions" not in file or not any(name.startswith("t0_fields/") for name in arrays):
        return {}
    said = file["dimensions"].attrs.get("spatial_dims", [])
    space = [_text(one) for one in (said.flat if hasattr(said, "flat") else said)]
    found = {}
    for name, dataset in arrays.items():
        group, _, field = name.rpartition("/")
        if group == "dimensions":
            axes = ["record"] * bool(dataset.attrs.get("sample_varying", False)) + [field]
            found[field] = {"datasets": [dataset], "axes": (axes + [""] * AXES)[: dataset.ndim]}
        elif group in ("t0_fields", "t1_fields", "scalars", "boundary_conditions"):
            varies = dataset.attrs.get("dim_varying", [True] * len(space))
            axes = ["record"] * bool(dataset.attrs.get("sample_varying", False))
            axes += ["time"] * bool(dataset.attrs.get("time_varying", False))
            axes += [axis for axis, there in zip(space, varies, strict=False) if there] * group.startswith("t")
            axes += ["channel"] * (group == "t1_fields")
            found[field] = {"datasets": [dataset], "axes": (axes + [""] * AXES)[: dataset.ndim]}
    return found
