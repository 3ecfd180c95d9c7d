"""Tables as GitHub Markdown."""

from __future__ import annotations

import re

from tabulate import tabulate

from benchmark.analysis.table import Cell, Column, Table, cell_text

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&$])")


def escape(text: str) -> str:
    """Text that Markdown shows as it is: no accidental emphasis, HTML or column break."""
    return _SPECIAL.sub(lambda m: {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(m[1], "\\" + m[1]), text).replace(
        "\n", " "
    )


def markdown(table: Table) -> str:
    """Title in bold and caption, the table, then in small letters the conditions and one line a footnote."""
    blocked = any(row.block for row in table.rows)
    head = ([""] if blocked else []) + [escape(c.title) for c in table.columns]
    body = []
    for block, rows in table.blocks:
        for i, row in enumerate(rows):
            cells = [_cell(c, cell) for c, cell in zip(table.columns, row.cells, strict=True)]
            cells[0] += "".join(f"<sup>{mark}</sup>" for mark in table.letters(row))
            body.append(([escape(block) if i == 0 else ""] if blocked else []) + cells)
    align = (["left"] if blocked else []) + ["right" if c.numeric else "left" for c in table.columns]
    grid = tabulate(body, headers=head, tablefmt="pipe", colalign=align, disable_numparse=True)
    parts = [f"**{escape(table.title)}.** {escape(table.caption)}".strip(), grid]
    if table.conditions:
        parts.append(f"<sub>Conditions: {escape(' '.join(table.conditions))}</sub>")
    if table.notes:
        parts.append("\n".join(f"<sub><sup>{mark}</sup> {escape(text)}</sub>  " for mark, text in table.notes))
    return "\n\n".join(parts) + "\n"


def _cell(column: Column, cell: Cell) -> str:
    text = escape(cell_text(column, cell))
    return {"best": f"**{text}**", "second": f"<u>{text}</u>"}.get(cell.mark, text)
