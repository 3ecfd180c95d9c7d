"""Why a run ended without a record: one line for tables and status, everything else in its failure.json."""

from __future__ import annotations

import contextlib
import re
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

_DEVICE = re.compile(
    r"CUDA error|CUDA unknown error|CUDA out of memory|CUDA driver|No CUDA GPUs|cudaGetDeviceCount|Triton Error \[CUDA\]"
    r"|cuDNN error|cuFFT error|CUBLAS_STATUS|CUSOLVER_STATUS",
    re.IGNORECASE,
)


def reason_of(error: BaseException) -> str:
    """An error in one line. Errors of this suite are sentences already; others get their type in front."""
    words = str(error).splitlines()[0][:300] if str(error) else ""
    if isinstance(error, RunFailed | UserError | MethodError) or hasattr(error, "term"):
        return str(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return f"out of memory: {words or 'no more to be had'}"
    return f"{type(error).__name__}: {words}".strip(": ")


def is_device_error(error: BaseException | None) -> bool:
    """Whether the GPU is to blame (its context is gone, its memory full), and not what it was given to do.

    torch wraps such errors (`load_state_dict` collects them as text): the words decide, along the chain of causes.
    """
    while error is not None:
        if type(error).__name__ in ("AcceleratorError", "OutOfMemoryError") or blames_device(str(error)):
            return True
        error = error.__cause__
    return False


def blames_device(words: str) -> bool:
    """Whether the words of a failure speak of the GPU."""
    return _DEVICE.search(words) is not None


@contextlib.contextmanager
def can_wait(what: str, told: list[str]) -> Iterator[None]:
    """Within: a disk that is full or gone for a while costs nothing; the last good checkpoint stays, training goes on.

    Only the writes at the end must succeed. `told`, and with it the record, says what could not be written.
    """
    try:
        yield
    except OSError as error:
        warning = f"{what} could not be written for a while ({error.strerror or error})"
        if warning not in told:
            told.append(warning)


@contextlib.contextmanager
def noting_warnings(told: list[str]) -> Iterator[None]:
    """Within: a warning of a method (an SVD that was repeated with a jitter) is added to `told`, once; at most fifty.

    Torch's own count only where they name an operator that has no deterministic form.
    """

    def note(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        words = f"{category.__name__}: {message}"[:500]
        ours = "site-packages" not in filename or "does not have a deterministic implementation" in words
        if ours and words not in told and len(told) < 50:
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
