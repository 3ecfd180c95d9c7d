"""Inside the paper's method: what was measured of it in its runs beside what that did to accuracy, target by target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmark import records
from benchmark.analysis import rows as s
from benchmark.analysis import stats
from benchmark.analysis.condition import Condition, narrow, one_split
from benchmark.analysis.table import Cell, Column, Row, Table, number, words
from benchmark.errors import UserError
from benchmark.paper import answers
from benchmark.paper.answers import Measure
from benchmark.spec import Suite
from benchmark.tables.ablation import effect_cells, with_bases


def inside(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Table:
    """One block a target, one row a reading of the method: accuracy, its effect, and the measures that the paper's folder names.

    Of the targets those that the most readings were run on, so that the rows of every block can be held against each other.
    """
    (method, named), about = answers.own_method(), answers.inside()
    runs, condition = narrow(frame, suite, selection=selection, **only)
    one_split(condition)
    found = [e for e in s.multi_source(runs) if e.method == method and len(e.done)]
    finished = {id(e): _finished(e) for e in found}
    if not any(_value(record, m) is not None for e in found for _, record in finished[id(e)] for m in about.measures):
        raise UserError(
            f"No finished run of suite {condition.suite.name}, tier {condition.tier} says anything of {about.title}. Type: "
            f"python -m benchmark run --suite {condition.suite.name} --tier {condition.tier} --methods {method},{method}:code"
        )
    ran = {t: sum(t in set(e.done["target"]) for e in found) for t in condition.targets}
    targets = [t for t in condition.targets if ran[t] == max(ran.values())]
    bases = {id(e): base for e, base in with_bases(found)}
    without = next((e for e in found if e.name == about.without and e.plain and not e.some), None)
    columns = [
        Column("method", "Method"),
        Column("accuracy", "Accuracy", "score"),
        Column("base", "Against"),
        Column("effect", "Effect", "signed"),
        Column("interval", "95 % interval", "interval"),
        *(
            [Column("over", "Over without", "signed"), Column("over_interval", "95 %", "interval", printed=False)]
            if without
            else []
        ),
        *[
            Column(m.key, m.title, "text" if m.mirrored or m.significant else "number", m.decimals)
            for m in about.measures
        ],
        Column("seeds", "n"),
    ]
    rows = [
        _row(
            e,
            (bases.get(id(e)), without),
            t,
            condition,
            [record for at, record in finished[id(e)] if at == t],
            about.measures,
        )
        for t in targets
        for e in found
        if t in set(e.done["target"])
    ]
    left_out = [condition.label(t) for t in condition.targets if ran[t] and t not in targets]
    caption = ["Effect: the row minus the one it is held against, paired over seeds, 95 % interval, not corrected."]
    conditions = [
        *condition.sentences(),
        f"Over without: the row minus {without.label}, paired in the same way." if without else "",
        about.note,
        "–: no run of the reading has such a thing."
        if any(c.words == "–" for row in rows for c in row.cells[-len(about.measures) - 1 : -1])
        else "",
        f"Not shown, for fewer readings were run there: {', '.join(left_out)}." if left_out else "",
    ]
    title = f"{condition.suite.title}: {about.title} of {named}, tier {condition.tier}"
    return condition.table("inside", title, columns, rows, caption, conditions)


def _finished(entry: s.Entry) -> list[tuple[str, records.Record]]:
    """(target, record) of each finished run."""
    read = (
        (str(t), records.read(Path(path))) for t, path in zip(entry.done["target"], entry.done["path"], strict=True)
    )
    return [(target, record) for target, record in read if record is not None]


def _row(
    entry: s.Entry,
    bases: tuple[s.Entry | None, s.Entry | None],
    target: str,
    condition: Condition,
    runs: Sequence[records.Record],
    measures: Sequence[Measure],
) -> Row:
    def over(other: s.Entry | None) -> list[Cell]:
        if other is None or other is entry:
            return [words("–"), words("–")]
        both = (stats.seed_averages(e.scores(condition.selection), [target]) for e in (entry, other))
        return effect_cells(stats.paired(*both))

    base, without = bases
    accuracy = s.target_cells(entry, condition)[target]
    against = [words(base.label, base.name) if base else words("–"), *over(base), *(over(without) if without else [])]
    own = [_measured(measure, runs) for measure in measures]
    cells = (words(entry.label, entry.name), accuracy, *against, *own, words(accuracy.n))
    return Row(cells, f"→ {condition.label(target)}")


def _value(record: records.Record, measure: Measure) -> np.ndarray | None:
    """The measure of one run: () or, of a list, (n,); None where the run has no such thing, or no number there."""
    try:
        state = record[measure.of]
        value = np.asarray(state[measure.key], dtype=float) * measure.times
        value = value * (1 / float(state[measure.over])) if measure.over else value
    except (KeyError, TypeError, ValueError, ZeroDivisionError):  # a record is somebody's file
        return None
    return value if np.isfinite(value).all() and value.ndim == int(measure.mirrored) else None


def _measured(measure: Measure, runs: Sequence[records.Record]) -> Cell:
    """The mean over runs; a list as one text, its mirrored half left out."""
    found = [value for record in runs if (value := _value(record, measure)) is not None]
    if not found or any(value.shape != found[0].shape for value in found):
        return words("–")
    mean = np.mean(found, axis=0)
    if measure.mirrored:
        return words(" ".join(number(v, 0 if v == round(v) else 1) for v in mean[: len(mean) // 2 + 1].tolist()))
    if measure.significant:
        return words(f"{mean:.{measure.significant}g}")
    return Cell(value=float(mean), n=len(found))
