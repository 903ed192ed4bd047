"""Files that only foreign libraries can read, read in a process of its own; what it hands back is checked.

The child (``tino.importing.child``) gets 1 GiB and twenty times the file's size, and 10 seconds and one for each 10 MB.
"""

import atexit
import json
import math
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tino.errors import TinoError, in_short
from tino.files import parse_json
from tino.importing.content import Content, Variable

MEMORY, PER_BYTE = 2**30, 20  # bytes
SECONDS, BYTES_PER_SECOND = 10.0, 1e7
UNPACKED, RATIO = 2**30, 200  # bytes of an array, or times the size of its file
DESCRIPTION = 2**25  # bytes


class Outside:
    """The child process; started at the first file, it serves any number of them."""

    def __init__(self) -> None:
        self.process: Any = None  # a subprocess.Popen
        self.most = 0  # bytes that the reading of a file has held

    def read(self, path: Path, kind: str, names: list[str] | None = None) -> Content:
        """What the file holds, with the values if they are few; with names, those variables with their values."""
        size = path.stat().st_size
        with tempfile.TemporaryDirectory() as folder:
            seconds = SECONDS + size / BYTES_PER_SECOND
            request = {"path": str(path.resolve()), "kind": kind, "folder": folder, "names": names}
            said = self._ask({**request, "memory": MEMORY + PER_BYTE * size, "seconds": seconds}, seconds + 30)
            if said != "ok":
                raise TinoError(f"{path} cannot be read: {in_short(said)}")
            try:
                return _checked(path, Path(folder), size, names)
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise TinoError(f"{path} cannot be read: {in_short(error)}") from error

    def _ask(self, request: dict[str, Any], seconds: float) -> str:
        if self.process is not None and self.process.poll() is not None:
            self.close()
        process = self.process = self.process or _started()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], seconds)
            line = process.stdout.readline() if ready else b""
        except OSError:
            line = b""
        if not line:
            self.close()
            return "the process that reads it ended"
        said, most = json.loads(line)
        self.most = max(self.most, int(most))
        return str(said)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None


def _started() -> Any:
    # one thread, no plugins: a file must not choose code to be loaded
    quiet = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "HDF5_PLUGIN_PRELOAD": "::"}
    found = str(Path(__file__).parents[2])  # where this tino is, installed or not
    where = os.pathsep.join(filter(None, (found, os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, **quiet, "HDF5_USE_FILE_LOCKING": "FALSE", "PYTHONPATH": where}
    command = [sys.executable, "-m", "tino.importing.child"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _checked(path: Path, folder: Path, size: int, names: list[str] | None) -> Content:
    """The description and the arrays that a child left in the folder."""
    reply = folder / "reply.json"
    if not reply.is_file() or reply.stat().st_size > DESCRIPTION:
        raise ValueError("its description is missing or too long")
    found = parse_json(reply.read_text(encoding="utf-8"))
    if "refused" in found:
        raise ValueError(in_short(found["refused"]))
    variables, values = {}, {}
    for number, one in enumerate(found["variables"]):
        shape, axes = one["shape"], one["axes"]
        sizes = all(type(n) is int and 0 < n < 2**48 for n in shape)
        if one["type"] not in ("f4", "f8") or not sizes or len(shape) > 8 or len(axes) != len(shape):
            raise ValueError(f"'{one['name']}' has type {one['type']} and shape {shape}")
        count = math.prod(shape) * int(one["type"][1])
        if count > max(UNPACKED, RATIO * size):
            raise ValueError(f"'{one['name']}' claims {count / 2**30:.0f} GiB, more than {RATIO} times the file's size")
        turned = bool(one.get("turned"))
        if "file" in one or names is not None:
            raw = folder / f"{number}.raw"
            if raw.stat().st_size != count:
                raise ValueError(f"'{one['name']}' is cut off")
            array = np.fromfile(raw, one["type"]).reshape(shape)
            values[one["name"]] = array.T if turned else array
        shape = tuple(reversed(shape)) if turned else tuple(shape)
        variables[str(one["name"])] = Variable(shape, str(one["unit"]), tuple(map(str, axes)))
    variables = {name: one.as_vector() for name, one in variables.items()}
    values = {name: array.reshape(variables[name].shape) for name, array in values.items()}
    return Content(str(path), variables, values)


OUTSIDE = Outside()
atexit.register(OUTSIDE.close)
