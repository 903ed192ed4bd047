"""The commands and the example of the README work as printed, on fewer samples."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tino.cli import run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FEWER = ["--train", "20", "--test", "5", "--n-t", "60"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def tino_commands() -> list[str]:
    lines = "\n".join(blocks("sh")).splitlines()
    return [line.split("#")[0].strip() for line in lines if line.startswith("tino ")]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder with records of one's own."""
    monkeypatch.chdir(tmp_path)
    f = np.random.default_rng(0).standard_normal((30, 20, 2))
    np.savez("mine.npz", f=f, u=f.cumsum(1), t=np.linspace(0, 1, 20))
    rows = np.stack([0.1 * np.arange(400), f.ravel()[:400], f.ravel()[:400].cumsum() / 10], 1)
    np.savetxt("rig.csv", rows, delimiter=",", header="t [s],force [N],path [m]", comments="")
    np.savetxt("new-forcing.csv", rows[:50, :2], delimiter=",", header="t,force", comments="")


def test_the_commands_run_in_order(elsewhere):
    commands = tino_commands()
    assert len(commands) >= 5
    for command in commands:
        arguments = shlex.split(command)[1:]
        fewer = FEWER if arguments[0] in ("generate", "train", "bench", "diagnose") else []
        fewer = [] if "rig.h5" in arguments else fewer  # one record
        arguments = [
            re.sub(r"^\d+$", "2", a) if b == "--epochs" else a
            for b, a in zip(["", *arguments], arguments, strict=False)
        ]
        if "--suite" in arguments:
            fewer = [*FEWER, "--problems", "duffing", "--models", "trtino", "don", "--epochs", "2"]
        arguments = [{"cuda": "cpu", "5m": "1s"}.get(a, a) for a in arguments]
        assert run([*arguments, *fewer]) == 0, command


def test_the_example_runs(elsewhere):
    (example,) = blocks("python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 12
    small = example.replace("seed=0)", "seed=0, train=20, test=5)").replace("epochs=500", "epochs=1")
    assert small != example
    exec(compile(small, "README.md", "exec"), {})


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make (\w+)", "\n".join(blocks("sh")), flags=re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
