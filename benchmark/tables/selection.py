"""Selection rules side by side: what looking at the target's test labels is worth."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmark.analysis import rows as s
from benchmark.analysis import stats
from benchmark.analysis.condition import Condition, narrow
from benchmark.analysis.notes import incomplete, refuse_without_average, tuning_words
from benchmark.analysis.table import Cell, Column, Row, Table, mark_best, words
from benchmark.records.selection import RULES, WORDS, column_of
from benchmark.spec import Suite


def selection(frame: pd.DataFrame, suite: str | Suite, **only: Any) -> Table:
    """The average under each selection rule, and oracle − last with its interval over seeds."""
    runs, condition = narrow(frame, suite, **{**only, "selection": "last"})
    shown = s.rows_to_show(runs, condition)
    scored = runs[[column_of(r, condition.statistics) for r in RULES]].notna().any().tolist()
    known = [r for r, any_run in zip(RULES, scored, strict=True) if any_run]  # protocol 1 had fewer
    # The oracle is not a rule anyone may use: it is shown, never marked best.
    rules = [Column(r, r.replace("_", "-"), "score", better="" if r == "oracle" else "high") for r in known]
    wide = len(known) > 4  # a page has room for the rules, and for the gap under a short name
    gap = [
        Column("gap", "Gap" if wide else "oracle − last", "signed"),
        Column("gap_interval", "95 % interval", "interval", printed=not wide),
    ]
    columns = (Column("method", "Method"), *rules, *gap, Column("seeds", "n"))
    rows = [_row(entry, condition, known) for entry in shown]
    refuse_without_average(rows, condition)
    words_of_rules = "; ".join(f"{rule.replace('_', '-')}: {WORDS[rule]}" for rule in known)
    caption = ["Average over all targets in %, mean ± sd over n seeds; gap: oracle minus last.", *incomplete(rows)]
    conditions = [
        *condition.sentences(rule=False),
        f"Average over all targets in %, {condition.points_words} evaluation points (the oracle gap grows with them).",
        f"{words_of_rules[0].upper()}{words_of_rules[1:]}.",
        "Gap: oracle minus last, paired over seeds; best bold, second-best underlined, the oracle never.",
        tuning_words(shown),
    ]
    title = f"{condition.suite.title}: selection rules side by side, tier {condition.tier}"
    return condition.table("selection", title, columns, mark_best(columns, rows), caption, conditions)


def _row(entry: s.Entry, condition: Condition, rules: list[str]) -> Row:
    per_rule = {rule: stats.seed_averages(entry.scores(rule), condition.targets) for rule in rules}
    if per_rule["last"].empty:
        why = s.average(entry, condition, condition.targets)
        return entry.row(*[why for _ in rules], words("–"), words("–"), words("–"))
    gap = stats.paired(per_rule["oracle"], per_rule["last"])
    interval = Cell(low=gap.low, high=gap.high) if gap.n > 1 else words("one seed")
    cells = [words("–") if found.empty else s.cell(found) for found in per_rule.values()]
    return entry.row(*cells, Cell(value=gap.mean, n=gap.n), interval, words(gap.n))
