"""Ctrl-C, SIGTERM and SIGHUP (the terminal is gone): a wish to stop, heard when a step is done, or at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def stop_signals(active: bool) -> Iterator[list[int]]:
    """Signals that ask to stop, as they come; a second Ctrl-C stops at once."""
    asked: list[int] = []

    def note(number: int, _: object) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    with _handled(note, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP] if active else []):
        yield asked


@contextmanager
def like_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP are a KeyboardInterrupt, also while a read waits."""

    def interrupt(_number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt

    with _handled(interrupt, [signal.SIGTERM, signal.SIGHUP]):
        yield


@contextmanager
def _handled(handler: Callable[[int, object], None], numbers: list[signal.Signals]) -> Iterator[None]:
    """In the main thread, the only one that hears signals."""
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # nohup: the run is to outlive its terminal
        numbers = [number for number in numbers if number != signal.SIGHUP]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
