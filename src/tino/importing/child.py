"""The process that reads HDF5, netCDF and MATLAB files: ``python -m tino.importing.child``.

Their libraries were not written for damaged files: they may crash, hang or take all memory. So each file is read by a
fork of this process, with a limit on memory and time, and a crash ends that fork alone. It imports neither torch nor
tino's other rooms.

A request is a line of JSON: path, kind, folder, names (null: list what there is, with the values if
they are few), memory (bytes), seconds. A fork
writes each array as raw bytes into the folder, and the description last, as reply.json. Nothing is pickled. The answer
is a line: ok, a reason, or what ended the fork; and the most memory that it held.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import time
import warnings
from typing import Any

from tino.importing import by_scipy, hdf5

KINDS = {"hdf5": hdf5.read, "mat": by_scipy.read_mat, "netcdf3": by_scipy.read_netcdf}
SAID = 300  # characters of a reason


def serve() -> None:
    """Read requests until there are no more."""
    hdf5.warm_up()
    by_scipy.warm_up()
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):  # whoever asked is gone
        for line in sys.stdin:
            print(json.dumps(_in_a_fork(json.loads(line))), flush=True)


def _in_a_fork(request: dict[str, Any]) -> tuple[str, int]:
    number = os.fork()
    if number == 0:
        _answer(request)
    return _wait(number, float(request["seconds"]))


def _wait(number: int, seconds: float) -> tuple[str, int]:
    """How the fork ended, and the most memory it held, in bytes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    deadline = time.monotonic() + seconds
    while True:
        done, status, used = os.wait4(number, os.WNOHANG)
        if done:
            break
        left = deadline - time.monotonic()
        if left <= 0 or not hasattr(signal, "sigtimedwait"):
            if left <= 0:
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)
                return f"reading took more than {seconds:.0f} seconds", 0
            time.sleep(0.002)  # macOS
            continue
        signal.sigtimedwait({signal.SIGCHLD}, left)
    most = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if os.WIFSIGNALED(status):
        return f"its library crashed ({signal.Signals(os.WTERMSIG(status)).name})", most
    return ("ok" if os.WEXITSTATUS(status) == 0 else "its library failed"), most


def _answer(request: dict[str, Any]) -> None:
    """In the fork: read, write the arrays and the description, and end."""
    with contextlib.suppress(BaseException):
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # libraries print; what they print is not an answer
            os.dup2(null, stream)
        warnings.simplefilter("ignore")
        limit(int(request["memory"]))
        try:
            found = {"variables": KINDS[request["kind"]](request["path"], request["folder"], request["names"])}
        except MemoryError:
            found = {"refused": "it needs more memory than its size allows"}
        except RecursionError:
            found = {"refused": "it is nested too deeply"}
        except Exception as error:  # the libraries raise many kinds
            found = {"refused": (str(error) or type(error).__name__)[:SAID]}
        with open(os.path.join(request["folder"], "reply.json"), "w", encoding="utf-8") as file:
            json.dump(found, file)
        os._exit(0)
    os._exit(1)


def limit(extra: int) -> None:
    """Let this process take so many bytes more than it has."""
    with contextlib.suppress(OSError, ValueError):  # macOS knows no such limit
        with open("/proc/self/statm", encoding="ascii") as file:
            mapped = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (mapped + extra, mapped + extra))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    serve()
