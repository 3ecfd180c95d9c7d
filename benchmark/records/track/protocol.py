"""What a tracker is: three calls, and what it is told of a run.

class Mine:
    def start(self, about):            # the run begins, or goes on
        return 0                       # the last update that is there already
    def point(self, update, values):   # an evaluation point, or a sign of life
        print(about.run_id, update, values["accuracy/target"])
    def end(self, state):              # done, failed, interrupted, or killed
        pass
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from benchmark.records.selection import VALIDATORS
from benchmark.records.store import suite_folder


@dataclass(frozen=True)
class About:
    """A run, as a tracker is told of it."""

    run_id: str  # the tracker's id of the run too, where the tracker lets us choose
    title: str  # for people: tsvdnet:code → mm, multi-source, seed 0
    place: str  # <suite>/<tier>/<method>-<standard>-<target>-seed<seed>-<run_id>: a folder of its own
    folder: str  # where a tracker without a server keeps its things
    config: dict[str, Any]  # what the run was asked to be


class Tracker(Protocol):
    """Called in a process of its own, in this order; whatever it raises ends the tracking, not the run."""

    def start(self, about: About) -> int | None:
        """Open the run, or open it again after a stop; gives the last update that is there already (None: nothing is).

        Points up to it are not sent again. A run that goes on from a checkpoint makes the points after it anew, with the
        same bits, so what a killed process wrote after its last checkpoint counts as there.
        """
        ...

    def point(self, update: int, values: Mapping[str, float]) -> None:
        """Numbers at an update; updates only grow."""
        ...

    def end(self, state: str) -> None:
        """Write what is still to be written: the run is done, failed, interrupted or (nobody said why) killed."""
        ...


def about(run_id: str, spec: Mapping[str, Any], folder: object) -> About:
    """A run told to a tracker, from its spec as JSON, or from a row of `records.load`."""
    suite, method = suite_folder(str(spec["suite"])), str(spec["method"])
    method = method.rpartition(":")[2] if ".py:" in method else method
    name = f"{method}:{spec['preset']}" if spec.get("preset") else method
    keys = ("tier", "standard", "target", "split", "seed", "threads")
    config = {"suite": suite, "method": method, "preset": spec.get("preset") or "", **{k: spec[k] for k in keys}}
    config |= {str(key): value for key, value in dict(spec.get("overrides") or {}).items()}
    stem = f"{name.replace('/', '_').replace(':', '_')}-{spec['standard']}-{spec['target']}-seed{spec['seed']}-{run_id}"
    title = f"{name} → {spec['target']}, {spec['standard']}, seed {spec['seed']}"
    return About(run_id, title, f"{suite}/{spec['tier']}/{stem}", str(folder), config)


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of one evaluation point, with a tag each."""
    found: list[tuple[str, Any]] = []
    for prefix, scored in [("", row), *((f"{kind}_statistics/", s) for kind, s in row.get("statistics", {}).items())]:
        found += [(f"{prefix}accuracy/{key}", scored.get(key)) for key in ("target", "source_val")]
        found += [(f"{prefix}selection/{key}", scored.get(key)) for key in VALIDATORS if key != "source_val"]
        found += [(f"{prefix}probes/{key}", value) for key, value in (scored.get("probes") or {}).items()]
    for group in ("losses", "diagnostics", "pseudo"):
        found += [(f"{group}/{key}", value) for key, value in (row.get(group) or {}).items()]
    numbers = {tag: float(v) for tag, v in found if isinstance(v, int | float) and not isinstance(v, bool)}
    return {tag: value for tag, value in numbers.items() if math.isfinite(value)}


def sign_of_life(beat: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of a heartbeat."""
    return {"progress/share": beat["update"] / max(beat["total"], 1), "progress/seconds": float(beat["seconds"])}
