"""The comparison: the paper's blocks and column order, on our records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from benchmark.analysis import machines
from benchmark.analysis import rows as s
from benchmark.analysis.condition import Condition, narrow
from benchmark.analysis.notes import remarks, tuning_words
from benchmark.analysis.table import Cell, Column, Row, Table, mark_best, words
from benchmark.spec import Suite
from methods.groups import READINGS


def comparison(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Table:
    """Accuracy of every method on every target, in the blocks Single-Best, Source Combination, Multi-Source, Upper bound.

    Runs with hyper-parameters changed by hand (`--set`) and presets tried on fewer targets than their method are left to
    the kind `choices`, and counted in the caption.
    """
    runs, condition = narrow(frame, suite, selection=selection, **only)
    found = s.entries(runs)
    shown = s.methods_as_they_come(found)
    columns = _columns(condition)
    rows: list[Row] = []
    for entry in shown:
        own = _single_best(entry, condition) if entry.standard == "single-best" else [_whole(entry, condition)]
        # the same numbers as another row's are not marked twice
        rows += [replace(row, competes=False) for row in own] if _repeats(entry, shown, condition) else own
    caption = ["Mean ± sd over n seeds; best bold, second-best underlined.", _incomplete(rows, condition)]
    said = [*condition.sentences(), condition.timed, tuning_words(shown)]
    conditions = [*said, *_reading(rows, condition), *_left_out(found, shown)]
    title = f"{condition.suite.title}: target accuracy in %, tier {condition.tier}, selection {condition.selection}"
    return condition.table("comparison", title, columns, mark_best(columns, rows), caption, conditions)


def without_syn(condition: Condition) -> list[str]:
    """The targets of the second average, or none when there is no `syn`."""
    rest = [t for t in condition.targets if t != "syn"]
    return rest if len(rest) < len(condition.targets) else []


def score_columns(condition: Condition) -> list[Column]:
    """One column a target, the average, and the average without `syn`."""
    decimals = condition.decimals
    columns = [Column(t, f"→ {condition.label(t)}", "score", decimals, better="high") for t in condition.targets]
    columns.append(Column("average", "Avg", "score", decimals, better="high"))
    if without_syn(condition):
        columns.append(Column("average_without_syn", f"w/o {condition.label('syn')}", "score", decimals, better="high"))
    return columns


def score_cells(entry: s.Entry, condition: Condition) -> dict[str, Cell]:
    """The cells of `score_columns`."""
    cells = s.target_cells(entry, condition)
    cells["average"] = s.average(entry, condition, condition.targets)
    if without_syn(condition):
        cells["average_without_syn"] = s.average(entry, condition, without_syn(condition))
    return cells


def _columns(condition: Condition) -> tuple[Column, ...]:
    after = (
        Column("oracle_gap", "Gap", "signed"),
        Column("passes", "Passes", "number", decimals=1, printed=False),
        Column("cpu_seconds", "CPU s", "number", decimals=0, printed=False),
        Column("seeds", "n"),
    )
    return (Column("method", "Method"), *score_columns(condition), *after)


def _row(entry: s.Entry, condition: Condition, notes: list[str], details: dict[str, str] | None = None) -> Row:
    cells = score_cells(entry, condition)
    per_target = {t: cells[t] for t in condition.targets}
    rule = entry.scores(condition.selection).set_index("run_id")["score"]
    gap = entry.scores("oracle").set_index("run_id")["score"].loc[rule.index] - rule
    for target, detail in (details or {}).items():
        cells[target] = replace(cells[target], detail=detail)
    oracle_gap = Cell(value=float(gap.mean()), n=len(gap)) if len(gap) else words("–")
    cost = (s.mean(entry, "passes"), machines.time(entry, condition, "cpu_seconds"))
    return entry.row(*cells.values(), oracle_gap, *cost, words(s.seeds(per_target)), notes=notes)


def _whole(entry: s.Entry, condition: Condition) -> Row:
    return _row(entry, condition, remarks(entry, condition))


def _repeats(entry: s.Entry, shown: list[s.Entry], condition: Condition) -> bool:
    """Whether it reads another shown row's runs with the statistics that this table has for all rows."""
    reading = READINGS.get(entry.method)
    if reading is None or reading.statistics != condition.statistics:
        return False
    return any((e.name, e.standard, e.split) == (reading.of, entry.standard, entry.split) for e in shown)


def _single_best(entry: s.Entry, condition: Condition) -> list[Row]:
    """Two rows: the source chosen with the target's labels, as in the paper, and the choice without them."""
    rows = []
    for label_free in (False, True):
        chosen_entry, chosen = s.choose_source(entry, condition, label_free)
        notes = remarks(entry, condition) if not label_free else []
        few = s.candidates(entry, condition)
        notes += [few] if few and not label_free else []
        if chosen:
            listed = ", ".join(f"{chosen[t]}→{condition.label(t)}" for t in condition.targets if t in chosen)
            rule = "H(mean p) − mean H(p) on target training images" if label_free else "mean accuracy on the target"
            notes.append(f"Source with the highest {rule}: {listed}.")
        details = {t: f"source {source}" for t, source in chosen.items()}
        rows.append(_row(chosen_entry, condition, notes, details))
    return rows


def _reading(rows: list[Row], condition: Condition) -> list[str]:
    """How to read the numbers."""
    without = [f"w/o {condition.label('syn')}: average without it."] if without_syn(condition) else []
    said = [
        *without,
        "Mean ± standard deviation (sd) over n seeds; best and second-best within the same split; a number of one seed is "
        "never marked.",
        "Gap: oracle minus this rule, mean over targets and seeds.",
    ]
    if any(row.block == s.BLOCKS["single-best"] for row in rows):
        said.append(
            "Single-Best: one source for all seeds, chosen with the target's test labels; (unsup): without them."
        )
    if any(row.block == s.BLOCKS["upper-bound"] for row in rows):
        said.append("Upper bound: Source-Only trained on the labelled target.")
    return said


def _incomplete(rows: list[Row], condition: Condition) -> str:
    """A sentence when the table is not whole, else nothing; the empty cells say why."""
    cells = [c for row in rows for c in row.cells[1 : 1 + len(condition.targets)]]
    measured = sum(c.measured for c in cells)
    return f"INCOMPLETE: {measured} of {len(cells)} cells measured." if measured < len(cells) else ""


def _left_out(found: list[s.Entry], shown: list[s.Entry]) -> list[str]:
    rest = [e for e in found if e not in shown]
    changed, some = [e for e in rest if not e.plain], [e for e in rest if e.plain]
    said = []
    if changed:
        count = sum(len(e.runs) for e in changed)
        said.append(f"{count} runs with changed hyper-parameters are not shown here (kind choices shows them).")
    if some:
        labels = ", ".join(e.label for e in some)
        said.append(f"Run on some targets only and not shown here (kind choices shows them): {labels}.")
    by_method: dict[str, set[str]] = {}
    for e in shown:
        by_method.setdefault(e.title, set()).add(e.revision)
    mixed = [title for title, revisions in by_method.items() if len(revisions) > 1]
    if mixed:
        said.append(f"Different revisions of {', '.join(mixed)} stand in rows of their own and are never averaged.")
    return said
