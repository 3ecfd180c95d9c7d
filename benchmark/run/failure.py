"""Why a run ended without a record: one line for tables and status, everything else in its failure.json."""

from __future__ import annotations

import contextlib
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmark.errors import RunFailed, UserError
from benchmark.files import read_object, write_json
from benchmark.records.lease import whole_number
from methods.errors import MethodError


def reason_of(error: BaseException) -> str:
    """An error in one line. Errors of this suite are sentences already; others get their type in front."""
    words = str(error).splitlines()[0][:300] if str(error) else ""
    if isinstance(error, RunFailed | UserError | MethodError) or hasattr(error, "term"):
        return str(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return f"out of memory: {words or 'no more to be had'}"
    return f"{type(error).__name__}: {words}".strip(": ")


@contextlib.contextmanager
def noting_warnings(told: list[str]) -> Iterator[None]:
    """Within: a warning of a method (an SVD that was repeated with a jitter) is added to `told`, once; at most fifty."""

    def note(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        words = f"{category.__name__}: {message}"[:500]
        if "site-packages" not in filename and words not in told and len(told) < 50:
            told.append(words)

    with warnings.catch_warnings():
        warnings.simplefilter("always")  # the run that this process had before may have had the same
        warnings.showwarning = note
        yield


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
