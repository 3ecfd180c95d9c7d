"""Why a run ended without a record: one line for tables and status, everything else in its failure.json."""

from __future__ import annotations

import contextlib
import time
import traceback
from pathlib import Path
from typing import Any

from benchmark.claim import whole_number
from benchmark.errors import RunFailed, UserError
from benchmark.files import read_object, write_json


def reason_of(error: BaseException) -> str:
    """An error in one line. Errors of this suite are sentences already; others get their type in front."""
    words = str(error).splitlines()[0][:300] if str(error) else ""
    if isinstance(error, RunFailed | UserError) or hasattr(error, "term"):
        return str(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return f"out of memory: {words or 'no more to be had'}"
    return f"{type(error).__name__}: {words}".strip(": ")


def write_failure(directory: Path, reason: str, error: BaseException | None = None, **facts: Any) -> None:
    """Write failure.json, as far as the disk lets us; counts the attempts."""
    document = {
        "reason": reason,
        "kind": type(error).__name__ if error else "Killed",
        "traceback": "".join(traceback.format_exception(error)) if error else "",
        "attempts": whole_number(read_object(directory / "failure.json").get("attempts")) + 1,
        "time": time.time(),
        **facts,
    }
    with contextlib.suppress(OSError):
        write_json(directory / "failure.json", document)
