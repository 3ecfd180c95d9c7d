"""Every run as `status` shows it: its state (`benchmark.records.state`), how far it is, where, and with which job.

Here SLURM's words are put into those of the table of states: `sent` is the queue that every verb hands to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmark import records
from benchmark.launch import queue as slurm
from benchmark.launch.submissions import Submission, latest, left_nodes, waiting
from benchmark.records import Sent, State, StateName, study
from benchmark.records.lease import number, whole_number
from benchmark.records.store import suite_folder
from benchmark.records.study import read_object

STOPPED = "3:0"  # a task that saved its runs and could not go back to the queue (worker.EXIT_CODES)
LOST = ("FAILED", "NODE_FAIL", "BOOT_FAIL")  # ends of a task that are nobody's wish


@dataclass(frozen=True)
class RunState:
    """One run as `status` shows it."""

    run_id: str
    state: str  # a StateName
    name: str = ""  # method:preset
    suite: str = ""
    tier: str = ""
    target: str = ""
    seed: int | None = None
    update: int = 0
    total: int = 0
    seconds: float = 0.0  # that its updates took
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

    @property
    def speed(self) -> float:
        """Updates a second of a run that is running; 0 when nobody knows."""
        return self.update / self.seconds if self.state == "running" and self.seconds else 0.0


def states(results: Path | str, run_ids: Iterable[str] | None = None) -> list[RunState]:
    """The state of the named runs in that order, or of every run below `results` (queued ones too)."""
    results = Path(results)
    submitted, pools = latest(results), waiting(results)
    queue = _words(results, submitted)
    taken = {run for run, word in queue.items() if word.says in ("waiting", "running")}
    queue |= {run: word for run, (_, word) in pools.items() if run not in taken}
    specs = {run: each.specs.get(run, {}) for run, (each, _) in submitted.items()}
    specs |= {run: spec for run, (spec, _) in pools.items()}
    on_disk = _on_disk(results, queue)
    wanted = [*on_disk, *(run for run in specs if run not in on_disk)] if run_ids is None else run_ids
    return [on_disk.get(run) or _not_begun(results, run, specs, queue) for run in wanted]


def time_left(found: Iterable[RunState]) -> float | None:
    """Seconds until nothing is queued or running, if as many runs go on at once as now; None when nobody can know.

    A run without a sign of its pace counts as the mean of those that have shown theirs.
    """
    known = list(found)
    running = [s for s in known if s.state == "running"]
    whole = [s.seconds / s.update * s.total for s in known if s.update and s.seconds]
    if not running or not whole:
        return None
    shown = [s.seconds_left for s in running if s.seconds_left is not None]
    silent = len(running) - len(shown) + sum(s.state == "queued" for s in known)
    return max((sum(shown) + silent * sum(whole) / len(whole)) / len(running), *shown, 0.0)


def sent(results: Path | str) -> dict[str, Sent]:
    """What SLURM says of each run that was sent from this results folder, as the table of states wants it."""
    return _words(Path(results), latest(Path(results)))


def _on_disk(results: Path, queue: Mapping[str, Sent]) -> dict[str, RunState]:
    """Every run that has begun; of several with one id the one that is done."""
    found: dict[str, RunState] = {}
    for place, state in records.surveyed(results, queue):
        run = place.rpartition(os.sep)[2]
        if run not in found or state.name is StateName.DONE:
            found[run] = _shown(run, state, f"{results}/{place}", state.spec, queue)
    return found


def _not_begun(results: Path, run: str, specs: Mapping[str, Mapping[str, Any]], queue: Mapping[str, Sent]) -> RunState:
    """A run that is not there: somebody will run it, or nobody knows it."""
    if run not in specs:
        return RunState(run, "absent")
    state = records.state(_place(results, run, specs[run]), queue)
    return _shown(run, state, "", specs[run], queue)


def _shown(run: str, state: State, path: str, spec: Mapping[str, Any], queue: Mapping[str, Sent]) -> RunState:
    seed, task = spec.get("seed"), queue.get(run)
    beat = read_object(f"{path}/heartbeat.json") if path else {}
    lease = read_object(f"{path}/lease.json") if path and state.name is not StateName.DONE else {}
    total, update = whole_number(beat.get("total")), whole_number(beat.get("update"))
    left = (
        number(beat.get("seconds")) / update * (total - update) if state.name is StateName.RUNNING and update else None
    )
    return RunState(
        run_id=run,
        state=state.name.value,
        name=_name(spec),
        suite=str(spec.get("suite", "")),
        tier=str(spec.get("tier", "")),
        target=str(spec.get("target", "")),
        seed=int(number(seed)) if isinstance(seed, int | float) else None,
        update=update,
        total=total,
        seconds=number(beat.get("seconds")),
        seconds_left=left,
        node=str(lease.get("node") or beat.get("node") or (task.node if task else "")),
        restarts=max(whole_number(lease.get("restarts")), whole_number(beat.get("restarts"))),
        job=task.job if task else "",
        reason=state.reason,
        path=path,
    )


def _name(spec: Mapping[str, Any]) -> str:
    method, preset = str(spec.get("method", "")), spec.get("preset")
    method = method.rpartition(":")[2] if ".py:" in method else method
    return f"{method}:{preset}" if preset else method


# -- SLURM's words ----------------------------------------------------------------------------------------------------


def _words(results: Path, submitted: Mapping[str, tuple[Submission, str]]) -> dict[str, Sent]:
    """{run_id: what SLURM says}; nobody is asked when nothing was sent."""
    if not submitted:
        return {}
    tasks = slurm.queue() if slurm.available() else None
    if tasks is None:
        silent = "the queue does not answer"
        return {run: Sent(job, "unknown", f"job {job}: {silent}", each.time) for run, (each, job) in submitted.items()}
    # asked only for tasks that left the queue and a run of theirs without a word
    gone = {run: job for run, (_, job) in submitted.items() if job not in tasks}
    ended = slurm.ended(
        {job for run, job in gone.items() if _wordless(_place(results, run, submitted[run][0].specs.get(run, {})))}
    )
    left = {folder: left_nodes(folder) for folder in {each.folder for each, _ in submitted.values()}}
    return {
        run: _in_queue(tasks[job], each, left[each.folder]) if job in tasks else _gone(job, ended.get(job), each)
        for run, (each, job) in submitted.items()
    }


def _in_queue(task: slurm.Task, submission: Submission, left: Mapping[str, str]) -> Sent:
    word = task.state.lower()
    waits = f"{word}, {task.reason}" if task.reason not in ("", "None") else word
    says: Literal["running", "waiting"] = "running" if task.state == "RUNNING" else "waiting"
    if says == "waiting":
        waits += "".join(f"; node {node} was left: {why}" for node, why in left.items())
    return Sent(task.job, says, f"job {task.job}: {waits}", submission.time, task.node)


def _gone(job: str, end: slurm.Ended | None, submission: Submission) -> Sent:
    """A task that is no longer queued: SLURM may know how it ended, which a run may have been too late to write down."""
    if end is None:
        return Sent(job, "ended", f"job {job} ended", submission.time)
    if end.killed:
        asked = submission.memory_mb.get(job)
        limit = f"; the task had asked for {asked} MB" if asked else ""
        words = f"killed, memory: SLURM says {end.state} {end.exit_code} for job {job}{limit}"
        return Sent(job, "killed", words, submission.time)
    if end.exit_code == STOPPED:
        words = f"job {job} was requeued as often as its profile allows (max_requeues)"
        return Sent(job, "ended", words, submission.time)
    if end.state in LOST:
        return Sent(job, "killed", f"killed: SLURM says {end.state} {end.exit_code} for job {job}", submission.time)
    return Sent(job, "ended", f"SLURM says {end.state} for job {job}", submission.time)


def _place(results: Path, run: str, spec: Mapping[str, Any]) -> Path:
    """Where a run that was sent will be, or is."""
    return results / suite_folder(str(spec.get("suite", ""))) / str(spec.get("tier", "")) / run


def _wordless(folder: Path) -> bool:
    return not any(study.exists(folder / name) for name in ("record.json", "failure.json"))
