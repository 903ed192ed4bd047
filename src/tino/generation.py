"""Dataset generation: chunks are solved and saved one by one, then joined into one file.

Each sample has its own random stream and each chunk a fixed size, so the data do not depend on how the work was split.
A killed run resumes where it stopped, and shards may run in several processes or on several machines that share a
cache folder. Memory use does not grow with the number of samples.
"""

import hashlib
import json
import os
import shutil
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch

from tino.data import Dataset
from tino.devices import pick_device
from tino.errors import TinoError, TinoWarning, of_kind
from tino.files import STAMP, check_stamp, check_writable, read_json, stamp, whole_file, write_json
from tino.problems import Problem
from tino.problems.refinement import BOUND, Refinement, find_refinement, has_known_accuracy, work
from tino.progress import Advance, progress
from tino.storage import DATA_FORMAT, SPLITS, load_dataset, new_file, read_record

OFTEN = 20  # output times between two reports of progress, unless a second has passed


def cache_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The given folder, else $TINO_CACHE, else tino's folder in the user's cache."""
    if folder is None:
        folder = os.environ.get("TINO_CACHE") or None
    if folder is None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "tino"
    if not isinstance(folder, str | os.PathLike) or not str(folder):
        raise TinoError(f"cache is {folder!r}, expected the name of a folder")
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
    """The training and test sets of a problem: generated once, then read from the cache."""
    path = generate(problem, seed, train, test, cache, device, show_progress)
    assert path is not None  # a single shard makes the whole file
    try:
        return load_dataset(path)
    except TinoError as error:
        _forget(path, str(error))
        generate(problem, seed, train, test, cache, device, show_progress)
        return load_dataset(path)


def generate(
    problem: Problem,
    seed: int = 0,
    train: int = 1000,
    test: int = 200,
    cache: str | os.PathLike[str] | None = None,
    device: torch.device | str = "cpu",
    show_progress: bool = True,
    shard: tuple[int, int] = (1, 1),
) -> Path | None:
    """Generate the dataset's file unless it exists -> its path. A damaged one is made again, with a warning.

    If the accuracy is not known (a user's own problem, other coefficients), two samples are solved with finer and finer
    points and steps first. All samples are then solved as finely as these two need, and the record says how finely.

    With ``shard=(i, n)``, make only every n-th chunk, starting with the i-th. The shard that finds all chunks complete
    joins them into the file; the others return None.
    """
    if not isinstance(problem, Problem):
        raise TinoError(f"a dataset is made from a problem, got {problem!r}: pass tino.problem({problem!r})")
    train, test = of_kind(train, int, "train"), of_kind(test, int, "test")
    seed = of_kind(seed, int, "seed")
    if train < 1 or test < 1:
        raise TinoError(f"a dataset needs at least one training and one test pair, got {train} and {test}")
    if not 0 <= seed < 2**63:
        raise TinoError(f"the seed must be 0 or more (and below 2^63), got {seed}")
    if not (isinstance(shard, tuple) and len(shard) == 2):
        raise TinoError(f"the shard is {shard!r}, expected (i, n)")
    if not 1 <= shard[0] <= shard[1]:
        raise TinoError(f"the shard is {shard[0]}/{shard[1]}, expected i/n with 1 <= i <= n")
    _check_memory(problem, max(train, test))
    for caution in problem.cautions():
        warnings.warn(f"{problem.name}: {caution}", TinoWarning, stacklevel=3)
    asked: dict[str, Any] = {"format": DATA_FORMAT, **problem.record(), "seed": seed, "train": train, "test": test}
    known = has_known_accuracy(problem)
    text = json.dumps(asked if known else {**asked, "error_bound": BOUND})
    request = json.loads(text)  # as it will be read back from the file
    mark = hashlib.sha256(text.encode()).hexdigest()[:10]
    path = cache_folder(cache) / f"{problem.name}-{train}+{test}-seed{seed}-{mark}.h5"
    folder = path.with_suffix(".chunks")
    if path.exists():
        try:
            held = read_record(path)
            if {key: held.get(key) for key in request} != request:
                raise TinoError(f"{path} does not hold the data its name says")
            found = None if known else _read_refinement(path, held.get("refinement"))
        except TinoError as error:
            _forget(path, str(error))
        else:
            shutil.rmtree(folder, ignore_errors=True)
            if found and found.error > BOUND:
                warnings.warn(f"{problem.name}: {found}", TinoWarning, stacklevel=3)
            return path
    _check_disk(problem, train + test, path.parent)
    chunks = list(_chunks(problem, folder, {"train": train, "test": test}))
    mine = [chunk for i, chunk in enumerate(chunks) if i % shard[1] == shard[0] - 1]
    try:
        device, refine = pick_device(device), 1
        if not known:
            found = _refinement(problem, folder / "refinement.json", device, show_progress)
            request, refine = {**request, "refinement": asdict(found)}, found.refine
            if found.refine > 1 or found.error > BOUND:
                warnings.warn(f"{problem.name}: {found}", TinoWarning, stacklevel=3)
        _make(problem, seed, mine, refine, device, show_progress)
        if all(chunk.path.exists() for chunk in chunks):
            _join(path, problem, request, chunks, show_progress)
    except TinoError:
        if not path.exists():  # otherwise another process joined the file and removed the chunks meanwhile
            raise
    if not path.exists():
        return None  # other shards are still running
    shutil.rmtree(folder, ignore_errors=True)
    return path


def _refinement(problem: Problem, path: Path, device: torch.device, show: bool) -> Refinement:
    """How finely to solve: measured once, then read from the file, so that all chunks and shards agree."""
    if not path.exists():
        with progress(f"choosing the steps of {problem.name}", work(problem), show) as advance:
            write_json(path, asdict(find_refinement(problem, device, advance)))
    return _read_refinement(path, read_json(path))


def _read_refinement(path: Path, record: Any) -> Refinement:
    try:
        return Refinement(int(record["refine"]), float(record["error"]), float(record["unrefined"]))
    except (KeyError, TypeError, ValueError) as error:
        raise TinoError(f"{path} has a damaged record: delete it and generate it again") from error


def _check_memory(problem: Problem, trajectories: int) -> None:
    """An error before anything is allocated, if not even the inputs and outputs of one chunk fit into memory."""
    numbers = problem.time.n * (problem.inputs.size + problem.outputs.size) * min(problem.chunk, trajectories)
    needed, there = 12 * numbers, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # 8 to solve, 4 to save
    if needed > there:
        grids = f"{problem.time.n} times, {problem.inputs.size} + {problem.outputs.size} points"
        sizes = f"{needed / 2**30:.3g} GiB of memory, this machine has {there / 2**30:.3g}"
        raise TinoError(f"{problem.name} with {grids} needs {sizes}: use fewer points")


def _check_disk(problem: Problem, trajectories: int, folder: Path) -> None:
    """An error before anything is solved, if the folder cannot be written to or its disk cannot hold the data."""
    check_writable(folder)
    n_t = problem.time.n if problem.windows is None else problem.windows.count * problem.windows.length
    needed = 2 * 4 * n_t * (problem.inputs.size + problem.outputs.size) * trajectories  # chunks, and the file
    nearest = next(place for place in (folder, *folder.resolve().parents) if place.exists())
    free = shutil.disk_usage(nearest).free
    if needed > free:
        sizes = f"{needed / 2**30:.3g} GiB, {free / 2**30:.3g} GiB are free; use fewer points or pairs"
        raise TinoError(f"{folder} has no room for {trajectories} pairs of {problem.name}: they need {sizes}")


def _forget(path: Path, reason: str) -> None:
    """Remove a file that the cache cannot use, with a warning."""
    warnings.warn(f"{reason}; it is made again now", TinoWarning, stacklevel=4)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise TinoError(f"cannot remove {path}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Chunk:
    """Some trajectories of one split, and the file that holds them until the dataset is joined."""

    path: Path
    split: str
    indices: range


def _chunks(problem: Problem, folder: Path, counts: dict[str, int]) -> Iterator[Chunk]:
    for split, n in counts.items():
        for first in range(0, n, problem.chunk):
            indices = range(first, min(first + problem.chunk, n))
            yield Chunk(folder / f"{split}-{first:07d}.safetensors", split, indices)


def _make(problem: Problem, seed: int, chunks: list[Chunk], refine: int, device: torch.device, show: bool) -> None:
    """Solve the missing chunks. On a CPU, each core works on its own chunk with one thread."""
    todo = [chunk for chunk in chunks if not chunk.path.exists()]
    if not todo:
        return
    stop = threading.Event()
    label = f"generating {problem.name}" + (" (resumed)" if len(todo) < len(chunks) else "")
    with progress(label, sum(len(chunk.indices) for chunk in todo), show) as advance:
        if device.type != "cpu":
            for chunk in todo:
                _solve(problem, seed, chunk, refine, device, advance, stop)
            return
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        workers = threads if problem.outputs.size > 1 else 1  # ODE solvers are mostly overhead
        pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
        try:
            jobs = [pool.submit(_solve, problem, seed, chunk, refine, device, advance, stop) for chunk in todo]
            done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
            for job in done:
                job.result()
        finally:
            stop.set()  # on Ctrl-C or an error in one chunk, the others end at their next output time
            pool.shutdown(wait=True, cancel_futures=True)
            torch.set_num_threads(threads)


def _solve(
    problem: Problem,
    seed: int,
    chunk: Chunk,
    refine: int,
    device: torch.device,
    advance: Advance,
    stop: threading.Event,
) -> None:
    """Draw forcings, solve, cut into windows if the problem has them, and save the chunk."""
    forcing = problem.law.sample(seed, SPLITS.index(chunk.split), chunk.indices).to(device)
    part, ticks, told, last = forcing.batch / (problem.time.n - 1), 0, 0, time.monotonic()

    def tick() -> None:
        nonlocal ticks, told, last
        if stop.is_set():
            raise TinoError("stopped")
        ticks += 1
        if ticks < problem.time.n and (ticks - told >= OFTEN or time.monotonic() - last > 1):
            advance((ticks - told) * part)
            told, last = ticks, time.monotonic()

    with torch.no_grad():
        f, u = problem.sensors(forcing), problem.solve(forcing, refine, tick)
    if not bool(torch.isfinite(u).all()):
        first = chunk.indices[0]
        raise TinoError(f"the reference solution of {problem.name} is not finite, in the chunk from sample {first}")
    arrays = {"f": f, "u": u}
    if (windows := problem.windows) is not None:
        cuts = [slice(s, s + windows.length) for s in windows.starts()]
        arrays = {name: torch.stack([a[:, cut] for cut in cuts], 1).flatten(0, 1) for name, a in arrays.items()}
        arrays["ic"] = arrays["u"][:, 0]
    kept = {name: np.ascontiguousarray(a.float().cpu().numpy()) for name, a in arrays.items()}
    with whole_file(chunk.path) as partial:
        partial.write_bytes(safetensors.numpy.save(kept, STAMP))
        with open(partial, "rb+") as file:
            stamp(file)
    advance(forcing.batch - told * part)


def _join(path: Path, problem: Problem, request: dict[str, Any], chunks: list[Chunk], show: bool) -> None:
    """Write all chunks into one file."""
    samples = 1 if problem.windows is None else problem.windows.count  # per trajectory
    shapes: dict[str, tuple[int, ...]] = {
        "f": (problem.sample_time.n, problem.inputs.size),
        "u": (problem.sample_time.n, problem.outputs.size),
    }
    if problem.windows is not None:
        shapes["ic"] = (problem.outputs.size,)
    digest = hashlib.sha256()
    with new_file(path) as (file, record), progress("joining", len(chunks), show) as advance:
        arrays = {
            split: {k: file.create_dataset(f"{split}/{k}", (n * samples, *s), "f4") for k, s in shapes.items()}
            for split, n in ((split, request[split]) for split in SPLITS)
        }
        for chunk in chunks:
            for name, values in _read(chunk).items():
                first = chunk.indices[0] * samples
                arrays[chunk.split][name][first : first + len(values)] = values
            forcing = problem.law.sample(request["seed"], SPLITS.index(chunk.split), chunk.indices)
            for values in forcing.params.values():
                digest.update(values.numpy().tobytes())
            advance(1)
        # the same on every machine, unlike the checksum of the arrays: a GPU rounds differently
        record |= {**request, "parameters_sha256": digest.hexdigest()}


def _read(chunk: Chunk) -> dict[str, np.ndarray]:
    check_stamp(chunk.path, "delete it and generate again")
    try:
        return safetensors.numpy.load_file(chunk.path)
    except (OSError, safetensors.SafetensorError) as error:
        raise TinoError(f"{chunk.path} is damaged: delete it and generate again") from error
