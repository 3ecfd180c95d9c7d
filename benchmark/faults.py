"""A switch for tests: make a named point fail.

BENCHMARK_FAULT="point=fault[@n]" with a fault of: enospc, erofs, eio (the OSError), torn (cut the file to half, then
die), kill (SIGKILL to ourselves), stop (SIGTERM to ourselves), interrupt (KeyboardInterrupt), memory (MemoryError), cuda (a
RuntimeError as a GPU raises it), nan (handled by the caller).
`point` may end in `*`. `@n` waits for the n-th time the point is reached. Unset, every call returns at once.

Points: open, write, fsync, replace, each with `:` and the name of the file (`replace:record.json`); lease; update;
stage:NAME; evaluate; loss; restore; answer (of a worker to its launcher).
"""

from __future__ import annotations

import errno
import os
import signal
from collections import Counter
from pathlib import Path

_reached: Counter[str] = Counter()
_ERRORS = {"enospc": errno.ENOSPC, "erofs": errno.EROFS, "eio": errno.EIO}


def fault(point: str, file: Path | None = None) -> str:
    """Fail here if the environment says so; returns the fault's name when the caller has to play it, else ""."""
    wanted = os.environ.get("BENCHMARK_FAULT")
    if not wanted:
        return ""
    place, _, rest = wanted.partition("=")
    kind, _, nth = rest.partition("@")
    if not (place == point or (place.endswith("*") and point.startswith(place[:-1]))):
        return ""
    _reached[wanted] += 1
    if nth and _reached[wanted] != int(nth):
        return ""
    if kind in _ERRORS:
        raise OSError(_ERRORS[kind], os.strerror(_ERRORS[kind]), str(file or point))
    if kind == "torn" and file is not None:
        size = file.stat().st_size
        os.truncate(file, size // 2)
        os.replace(file, file.with_name(point.split(":", 1)[1]))
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGTERM)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "memory":
        raise MemoryError("injected")
    if kind == "cuda":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return kind


def forget() -> None:
    """Count from the beginning again: for tests that stay in one process."""
    _reached.clear()
