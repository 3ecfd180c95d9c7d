"""Whose turn it is to write a run's curve: one process at a time, and none that a later start of the run has overtaken.

The process of a killed run may still have something to write, or may not even have begun when the run goes on: it then
comes after the process that has the whole curve, and what it knows is old. So each start of a run takes a turn, and a
process that finds another turn than its own writes nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from benchmark.files import write_text

GRACE = 30.0  # seconds that a tracker may take after its run has ended, or was killed


def take(folder: Path, run_id: str) -> str:
    """The turn of this start of a run: from now on every other one is over."""
    turn = uuid.uuid4().hex
    write_text(folder / f".{run_id}.turn", turn, durable=False)
    return turn


@contextlib.contextmanager
def alone(folder: Path, run_id: str, turn: str | None = None) -> Iterator[bool]:
    """Wait until nobody else writes the run; gives whether the turn is still its own (without a turn: always)."""
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + GRACE + 5
    with (folder / f".{run_id}.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError("another process is still writing this run") from None
                time.sleep(0.1)
        yield turn is None or (folder / f".{run_id}.turn").read_text() == turn
