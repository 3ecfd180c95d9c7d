"""The table of gains as a picture: what each method is worth over Source-Only:bn, or over a rival, with intervals."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmark.analysis.condition import reach
from benchmark.analysis.gains import gains as table_of
from benchmark.analysis.table import Cell
from benchmark.figures.style import Drawing, colour, new
from benchmark.spec import Suite


def gains(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Drawing:
    """A line a method: its average gain with its 95 % interval in black, its gain on each target in colour."""
    table = table_of(frame, suite, selection=selection, **only)
    keys = [column.key for column in table.columns]
    base = table.facts["over"]
    targets = [key for key in keys if f"{key}_interval" in keys]
    figure = new(6.4, 0.9 + 0.24 * len(table.rows))
    axis = figure.subplots()
    axis.axvline(0, color="#777777", linewidth=0.8)
    for y, row in enumerate(table.rows):
        cells = dict(zip(keys, row.cells, strict=True))
        for i, target in enumerate(targets):
            if cells[target].measured:
                axis.plot(cells[target].value, y, "o", color=colour(i), markersize=4, alpha=0.85)
        _average(axis, y, cells["average"], cells["interval"])
    for i, target in enumerate(targets):
        title = next(column.title for column in table.columns if column.key == target)
        axis.plot([], [], "o", color=colour(i), markersize=4, label=title)
    axis.plot([], [], "D", color="black", markersize=4, label="average, 95 %")
    names = [f"{row.cells[0].words} ({row.block.split(' (')[0].lower()})" for row in table.rows]
    axis.set(yticks=range(len(names)), yticklabels=names, xlabel=f"points above {base}")
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    place = keys.index("average")
    whole = [row.cells for row in table.rows if row.cells[place].measured]
    best = max(whole, key=lambda cells: cells[place].value, default=None)
    lead = f" Largest average: {best[0].words}, {best[place].value:+.2f}." if best else ""
    alt = f"Dot plot of the gain over {base} for {len(names)} rows, on each target and on average.{lead}"
    caption = f"Black: the average with its 95 % interval over seeds; coloured: each target. {reach(str(table.facts['tier']))}"
    conditions = (f"The table of gains in a picture: {table.caption}", *table.conditions)
    return Drawing(figure, table.title, alt, caption.strip(), conditions)


def _average(axis: Any, y: int, value: Cell, interval: Cell) -> None:
    if not value.measured:
        return
    if interval.low == interval.low:  # NaN with one seed
        axis.plot([interval.low, interval.high], [y, y], color="black", linewidth=1.6, zorder=3)
    axis.plot(value.value, y, "D", color="black", markersize=4.5, zorder=4)
