"""The shell of a report: one self-contained HTML file, readable on a phone and on paper, its figures within."""

import base64
import re
from collections.abc import Iterable
from pathlib import Path

from tino.files import whole_file
from tino.report.figures import Figure, png
from tino.report.markup import in_html
from tino.text import visible
from tino.version import VERSION

LEAST = 0.75  # of its width, to which a figure may shrink; below that the page scrolls it

# The shadows of .scroll lie still at its edges; the white ones over them move with the content, so that a shadow shows
# only where there is more to see.
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
.scroll { overflow-x: auto; background:
  linear-gradient(90deg, #fff 1.5rem, #fff0) 0 0 / 3rem 100% no-repeat local,
  linear-gradient(270deg, #fff 1.5rem, #fff0) 100% 0 / 3rem 100% no-repeat local,
  linear-gradient(90deg, #0006, #0000) 0 0 / 1rem 100% no-repeat scroll,
  linear-gradient(270deg, #0006, #0000) 100% 0 / 1rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; margin: 1rem 0; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th.text, td.text { text-align: left; }
.card td, .card th { white-space: normal; vertical-align: top; } .card pre { overflow-x: auto; }
th:first-child, td:first-child { position: sticky; left: 0; background: #fff; }
img { display: block; max-width: 100%; height: auto; }
figure { margin: 1rem 0; } figcaption, .small { color: #666; font-size: .9em; }
.hint { display: inline-block; overflow: hidden; white-space: nowrap; vertical-align: bottom; color: #a40; }
@media (max-width: 40rem) { th:first-child, td:first-child { max-width: 45vw; white-space: normal; } }
@media print { body { margin: 0; max-width: none; font-size: 10px; } .scroll { overflow: visible; background: none; }
  img { min-width: 0 !important; } .hint { display: none; }
  table { font-size: .8em; } th, td { padding: .1em .3em; white-space: normal; } figure, tr { break-inside: avoid; } }
"""


def keep(figure: Figure, path: Path, description: str | None = None) -> bytes:
    """Write the figure as a PNG file -> its bytes."""
    data = png(figure, description)
    with whole_file(path) as part:
        part.write_bytes(data)
    return data


def file_names(texts: Iterable[str]) -> list[str]:
    """A file name for each text, without an extension: letters, digits, dots and dashes, and no two alike."""
    found: dict[str, str] = {}
    for text in texts:
        plain = re.sub(r"[^\w.-]", "_", visible(text)).lstrip(".")[:48] or "figure"
        name = next(n for n in (plain, *(f"{plain}-{i}" for i in range(2, len(found) + 3))) if n.lower() not in found)
        found[name.lower()] = name
    return list(found.values())


def drawn(caption: str, data: bytes) -> str:
    """A figure within the page. Where it does not fit at a size to be read, it scrolls, and its caption says so."""
    caption, source = in_html(caption), f"data:image/png;base64,{base64.b64encode(data).decode()}"
    least = round(LEAST * int.from_bytes(data[16:20]))  # a PNG file has its width here
    image = f'<img alt="{caption}" style="min-width: {least}px" src="{source}">'
    # as wide as the page is narrower than the figure, many times over: all of the line, or none
    hint = f'<span class="hint" style="max-width: clamp(0px, ({least}px - 100%) * 9999, 100%)">↔ scroll sideways</span>'
    return f'<figure><div class="scroll" tabindex="0">{image}</div><figcaption>{caption} {hint}</figcaption></figure>'


def page(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tino: {in_html(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{in_html(title)}</h1>
{body}
<p class="small">Made by tino {VERSION}.</p>
</body>
</html>
"""
