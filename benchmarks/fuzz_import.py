"""Damaged and forged files of every kind that ``tino import`` reads: records, or an error of one line.

python benchmarks/fuzz_import.py                              # 10^5 files -> results/fuzz_import.json
python benchmarks/fuzz_import.py --mutations 1000 --out FILE  # as in the tests

These files carry no checksum of ours, so other numbers may be read from them. What must not happen is a crash, a hang,
an error of several lines, or memory above the bound. HDF5, netCDF and MATLAB files are read by tino's child process,
which forks for each; what its libraries do to that fork, tino must turn into one line.
"""

import json
import random
import resource
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import fuzz
import h5py
import numpy as np
import scipy.io
import torch
from fuzz import MEMORY, Target, changed_arrays, damaged_bytes, fingerprint, memory, outcome

from tino.importing.options import ImportOptions
from tino.importing.outside import OUTSIDE
from tino.importing.reading import understood

RESULTS = Path(__file__).parent / "results" / "fuzz_import.json"
N, T, X = 8, 24, 5  # records, times, points
CELLS = ["", "nan", "inf", "-1e308", "1e400", "0x1F", "1_0", "text", '"', "'", ",", ";", "\t", "\x00", "1,5", "∞", "#"]
CELLS += ["9" * 400, "1e-320", "--", "=1+1", "../../etc/passwd", "\u202e", "\r", "[m]", "t", "time"]


@dataclass(frozen=True)
class Asked:
    """What is asked of a file."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: ImportOptions = field(default_factory=ImportOptions)


STEP, FIELD, STATE = ImportOptions(dt=0.1), ImportOptions(points="x"), ImportOptions(ic=True)
FORCE = Asked(("force",), ("path",))
FILES: dict[str, Asked] = {
    "comma.csv": FORCE,
    "german.csv": FORCE,
    "spaces.txt": Asked(("2",), ("3",), ImportOptions(time="1", cut=True, fill=True)),
    "records.csv": Asked(("force",), ("path",), ImportOptions(record="run", resample=True)),
    "plain.npz": Asked(("f",), ("u",), FIELD),
    "packed.npz": Asked((), ()),
    "one.npy": Asked(("1",), ("2",), STEP),
    "plain.mat": Asked(("f",), ("s.u",), ImportOptions(axes=("f=time,record", "s.u=time,record"))),
    "packed.mat": Asked(("f",), ("u",), STEP),
    "plain.h5": Asked(("f",), ("u",), FIELD),
    "packed.h5": Asked(("a/f",), ("a/u",), ImportOptions(points="x", drop=True)),
    "tensor.h5": Asked((), (), STATE),
    "samples.h5": Asked((), (), STATE),
    "well.h5": Asked(("p",), ("v",)),
    "four.nc": Asked(("f",), ("u",)),
    "three.nc": Asked(("f",), ("u",)),
}


def make(folder: Path) -> None:
    """One file of each kind: noise, and its sum over time."""
    folder.mkdir(parents=True)
    chance = np.random.default_rng(0)
    f, t, x = chance.normal(size=(N, T)), 0.1 * np.arange(T), np.linspace(0, 1, X)
    u = np.cumsum(f, 1)[..., None] * (1 + x)
    long = np.stack([0.1 * np.arange(N * T), f.ravel(), u[..., 0].ravel()], 1)
    head = "time [s],force [N],path (mm)"
    np.savetxt(folder / "comma.csv", long, "%.6g", ",", header=head, comments="")
    german = "\n".join(";".join(f"{v:.5g}".replace(".", ",") for v in row) for row in long)
    (folder / "german.csv").write_text(f"{head.replace(',', ';')}\n{german}\n", encoding="latin-1")
    np.savetxt(folder / "spaces.txt", long, "%.6g")
    rows = np.stack([np.repeat(np.arange(N), T), np.tile(t, N), f.ravel(), u[..., 0].ravel()], 1)
    np.savetxt(folder / "records.csv", rows, "%.6g", "\t", header="run\ttime\tforce\tpath", comments="")
    arrays: dict[str, Any] = {"f": f, "u": u, "t": t}
    np.savez(folder / "plain.npz", **arrays, x=x)
    np.savez_compressed(folder / "packed.npz", **{**arrays, "u": u[..., 0]})
    np.save(folder / "one.npy", np.stack([f, u[..., 0]], 2))
    scipy.io.savemat(folder / "plain.mat", {"f": f.T, "t": t[:, None], "s": {"u": u[..., 0].T, "name": "rig"}})
    cells = [np.empty(N, object) for _ in range(2)]
    for i in range(N):
        cells[0][i], cells[1][i] = f[i, : T - i, None], u[i, : T - i, :1]
    scipy.io.savemat(folder / "packed.mat", {"f": cells[0], "u": cells[1]}, do_compression=True)
    _make_hdf5(folder, f, u, t, x)
    with scipy.io.netcdf_file(folder / "three.nc", "w") as file:
        for name, size in (("record", N), ("time", T), ("x", X)):
            file.createDimension(name, size)
        for name, values, axes in (("time", t, ("time",)), ("x", x, ("x",)), ("f", f, ("record", "time"))):
            file.createVariable(name, "d", axes)[:] = values
        file.createVariable("u", "d", ("record", "time", "x"))[:] = u
        file.variables["u"].units = "mm"


def _make_hdf5(folder: Path, f: np.ndarray, u: np.ndarray, t: np.ndarray, x: np.ndarray) -> None:
    with h5py.File(folder / "plain.h5", "w") as file:
        for name, values in (("f", f), ("u", u), ("t", t), ("x", x)):
            file[name] = values
        file["f"].attrs["units"] = "N"
    with h5py.File(folder / "packed.h5", "w", libver="latest") as file:
        for name, values in (("a/f", f), ("a/u", u)):
            file.create_dataset(name, data=values, chunks=True, compression="gzip", shuffle=True, fletcher32=True)
        file["a/t"], file["x"] = t, x
        file["a/again"] = h5py.SoftLink("/a/f")
    with h5py.File(folder / "tensor.h5", "w") as file:
        file["tensor"], file["x-coordinate"], file["t-coordinate"] = u.astype("f4"), x, 0.1 * np.arange(T + 1)
    with h5py.File(folder / "samples.h5", "w") as file:
        for i in range(N):
            file[f"{i:04d}/data"], file[f"{i:04d}/grid/x"], file[f"{i:04d}/grid/t"] = u[i, ..., None], x, t
    with h5py.File(folder / "well.h5", "w") as file:
        file["dimensions/time"], file["dimensions/x"] = t, x
        file["dimensions"].attrs["spatial_dims"] = ["x"]
        file["t0_fields/p"], file["t1_fields/v"] = u, np.stack([u, -u], -1)
        for name in ("t0_fields/p", "t1_fields/v"):
            file[name].attrs.update(sample_varying=True, time_varying=True, dim_varying=[True])
    with h5py.File(folder / "four.nc", "w") as opened:
        file: Any = opened
        for name, values in (("record", np.arange(N)), ("time", t), ("x", x)):
            file[name] = values
            file[name].make_scale(name)
        for name, values, axes in (("f", f, ("record", "time")), ("u", u, ("record", "time", "x"))):
            file[name] = values
            for i, axis in enumerate(axes):
                file[name].dims[i].attach_scale(file[axis])


def read(name: str, path: Path) -> Any:
    asked = FILES[name]
    return understood([path], asked.inputs, asked.outputs, (), asked.options, 0)


TARGETS = [Target(name, (name,), partial(read, name), forged=True) for name in FILES]


def changed_cells(chance: random.Random, raw: bytes) -> bytes:
    """A few cells, or lines."""
    lines = raw.decode("latin-1").split("\n")
    for _ in range(chance.choice((1, 1, 2, 5))):
        i = chance.randrange(len(lines))
        mark = next((sign for sign in (";", "\t", ",", " ") if sign in lines[i]), ",")
        cells = lines[i].split(mark)
        cells[chance.randrange(len(cells))] = chance.choice(CELLS)
        lines[i] = chance.choice((mark.join(cells), mark.join(cells[::-1]), mark.join(cells[:-1]), lines[i - 1]))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def changed(chance: random.Random, name: str, raw: bytes) -> bytes:
    if chance.random() < 0.5 and name.endswith((".csv", ".txt")):
        return changed_cells(chance, raw)
    if chance.random() < 0.5 and name.endswith(".npz"):
        return changed_arrays(chance, raw, True)
    return damaged_bytes(chance, raw)


def work(folder: Path, seed: int, first: int, last: int, step: int) -> None:
    """Print a line for each file: its number, how it ended, the memory it took here or in the fork, and the error."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    whole = {target.name: fingerprint(target.read(folder / target.name)) for target in TARGETS}
    idle, limit = memory("VmHWM"), memory("VmSize") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, last, step):
        print(json.dumps([number]), flush=True)
        target = TARGETS[number % len(TARGETS)]
        path, raw = folder / target.name, (folder / target.name).read_bytes()
        path.write_bytes(changed(random.Random(f"{seed} {number}"), target.name, raw))
        how, said = outcome(target, path, whole[target.name])
        if "its library crashed" in said:  # seen, and turned into one line
            how = "refused"
        path.write_bytes(raw)
        taken = max(memory("VmHWM") - idle, OUTSIDE.most)
        line = [number, "memory" if taken > MEMORY else how, taken, f"{target.name}: {said[:300]}"]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    run = partial(fuzz.fuzz, targets=TARGETS, make=make, script=__file__)
    fuzz.main(__doc__, RESULTS, work, run)
