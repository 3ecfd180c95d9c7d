"""Tables for programs (CSV, JSON) and for terminals."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table as Grid

from benchmark.analysis.table import Cell, Column, Row, Table, cell_text
from benchmark.tables.fit import fitted


def csv_text(table: Table) -> str:
    """One line a row: a score column gives `key`, `key_sd`, `key_n`, `key_remark`; an interval `key_low`, `key_high`.

    The last columns, `caption` and `conditions`, are those of the whole table and stand in its first row only.
    """
    head = ["block"]
    for column in table.columns:
        head += [column.key + suffix for suffix in _suffixes(column)]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*head, "notes", "caption", "conditions"])
    for i, row in enumerate(table.rows):
        values: list[str] = [row.block]
        for column, cell in zip(table.columns, row.cells, strict=True):
            values += _values(column, cell)
        said = ["", ""] if i else [f"{table.title}. {table.caption}".strip(), " ".join(table.conditions)]
        writer.writerow(map(_harmless, [*values, " ".join(row.notes), *said]))
    return buffer.getvalue()


def _suffixes(column: Column) -> list[str]:
    if column.style == "text":
        return [""]
    if column.style == "interval":
        return ["_low", "_high"]
    return ["", "_sd", "_n", "_remark"] if column.style == "score" else ["", "_remark"]


def _values(column: Column, cell: Cell) -> list[str]:
    remark = "; ".join(filter(None, [cell.words if not cell.measured else "", cell.detail]))
    if column.style == "text":
        return [cell.words if not cell.measured else cell_text(column, cell)]
    if column.style == "interval":
        return [_plain(cell.low), _plain(cell.high)]
    if column.style == "score":
        return [_plain(cell.value), _plain(cell.spread), str(cell.n) if cell.measured else "", remark]
    return [_plain(cell.value), remark]


def _plain(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _harmless(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    if text[:1] in ("=", "+", "@", "\t") or (text[:1] == "-" and not _is_number(text)):
        return "'" + text
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def document(table: Table) -> dict[str, Any]:
    """Kind, title, caption, conditions, facts, columns and rows; NaN becomes null."""
    return {
        "kind": table.kind,
        "suite": table.suite,
        "title": table.title,
        "caption": table.caption,
        "conditions": list(table.conditions),
        "facts": table.facts,
        "columns": [{"key": c.key, "title": c.title, "style": c.style} for c in table.columns],
        "rows": [_row(table, row) for row in table.rows],
    }


def _row(table: Table, row: Row) -> dict[str, Any]:
    cells = {c.key: _json_cell(c, cell) for c, cell in zip(table.columns, row.cells, strict=True)}
    return {"block": row.block, "competes": row.competes, "notes": list(row.notes), "cells": cells}


def _json_cell(column: Column, cell: Cell) -> Any:
    if column.style == "text":
        return cell.words if not cell.measured else cell.value
    found = {k: getattr(cell, k) for k in ("value", "spread", "low", "high")}
    document: dict[str, Any] = {k: v for k, v in found.items() if not math.isnan(v)}
    document.update({k: getattr(cell, k) for k in ("n", "words", "mark", "detail") if getattr(cell, k)})
    return document


def show(table: Table, console: Console, whole: str = "") -> None:
    """Print to a terminal: best bold, second underlined; the words of empty cells, conditions and footnotes dim.

    On a screen that is too narrow the table is cut to fit, and a line says what was left out; `whole` ends that line with
    where all of it is.
    """
    cut, gone = fitted(table, console.width) if console.is_terminal else (table, [])
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    for column in cut.columns:
        stiff = column.numeric or (console.is_terminal and column.style == "interval")
        grid.add_column(escape(column.title), justify="right" if column.numeric else "left", no_wrap=stiff)
    for block, rows in cut.blocks:
        if block:
            grid.add_row(f"[italic]{escape(block)}[/italic]")
        for row in rows:
            cells = [_styled(c, cell) for c, cell in zip(cut.columns, row.cells, strict=True)]
            if cut.letters(row):
                cells[0] += f"[dim]^{','.join(cut.letters(row))}[/dim]"
            grid.add_row(*cells)
        grid.add_section()
    soft = False if console.is_terminal else None  # a line ends between words, not where the screen does
    console.print(f"[bold]{escape(table.title)}[/bold]", soft_wrap=soft)
    if table.caption:
        console.print(escape(table.caption), soft_wrap=soft)
    _wide_enough(console, grid).print(grid)
    if gone:
        console.print(escape(f"Left out at {console.width} columns: {', '.join(gone)}."), soft_wrap=soft)
        console.print(escape(whole))  # a path is never broken: it shall be copied
    below = [" ".join(table.conditions), *(f"^{mark} {text}" for mark, text in table.notes)]
    for text in filter(None, below):
        console.print(escape(text), style="dim", highlight=False, soft_wrap=soft)


def _wide_enough(console: Console, grid: Grid) -> Console:
    """A terminal's width is the reader's; into a file or a pipe the table goes at its full width."""
    if console.is_terminal:
        return console
    needed = Measurement.get(console, console.options.update(max_width=10_000), grid).maximum
    return Console(file=console.file, width=max(console.width, needed), highlight=False)


def _styled(column: Column, cell: Cell) -> str:
    text = escape(cell_text(column, cell))
    style = {"best": "bold", "second": "underline"}.get(
        cell.mark, "" if cell.measured or column.style == "text" else "dim"
    )
    return f"[{style}]{text}[/{style}]" if style else text
