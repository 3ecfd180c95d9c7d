"""Ours beside the printed numbers: measured, reported, difference with its interval; the released log; the averages checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.analysis import rows as s
from benchmark.analysis import stats
from benchmark.analysis.condition import Condition, narrow
from benchmark.analysis.logged import Line, logged
from benchmark.analysis.table import Cell, Column, Row, Table, words
from benchmark.analysis.verdict import cell_verdict
from benchmark.errors import UserError
from benchmark.paper import answers, printed
from benchmark.paper.answers import PrintedRow
from benchmark.paper.claims import margin
from benchmark.paper.folders import DEFAULT, RIVALS
from benchmark.records.selection import STATISTICS
from benchmark.spec import Suite

SEVERAL = ("multi-source", "combined")  # what others print as multi-source


def _beside() -> tuple[str, ...]:
    """How ours and printed numbers are compared, for a caption."""
    return (
        f"Difference: ours minus reported, t interval over our seeds around the printed mean; margin ±{margin():g} points.",
        "The paper does not say how many runs stand behind its ±: its own uncertainty is not in the interval.",
        "Verdicts are given in tier paper only, without changed settings and on the paper's own images.",
    )


def reported(
    frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", others: Sequence[str] = (), **only: Any
) -> Table:
    """One row for each printed cell that one of our rows can be held against: measured, reported, ours − reported.

    `others` are the rows, by name or `all`, that are held against what others printed, too: numbers of other origins.
    """
    # the printed numbers were scored with what the loops leave behind
    runs, condition = narrow(frame, suite, selection=selection, usual="running", **only)
    name = condition.suite.reported or condition.suite.name
    numbers = printed.accuracies(name)
    numbers = numbers[numbers["kind"] != "gain"]
    beside = printed.rivals(name) if others else pd.DataFrame()
    if numbers.empty and beside.empty:
        raise UserError(f"No printed numbers are known for suite {condition.suite.name}.")
    rows: list[Row] = []
    origins: dict[str, str] = {}
    for entry in s.rows_to_show(runs, condition):
        rows += _rows(entry, condition, _answered(entry, numbers))
        if "all" in others or entry.name in others:
            own = _of_others(entry, beside)
            rows += _rows(entry, condition, own)
            origins |= {title: said for title, said in zip(own["table"], own["words"], strict=True)}
    if not rows:
        raise UserError(
            f"None of the {len(runs)} runs of suite {condition.suite.name} stands for a row that the paper prints. Numbers of "
            "other origins are shown for rows that are asked for: --methods NAME, or --methods all"
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
    caption = [f"Difference: ours minus reported, with a 95 % interval over our seeds. Cells: {summary}."]
    conditions = [
        *condition.sentences(),
        *_beside(),
        *[f"{title}: not of the {answers.own_method()[1]} paper but {said}." for title, said in origins.items()],
    ]
    title = f"{condition.suite.title}: ours beside reported, tier {condition.tier}"
    return condition.table("reported", title, columns, rows, caption, conditions)


def _answered(entry: s.Entry, numbers: pd.DataFrame) -> pd.DataFrame:
    """The printed numbers that `entry` answers."""
    places = [(row.table, row.block, row.row) for row in answers.rows() if _answers(entry, row)]
    here = pd.MultiIndex.from_frame(numbers[["table", "block", "row"]]).isin(places)
    return numbers[here].drop_duplicates(["column", "printed"])  # a row may stand in two tables alike


def _of_others(entry: s.Entry, numbers: pd.DataFrame) -> pd.DataFrame:
    """What others printed for `entry` trained on all sources, joined or not; the title of its origin as `table`."""
    told = printed.origins(RIVALS).set_index("origin")
    several = numbers["standard"].isin(SEVERAL) & (entry.standard in SEVERAL)
    found = numbers[several & numbers["answers"].map(lambda names: entry.name in names.split())]
    return found.assign(table=found["origin"].map(told["title"]), words=found["origin"].map(told["words"]))


def _rows(entry: s.Entry, condition: Condition, numbers: pd.DataFrame) -> list[Row]:
    """Printed numbers, cell by cell, with `entry` beside them."""
    ours, rows = Ours(entry, condition), []
    for n in numbers.itertuples():
        found, verdict = ours.against(n)
        difference = Cell(value=found.mean, n=found.n) if found.n else words("–")
        interval = Cell(low=found.low, high=found.high) if found.n > 1 else words("one seed" if found.n else "–")
        there = Cell(value=float(n.value), spread=float(n.spread))
        target = str(n.column) if n.column == "Avg" else f"→ {condition.label(str(n.column))}"
        cells = (ours.cells[str(n.column)], there, difference, interval, words(verdict), words(f"{n.table}, {n.row}"))
        rows.append(entry.row(words(target), *cells))
    return rows


def _answers(entry: s.Entry, row: PrintedRow) -> bool:
    alike = (entry.standard, entry.split) == (row.standard, row.split)
    return alike and entry.plain and entry.name in (*row.answers, *row.also)


class Ours:
    """One of our rows, ready to be held against printed numbers: its cells and its scores by seed, by column."""

    def __init__(self, entry: s.Entry, condition: Condition) -> None:
        self.condition = condition
        self.cells = s.target_cells(entry, condition)
        self.cells["Avg"] = s.average(entry, condition, condition.targets)
        scores = entry.scores(condition.selection)
        self.per_seed = {str(t): part.set_index("seed")["score"] for t, part in scores.groupby("target")}
        self.per_seed["Avg"] = stats.seed_averages(scores, condition.targets)

    def against(self, printed_number: Any) -> tuple[stats.Interval, str]:
        """The interval of ours − printed, and the cell's verdict."""
        column = str(printed_number.column)
        values = self.per_seed.get(column, pd.Series(dtype=float))
        found = stats.t_interval((values - float(printed_number.value)).to_numpy())
        generated = self.condition.generated
        made = generated if column == "Avg" else set(generated) & {column}
        as_printed = self.condition.settings == "{}" and not made
        return found, cell_verdict(found, self.condition.tier, as_printed=as_printed)


def reproduction(
    frame: pd.DataFrame, table: int, folder: Path = DEFAULT, *, selection: str = "last", **only: Any
) -> Table:
    """A table of the paper with ours below each printed row, cell by cell: printed, ours, ours − printed, verdict."""
    rows = answers.rows(table, folder)
    runs, condition = narrow(frame, rows[0].suite, selection=selection, usual="running", **only)
    numbers = printed.accuracies(rows[0].suite, folder)
    numbers = numbers[(numbers["table"] == table) & (numbers["kind"] != "gain")]
    plain = [e for e in s.entries(runs) if e.plain]
    entries = [s.choose_source(e, condition, False)[0] if e.standard == "single-best" else e for e in plain]
    decimals = condition.decimals
    columns = [Column("numbers", "Numbers")]
    columns += [Column(t, f"→ {condition.label(t)}", "score", decimals) for t in condition.targets]
    columns += [Column("Avg", "Avg", "score", decimals), Column("seeds", "n")]
    lines: list[Row] = []
    verdicts: list[str] = []
    for row in rows:
        there = numbers[(numbers["block"] == row.block) & (numbers["row"] == row.row)]
        values = {str(n.column): n for n in there.itertuples()}
        block = ": ".join(filter(None, [row.block, row.row]))
        cells = [Cell(value=float(n.value), spread=float(n.spread)) for n in values.values()]
        lines.append(Row((words("printed"), *cells, words("–")), block))
        held = [e for name in (*row.answers, *row.also) for e in entries if e.name == name and _answers(e, row)]
        for entry in held:
            ours = Ours(entry, condition)
            found = {column: ours.against(n) for column, n in values.items()}
            verdicts += [verdict for _, verdict in found.values()]
            measured = {t: ours.cells[t] for t in condition.targets}
            lines.append(Row((words(entry.label, entry.name), *ours.cells.values(), words(s.seeds(measured))), block))
            differences = [_difference(interval) for interval, _ in found.values()]
            lines.append(Row((words("ours − printed"), *differences, words("–")), block))
            lines.append(Row((words("verdict"), *[words(v) for _, v in found.values()], words("–")), block))
        for name in [name for name in row.answers if name not in {e.name for e in held}]:
            lines.append(Row((words(name), *[words("not run")] * len(values), words("–")), block))
        if not row.answers:
            note = f"Nothing of ours answers {row.row}: {row.why_not}."
            lines.append(Row((words("–"), *[words("–")] * len(values), words("–")), block, notes=(note,)))
    counts = ", ".join(f"{n} {verdict}" for verdict, n in pd.Series(verdicts).value_counts().items())
    caption = ["Below each printed row ours, the difference and its verdict.", f"Cells: {counts}." if counts else ""]
    conditions = [*condition.sentences(), *_beside()]
    paper = f"{answers.own_method(folder)[1]} paper, Table {table} ({condition.suite.title})"
    title = f"{paper}: ours below printed, tier {condition.tier}"
    return condition.table("reproduction", title, columns, lines, caption, conditions)


def _difference(found: stats.Interval) -> Cell:
    if not found.n:
        return words("–")
    said = f"95 % interval [{found.low:.2f}, {found.high:.2f}]" if found.n > 1 else "one seed"
    return Cell(value=found.mean, n=found.n, detail=said)


def log(frame: pd.DataFrame, suite: str | Suite, **only: Any) -> Table:
    """One row an epoch: the accuracy in the log that the authors released, and ours under both statistics at test."""
    if only.get("statistics") is not None:
        raise UserError("The table log shows running and target side by side. Leave out --statistics.")
    found = logged(frame, suite, **only)
    released, condition = found.log, found.condition
    columns = [Column("epoch", "Epoch"), Column("log", "Released log", "number")]
    notes = []
    for i, line in enumerate(found.lines):
        columns += [Column(f"{kind}_{i}", f"{line.label} ({kind})", "score") for kind in STATISTICS]
        notes += [f"{line.label}: {note}" for note in line.notes]
    rows = [
        Row((words(epoch), Cell(float(found.logged[j])), *[cell for line in found.lines for cell in _at(line, j)]))
        for j, epoch in enumerate(found.epochs)
    ]
    caption = [
        f"Accuracy in % after each epoch of {released.updates} updates.",
        ""
        if {line.label for line in found.lines} == {row.label for row in released.rows}
        else "INCOMPLETE: not all rows were run.",
    ]
    conditions = [
        *condition.sentences(rule=False, statistics=False),
        f"Released log: {released.title}: {released.words}; its test set counts images more than once.",
        f"Ours: the same method, schedule and batches of the same size on other subsets of the images, "
        f"{found.seeds}. Batch-norm statistics at test: running: "
        "what the loop leaves behind, as in the log; target: of target training images.",
        *notes,
    ]
    title = (
        f"{condition.suite.title} → {condition.label(released.target)}: the released log and the same settings run here"
    )
    return condition.table("log", title, columns, rows, caption, conditions)


def _at(line: Line, epoch: int) -> list[Cell]:
    """A row's accuracies at one epoch, under both statistics."""
    return [s.cell(line.values[kind][:, epoch]) for kind in STATISTICS]


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
    title = "T-SVDNet paper, Tables 1–4: printed averages that are not row means"
    caption = (
        f"{len(wrong)} of the {len(everything)} printed averages are not the mean of the printed cells of their row."
    )
    conditions = (
        "Not the mean: off by more than half of the last printed digit; computed in exact decimal arithmetic.",
    )
    return Table("averages", title, columns, rows, caption, conditions)
