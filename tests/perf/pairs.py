"""Side by side: two pieces of work timed in turn in one run, the median of the pairs' ratios, and the stored ratios.

`make bench` prints and writes the table; `make baseline` keeps its ratios as the stored ones. Seconds are never stored:
they belong to a machine.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
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


@contextlib.contextmanager
def process(make: Callable[..., Callable[[int], object]], *args: object) -> Iterator[Connection]:
    """A process of its own (its own allocator, its own threads) with `make(*args)` in it, ready to be asked for work."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=_serve, args=(theirs, make, args), daemon=True)
    worker.start()
    theirs.close()  # so that its death ends the waiting
    try:
        assert ours.recv() == "ready"
        yield ours
    finally:
        with contextlib.suppress(BrokenPipeError):
            ours.send(None)
        worker.join(10)


def _serve(pipe: Connection, make: Callable[..., Callable[[int], object]], args: tuple[object, ...]) -> None:
    work = make(*args)
    pipe.send("ready")
    while (amount := pipe.recv()) is not None:
        work(amount)
        pipe.send("done")


def ask(*pipes: Connection, amount: int = 1) -> None:
    """Have the processes do so much, at the same time; return when all have."""
    for pipe in pipes:
        pipe.send(amount)
    for pipe in pipes:
        assert pipe.recv() == "done"


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
