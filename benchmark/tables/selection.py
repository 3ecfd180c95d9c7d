"""Selection rules side by side: what looking at the target's test labels is worth."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmark import stats
from benchmark.selection import RULES, WORDS
from benchmark.spec import Suite
from benchmark.tables import scores as s
from benchmark.tables.condition import Condition, narrow
from benchmark.tables.table import Cell, Column, Row, Table, mark_best, words


def selection(frame: pd.DataFrame, suite: str | Suite, **only: Any) -> Table:
    """The average under each selection rule, and oracle − last with its interval over seeds."""
    runs, condition = narrow(frame, suite, **{**only, "selection": "last"})
    shown = s.rows_to_show(runs, condition)
    # The oracle is not a rule anyone may use: it is shown, never marked best.
    rules = [Column(r, r.replace("_", "-"), "score", better="" if r == "oracle" else "high") for r in RULES]
    gap = [Column("gap", "oracle − last", "signed"), Column("gap_interval", "95 % interval", "interval")]
    columns = (Column("method", "Method"), *rules, *gap, Column("seeds", "n"))
    rows = [_row(entry, condition) for entry in shown]
    words_of_rules = "; ".join(f"{rule.replace('_', '-')}: {WORDS[rule]}" for rule in RULES)
    caption = [
        *condition.sentences(rule=False),
        f"Average over all targets in %, {condition.points_words} evaluation points (the oracle gap grows with them).",
        f"{words_of_rules[0].upper()}{words_of_rules[1:]}.",
        s.tuning_words(shown),
        *s.whole(rows),
    ]
    title = f"{condition.suite.title}: selection rules side by side, tier {condition.tier}"
    return condition.table("selection", title, columns, mark_best(columns, rows), caption)


def _row(entry: s.Entry, condition: Condition) -> Row:
    per_rule = {rule: stats.seed_averages(entry.scores(rule), condition.targets) for rule in RULES}
    if per_rule["last"].empty:
        why = s.average(entry, condition, condition.targets)
        return entry.row(*[why for _ in RULES], words("–"), words("–"), words("–"))
    gap = stats.paired(per_rule["oracle"], per_rule["last"])
    interval = Cell(low=gap.low, high=gap.high) if gap.n > 1 else words("one seed")
    return entry.row(*[s.cell(per_rule[rule]) for rule in RULES], Cell(value=gap.mean, n=gap.n), interval, words(gap.n))
