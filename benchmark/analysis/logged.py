"""The released training curve beside the same settings run here, epoch by epoch, under both statistics at test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmark import records
from benchmark.analysis import rows as s
from benchmark.analysis.condition import Condition, narrow, one_split
from benchmark.analysis.notes import remarks
from benchmark.errors import UserError
from benchmark.paper.log import Log, LoggedRow, log
from benchmark.records.selection import STATISTICS, scores
from benchmark.spec import Suite, load_suite


@dataclass(frozen=True)
class Line:
    """One of our rows: accuracies (seeds, epochs) by kind of statistics at test, and what its runs remarked."""

    label: str
    values: dict[str, np.ndarray]
    notes: tuple[str, ...]

    @property
    def seeds(self) -> int:
        """How many runs stand behind it."""
        return len(self.values[STATISTICS[0]])


@dataclass(frozen=True)
class Logged:
    """The epochs that all have, what the log says at each, and our rows."""

    log: Log
    condition: Condition
    epochs: list[int]
    logged: np.ndarray
    lines: list[Line]

    @property
    def seeds(self) -> str:
        """How many seeds a row has, in words."""
        counts = sorted({line.seeds for line in self.lines})
        return f"{' or '.join(map(str, counts))} seed{'' if counts == [1] else 's'} a row"


def logged(frame: pd.DataFrame, suite: str | Suite, **only: Any) -> Logged:
    """The runs that the paper's folder holds against the released curve; UserError when there are none."""
    released = log()
    if (load_suite(suite) if isinstance(suite, str) else suite).name != released.suite:
        raise UserError(f"The released log is of suite {released.suite}: there is none to hold these runs against.")
    kept = frame[_alike(frame, released)]  # whatever else was run: its settings are not those of a log's runs
    runs, condition = narrow(kept if len(kept) else frame, suite, **{**only, "selection": "last"})
    one_split(condition)
    if condition.statistics != "target":
        raise UserError(
            "The released log is held against runs under both statistics at test, and these were scored once."
        )
    found = [(row, entry) for row in released.rows for entry in s.multi_source(runs) if _is(entry, row)]
    curves = [(row, entry, _curves(entry, released)) for row, entry in found]
    curves = [(row, entry, own) for row, entry, own in curves if own]
    shared = [set(curve) for _, _, own in curves for curve in own]
    epochs = sorted(set.intersection(set(released.accuracy), *shared)) if shared else []
    if not epochs:
        changes = " ".join(
            f"--set {released.rows[0].name}.{key}={value}" for key, value in released.rows[0].changes.items()
        )
        raise UserError(
            f"No run of suite {condition.suite.name}, tier {condition.tier} has the settings of the released log and an "
            f"evaluation point at the end of an epoch. Type: python -m benchmark run --suite {released.suite} --tier paper "
            f"--targets {released.target} --methods {released.rows[0].name} {changes} --set run.updates={11 * released.updates} "
            "--set run.eval_points=11"
        )
    return Logged(
        released,
        condition,
        epochs,
        np.array([released.accuracy[epoch] for epoch in epochs]),
        [Line(row.label, _values(own, epochs), tuple(remarks(entry, condition))) for row, entry, own in curves],
    )


def _is(entry: s.Entry, row: LoggedRow) -> bool:
    return entry.name == row.name and entry.changes == row.changes and not entry.some


def _alike(frame: pd.DataFrame, released: Log) -> list[bool]:
    """Which runs are of a row of the log, and have an evaluation point at the end of an epoch."""
    columns = (frame[c].fillna("") for c in ("status", "target", "method", "preset", "overrides", "tuned", "path"))
    wanted = [(row.name, row.changes) for row in released.rows]
    found = []
    for status, target, method, preset, overrides, tuned, path in zip(*columns, strict=True):
        name = f"{method}:{preset}" if preset else method
        same = (status, target) == ("done", released.target) and (name, s.changes(overrides or "{}", tuned)) in wanted
        found.append(
            same and any(released.epoch(point["update"]) is not None for point in records.read_curve(Path(path)))
        )
    return found


def _curves(entry: s.Entry, released: Log) -> list[dict[int, Any]]:
    """Of each finished run its evaluation points by the epoch that they end."""
    paths = entry.done.loc[entry.done["target"] == released.target].sort_values("seed")["path"]
    read = ([(released.epoch(point["update"]), point) for point in records.read_curve(Path(path))] for path in paths)
    return [{epoch: point for epoch, point in points if epoch is not None} for points in read]


def _values(curves: Sequence[dict[int, Any]], epochs: Sequence[int]) -> dict[str, np.ndarray]:
    """(seeds, epochs) for each kind of statistics."""
    return {
        kind: np.array([[scores(curve[epoch], kind)["target"] for epoch in epochs] for curve in curves])
        for kind in STATISTICS
    }
