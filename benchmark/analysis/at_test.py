"""Both statistics at test side by side: what the batch-norm averages that a loop leaves behind do to each row."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmark.analysis import rows as s
from benchmark.analysis import stats
from benchmark.analysis.condition import Condition, narrow
from benchmark.analysis.notes import incomplete, refuse_without_average, tuning_words
from benchmark.analysis.table import Cell, Column, Row, Table, mark_best, words
from benchmark.errors import UserError
from benchmark.records.selection import STATISTICS
from benchmark.spec import Suite


def statistics(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Table:
    """The average of each row under `running` and `target`, their difference, the rank under each, the target's share."""
    if only.get("statistics") is not None:
        raise UserError("The table statistics shows running and target side by side. Leave out --statistics.")
    runs, condition = narrow(frame, suite, selection=selection, **only)
    if condition.statistics != "target":
        raise UserError(
            f"The table statistics compares two scores of the same weights, and the runs of suite {condition.suite.name} were "
            f"scored once (protocol 1). Run them again: python -m benchmark run --suite {condition.suite.name} --tier "
            f"{condition.tier}"
        )
    columns = (
        Column("method", "Method"),
        *(Column(kind, kind, "score", condition.decimals, better="high") for kind in STATISTICS),
        Column("difference", "target − running", "signed"),
        Column("interval", "95 % interval", "interval"),
        *(Column(f"rank_{kind}", f"Rank, {kind}") for kind in STATISTICS),
        Column("target_share", "Share", "number", decimals=3),
        Column("seeds", "n"),
    )
    shown = s.rows_to_show(runs, condition)
    averages = [{kind: _average(entry, condition, kind) for kind in STATISTICS} for entry in shown]
    ranks = {kind: _ranks(shown, [a[kind] for a in averages], condition.decimals) for kind in STATISTICS}
    rows = [
        _row(entry, condition, averages[i], [ranks[kind].get(i, "–") for kind in STATISTICS])
        for i, entry in enumerate(shown)
    ]
    refuse_without_average(rows, condition)
    caption = [
        "Average in % of the same weights under both kinds of batch-norm statistics.",
        *incomplete(rows),
    ]
    conditions = [
        *condition.sentences(statistics=False),
        "Average over all targets in % from the same weights, with the batch-norm statistics that each method's loop leaves "
        "behind (running) and with those of target training images, re-estimated alike for every row (target); difference: "
        f"paired over seeds, with its t interval from {stats.MIN_SEEDS} seeds on.",
        "Share: the target's weight in the running statistics, which the order of passes in the loop fixes; rank: among the "
        "rows of the same split with an average over as many seeds as any of them has, the upper bound left out.",
        tuning_words(shown),
    ]
    title = f"{condition.suite.title}: statistics at test side by side, tier {condition.tier}"
    return condition.table("statistics", title, columns, mark_best(columns, rows), caption, conditions)


def _average(entry: s.Entry, condition: Condition, kind: str) -> pd.Series:
    return stats.seed_averages(entry.scores(condition.selection, kind), condition.targets)


def _ranks(shown: list[s.Entry], averages: list[pd.Series], decimals: int) -> dict[int, str]:
    """Places by printed average, the highest first, equals alike; among competing rows of the same split.

    A row with fewer seeds than another has none: its average may be one of a lucky seed.
    """
    ranks = {}
    competing = {i for i, entry in enumerate(shown) if len(averages[i]) and entry.standard != "upper-bound"}
    most = {
        split: max(len(averages[i]) for i in competing if shown[i].split == split)
        for split in {shown[i].split for i in competing}
    }
    values = {
        i: round(float(averages[i].mean()), decimals)
        for i in sorted(competing)
        if len(averages[i]) == most[shown[i].split]
    }
    for i, value in values.items():
        rivals = [other for j, other in values.items() if shown[j].split == shown[i].split]
        ranks[i] = str(1 + sum(other > value for other in rivals))
    return ranks


def _row(entry: s.Entry, condition: Condition, averages: dict[str, pd.Series], ranks: list[str]) -> Row:
    share = s.mean(entry, "target_share")
    found = stats.paired(averages["target"], averages["running"])
    if not found.n:
        why = s.average(entry, condition, condition.targets)
        return entry.row(*[why for _ in averages], words("–"), words("–"), *map(words, ranks), share, words("–"))
    interval = Cell(low=found.low, high=found.high) if found.enough else words("too few seeds")
    cells = [s.cell(averages[kind]) for kind in STATISTICS]
    return entry.row(*cells, Cell(value=found.mean, n=found.n), interval, *map(words, ranks), share, words(found.n))
