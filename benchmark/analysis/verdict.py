"""Verdicts: each claim of the paper, its test, and what the records say, in words that reach no further than they do.

Four kinds of evidence are kept apart: `measured` (records, for one tier), `algebra` (holds at any tier), `arithmetic` (the
printed tables alone) and `printed` (numbers of others beside the paper's, which decide nothing). Algebra, arithmetic and
runs of the paper's set-up can refute; a smaller run refutes nothing: it has seen the effect, has not seen it, or has seen
the opposite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pandas as pd

from benchmark.analysis.condition import Condition, narrow
from benchmark.analysis.evidence import ARITHMETIC, COMPARES, MEASURED, Evidence, Finding
from benchmark.analysis.rows import plain_rows
from benchmark.analysis.stats import Interval
from benchmark.analysis.table import Column, Row, Table, words
from benchmark.errors import UserError, unknown
from benchmark.paper.claims import Claim, claims, margin

TIERS = ("paper", "lite", "mini")
DECIDED: dict[Finding, str] = {
    "held": "supported",
    "short": "not supported",
    "opposite": "not supported",
    "open": "undecided",
    "unmeasured": "not measured",
}
SEEN: dict[Finding, str] = {
    "held": "seen at this tier",
    "short": "not seen at this tier",
    "opposite": "the opposite seen",
    "open": "not seen at this tier",
    "unmeasured": "not measured",
}
PRINTED: dict[Finding, str] = {
    "held": "in line with print",
    "short": "not shown in print",
    "opposite": "against print",
    "open": "not shown in print",
    "unmeasured": "not measured",
}
ANSWERS = tuple(dict.fromkeys([*DECIDED.values(), *SEEN.values(), *PRINTED.values()]))
READING = (
    "Seen: the whole 95 % interval lies on the claim's side of its bound; the opposite seen: wholly on the other side of "
    "zero, or beaten by a rival; not seen: anything else, fewer than 3 seeds included. At tier paper, with its settings, "
    "split and images, the same intervals support a claim, or refute it when wholly outside its bound.",
    "Claims to be best are tested against each rival, Holm-adjusted over one family for each claim and target: the rivals "
    "with 3 or more common seeds, their number beside the claim. While a system of the suite's printed table has no runs, "
    "no such claim is seen.",
)
OF_TARGET = (
    "Batch-norm statistics at test: claims between our rows compare accuracies with those of target training images, "
    "re-estimated alike for every row."
)
OF_LOOPS = (
    "Batch-norm statistics at test: claims on runs of protocol 1 compare accuracies with those that the loops leave behind; "
    "such runs were scored with no others."
)
OF_OTHERS = (
    "Printed numbers of others: one printed number beside another of a different pipeline, no interval and no run of ours; "
    "they neither support nor refute."
)
BESIDE_PRINT = (
    "Probes, σ, and the cells that the table reported holds against print: the statistics that the loops leave behind."
)


@dataclass(frozen=True)
class Verdict:
    """The answer to one claim, in one tier."""

    id: str
    text: str
    where: str
    suite: str
    tier: str  # empty for all that rests on no runs
    kind: Literal["measured", "algebra", "arithmetic", "printed"]
    finding: Finding
    words: str
    decides: bool = True  # False: measured on less than the paper's set-up
    statistics: str = ""  # the batch-norm statistics of the accuracies that it compares; empty when it compares none

    @property
    def answer(self) -> str:
        """The finding in words that reach as far as it does."""
        if self.kind == "printed":
            return PRINTED[self.finding]
        return (DECIDED if self.decides else SEEN)[self.finding]

    @property
    def scope(self) -> str:
        """How far it reaches."""
        if self.kind == "printed":
            return "printed numbers of others"
        if self.kind != "measured" or not self.tier:
            return self.kind
        return f"tier {self.tier}" if self.decides else f"tier {self.tier}, direction only"

    def json(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "answer": self.answer, "scope": self.scope}


def concerns(frame: pd.DataFrame) -> bool:
    """Whether the paper speaks of any suite that has records here; of a suite of the user's own it says nothing."""
    return not {claim.suite for claim in claims() if claim.suite}.isdisjoint(frame["suite"])


def judge(
    frame: pd.DataFrame, *, tier: str | None = None, selection: str = "last", only: Sequence[Claim] | None = None
) -> list[Verdict]:
    """One verdict for each claim (or those of `only`) and each tier that has measured it (or the one asked for)."""
    found = []
    shelf = Shelf(frame, selection)
    for claim in claims() if only is None else only:
        if claim.test in ARITHMETIC:
            kind, test = ARITHMETIC[claim.test]
            finding, said = test(claim)
            found.append(Verdict(claim.id, claim.text, claim.where, claim.suite, "", kind, finding, said))
            continue
        if claim.test not in MEASURED:
            raise unknown(f"test (claim {claim.id!r})", claim.test, [*MEASURED, *ARITHMETIC])
        held = set(frame.loc[frame["suite"] == claim.suite, "tier"]) if len(frame) else set()
        tiers = [tier] if tier else [t for t in TIERS if t in held] or [""]
        found += _known([_measured(shelf, claim, t) for t in tiers])
    return found


def _known(verdicts: list[Verdict]) -> list[Verdict]:
    """Of a claim's verdicts, one a tier, those that were measured; where none was, the first says why."""
    return [v for v in verdicts if v.finding != "unmeasured"] or verdicts[:1]


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
            self._kept[key] = Evidence(plain_rows(runs, condition), condition)
        return self._kept[key]


def _measured(shelf: Shelf, claim: Claim, tier: str) -> Verdict:
    def verdict(finding: Finding, said: str, decides: bool = True, at_test: str = "") -> Verdict:
        return Verdict(
            claim.id, claim.text, claim.where, claim.suite, tier, "measured", finding, said, decides, at_test
        )

    if not tier:
        return verdict("unmeasured", "not measured: no records")
    try:
        evidence = shelf.evidence(claim, tier)
        finding, said = MEASURED[claim.test](evidence, claim)
    except UserError as error:
        return verdict("unmeasured", str(error), decides=tier == "paper")
    other_split = bool(claim.split) and shelf.split(claim, tier) is None
    if other_split:
        said += f" (on split {' and '.join(evidence.condition.splits)}; the paper's is {claim.split})"
    unlike = _unlike_the_paper(evidence.condition) if tier == "paper" else ""
    at_test = evidence.condition.statistics if claim.test in COMPARES and finding != "unmeasured" else ""
    return verdict(finding, said + unlike, tier == "paper" and not unlike and not other_split, at_test)


def _unlike_the_paper(condition: Condition) -> str:
    """What else keeps runs of tier paper from speaking of the paper's set-up."""
    changed = ["settings changed"] if condition.settings != "{}" else []
    made = [f"images of {', '.join(condition.generated)} generated"] if condition.generated else []
    return f" ({' and '.join(changed + made)}: not the paper's set-up)" if changed or made else ""


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
    caption = ", ".join(f"{n} {answer}" for answer, n in counts.items()) + "."
    return Table("verdicts", "Claims of the paper and what the records say", columns, rows, caption, conditions(found))


def conditions(found: list[Verdict]) -> tuple[str, ...]:
    """How to read the verdicts, and with which batch-norm statistics the accuracies behind them were scored."""
    used = {v.statistics for v in found if v.statistics}
    return (
        "Algebra and arithmetic hold, and refute, at any tier; measured verdicts hold for the tier they name.",
        *READING,
        *([OF_OTHERS] if any(v.kind == "printed" for v in found) else []),
        *([OF_TARGET] if "target" in used else []),
        *([OF_LOOPS] if "running" in used else []),
        *([BESIDE_PRINT] if used else []),
    )


def cell_verdict(difference: Interval, tier: str, as_printed: bool = True) -> str:
    """`reproduced`, `differs`, `undecided` or `not measured`, by the interval of ours − reported; tier paper only.

    `as_printed` is False when settings were changed or the target's images were generated: no verdict then either.
    """
    if difference.n == 0:
        return "not measured"
    if tier != "paper" or not as_printed:
        return "direction only"
    bound = margin()
    if not difference.enough:
        return "undecided"
    if -bound <= difference.low and difference.high <= bound:
        return "reproduced"
    return "differs" if difference.above(bound) or difference.below(-bound) else "undecided"
