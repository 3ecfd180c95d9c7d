"""One method at tier paper's sizes through everything that a run does on a GPU, counted."""

from __future__ import annotations

import dataclasses
from collections import Counter as Counts
from pathlib import Path

from benchmark.run.count import Wait, kind
from methods.contract import Views
from tests.gpu.pretend import gpu, make_run


@dataclasses.dataclass
class Walk:
    """What was asked of the GPU. A tensor on the wrong device would have raised."""

    launches: dict[str, int] = dataclasses.field(default_factory=dict)  # of one update, by stage
    peak_gb: float = 0.0  # the largest of all updates
    waits: list[tuple[str, Wait]] = dataclasses.field(default_factory=list)  # within updates
    operators: Counts[str] = dataclasses.field(default_factory=Counts)  # of everything, begin to diagnostics


def walk(suite: str, name: str, preset: str, folder: Path, evaluate: bool = False) -> Walk:
    """begin → two updates (the second, when optimisers and meter have their state, is counted) → predict → diagnostics,
    for every kind of stage."""
    found = Walk()
    with gpu() as counter:
        run = make_run(suite, name, preset, folder)
        for stage in run.stages:
            if kind(stage.name) in found.launches:
                continue
            passes = [s.full_pass(run.handed_out) for s in run.sources]
            run.method.enter(stage.name, Views(passes, run.target.full_pass(run.handed_out)))
            run.step(0.0)
            run.update += 1
            found.operators += counter.restart().operators
            run.step(0.999)  # near the end: ramps are up, T-SVDNet's η is at its largest
            run.update += 1
            update = counter.restart()
            found.launches[kind(stage.name)] = update.launches
            found.peak_gb = max(found.peak_gb, update.peak_bytes / 1e9)
            found.waits += [(stage.name, wait) for wait in update.synchronisations]
            found.operators += update.operators
            images = run.target.images(0)
            run.method.predict(images)
            run.method.features(images)
            run.method.sigma(images)
            run.method.diagnostics()
        if evaluate:
            run.evaluator.row(run.method)
        found.operators += counter.restart().operators
    return found
