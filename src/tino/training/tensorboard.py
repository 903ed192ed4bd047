"""Losses for TensorBoard, an extra: pip install tino[tensorboard]."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tino.errors import TinoError
from tino.training.loop import Log


def tensorboard_writer() -> Any:
    """TensorBoard's own class; an error if it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise TinoError("TensorBoard is not installed: pip install 'tino[tensorboard]', or train without it") from None
    return SummaryWriter


@contextmanager
def tensorboard_log(folder: Path | None) -> Iterator[Log | None]:
    """A log for ``fit`` that writes into the folder; None without a folder."""
    if folder is None:
        yield None
        return
    with tensorboard_writer()(str(folder)) as writer:

        def log(step: int, values: dict[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)

        yield log
