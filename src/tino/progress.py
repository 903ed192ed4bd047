"""Progress on standard error: a live bar on a terminal, a plain line now and then elsewhere."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from tino.text import visible

Advance = Callable[..., None]  # advance(n=1, note="")

FIRST, NEXT = 2.0, 10.0  # seconds to the first line, and between two, where there is no terminal


class StandardError:
    """Standard error as long as it is there: a terminal that is closed does not end the work."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)

    def write(self, text: str) -> None:
        self._try(sys.stderr.write, text)

    def flush(self) -> None:
        self._try(sys.stderr.flush)

    def _try(self, do: Callable[..., Any], *given: str) -> None:
        try:
            do(*given)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@contextmanager
def progress(label: str, total: float, show: bool = True, done: float = 0.0) -> Iterator[Advance]:
    """Yield ``advance(n, note)`` for ``total`` units of work, some ``done`` before; the note stands beside the bar."""
    if not show:
        yield lambda n=1, note="": None
        return
    label = visible(label)
    console = Console(file=StandardError())  # pyright: ignore[reportArgumentType]
    if not console.is_terminal:
        advance, ended = _plain_lines(label, total, done), threading.Event()
        threading.Thread(target=_at_least, args=(advance, ended), daemon=True).start()
        try:
            yield advance
        finally:
            ended.set()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=total, completed=done, note="")  # pyright: ignore[reportArgumentType]

        def advance(n: float = 1, note: str = "") -> None:
            bar.update(task, advance=n, note=note) if note else bar.update(task, advance=n)

        yield advance
        bar.update(task, completed=total)  # parts of units may not add up to the last bit


def _at_least(advance: Advance, ended: threading.Event) -> None:
    """A line now and then, also while the work itself has nothing to report."""
    while not ended.wait(NEXT):
        advance(0)


def _plain_lines(label: str, total: float, done: float) -> Advance:
    start, before = time.monotonic(), done
    due = FIRST

    def advance(n: float = 1, note: str = "") -> None:
        nonlocal done, due
        earlier, done = done, min(total, done + n)  # totals may be estimates
        seconds = time.monotonic() - start
        ended = earlier < total - 1e-9 <= done and seconds > FIRST
        if seconds < due and not ended:
            return
        due = seconds + NEXT
        left = f", {seconds * (total - done) / (done - before):.0f} s left" if before < done < total - 1e-9 else ""
        line = f"{label}: {100 * done / total:.0f} % after {seconds:.0f} s{left}  {note}".rstrip()
        print(line, file=StandardError(), flush=True)

    return advance
