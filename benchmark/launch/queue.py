"""What SLURM says, asked through its own commands: the queue, why a task ended, whether a request is possible.

Accounting (`sacct`) may be off and the controller may be away for a moment: every question has the answer "unknown",
which is None, and nobody takes that for "not there".
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass

from benchmark.errors import UserError, unknown

SILENT = "SLURM's controller does not answer; nothing was sent. Try again in a minute."
NAME = "msda-benchmark"  # the name of all our tasks: one squeue call finds them
DECODE = f"{NAME}-decode"  # that of the job which decodes pictures before them
PATIENCE = 30  # seconds for one command


@dataclass(frozen=True)
class Task:
    """One task in the queue; `state` is SLURM's word (PENDING, RUNNING, …)."""

    job: str
    state: str
    node: str
    reason: str
    left: str


@dataclass(frozen=True)
class Ended:
    """How a task ended: SLURM's state and `code:signal`."""

    state: str
    exit_code: str

    @property
    def killed(self) -> bool:
        """Killed from outside in the way memory kills look: OUT_OF_MEMORY, or failed with signal 9 (0:9, 137:0)."""
        code, _, number = self.exit_code.partition(":")
        return self.state == "OUT_OF_MEMORY" or (self.state == "FAILED" and (number == "9" or code in ("9", "137")))


def available() -> bool:
    """Whether SLURM's commands are on this machine."""
    return shutil.which("squeue") is not None


def queue() -> dict[str, Task] | None:
    """Our jobs in the queue by id, array tasks one by one (`12_3`); None when the controller does not answer."""
    names = f"--name={NAME},{DECODE}"
    said = _ask("squeue", "--noheader", "--array", "--all", names, "--format=%i|%T|%N|%r|%L")
    if said is None:
        return None
    rows = (line.split("|") for line in said.splitlines() if line.count("|") == 4)
    return {job: Task(job, state, node, reason, left) for job, state, node, reason, left in rows}


def ended(jobs: Iterable[str]) -> dict[str, Ended]:
    """How tasks that are no longer queued ended, as far as anybody remembers: sacct, else the controller."""
    wanted = set(jobs)
    if not wanted:
        return {}
    arrays = ",".join(sorted({job.partition("_")[0] for job in wanted}))
    said = _ask(
        "sacct", "--noheader", "--parsable2", "--allocations", "--format=JobID,State,ExitCode", f"--jobs={arrays}"
    )
    if said is not None and said.strip():
        rows = (line.split("|") for line in said.splitlines())
        # «CANCELLED by 1000» is CANCELLED
        return {job: Ended(state.split()[0], code) for job, state, code in rows if job in wanted and state}
    found = {}
    for array in arrays.split(","):
        for line in (_ask("scontrol", "--oneliner", "show", "job", array) or "").splitlines():
            values = dict(pair.partition("=")[::2] for pair in line.split())
            job = (
                f"{values['ArrayJobId']}_{values.get('ArrayTaskId')}"
                if "ArrayJobId" in values
                else values.get("JobId", "")
            )
            if job in wanted:
                found[job] = Ended(values.get("JobState", ""), values.get("ExitCode", ""))
    return found


def largest_array() -> int:
    """How many tasks one array may have here."""
    size = _site().get("MaxArraySize", "")
    return max(1, int(size) - 1) if size.isdigit() else 1000  # SLURM's own default


def kills_whole_tasks_over_memory() -> bool:
    """Whether SLURM itself ends a task whose processes together exceed its memory; else the kernel ends one process."""
    return "OverMemoryKill" in _site().get("JobAcctGatherParams", "")


def _site() -> dict[str, str]:
    """The site's configuration."""
    lines = (line.partition("=") for line in (_ask("scontrol", "show", "config") or "").splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}


def cancel(jobs: Iterable[str]) -> None:
    """Take tasks out of the queue."""
    names = list(jobs)
    for start in range(0, len(names), 500):  # the line of a command has an end
        done = _run("scancel", *names[start : start + 500])
        if done is None or done.returncode != 0:
            raise UserError(f"scancel did not work: {_last_line(done)}")


def requeue(job: str, attempts: int = 5) -> bool:
    """Put a running task back into the queue; False when SLURM refuses. The controller may be away for a moment."""
    for attempt in range(attempts):
        done = _run("scontrol", "requeue", job)
        if done is not None and done.returncode == 0:
            return True
        if attempt + 1 < attempts and shutil.which("scontrol") is not None:
            time.sleep(3)
    return False


def exclude(job: str, nodes: Iterable[str]) -> bool:
    """Keep a waiting task, and those of its array that wait with it, from nodes; False when SLURM refuses for the task."""
    shown = re.search(r"ExcNodeList=(\S+)", _ask("scontrol", "--oneliner", "show", "job", job) or "")
    already = [shown[1]] if shown and shown[1] != "(null)" else []
    wanted = f"ExcNodeList={','.join([*already, *nodes])}"
    done = _run("scontrol", "update", f"JobId={job}", wanted)
    if "_" in job:  # what is running there already answers that it cannot be changed
        _run("scontrol", "update", f"JobId={job.partition('_')[0]}", wanted)
    return done is not None and done.returncode == 0


def check(options: list[str], where: str) -> None:
    """Ask sbatch, without submitting, whether a request is possible; a sentence with what there is when it is not."""
    if shutil.which("sbatch") is None or shutil.which("srun") is None:
        raise UserError(
            "sbatch is not on PATH: this machine is not a login node of a SLURM cluster. "
            "Run here instead with: python -m benchmark run … --executor local"
        )
    done = _run("sbatch", "--test-only", *options, "--wrap=true")
    if done is not None and done.returncode == 0:
        return
    said = done.stderr if done is not None else "it did not answer"
    given = dict(option.removeprefix("--").partition("=")[::2] for option in options)
    known = _ask("sinfo", "--noheader", "--format=%R")
    if known is None:
        raise UserError(SILENT)
    partitions = sorted(set(known.split()))
    if "partition" in given and partitions:
        for name in given["partition"].split(","):
            if name not in partitions:
                raise unknown(f"partition (asked for in {where})", name, partitions)
    raise UserError(
        f"SLURM refuses what {where} asks for ({' '.join(options)}): {_last_line(done) or said}.{_offers(given)}"
    )


def _offers(given: dict[str, str]) -> str:
    """What the nodes of a partition have, for the error about an impossible request."""
    only = [f"--partition={given['partition']}"] if "partition" in given else []
    said = _ask("sinfo", "--noheader", "--format=%D nodes with %c CPUs, %m MB, GPUs %G, longest time %l", *only)
    rows = sorted({" ".join(line.split()) for line in (said or "").splitlines()})
    return f" There are: {'; '.join(rows)}." if rows else ""


def _last_line(done: subprocess.CompletedProcess[str] | None) -> str:
    if done is None:
        return f"SLURM did not answer within {PATIENCE} s"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip() and not line.startswith("Try ")]
    return (
        lines[-1].removeprefix("sbatch: ").removeprefix("error: ").removeprefix("allocation failure: ") if lines else ""
    )


def _ask(*command: str) -> str | None:
    done = _run(*command)
    return done.stdout if done is not None and done.returncode == 0 else None


def _run(*command: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
