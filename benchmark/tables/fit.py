"""A table cut to the width of a screen: what a reader misses least goes first, and what went is named.

First the columns without a number go, such as targets that were not run; then what its kind needs least (`FIRST`); then
the ± of the cells; then the targets, from the right. The row's name, the average and n stay longest. Files and pipes get
the whole table.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from rich.cells import cell_len

from benchmark.analysis.table import NAN, Table, cell_text

GAP = 3  # between two columns on a screen
EDGES = 2
FOLD = 24  # text of this width is folded into lines before a column of numbers goes

# What goes before any other number, by kind; a pattern takes the columns from the right.
FIRST = {
    "comparison": ("cpu_seconds", "passes", "oracle_gap", "average_without_syn"),
    "gains": ("?*_interval",),
    "ablation": ("printed_gain", "printed", "average_without_syn", "ci_?*:bn", "gain_?*:bn"),
    "choices": ("p_holm", "targets"),
    "selection": ("gap_interval", "dev", "bnm", "snd"),
    "statistics": ("target_share", "rank_*"),
    "cost": ("memory", "hours", "images_per_s"),
    "reported": ("where", "interval"),
}
# What stays when everything else has gone, the least first.
LAST = (
    "interval", "ci_*", "gain_*", "step", "verdict", "effect", "difference", "reported", "ours", "lowest", "target", "runs",
    "seeds", "average", "Avg",
)  # fmt: skip
AVERAGES = ("average", "Avg")


def natural_width(table: Table) -> int:
    """Columns of a screen that the table takes when no line of it is folded."""
    widths = [0] * len(table.columns)
    for j, text in _texts(table):
        widths[j] = max(widths[j], cell_len(text))
    return _sum(widths)


def fitted(table: Table, width: int) -> tuple[Table, list[str]]:
    """(the table within `width`, what was left out of it in words); the table as it is when there is room for it.

    When even two columns are too wide, the names are folded further.
    """
    if natural_width(table) <= width:
        return table, []
    cut = _folded_titles(_short_blocks(table))
    gone: list[str] = []
    for key in _order(table):
        if _least_width(cut) <= width:
            break
        if key.startswith("±"):
            cut, there = _without_spread(cut, averages=key != "±")
            gone += [key] if there else []
        else:
            cut = _without(cut, key)
            gone.append(_name(table, key))
    return cut, gone


def _order(table: Table) -> Iterator[str]:
    """The keys of what goes, from the first to the last; `±` stands for the spreads of all cells but the averages'."""
    keys = [column.key for column in table.columns[1:]][::-1]
    first = [k for pattern in FIRST.get(table.kind.partition("-over-")[0], ()) for k in keys if fnmatchcase(k, pattern)]
    last = [k for pattern in LAST for k in keys if fnmatchcase(k, pattern) and k not in first]
    between = [k for k in keys if k not in first and k not in last]
    unmeasured = _unmeasured(table)
    empty = [k for k in keys if k in unmeasured and k not in last]
    first, between = ([k for k in some if k not in empty] for some in (first, between))
    yield from (*empty, *first, "±", "± of Avg", *between, *last[:-1])


def _unmeasured(table: Table) -> set[str]:
    """Columns of numbers without a number: targets that were not asked for."""
    there = {column.key for _, column, cell in table.records() if cell.measured}
    return {column.key for column in table.columns if column.numeric} - there


def _without(table: Table, key: str) -> Table:
    places = [j for j, column in enumerate(table.columns) if column.key != key]
    rows = tuple(replace(row, cells=tuple(row.cells[j] for j in places)) for row in table.rows)
    return replace(table, columns=tuple(table.columns[j] for j in places), rows=rows)


def _name(table: Table, key: str) -> str:
    """The title of a column; with that of the column before it where others have the same (95 %)."""
    titles = [column.title for column in table.columns]
    place = [column.key for column in table.columns].index(key)
    return f"{titles[place - 1]} {titles[place]}" if titles.count(titles[place]) > 1 else titles[place]


def _without_spread(table: Table, *, averages: bool) -> tuple[Table, bool]:
    """The numbers alone, in the averages or in all other cells; whether there was a spread."""
    chosen = [c.style == "score" and (c.key in AVERAGES) is averages for c in table.columns]
    bare = [[replace(c, spread=NAN) if chosen[j] else c for j, c in enumerate(row.cells)] for row in table.rows]
    rows = tuple(replace(row, cells=tuple(cells)) for row, cells in zip(table.rows, bare, strict=True))
    there = any(chosen[j] and not math.isnan(cell.spread) for row in table.rows for j, cell in enumerate(row.cells))
    return replace(table, rows=rows), there


def _short_blocks(table: Table) -> Table:
    """Headings without what stands in brackets, which the conditions say too, as long as no two become one."""
    short = {block: block.partition(" (")[0] for block, _ in table.blocks}
    if len(set(short.values())) < len(short):
        return table
    return replace(table, rows=tuple(replace(row, block=short[row.block]) for row in table.rows))


def _folded_titles(table: Table) -> Table:
    """Headings in lines where they are wider than the numbers below them; → stays with its target."""
    columns = []
    for j, column in enumerate(table.columns):
        below = max([cell_len(cell_text(column, row.cells[j])) for row in table.rows], default=0)
        if column.numeric and cell_len(column.title) > below and not column.title.startswith("→"):
            width = max([below, *map(cell_len, column.title.split())])
            column = replace(column, title="\n".join(textwrap.wrap(column.title, width, break_on_hyphens=False)))
        columns.append(column)
    return replace(table, columns=tuple(columns))


def _least_width(table: Table) -> int:
    """What the table takes when text is folded, numbers never."""
    widths = [0] * len(table.columns)
    for j, text in _texts(table):
        folds = table.columns[j].style == "text"
        words = [cell_len(word) for word in text.split()]
        need = min(cell_len(text), max([FOLD, *words])) if folds else cell_len(text)
        widths[j] = max(widths[j], need)
    return _sum(widths)


def _texts(table: Table) -> Iterator[tuple[int, str]]:
    """(column, line of text) of every heading and cell, footnotes' letters included."""
    for j, column in enumerate(table.columns):
        yield from ((j, line) for line in column.title.split("\n"))
    yield from ((0, block) for block, _ in table.blocks)
    for row in table.rows:
        for j, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True)):
            letters = table.letters(row) if j == 0 else []
            yield j, cell_text(column, cell) + (f"^{','.join(letters)}" if letters else "")


def _sum(widths: list[int]) -> int:
    return EDGES + sum(widths) + GAP * (len(widths) - 1)
