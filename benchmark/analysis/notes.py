"""What a reader must know about a row, or about all rows of a table: footnotes and sentences of the caption."""

from __future__ import annotations

from collections.abc import Sequence

from benchmark.analysis.condition import Condition
from benchmark.analysis.rows import Entry
from benchmark.analysis.table import Row


def remarks(entry: Entry, condition: Condition) -> list[str]:
    """Footnotes of a row: failures, and an auxiliary tensor that was zero all the time."""
    found = []
    failed = entry.runs[entry.runs["status"].isin(["failed", "damaged"])]
    if len(failed):
        reasons = [str(r) for r in failed["reason"].dropna().unique() if r]
        why = f": {shortened(reasons[0])}" if reasons else ""
        found.append(f"{len(failed)} of {len(entry.runs)} runs {'/'.join(sorted(set(failed['status'])))}{why}.")
    zero, known = zero_tensor_runs(entry)
    if zero:
        share = "all" if zero == known else f"{zero} of"
        found.append(
            f"The auxiliary tensor A was zero for the whole run in {share} {known} runs: the low-rank term acted as "
            "(η/2)·Σ‖G‖² on each domain alone, without coupling between domains."
        )
    return found


def zero_tensor_runs(entry: Entry) -> tuple[int, int]:
    """Runs whose diagnostics say that A was zero throughout, and runs that say anything about it."""
    if entry.method != "tsvdnet":
        return 0, 0
    said = entry.done["a_zero"].dropna()
    return int(said.sum()), len(said)


def shortened(text: str, limit: int = 160) -> str:
    """One line of at most `limit` characters."""
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def incomplete(rows: Sequence[Row]) -> list[str]:
    """A sentence when rows lack their first number (an average over all targets), else nothing."""
    broken = sum(1 for row in rows if not row.cells[1].measured)
    return [f"INCOMPLETE: {broken} of {len(rows)} rows lack a target."] if broken else []


def tuning_words(found: Sequence[Entry]) -> str:
    """Tuned or default, for the caption."""
    tuned = [e for e in found if e.tuned]
    if not tuned:
        return "Hyper-parameters: defaults, untuned."
    if len(tuned) == len(found):
        return "Hyper-parameters: tuned, the same number of trials for each method."
    return "Hyper-parameters: some rows tuned, others default, as each row says; such rows are not a fair comparison."
