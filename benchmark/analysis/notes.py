"""What a reader must know about a row, or about all rows of a table: footnotes and sentences of the caption."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from benchmark.analysis.condition import Condition
from benchmark.analysis.rows import Entry
from benchmark.analysis.table import Row
from benchmark.errors import UserError


def remarks(entry: Entry, condition: Condition) -> list[str]:
    """Footnotes of a row: failures, and what its method remarked."""
    found = []
    failed = entry.runs[entry.runs["status"].isin(["failed", "damaged"])]
    if len(failed):
        reasons = [str(r) for r in failed["reason"].dropna().unique() if r]
        why = f": {shortened(reasons[0])}" if reasons else ""
        found.append(f"{len(failed)} of {len(entry.runs)} runs {'/'.join(sorted(set(failed['status'])))}{why}.")
    done = len(entry.done)
    for sentence, n in remarked(entry).items():
        share = f"all {n}" if n == done else f"{n} of {done}"
        words = shortened(sentence, 400)
        found.append(f"{words[:1].upper()}{words[1:]} (in {share} runs).")
    return found


def remarked(entry: Entry) -> Counter[str]:
    """What the method said of the row's runs, each sentence with the number of runs that carry it."""
    return Counter(str(sentence) for told in entry.done["remarks"].dropna() for sentence in json.loads(told))


def shortened(text: str, limit: int = 160) -> str:
    """One line of at most `limit` characters."""
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def incomplete(rows: Sequence[Row]) -> list[str]:
    """A sentence when rows lack their first number (an average over all targets), else nothing."""
    broken = sum(1 for row in rows if not row.cells[1].measured)
    return [f"INCOMPLETE: {broken} of {len(rows)} rows lack a target."] if broken else []


def refuse_without_average(rows: Sequence[Row], condition: Condition) -> None:
    """A table of averages in which no row has one would be empty."""
    if not any(row.cells[1].measured for row in rows):
        raise UserError(
            f"No row of suite {condition.suite.name}, tier {condition.tier} has been run on all targets, and this table shows "
            f"averages over them. Type: python -m benchmark table --suite {condition.suite.name} --tier {condition.tier}"
        )


def tuning_words(found: Sequence[Entry]) -> str:
    """Tuned or default, for the caption."""
    tuned = [e for e in found if e.tuned]
    if not tuned:
        return "Hyper-parameters: defaults, untuned."
    if len(tuned) == len(found):
        return "Hyper-parameters: tuned, the same number of trials for each method."
    return "Hyper-parameters: some rows tuned, others default, as each row says; such rows are not a fair comparison."
