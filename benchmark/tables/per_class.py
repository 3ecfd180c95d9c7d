"""Accuracy by class: where a method's mean comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmark.analysis import rows as s
from benchmark.analysis.condition import narrow
from benchmark.analysis.table import Cell, Column, Table, mark_best, words
from benchmark.errors import UserError
from benchmark.records.selection import normalise, scores
from benchmark.records.study import read_json
from benchmark.spec import Suite

MANY = 12  # more classes than this do not fit a page: the lowest ones are shown


def per_class(
    frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", target: str | None = None, **only: Any
) -> Table:
    """Accuracy by class at the last evaluation point, mean over seeds (and over targets when none is named)."""
    if normalise(selection) != "last":
        raise UserError("Accuracy by class is stored for the last evaluation point only. Leave out --selection.")
    runs, condition = narrow(frame, suite, selection=selection, **only)
    if target is not None:
        condition.suite.domain(target)
        runs = runs[runs["target"] == target]
    where = f"target {condition.label(target)}" if target else "mean over the targets"
    found = [(e, means) for e in s.rows_to_show(runs, condition) if (means := _class_means(e)) is not None]
    if not found:
        raise UserError(f"No finished run of suite {condition.suite.name} holds accuracies by class for {where}.")
    names = condition.suite.classes
    picked = list(range(len(names)))
    few = ""
    if len(names) > MANY:
        overall = np.mean([means for _, means in found], axis=0)
        picked = sorted(np.argsort(overall, kind="stable")[:MANY].tolist())
        few = f"Shown: the {MANY} lowest of {len(names)} classes."
    by_class = [Column(f"class_{i}", names[i], "number", decimals=1, better="high") for i in picked]
    columns = (
        Column("method", "Method"),
        *by_class,
        Column("lowest", "Lowest", "number", decimals=1),
        Column("runs", "Runs"),
    )
    rows = []
    for entry, means in found:
        seeds = int(entry.done.groupby("target")["seed"].nunique().min())
        cells = [Cell(value=float(means[i]), n=seeds) for i in picked]
        rows.append(entry.row(*cells, Cell(value=float(means.min())), words(len(entry.done))))
    caption = ["Accuracy in %, mean over seeds; best bold, second-best underlined.", few]
    conditions = [*condition.sentences(), "Lowest: by the mean over the rows." if few else ""]
    title = f"{condition.suite.title}: accuracy by class, {where}, tier {condition.tier}"
    return condition.table("per-class", title, columns, mark_best(columns, rows), caption, conditions)


def _class_means(entry: s.Entry) -> np.ndarray | None:
    """(C,) mean over targets of the mean over seeds; a class without test images in one target is left out there."""
    by_target: dict[str, list[np.ndarray]] = {}
    for target, path in zip(entry.done["target"], entry.done["path"], strict=True):
        document = read_json(Path(str(path)) / "record.json")
        values = scores(document, entry.statistics).get("per_class") if isinstance(document, dict) else None
        if isinstance(values, list) and values:
            numbers = np.array([np.nan if v is None else v for v in values], dtype=float)
            by_target.setdefault(str(target), []).append(numbers)
    if not by_target:
        return None
    return np.nanmean([np.mean(v, axis=0) for v in by_target.values()], axis=0)
