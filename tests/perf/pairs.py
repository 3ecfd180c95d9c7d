"""Side by side: two pieces of work timed in turn in one run, the median of the pairs' ratios, and the stored ratios.

`make bench` prints and writes the table; `make baseline` keeps its ratios as the stored ones. Seconds are never stored:
they belong to a machine.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tabulate import tabulate

BASELINE = Path(__file__).parent / "baseline.json"
FOUND = Path(".benchmarks") / "ratios.json"
TABLE = Path(".benchmarks") / "ratios.txt"
PAIRS = 7


@dataclass(frozen=True)
class Ratio:
    """One line of the table."""

    name: str
    value: float
    limit: str  # "≥ 1.5", "≤ 0.15", or empty: shown, not held to anything
    kept: bool
    more: str = ""


FOUND_NOW: list[Ratio] = []


def ratio(
    reference: Callable[[], object],
    ours: Callable[[], object],
    pairs: int = PAIRS,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, float]:
    """(reference / ours, ms of the reference, ms of ours): medians over interleaved pairs, after one to warm up."""
    times: tuple[list[float], list[float]] = ([], [])
    for i in range(pairs + 1):
        for work, kept in zip((reference, ours), times, strict=True):
            began = clock()
            work()
            if i:
                kept.append(clock() - began)
    each = [a / b for a, b in zip(*times, strict=True)]
    a, b = (statistics.median(t) * 1e3 for t in times)
    return statistics.median(each), a, b


def holds(
    name: str, value: float, *, at_least: float | None = None, at_most: float | None = None, **more: float
) -> None:
    """Put a ratio into the table; then assert its limit, if it has one. `more` is shown beside it (ms, MB)."""
    limit = f"≥ {at_least:g}" if at_least is not None else f"≤ {at_most:g}" if at_most is not None else ""
    kept = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
    words = ", ".join(f"{key} {number:.4g}" for key, number in more.items())
    FOUND_NOW.append(Ratio(name, float(f"{value:.4g}"), limit, kept, words))
    assert kept, f"{name}: {value:.4g}, wanted {limit} ({words})"


def table(found: list[Ratio]) -> str:
    """Ratio now, ratio stored, limit."""
    stored = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    rows = [
        (r.name, f"{r.value:.4g}", f"{stored[r.name]:.4g}" if r.name in stored else "–", r.limit or "–",
         "" if r.kept else "MISSED", r.more)
        for r in found
    ]  # fmt: skip
    return tabulate(rows, ("ratio", "now", "stored", "limit", "", "of"), disable_numparse=True)


def write(found: list[Ratio]) -> None:
    """The ratios and the table of this run, for people and for `make baseline`."""
    FOUND.parent.mkdir(exist_ok=True)
    FOUND.write_text(json.dumps([asdict(r) for r in found], indent=1, ensure_ascii=False) + "\n")
    TABLE.write_text(table(found) + "\n")


def store() -> None:
    """The last run's ratios become the stored ones; those it did not measure stay. A missed limit is not stored."""
    found = [Ratio(**r) for r in json.loads(FOUND.read_text())] if FOUND.exists() else []
    missed = [r.name for r in found if not r.kept]
    if missed or not found:
        raise SystemExit(f"Nothing stored. Limits missed: {', '.join(missed)}." if missed else "Run make bench first.")
    stored = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    stored |= {r.name: r.value for r in found}
    BASELINE.write_text(json.dumps(stored, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    print(f"{len(found)} ratios stored in {BASELINE}.")


if __name__ == "__main__":
    store()
