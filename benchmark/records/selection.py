"""Which evaluation point counts: rules over one curve, each named for what it may see; and with which statistics.

Every evaluation point is scored twice from the same weights: with the batch-norm statistics that the training loop left
behind (`running`) and with those of target training images (`target`). Both have the same fields and the same rules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

VALIDATORS = ("source_val", "unsup", "snd", "bnm", "dev")  # scores of a point that read no label of the target
RULES = ("last", *VALIDATORS, "oracle")
STATISTICS = ("running", "target")
WORDS = {
    "last": "last evaluation point",
    "source_val": "best accuracy on held-out source images",
    "unsup": "highest H(mean p) − mean H(p) on target training images",
    "snd": "highest soft neighbourhood density on target training images",
    "bnm": "highest nuclear norm of the predictions on target training images",
    "dev": "least importance-weighted error on held-out source images",
    "oracle": "ORACLE: best accuracy on the target's test labels",
}


def scores(row: Mapping[str, Any], statistics: str = "running") -> Mapping[str, Any]:
    """The scores of an evaluation point: `target`, `per_class`, the validators, `probes`; none when it was scored once."""
    return row if statistics == "running" else row.get("statistics", {}).get(statistics, {})


def select(curve: Sequence[Mapping[str, Any]], rule: str, statistics: str = "running") -> Mapping[str, Any] | None:
    """The row of the curve that `rule` picks, of equal rows the earliest; None when no point has the rule's score."""
    if rule == "last":
        return curve[-1]
    column = "target" if rule == "oracle" else rule
    best, chosen = -math.inf, None
    for row in curve:
        score = scores(row, statistics).get(column)
        if score is not None and score > best:
            best, chosen = score, row
    return chosen


def accuracies(curve: Sequence[Mapping[str, Any]], statistics: str = "running") -> dict[str, float | None]:
    """Target-test accuracy in percent under every rule; None where a rule has nothing to choose by."""
    rows = {rule: select(curve, rule, statistics) for rule in RULES}
    return {rule: None if row is None else float(scores(row, statistics)["target"]) for rule, row in rows.items()}


def selected(curve: Sequence[Mapping[str, Any]], statistics: str = "running") -> dict[str, int]:
    """The update that each rule picks."""
    rows = {rule: select(curve, rule, statistics) for rule in RULES}
    return {rule: int(row["update"]) for rule, row in rows.items() if row is not None}


def summary(curve: Sequence[Mapping[str, Any]], statistics: str = "running") -> dict[str, Any]:
    """What a record says of a curve with these statistics at test."""
    last = scores(curve[-1], statistics)
    return {
        "accuracy": accuracies(curve, statistics),
        "selected": selected(curve, statistics),
        "per_class": last["per_class"],
        "probes": last["probes"],
    }


def column_of(name: str, statistics: str) -> str:
    """The column of the records that holds a rule's accuracy, or a validator's `final_…` score: `last`, `target_last`."""
    return name if statistics == "running" else f"{statistics}_{name}"


def normalise(rule: str) -> str:
    """`source-val` on the command line, `source_val` in the columns."""
    return rule.replace("-", "_")
