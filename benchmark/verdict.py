"""Verdicts: each claim of the paper, its test, and what the records say: supported, not supported, or undecided.

Three kinds of evidence are kept apart: `measured` (records, for one tier), `algebra` (holds at any tier) and
`arithmetic` (the printed tables alone).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import pandas as pd

from benchmark.errors import UserError, unknown
from benchmark.evidence import ARITHMETIC, MEASURED, Answer, Evidence
from benchmark.paper_claims import Claim, claims
from benchmark.tables.condition import narrow
from benchmark.tables.scores import rows_to_show
from benchmark.tables.table import Column, Row, Table, words

TIERS = ("paper", "lite", "mini")


@dataclass(frozen=True)
class Verdict:
    """The answer to one claim, in one tier."""

    id: str
    text: str
    where: str
    suite: str
    tier: str  # empty for algebra and arithmetic
    kind: Literal["measured", "algebra", "arithmetic"]
    answer: Answer
    words: str

    @property
    def scope(self) -> str:
        """How far it reaches."""
        if self.kind != "measured" or not self.tier:
            return self.kind
        return "tier paper" if self.tier == "paper" else f"tier {self.tier}, direction only"

    def json(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "scope": self.scope}


def judge(frame: pd.DataFrame, *, tier: str | None = None, selection: str = "last") -> list[Verdict]:
    """All verdicts: one for each claim and each tier that has records of its suite (or the one asked for)."""
    found = []
    shelf = Shelf(frame, selection)
    for claim in claims():
        if claim.test in ARITHMETIC:
            kind, test = ARITHMETIC[claim.test]
            answer, said = test(claim)
            found.append(Verdict(claim.id, claim.text, claim.where, claim.suite, "", kind, answer, said))
            continue
        if claim.test not in MEASURED:
            raise unknown(f"test (claim {claim.id!r})", claim.test, [*MEASURED, *ARITHMETIC])
        held = set(frame.loc[frame["suite"] == claim.suite, "tier"]) if len(frame) else set()
        tiers = [tier] if tier else [t for t in TIERS if t in held] or [""]
        found += [_measured(shelf, claim, t) for t in tiers]
    return found


class Shelf:
    """Evidence by suite, tier and split, put together once for all claims that look at it."""

    def __init__(self, frame: pd.DataFrame, selection: str) -> None:
        self._frame, self._selection = frame, selection
        self._kept: dict[tuple[str, str, str | None], Evidence] = {}

    def split(self, claim: Claim, tier: str) -> str | None:
        """The claim's own split when it was run; None for the only one there is."""
        inside = (self._frame["suite"] == claim.suite) & (self._frame["tier"] == tier)
        return claim.split if claim.split in set(self._frame.loc[inside, "split"]) else None

    def evidence(self, claim: Claim, tier: str) -> Evidence:
        """What the claim's test may look at; UserError when the records cannot be compared."""
        key = (claim.suite, tier, self.split(claim, tier))
        if key not in self._kept:
            inside = self._frame[(self._frame["suite"] == claim.suite) & (self._frame["tier"] == tier)]
            runs, condition = narrow(inside, claim.suite, selection=self._selection, tier=tier, split=key[2])
            self._kept[key] = Evidence(rows_to_show(runs, condition), condition)
        return self._kept[key]


def _measured(shelf: Shelf, claim: Claim, tier: str) -> Verdict:
    def verdict(answer: Answer, said: str) -> Verdict:
        return Verdict(claim.id, claim.text, claim.where, claim.suite, tier, "measured", answer, said)

    if not tier:
        return verdict("undecided", "not measured: no records")
    try:
        evidence = shelf.evidence(claim, tier)
        answer, said = MEASURED[claim.test](evidence, claim)
    except UserError as error:
        return verdict("undecided", str(error))
    if claim.split and shelf.split(claim, tier) is None:
        said += f" (on split {' and '.join(evidence.condition.splits)}; the paper's is {claim.split})"
    return verdict(answer, said)


def table(found: list[Verdict]) -> Table:
    """The verdicts as a table."""
    columns = (
        Column("claim", "Claim"),
        Column("verdict", "Verdict"),
        Column("scope", "Scope"),
        Column("evidence", "Evidence"),
    )
    rows = tuple(
        Row((words(f"{v.text} ({v.where})", v.id), words(v.answer), words(v.scope), words(v.words))) for v in found
    )
    counts = pd.Series([v.answer for v in found]).value_counts()
    caption = (
        ", ".join(f"{n} {answer}" for answer, n in counts.items()) + ".",
        "Algebra and arithmetic hold at any tier; measured verdicts hold for the tier they name.",
    )
    return Table("verdicts", "Claims of the paper and what the records say", columns, rows, caption)
