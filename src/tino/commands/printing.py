"""What commands share: lines, JSON, the shard of a job."""

import json
from typing import Any

from tino.errors import TinoError
from tino.text import visible


def read_shard(text: str) -> tuple[int, int]:
    try:
        i, n = map(int, text.split("/"))
    except ValueError:
        raise TinoError(f"the shard is '{text}', expected i/n such as 1/4") from None
    return i, n


def say(*lines: str) -> None:
    """Print each as one line, whatever names and paths it holds."""
    for line in lines:
        print(visible(line))


def print_json(value: Any) -> None:
    written = json.dumps(value, indent=2, ensure_ascii=False)
    print("\n".join("".join(map(_in_json, line)) for line in written.split("\n")))


def _in_json(sign: str) -> str:
    return sign if visible(sign) == sign else json.dumps(sign)[1:-1]
