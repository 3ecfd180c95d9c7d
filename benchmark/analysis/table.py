"""The table object: what every kind of table makes and every form (`benchmark.tables`) is written from.

A cell is a number with its spread and number of seeds, or words that say why there is none. A table that is not whole
says so in its caption; nothing here knows about records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

NAN = float("nan")
Mark = Literal["", "best", "second"]
Style = Literal["text", "score", "number", "signed", "interval"]


@dataclass(frozen=True)
class Cell:
    """One cell: `value` with `spread` (standard deviation over n seeds) or `low`/`high`, or else `words`."""

    value: float = NAN
    spread: float = NAN
    n: int = 0
    low: float = NAN
    high: float = NAN
    words: str = ""
    mark: Mark = ""
    detail: str = ""  # what a reader sees on hovering, and a program in the CSV
    runs: tuple[str, ...] = ()  # the runs that it comes from

    @property
    def measured(self) -> bool:
        """True if the cell holds a number."""
        return not math.isnan(self.value)


def words(text: object, detail: str = "") -> Cell:
    """A cell of text."""
    return Cell(words=str(text), detail=detail)


@dataclass(frozen=True)
class Column:
    """A column: `key` for programs, `title` for people; how numbers are written."""

    key: str
    title: str
    style: Style = "text"
    decimals: int = 2
    better: Literal["", "high", "low"] = ""  # which end is marked best
    printed: bool = True  # False: left out of LaTeX, where a page is only so wide

    @property
    def numeric(self) -> bool:
        """True if its cells are numbers that line up on the decimal point."""
        return self.style in ("score", "number", "signed")


@dataclass(frozen=True)
class Row:
    """One row: its cells in the order of the columns, the block it stands in, its footnotes."""

    cells: tuple[Cell, ...]
    block: str = ""
    competes: bool = True  # the upper bound does not
    league: str = ""  # rows are marked against rows of the same league (the same data split) only
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table, whole: columns, rows in blocks, caption sentences, footnotes."""

    kind: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: tuple[str, ...] = ()
    suite: str = ""
    facts: dict[str, object] = field(default_factory=dict)  # tier, selection, …: for programs

    @property
    def blocks(self) -> list[tuple[str, list[Row]]]:
        """Rows by block, both in order."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.block, []).append(row)
        return list(found.items())

    @property
    def notes(self) -> list[tuple[str, str]]:
        """Footnotes as (letter, text), in the order in which the rows call them."""
        texts = list(dict.fromkeys(note for row in self.rows for note in row.notes))
        return [(letter(i), text) for i, text in enumerate(texts)]

    def letters(self, row: Row) -> list[str]:
        """The letters of a row's footnotes."""
        known = {text: mark for mark, text in self.notes}
        return [known[note] for note in row.notes]

    @property
    def sentences(self) -> str:
        """The caption as one paragraph, title first."""
        return " ".join([self.title.rstrip(".") + ".", *self.caption])

    def records(self) -> Iterator[tuple[Row, Column, Cell]]:
        """Every cell with its row and column."""
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                yield row, column, cell


def letter(index: int) -> str:
    """0 → a, 25 → z, 26 → aa."""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def mark_best(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[Row, ...]:
    """Mark the best and second-best printed number of each column that has a better end, league by league.

    Equal printed numbers share a mark; a league of one row has no best. A number of one seed is neither: it does not
    compete, however high it is.
    """
    marked = list(rows)
    for j, column in enumerate(columns):
        if not column.better:
            continue
        for league in {row.league for row in rows}:
            inside = [i for i, r in enumerate(rows) if r.league == league and _competes(r, r.cells[j])]
            printed = {i: round(rows[i].cells[j].value, column.decimals) for i in inside}
            ranked = sorted(set(printed.values()), reverse=column.better == "high")
            if len(inside) < 2:
                continue
            first = [i for i in inside if printed[i] == ranked[0]]
            second = [i for i in inside if len(first) == 1 and printed[i] == ranked[1]]
            for i in first:
                marked[i] = _with_mark(marked[i], j, "best")
            for i in second:
                marked[i] = _with_mark(marked[i], j, "second")
    return tuple(marked)


def _competes(row: Row, cell: Cell) -> bool:
    return row.competes and cell.measured and cell.n > 1


def _with_mark(row: Row, j: int, mark: Mark) -> Row:
    cells = list(row.cells)
    cells[j] = replace(cells[j], mark=mark)
    return replace(row, cells=tuple(cells))


def number(value: float, decimals: int, signed: bool = False) -> str:
    """A number with a true minus sign; `signed` shows + too. A negative zero is a zero."""
    text = f"{value:+.{decimals}f}" if signed else f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", "−")


def cell_text(column: Column, cell: Cell) -> str:
    """A cell in plain Unicode: `90.05 ± 0.91`, `[−0.31, 1.20]`, or its words."""
    if column.style == "interval" and not math.isnan(cell.low):
        return f"[{number(cell.low, column.decimals)}, {number(cell.high, column.decimals)}]"
    if not cell.measured:
        return cell.words or "–"
    text = number(cell.value, column.decimals, signed=column.style == "signed")
    if column.style == "score" and not math.isnan(cell.spread):
        text += f" ± {number(cell.spread, column.decimals)}"
    return text
