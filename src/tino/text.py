"""Text from outside, such as names, titles, units and paths: shown so that every character can be seen."""

import unicodedata

from rich.table import Table
from rich.text import Text

from tino.errors import TinoError


def visible(text: str) -> str:
    r"""The text on one line: characters that act or hide are written out, such as \x1b, \n and \u202e."""
    return "".join(sign if _seen(sign) else sign.encode("unicode_escape").decode() for sign in text)


def _seen(sign: str) -> bool:
    kind = unicodedata.category(sign)
    return kind[0] != "C" and kind not in ("Zl", "Zp")  # control and format characters, line separators


def check_text(word: str, text: str) -> None:
    """Refuse a name that ``visible`` would have to change."""
    if (shown := visible(str(text))) != str(text):
        raise TinoError(f"the {word} '{shown}' holds characters that cannot be seen: leave them out")


class TextTable(Table):
    """A table for the terminal whose cells are text as it is, never rich's markup."""

    def add_row(self, *cells: str) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().add_row(*[Text(visible(cell)) for cell in cells])
