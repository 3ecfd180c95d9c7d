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
from benchmark.data.batches import Stream, hold_out
from benchmark.errors import Interrupted, RunFailed
from benchmark.faults import fault
from benchmark.files import replacing, write_json
from benchmark.records import Record
from benchmark.records.lease import Lease, LeaseLost
from benchmark.records.selection import accuracies, scores, selected
from benchmark.run import checkpoint
from benchmark.run.failure import noting_warnings, reason_of, write_failure
from benchmark.run.meter import Meter, NotFinite, check_finite
from benchmark.run.provenance import commit, provenance
from benchmark.run.score.evaluate import Evaluator, json_safe
from benchmark.run.score.share import target_share
from benchmark.run.stages import Stage, divide
from benchmark.run.task import make_task
from benchmark.run.usage import Usage, state_hash
from benchmark.spec import Resolved, canonical_json, settings_json
from benchmark.spec.seeds import seed_of
from methods.contract import LabeledBatch, Method, Views, method_revision

HEARTBEAT_SECONDS = 2.0
PASSING = ("checkpoint.pt", "failure.json")  # of a run that is not done


def tidy(directory: Path) -> None:
    """Remove what a finished run no longer needs."""
    for name in PASSING:
        (directory / name).unlink(missing_ok=True)


class Run:
    """The state of one run between its first update and its record."""

    should_stop: Callable[[], bool]
    watch: Callable[[dict[str, Any]], None]
    checkpoint_seconds: float

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
        self.evaluator = Evaluator(dataset, self.spec, self.settings, self.device, len(self.classes))
        self.meter, self.usage = Meter(), Usage()
        self.update = 0
        self.saved: int | None = None  # the update of the last good checkpoint
        self.curve: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.handed_out = [0]
        self.warnings: list[str] = []
        # of the methods of this repository: what a user's own `update` does beside training (waits, writes) is not ours to do
        self.share = None if ".py:" in self.spec.method else target_share(resolved)
        self.last_checkpoint = self.last_beat = time.monotonic()

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
        try:
            with noting_warnings(self.warnings):
                self.method.train()
                for stage in self.stages:
                    self.train(stage)
                return self.finish()
        except (Interrupted, KeyboardInterrupt, LeaseLost):  # a copy that lost its lease writes nothing more
            raise
        except Exception as error:
            cause = self.cause(error)
            self.fail(cause)
            raise RunFailed(reason_of(cause)) from cause

    def cause(self, error: Exception) -> Exception:
        """An error in an update that comes after something was not finite is only the symptom."""
        try:
            self.meter.check()
        except NotFinite as first:
            first.__cause__ = error
            return first
        return error

    def train(self, stage: Stage) -> None:
        """The updates of one stage, evaluated at fixed progress."""
        while self.update < stage.stop:
            if self.should_stop():
                self.save()
                raise Interrupted
            if self.update == stage.start:
                fault(f"stage:{stage.name}")
                torch.manual_seed(seed_of("stage", self.spec.seed, stage.name))
                passes = [s.full_pass(self.handed_out) for s in self.sources]
                self.method.enter(stage.name, Views(passes, self.target.full_pass(self.handed_out)))
            fault("update")
            self.step((self.update - stage.start) / (stage.stop - stage.start))
            self.update += 1
            if self.update in self.points:
                self.evaluate()
            self.beat()

    def step(self, progress: float) -> None:
        """One update on batch t of every domain. Dropout is seeded by (seed, t); nothing here waits for the device."""
        t = self.update
        sources = [s.labeled(t) for s in self.sources]
        if self.spec.standard == "combined" and len(sources) > 1:
            images, labels = torch.cat([s.images for s in sources]), torch.cat([s.labels for s in sources])
            sources = [LabeledBatch(images, labels)]
        target = self.target.unlabeled(t)
        torch.manual_seed(seed_of("update", self.spec.seed, t))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.amp):
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
        self.curve.append(json_safe(row))
        self.times.append(self.usage.seconds())
        self.lease.check()
        with self.write_that_can_wait("the curve"):
            records.write_curve(self.directory, self.curve)

    # -- signs of life, checkpoints -------------------------------------------------------------------------------

    def beat(self) -> None:
        """Now and then: a heartbeat for people, a checkpoint for the next start."""
        now = time.monotonic()
        if now - self.last_beat >= HEARTBEAT_SECONDS or self.update == self.total:
            self.last_beat = now
            self.lease.refresh()
            beat = self.heartbeat()
            with self.write_that_can_wait("the heartbeat"):
                write_json(self.directory / "heartbeat.json", beat, durable=False)
            self.watch(beat)
        if now - self.last_checkpoint >= self.checkpoint_seconds and self.update < self.total:
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

    @contextlib.contextmanager
    def write_that_can_wait(self, what: str) -> Iterator[None]:
        """Within: a disk that is full or gone for a while costs nothing; the last good checkpoint stays, training goes on.

        Only the writes at the end must succeed. The record says what could not be written.
        """
        try:
            yield
        except OSError as error:
            warning = f"{what} could not be written for a while ({error.strerror or error})"
            if warning not in self.warnings:
                self.warnings.append(warning)

    def save(self) -> None:
        """The checkpoint: replaced atomically, only when everything in it is finite and the lease is ours."""
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
        with self.write_that_can_wait("the checkpoint"):
            checkpoint.write(self.directory / "checkpoint.pt", state)
            self.saved = self.update
        self.last_checkpoint = time.monotonic()

    def restore(self) -> None:
        """Go on from the checkpoint, if there is one; the curve is cut back to it."""
        path = self.directory / "checkpoint.pt"
        if path.exists():
            checkpoint.restore(path, self.device, self.take)
        if self.curve or (self.directory / "curve.jsonl").exists():
            with self.write_that_can_wait("the curve"):
                records.write_curve(self.directory, self.curve)

    def take(self, state: Mapping[str, Any]) -> None:
        """The state of a checkpoint; an error when it does not fit this run."""
        if state["run_id"] != self.spec.run_id:
            raise ValueError("it belongs to another run")
        self.method.load_state_dict(state["method"])
        self.meter.load_state_dict(state["meter"])
        self.usage.load_state_dict(state["usage"])
        self.update = self.saved = int(state["update"])
        self.curve = json.loads(state["curve"])
        self.times = [float(s) for s in state["times"]]
        self.task.images_forwarded, self.handed_out[0] = map(int, state["images"])
        self.warnings = [str(w) for w in state["warnings"]]
        passed = sorted(p for p in self.points if p <= self.update)
        if [row["update"] for row in self.curve] != passed or len(self.times) != len(passed):
            raise ValueError("its curve does not fit its update")

    # -- the ends -------------------------------------------------------------------------------------------------

    def finish(self) -> Record:
        """The whole curve, artifacts, then the record, then the checkpoint goes."""
        artifacts = self.evaluator.artifacts(self.method)
        self.lease.check()
        records.write_curve(self.directory, self.curve)
        with replacing(self.directory / "artifacts.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **artifacts)  # type: ignore[arg-type]
        record = records.write(self.directory, self.document())
        tidy(self.directory)
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
            **self.scored("running"),
            "statistics": {kind: self.scored(kind) for kind in last["statistics"]},
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
            "provenance": {**provenance(str(self.device), self.spec.threads), "restarts": self.lease.restarts},
            "warnings": self.warnings,
            "remarks": [str(remark) for remark in self.method.remarks(last["diagnostics"])],
        }

    def scored(self, statistics: str) -> dict[str, Any]:
        """What the curve says with these statistics at test."""
        last = scores(self.curve[-1], statistics)
        return {
            "accuracy": accuracies(self.curve, statistics),
            "selected": selected(self.curve, statistics),
            "per_class": last["per_class"],
            "probes": last["probes"],
        }

    def fail(self, error: Exception) -> None:
        """Write down why, as far as the disk lets us."""
        write_failure(
            self.directory,
            reason_of(error),
            error,
            method=self.spec.name,
            update=getattr(error, "update", self.update),
            stage=self.method.stage,
            term=getattr(error, "term", ""),
            last_good_checkpoint=self.saved,
            commit=commit()[0],
        )
