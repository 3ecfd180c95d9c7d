"""How well label-free validators order runs: their rank correlation with target accuracy, and what choosing by them costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from benchmark import records
from benchmark.analysis import rows as s
from benchmark.analysis.condition import narrow
from benchmark.analysis.table import Cell, Column, Row, Table, mark_best, words
from benchmark.errors import UserError
from benchmark.records.selection import VALIDATORS, WORDS, column_of, scores
from benchmark.spec import Suite

MIN_RANKED = 3  # of two, every order is perfect or reversed
MOST_CURVES = 1000  # read for the correlation over evaluation points; a millisecond each
STANDARDS = (
    "combined",
    "multi-source",
)  # a single source has other held-out images, the upper bound has seen the labels


@dataclass
class Tally:
    """What was found of one validator: correlations and losses, and how often its scores were all alike."""

    methods: list[float] = field(default_factory=list)  # ρ of each group
    lost: list[float] = field(default_factory=list)  # points of each group
    points: list[float] = field(default_factory=list)  # ρ of each run
    alike: dict[str, int] = field(default_factory=lambda: {"groups": 0, "runs": 0})


def validators(frame: pd.DataFrame, suite: str | Suite, **only: Any) -> Table:
    """One row a validator: Spearman's ρ with target accuracy over methods and over evaluation points, and points lost.

    Over methods: within each (target, seed) at the last evaluation point, averaged over these groups; the points lost are
    the accuracy of the best method of a group minus that of the method with the highest score. Over evaluation points:
    within each run, averaged over runs. Scores that are all alike have no order: they are left out and counted.
    """
    runs, condition = narrow(frame, suite, **{**only, "selection": "last"})
    statistics = condition.statistics
    done = _runs(runs, statistics)
    groups = [part for _, part in done.groupby(["split", "target", "seed"]) if len(part) >= MIN_RANKED]
    if not groups:
        raise UserError(
            f"The table validators orders methods that share a target and a seed, and no {MIN_RANKED} methods of suite "
            f"{condition.suite.name}, tier {condition.tier} do with {statistics} statistics. Type: python -m benchmark run "
            f"--suite {condition.suite.name} --tier {condition.tier} --methods source-only:bn,dann,tsvdnet"
        )
    ordered = pd.concat(groups)
    followed = ordered.iloc[np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_CURVES)).astype(int)]
    curves = [records.read_curve(Path(path)) for path in followed["path"]]
    known = [v for v in VALIDATORS if ordered[f"by_{v}"].notna().any()]  # protocol 1 had fewer
    tallies = {v: _tally(v, groups, curves, statistics) for v in known}
    columns = (
        Column("validator", "Validator"),
        Column("methods", "ρ over methods", "signed", better="high"),
        Column("groups", "groups"),
        Column("lost", "points lost", "number", better="low"),
        Column("points", "ρ over points", "signed", better="high"),
        Column("runs", "runs"),
    )
    rows = [_row(validator, tally) for validator, tally in tallies.items()]
    blind = float(np.mean([part["score"].max() - part["score"].mean() for part in groups]))
    later = [found for x, y in _points("", curves, statistics) if (found := correlation(x, y)) is not None]
    caption = [
        "ρ: rank correlation of a score with target accuracy; points lost: by taking the row that it puts first.",
    ]
    conditions = [
        *condition.sentences(rule=False),
        f"Rests on {len(ordered)} runs: {ordered['row'].nunique()} rows, {_counted(ordered['target'], 'target')}, "
        f"{_counted(ordered['seed'], 'seed')}.",
        f"ρ: Spearman's rank correlation of the score with accuracy on the target's test images. Over methods: at the last "
        f"evaluation point among the rows of one target and seed (a group, of {_sizes(groups)} rows), averaged over groups. "
        f"Points lost: accuracy of the group's best row minus that of the row with the highest score, averaged over groups; "
        f"a row picked blindly loses {blind:.2f}. Over points: among the {condition.points_words} evaluation points of "
        "one run, averaged over runs.",
        f"Later before earlier, which needs no score, has a ρ over points of {np.mean(later):+.2f}.".replace("-", "−")
        if later
        else "",
        *_sample_words(len(followed), len(ordered)),
        *_alike_words(tallies),
        f"The validators: {'; '.join(f'{_short(v)}: {WORDS[v]}' for v in known)}.",
    ]
    title = f"{condition.suite.title}: how well validators without target labels order runs, tier {condition.tier}"
    marked = mark_best(columns, rows) if ordered["seed"].nunique() > 1 else rows  # of one seed nothing is best
    return condition.table("validators", title, columns, marked, caption, conditions)


def _runs(runs: pd.DataFrame, statistics: str) -> pd.DataFrame:
    """The finished runs of all rows as they come, with the columns `row` and `score` and one a validator."""
    shown = [e for e in s.methods_as_they_come(s.entries(runs)) if e.standard in STANDARDS]
    parts = [e.done.assign(row=f"{e.standard} {e.label}") for e in shown if len(e.done)]
    if not parts:
        return runs.iloc[:0].assign(row="", score=math.nan)
    found = pd.concat(parts)
    values = {v: found[column_of(f"final_{v}", statistics)].astype(float) for v in VALIDATORS}
    found = found.assign(
        score=found[column_of("last", statistics)].astype(float), **{f"by_{v}": x for v, x in values.items()}
    )
    return found.dropna(subset=["score"])


def _tally(validator: str, groups: Sequence[pd.DataFrame], curves: Sequence[Sequence[Any]], statistics: str) -> Tally:
    tally = Tally()
    for part in groups:
        x, y = part[f"by_{validator}"].to_numpy(), part["score"].to_numpy()
        known = ~np.isnan(x)
        if known.sum() < MIN_RANKED:
            continue
        x, y = x[known], y[known]
        found = correlation(x, y)
        if found is None:
            tally.alike["groups"] += 1
            continue
        tally.methods.append(found)
        tally.lost.append(float(y.max() - y[x == x.max()].mean()))  # equals: any of them
    for x, y in _points(validator, curves, statistics):
        found = correlation(x, y)
        if found is None:
            tally.alike["runs"] += 1
        else:
            tally.points.append(found)
    return tally


def _points(
    validator: str, curves: Sequence[Sequence[Any]], statistics: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(scores, accuracies) over the evaluation points of each run that has enough of them; without a validator their places."""
    for curve in curves:
        # a curve is not sealed by what `load` checks: one without these statistics has nothing to say
        rows = [
            scores(row, statistics)
            for row in curve
            if statistics == "running" or statistics in row.get("statistics", {})
        ]
        scored = [(row.get(validator) if validator else i, row["target"]) for i, row in enumerate(rows)]
        pairs = np.array([pair for pair in scored if pair[0] is not None])
        if len(pairs) >= MIN_RANKED:
            yield pairs[:, 0], pairs[:, 1]


def correlation(x: np.ndarray, y: np.ndarray) -> float | None:
    """Spearman's ρ of two samples (n,); None when all values of one are alike."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(spearmanr(x, y).statistic)


def _row(validator: str, tally: Tally) -> Row:
    def mean(values: Sequence[float]) -> Cell:
        return Cell(value=float(np.mean(values)), n=len(values)) if values else words("–")

    name = words(_short(validator), WORDS[validator])
    return Row(
        (
            name,
            mean(tally.methods),
            words(len(tally.methods)),
            mean(tally.lost),
            mean(tally.points),
            words(len(tally.points)),
        )
    )


def _short(validator: str) -> str:
    return validator.replace("_", "-")


def _counted(column: pd.Series, what: str) -> str:
    n = column.nunique()
    return f"{n} {what}{'s' if n > 1 else ''}"


def _sizes(groups: Sequence[pd.DataFrame]) -> str:
    least, most = (pick(len(part) for part in groups) for pick in (min, max))
    return str(least) if least == most else f"{least} to {most}"


def _sample_words(read: int, there: int) -> list[str]:
    return [f"Curves of {read} of the {there} runs were read, evenly spaced."] if read < there else []


def _alike_words(tallies: dict[str, Tally]) -> list[str]:
    """What was left out because a score, or the accuracy, was the same throughout."""
    said = [
        f"{_short(v)} {count} {what}" for v, tally in tallies.items() for what, count in tally.alike.items() if count
    ]
    return [f"Left out, for all scores or all accuracies were alike: {', '.join(said)}."] if said else []
