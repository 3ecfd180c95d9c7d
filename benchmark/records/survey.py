"""The state of every run below a folder: the one loop over the one walk, for tables and for status alike.

What was found sound need not be read again: its stamp is remembered in the user's own cache, not in the tree, which may
be a stranger's. Tables remember rows (`benchmark.records.frame`), status no more than what it shows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmark.files import read_object, replacing
from benchmark.records import study
from benchmark.records.lease import server_time
from benchmark.records.state import Sent, State, StateName, state
from benchmark.records.store import run_directories

REMEMBER_FROM = 50  # runs; a smaller tree is read at once
KEPT_SECONDS = 30 * 86400.0  # of trees that nobody has looked at for long
SHOWN = ("suite", "tier", "method", "preset", "target", "seed")  # of the spec of a run that is done


def survey(
    root: Path, queue: Mapping[str, Sent] | None = None, known: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str, State | None]]:
    """(place, stamp, state) of every run below `root`; `place` is `<suite>/<tier>/<run_id>`.

    The state is None for a run whose stamp is the one in `known`: it was read before, and is done. Without a record the
    stamp is empty. What is absent is left out.
    """
    now: float | None = None
    packed = study.stamp(root)
    for entry in run_directories(root):
        place = entry.path[len(str(root)) + 1 :]
        stamp = packed if isinstance(entry, study.Place) else _stamp(entry.path)
        if stamp and known is not None and known.get(place) == stamp:
            yield place, stamp, None
            continue
        if now is None and os.path.lexists(f"{entry.path}/lease.json"):
            now = server_time(root)  # once, and not in a tree at which nobody is
        found = state(entry.path, queue, now)
        if found.name is not StateName.ABSENT:
            yield place, stamp, found


def _stamp(directory: str) -> str:
    """Changes when a file changes that the row of a finished run is made from; empty without a record."""
    record = _file_stamp(f"{directory}/record.json")
    return record and f"{record} {_file_stamp(f'{directory}/curve.jsonl')}"


def _file_stamp(path: str) -> str:
    """The inode's own clock is in it: a file that was given back its old date is still another one."""
    try:
        s = os.stat(path)
    except OSError:
        return ""
    return f"{s.st_mtime_ns}:{s.st_ctime_ns}:{s.st_size}:{s.st_ino}"


def surveyed(root: Path, queue: Mapping[str, Sent] | None = None) -> list[tuple[str, State]]:
    """(place, state) of every run below `root`, quickly: of a run that was read before, `spec` is what status shows."""
    memory = {p: m for p, m in read_object(cache_file(root, "json")).items() if _remembers(m)}
    found: list[tuple[str, State]] = []
    sound: dict[str, list[object]] = {}
    for place, stamp, there in survey(root, queue, {place: m[0] for place, m in memory.items()}):
        seen = State(StateName.DONE, spec=memory[place][1]) if there is None else there
        found.append((place, seen))
        if seen.name is StateName.DONE:
            sound[place] = [stamp, {key: seen.spec.get(key) for key in SHOWN}]
    if len(sound) >= REMEMBER_FROM and sound != memory:
        with contextlib.suppress(OSError), replacing(cache_file(root, "json"), durable=False) as temporary:
            temporary.write_text(json.dumps(sound), encoding="utf-8")
        forget_the_old(cache_file(root, "json").parent)
    return found


def _remembers(entry: object) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], dict)


def cache_file(root: Path, ending: str) -> Path:
    """Where the user's cache keeps what was read below `root`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "msda-benchmark" / "records"
    return cache / f"{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:24]}.{ending}"


def forget_the_old(cache: Path) -> None:
    """Remove what the cache keeps of trees that nobody has looked at for long."""
    with contextlib.suppress(OSError):
        for old in (*cache.glob("*.parquet"), *cache.glob("*.json")):
            if time.time() - old.stat().st_mtime > KEPT_SECONDS:
                old.unlink(missing_ok=True)
