"""What each method gains over one row, target by target: over Source-Only:bn, as a user of adaptation asks, or over a rival."""

from __future__ import annotations

from dataclasses import replace
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
SEEN = ", which has seen the target in its batch-norm statistics and nothing else"
STANDARDS = ("multi-source", "combined", "single-best")  # of a row that was run in several, the first one is meant


def gains(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", over: str = BASE, **only: Any) -> Table:
    """One row a method: its difference to the row `over` on each target and on average, paired over seeds."""
    runs, condition = narrow(frame, suite, selection=selection, **only)
    shown = s.rows_to_show(runs, condition)
    base = _base(shown, over)
    others = [e for e in shown if e is not base and e.standard != "upper-bound" and base and e.split == base.split]
    if base is None or not others:
        raise UserError(
            f"The table gains compares with {over}, and there is no other row beside it, or no such row, for suite "
            f"{condition.suite.name}, tier {condition.tier}. Type: python -m benchmark run --suite "
            f"{condition.suite.name} --tier {condition.tier} --methods {over},tsvdnet"
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
        "Differences paired over seeds; bold: the 95 % interval lies above zero.",
        f"INCOMPLETE: {lacking} of {len(rows) * len(signed)} cells without a pair." if lacking else "",
    ]
    conditions = [
        *condition.sentences(),
        tuning_words([base, *others]),
        f"Difference to {base.label} of the block {base.block}{SEEN if over == BASE else ''}: per-seed differences, paired, "
        "95 % t interval over seeds, not corrected for their number. No pair: no seed that both rows have.",
    ]
    title = f"{condition.suite.title}: gain over {base.label} in points, tier {condition.tier}"
    made = condition.table(kind_of(over), title, tuple(columns), rows, caption, conditions)
    return replace(made, facts={**made.facts, "over": base.label})


def kind_of(over: str) -> str:
    """Over another row than usual it has files and labels of its own."""
    return "gains" if over == BASE else f"gains-over-{over.replace(':', '-')}"


def _base(shown: list[s.Entry], over: str) -> s.Entry | None:
    """The row that the others are held against; refused when the name stands for several."""
    named = [e for e in shown if e.name == over and e.plain and not e.some]
    first = next((standard for standard in STANDARDS if any(e.standard == standard for e in named)), "")
    alike = [e for e in named if e.standard == first]
    if len({e.split for e in alike}) > 1:
        raise UserError(f"There are runs of {over} on the splits part and all. Add --split part or --split all")
    return s.by_name(alike).get(over)


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
