"""Text from outside, such as names, titles, units and paths: shown so that every character can be seen."""

import unicodedata

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
