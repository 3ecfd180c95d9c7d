"""What the tests of the tables share: a name that every form must escape, and the cells of a table by name."""

from __future__ import annotations

import zlib

import pandas as pd

from benchmark.analysis.table import Cell, Table
from benchmark.records.selection import VALIDATORS

NASTY = "My_Net & <b>100 %</b> #1 {x} $y^2~ | `*[z](u)*` \\"


def rows(table: Table) -> dict[str, dict[str, Cell]]:
    """Cells by block/label and column key."""
    return {
        f"{row.block.split(' (')[0]}/{row.cells[0].words}": {
            c.key: cell for c, cell in zip(table.columns, row.cells, strict=True)
        }
        for row in table.rows
    }


def scored(frame: pd.DataFrame) -> pd.DataFrame:
    """Validators that follow the accuracy, each less closely than the one before; in the study itself they are all alike."""
    keys = frame[["method", "preset", "standard", "target", "seed"]].astype(str).agg(" ".join, axis=1)
    columns = {}
    for i, validator in enumerate(VALIDATORS):
        noise = keys.map(lambda key, v=validator: zlib.crc32(f"{v} {key}".encode()) / 2**32 - 0.5)
        columns[f"target_final_{validator}"] = frame["target_last"] + 20 * i * noise
    return frame.assign(**columns)
