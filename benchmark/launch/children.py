"""The processes of a task, one a run: forked, listened to, told to go, and ended when together they take too much memory."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FULL = 0.95  # share of the task's memory at which a run is ended by us, before SLURM ends the whole task
LOOK_SECONDS = 0.25  # between two looks at the children


@dataclass
class Child:
    """A process at work on one run."""

    run_id: str
    pid: int
    pipe: int  # the child holds the other end: reading ends when the child does
    started: float = field(default_factory=time.monotonic)
    told: bool = False
    killed_for: str = ""  # why we ended it

    def tell(self, number: signal.Signals) -> None:
        """Hand a signal on, once."""
        if not self.told:
            self.told = True
            _kill(self.pid, number)

    def reap(self) -> int:
        """Exit code of the process that has ended; minus the signal that killed it."""
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def start(run_id: str, work: Callable[[], None], log: Path | None = None) -> Child:
    """Fork a process that does `work`, which does not return; with `log`, what it prints is added to that file."""
    listen, hold = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(listen)
        if log is not None:
            with contextlib.suppress(
                OSError
            ):  # a disk that takes no log still takes the run's failure, or says its own
                sys.stdout = sys.stderr = file = log.open("a", buffering=1, encoding="utf-8")
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
        work()
    os.close(hold)
    return Child(run_id, pid, listen)


def ended(children: Sequence[Child]) -> list[Child]:
    """Those that have ended, after a moment's wait for the first."""
    ready = select.select([child.pipe for child in children], [], [], LOOK_SECONDS)[0]
    return [child for child in children if child.pipe in ready]


def spare_the_task(children: Sequence[Child], limit_mb: int) -> None:
    """End the largest child when all of them and this process come near the task's memory; one at a time."""
    if not limit_mb or any(child.killed_for for child in children):
        return
    here = _status(os.getpid())  # this process maps libraries and nothing else
    used = {child.pid: memory_mb(child.pid, here["RssFile"]) for child in children}
    total = sum(used.values()) + sum(here.values()) / 1024
    if total > FULL * limit_mb and children:
        largest = max(children, key=lambda child: used[child.pid])
        beside = f", {used[largest.pid]:.0f} MB of them by this run," if len(children) > 1 else ""
        largest.killed_for = f"out of memory: {total:.0f} MB{beside} of the {limit_mb} MB that the task asked for"
        _kill(largest.pid, signal.SIGKILL)


def memory_mb(pid: int, libraries: int) -> float:
    """Memory that nobody can take from a process: its own, and up to `libraries` kB of mapped files.

    The pages of a mapped file are the system's to drop, all 115 GB of DomainNet's. SLURM counts them in every process; of
    them no more counts here than the libraries have that its parent has touched (torch's: 540 MB with CUDA's).
    """
    found = _status(pid)
    return (found["RssAnon"] + min(found["RssFile"], libraries)) / 1024


def _status(pid: int) -> dict[str, int]:
    """Resident memory of a process in kB, its own and that of mapped files; 0 when it is gone."""
    found = {"RssAnon": 0, "RssFile": 0}
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key in found:
                found[key] = int(value.split()[0])
    return found


def _kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
