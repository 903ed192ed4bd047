"""MATLAB's files up to version 7 and netCDF-3, read by the child process; both readers are scipy's."""

import os
from typing import Any

MOST, DEEPEST = 5_000, 8  # variables, structures inside one another
AT_ONCE = 2**22  # bytes handed over without being asked for
MISSING = "the package 'scipy' is missing: pip install tino[files]"


def warm_up() -> None:
    try:
        import scipy.io  # noqa: F401
    except ImportError:
        return


def _scipy() -> Any:
    try:
        import scipy.io
    except ImportError:
        raise ValueError(MISSING) from None
    return scipy.io


def read_mat(path: str, folder: str, names: list[str] | None) -> list[dict[str, Any]]:
    """Arrays of numbers by name, fields of structures as a.b, and cells {1, 2, ...} as records a{1}, a{2}, ..."""
    found: dict[str, Any] = {}
    for name, value in _scipy().loadmat(path, chars_as_strings=True).items():
        if not name.startswith("__"):
            _collect(name, value, found, 0)
    return _answer({name: (value, "", [""] * value.ndim) for name, value in found.items()}, folder, names)


def _collect(name: str, value: Any, found: dict[str, Any], depth: int) -> None:
    import numpy as np

    if depth > DEEPEST or len(found) > MOST:
        raise ValueError("it holds too many variables, or structures inside one another")
    if not isinstance(value, np.ndarray):
        value = value.toarray() if hasattr(value, "toarray") and value.shape[0] * value.shape[1] < 2**24 else None
    if value is None or not value.size:
        return
    if value.dtype.names:
        if value.size == 1:
            for field in value.dtype.names:
                _collect(f"{name}.{field}", value.flat[0][field], found, depth + 1)
    elif value.dtype.kind == "O":
        for number, one in enumerate(value.flat, 1):
            _collect(f"{name}{{{number}}}", one, found, depth + 1)
    elif value.dtype.kind in "fiub" and value.ndim <= 6:
        flat = value.ndim == 2 and 1 in value.shape  # MATLAB has no vectors
        found[name] = value.ravel() if flat else value


def read_netcdf(path: str, folder: str, names: list[str] | None) -> list[dict[str, Any]]:
    import numpy as np

    with _scipy().netcdf_file(path, "r", mmap=False, maskandscale=False) as file:
        found = {}
        for name, one in list(file.variables.items())[:MOST]:
            if one.data.dtype.kind not in "fiu" or not one.data.size:
                continue
            unit = getattr(one, "units", b"")
            unit = unit.decode("utf-8", "replace") if isinstance(unit, bytes) else ""
            values = one.data.astype("f8" if one.data.dtype.itemsize > 4 or one.data.dtype.kind != "f" else "f4")
            for key in ("_FillValue", "missing_value"):
                if hasattr(one, key):
                    values[one.data == np.asarray(getattr(one, key)).flat[0]] = np.nan
            values = values * float(getattr(one, "scale_factor", 1.0)) + float(getattr(one, "add_offset", 0.0))
            found[str(name)] = (values, unit[:80], [str(axis) for axis in one.dimensions])
    return _answer(found, folder, names)


def _answer(found: dict[str, Any], folder: str, names: list[str] | None) -> list[dict[str, Any]]:
    import numpy as np

    said: list[dict[str, Any]] = []
    few = sum(values.size for values, _, _ in found.values()) * 8 <= AT_ONCE
    for name, (values, unit, axes) in found.items():
        if names is not None and name not in names:
            continue
        type_ = "f4" if values.dtype.kind == "f" and values.dtype.itemsize <= 4 else "f8"
        one = {"name": name, "shape": list(values.shape), "type": type_, "unit": unit, "axes": axes}
        if names is not None or few:
            one["file"] = f"{len(said)}.raw"
            with open(os.path.join(folder, one["file"]), "wb") as out:
                out.write(np.ascontiguousarray(values, np.dtype(type_)).tobytes())
        said.append(one)
    return said
