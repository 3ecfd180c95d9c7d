"""Which evaluation point counts: four rules over one curve, each named for what it may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

RULES = ("last", "source_val", "unsup", "oracle")
WORDS = {
    "last": "last evaluation point",
    "source_val": "best accuracy on held-out source images",
    "unsup": "highest H(mean p) − mean H(p) on target training images",
    "oracle": "ORACLE: best accuracy on the target's test labels",
}
_COLUMN = {"source_val": "source_val", "unsup": "unsup", "oracle": "target"}


def select(curve: Sequence[Mapping[str, Any]], rule: str) -> Mapping[str, Any]:
    """The row of the curve that `rule` picks; of equal rows the earliest."""
    if rule == "last":
        return curve[-1]
    column = _COLUMN[rule]
    return max(curve, key=lambda row: row[column])


def accuracies(curve: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Target-test accuracy in percent under every rule."""
    return {rule: float(select(curve, rule)["target"]) for rule in RULES}


def normalise(rule: str) -> str:
    """`source-val` on the command line, `source_val` in the columns."""
    return rule.replace("-", "_")
