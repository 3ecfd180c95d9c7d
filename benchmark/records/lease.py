"""One writer for each run: a lease file with owner, host, restart count and heartbeat.

The lease appears whole under its name by a hard link, which exactly one of many processes can make (on NFS too; no
reliance on flock). A thread keeps its time fresh, also through a long evaluation. It is taken over when its owner is
dead or silent, or when the same scheduler job comes again with a higher restart count. Of two that take over at once
the later one has it; a copy that lost its lease sees it before its next write and stops. Even a write that slips
between look and write does no harm: all copies of a run write the same bits.

filelock's SoftFileLease is near, and not enough. It keeps a lease as long as its owner refreshes it, so a job that the
scheduler started again would never take its runs from the copy that lives on where the node was given up. A contender
must watch a silent lease for its whole duration by itself, where ours goes by the file server's clock. And its marker
has no place for job, node and restart count, which `status`, records and the takeover need.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
import time
import uuid
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmark.errors import LeaseLost as LeaseLost
from benchmark.errors import RunHeld as RunHeld
from benchmark.faults import fault
from benchmark.files import read_object, sync, write_json

STALE_SECONDS = 120.0  # a heartbeat older than this belongs to a dead owner; NFS may show a time up to 60 s old
PULSE_SECONDS = 5.0  # how often a living owner shows itself
_NO_LINKS = (
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
)  # what file systems without answer
_SETTLE_SECONDS = 0.05  # two that take over at once have both written by then


class Lease:
    """The right to write into a run directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lease.json"
        self.token = uuid.uuid4().hex
        self.restarts = restart_count()
        self._ended = threading.Event()

    def acquire(self) -> None:
        """Take the lease, or raise RunHeld with who has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self._create():
            self._take_over()
        threading.Thread(target=self._pulse, name="lease", daemon=True).start()

    def _create(self) -> bool:
        """Put our lease where there is none; False when there is one."""
        whole = self.path.with_name(f".lease.json.{self.token}.tmp")
        try:
            whole.write_text(json.dumps(self._owner()), encoding="utf-8")
            sync(whole, "lease.json")
            fault("lease")
            os.link(whole, self.path)
        except FileExistsError:
            # the answer of a file server can be lost, and its client asks again: two names mean that ours is there
            return whole.stat().st_nlink == 2
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return self._create_exclusive()
        finally:
            whole.unlink(missing_ok=True)
        return True

    def _create_exclusive(self) -> bool:
        try:
            handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        with os.fdopen(handle, "w") as file:
            json.dump(self._owner(), file)
            file.flush()
            os.fsync(file.fileno())
        return True

    def _take_over(self) -> None:
        held = read_object(self.path)  # {}: torn, and therefore nobody's
        if held and not _newer_restart(held) and (not is_stale(held, self.path) or self._shows_life(held)):
            raise RunHeld(f"process {held.get('pid')} on {held.get('host')} is at it")
        self.restarts = max(self.restarts, whole_number(held.get("restarts")) + 1)
        write_json(self.path, self._owner())
        time.sleep(_SETTLE_SECONDS)
        self.check()

    def _shows_life(self, held: dict[str, Any]) -> bool:
        """A clock that jumped makes a living lease look old: an owner on another host gets a moment to show itself."""
        if same_machine(held):
            return False
        with contextlib.suppress(OSError):
            before = self.path.stat().st_mtime_ns
            for _ in range(12):
                time.sleep(PULSE_SECONDS / 10)
                if self.path.stat().st_mtime_ns != before:
                    return True
        return False

    def _owner(self) -> dict[str, Any]:
        return {
            "token": self.token,
            **owner(),
            "node": os.environ.get("SLURMD_NODENAME", ""),
            "job": scheduler_job(),
            "restart_count": restart_count(),
            "restarts": self.restarts,
            "time": time.time(),
        }

    def check(self) -> None:
        """Raise LeaseLost when the lease is no longer ours."""
        if not self._ours():
            raise LeaseLost(f"the run in {self.path.parent} was taken over by another process")

    def _ours(self) -> bool:
        return read_object(self.path).get("token") == self.token

    def refresh(self) -> None:
        """Show that the owner lives; called with the heartbeat."""
        self.check()
        with contextlib.suppress(OSError):  # a disk that went read-only is the next write's business
            os.utime(self.path)

    def _pulse(self) -> None:
        """Keep the lease's time fresh until it is released or lost, whatever the run is busy with."""
        while not self._ended.wait(PULSE_SECONDS):
            if not self._ours():
                return
            with contextlib.suppress(OSError):
                os.utime(self.path)

    def release(self) -> None:
        """Give the lease back, if it is still ours."""
        self._ended.set()
        with contextlib.suppress(OSError):
            if self._ours():
                self.path.unlink(missing_ok=True)


def owner() -> dict[str, Any]:
    """This process, as `is_stale` knows it again."""
    pid = os.getpid()
    return {"pid": pid, "started": process_start(pid), "host": socket.gethostname(), "system": system()}


def is_stale(held: dict[str, Any], path: Path, now: float | None = None) -> bool:
    """The owner is dead (same machine: its process is gone) or has been silent for too long.

    `now` is the file server's time, by which leases are dated; without it a probe beside the lease asks for it. A lease
    from the future has not been refreshed since the clock was set back.
    """
    if same_machine(held):
        started = process_start(held["pid"])
        return started == "" or (bool(held.get("started")) and started != held["started"])
    try:
        return abs((server_time(path.parent) if now is None else now) - path.stat().st_mtime) > STALE_SECONDS
    except OSError:
        return False


def server_time(folder: Path) -> float:
    """The file server's clock, which may differ from ours; ours where nothing can be written."""
    probe = folder / f".clock-{uuid.uuid4().hex}.tmp"
    try:
        probe.touch()
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)
    except OSError:
        return time.time()


def same_machine(held: dict[str, Any]) -> bool:
    """Whether the owner's process would be visible from here."""
    here = held.get("host") == socket.gethostname() and held.get("system", system()) == system()
    return here and isinstance(held.get("pid"), int) and held["pid"] > 0


@lru_cache(maxsize=1)
def system() -> str:
    """This start of this machine and this process namespace: containers and cloned machines share a host name."""
    parts = []
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _newer_restart(held: dict[str, Any]) -> bool:
    same_job = bool(scheduler_job()) and held.get("job") == scheduler_job()
    return same_job and restart_count() > whole_number(held.get("restart_count"))


def restart_count() -> int:
    """How often the scheduler has started this job again."""
    return whole_number(os.environ.get("SLURM_RESTART_COUNT"))


def whole_number(value: Any) -> int:
    """A count that somebody else wrote; 0 for anything that is none."""
    try:
        return max(0, int(value or 0))
    except (TypeError, ValueError, OverflowError):
        return 0


def number(value: Any) -> float:
    """A number that somebody else wrote; 0 for anything that is none."""
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else 0.0


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
        except (ProcessLookupError, OverflowError):
            return ""
        except PermissionError:
            pass
        return "alive"
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
