"""What was sent to SLURM: one folder a submission, `<results>/.slurm/<time>-<hex>/`, and a lock for launching.

`submission.json` says which task has which runs, so that anybody who sees the results folder knows what is queued,
whoever launched it. A folder is never used twice: a cluster that was set up anew counts its jobs from 1 again.
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
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmark.errors import UserError
from benchmark.files import read_json, write_json
from benchmark.records import schema

FOLDER = ".slurm"
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
    if not lists or not all(_RUN_ID.fullmatch(run) for runs in jobs.values() for run in runs):
        return False
    return not any(schema.spec_fault(spec) for spec in specs.values())  # with the id it names a folder


def latest(results: Path) -> dict[str, tuple[Submission, str]]:
    """{run_id: (its latest submission, its job there)}."""
    return {run: (each, job) for each in submissions(results) for job, runs in each.jobs.items() for run in runs}


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
