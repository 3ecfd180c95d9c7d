"""What waits to be run: what was sent to SLURM, and what a pool on some machine has before it.

SLURM: one folder a submission, `<results>/.slurm/<time>-<hex>/`, and a lock for launching.

`submission.json` says which task has which runs, so that anybody who sees the results folder knows what is queued,
whoever launched it. A folder is never used twice: a cluster that was set up anew counts its jobs from 1 again. A pool
leaves a note, `<results>/.local/<hex>.json`, for as long as it lives.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmark.errors import UserError
from benchmark.files import read_json, read_object, shown, write_json
from benchmark.records import Sent, lease, schema
from benchmark.spec import RunSpec

FOLDER = ".slurm"
LOCAL = ".local"
_RUN_ID = re.compile(schema.RUN_ID)
LOCK_SECONDS = 300  # launching takes seconds; a lock this old belongs to somebody whose launch died


@dataclass(frozen=True)
class Submission:
    """One launch: job ids with their runs, and what is needed to launch the same runs again."""

    folder: Path
    jobs: dict[str, list[str]]  # {"12_3": [run_id, …]}
    specs: dict[str, dict[str, Any]]  # {run_id: RunSpec.to_json()}
    profile: dict[str, Any]
    data_root: str | None
    code: str  # fingerprint of the code at submission
    memory_mb: dict[str, int] = field(default_factory=dict)  # {"12_3": what the task asked for}
    keep_model: str = "none"  # which models stay beside the records
    track: list[str] = field(default_factory=list)  # trackers of the runs
    decode: str = ""  # the job that the tasks wait for
    user: str = field(default_factory=getpass.getuser)
    host: str = field(default_factory=socket.gethostname)
    time: float = field(default_factory=time.time)

    def save(self) -> None:
        """Write `submission.json`."""
        write_json(self.folder / "submission.json", {k: v for k, v in asdict(self).items() if k != "folder"})


def new_folder(results: Path) -> Path:
    """An empty folder for the next submission."""
    folder = results.absolute() / FOLDER / f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
    folder.mkdir(parents=True)
    return folder


def submissions(results: Path) -> list[Submission]:
    """All submissions into a results folder, the oldest first."""
    found = []
    for file in sorted((results / FOLDER).glob("*/submission.json")):
        document = read_json(file)
        if isinstance(document, dict) and _sound(document):
            with contextlib.suppress(TypeError):  # written by another version of this file
                found.append(Submission(folder=file.parent, **document))
    return sorted(found, key=lambda s: s.time)


def _sound(document: dict[str, Any]) -> bool:
    """Whether what will be looked up has the types it should; the folder may be somebody else's."""
    jobs, specs = document.get("jobs"), document.get("specs")
    if not (isinstance(jobs, dict) and isinstance(specs, dict) and isinstance(document.get("time"), int | float)):
        return False
    lists = all(isinstance(runs, list) and all(isinstance(run, str) for run in runs) for runs in jobs.values())
    track = document.get("track", [])
    lists = lists and isinstance(track, list) and all(isinstance(name, str) for name in track)
    if not lists or not all(_RUN_ID.fullmatch(run) for runs in jobs.values() for run in runs):
        return False
    return not any(schema.spec_fault(spec) for spec in specs.values())  # with the id it names a folder


def latest(results: Path) -> dict[str, tuple[Submission, str]]:
    """{run_id: (its latest submission, its job there)}."""
    return {run: (each, job) for each in submissions(results) for job, runs in each.jobs.items() for run in runs}


class Note:
    """What a pool has before it, for whoever asks for the state of its runs. No run depends on it."""

    def __init__(self, results: Path, specs: Sequence[RunSpec]) -> None:
        self.path = results / LOCAL / f"{uuid.uuid4().hex}.json"
        self._touched = time.monotonic()
        with contextlib.suppress(OSError):  # a full disk is the first run's business
            held = {"specs": {spec.run_id: spec.to_json() for spec in specs}, "time": time.time(), **lease.owner()}
            write_json(self.path, held, durable=False)

    def touch(self) -> None:
        """Show that the pool lives, to other machines; now and then is enough."""
        if time.monotonic() - self._touched > lease.PULSE_SECONDS:
            self._touched = time.monotonic()
            with contextlib.suppress(OSError):
                os.utime(self.path)

    def remove(self) -> None:
        """Nothing waits any more."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
            self.path.parent.rmdir()  # unless another pool has its note there


def waiting(results: Path) -> dict[str, tuple[dict[str, Any], Sent]]:
    """{run_id: (its spec, who will run it)} of the pools that live."""
    found = {}
    for file in sorted((results / LOCAL).glob("*.json")):
        held = read_object(file)
        specs = held.get("specs")
        if not _sound({**held, "jobs": {"": [*specs]} if isinstance(specs, dict) else None}):
            continue
        if lease.is_stale(held, file):  # it was killed before it could take its note away
            continue
        who = shown(f"waits for process {held.get('pid')} on {held.get('host')}")
        for run, spec in held["specs"].items():
            found[run] = (spec, Sent("", "waiting", who, held["time"]))
    return found


def leave_node(folder: Path, job: str, node: str, why: str) -> None:
    """Note that a task left a node; a file each, for tasks leave at the same time."""
    with contextlib.suppress(OSError):
        write_json(folder / f"{job}_{node}.left.json", {"node": node, "why": why, "job": job, "time": time.time()})


def left_nodes(folder: Path) -> dict[str, str]:
    """{node: why} of the nodes that tasks of a submission have left."""
    notes = [read_object(file) for file in sorted(folder.glob("*.left.json"))]
    return {str(note["node"]): str(note.get("why", "")) for note in notes if note.get("node")}


@contextlib.contextmanager
def launching(results: Path, patience: float = 60.0) -> Iterator[None]:
    """Only one launch into a results folder at a time, from any host: a lock file made with O_EXCL (works on NFS)."""
    lock = results / FOLDER / "launching"
    lock.parent.mkdir(parents=True, exist_ok=True)
    token = uuid.uuid4().hex
    me = {"token": token, "user": getpass.getuser(), "host": socket.gethostname(), "time": time.time()}
    deadline = time.monotonic() + patience
    while True:
        try:
            with os.fdopen(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644), "w") as file:
                json.dump(me, file)
            break
        except FileExistsError:
            _break_if_old(lock)
        if time.monotonic() > deadline:
            held = read_json(lock) or {}
            raise UserError(
                f"{held.get('user', 'somebody')} on {held.get('host', 'some host')} is launching into {results} now; "
                f"try again in a minute, or remove {lock} if that launch has died."
            )
        time.sleep(0.2)
    try:
        yield
    finally:
        if (read_json(lock) or {}).get("token") == token:
            lock.unlink(missing_ok=True)


def _break_if_old(lock: Path) -> None:
    """Take away a lock whose owner has died. Renaming is atomic: of two who try, one succeeds."""
    with contextlib.suppress(OSError):
        if time.time() - lock.stat().st_mtime > LOCK_SECONDS:
            grave = lock.with_name(f".{lock.name}.{uuid.uuid4().hex}")
            os.rename(lock, grave)
            grave.unlink()
