"""What the tests of the tables share: a name that every form must escape, and the cells of a table by name."""

from __future__ import annotations

from benchmark.tables.table import Cell, Table

NASTY = "My_Net & <b>100 %</b> #1 {x} $y^2~ | `*[z](u)*` \\"


def rows(table: Table) -> dict[str, dict[str, Cell]]:
    """Cells by block/label and column key."""
    return {
        f"{row.block.split(' (')[0]}/{row.cells[0].words}": {
            c.key: cell for c, cell in zip(table.columns, row.cells, strict=True)
        }
        for row in table.rows
    }
