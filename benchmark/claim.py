"""One writer for each run: a claim file with owner, host, restart count and heartbeat.

The claim is created with O_EXCL (works on NFS), refreshed by the heartbeat, and taken over when its owner is dead or
silent, or when the same scheduler job comes again with a higher restart count. A copy that lost its claim sees it at
its next write and stops: the newer claim wins.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from pathlib import Path
from typing import Any

from benchmark.files import read_json, write_json

STALE_SECONDS = 120.0  # a heartbeat older than this belongs to a dead owner


class RunHeld(Exception):
    """Another live process has this run."""


class ClaimLost(Exception):
    """A newer claim has taken this run over; this copy stops and writes nothing more."""


class Claim:
    """The right to write into a run directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "claim.json"
        self.token = uuid.uuid4().hex
        self.restarts = restart_count()

    def acquire(self) -> None:
        """Take the claim, or raise RunHeld with who has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            self._take_over()
            return
        with os.fdopen(handle, "w") as file:
            json.dump(self._owner(), file)
            file.flush()
            os.fsync(file.fileno())

    def _take_over(self) -> None:
        held = read_json(self.path)
        if held is not None and not is_stale(held, self.path) and not _newer_restart(held):
            raise RunHeld(f"process {held.get('pid')} on {held.get('host')} is at it")
        self.restarts = max(self.restarts, int((held or {}).get("restarts", 0)) + 1)
        write_json(self.path, self._owner())
        # Two takers may have written one after the other: who still stands in the file after a moment has it.
        time.sleep(0.05)
        self.check()

    def _owner(self) -> dict[str, Any]:
        return {
            "token": self.token,
            "pid": os.getpid(),
            "started": process_start(os.getpid()),
            "host": socket.gethostname(),
            "node": os.environ.get("SLURMD_NODENAME", ""),
            "job": scheduler_job(),
            "restart_count": restart_count(),
            "restarts": self.restarts,
            "time": time.time(),
        }

    def check(self) -> None:
        """Raise ClaimLost when the claim is no longer ours."""
        held = read_json(self.path)
        if held is None or held.get("token") != self.token:
            raise ClaimLost(f"the run in {self.path.parent} was taken over by another process")

    def refresh(self) -> None:
        """Show that the owner lives; called with the heartbeat."""
        self.check()
        os.utime(self.path)

    def release(self) -> None:
        """Give the claim back, if it is still ours."""
        held = read_json(self.path)
        if held is not None and held.get("token") == self.token:
            self.path.unlink(missing_ok=True)


def is_stale(held: dict[str, Any], path: Path) -> bool:
    """The owner is dead (same host: its process is gone) or has been silent for too long."""
    if held.get("host") == socket.gethostname() and isinstance(held.get("pid"), int):
        started = process_start(held["pid"])
        return started == "" or (bool(held.get("started")) and started != held["started"])
    try:
        # The clocks of two hosts may differ: the file server's own time tells the age.
        now_probe = path.with_name(".clock")
        now_probe.touch()
        age = now_probe.stat().st_mtime - path.stat().st_mtime
        now_probe.unlink(missing_ok=True)
    except OSError:
        return False
    return age > STALE_SECONDS


def _newer_restart(held: dict[str, Any]) -> bool:
    same_job = bool(scheduler_job()) and held.get("job") == scheduler_job()
    return same_job and restart_count() > int(held.get("restart_count", 0))


def restart_count() -> int:
    """How often the scheduler has started this job again."""
    return int(os.environ.get("SLURM_RESTART_COUNT", "0") or 0)


def scheduler_job() -> str:
    """`job` or `array_task` id under SLURM, else empty."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")


def process_start(pid: int) -> str:
    """Start time of a live process in clock ticks (with the pid it names a process for good); empty when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        if Path("/proc/self").exists():
            return ""
        try:  # no /proc on this system
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass
        return "alive"
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
