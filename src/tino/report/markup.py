"""A table once, written as HTML, Markdown or LaTeX; and how each of them writes plain text."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tino.text import visible


class Line(NamedTuple):
    """A line of a cell; mark is 'best', 'second' or empty, and a quiet line is written small."""

    text: str
    mark: str = ""
    quiet: bool = False


Lines = tuple[Line, ...]  # of one cell of a table


@dataclass(frozen=True)
class Markup:
    """Rows of cells under headings; the first columns are text, the others are numbers."""

    name: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Lines, ...], ...]
    texts: int = 1  # columns of text

    def html(self) -> str:
        rows = [[(Line(text),) for text in self.head], *self.rows]
        written = "\n".join(self._html_row(row, "th" if i == 0 else "td") for i, row in enumerate(rows))
        caption = f'<p class="small">{in_html(self.caption)}</p>\n' if self.caption else ""
        return f'{caption}<div class="scroll" tabindex="0"><table>\n{written}\n</table></div>'

    def _html_row(self, row: Sequence[Lines], tag: str) -> str:
        cells = (f"<{tag}{' class=text' * (i < self.texts)}>{_lines(cell, HTML)}</{tag}>" for i, cell in enumerate(row))
        return f"<tr>{''.join(cells)}</tr>"

    def markdown(self) -> str:
        sides = [":---" if i < self.texts else "---:" for i in range(len(self.head))]
        rows = [map(in_markdown, self.head), sides, *[[_lines(cell, MARKDOWN) for cell in row] for row in self.rows]]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def latex(self) -> str:
        r"""For \usepackage{booktabs, longtable, graphicx}: as wide as the page, and a long one over several pages."""
        columns = "l" * self.texts + "r" * (len(self.head) - self.texts)
        head = " & ".join(map(in_latex, self.head)) + r" \\"
        rows = "\n".join(" & ".join(_lines(cell, LATEX) for cell in row) + r" \\" for row in self.rows)
        about = rf"\caption{{{in_latex(self.caption)}}}\label{{tab:{self.name}}}"
        if len(self.rows) > LONG:
            begin = rf"\begin{{longtable}}{{{columns}}}{about} \\"
            return f"{begin}\n\\toprule\n{head}\n\\midrule\n\\endhead\n{rows}\n\\bottomrule\n\\end{{longtable}}\n"
        return rf"""\begin{{table}}[h]
\centering
{about}
\resizebox{{\columnwidth}}{{!}}{{%
\begin{{tabular}}{{{columns}}}
\toprule
{head}
\midrule
{rows}
\bottomrule
\end{{tabular}}}}
\end{{table}}
"""


LONG = 20  # rows that may not fit a page
TEX = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "±": r"$\pm$", "–": "--"}
TEX |= {"…": r"\dots{}", "<": "$<$", ">": "$>$", "|": r"\textbar{}", **{sign: rf"\{sign}" for sign in "&%_#{}$"}}
TEX |= {"`": r"\textasciigrave{}", "[": "{[}", "]": "{]}", "*": "{*}"}  # after \\, [ and * would be its arguments
MD = {"&": "&amp;", "<": "&lt;", ">": "&gt;", **{sign: rf"\{sign}" for sign in "\\`*_[]|~$"}}


def in_html(text: str) -> str:
    return html.escape(visible(text))


def in_markdown(text: str) -> str:
    """Within a line; at its beginning, a dash or a number with a dot would still make a list."""
    return "".join(MD.get(sign, sign) for sign in visible(text))


def in_latex(text: str) -> str:
    return "".join(TEX.get(sign, sign) for sign in visible(text))


class Style(NamedTuple):
    """How a language writes plain text, marks it, and joins the lines of a cell; {} stands for the text."""

    escape: Callable[[str], str]
    marks: dict[str, str]
    quiet: str
    join: str
    around: str  # of several lines


HTML = Style(in_html, {"best": "<b>{}</b>", "second": "<u>{}</u>"}, '<span class="small">{}</span>', "<br>", "{}")
MARKDOWN = Style(in_markdown, {"best": "**{}**", "second": "<ins>{}</ins>"}, "<sub>{}</sub>", "<br>", "{}")
LATEX = Style(
    in_latex,
    {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"},
    r"{{\small {}}}",
    r" \\ ",
    r"\begin{{tabular}}{{@{{}}c@{{}}}}{}\end{{tabular}}",
)


def _lines(cell: Lines, style: Style) -> str:
    written = []
    for line in cell:
        text = style.marks.get(line.mark, "{}").format(style.escape(line.text))
        written.append(style.quiet.format(text) if line.quiet else text)
    return style.around.format(style.join.join(written)) if len(written) > 1 else written[0]
