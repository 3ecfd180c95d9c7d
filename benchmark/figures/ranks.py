"""The critical-difference diagram, where there are blocks enough to carry it."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from benchmark.analysis import rows as s
from benchmark.analysis import stats
from benchmark.analysis.condition import narrow
from benchmark.errors import UserError
from benchmark.figures.style import Drawing, new
from benchmark.spec import Suite


def critical_difference(
    frame: pd.DataFrame, suite: str | Suite | None = None, *, selection: str = "last", **only: Any
) -> Drawing:
    """Mean ranks of the methods over the targets of all suites, with bars over groups that Nemenyi cannot tell apart.

    Refused below ten independent blocks: one suite alone never has them.
    """
    names = sorted(frame["suite"].dropna().unique()) if suite is None else [suite]
    scores = []
    at_test: dict[str, str] = {}
    for name in names:
        runs, condition = narrow(frame, name, selection=selection, **only)
        at_test[condition.statistics] = condition.at_test
        for entry in s.rows_to_show(runs, condition):
            if entry.standard != "upper-bound":
                found = entry.scores(condition.selection)
                label = entry.label if entry.standard == "multi-source" else f"{entry.label} ({entry.standard})"
                scores.append(found.assign(suite=condition.suite.name, label=label))
    if not scores:
        raise UserError("There are no finished runs to rank.")
    if len(at_test) > 1:
        raise UserError(
            "Some suites were scored with batch-norm statistics of the target and some without, and ranks over both would "
            "compare neither. Add --statistics running"
        )
    result = stats.friedman(stats.blocks_by_methods(pd.concat(scores)))
    figure = new(6.0, 1.1 + 0.22 * len(result.methods))
    _draw(figure.subplots(), result)
    title = "Mean ranks over targets, with Nemenyi's critical difference"
    order = sorted(zip(result.ranks, result.methods, strict=True))
    alt = "Methods by mean rank, best first: " + ", ".join(f"{name} {rank:.2f}" for rank, name in order) + "."
    caption = (
        f"Friedman χ² = {result.statistic:.2f}, p = {result.p:.3g}, {result.blocks} blocks; bars join what cannot be told "
        "apart."
    )
    conditions = (
        "A block is a target of a suite, seeds averaged first; targets of one suite share source images.",
        f"Critical difference {result.critical_difference:.2f} at 5 %.",
        *filter(None, at_test.values()),
    )
    return Drawing(figure, title, alt, caption, conditions)


def groups(ranks: list[float], difference: float) -> list[tuple[int, int]]:
    """Maximal runs (first, last) of sorted ranks whose ends are no further apart than `difference`."""
    found: list[tuple[int, int]] = []
    for i in range(len(ranks)):
        j = max(k for k in range(i, len(ranks)) if ranks[k] - ranks[i] <= difference)
        if j > i and not any(a <= i and j <= b for a, b in found):
            found.append((i, j))
    return found


def _draw(axis: Axes, result: stats.RankTest) -> None:
    order = sorted(zip(result.ranks, result.methods, strict=True))
    ranks = [rank for rank, _ in order]
    half = (len(order) + 1) // 2
    axis.set(xlim=(0.5, len(order) + 0.5), ylim=(-(half + 1.9), 1.3), yticks=[])
    axis.xaxis.tick_top()
    axis.spines["bottom"].set_visible(False)
    axis.spines["left"].set_visible(False)
    axis.spines["top"].set_visible(True)
    axis.grid(False)
    for i, (rank, name) in enumerate(order):
        left = i < half
        y = -1.0 - (i if left else len(order) - 1 - i)
        edge = 0.5 if left else len(order) + 0.5
        axis.plot([rank, rank, edge], [1.3, y, y], color="black", linewidth=0.8)
        axis.text(edge, y, f"{name}  " if left else f"  {name}", ha="right" if left else "left", va="center")
    for level, (i, j) in enumerate(groups(ranks, result.critical_difference)):
        height = 0.75 - 0.28 * level
        axis.plot(
            [ranks[i] - 0.05, ranks[j] + 0.05], [height, height], color="black", linewidth=3, solid_capstyle="butt"
        )
    middle, low = (len(order) + 1) / 2, -(half + 1.0)
    ends = [middle - result.critical_difference / 2, middle + result.critical_difference / 2]
    axis.plot(ends, [low, low], color="#0072B2", linewidth=1.5, marker="|")
    axis.text(
        middle,
        low - 0.15,
        f"critical difference {result.critical_difference:.2f}",
        ha="center",
        va="top",
        color="#0072B2",
    )
