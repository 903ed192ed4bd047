"""Tables on a terminal."""

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from tino.text import visible


class TextTable(Table):
    """A table whose cells are text as it is, never rich's markup."""

    def __init__(self, *headings: str, **options: Any) -> None:
        super().__init__(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), **options)
        for heading in headings:
            self.add_column(heading, overflow="fold")

    def add_row(self, *cells: str) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().add_row(*[Text(visible(cell)) for cell in cells])
