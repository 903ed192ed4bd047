"""Datasets: generated once from a problem and a seed, kept in an HDF5 cache, checked when read.

A file holds ``train`` and ``test`` groups with contiguous float32 arrays ``f`` (n, t, m) and ``u`` (n, t, x),
and one JSON record in the attribute ``tino`` with everything that determined them.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from tino.errors import TinoError
from tino.files import whole_file
from tino.grids import Grid, TimeGrid, grid_from_record
from tino.problems import Problem
from tino.progress import progress
from tino.version import VERSION

FORMAT = 1  # of the file; a change of layout raises it
SPLITS = ("train", "test")


@dataclass(frozen=True)
class Dataset:
    """Pairs on fixed grids: f (n, t, m) -> u (n, t, x), with initial states ic (n, k) or without."""

    f: Tensor
    u: Tensor
    time: TimeGrid
    inputs: Grid
    outputs: Grid
    ic: Tensor | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.f, Tensor) or not isinstance(self.u, Tensor):
            given = f"{type(self.f).__name__} and {type(self.u).__name__}"
            raise TinoError(f"f and u must be torch tensors, got {given}: wrap arrays in torch.as_tensor")
        check_input(self.f, self.time, self.inputs, "f")
        check_values(self.u, "u")
        expected = (self.f.shape[0], self.time.n, self.outputs.size)
        if tuple(self.u.shape) != expected:
            raise TinoError(
                f"u has shape {tuple(self.u.shape)}, expected {expected} = (samples, times, points)"
            )
        if self.ic is not None:
            check_values(self.ic, "ic")
            if self.ic.ndim != 2 or self.ic.shape[0] != self.f.shape[0]:
                raise TinoError(
                    f"ic has shape {tuple(self.ic.shape)}, expected ({self.f.shape[0]}, state size)"
                )

    def __len__(self) -> int:
        return self.f.shape[0]

    @property
    def name(self) -> str:
        """The problem it came from, or 'own data'."""
        return str(self.meta.get("problem", "own data"))

    def take(self, samples: slice) -> "Dataset":
        """Some of the samples."""
        ic = None if self.ic is None else self.ic[samples]
        return replace(self, f=self.f[samples], u=self.u[samples], ic=ic)


def check_values(values: Tensor, name: str) -> None:
    """Floating point, at least one sample, no NaN or inf."""
    if not values.is_floating_point():
        raise TinoError(f"{name} has dtype {values.dtype}, expected a floating type such as torch.float32")
    if values.shape[:1] == (0,):
        raise TinoError(f"{name} holds no samples")
    finite = torch.isfinite(values.flatten(1)).all(1) if values.ndim > 1 else torch.isfinite(values)
    if not bool(finite.all()):
        bad = int((~finite).sum())
        first = int((~finite).nonzero()[0])
        raise TinoError(
            f"{name} has NaN or infinite values in {bad} of {len(values)} samples, first in {first}"
        )


def check_input(f: Tensor, time: TimeGrid, inputs: Grid, name: str = "f") -> None:
    """A forcing at the border: (n, t, m) on the given grids, finite."""
    if f.ndim != 3:
        raise TinoError(
            f"{name} has shape {tuple(f.shape)}, expected (samples, {time.n} times, {inputs.size} sensors)"
        )
    if f.shape[2] != inputs.size:
        raise TinoError(f"{name} has {f.shape[2]} sensors, expected {inputs.size}")
    if f.shape[1] != time.n:
        raise TinoError(f"{name} has {f.shape[1]} times, expected {time.n}")
    check_values(f, name)


def cache_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The given folder, else $TINO_CACHE, else tino's place in the user's cache."""
    if folder is None:
        folder = os.environ.get("TINO_CACHE")
    if folder is None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "tino"
    return Path(folder).expanduser()


def dataset(
    problem: Problem,
    seed: int = 0,
    train: int = 1000,
    test: int = 200,
    cache: str | os.PathLike[str] | None = None,
    device: torch.device | str = "cpu",
    show_progress: bool = True,
) -> tuple[Dataset, Dataset]:
    """The training and the test set of a problem: generated once, then read from the cache."""
    path = generate(problem, seed, train, test, cache, device, show_progress)
    return load_dataset(path)


def generate(
    problem: Problem,
    seed: int = 0,
    train: int = 1000,
    test: int = 200,
    cache: str | os.PathLike[str] | None = None,
    device: torch.device | str = "cpu",
    show_progress: bool = True,
) -> Path:
    """Make the dataset's file unless it is there already, and return its path."""
    if train < 1 or test < 1:
        raise TinoError(f"a dataset needs at least one training and one test pair, got {train} and {test}")
    if seed < 0:
        raise TinoError(f"the seed must be 0 or more, got {seed}")
    text = json.dumps({"format": FORMAT, **problem.record(), "seed": seed, "train": train, "test": test})
    request = json.loads(text)  # as a file gives it back
    mark = hashlib.sha256(text.encode()).hexdigest()[:10]
    path = cache_folder(cache) / f"{problem.name}-{train}+{test}-seed{seed}-{mark}.h5"
    if path.exists():
        held = read_record(path)
        if {key: held.get(key) for key in request} != request:
            raise TinoError(f"{path} holds other data than its name says; move it away to generate it anew")
        return path
    _write(path, problem, request, torch.device(device), show_progress)
    return path


def _write(path: Path, problem: Problem, request: dict[str, Any], device: torch.device, show: bool) -> None:
    counts = {split: int(request[split]) for split in SPLITS}
    steps = sum(counts.values())
    label = f"generating {problem.name}"
    with whole_file(path) as part, h5py.File(part, "w") as file, progress(label, steps, show) as advance:
        for split, n in counts.items():
            group = file.create_group(split)
            shapes = {"f": problem.inputs.size, "u": problem.outputs.size}
            arrays = {k: group.create_dataset(k, (n, problem.time.n, m), "f4") for k, m in shapes.items()}
            for first, f, u in _solve_chunks(
                problem, request["seed"], SPLITS.index(split), n, device, advance
            ):
                arrays["f"][first : first + len(f)] = f
                arrays["u"][first : first + len(u)] = u
        record = {**request, "version": VERSION, "checksum": _checksum(file)}
        file.attrs["tino"] = json.dumps(record, ensure_ascii=False)


def _solve_chunks(
    problem: Problem, seed: int, split: int, n: int, device: torch.device, advance: Any
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Chunks (first index, f, u) in order. On a CPU every core solves a chunk of its own with one thread:
    a solver is a long row of small operations, on which threads that wait for each other only lose time."""

    size = chunk_size(problem)

    def chunk(first: int) -> tuple[int, np.ndarray, np.ndarray]:
        forcing = problem.law.sample(seed, split, range(first, min(first + size, n))).to(device)
        part = forcing.batch / (problem.time.n - 1)
        ticks = 0

        def tick() -> None:
            nonlocal ticks
            ticks += 1
            if ticks % 20 == 0:
                advance(20 * part)

        with torch.no_grad():
            f, u = problem.sensors(forcing), problem.solve(forcing, advance=tick)
        advance(forcing.batch - (ticks // 20) * 20 * part)
        if not bool(torch.isfinite(u).all()):
            raise TinoError(
                f"the reference solution of {problem.name} is not finite in samples {first} and on"
            )
        return first, f.float().cpu().numpy(), u.float().cpu().numpy()

    starts = range(0, n, size)
    if device.type != "cpu":
        yield from map(chunk, starts)
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    workers = threads if problem.outputs.size > 1 else 1  # time-only solvers are all overhead: no gain in two
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(chunk, starts)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(threads)


def chunk_size(problem: Problem) -> int:
    """Samples solved together: fixed for a problem, so that the bytes do not depend on how a set is made."""
    return max(1, min(1000, 12_800 // problem.outputs.size))


def _arrays(file: h5py.File) -> dict[str, dict[str, h5py.Dataset]]:
    """The arrays of each split, by name."""
    groups: Any = file  # h5py's types say little about what a file holds
    return {split: {name: groups[split][name] for name in sorted(groups[split])} for split in SPLITS}


def _checksum(file: h5py.File) -> str:
    digest = hashlib.sha256()
    for arrays in _arrays(file).values():
        for array in arrays.values():
            for first in range(0, len(array), 64):
                digest.update(array[first : first + 64])
    return digest.hexdigest()


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The metadata record of a dataset file, without reading its arrays."""
    with _open(Path(path)) as (_, record):
        return record


def load_dataset(path: str | os.PathLike[str]) -> tuple[Dataset, Dataset]:
    """Read and check a dataset file -> (train, test)."""
    with _open(Path(path)) as (file, record):
        if _checksum(file) != record["checksum"]:
            raise TinoError(f"{path} is damaged (its checksum differs): delete it and generate it again")
        arrays = {s: {k: torch.from_numpy(a[...]) for k, a in v.items()} for s, v in _arrays(file).items()}
    time = TimeGrid(**record["time"])
    inputs, outputs = grid_from_record(record["inputs"]), grid_from_record(record["outputs"])
    train, test = (
        Dataset(a["f"], a["u"], time, inputs, outputs, a.get("ic"), {**record, "split": split})
        for split, a in arrays.items()
    )
    return train, test


@contextmanager
def _open(path: Path) -> Iterator[tuple[h5py.File, dict[str, Any]]]:
    """The file and its record; whatever is wrong with it is said in one line."""
    if not path.is_file():
        raise TinoError(f"no dataset file {path}")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise TinoError(f"{path} is not a whole HDF5 file (cut short or foreign): move it away") from error
    with file:
        try:
            record = json.loads(str(file.attrs["tino"]))
            found = record["format"]
        except (KeyError, ValueError, TypeError, OSError) as error:
            raise TinoError(f"{path} is an HDF5 file, but not a dataset of tino's: move it away") from error
        if found != FORMAT:
            raise TinoError(f"{path} has dataset format {found}, this version reads format {FORMAT}")
        try:
            yield file, record
        except (OSError, KeyError) as error:
            raise TinoError(f"{path} is damaged ({error}): delete it and generate it again") from error
