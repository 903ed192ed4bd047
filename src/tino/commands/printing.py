"""What commands share: tables, JSON, the shard of a job."""

import json
from typing import Any

from rich import box
from rich.table import Table

from tino.errors import TinoError


def read_shard(text: str) -> tuple[int, int]:
    try:
        i, n = map(int, text.split("/"))
    except ValueError:
        raise TinoError(f"the shard is '{text}', expected i/n such as 1/4") from None
    return i, n


def empty_table(*headings: str) -> Table:
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in headings:
        made.add_column(heading)
    return made


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
