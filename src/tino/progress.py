"""Progress on standard error: a live bar on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

Advance = Callable[..., None]  # advance(n=1, note="")

PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


@contextmanager
def progress(label: str, total: float, show: bool = True) -> Iterator[Advance]:
    """Yield ``advance(n, note)`` for a long part of ``total`` units; the note stands beside the bar."""
    if not show:
        yield lambda n=1, note="": None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_lines(label, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=total, note="")

        def advance(n: float = 1, note: str = "") -> None:
            bar.update(task, advance=n, note=note) if note else bar.update(task, advance=n)

        yield advance


def _plain_lines(label: str, total: float) -> Advance:
    start = last = time.monotonic()
    done = 0.0

    def advance(n: float = 1, note: str = "") -> None:
        nonlocal last, done
        done += n
        now = time.monotonic()
        ended = done >= total - 1e-9
        if now - last < PLAIN_SECONDS and not (ended and now - start > 2):
            return
        last = now
        line = f"{label}: {100 * done / total:.0f} % after {now - start:.0f} s  {note}".rstrip()
        print(line, file=sys.stderr, flush=True)

    return advance
