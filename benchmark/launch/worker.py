"""What runs on a node: the runs of one task, one after the other, each in a process of its own.

A run that crashes, even one that the kernel kills for its memory, costs itself alone. Told to go (USR2: time limit,
preemption, a person), the run at work saves at its next step and the task puts itself back into the queue; nothing of
it lives in memory only, so the next start needs nothing but the disk.

This module imports nothing heavy: a signal that comes while torch is being imported must find its handler.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import benchmark
from benchmark import records, run
from benchmark.errors import Interrupted, RunFailed
from benchmark.files import read_object, write_json
from benchmark.launch import queue
from benchmark.records import StateName
from benchmark.records.lease import LeaseLost, RunHeld, restart_count, scheduler_job, whole_number
from benchmark.run.failure import reason_of, write_failure
from benchmark.spec import RunSpec

DONE, INTERRUPTED, HELD, FAILED, LOST = "done", "interrupted", "held", "failed", "lost"
EXIT_CODES = {0: DONE, 3: INTERRUPTED, 4: HELD, 5: FAILED, 6: LOST}
FULL = 0.97  # share of the task's memory at which the run is ended by us, before SLURM ends the whole task
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

    def __call__(self) -> dict[str, str]:
        """{run_id: done, held or failed}. Stopped by a signal, it requeues itself and does not return."""
        stop = Stop()
        signal.signal(_signal(), stop.handler)
        _clear_leftovers()
        if not self.allow_changed_code and self._refuse_changed_code():
            return dict.fromkeys((entry.run_id for entry in self.runs), FAILED)
        _ = run.execute  # brings torch: once, for all the processes below

        limit = _memory_limit_mb()
        outcome: dict[str, str] = {}
        for _ in range(1 + self.retries):
            for entry in self.runs:
                if stop() or outcome.get(entry.run_id) == HELD or not self._wants(entry):
                    continue
                outcome[entry.run_id] = self._run(entry, stop, limit)
                if outcome[entry.run_id] == LOST:  # SLURM started this task a second time: all its runs are the other's
                    _say(f"=== task {scheduler_job()} is at work elsewhere too, with the newer lease; this copy ends")
                    _leave(LOST)
        if stop():
            self._back_to_the_queue()
        return outcome

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

    def _run(self, entry: Entry, stop: Stop, limit: int) -> str:
        """One run in a child process, watched from here."""
        started = time.monotonic()
        _say(f"{MARK} {entry.run_id} starts at {_clock()} on {_node()}, restart {restart_count()}")
        before = _attempts(Path(self.results) / entry.directory)
        listen, hold = os.pipe()  # the child holds the other end: reading ends when the child does
        child = os.fork()
        if child == 0:
            os.close(listen)
            _leave(self._child(entry, stop))
        os.close(hold)
        killed_for, told = "", False
        while not select.select([listen], [], [], 0.25)[0]:
            if stop() and not told:
                told = True
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, _signal())
            used = _memory_mb(child) + _memory_mb(os.getpid())
            if limit and used > FULL * limit and not killed_for:
                killed_for = f"out of memory: {used:.0f} MB of the {limit} MB that the task asked for"
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        os.close(listen)
        outcome = self._end(entry, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), killed_for, before)
        _say(f"{MARK} {entry.run_id} {outcome} at {_clock()} after {time.monotonic() - started:.2f} s")
        return outcome

    def _end(self, entry: Entry, code: int, killed_for: str, attempts_before: int) -> str:
        """What became of the run; one that could not write down its own failure gets it written here."""
        outcome = EXIT_CODES.get(code, FAILED)
        if outcome == FAILED and _attempts(Path(self.results) / entry.directory) == attempts_before:
            if code < 0:
                name = signal.Signals(-code).name
                hint = ", memory most likely" if -code == signal.SIGKILL else ""
                self._fail(entry, killed_for or f"killed by {name} on node {_node()}{hint}")
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
            run.execute(
                spec, results=self.results, data_root=self.data_root, device=_device(self.gpu), should_stop=stop
            )
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


def _device(gpu: bool) -> str:
    """A task that asked for a GPU and finds none is on a bad node, and must not crawl on for days on the CPU."""
    if not gpu:
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        raise RunFailed(f"node {_node()} gave a GPU (CUDA_VISIBLE_DEVICES={visible}) that torch cannot use")
    return "cuda"


def _attempts(folder: Path) -> int:
    return whole_number(read_object(folder / "failure.json").get("attempts"))


def _memory_mb(pid: int) -> float:
    """Resident memory of a process, as SLURM counts it."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, IndexError, ValueError):
        return 0.0


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
