"""What runs on a node: the runs of one task, `share` of them at once, each in a process of its own.

A run that crashes, even one that the kernel kills for its memory, costs itself alone. Told to go (USR2: time limit,
preemption, a person), the runs at work save at their next step and the task puts itself back into the queue; nothing of
it lives in memory only, so the next start needs nothing but the disk. A node whose GPU cannot do the work is left before
anything has begun there.

This module imports nothing heavy: a signal that comes while torch is being imported must find its handler.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import signal
import sys
import time
import traceback
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import benchmark
from benchmark import records, run
from benchmark.errors import Interrupted, RunFailed
from benchmark.files import read_object, write_json
from benchmark.launch import children, device, queue
from benchmark.launch.children import Child
from benchmark.launch.submissions import leave_node, left_nodes
from benchmark.records import StateName
from benchmark.records.lease import LeaseLost, RunHeld, restart_count, scheduler_job, whole_number
from benchmark.records.track import MARK as MARK_OF_TRACKERS
from benchmark.run.failure import blames_device, reason_of, write_failure
from benchmark.spec import RunSpec

DONE, INTERRUPTED, HELD, FAILED, LOST = "done", "interrupted", "held", "failed", "lost"
EXIT_CODES = {0: DONE, 3: INTERRUPTED, 4: HELD, 5: FAILED, 6: LOST}
CRASHED = "killed by SIG(SEGV|ABRT|BUS|FPE|ILL)"
FAILED_PATIENCE = 20.0  # seconds: while a GPU is asked after a failure, nobody watches over the other runs
MARK = "=== run"  # begins the lines that divide a task's log into its runs


@dataclass(frozen=True)
class Entry:
    """One run of a task. `attempts` had failed before the submission."""

    run_id: str
    directory: str  # <suite>/<tier>/<run_id>
    spec: dict[str, Any]
    attempts: int = 0


class Stop:
    """Set by a signal, read at step boundaries. A handler does nothing else: it may come in mid-step."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        return self.asked

    def handler(self, number: int, frame: Any) -> None:
        self.asked = True


@dataclass(frozen=True)
class Pack:
    """The runs of one task: what submitit pickles and calls on the node."""

    results: str
    data_root: str | None
    runs: list[Entry]
    code: str  # fingerprint of the code at submission
    allow_changed_code: bool = False
    retries: int = 1
    max_requeues: int = 20
    gpu: bool = False
    gpu_memory_mb: int = 0  # what must be free on it
    capability: tuple[int, int] = (0, 0)  # what it must at least be able to compute
    share: int = 1  # runs at once
    keep_model: str = "none"
    track: tuple[str, ...] = ()  # trackers of each run

    def __call__(self) -> dict[str, str]:
        """{run_id: done, held or failed}. Stopped by a signal, it requeues itself and does not return."""
        stop = Stop()
        signal.signal(_signal(), stop.handler)
        _clear_leftovers()
        if not self.allow_changed_code and self._refuse_changed_code():
            return dict.fromkeys((entry.run_id for entry in self.runs), FAILED)
        _ = run.execute  # brings torch: once, for all the processes below

        outcome: dict[str, str] = {}
        fault = self._complaint(self.gpu_memory_mb) if any(map(self._wants, self.runs)) else ""
        for _ in range(1 + self.retries):
            fault = fault or self._round(outcome, stop)
        if LOST in outcome.values():  # SLURM started this task a second time: all its runs are the other's
            _say(f"=== task {scheduler_job()} is at work elsewhere too, with the newer lease; this copy ends")
            _leave(LOST)
        if fault:
            return {**outcome, **self._leave_node(fault)}
        if stop():
            self._back_to_the_queue()
        return outcome

    def _complaint(self, need_mb: int = 0, patience: float = device.PATIENCE) -> str:
        """Why the node's GPU cannot do the work; "" for a task without one."""
        return device.complaint(device.survey(patience), need_mb, self.capability) if self.gpu else ""

    def _blames_device(self, entry: Entry) -> bool:
        """Whether a failed run speaks of its GPU, or crashed without a word. Its memory may be full of the runs beside
        it: that is no fault of the node."""
        found = read_object(Path(self.results) / entry.directory / "failure.json")
        reason = str(found.get("reason", ""))
        if "out of memory" in reason.lower():
            return False
        return blames_device(f"{reason} {found.get('traceback', '')}") or re.match(CRASHED, reason) is not None

    def _round(self, outcome: dict[str, str], stop: Stop) -> str:
        """Every run that wants it once, `share` at a time, each in a child that is watched from here.

        Says why the node must be left, when a run failed because its GPU does not work any more.
        """
        fault = ""
        waiting = deque(entry for entry in self.runs if outcome.get(entry.run_id) != HELD)
        entries = {entry.run_id: entry for entry in self.runs}
        limit, before, at_work = _memory_limit_mb(), dict[str, int](), list[Child]()
        while at_work or (waiting and not stop()):
            while waiting and not stop() and len(at_work) < self.share:
                entry = waiting.popleft()
                if self._wants(entry):
                    before[entry.run_id] = _attempts(Path(self.results) / entry.directory)
                    at_work.append(self._start(entry, stop))
            for child in children.ended(at_work) if at_work else []:
                at_work.remove(child)
                entry = entries[child.run_id]
                outcome[entry.run_id] = end = self._end(entry, child, before[entry.run_id])
                _say(f"{MARK} {entry.run_id} {end} at {_clock()} after {time.monotonic() - child.started:.2f} s")
                if end == FAILED and self._blames_device(entry):
                    fault = fault or self._complaint(patience=FAILED_PATIENCE)
                stop.asked = stop.asked or end == LOST or bool(fault)
            for child in at_work if stop() else []:
                child.tell(_signal())
            children.spare_the_task(at_work, limit)
        return fault

    def _start(self, entry: Entry, stop: Stop) -> Child:
        """One run in a child process; of several at once each has a log of its own."""
        _say(f"{MARK} {entry.run_id} starts at {_clock()} on {_node()}, restart {restart_count()}")
        log = log_file(_folder(), scheduler_job(), entry.run_id) if self.share > 1 else None
        return children.start(entry.run_id, lambda: _leave(self._child(entry, stop)), log)

    def _refuse_changed_code(self) -> bool:
        """A sweep is one experiment: code that changed after the submission fails its runs, with the reason."""
        now = code_fingerprint()
        if now != self.code:
            for entry in filter(self._wants, self.runs):
                self._fail(entry, f"the code changed after the submission ({self.code} → {now})")
        return now != self.code

    def _wants(self, entry: Entry) -> bool:
        """Not done, and not failed as often as it may."""
        folder = Path(self.results) / entry.directory
        done = records.state(folder).name is StateName.DONE
        return not done and _attempts(folder) - entry.attempts <= self.retries

    def _end(self, entry: Entry, child: Child, attempts_before: int) -> str:
        """What became of the run; one that could not write down its own failure gets it written here."""
        code = child.reap()
        outcome = EXIT_CODES.get(code, FAILED)
        if outcome == FAILED and _attempts(Path(self.results) / entry.directory) == attempts_before:
            if code < 0:
                name = signal.Signals(-code).name
                hint = ", memory most likely" if -code == signal.SIGKILL else ""
                self._fail(entry, child.killed_for or f"killed by {name} on node {_node()}{hint}")
            else:
                self._fail(entry, f"the process ended with exit code {code} on node {_node()}; see its log")
        return outcome

    def _child(self, entry: Entry, stop: Stop) -> str:
        before = _attempts(Path(self.results) / entry.directory)
        try:
            spec = RunSpec.from_json(entry.spec)
            if spec.run_id != entry.run_id and not self.allow_changed_code:
                raise RunFailed("a file this run is made of (method, suite) changed after the submission")
            started = time.monotonic()
            where = device.torch_device("cuda" if self.gpu else "cpu")
            record = run.execute(
                spec, results=self.results, data_root=self.data_root, device=where, should_stop=stop,
                keep_model=self.keep_model, track=self.track,
            )  # fmt: skip
            for warning in (words for words in record["warnings"] if words.startswith(MARK_OF_TRACKERS)):
                _say(warning)
            _say(f"{MARK} {entry.run_id} took {time.monotonic() - started:.2f} s by itself")
            return DONE
        except Interrupted:
            return INTERRUPTED
        except RunHeld as error:
            _say(str(error))
            return HELD
        except LeaseLost:
            return LOST
        except BaseException as error:  # nothing may climb out of this process into the parent's code above the fork
            traceback.print_exc()
            if _attempts(Path(self.results) / entry.directory) == before:  # failed before the run could write it down
                self._fail(entry, reason_of(error), error)
            return FAILED

    def _fail(self, entry: Entry, reason: str, error: BaseException | None = None) -> None:
        folder = Path(self.results) / entry.directory
        if not (folder / "spec.json").exists():
            write_json(folder / "spec.json", entry.spec)
        write_failure(folder, reason, error, node=_node())
        _say(f"{MARK} {entry.run_id} failed: {reason}")

    def _leave_node(self, fault: str) -> dict[str, str]:
        """Back to the queue, without this node; the runs fail only when SLURM does not take the task back."""
        job, node = scheduler_job(), _node()
        if restart_count() < self.max_requeues:
            leave_node(_folder(), job, node, fault)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # SLURM's good-bye comes before the node is excluded
            if queue.requeue(job):
                excluded = queue.exclude(job, left_nodes(_folder()))
                _say(f"=== node {node}: {fault}; task {job} goes back to the queue{' without it' if excluded else ''}")
                _leave(INTERRUPTED)
        wanting = [entry for entry in self.runs if self._wants(entry)]
        for entry in wanting:
            self._fail(entry, f"node {node}: {fault}")
        return dict.fromkeys((entry.run_id for entry in wanting), FAILED)

    def _back_to_the_queue(self) -> None:
        """Requeue this task and end without a result: submitit takes a task that returns for finished."""
        job = scheduler_job()
        if restart_count() >= self.max_requeues:
            _say(f"=== task {job} was requeued {restart_count()} times, as often as the profile allows, and ends here")
        elif queue.requeue(job):
            _say(f"=== task {job} goes back to the queue")
        else:
            _say(f"=== SLURM did not take task {job} back; the runs go on when they are sent again")
        _leave(INTERRUPTED)


def log_file(folder: Path, job: str, run_id: str) -> Path:
    """What a run prints that shares its task's time with others."""
    return folder / f"{job}_0_{run_id}.out"


def code_fingerprint() -> str:
    """Short hash over every source and suite file of this project: what would run now."""
    root = Path(benchmark.__file__).parent.parent
    digest = hashlib.sha256()
    for package in ("benchmark", "methods", "tsvdnet"):
        for file in sorted((root / package).rglob("*")):
            if file.suffix in (".py", ".toml") and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _signal() -> signal.Signals:
    """The signal that submitit asks SLURM to send."""
    from submitit.core.job_environment import JobEnvironment

    return signal.Signals[f"SIG{JobEnvironment.USR_SIG}"]


def _clear_leftovers() -> None:
    """A writer that was killed leaves a temporary file over which submitit's next save would stumble."""
    from submitit import JobEnvironment

    result = JobEnvironment().paths.result_pickle
    result.with_name(result.name + ".save_tmp").unlink(missing_ok=True)


def _folder() -> Path:
    """The submission's folder."""
    from submitit import JobEnvironment

    return JobEnvironment().paths.folder


def _attempts(folder: Path) -> int:
    return whole_number(read_object(folder / "failure.json").get("attempts"))


def _memory_limit_mb() -> int:
    """What the task asked for, if SLURM would end the whole of it for one run too large; 0: no need to watch."""
    return whole_number(os.environ.get("SLURM_MEM_PER_NODE")) if queue.kills_whole_tasks_over_memory() else 0


def _node() -> str:
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def _clock() -> str:
    return datetime.datetime.now().isoformat(timespec="milliseconds")


def _say(words: str) -> None:
    print(words, flush=True)


def _leave(outcome: str) -> None:
    """End this process at once, with the outcome as exit code and without anybody's cleaning up."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(next(code for code, name in EXIT_CODES.items() if name == outcome))
