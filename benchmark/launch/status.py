"""The state of each run, read from disk and, where SLURM is there, from its queue. Nothing is kept in memory.

| state | what is there |
|---|---|
| done | record.json |
| running | a claim whose owner lives (its process, or a fresh heartbeat from another host) |
| queued | a task of SLURM's queue that has the run |
| failed | failure.json, or a task that was killed before it could write one |
| interrupted | a beginning, and nobody at it |
| absent | nothing |
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark import study
from benchmark.claim import is_stale, number, same_machine, server_time, whole_number
from benchmark.files import read_object
from benchmark.launch import queue as slurm
from benchmark.launch.submissions import Submission, latest

STOPPED = "3:0"  # a task that saved its runs and could not go back to the queue (worker.EXIT_CODES)
STATES = ("done", "running", "queued", "failed", "interrupted", "absent")


@dataclass(frozen=True)
class RunState:
    """One run as `status` shows it."""

    run_id: str
    state: str
    name: str = ""  # method:preset
    suite: str = ""
    tier: str = ""
    target: str = ""
    seed: int | None = None
    update: int = 0
    total: int = 0
    seconds_left: float | None = None
    node: str = ""
    restarts: int = 0
    job: str = ""
    reason: str = ""
    path: str = ""

    @property
    def progress(self) -> float:
        """Share of the updates that are done."""
        return 1.0 if self.state == "done" else self.update / self.total if self.total else 0.0


def states(results: Path | str, run_ids: Iterable[str] | None = None) -> list[RunState]:
    """The state of the named runs in that order, or of every run below `results` (queued ones too)."""
    look = _Look(Path(results))
    return [look.state(run) for run in (look.known() if run_ids is None else run_ids)]


class _Look:
    """One look at a results folder: directories, submissions, the queue, the file server's clock, each read once."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.packed = {place.name: place.path for place in study.places(results)}
        on_disk = {entry.name: entry.path for entry in _run_directories(results)}  # no Path: there are many
        self.directories = {**self.packed, **on_disk}
        self.submitted = latest(results)
        asked = bool(self.submitted) and slurm.available()
        self.queue = slurm.queue() if asked else None
        self.now = server_time(results)
        self.ended = self._how_they_ended() if asked and self.queue is not None else {}

    def known(self) -> list[str]:
        """Every run that has a directory or was submitted."""
        return [*self.directories, *(run for run in self.submitted if run not in self.directories)]

    def _how_they_ended(self) -> dict[str, slurm.Ended]:
        """Asked only for tasks that left the queue and a run of theirs without a word."""
        gone = set()
        for run, (_, job) in self.submitted.items():
            folder = self.directories.get(run)
            silent = not (_holds(folder, "record.json") or _holds(folder, "failure.json"))
            if silent and self.queue is not None and job not in self.queue:
                gone.add(job)
        return slurm.ended(gone)

    def state(self, run: str) -> RunState:
        folder = self.directories.get(run)
        submission, job = self.submitted.get(run, (None, ""))
        spec = self._spec(run, folder, submission)
        beat = _document(folder, "heartbeat.json")
        done = run in self.packed or _holds(folder, "record.json")
        claim = {} if done else _document(folder, "claim.json")
        state, reason = ("done", "") if done else self._judge(folder, submission, job, claim, beat)
        task = (self.queue or {}).get(job)
        total, update = whole_number(beat.get("total")), whole_number(beat.get("update"))
        left = None
        if state == "running" and update:
            left = number(beat.get("seconds")) / update * (total - update)
        return RunState(
            run_id=run,
            state=state,
            name=_name(spec),
            suite=str(spec.get("suite", "")),
            tier=str(spec.get("tier", "")),
            target=str(spec.get("target", "")),
            seed=spec["seed"] if isinstance(spec.get("seed"), int) else None,
            update=update,
            total=total,
            seconds_left=left,
            node=str(claim.get("node") or beat.get("node") or (task.node if task else "")),
            restarts=max(whole_number(claim.get("restarts")), whole_number(beat.get("restarts"))),
            job=job,
            reason=reason,
            path=folder or "",
        )

    def _spec(self, run: str, folder: str | None, submission: Submission | None) -> dict[str, Any]:
        if run in self.packed:
            return study.read_json(Path(self.packed[run], "spec.json")) or {}
        return _document(folder, "spec.json") or (submission.specs.get(run, {}) if submission else {})

    def _judge(
        self,
        folder: str | None,
        submission: Submission | None,
        job: str,
        claim: dict[str, Any],
        beat: dict[str, Any],
    ) -> tuple[str, str]:
        """(state, reason) of a run that is not done, by the table at the top of this file."""
        task = (self.queue or {}).get(job)
        if folder is not None and claim and self._alive(claim, Path(folder, "claim.json"), task):
            return "running", ""
        failure = _document(folder, "failure.json")
        if task is not None and number(failure.get("time")) < (submission.time if submission else 0):
            waits = f"{task.state.lower()}, {task.reason}" if task.reason not in ("", "None") else task.state.lower()
            return "queued", f"job {job}: {waits}"
        if failure:
            return "failed", str(failure.get("reason") or "no reason was written down")
        if submission is not None and job in self.ended and (claim or beat):
            return self._without_a_word(submission, job, beat)
        if submission is not None and self.queue is None and not (claim or beat):
            return "queued", f"job {job}: the queue does not answer"
        if claim or beat or _holds(folder, "spec.json"):
            return "interrupted", f"job {job} ended" if submission and self.queue is not None else ""
        return "absent", f"job {job} ended before this run began" if submission and self.queue is not None else ""

    def _without_a_word(self, submission: Submission, job: str, beat: dict[str, Any]) -> tuple[str, str]:
        """A task that is gone and left neither record nor failure: SLURM knows how it ended."""
        end = self.ended[job]
        if end.killed:
            asked = submission.memory_mb.get(job)
            limit = f"; the task had asked for {asked} MB" if asked else ""
            return "failed", f"killed, memory: SLURM says {end.state} {end.exit_code} for job {job}{limit}"
        if end.exit_code == STOPPED:
            return "interrupted", f"job {job} was requeued as often as its profile allows (max_requeues)"
        if end.state in ("FAILED", "NODE_FAIL", "BOOT_FAIL"):
            return "failed", f"killed: SLURM says {end.state} {end.exit_code} for job {job}"
        return "interrupted", f"SLURM says {end.state} for job {job}"

    def _alive(self, claim: dict[str, Any], path: Path, task: slurm.Task | None) -> bool:
        """Whether the owner of a claim is at work. Another host's owner is known by the age of the file alone."""
        if not is_stale(claim, path, self.now):
            return True
        # a file server may be slow to show the owner's touch: the queue vouches for it
        vouched = task is not None and task.state == "RUNNING" and claim.get("job") == task.job
        return vouched and not same_machine(claim)


def _run_directories(results: Path) -> Iterator[os.DirEntry[str]]:
    """`<results>/<suite>/<tier>/<run_id>`, without the imports of `benchmark.records`: status must answer at once."""
    for suite in _folders(results):
        for tier in _folders(suite.path):
            yield from _folders(tier.path)


def _folders(path: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            found = [e for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(found, key=lambda e: e.name)


def _document(folder: str | None, name: str) -> dict[str, Any]:
    return read_object(f"{folder}/{name}") if folder is not None else {}


def _holds(folder: str | None, name: str) -> bool:
    return folder is not None and os.path.exists(f"{folder}/{name}")


def _name(spec: dict[str, Any]) -> str:
    method, preset = str(spec.get("method", "")), spec.get("preset")
    method = method.rpartition(":")[2] if ".py:" in method else method
    return f"{method}:{preset}" if preset else method
