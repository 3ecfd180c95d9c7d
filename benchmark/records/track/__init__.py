"""Watching a run from outside: TensorBoard, W&B, MLflow, trackio, or a class of the user's own, fed while it trains.

`Tracker` is what such a class must have (start, point, end); `tracking` keeps the trackers of one run, each in a process
of its own, so that one that fails, hangs or fills the disk costs the run a warning and nothing else; `deliver` tells a
tracker finished runs. No tracker is part of a run's identity.
"""

from __future__ import annotations

from benchmark.records.track.finished import deliver
from benchmark.records.track.guard import FOLDER, MARK, Trackers, tracking
from benchmark.records.track.names import BUILT_IN, check, known, missing
from benchmark.records.track.protocol import About, Tracker, about

__all__ = [
    "BUILT_IN",
    "FOLDER",
    "MARK",
    "About",
    "Tracker",
    "Trackers",
    "about",
    "check",
    "deliver",
    "known",
    "missing",
    "tracking",
]
