"""What a plan will cost, and what of it is done already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark import records
from benchmark.records import Sent
from benchmark.spec import RunSpec, resolve

if TYPE_CHECKING:
    import pandas as pd


def estimate(specs: Sequence[RunSpec], frame: pd.DataFrame) -> list[tuple[float, str]]:
    """(seconds, "measured" or "assumed") of each spec: from finished runs of the same kind, else from the suite's figure."""
    done = frame[frame.status == "done"]
    measured: dict[tuple[str, ...], float] = {}
    if len(done):
        per_update = done.seconds.astype(float) / done.updates.astype(float)
        keys = [done[c].fillna("") for c in ("suite", "tier", "method", "preset", "standard")]
        measured = per_update.groupby(keys).median().to_dict()
    found = []
    for spec in specs:
        resolved = resolve(spec)
        key = (spec.suite, spec.tier, spec.method, spec.preset, spec.standard)
        if key in measured:
            found.append((measured[key] * resolved.settings.updates, "measured"))
        else:
            assumed = resolved.settings.seconds_per_update * resolved.method.relative_cost * resolved.settings.updates
            found.append((assumed * (len(spec.sources) + 1) / len(resolved.suite.columns), "assumed"))
    return found


def states(
    specs: Sequence[RunSpec], results: Path, frame: pd.DataFrame | None = None, queue: Mapping[str, Sent] | None = None
) -> dict[str, tuple[str, str]]:
    """run_id → (state, reason) of each spec; `frame` was loaded with the same `queue`."""
    frame = records.load(results, queue) if frame is None else frame
    known = dict(zip(frame["path"], zip(frame["status"], frame["reason"].fillna(""), strict=True), strict=True))
    found = {}
    for spec in specs:
        run_id = spec.run_id
        directory = records.run_directory(results, spec, run_id)
        if str(directory) in known:
            found[run_id] = known[str(directory)]
        else:  # the frame has no row for what is absent, or waits without a folder
            there = records.state(directory, queue)
            found[run_id] = (there.name.value, there.reason)
    return found
