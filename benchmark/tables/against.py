"""Ours beside the printed numbers: measured, reported, difference with its interval; and the printed averages checked."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmark.analysis import rows as s
from benchmark.analysis import stats
from benchmark.analysis.condition import Condition, narrow
from benchmark.analysis.table import Cell, Column, Row, Table, words
from benchmark.analysis.verdict import cell_verdict
from benchmark.errors import UserError
from benchmark.paper import printed
from benchmark.paper.claims import margin
from benchmark.spec import Suite


def reported(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Table:
    """One row for each printed cell that one of our rows can be held against: measured, reported, ours − reported."""
    # the printed numbers were scored with what the loops leave behind
    runs, condition = narrow(frame, suite, selection=selection, usual="running", **only)
    numbers = printed.accuracies(condition.suite.reported or condition.suite.name)
    numbers = numbers[numbers["kind"] != "gain"]
    if numbers.empty:
        raise UserError(f"No printed numbers are known for suite {condition.suite.name}.")
    rows: list[Row] = []
    for entry in s.rows_to_show(runs, condition):
        rows += _rows(entry, condition, numbers)
    if not rows:
        raise UserError(
            f"None of the {len(runs)} runs of suite {condition.suite.name} stands for a row that the paper prints."
        )
    columns = (
        Column("method", "Method"),
        Column("target", "Target"),
        Column("ours", "Ours", "score"),
        Column("reported", "Reported", "score"),
        Column("difference", "Difference", "signed"),
        Column("interval", "95 % interval", "interval"),
        Column("verdict", "Verdict"),
        Column("where", "Table"),
    )
    counts = pd.Series([row.cells[6].words for row in rows]).value_counts()
    summary = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    caption = [
        *condition.sentences(),
        f"Difference: ours minus reported, t interval over our seeds around the printed mean; margin ±{margin():g} points.",
        "The paper does not say how many runs stand behind its ±: its own uncertainty is not in the interval.",
        "Verdicts are given in tier paper only, without changed settings and on the paper's own images.",
        f"Cells: {summary}.",
    ]
    title = f"{condition.suite.title}: ours beside reported, tier {condition.tier}"
    return condition.table("reported", title, columns, rows, caption)


# The release's weights answer the same rows of Table 4; where a table prints the whole method only, a part answers none.
ANSWERS = {"code-e": "e", "code": "et"}
PARTS = ("e", "et", "code-e", "code-p")


def _rows(entry: s.Entry, condition: Condition, numbers: pd.DataFrame) -> list[Row]:
    """The printed rows that `entry` is held against; whole readings of T-SVDNet against T-SVDNet's row."""
    alike = (numbers["standard"] == entry.standard) & (numbers["split"] == entry.split)
    same = numbers[alike & (numbers["method"] == entry.method)]
    exact = same[same["preset"] == entry.preset]
    if exact.empty and entry.method == "tsvdnet":
        exact = same[same["preset"] == ANSWERS.get(entry.preset, entry.preset)]
    if exact.empty and entry.method == "tsvdnet" and entry.preset not in PARTS:
        exact = same[same["preset"] == ""]
    exact = exact.drop_duplicates(["column", "printed"])  # T-SVDNet_all stands in Tables 1 and 4 alike
    cells = s.target_cells(entry, condition)
    cells["Avg"] = s.average(entry, condition, condition.targets)
    scores = entry.scores(condition.selection)
    per_seed = {str(t): part.set_index("seed")["score"] for t, part in scores.groupby("target")}
    per_seed["Avg"] = stats.seed_averages(scores, condition.targets)
    rows = []
    for n in exact.itertuples():
        ours = cells[str(n.column)]
        values = per_seed.get(str(n.column), pd.Series(dtype=float))
        found = stats.t_interval((values - float(n.value)).to_numpy())
        made = condition.generated if n.column == "Avg" else set(condition.generated) & {str(n.column)}
        verdict = cell_verdict(found, condition.tier, as_printed=condition.settings == "{}" and not made)
        difference = Cell(value=found.mean, n=found.n) if found.n else words("–")
        interval = Cell(low=found.low, high=found.high) if found.n > 1 else words("one seed" if found.n else "–")
        there = Cell(value=float(n.value), spread=float(n.spread))
        target = str(n.column) if n.column == "Avg" else f"→ {condition.label(str(n.column))}"
        where = f"{n.table}, {n.row}"
        rows.append(entry.row(words(target), ours, there, difference, interval, words(verdict), words(where)))
    return rows


def averages() -> Table:
    """The printed averages that are not the mean of their row; needs no records."""
    wrong, everything = printed.wrong_averages(), printed.averages()
    columns = (
        Column("table", "Table"),
        Column("block", "Block"),
        Column("row", "Row"),
        Column("printed", "Printed"),
        Column("mean", "Row mean", "number", decimals=4),
        Column("difference", "Printed − mean", "signed", decimals=4),
    )
    rows = tuple(
        Row(
            (
                words(w.table),
                words(w.block or "–"),
                words(w.row),
                words(w.printed),
                Cell(float(w.mean)),
                Cell(float(w.difference)),
            )
        )
        for w in wrong
    )
    caption = (
        f"{len(wrong)} of the {len(everything)} printed averages are not the mean of the printed cells of their row, by "
        "more than half of the last printed digit; computed in exact decimal arithmetic.",
    )
    return Table(
        "averages", "T-SVDNet paper, Tables 1–4: printed averages that are not row means", columns, rows, caption
    )
