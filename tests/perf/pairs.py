"""Side by side: two pieces of work timed in turn in one run, and the ratio of their medians."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

BASELINE = Path(__file__).parent / "baseline.json"
FOUND = Path(".benchmarks") / "ratios.json"


def ratio(reference: Callable[[], object], ours: Callable[[], object], pairs: int = 7) -> tuple[float, float, float]:
    """(reference / ours, ms of the reference, ms of ours): medians of `pairs` interleaved pairs, after one to warm up."""
    times: tuple[list[float], list[float]] = ([], [])
    for i in range(pairs + 1):
        for work, kept in zip((reference, ours), times, strict=True):
            began = time.perf_counter()
            work()
            if i:
                kept.append(time.perf_counter() - began)
    a, b = (statistics.median(t) * 1e3 for t in times)
    return a / b, a, b


def note(name: str, value: float, wanted: str, **more: float) -> None:
    """Print a ratio beside the stored baseline, and keep it for the table of `make bench`."""
    stored = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    before = stored.get(name, {}).get("value")
    found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    found[name] = {"value": round(value, 3), "wanted": wanted, **{k: round(v, 2) for k, v in more.items()}}
    FOUND.parent.mkdir(exist_ok=True)
    FOUND.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"\n{name}: {value:.3f} (wanted {wanted}; stored {before if before is not None else 'none'}) {more}")
