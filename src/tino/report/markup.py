"""A table once, written as HTML, Markdown or LaTeX."""

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Line(NamedTuple):
    """A line of a cell; mark is 'best', 'second' or nothing, a quiet line is not our own figure."""

    text: str
    mark: str = ""
    quiet: bool = False


Cell = tuple[Line, ...]


@dataclass(frozen=True)
class Markup:
    """Rows of cells under headings; the first column is text, the others are numbers."""

    name: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def html(self) -> str:
        head = "".join(f"<th>{html.escape(text)}</th>" for text in self.head)
        rows = "".join(f"<tr>{''.join(f'<td>{_lines(cell, HTML)}</td>' for cell in row)}</tr>\n" for row in self.rows)
        caption = f'<p class="small">{html.escape(self.caption)}</p>'
        return f'{caption}\n<div class="scroll"><table>\n<tr>{head}</tr>\n{rows}</table></div>'

    def markdown(self) -> str:
        rows = [self.head, ("---",) * len(self.head), *[[_lines(cell, MARKDOWN) for cell in row] for row in self.rows]]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def latex(self) -> str:
        """For \\usepackage{booktabs}."""
        head = " & ".join(map(_tex, self.head))
        rows = "\n".join(" & ".join(_lines(cell, LATEX) for cell in row) + r" \\" for row in self.rows)
        return rf"""\begin{{table}}[h]
\centering
\caption{{{_tex(self.caption)}}}
\label{{tab:{self.name}}}
\resizebox{{\columnwidth}}{{!}}{{%
\begin{{tabular}}{{l{"c" * (len(self.head) - 1)}}}
\toprule
{head} \\
\midrule
{rows}
\bottomrule
\end{{tabular}}}}
\end{{table}}
"""


def _tex(text: str) -> str:
    for plain, written in (("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("#", r"\#")):
        text = text.replace(plain, written)
    return text.replace("±", r"$\pm$").replace("–", "--").replace("…", r"\dots")


class Style(NamedTuple):
    """How a language writes plain text, marks it, and joins the lines of a cell; {} stands for the text."""

    escape: Callable[[str], str]
    marks: dict[str, str]
    quiet: str
    join: str
    around: str  # of several lines


HTML = Style(html.escape, {"best": "<b>{}</b>", "second": "<u>{}</u>"}, '<span class="small">{}</span>', "<br>", "{}")
MARKDOWN = Style(str, {"best": "**{}**", "second": "<ins>{}</ins>"}, "<sub>{}</sub>", "<br>", "{}")
LATEX = Style(
    _tex,
    {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"},
    r"{{\small {}}}",
    r" \\ ",
    r"\begin{{tabular}}{{@{{}}c@{{}}}}{}\end{{tabular}}",
)


def _lines(cell: Cell, style: Style) -> str:
    written = []
    for line in cell:
        text = style.marks.get(line.mark, "{}").format(style.escape(line.text))
        written.append(style.quiet.format(text) if line.quiet else text)
    return style.around.format(style.join.join(written)) if len(written) > 1 else written[0]
