"""What the accuracy cost: passes over the data, images per second, time, memory."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmark.analysis import machines
from benchmark.analysis import rows as s
from benchmark.analysis.condition import Condition, narrow
from benchmark.analysis.notes import incomplete
from benchmark.analysis.table import Cell, Column, Row, Table, mark_best, words
from benchmark.spec import Suite

COLUMNS = (
    Column("method", "Method"),
    Column("average", "Avg", "score", better="high"),
    Column("passes", "Passes", "number", decimals=2),
    Column("images_per_s", "Images/s", "number", decimals=0),
    Column("seconds", "s/run", "number", decimals=1),
    Column("cpu_seconds", "CPU s/run", "number", decimals=1),
    Column("hours", "Hours", "number", decimals=2),
    Column("memory", "Peak MB", "number", decimals=0),
    Column("runs", "Runs"),
)


def cost(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Table:
    """One row a method: its average beside what its runs took."""
    runs, condition = narrow(frame, suite, selection=selection, **only)
    rows = [_row(entry, condition) for entry in s.rows_to_show(runs, condition)]
    caption = ["Average accuracy in % beside what the runs took.", *incomplete(rows)]
    conditions = [
        *condition.sentences(),
        "Hours: of all runs together, whatever machine they ran on.",
        "Passes: images forwarded, as a multiple of the one batch a domain that every update is given.",
        condition.timed or f"Times are those of {condition.machine or 'the machine that the runs ran on'}.",
    ]
    title = f"{condition.suite.title}: cost, tier {condition.tier}"
    return condition.table("cost", title, COLUMNS, mark_best(COLUMNS, rows), caption, conditions)


def _row(entry: s.Entry, condition: Condition) -> Row:
    done = entry.done
    hours = float(done["seconds"].astype(float).sum()) / 3600 if len(done) else float("nan")
    cells = [s.mean(entry, "passes")]
    cells += [machines.time(entry, condition, key) for key in ("images_per_s", "seconds", "cpu_seconds")]
    cells += [Cell(value=hours) if len(done) else words("–"), s.mean(entry, "peak_memory_mb")]
    return entry.row(s.average(entry, condition, condition.targets), *cells, words(len(done)))
