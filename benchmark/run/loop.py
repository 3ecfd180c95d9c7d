"""The one training loop: batches in, the method's update, evaluation points, checkpoints, and at the end the record.

The loop owns data, time, evaluation, checkpoints and seeds; it knows nothing of any method.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmark import records
from benchmark.data.base import Dataset
from benchmark.data.batches import Stream, batches_of, hold_out, supply
from benchmark.errors import Interrupted, RunFailed
from benchmark.faults import fault
from benchmark.files import replacing, write_json
from benchmark.records import Record
from benchmark.records.lease import Lease, LeaseLost
from benchmark.records.selection import summary
from benchmark.records.track import Trackers
from benchmark.run import checkpoint
from benchmark.run.failure import can_wait, noting_warnings, reason_of, write_failure
from benchmark.run.meter import Meter, check_finite
from benchmark.run.model.keeping import Keeping
from benchmark.run.provenance import commit, provenance
from benchmark.run.score.evaluate import Evaluator, json_safe
from benchmark.run.score.share import target_share
from benchmark.run.stages import Stage, divide
from benchmark.run.task import make_task
from benchmark.run.usage import Usage, state_hash
from benchmark.spec import Resolved, canonical_json, settings_json
from benchmark.spec.seeds import seed_of
from methods import is_built_in
from methods.contract import Method, Views, method_revision

HEARTBEAT_SECONDS = 2.0


class Run:
    """The state of one run between its first update and its record."""

    should_stop: Callable[[], bool] = staticmethod(lambda: False)
    watch: Callable[[dict[str, Any]], None]
    checkpoint_seconds: float | None = None  # None: as often as costs little
    keeping = Keeping()  # of models; keeps none unless it is told to

    def __init__(
        self,
        resolved: Resolved,
        dataset: Dataset,
        directory: Path,
        lease: Lease,
        *,
        device: str,
        data_root: Path | None,
    ) -> None:
        self.resolved, self.spec, self.settings = resolved, resolved.spec, resolved.settings
        self.dataset, self.directory, self.lease, self.device = dataset, directory, lease, torch.device(device)
        self.classes = list(dataset.classes) or resolved.suite.classes
        self.task = make_task(resolved, len(self.classes), device, data_root)
        self.method: Method = resolved.method(self.task, resolved.hparams).to(self.device)
        self.stages = divide(self.method.stages(), self.settings.updates, self.settings.stage_budget)
        self.total = self.stages[-1].stop
        points = self.settings.eval_points
        self.points = {round(self.total * (i + 1) / points) for i in range(points)} - {0}
        self.sources = [self._stream(s, labelled=True) for s in self.spec.sources]
        self.target = self._stream(self.spec.target, labelled=False)
        self.batch = batches_of(self.sources, self.target, self.spec.standard == "combined")
        self.evaluator = Evaluator(dataset, self.spec, self.settings, self.device, len(self.classes), self.pause)
        self.meter, self.usage = Meter(), Usage(self.device)
        self.update, self.saving = 0, 0.0  # updates done; seconds that the last checkpoint took
        self.saved: int | None = None  # its update
        self.curve, self.times = list[dict[str, Any]](), list[float]()  # the evaluation points, and when each was there
        self.handed_out, self.warnings = [0], list[str]()
        # what a user's own `update` does beside training (waits, writes) is not ours to do
        self.share = target_share(resolved) if is_built_in(self.spec.method) else None
        self.last_checkpoint = self.last_beat = time.monotonic()
        self.trackers = Trackers(self.warnings)  # none, until a run is told of some

    def _stream(self, id: str, *, labelled: bool) -> Stream:
        images = self.dataset.domains[id].train
        pool, _ = hold_out(len(images), self.settings.val_images, id)
        return Stream(
            images, pool, id, seed=self.spec.seed, size=self.settings.batch, preprocess=self.dataset.preprocess,
            device=self.device, labelled=labelled,
        )  # fmt: skip

    # -- the loop -------------------------------------------------------------------------------------------------

    def to_the_end(self) -> Record:
        """Train from where the last checkpoint stands to the record; failures are written down, then raised."""
        self.usage.begins(self.update)
        try:
            with noting_warnings(self.warnings), supply(self.batch, self.device, self.total) as self.batch:
                self.method.train()
                if self.pending():
                    self.evaluate()
                for stage in self.stages:
                    self.train(stage)
                return self.finish()
        except (Interrupted, KeyboardInterrupt, LeaseLost):  # a copy that lost its lease writes nothing more
            raise
        except Exception as error:
            cause = self.meter.cause(error)
            self.fail(cause)
            raise RunFailed(reason_of(cause)) from cause

    def pause(self) -> None:
        """Between two batches of a long pass: go no further when told to stop."""
        if self.should_stop():
            raise Interrupted

    @contextlib.contextmanager
    def stoppable(self) -> Iterator[None]:
        """Within: passes that change nothing; told to stop between two batches, the run is saved as it was before them."""
        before = self.meter.state_dict()
        try:
            yield
        except Interrupted:
            self.meter.load_state_dict(before)
            self.save()
            raise

    def pending(self) -> bool:
        """Whether the last update's evaluation is still to be done: the run was stopped in the middle of it."""
        return self.update in self.points and (not self.curve or self.curve[-1]["update"] < self.update)

    def train(self, stage: Stage) -> None:
        """The updates of one stage, evaluated at fixed progress."""
        while self.update < stage.stop:
            if self.should_stop():
                self.save()
                raise Interrupted
            if self.update == stage.start:
                fault(f"stage:{stage.name}")
                if self.update and self.saved != self.update:
                    self.save()  # what a stop in the middle of `begin` goes back to
                torch.manual_seed(seed_of("stage", self.spec.seed, stage.name))
                *passes, target = [s.full_pass(self.handed_out, self.pause) for s in (*self.sources, self.target)]
                self.method.enter(stage.name, Views(passes, target))
            fault("update")
            self.step((self.update - stage.start) / (stage.stop - stage.start))
            self.update += 1
            if self.update in self.points:
                self.evaluate()
            self.beat()

    def step(self, progress: float) -> None:
        """One update on batch t of every domain. Dropout is seeded by (seed, t); nothing here waits for the device."""
        t = self.update
        sources, target = self.batch(t)
        torch.manual_seed(seed_of("update", self.spec.seed, t))
        terms = self.method.update(sources, target, progress)
        pseudo = terms.pop("pseudo_labels", None)
        if pseudo is not None:
            self.meter.count(self.evaluator.pseudo(pseudo, t))
        if fault("loss") == "nan":
            terms = {**terms, "injected": torch.full((), torch.nan)}
        self.meter.add(terms, t)
        self.meter.watch(self.method, t)

    def evaluate(self) -> None:
        """An evaluation point: read the meter, score, append to the curve, write it."""
        with self.stoppable():
            losses, pseudo = self.meter.read()
            check_finite(self.method.state_dict(), self.update)
            fault("evaluate")
            row = {
                "update": self.update,
                "progress": self.update / self.total,
                "stage": self.method.stage,
                **self.evaluator.row(self.method),
                "losses": losses,
                "pseudo": pseudo,
                "diagnostics": self.method.diagnostics(),
            }
            row = json_safe(row)
            self.lease.check()
            self.keeping.point(self.method, [*self.curve, row], self.saved, self.warnings)
        self.curve.append(row)
        self.times.append(self.usage.seconds())
        self.lease.check()
        with can_wait("the curve", self.warnings):
            records.write_curve(self.directory, self.curve)
        self.trackers.point(self.curve[-1])

    # -- signs of life, checkpoints -------------------------------------------------------------------------------

    def beat(self) -> None:
        """Now and then: a heartbeat for people, a checkpoint for the next start."""
        now = time.monotonic()
        if now - self.last_beat >= HEARTBEAT_SECONDS or self.update == self.total:
            self.last_beat = now
            self.lease.refresh()
            beat = self.heartbeat()
            with can_wait("the heartbeat", self.warnings):
                write_json(self.directory / "heartbeat.json", beat, durable=False)
            self.trackers.beat(beat)
            self.watch(beat)
        wait = checkpoint.interval(self.saving, self.checkpoint_seconds)
        if now - self.last_checkpoint >= wait and self.update < self.total:
            self.save()

    def heartbeat(self) -> dict[str, Any]:
        """Where the run is."""
        return {
            "run_id": self.spec.run_id,
            "update": self.update,
            "total": self.total,
            "stage": self.method.stage,
            "target": self.curve[-1]["target"] if self.curve else None,
            "seconds": self.usage.seconds(),
            "time": time.time(),
            "pid": os.getpid(),
            "node": os.environ.get("SLURMD_NODENAME", ""),
            "restarts": self.lease.restarts,
        }

    def save(self) -> None:
        """The checkpoint: replaced atomically, only when everything in it is finite and the lease is ours."""
        began = time.monotonic()
        self.meter.check()
        state: dict[str, Any] = {
            "run_id": self.spec.run_id,
            "update": self.update,
            "method": self.method.state_dict(),
            "meter": self.meter.state_dict(),
            "usage": self.usage.state_dict(),
            "curve": canonical_json(self.curve),
            "times": self.times,
            "images": [self.task.images_forwarded, self.handed_out[0]],
            "warnings": self.warnings,
        }
        check_finite(state["method"], self.update)
        self.lease.check()
        with can_wait("the checkpoint", self.warnings):
            checkpoint.write(self.directory / "checkpoint.pt", state)
            self.saved = self.update
        self.last_checkpoint = time.monotonic()
        self.saving = self.last_checkpoint - began

    def restore(self) -> None:
        """Go on from the checkpoint, if there is one; the curve is cut back to it."""
        path = self.directory / "checkpoint.pt"
        if path.exists():
            checkpoint.restore(path, self.take)
        if self.curve or (self.directory / "curve.jsonl").exists():
            with can_wait("the curve", self.warnings):
                records.write_curve(self.directory, self.curve)

    def take(self, state: Mapping[str, Any]) -> None:
        """The state of a checkpoint, on the CPU; an error when it does not fit this run. What fits goes to the device."""
        if state["run_id"] != self.spec.run_id:
            raise ValueError("it belongs to another run")
        self.usage.load_state_dict(state["usage"])
        self.update = self.saved = int(state["update"])
        self.curve = json.loads(state["curve"])
        self.times = [float(s) for s in state["times"]]
        self.task.images_forwarded, self.handed_out[0] = map(int, state["images"])
        self.warnings = [str(w) for w in state["warnings"]]
        passed = [p for p in sorted(self.points) if p < self.update + (not self.pending())]
        if [row["update"] for row in self.curve] != passed or len(self.times) != len(passed):
            raise ValueError("its curve does not fit its update")
        fault("restore")
        method = {**state["method"], "extra": checkpoint.moved(state["method"]["extra"], self.device)}
        self.method.load_state_dict(method)  # copies into its own tensors; an optimiser knows what belongs where
        self.meter.load_state_dict(checkpoint.moved(state["meter"], self.device))

    # -- the ends -------------------------------------------------------------------------------------------------

    def finish(self) -> Record:
        """The whole curve, artifacts, then the record, then the checkpoint goes."""
        with self.stoppable():
            artifacts = self.evaluator.artifacts(self.method)
            self.lease.check()
            self.trackers.make_room()
            models = self.keeping.finish(self.method, self.curve, self.warnings)
        self.lease.check()
        records.write_curve(self.directory, self.curve)
        with replacing(self.directory / "artifacts.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **artifacts)  # type: ignore[arg-type]
        document = {**self.document(), **models}
        self.trackers.end("done")  # the clock has been read; what goes wrong now is still among the warnings
        record = records.write(self.directory, document)
        checkpoint.tidy(self.directory)
        return record

    def document(self) -> dict[str, Any]:
        """Everything a reader of the run should know."""
        last = self.curve[-1]
        images = self.total * self.settings.batch * (len(self.spec.sources) + 1)
        return {
            "run_id": self.spec.run_id,
            "spec": self.spec.to_json(),
            "resolved": json_safe(
                {"hparams": dataclasses.asdict(self.resolved.hparams), "settings": settings_json(self.settings)}
            ),
            "protocol": self.resolved.suite.protocol,
            "revision": method_revision(self.spec.method),
            "title": self.method.title or type(self.method).__name__,
            "tuned": self.spec.tuned,
            **summary(self.curve),
            "statistics": {kind: summary(self.curve, kind) for kind in last["statistics"]},
            "classes": self.classes,
            "losses": last["losses"],
            "pseudo": last["pseudo"],
            "diagnostics": last["diagnostics"],
            "weights": state_hash(self.method),
            "data": {
                "fingerprint": self.dataset.fingerprint,
                "note": self.dataset.note,
                "generated": self.dataset.generated,
                "target_forwarded": bool(self.method.forwards_target),
                "target_share": self.share,
            },
            "cost": {
                **self.usage.read(),
                "updates": self.total,
                "eval_points": len(self.points),
                "images_per_s": images / max(self.usage.seconds(), 1e-9),
                "passes": (self.task.images_forwarded + self.handed_out[0]) / images,
                "seconds_at": [round(s, 3) for s in self.times],
            },
            "provenance": provenance(str(self.device), self.spec.threads, self.settings.precision)
            | {"restarts": self.lease.restarts, "starts": self.usage.starts},
            "warnings": self.warnings,
            "remarks": [str(remark) for remark in self.method.remarks(last["diagnostics"])],
        }

    def fail(self, error: Exception) -> None:
        """Write down why, as far as the disk lets us."""
        write_failure(
            self.directory, reason_of(error), error, method=self.spec.name, stage=self.method.stage,
            update=getattr(error, "update", self.update), term=getattr(error, "term", ""),
            last_good_checkpoint=self.saved, commit=commit()[0],
        )  # fmt: skip
