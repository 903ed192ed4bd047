"""A training killed twenty times at random moments, resumed each time: the weights of the uninterrupted run.

python benchmarks/kills.py      # 3 minutes on 2 cores -> benchmarks/results/kills.json
"""

import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tino.files import write_json
from tino.training.checkpoint import read_checkpoint

KILLS = 20
FOLDERS = ("whole", "killed")
TRAIN = ["train", "burgers-0.1", "spod-trtino", "--train", "60", "--test", "5", "--n-t", "50", "--resolution", "64"]
OPTIONS = ["--epochs", "150", "--batch-size", "20", "--save-every", "0.2", "--device", "cpu"]


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def main() -> None:
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        env = {**os.environ, "TINO_CACHE": str(place / "cache"), "OMP_WAIT_POLICY": "PASSIVE"}

        def command(folder: str, *more: str) -> list[str]:
            return [sys.executable, "-m", "tino", *TRAIN, *OPTIONS, "--out", str(place / folder), *more]

        start = time.perf_counter()
        subprocess.run(command("whole"), env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        kills, steps = 0, []
        checkpoint = place / "killed" / "checkpoint.safetensors"
        while True:
            resumed = ["--resume"] if (place / "killed").exists() else []
            null = subprocess.DEVNULL
            child = subprocess.Popen(command("killed", *resumed), env=env, stdout=null, stderr=null)
            try:
                # past the start-up, then anywhere: in a step, in a look, in the middle of writing a checkpoint
                child.wait(3 + (seconds - 3) / 8 * chance.random() if kills < KILLS else None)
                break
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                kills += 1
                steps.append(read_checkpoint(checkpoint)["step"] if checkpoint.exists() else 0)
                print(f"kill {kills}: the checkpoint is at step {steps[-1]}", flush=True)
        same = digest(place / "whole") == digest(place / "killed")
        losses = [
            [line.split(",")[1] for line in (place / f / "history.csv").read_text().splitlines()] for f in FOLDERS
        ]
    found = {
        "kills": kills,
        "steps_at_kills": steps,
        "same_weights": same,
        "same_losses": losses[0] == losses[1],
    }
    write_json(Path(__file__).parent / "results" / "kills.json", found)
    print(found)
    sys.exit(not (same and kills == KILLS))


if __name__ == "__main__":
    main()
