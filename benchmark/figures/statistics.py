"""The table of both statistics at test as a picture: how far each row moves, and how its rank does."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmark.analysis.at_test import statistics as table_of
from benchmark.analysis.condition import reach
from benchmark.analysis.rows import BLOCKS
from benchmark.analysis.table import Row
from benchmark.errors import UserError
from benchmark.figures.style import WITH, WITHOUT, Drawing, new
from benchmark.records.selection import STATISTICS
from benchmark.spec import Suite


def statistics(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Drawing:
    """A line a row, from its average with `running` statistics to the one with `target`; its two ranks on the right."""
    table = table_of(frame, suite, selection=selection, **only)
    keys = [column.key for column in table.columns]
    found = [(_name(row), dict(zip(keys, row.cells, strict=True))) for row in table.rows if row.competes]
    whole = [(name, cells) for name, cells in found if cells["difference"].measured]
    if not whole:
        raise UserError(f"No row of suite {table.suite} that competes has all targets: there is nothing to draw.")
    ordered = sorted(whole, key=lambda pair: -pair[1]["target"].value)
    rows = [cells for _, cells in ordered]
    figure = new(6.4, 0.9 + 0.24 * len(rows))
    axis = figure.subplots()
    for y, cells in enumerate(rows):
        running, target = cells["running"].value, cells["target"].value
        axis.plot([running, target], [y, y], color="#bbbbbb", linewidth=1.6, zorder=1)
        axis.plot(running, y, "o", color=WITHOUT, markerfacecolor="white", markersize=5.5)
        axis.plot(target, y, "o", color=WITH, markersize=5.5)
        ranks = [cells[f"rank_{kind}"].words for kind in STATISTICS]
        moved = "–" if "–" in ranks else " → ".join(ranks)
        axis.text(1.02, y, moved, transform=axis.get_yaxis_transform(), va="center")
    axis.plot([], [], "o", color=WITHOUT, markerfacecolor="white", label="running: what its loop leaves behind")
    axis.plot([], [], "o", color=WITH, label="target: of target training images")
    axis.text(1.02, -0.9, "rank", transform=axis.get_yaxis_transform(), va="center", color="#555555")
    names = [f"{name} (n = {cells['seeds'].words})" for name, cells in ordered]
    axis.set(yticks=range(len(rows)), yticklabels=names, xlabel="average over the targets (%)")
    axis.set_ylim(len(rows) - 0.5, -1.2)
    axis.grid(axis="y", visible=False)
    figure.legend(loc="outside upper center", ncols=2)
    furthest, by = max(((name, cells["difference"].value) for name, cells in ordered), key=lambda pair: abs(pair[1]))
    alt = (
        f"Dot plot of the average of {len(rows)} rows with both kinds of batch-norm statistics at test. Furthest apart: "
        f"{furthest}, {by:+.2f} points."
    )
    caption = f"The same weights with two kinds of batch-norm statistics at test. {reach(str(table.facts['tier']))}"
    return Drawing(figure, table.title, alt, caption.strip(), table.conditions)


def _name(row: Row) -> str:
    """The method, and its block where the sources are not kept apart: Source-Only stands in several."""
    block = row.block.split(" (")[0]
    return row.cells[0].words if block == BLOCKS["multi-source"] else f"{row.cells[0].words}, {block.lower()}"
