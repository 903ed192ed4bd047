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
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch

from tino.data import DATA_FORMAT, SPLITS, Dataset, load_dataset, new_file, read_record
from tino.devices import pick_device
from tino.errors import TinoError, TinoWarning
from tino.files import STAMP, check_stamp, stamp, whole_file
from tino.problems import Problem
from tino.progress import Advance, progress


def cache_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The given folder, else $TINO_CACHE, else tino's folder in the user's cache."""
    if folder is None:
        folder = os.environ.get("TINO_CACHE") or None
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

    With ``shard=(i, n)``, make only every n-th chunk, starting with the i-th. The shard that finds all chunks complete
    joins them into the file; the others return None.
    """
    if not isinstance(problem, Problem):
        raise TinoError(f"a dataset is made from a problem, got {problem!r}: pass tino.problem({problem!r})")
    if train < 1 or test < 1:
        raise TinoError(f"a dataset needs at least one training and one test pair, got {train} and {test}")
    if not 0 <= seed < 2**63:
        raise TinoError(f"the seed must be 0 or more (and below 2^63), got {seed}")
    if not 1 <= shard[0] <= shard[1]:
        raise TinoError(f"the shard is {shard[0]}/{shard[1]}, expected i/n with 1 <= i <= n")
    for caution in problem.cautions():
        warnings.warn(f"{problem.name}: {caution}", TinoWarning, stacklevel=3)
    text = json.dumps({"format": DATA_FORMAT, **problem.record(), "seed": seed, "train": train, "test": test})
    request = json.loads(text)  # as it will be read back from the file
    mark = hashlib.sha256(text.encode()).hexdigest()[:10]
    path = cache_folder(cache) / f"{problem.name}-{train}+{test}-seed{seed}-{mark}.h5"
    folder = path.with_suffix(".chunks")
    if path.exists():
        try:
            held = read_record(path)
            if {key: held.get(key) for key in request} != request:
                raise TinoError(f"{path} does not hold the data its name says")
            shutil.rmtree(folder, ignore_errors=True)
            return path
        except TinoError as error:
            _forget(path, str(error))
    chunks = list(_chunks(problem, folder, {"train": train, "test": test}))
    mine = [chunk for i, chunk in enumerate(chunks) if i % shard[1] == shard[0] - 1]
    try:
        _make(problem, seed, mine, pick_device(device), show_progress)
        if all(chunk.path.exists() for chunk in chunks):
            _join(path, problem, request, chunks, show_progress)
    except TinoError:
        if not path.exists():  # otherwise another process joined the file and removed the chunks meanwhile
            raise
    if not path.exists():
        return None  # other shards are still running
    shutil.rmtree(folder, ignore_errors=True)
    return path


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


def _make(problem: Problem, seed: int, chunks: list[Chunk], device: torch.device, show: bool) -> None:
    """Solve the missing chunks. On a CPU, each core works on its own chunk with one thread."""
    todo = [chunk for chunk in chunks if not chunk.path.exists()]
    if not todo:
        return
    stop = threading.Event()
    label = f"generating {problem.name}" + (" (resumed)" if len(todo) < len(chunks) else "")
    with progress(label, sum(len(chunk.indices) for chunk in todo), show) as advance:
        if device.type != "cpu":
            for chunk in todo:
                _solve(problem, seed, chunk, device, advance, stop)
            return
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        workers = threads if problem.outputs.size > 1 else 1  # ODE solvers are mostly overhead
        pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
        try:
            jobs = [pool.submit(_solve, problem, seed, chunk, device, advance, stop) for chunk in todo]
            done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
            for job in done:
                job.result()
        finally:
            stop.set()  # on Ctrl-C or an error in one chunk, the others end at their next output time
            pool.shutdown(wait=True, cancel_futures=True)
            torch.set_num_threads(threads)


def _solve(
    problem: Problem, seed: int, chunk: Chunk, device: torch.device, advance: Advance, stop: threading.Event
) -> None:
    """Draw forcings, solve, cut into windows if the problem has them, and save the chunk."""
    forcing = problem.law.sample(seed, SPLITS.index(chunk.split), chunk.indices).to(device)
    often, part, ticks = 20, forcing.batch / (problem.time.n - 1), 0

    def tick() -> None:
        nonlocal ticks
        if stop.is_set():
            raise TinoError("stopped")
        ticks += 1
        if ticks % often == 0 and ticks < problem.time.n:
            advance(often * part)

    with torch.no_grad():
        f, u = problem.sensors(forcing), problem.solve(forcing, tick=tick)
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
    advance(forcing.batch - min(ticks // often * often, problem.time.n - 1) * part if ticks else forcing.batch)


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
