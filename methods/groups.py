"""Words that stand for several methods, and rows that need no training of their own. Names only: nothing is imported.

`paper` are the systems of the T-SVDNet paper's tables, `card` the seven of the design card; `all` is whatever there is.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUPS = {
    "paper": (
        "source-only", "dan", "dann", "coral", "adda", "mcd", "jan", "rtn", "mdan", "mdda", "dctn", "m3sda", "tsvdnet",
    ),
    "card": ("source-only", "dan", "dann", "mcd", "m3sda", "mdda", "tsvdnet"),
}  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """A row that reads the finished runs of another row, always with the same batch-norm statistics at test."""

    title: str
    of: str  # the row whose runs it reads
    statistics: str
    about: str


READINGS = {
    "adabn": Reading(
        title="AdaBN",
        of="source-only",
        statistics="target",
        about="Source-Only whose batch-norm statistics are re-estimated on target images, without a label and without a "
        "training step (Li et al., Revisiting Batch Normalization For Practical Domain Adaptation, 2016)",
    )
}


def trained(name: str) -> str:
    """The row that is trained for `name`: itself, or the one whose runs it reads."""
    return READINGS[name].of if name in READINGS else name
