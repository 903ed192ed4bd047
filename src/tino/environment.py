"""What a run ran on: versions, device, commit, memory."""

import gc
import os
import platform
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy
import torch

from tino.version import VERSION


def environment(device: torch.device) -> dict[str, Any]:
    versions = {"tino": VERSION, "python": platform.python_version(), "torch": torch.__version__}
    return {
        "versions": {**versions, "numpy": numpy.__version__, "pytorch-optimizer": _version("pytorch-optimizer")},
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "device": device_name(device),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "commit": commit(),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def commit() -> str | None:
    """The commit of the source tree this runs from, with a + where files differ from it; None outside of one."""
    given = os.environ.get("TINO_COMMIT")  # for copies of the tree without its history
    if given:
        return given
    here = Path(__file__).parent
    try:
        command = ["git", "-C", str(here), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=10)
        inside = subprocess.run(
            ["git", "-C", str(here), "ls-files", "--error-unmatch", "environment.py"], capture_output=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None if found.returncode == 0 and inside.returncode == 0 else None


def forget_peak_memory(device: torch.device) -> None:
    """Measure a GPU's peak from here on; a process's own peak cannot be forgotten."""
    if device.type == "cuda":
        gc.collect()  # what an earlier run left
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> int:
    """Bytes: of the GPU's memory what torch held at most, else what the process did since it began."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
