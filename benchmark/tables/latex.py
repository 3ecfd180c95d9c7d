r"""Tables as LaTeX: booktabs rules, siunitx columns, floats that fit the two-column article they are put into.

A score is a pair of columns, value and standard deviation, joined by ±: each lines up on its own decimal point. A table
that is too wide goes on in a further panel below, one that is too long in a further float. Conditions and footnotes stand
in small letters below the rows, in the same float.
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
    text = text.replace(" %", "\N{NO-BREAK SPACE}%")  # a number and its unit stay together
    words = re.split("(?<=-)(?=-)", text)  # the two hyphens of an option would become a dash
    return "{}".join("".join(map(_character, word)) for word in words)


def _character(ch: str) -> str:
    return _SPECIAL.get(ch) or (ch if ch.isprintable() and ord(ch) < 0x180 else f"U+{ord(ch):04X}")


TEXT_WIDTH = 460.0  # points: a two-column article's, with a little air
COLUMN_WIDTH = 222.0
ROWS = 40  # more are hard to read across
PAGE = 54.0  # lines at this size, rows and what stands below them, under a caption of two lines
_HEAD, _BLOCK = 3.0, 1.8  # lines that rules and headings of a panel and of a block take
_CHARACTER, _DIGIT = 4.2, 3.6  # points: the mean character of words and of numbers in a 7-point line
_LETTER, _NORMAL = 3.4, 4.9  # points: the mean character of running text, and in the caption's normal size
_GAP = 4.0
_WRAP = 44  # characters: longer words of a text column are broken into lines
_NAME, _TIGHT = 20, 16  # characters, where room is scarce: of the first column, of short columns beside sentences


def latex(table: Table) -> str:
    """The float (or floats): caption, panels, conditions, footnotes. The needed packages stand in a comment on top."""
    table = _printed(table)
    columns = _fitted(table, [_shape(table, j) for j in range(len(table.columns))])
    short = len(table.title) + len(table.caption) <= 3 * COLUMN_WIDTH / _NORMAL
    narrow = short and sum(shape.width for shape in columns) <= COLUMN_WIDTH
    panels = _panels(columns, COLUMN_WIDTH if narrow else TEXT_WIDTH)
    star = "" if narrow else "*"
    below, height = _below(table, COLUMN_WIDTH if narrow else TEXT_WIDTH)
    pieces = _pieces(table, columns, max(PAGE / 3, PAGE - height) / len(panels))
    lines = [r"% \usepackage{booktabs} \usepackage{siunitx}  % siunitx version 3"]
    for i, rows in enumerate(pieces):
        caption = rf"\textbf{{{escape(table.title)}.}} {escape(table.caption)}".rstrip()
        if i:
            caption = rf"\textbf{{{escape(table.title)}}} (continued)."
        lines += [
            rf"\begin{{table{star}}}[t]",
            r"  \centering\scriptsize\setlength{\tabcolsep}{2pt}\renewcommand{\arraystretch}{1.12}%",
            r"  \sisetup{text-series-to-math=true, reset-text-series=false, retain-explicit-plus=true}%",
            *([r"  \addtocounter{table}{-1}%"] if i else []),
            rf"  \caption{{{caption}}}",
            rf"  \label{{tab:{_label(table)}{f'-{i + 1}' if i else ''}}}",
        ]
        lines += [_tabular(table, columns, panel, rows) for panel in panels]
        if below and i == len(pieces) - 1:
            lines.append(rf"  \par\smallskip\begin{{minipage}}{{\linewidth}}\raggedright {below}\end{{minipage}}")
        lines.append(rf"\end{{table{star}}}")
    return "\n".join(lines) + "\n"


def _fitted(table: Table, shapes: list[_Shape]) -> list[_Shape]:
    """The columns, with words broken into lines where they would not fit the page's width."""
    width, shapes = sum(shape.width for shape in shapes), list(shapes)
    long = [j for j, shape in enumerate(shapes) if shape.wrapped]
    if width > TEXT_WIDTH and len(long) > 1:  # a table of sentences: they share what the short columns leave
        short = [j for j in range(len(shapes)) if j not in long]
        for j in short:
            shapes[j] = _shape(table, j, wrap=_TIGHT)
        room = (TEXT_WIDTH - sum(shapes[j].width for j in short)) / len(long)
        for j in long:
            shapes[j] = replace(shapes[j], width=max(room, _TIGHT * _CHARACTER))
    elif width > TEXT_WIDTH:  # long names in two lines leave room for the numbers
        room = int((TEXT_WIDTH - width + shapes[0].width - _GAP) / _CHARACTER)
        shapes[0] = _shape(table, 0, wrap=max(_NAME, min(_WRAP, room)))
    return shapes


def _below(table: Table, width: float) -> tuple[str, int]:
    """The conditions as one paragraph, then a line a footnote; and how many lines that is, `width` points wide."""
    notes = [rf"\textsuperscript{{{mark}}}\,{escape(text)}" for mark, text in table.notes]
    said = [rf"\emph{{Conditions:}} {escape(' '.join(table.conditions))}"] if table.conditions else []
    lengths = [len(text) for _, text in table.notes] + [len(" ".join(table.conditions))] * len(said)
    return r"\\ ".join(said + notes), sum(math.ceil(n * _LETTER / width) for n in lengths)


def _printed(table: Table) -> Table:
    """The table without the columns that are for the screen only."""
    kept = [j for j, column in enumerate(table.columns) if column.printed]
    rows = [replace(row, cells=tuple(row.cells[j] for j in kept)) for row in table.rows]
    return replace(table, columns=tuple(table.columns[j] for j in kept), rows=tuple(rows))


def _label(table: Table) -> str:
    return "-".join(filter(None, [table.suite, str(table.facts.get("tier", "")), table.kind]))


def _pieces(table: Table, shapes: list[_Shape], limit: float) -> list[list[Row]]:
    """Rows in floats of at most `limit` lines a panel; a wrapped cell takes several, a new block its heading."""
    pieces: list[list[Row]] = [[]]
    used, block = _HEAD, None
    for row in table.rows:
        wrapped = [(len(c.words), s.width) for c, s in zip(row.cells, shapes, strict=True) if s.wrapped]
        lines = max([1, *(math.ceil(1.15 * length * _LETTER / width) for length, width in wrapped)])
        heading = _BLOCK if row.block != block else 0.0
        if pieces[-1] and (used + heading + lines > limit or len(pieces[-1]) == ROWS):
            pieces.append([])
            used, heading = _HEAD, _BLOCK
        pieces[-1].append(row)
        used, block = used + heading + lines + 0.3 * (len(wrapped) > 1), row.block
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
    sentences = sum(shapes[j].wrapped for j in panel) > 1
    for i, row in enumerate(rows):
        if i and sentences:
            lines.append(r"    \addlinespace[2pt]")
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
    """siunitx table-formats of a column (`spread` is empty when no cell has one), its width in points, its heading."""

    value: str
    spread: str
    width: float
    heading: tuple[str, ...]  # its lines
    wrapped: bool = False


def _shape(table: Table, j: int, wrap: int = _WRAP) -> _Shape:
    column = table.columns[j]
    cells = [row.cells[j] for row in table.rows]
    longest = max([0, *(len(cell_text(column, cell)) for cell in cells)])
    heading = _heading(column.title, longest)
    longest = max(longest, *map(len, heading))
    if not column.numeric:
        point = _DIGIT if column.style == "interval" else _CHARACTER
        return _Shape("", "", min(longest, wrap) * point + _GAP, heading, wrapped=longest > wrap)
    values = [cell.value for cell in cells if cell.measured]
    spreads = [cell.spread for cell in cells if not math.isnan(cell.spread)]
    sign = "+" if column.style == "signed" else "-" if any(v < 0 for v in values) else ""
    spread = _format(spreads, column.decimals, "") if spreads and column.style == "score" else ""
    return _Shape(_format(values, column.decimals, sign), spread, longest * _DIGIT + _GAP, heading)


def _heading(title: str, longest: int) -> tuple[str, ...]:
    """A heading that is longer than what stands below it, in two lines of about the same length; else as it is."""
    places = [i for i, character in enumerate(title) if character == " "]
    if len(title) <= max(longest, 8) or not places:
        return (title,)
    middle = min(places, key=lambda i: abs(i - len(title) / 2))
    return title[:middle], title[middle + 1 :]


def _format(values: list[float], decimals: int, sign: str) -> str:
    """As many integer digits as the longest number needs."""
    digits = max((len(str(int(abs(round(v, decimals))))) for v in values), default=1)
    return f"{sign}{digits}.{decimals}" if decimals else f"{sign}{digits}"


def _column(column: Column, shape: _Shape) -> str:
    if shape.wrapped:
        return rf">{{\raggedright\arraybackslash}}p{{{shape.width - _GAP:.0f}pt}}"
    if not column.numeric:
        return "l"
    value = f"S[table-format={shape.value}]"
    return rf"{value}@{{$\pm$}}S[table-format={shape.spread}]" if shape.spread else value


def _head(column: Column, shape: _Shape) -> str:
    title = escape(shape.heading[0])
    if len(shape.heading) > 1:
        place = "" if column.numeric else "[l]"
        title = rf"\shortstack{place}{{{title}\\{escape(shape.heading[1])}}}"
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
