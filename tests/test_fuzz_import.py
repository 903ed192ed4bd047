"""A thousand damaged and forged files of the kinds that ``tino import`` reads: records, or an error of one line.
``make verify`` reads a hundred thousand (benchmarks/fuzz_import.py)."""

import json
import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parent.parent / "benchmarks" / "fuzz_import.py"


def test_a_thousand_damaged_and_forged_files(tmp_path):
    arguments = ["--mutations", "1000", "--seed", "1", "--workers", "1", "--out", str(tmp_path / "fuzz.json")]
    done = subprocess.run([sys.executable, str(FUZZ), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "fuzz.json").read_text())
    assert sum(sum(counts.values()) for counts in found["targets"].values()) == 1000
    assert found["memory_largest_bytes"] <= found["memory_bound_bytes"]
