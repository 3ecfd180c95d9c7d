"""What a plan will cost, and what of it is done already."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark import records
from benchmark.errors import UserError
from benchmark.plan.flops import Count, Counts, counted, work
from benchmark.plan.rates import Rate, is_gpu, of_gpu, profiled
from benchmark.records import Sent
from benchmark.spec import Resolved, RunSpec, Tier, resolve

if TYPE_CHECKING:
    import pandas as pd

ROW = ("suite", "tier", "method", "preset", "standard")


def estimate(
    specs: Sequence[RunSpec], frame: pd.DataFrame, *, gpu: str = "", kind: str = "", count: Count | None = None
) -> list[tuple[float, str]]:
    """(seconds, where they come from) of each spec, evaluations included.

    What a run computes × a rate: that of finished runs of its row, else of other rows of its suite and tier, else what
    `profile` measured of its network, else (tier paper, or `gpu`) that of a GPU in the table. Where it was never counted
    what it computes (with `count` it is counted now): seconds an update of finished runs, else the suite's figure. With
    `gpu`, records of other devices say nothing; with `kind` ("cpu" or "cuda"), those of the other kind.
    """
    kept = _Counts(count)
    seen = _Seen(_of_device(frame[frame.status == "done"], gpu, kind), kept)
    return [_estimate(resolve(spec), seen, gpu, kept) for spec in specs]


def _estimate(resolved: Resolved, seen: _Seen, gpu: str, kept: _Counts) -> tuple[float, str]:
    spec, settings = resolved.spec, resolved.settings
    row, counts = tuple(getattr(spec, name) for name in ROW), kept.of(resolved)
    if counts is not None:
        kind = "cuda" if gpu or spec.tier == Tier.paper else "cpu"
        rate = seen.rate(row) or (None if gpu else profiled(settings, kind))
        if rate is None and kind == "cuda":
            rate = of_gpu(gpu, settings.precision)
        if rate is not None:
            return rate.seconds(work(resolved, counts)), rate.basis
    if row in seen.per_update:
        return seen.per_update[row] * settings.updates, "measured"
    assumed = settings.seconds_per_update * resolved.method.relative_cost * settings.updates
    other = any(key == "run.network.name" for key, _ in spec.overrides)
    basis = (
        "assumed, of the suite's own network: another one was never counted; --gpu counts it" if other else "assumed"
    )
    return assumed * (len(spec.sources) + 1) / len(resolved.suite.columns), basis


class _Counts:
    """Counts by shape: the same for all targets and seeds of a row."""

    def __init__(self, count: Count | None) -> None:
        self._count = count
        self._found: dict[Any, Counts | None] = {}

    def of(self, resolved: Resolved) -> Counts | None:
        spec = resolved.spec
        key = *(getattr(spec, name) for name in ROW), len(spec.sources), spec.overrides
        if key not in self._found:
            self._found[key] = counted(resolved, self._count)
        return self._found[key]


def _of_device(done: pd.DataFrame, gpu: str, kind: str) -> pd.DataFrame:
    """The runs that were made on such a device."""
    if kind:
        done = done[done.device.fillna("").str.startswith(kind)]
    if gpu:
        done = done[done.hardware.fillna("").map(lambda name: is_gpu(gpu, name)).astype(bool)]
    return done


class _Seen:
    """What finished runs say: seconds an update of each row, and FLOP/s of each row that was counted."""

    def __init__(self, done: pd.DataFrame, kept: _Counts) -> None:
        self.per_update: dict[tuple[str, ...], float] = {}
        self._rates: dict[tuple[str, ...], list[float]] = {}
        for row, runs in done.groupby([done[name].fillna("") for name in ROW]):
            seconds = _seconds(runs)
            self.per_update[row] = float((seconds / runs.updates.astype(float)).median())
            for _, alike in runs.groupby([runs.overrides, runs.sources]):
                with contextlib.suppress(UserError):  # a method or suite of the user's own that is no longer there
                    resolved = resolved_of(alike.iloc[0])
                    counts = kept.of(resolved) if alike.protocol.iloc[0] == resolved.suite.protocol else None
                    if counts is not None:
                        rate = work(resolved, counts).flops / float(seconds[alike.index].median())
                        self._rates.setdefault(row, []).append(rate)

    def rate(self, row: tuple[str, ...]) -> Rate | None:
        """Of the row, else the median of the other rows of its suite and tier."""
        if row in self._rates:
            return Rate(statistics.median(self._rates[row]), 0.0, "measured")
        others = [rate for other, rates in self._rates.items() if other[:2] == row[:2] for rate in rates]
        return (
            Rate(statistics.median(others), 0.0, "counted FLOPs at the rate of the rows measured here")
            if others
            else None
        )


def _seconds(runs: pd.DataFrame) -> pd.Series:
    """Of each run: its own time on the cores it had, which a busy machine does not lengthen; on a GPU the clock's."""
    on_cpu = runs.device.fillna("").eq("cpu") & runs.cpu_seconds.notna()
    own = runs.cpu_seconds.astype(float) / runs.threads.astype(float).clip(lower=1)
    return own.where(on_cpu, runs.seconds.astype(float))


def resolved_of(run: Any) -> Resolved:
    """A finished run with the budget that it had: a tier's may have changed since."""
    spec = RunSpec(
        run.suite, run.tier, run.method, run.preset or "", run.standard, tuple(run.sources.split(",")), run.target,
        run.split, int(run.seed), int(run.threads), tuple(json.loads(run.overrides).items()),
    )  # fmt: skip
    found = resolve(spec)
    budget = {"updates": int(run.updates)} if found.settings.stage_budget == "shared" else {}
    return dataclasses.replace(found, settings=found.settings.model_copy(update=budget))


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
