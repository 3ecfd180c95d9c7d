"""Small charts drawn as SVG without any library, so that they print, scale, and follow the page's colours."""

from __future__ import annotations

from markupsafe import Markup, escape

from benchmark.analysis.rows import BLOCKS
from benchmark.analysis.table import Row, Table, number

# The states of a run in the order in which people ask for them, with the class that colours each.
SHADES = [BLOCKS[standard] for standard in ("single-best", "combined", "multi-source", "upper-bound")]
SHARES = {"done": "good", "running": "busy", "interrupted": "idle", "failed": "bad", "damaged": "bad"}


def averages(table: Table) -> Markup:
    """A dot for each row's average with ± one standard deviation, best on top; block by shade, words in the row labels."""
    place = next((j for j, c in enumerate(table.columns) if c.key == "average"), None)
    if place is None:
        return Markup("")
    rows = [(r.cells[place], r) for r in table.rows if r.cells[place].measured]
    if not rows:
        return Markup("")
    rows.sort(key=lambda pair: -pair[0].value)
    spreads = [0.0 if cell.spread != cell.spread else cell.spread for cell, _ in rows]
    low = min(c.value - s for (c, _), s in zip(rows, spreads, strict=True))
    high = max(c.value + s for (c, _), s in zip(rows, spreads, strict=True))
    room = max(1.0, high - low) * 0.06
    low, high = low - room, high + room
    names = [_short(_name(r)) for _, r in rows]
    left, right, step = 20 + int(9.2 * max(map(len, names))), 660, 22  # room for the larger letters of a phone
    height = step * len(rows) + 34

    def x(value: float) -> float:
        return left + (right - left) * (value - low) / (high - low)

    parts = []
    for tick in _ticks(low, high):
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="4" y2="{height - 26}"/>')
        parts.append(f'<text class="tick" x="{x(tick):.1f}" y="{height - 10}" text-anchor="middle">{tick:g}</text>')
    for i, ((cell, row), spread) in enumerate(zip(rows, spreads, strict=True)):
        y = 16 + step * i
        shade = f"b{SHADES.index(row.block) % 4}" if row.block in SHADES else "b3"
        name = escape(names[i])
        parts.append(f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{name}</text>')
        ends = f'x1="{x(cell.value - spread):.1f}" x2="{x(cell.value + spread):.1f}" y1="{y}" y2="{y}"'
        parts.append(f'<line class="{shade}" {ends}/>')
        parts.append(f'<circle class="{shade}" cx="{x(cell.value):.1f}" cy="{y}" r="4.5"/>')
        parts.append(f'<text x="{right + 10}" y="{y + 4}">{number(cell.value, 1)}</text>')
    listed = "; ".join(f"{_name(r)} {number(c.value, 1)}" for c, r in rows)
    label = escape(f"{table.title}: averages, best first: {listed}")
    return Markup(
        f'<svg class="dots" viewBox="0 0 720 {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _name(row: Row) -> str:
    """The row's label; with its block when that is not the usual one."""
    block = row.block.partition(" (")[0]
    return row.cells[0].words if block in ("", "Multi-Source") else f"{row.cells[0].words}, {block}"


def _short(text: str, limit: int = 36) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers between the ends."""
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50, 100) if (high - low) / s <= 8)
    first = int(low // step) + 1
    return [step * k for k in range(first, int(high // step) + 1)]
