"""Starting one run, or going on with it, or finding that it is done: `execute`.

Killed at any moment, the same call goes on from the last checkpoint and ends with the same bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmark import data, records
from benchmark.data.base import Dataset
from benchmark.errors import RunFailed
from benchmark.files import write_json
from benchmark.records import Record, models
from benchmark.records.lease import Lease, LeaseLost, RunHeld
from benchmark.records.track import tracking
from benchmark.run import checkpoint
from benchmark.run.failure import reason_of, write_failure
from benchmark.run.loop import Run
from benchmark.run.model.keeping import Keeping, facts
from benchmark.run.provenance import commit
from benchmark.run.speed import arithmetic, keep_freed_memory, quiet_torch
from benchmark.spec import Resolved, RunSpec, resolve
from methods import is_built_in


def execute(
    spec: RunSpec,
    *,
    results: str | Path,
    data_root: str | Path | None = None,
    device: str = "cpu",
    should_stop: Callable[[], bool] | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
    checkpoint_seconds: float | None = None,
    keep_model: str = "none",
    track: Sequence[str] = (),
) -> Record:
    """Run `spec`, or go on with it, or return its record when it is done. Paths are no part of its identity.

    `keep_model` says which models stay beside the record: none, last, or selected (that of each label-free rule). It
    moves no bit, and a run that is done is not run again for it. `track` names trackers (`benchmark.records.track`).
    """
    models.check_choice(keep_model)
    resolved = resolve(spec)
    keep_freed_memory(resolved.settings.network.name)
    root = Path(data_root) if data_root else None
    strict, precision = is_built_in(spec.method), resolved.settings.precision
    with quiet_torch(spec.threads, device, strict=strict), arithmetic(precision, device):
        dataset = data.load(resolved.suite, spec.tier, spec.split, root, resolved.settings.options)
        if spec.data and spec.data != dataset.fingerprint:
            raise RunFailed(f"the data has fingerprint {dataset.fingerprint}, the spec was made for {spec.data}")
        spec = dataclasses.replace(spec, data=dataset.fingerprint)
        resolved = dataclasses.replace(resolved, spec=spec)
        directory = records.run_directory(Path(results), spec, spec.run_id)
        done = finished(directory)
        if done is not None:
            return done
        lease = Lease(directory)
        lease.acquire()
        try:
            done = records.read(directory)
            if done is not None:  # finished by another process between the look and the lease
                return done
            write_json(directory / "spec.json", spec.to_json())
            run = begin(resolved, dataset, directory, lease, device=device, data_root=root)
            told = facts(resolved, dataset, run.classes) if keep_model != "none" else {}
            run.keeping = Keeping(keep_model, directory, told, run.evaluator.statistics_batches)
            run.keeping.begin(run.curve)
            run.should_stop = should_stop or (lambda: False)
            run.watch = watch or (lambda beat: None)
            asked = os.environ.get("BENCHMARK_CHECKPOINT_SECONDS", "")
            run.checkpoint_seconds = float(asked) if checkpoint_seconds is None and asked else checkpoint_seconds
            known = (spec.run_id, spec.to_json(), Path(results))
            with tracking(track, *known, run.curve, run.warnings) as run.trackers:
                return run.to_the_end()
        finally:
            lease.release()


def finished(directory: Path) -> Record | None:
    """The record of a run that is done. One that was killed right after its record is tidied up now."""
    done = records.read(directory)
    if done is not None and (checkpoint.passing(directory) or (directory / "lease.json").exists()):
        with contextlib.suppress(RunHeld, LeaseLost, OSError):
            lease = Lease(directory)
            lease.acquire()
            checkpoint.tidy(directory)
            lease.release()
    return done


def begin(
    resolved: Resolved, dataset: Dataset, directory: Path, lease: Lease, *, device: str, data_root: Path | None
) -> Run:
    """A run where its checkpoint left it. A checkpoint that is damaged goes: the run begins anew, and its record says so.

    What cannot even begin (a method that fails to build itself) is written down as a failure like any other.
    """
    try:
        run = Run(resolved, dataset, directory, lease, device=device, data_root=data_root)
        try:
            run.restore()
        except checkpoint.Damaged as damage:
            lease.check()
            (directory / "checkpoint.pt").unlink(missing_ok=True)
            run = Run(
                resolved, dataset, directory, lease, device=device, data_root=data_root
            )  # half of it was restored
            run.warnings.append(f"its checkpoint was damaged ({damage}), so the run began anew")
        return run
    except LeaseLost:
        raise
    except Exception as error:
        write_failure(directory, reason_of(error), error, method=resolved.spec.name, update=0, commit=commit()[0])
        raise RunFailed(reason_of(error)) from error
