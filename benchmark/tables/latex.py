r"""Tables as LaTeX: booktabs rules, siunitx columns, floats that fit the two-column article they are put into.

A score is a pair of columns, value and standard deviation, joined by ±: each lines up on its own decimal point. A table
that is too wide goes on in a further panel below, one that is too long in a further float.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from benchmark.analysis.table import Cell, Column, Row, Table, cell_text, number

_GREEK = """
alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega
Delta Lambda Pi Phi Psi Omega
"""
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "\n": " ",
    "→": r"$\to$",
    "←": r"$\leftarrow$",
    "−": r"$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≡": r"$\equiv$",
    "≈": r"$\approx$",
    "‖": r"$\|$",
    "√": r"$\surd$",
    "Σ": r"$\Sigma$",
    "∞": r"$\infty$",
    "²": r"$^2$",
    "³": r"$^3$",
    "½": r"$\frac12$",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "’": "'",
    "“": "``",
    "”": "''",
    "«": "``",
    "»": "''",
    "†": r"$\dagger$",
    "\N{NO-BREAK SPACE}": "~",
    "\N{THIN SPACE}": r"\,",
} | {
    letter: rf"$\{name}$"
    for letter, name in zip(
        "αβγδεζηθκλμνξπρστφχψωΔΛΠΦΨΩ",
        _GREEK.split(),
        strict=True,
    )
}


def escape(text: str) -> str:
    """Any text as pdfLaTeX shows it; a character that its fonts lack is named by its code point."""
    words = re.split("(?<=-)(?=-)", text)  # the two hyphens of an option would become a dash
    return "{}".join("".join(map(_character, word)) for word in words)


def _character(ch: str) -> str:
    return _SPECIAL.get(ch) or (ch if ch.isprintable() and ord(ch) < 0x180 else f"U+{ord(ch):04X}")


TEXT_WIDTH = 460.0  # points: a two-column article's, with a little air
COLUMN_WIDTH = 222.0
ROWS = 40  # more, under a long caption, do not fit a page at this size
_CHARACTER, _DIGIT = 4.2, 3.6  # points: the mean character of words and of numbers in a 7-point line
_GAP = 4.0
_WRAP = 44  # characters: longer words of a text column are broken into lines


def latex(table: Table) -> str:
    """The float (or floats): caption, panels, footnotes. The needed packages stand in a comment on top."""
    table = _printed(table)
    columns = [_shape(table, j) for j in range(len(table.columns))]
    numbers = sum(shape.width for shape in columns[1:])
    if columns[0].width + numbers > TEXT_WIDTH:  # long names in two lines leave room for the numbers
        room = int((TEXT_WIDTH - numbers - _GAP) / _CHARACTER)
        columns[0] = _shape(table, 0, wrap=max(_WRAP // 2, min(_WRAP, room)))
    narrow = sum(shape.width for shape in columns) <= COLUMN_WIDTH
    panels = _panels(columns, COLUMN_WIDTH if narrow else TEXT_WIDTH)
    star = "" if narrow else "*"
    pieces = _pieces(table, columns, ROWS // len(panels))
    lines = [r"% \usepackage{booktabs} \usepackage{siunitx}  % siunitx version 3"]
    for i, rows in enumerate(pieces):
        caption = rf"\textbf{{{escape(table.title)}.}} {escape(' '.join(table.caption))}"
        if i:
            caption = rf"\textbf{{{escape(table.title)}}} (continued)."
        lines += [
            rf"\begin{{table{star}}}[t]",
            r"  \centering\scriptsize\setlength{\tabcolsep}{2pt}\renewcommand{\arraystretch}{1.12}%",
            r"  \sisetup{text-series-to-math=true, reset-text-series=false, retain-explicit-plus=true}%",
            rf"  \caption{{{caption}}}",
            rf"  \label{{tab:{_label(table)}{f'-{i + 1}' if i else ''}}}",
        ]
        lines += [_tabular(table, columns, panel, rows) for panel in panels]
        if table.notes and i == len(pieces) - 1:
            notes = r"\\ ".join(rf"\textsuperscript{{{mark}}}\,{escape(text)}" for mark, text in table.notes)
            lines.append(rf"  \par\smallskip\begin{{minipage}}{{\linewidth}}\raggedright {notes}\end{{minipage}}")
        lines.append(rf"\end{{table{star}}}")
    return "\n".join(lines) + "\n"


def _printed(table: Table) -> Table:
    """The table without the columns that are for the screen only."""
    kept = [j for j, column in enumerate(table.columns) if column.printed]
    rows = [replace(row, cells=tuple(row.cells[j] for j in kept)) for row in table.rows]
    return replace(table, columns=tuple(table.columns[j] for j in kept), rows=tuple(rows))


def _label(table: Table) -> str:
    return "-".join(filter(None, [table.suite, str(table.facts.get("tier", "")), table.kind]))


def _pieces(table: Table, shapes: list[_Shape], limit: int) -> list[list[Row]]:
    """Rows in floats of at most `limit` lines; a wrapped cell takes several."""
    pieces: list[list[Row]] = [[]]
    used = 0
    for row in table.rows:
        lengths = [
            len(cell.words) * _CHARACTER / s.width for cell, s in zip(row.cells, shapes, strict=True) if s.wrapped
        ]
        lines = max([1, *(math.ceil(1.1 * length) for length in lengths)])
        if used + lines > limit and pieces[-1]:
            pieces.append([])
            used = 0
        pieces[-1].append(row)
        used += lines
    return pieces


def _panels(shapes: list[_Shape], limit: float) -> list[list[int]]:
    """Column numbers of each panel: the first column in all of them, the others in order until the width is used."""
    panels, used = [[0]], shapes[0].width
    for j in range(1, len(shapes)):
        if used + shapes[j].width > limit and len(panels[-1]) > 1:
            panels.append([0])
            used = shapes[0].width
        panels[-1].append(j)
        used += shapes[j].width
    return panels


def _tabular(table: Table, shapes: list[_Shape], panel: list[int], rows: list[Row]) -> str:
    spec = " ".join(_column(table.columns[j], shapes[j]) for j in panel)
    width = len(panel) + sum(1 for j in panel if shapes[j].spread)
    head = " & ".join(_head(table.columns[j], shapes[j]) for j in panel)
    lines = [
        rf"  \par\smallskip\begin{{tabular}}{{@{{}}{spec}@{{}}}}",
        r"    \toprule",
        rf"    {head} \\",
    ]
    block = None
    for row in rows:
        if row.block != block:
            lines.append(r"    \midrule")
            if row.block:
                lines.append(rf"    \multicolumn{{{width}}}{{@{{}}l}}{{\emph{{{escape(row.block)}}}}} \\")
            block = row.block
        cells = [_cell(table.columns[j], row.cells[j], shapes[j]) for j in panel]
        cells[0] += "".join(rf"\textsuperscript{{{mark}}}" for mark in table.letters(row))
        lines.append(f"    {' & '.join(cells)} \\\\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}"])


@dataclass(frozen=True)
class _Shape:
    """siunitx table-formats of a column (`spread` is empty when no cell has one), its width in points, lines or not."""

    value: str
    spread: str
    width: float
    wrapped: bool = False


def _shape(table: Table, j: int, wrap: int = _WRAP) -> _Shape:
    column = table.columns[j]
    cells = [row.cells[j] for row in table.rows]
    longest = max([len(column.title), *(len(cell_text(column, cell)) for cell in cells)])
    if not column.numeric:
        return _Shape("", "", min(longest, wrap) * _CHARACTER + _GAP, wrapped=longest > wrap)
    values = [cell.value for cell in cells if cell.measured]
    spreads = [cell.spread for cell in cells if not math.isnan(cell.spread)]
    sign = "+" if column.style == "signed" else "-" if any(v < 0 for v in values) else ""
    spread = _format(spreads, column.decimals, "") if spreads and column.style == "score" else ""
    return _Shape(_format(values, column.decimals, sign), spread, longest * _DIGIT + _GAP)


def _format(values: list[float], decimals: int, sign: str) -> str:
    """As many integer digits as the longest number needs."""
    digits = max((len(str(int(abs(round(v, decimals))))) for v in values), default=1)
    return f"{sign}{digits}.{decimals}" if decimals else f"{sign}{digits}"


def _column(column: Column, shape: _Shape) -> str:
    if shape.wrapped:
        return rf">{{\raggedright\arraybackslash}}p{{{shape.width:.0f}pt}}"
    if not column.numeric:
        return "l"
    value = f"S[table-format={shape.value}]"
    return rf"{value}@{{$\pm$}}S[table-format={shape.spread}]" if shape.spread else value


def _head(column: Column, shape: _Shape) -> str:
    title = escape(column.title)
    if shape.spread:
        return rf"\multicolumn{{2}}{{c}}{{{title}}}"
    return f"{{{title}}}" if column.numeric else title


def _cell(column: Column, cell: Cell, shape: _Shape) -> str:
    if column.style == "interval" and not math.isnan(cell.low):
        low, high = (number(end, column.decimals).replace("−", "-") for end in (cell.low, cell.high))
        return f"$[{low}, {high}]$"
    if not column.numeric:
        return escape(cell_text(column, cell))
    if not cell.measured:
        text = escape(cell.words or "–")
        return rf"\multicolumn{{2}}{{c}}{{{text}}}" if shape.spread else f"{{{text}}}"
    value = number(cell.value, column.decimals, signed=column.style == "signed").replace("−", "-")
    spread = "" if math.isnan(cell.spread) or not shape.spread else f"{cell.spread:.{column.decimals}f}"
    if cell.mark != "second" and (spread or not shape.spread):
        bold = r"\bfseries " if cell.mark == "best" else ""
        return f"{bold}{value} & {bold}{spread}" if shape.spread else bold + value
    # An underlined number, or one without ± among numbers with it, is boxed to the width of its column by hand.
    boxed = rf"\tablenum[table-format={shape.value}]{{{value}}}"
    if spread:
        boxed += rf"$\pm$\tablenum[table-format={shape.spread}]{{{spread}}}"
    boxed = {"second": rf"\underline{{{boxed}}}", "best": rf"\bfseries {boxed}"}.get(cell.mark, boxed)
    return rf"\multicolumn{{2}}{{c}}{{{boxed}}}" if shape.spread else f"{{{boxed}}}"
