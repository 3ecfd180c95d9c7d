"""What a plan will cost, and what of it is done already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmark import records
from benchmark.spec import RunSpec, resolve


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


def states(specs: Sequence[RunSpec], results: Path, frame: pd.DataFrame | None = None) -> dict[str, tuple[str, str]]:
    """run_id → (status, reason) of each spec, as the disk says it: absent, running, interrupted, failed, done."""
    frame = records.load(results) if frame is None else frame
    known = dict(zip(frame["run_id"], zip(frame["status"], frame["reason"].fillna(""), strict=True), strict=True))
    return {spec.run_id: known.get(spec.run_id, ("absent", "")) for spec in specs}
