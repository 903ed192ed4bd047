"""Damaged and forged files of every kind that tino reads: each ends in the same numbers, or in an error of one line.

python benchmarks/fuzz.py                              # 10^5 files, 5 minutes on 2 cores -> results/fuzz.json
python benchmarks/fuzz.py --mutations 1000 --out FILE  # as in the tests

A *damaged* file is changed at random: bits, ranges of bytes, values of its JSON. It must never load with other numbers.
A *forged* file carries wild values under a fresh checksum. It may load, for whoever can write a file can write any
numbers into it; it must not crash, hang or take memory. Files are read by worker processes, which may die.
"""

import argparse
import copy
import hashlib
import io
import json
import math
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import tino
from tino import storage
from tino.channels import Channel
from tino.files import SEAL, sealed, stamp, write_json
from tino.options import DataOptions
from tino.preview import read_preview
from tino.runs import read_run, train_run
from tino.sources import Source, read_arrays
from tino.training.checkpoint import read_checkpoint
from tino.training.state import Training

RESULTS = Path(__file__).parent / "results" / "fuzz.json"
MUTATIONS, SEED = 100_000, 0
SECONDS = 20.0  # a file that takes longer is a hang
START = 300.0  # seconds that a process may take to begin, on a machine with other work
MEMORY = 2 * 2**30  # bytes that reading a file may take, above those of an idle process
LINE = 500  # characters of an error, paths included
GOOD, BAD = ("same numbers", "refused", "loaded"), ("changed numbers", "crash", "hang", "memory")

# -- the files, whole ----------------------------------------------------------------------------------------

MODELS = {  # folder: model, data, sizes
    "spod-trtino": ("wave", {"mixer_width": 6, "branch_width": 5, "factor_width": 4, "modes": 3, "waves": 2}),
    "pod-don": ("wave", {"mixer_width": 6, "branch_width": 5}),
    "fno": ("wave", {"width": 3, "modes": 2, "layers": 2, "projection": 4, "padding": 1}),
    "unet": ("wave", {"features": 4, "levels": 1, "groups": 2}),
    "don": ("triangle", {"mixer_width": 6, "branch_width": 5, "trunk_width": 4, "modes": 3}),
    "causality-don": ("signal", {"mixer_width": 6, "modes": 2, "waves": 2, "decays": 2}),
}


def toy(name: str) -> tino.Dataset:
    """Six samples of noise: on a periodic line with initial states, on the triangle, or records of two channels."""
    chance = torch.Generator().manual_seed(3)
    grid = {"wave": tino.Periodic(1.0, (8,)), "triangle": tino.Triangle(5), "signal": tino.Point()}[name]
    time, one, more = tino.TimeGrid(0.0, 2.0, 8), name != "signal", {}
    if not one:
        more = {"input_channels": (Channel("force", "N"), Channel("torque")), "lengths": torch.tensor([8] * 5 + [6])}
    f = torch.randn(6, 8, grid.size if one else 2, generator=chance)
    u = torch.randn(6, 8, grid.size, generator=chance)
    return tino.Dataset(f, u, time, grid, grid, ic=u[:, 0] if name == "wave" else None, **more)


def make(folder: Path) -> None:
    """One file of each kind."""
    for name in ("wave", "triangle", "signal"):
        data = toy(name)
        tino.save_dataset(folder / f"{name}.h5", data.take(slice(4)), data.take(slice(4, 6)))
    for name, (data, sizes) in MODELS.items():
        tino.build(name, _equal_lengths(toy(data)), **sizes).save(folder / name)
    training_run().save(folder / "checkpoint.safetensors")
    arrays: dict[str, Any] = {"f": np.random.default_rng(0).normal(size=(6, 8, 2)), "t": np.arange(8.0)}
    arrays |= {"u": arrays["f"][..., :1].astype("f4"), "f_names": ["force", "torque"], "title": "Two inputs"}
    np.savez(folder / "plain.npz", **arrays)
    np.savez_compressed(folder / "packed.npz", **arrays)
    config = tino.TrainConfig(epochs=2, device="cpu")
    with open(os.devnull, "w") as quiet, redirect_stderr(quiet):
        train_run(Source(str(folder / "plain.npz")), "tdnn", folder / "run", DataOptions(), config)


def _equal_lengths(data: tino.Dataset) -> tino.Dataset:
    return tino.Dataset(data.f, data.u, data.time, data.inputs, data.outputs, data.ic, data.meta, data.input_channels)


def training_run() -> Training:
    data = _equal_lengths(toy("signal"))
    model = tino.build("tdnn", data, mixer_width=4, branch_width=3)
    return Training(model, data, tino.TrainConfig(), torch.device("cpu"))


# -- reading them --------------------------------------------------------------------------------------------


def read_model(path: Path) -> Any:
    model = tino.load(path.parent)
    return [model.frame.record(), model.record(), model.state_dict(), dict(model.named_buffers())]


def read_state(path: Path) -> Any:
    state = read_checkpoint(path)
    training_run().restore(path)
    return state


def read_data(path: Path) -> Any:
    return [storage.read_record(path), *storage.load_dataset(path)]


def read_folder(path: Path) -> Any:
    run = read_run(path.parent)
    return [run.result.record(), run.config, run.mse, run.certificate]


@dataclass(frozen=True)
class Target:
    """A kind of file: the names it has, how it is read, and whether its values are forged."""

    name: str
    files: tuple[str, ...]
    read: Callable[[Path], Any]
    forged: bool = False


_RECORDS = tuple(f"{name}/model.json" for name in MODELS)
_WEIGHTS = tuple(f"{name}/model.safetensors" for name in MODELS)
_DATA = ("wave.h5", "triangle.h5", "signal.h5")
_RUN = tuple(f"run/{name}.json" for name in ("run", "config", "scores", "certificate"))
_NPZ = ("plain.npz", "packed.npz")
KINDS = [
    ("weights", _WEIGHTS, read_model),
    ("model record", _RECORDS, read_model),
    ("checkpoint", ("checkpoint.safetensors",), read_state),
    ("dataset", _DATA, read_data),
    ("run record", _RUN, read_folder),
    ("own arrays", _NPZ, read_arrays),
    ("example", ("run/example.safetensors",), read_preview),
]
WAYS = ("damaged", "forged")
TARGETS = [Target(f"{name}, {way}", files, read, way == "forged") for name, files, read in KINDS for way in WAYS]


def fingerprint(value: Any) -> bytes:
    """Of all numbers and texts in nested values."""
    digest = hashlib.sha256()

    def add(one: Any) -> None:
        if isinstance(one, Tensor):
            digest.update(f"{one.dtype}{tuple(one.shape)}".encode() + one.detach().contiguous().numpy().tobytes())
        elif is_dataclass(one) and not isinstance(one, type):
            add([getattr(one, field.name) for field in fields(one)])
        elif isinstance(one, dict):
            add(sorted((repr(key), None) for key in one))
            for key in sorted(one, key=repr):
                add(one[key])
        elif isinstance(one, list | tuple):
            digest.update(f"[{len(one)}".encode())
            for each in one:
                add(each)
        else:
            digest.update(repr(one).encode() + b";")

    add(value)
    return digest.digest()


# -- changing them -------------------------------------------------------------------------------------------

LONG, DEEP = "@long@", "@deep@"  # stand for what Python cannot write: 5000 digits, and 20 000 brackets
WILD: list[Any] = [None, True, False, -1, 0, 1, 2, 3, 24.5, 10**5, 10**7, 2**31, 10**12, 2**63, 10**60, 1e300, -1e-300]
WILD += [math.nan, math.inf, -math.inf, "", "wide", "x" * 3000, "a\nb", LONG, DEEP, "point", "triangle", "unet", "fno"]
WILD += [[], [1, 2, 3], [10**7] * 3, {}, {"n": 1}, [[[]]], [["f", "<f4"]], "<f8", ">f4", "|O", "S5"]


def damaged_bytes(chance: random.Random, raw: bytes) -> bytes:
    """A few bits, or a range of bytes."""
    data, way = bytearray(raw), chance.randrange(8)
    first = chance.randrange(len(data))
    last = min(len(data), first + 1 + int(chance.random() ** 4 * len(data)))
    if way <= 1:
        for _ in range(chance.choice((1, 1, 1, 2, 8))):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif way == 2:
        data[first:last] = bytes(last - first)
    elif way == 3:
        del data[first:last]
    elif way == 4:
        data[first:first] = data[first:last]
    elif way == 5:
        del data[first:]
    elif way == 6:
        data[first : first + 16] = chance.randbytes(min(16, len(data) - first))
    else:
        data[chance.randrange(len(data))] = chance.choice(b'0123456789eE.-+,:{}[]" \x00\xff')
    return bytes(data)


def changed_values(chance: random.Random, value: Any) -> Any:
    """One to three values inside are replaced, removed, repeated, moved, or made a little larger."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return copy.deepcopy(chance.choice(WILD))
        holder, key = chance.choice(places)
        way, old = chance.randrange(10), holder[key]
        if way == 0:
            del holder[key]
        elif way == 1 and isinstance(holder, list):
            holder.insert(chance.randrange(len(holder) + 1), copy.deepcopy(old))
        elif way == 1:
            holder[f"{key}x"] = copy.deepcopy(old)
        elif way == 2:
            other, its = chance.choice(places)
            holder[key] = copy.deepcopy(other[its]) if its in other or isinstance(its, int) else None
        elif way <= 4 and isinstance(old, int | float):
            holder[key] = chance.choice((old + 1, old - 1, -old, old * 2, old * 1000, float(old), str(old)))
        else:
            holder[key] = copy.deepcopy(chance.choice(WILD))
    return value


def _places(value: Any) -> Any:
    """(holder, key) of every value inside."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


def _text(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False).replace(f'"{LONG}"', "7" * 5000)
    return text.replace(f'"{DEEP}"', "[" * 10_000 + "]" * 10_000).encode()


def changed_json(chance: random.Random, raw: bytes, forged: bool) -> bytes:
    record = json.loads(raw)
    if forged:
        record.pop(SEAL, None)
    record = changed_values(chance, record)
    plain = LONG not in str(record) and DEEP not in str(record)
    return _text(sealed(record) if forged and plain and isinstance(record, dict) else record)


def changed_tensors(chance: random.Random, raw: bytes, forged: bool) -> bytes:
    """Values of the header, and of the JSON inside it."""
    size = int.from_bytes(raw[:8], "little")
    header, body = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    about = header.get("__metadata__", {})
    inner = [key for key, text in about.items() if text[:1] in "[{"]
    for key in inner:
        about[key] = json.loads(about[key])
    header = changed_values(chance, header)
    about = header.get("__metadata__", {}) if isinstance(header, dict) else {}
    for key in inner:
        if isinstance(about, dict) and isinstance(about.get(key), dict | list):
            about[key] = _text(about[key]).decode()
    if forged and isinstance(about, dict) and SEAL in about:
        about[SEAL] = "0" * 64
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    whole = io.BytesIO(len(text).to_bytes(8, "little") + text + body)
    if forged and f'"{SEAL}":"'.encode() in text:
        stamp(whole)
    return whole.getvalue()


def changed_dataset(chance: random.Random, raw: bytes, forged: bool) -> bytes:
    """Values of the record at the end of the file."""
    size = int.from_bytes(raw[-16:-8], "little")
    text = changed_json(chance, raw[-16 - size : -16], forged)
    return raw[: -16 - size] + text + len(text).to_bytes(8, "little") + raw[-8:]


def changed_arrays(chance: random.Random, raw: bytes, forged: bool) -> bytes:
    """Types and shapes of arrays, of which the data stay, or one that unpacks to far more than its file."""
    said, kept = io.BytesIO(), {}
    with zipfile.ZipFile(io.BytesIO(raw)) as old:
        for name in old.namelist():
            data = old.read(name)
            size = int.from_bytes(data[8:10], "little")
            kept[name] = [eval(data[10 : 10 + size]), data[10 + size :]]  # our own file's header, a Python literal
    header = kept[chance.choice(list(kept))][0]
    header |= {"shape": list(header["shape"])}
    changed_values(chance, header)
    with zipfile.ZipFile(said, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as new:
        for name, (header, data) in kept.items():
            shape = header.get("shape")
            header = {**header, "shape": tuple(shape)} if isinstance(shape, list) else header
            text = repr(header).replace(f"'{LONG}'", "7" * 5000).replace(f"'{DEEP}'", "(" * 3000).encode() + b"\n"
            if len(text) < 2**16:
                new.writestr(name, b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data)
        if chance.random() < 0.002 and forged:
            new.writestr("title.npy", b"\x93NUMPY\x01\x00" + bytes(2**28), zipfile.ZIP_DEFLATED)
    return said.getvalue()


VALUES = {
    ".json": changed_json,
    ".safetensors": changed_tensors,
    ".h5": changed_dataset,
    ".npz": changed_arrays,
}


def changed(chance: random.Random, name: str, raw: bytes, target: Target) -> bytes:
    values = target.forged or (not name.endswith(".npz") and chance.random() < 0.3)
    return VALUES[Path(name).suffix](chance, raw, target.forged) if values else damaged_bytes(chance, raw)


# -- a worker ------------------------------------------------------------------------------------------------


def outcome(target: Target, path: Path, whole: bytes) -> tuple[str, str]:
    """How reading the file ends, and the error where there is one."""
    try:
        found = fingerprint(target.read(path))
    except tino.TinoError as error:
        text = str(error)
        chain: BaseException | None = error
        while chain is not None:
            if isinstance(chain, MemoryError) or "allocate memory" in str(chain):
                return "memory", text
            chain = chain.__cause__ or chain.__context__
        return ("refused", text) if "\n" not in text and len(text) <= LINE else ("crash", f"not one line: {text}")
    except MemoryError as error:
        return "memory", repr(error)
    except BaseException as error:
        return "memory" if "allocate memory" in str(error) else "crash", repr(error)
    if found == whole:
        return "same numbers", ""
    return ("loaded" if target.forged else "changed numbers"), ""


def memory(name: str) -> int:
    """VmHWM, the most that was resident, or VmSize, what is mapped; in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def work(folder: Path, seed: int, first: int, last: int, step: int) -> None:
    """Print a line for each file: its number, how it ended, the memory it took, and the error."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    whole = {(t.name, f): fingerprint(t.read(folder / f)) for t in TARGETS for f in t.files}
    idle, limit = memory("VmHWM"), memory("VmSize") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, last, step):
        print(json.dumps([number]), flush=True)
        target = TARGETS[number % len(TARGETS)]
        chance = random.Random(f"{seed} {number}")
        name = chance.choice(target.files)
        path, raw = folder / name, (folder / name).read_bytes()
        path.write_bytes(changed(chance, name, raw, target))
        if target.forged and name.endswith("model.safetensors"):
            _name_weights(path)
        how, said = outcome(target, path, whole[target.name, name])
        _restore(folder, name, raw)
        taken = memory("VmHWM") - idle
        print(json.dumps([number, "memory" if taken > MEMORY else how, taken, f"{name}: {said[:300]}"]), flush=True)


def _name_weights(path: Path) -> None:
    """A record that names the forged weights."""
    record = path.with_name("model.json")
    about = {**json.loads(record.read_text()), "weights_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    about.pop(SEAL, None)
    record.write_text(json.dumps(sealed(about)))


def _restore(folder: Path, name: str, raw: bytes) -> None:
    (folder / name).write_bytes(raw)
    if name.endswith("model.safetensors"):
        _name_weights(folder / name)


# -- all of them ---------------------------------------------------------------------------------------------


@dataclass
class Worker:
    """A process at some of the numbers; it is started again after it died or hung."""

    folder: Path
    seed: int
    next: int
    last: int
    step: int
    process: Any = None
    rest: bytes = b""
    seen: float = 0.0
    script: str = __file__

    def start(self) -> None:
        numbers = [str(value) for value in (self.folder, self.seed, self.next, self.last, self.step)]
        self.process = subprocess.Popen([sys.executable, self.script, "--work", *numbers], stdout=subprocess.PIPE)
        self.rest, self.seen = b"", time.monotonic() + START

    def lines(self) -> list[Any]:
        """What it said since; the end of a process that died or hung counts as an outcome."""
        ready, _, _ = select.select([self.process.stdout], [], [], 0.05)
        if ready:
            said = os.read(self.process.stdout.fileno(), 2**16)
            if not said:
                return self._ended("crash", f"the process died with status {self.process.wait()}")
            self.seen = time.monotonic()
            *found, self.rest = (self.rest + said).split(b"\n")
            rows = [json.loads(line) for line in found]
            for row in rows:
                self.next = row[0] + (self.step if len(row) > 1 else 0)
            return [row for row in rows if len(row) > 1]
        if time.monotonic() - self.seen > SECONDS:
            self.process.kill()
            self.process.wait()
            return self._ended("hang", f"no answer for {SECONDS:g} seconds")
        return []

    def _ended(self, how: str, why: str) -> list[Any]:
        if self.next >= self.last:
            self.process.wait()
            self.process = None
            return []
        row = [self.next, how, 0, why]
        self.next += self.step
        for path in self.folder.iterdir():  # it may have left a damaged file
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.folder.with_name("whole"), self.folder, dirs_exist_ok=True)
        self.process = None
        if self.next < self.last:
            self.start()
        return [row]


def fuzz(
    mutations: int,
    seed: int,
    workers: int,
    show: int = 20,
    targets: Sequence[Target] = TARGETS,
    make: Callable[[Path], None] = make,
    script: str = __file__,
) -> dict[str, Any]:
    """Counts of how reading ended, by target; ``make`` writes the whole files, ``script`` works on some of them."""
    counts: dict[str, Counter[str]] = {target.name: Counter() for target in targets}
    largest, begun, shown = 0, time.monotonic(), Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        make(Path(place) / "whole")
        crew = []
        for i in range(workers):
            shutil.copytree(Path(place) / "whole", Path(place) / str(i))
            crew.append(Worker(Path(place) / str(i), seed, i, mutations, workers, script=script))
            crew[-1].start()
        while any(worker.process for worker in crew):
            for worker in (worker for worker in crew if worker.process):
                for number, how, taken, said in worker.lines():
                    name = targets[number % len(targets)].name
                    counts[name][how] += 1
                    largest = max(largest, taken)
                    if how in BAD and shown[f"{name}{how}"] < show:
                        shown[f"{name}{how}"] += 1
                        print(f"{number} {name}: {how}: {said}", file=sys.stderr)
    total = sum(counts.values(), Counter())
    return {
        "mutations": mutations,
        "seed": seed,
        "seconds_limit": SECONDS,
        "memory_bound_bytes": MEMORY,
        "memory_largest_bytes": largest,
        "total": {how: total[how] for how in (*GOOD, *BAD)},
        "targets": {name: {how: found[how] for how in (*GOOD, *BAD) if found[how]} for name, found in counts.items()},
        "seconds": round(time.monotonic() - begun),
        "versions": {"tino": tino.__version__, "torch": torch.__version__, "numpy": np.__version__},
    }


def main(
    about: str | None = __doc__,
    results: Path = RESULTS,
    work: Callable[[Path, int, int, int, int], None] = work,
    fuzz: Callable[[int, int, int], dict[str, Any]] = fuzz,
) -> None:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=MUTATIONS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path, default=results)
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        folder, *numbers = given.work
        return work(Path(folder), *map(int, numbers))
    found = fuzz(given.mutations, given.seed, given.workers)
    write_json(given.out, found)
    print(json.dumps({"total": found["total"], "largest memory, MiB": found["memory_largest_bytes"] >> 20}))
    sys.exit(any(found["total"][how] for how in BAD))


if __name__ == "__main__":
    main()
