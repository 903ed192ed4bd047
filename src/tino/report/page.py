"""The shell of a report: one self-contained HTML file, readable on a phone and on paper, its figures within."""

import base64
import html
from pathlib import Path

from tino.files import whole_file
from tino.report.figures import Figure, png
from tino.version import VERSION

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; margin: 1rem 0; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th.text, td.text { text-align: left; }
th:first-child, td:first-child { position: sticky; left: 0; background: #fff; }
img { max-width: 100%; height: auto; }
figure { margin: 1rem 0; } figcaption, .small { color: #666; font-size: .9em; }
@media print { body { margin: 0; max-width: none; font-size: 10px; } .scroll { overflow: visible; }
  table { font-size: .8em; } th, td { padding: .1em .3em; white-space: normal; } figure, tr { break-inside: avoid; } }
"""


def keep(figure: Figure, path: Path, description: str | None = None) -> bytes:
    """Write the figure as a PNG file -> its bytes."""
    data = png(figure, description)
    with whole_file(path) as part:
        part.write_bytes(data)
    return data


def drawn(caption: str, data: bytes) -> str:
    """A figure within the page."""
    caption, source = html.escape(caption), f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return f'<figure><img alt="{caption}" src="{source}"><figcaption>{caption}</figcaption></figure>'


def page(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tino: {html.escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
{body}
<p class="small">Made by tino {VERSION}.</p>
</body>
</html>
"""
