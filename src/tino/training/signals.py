"""Ctrl-C, SIGTERM and SIGHUP (the terminal is gone) as a wish to stop, heard when a step is done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals(active: bool) -> Iterator[list[int]]:
    """Signals that ask to stop, as they come; a second Ctrl-C stops at once."""
    asked: list[int] = []
    if not active or threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, _: object) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # nohup: the run is to outlive its terminal
        numbers.remove(signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
