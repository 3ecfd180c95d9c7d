"""Finished runs for a tracker: one process for all of them, and nobody who waits for it to be quick."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmark.errors import UserError
from benchmark.records.track.channel import Channel
from benchmark.records.track.names import label
from benchmark.records.track.protocol import About, scalars


def deliver(name: str, runs: Iterable[tuple[About, list[dict[str, Any]]]], log: Path) -> int:
    """Tell a tracker whole curves; what it has already it is not given again. Gives the number of runs."""
    channel, told = Channel(name, log), 0
    for run, curve in runs:
        channel.tell({"start": asdict(run)})
        for row in curve:
            channel.tell(_point(row))
        channel.tell({"end": "done"})
        told += 1
        channel.wait(told, math.inf)
        if channel.failed:
            break
    failed = channel.failed
    channel.close()
    if failed:
        raise UserError(f"The tracker {label(name)} could not take the runs: {failed}")
    return told


def _point(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"point": [int(row["update"]), scalars(row)]}
