"""Checkpoints: tensors and plain values only, whole or not there, and never anything that is not finite.

A checkpoint that cannot be trusted is never used: the run begins anew and says so in its record.
"""

from __future__ import annotations

import errno
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmark.files import replacing
from benchmark.records import models
from benchmark.run.failure import is_device_error

FORMAT = 2
SHARE, LEAST, MOST = 0.02, 60.0, 3600.0  # of the time that saving may take; seconds between two checkpoints
PASSING = ("checkpoint.pt", "failure.json")  # of a run that is not done
_DAMAGE = (
    zipfile.BadZipFile, pickle.UnpicklingError, RuntimeError, ValueError, TypeError, KeyError, IndexError,
    AttributeError, EOFError, NotImplementedError,
)  # fmt: skip


class Damaged(Exception):
    """The checkpoint is torn, changed, or of another run."""


def interval(took: float, wanted: float | None = None) -> float:
    """Seconds from a checkpoint that took `took` to the next: `wanted`, or such that at most 2 % of the time goes into saving.

    That is not below a minute, nor above an hour: so much is lost when a machine dies without a signal.
    """
    return min(max(LEAST, took / SHARE), MOST) if wanted is None else wanted


def write(path: Path, state: Mapping[str, Any]) -> None:
    """Replace the checkpoint; an OSError leaves the one before."""
    with replacing(path) as temporary:
        try:
            torch.save({**state, "format": FORMAT}, temporary)
        except RuntimeError as error:  # torch's own writer says a full disk so
            raise OSError(errno.EIO, str(error).splitlines()[0][:200], str(path)) from error


def restore(path: Path, take: Callable[[Mapping[str, Any]], None]) -> None:
    """Hand the checkpoint's state, on the CPU, to `take`; whatever is wrong with it is `Damaged`, `take` half done.

    A GPU that fails while the state is moved to it is not the file's fault: its error goes on as it is.
    """
    try:
        with zipfile.ZipFile(path) as archive:  # torch does not compare the checksums that it writes
            torn = archive.testzip()
        if torn is not None:
            raise ValueError(f"the checksum of {torn} is wrong")
        state = torch.load(path, map_location="cpu", weights_only=True)
        if state["format"] != FORMAT:
            raise ValueError(f"its format is {state['format']!r}, not {FORMAT}")
        take(state)
    except _DAMAGE as error:
        if is_device_error(error):
            raise
        words = str(error).splitlines()[0][:200] if str(error) else ""
        raise Damaged(f"{type(error).__name__}: {words}") from error


def moved(value: Any, device: torch.device) -> Any:
    """The same with every tensor on `device`."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: moved(part, device) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(moved(part, device) for part in value)
    return value


def passing(directory: Path) -> list[Path]:
    """The files of a run's directory that go when it is done, candidates for kept models among them."""
    there = [directory / name for name in PASSING if (directory / name).exists()]
    return [*there, *models.candidates(directory).values()]


def tidy(directory: Path) -> None:
    """Remove what a finished run no longer needs."""
    for path in passing(directory):
        path.unlink(missing_ok=True)
