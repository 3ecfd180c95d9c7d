"""Tables as HTML: a `<figure>` that a page can hold, and a page of its own for one table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmark.analysis.table import Cell, Column, Row, Table, cell_text, number

SENTENCE = 60  # characters: longer words of a cell are broken into lines
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 88rem; padding: 0 1rem; }
sup { line-height: 0; }
.sheet { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
thead th { border-top: 2px solid; border-bottom: 1px solid; } tbody + tbody tr:first-child > * { border-top: 1px solid; }
tbody:last-of-type tr:last-child > * { border-bottom: 2px solid; }
th, td { padding: .3em .6em; text-align: left; white-space: nowrap; font-weight: normal; vertical-align: top; }
thead th { font-weight: 600; }
.wrap { white-space: normal; min-width: 16rem; }
.num { text-align: right; } .best { font-weight: 700; } .second { text-decoration: underline; }
.sd, .none { opacity: .75; } .none { font-style: italic; } .block th { font-style: italic; }
figure { margin: 0; } figcaption { max-width: 60rem; margin-bottom: .6rem; }
.conditions { max-width: 60rem; margin-top: .6rem; font-size: .9em; } .conditions summary { cursor: pointer; }
.conditions ul { padding-left: 1.2em; } .conditions li { overflow-wrap: anywhere; } .notes { list-style: none; }
@media (max-width: 60rem) { tbody th[scope="row"], thead th:first-child { position: sticky; left: 0; max-width: 12rem;
  min-width: 9rem; white-space: normal; overflow-wrap: break-word; background: Canvas; } }
@media print { details::details-content { content-visibility: visible; height: auto; } .sheet { overflow: visible; } }
""".strip()


def figure(table: Table, runs: bool = False) -> str:
    """`<figure class="table">` with caption, table, folded conditions. Blocks are `<tbody>`s with a heading row.

    `runs` names the runs of each cell, for a page that can show them.
    """
    head = "".join(
        f'<th scope="col"{_class(c)} data-key="{escape(c.key)}">{escape(c.title)}</th>' for c in table.columns
    )
    bodies = "".join(_block(table, block, rows, runs) for block, rows in table.blocks)
    return (
        f'<figure class="table" data-kind="{escape(table.kind)}">\n'
        f"<figcaption><strong>{escape(table.title)}.</strong> {escape(table.caption)}</figcaption>\n"
        f'<div class="sheet" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f"<table>\n<thead><tr>{head}</tr></thead>\n{bodies}</table></div>\n"
        f"{folded(table.conditions, table.notes)}</figure>\n"
    )


def folded(conditions: Sequence[str], notes: Sequence[tuple[str, str]] = ()) -> str:
    """`<details>` with a list of the conditions and one of the footnotes; nothing when there is nothing to say."""
    said = "".join(f"<li>{escape(text)}</li>" for text in conditions)
    below = "".join(f"<li><sup>{mark}</sup> {escape(text)}</li>" for mark, text in notes)
    if not said + below:
        return ""
    lists = (f"<ul>{said}</ul>" if said else "") + (f'<ul class="notes">{below}</ul>' if below else "")
    summary = "Conditions and notes" if below else "Conditions"
    return f'<details class="conditions"><summary>{summary}</summary>{lists}</details>\n'


def page(table: Table) -> str:
    """A whole document with one table; needs nothing else."""
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(table.title)}</title>\n<style>\n{STYLE}\n</style></head>\n<body>\n{figure(table)}</body>\n</html>\n"
    )


def _block(table: Table, block: str, rows: list[Row], runs: bool) -> str:
    lines = []
    if block:
        lines.append(
            f'<tr class="block"><th scope="rowgroup" colspan="{len(table.columns)}">{escape(block)}</th></tr>\n'
        )
    for row in rows:
        first, *rest = zip(table.columns, row.cells, strict=True)
        cells = [_cell(*first, tag="th", marks=table.letters(row)), *[_cell(c, cell, runs=runs) for c, cell in rest]]
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    return f"<tbody>\n{''.join(lines)}</tbody>\n"


def _class(column: Column, cell: Cell | None = None) -> str:
    names = ["num"] if column.numeric else []
    if cell is not None:
        names += ["wrap"] if column.style == "text" and len(cell.words) > SENTENCE else []
        names += [cell.mark] if cell.mark else []
        names += ["none"] if column.style != "text" and not cell.measured and math.isnan(cell.low) else []
    return f' class="{" ".join(names)}"' if names else ""


def _cell(column: Column, cell: Cell, tag: str = "td", marks: list[str] | None = None, runs: bool = False) -> str:
    text = escape(cell_text(column, cell))
    if column.style == "score" and cell.measured and not math.isnan(cell.spread):
        text = f'{number(cell.value, column.decimals)}<span class="sd"> ± {number(cell.spread, column.decimals)}</span>'
    title = f' title="{escape(cell.detail)}"' if cell.detail else ""
    order = f' data-value="{cell.value:.6g}"' if cell.measured else ""
    sup = "".join(f"<sup>{mark}</sup>" for mark in marks or [])
    scope = ' scope="row"' if tag == "th" else ""
    if runs and cell.runs:
        order += f' data-runs="{" ".join(cell.runs)}"'
    return f"<{tag}{scope}{_class(column, cell)}{order}{title}>{text}{sup}</{tag}>"
