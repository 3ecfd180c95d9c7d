"""What each method gains over Source-Only:bn, target by target: the question that a user of adaptation asks."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmark.analysis import rows as s
from benchmark.analysis import stats
from benchmark.analysis.condition import Condition, narrow
from benchmark.analysis.notes import tuning_words
from benchmark.analysis.table import Cell, Column, Row, Table, words
from benchmark.errors import UserError
from benchmark.spec import Suite

BASE = "source-only:bn"


def gains(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Table:
    """One row a method: its difference to Source-Only:bn on each target and on average, paired over seeds."""
    runs, condition = narrow(frame, suite, selection=selection, **only)
    shown = s.rows_to_show(runs, condition)
    base = next((e for e in shown if e.name == BASE and e.standard == "multi-source"), None)
    others = [e for e in shown if e is not base and e.standard != "upper-bound" and base and e.split == base.split]
    if base is None or not others:
        raise UserError(
            f"The table gains compares with {BASE}, and there is no other row beside it, or no such row, for suite "
            f"{condition.suite.name}, tier {condition.tier}. Type: python -m benchmark run --suite "
            f"{condition.suite.name} --tier {condition.tier} --methods {BASE},tsvdnet"
        )
    columns = [Column("method", "Method")]
    for target in condition.targets:
        columns.append(Column(target, f"→ {condition.label(target)}", "signed"))
        columns.append(Column(f"{target}_interval", "95 %", "interval", decimals=1, printed=False))
    columns += [
        Column("average", "Avg", "signed"),
        Column("interval", "95 % interval", "interval"),
        Column("seeds", "n"),
    ]
    rows = [_row(e, base, condition) for e in others]
    signed = [i for i, column in enumerate(columns) if column.style == "signed"]
    lacking = sum(not row.cells[i].measured for row in rows for i in signed)
    caption = [
        *condition.sentences(),
        tuning_words([base, *others]),
        "Difference to Source-Only:bn, which has seen the target in its batch-norm statistics and nothing else: per-seed "
        "differences, paired, 95 % t interval over seeds. Bold: the interval lies above zero.",
        *(
            [f"INCOMPLETE: {lacking} of {len(rows) * len(signed)} cells lack a seed that both rows have."]
            if lacking
            else []
        ),
    ]
    title = f"{condition.suite.title}: gain over Source-Only:bn in points, tier {condition.tier}"
    return condition.table("gains", title, tuple(columns), rows, caption)


def _row(entry: s.Entry, base: s.Entry, condition: Condition) -> Row:
    cells: list[Cell] = []
    found = [_paired(entry, base, [target], condition) for target in condition.targets]
    whole = _paired(entry, base, condition.targets, condition)
    for effect in [*found, whole]:
        cells += _cells(effect)
    return entry.row(*cells, words(whole.n or max(effect.n for effect in found)))


def _paired(entry: s.Entry, base: s.Entry, targets: Any, condition: Condition) -> stats.Interval:
    both = [stats.seed_averages(e.scores(condition.selection), targets) for e in (entry, base)]
    return stats.paired(both[0], both[1])


def _cells(effect: stats.Interval) -> list[Cell]:
    if effect.n == 0:
        return [words("no pair"), words("–")]
    interval = Cell(low=effect.low, high=effect.high) if effect.n > 1 else words("one seed")
    return [Cell(value=effect.mean, n=effect.n, mark="best" if effect.enough and effect.above(0) else ""), interval]
