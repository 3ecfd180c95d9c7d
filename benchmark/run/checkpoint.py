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

FORMAT = 2
_DAMAGE = (
    zipfile.BadZipFile, pickle.UnpicklingError, RuntimeError, ValueError, TypeError, KeyError, IndexError,
    AttributeError, EOFError, NotImplementedError,
)  # fmt: skip


class Damaged(Exception):
    """The checkpoint is torn, changed, or of another run."""


def write(path: Path, state: Mapping[str, Any]) -> None:
    """Replace the checkpoint; an OSError leaves the one before."""
    with replacing(path) as temporary:
        try:
            torch.save({**state, "format": FORMAT}, temporary)
        except RuntimeError as error:  # torch's own writer says a full disk so
            raise OSError(errno.EIO, str(error).splitlines()[0][:200], str(path)) from error


def restore(path: Path, device: torch.device, take: Callable[[Mapping[str, Any]], None]) -> None:
    """Hand the checkpoint's state to `take`; whatever is wrong with it is `Damaged`, and `take` may be half done."""
    try:
        with zipfile.ZipFile(path) as archive:  # torch does not compare the checksums that it writes
            torn = archive.testzip()
        if torn is not None:
            raise ValueError(f"the checksum of {torn} is wrong")
        state = torch.load(path, map_location=device, weights_only=True)
        if state["format"] != FORMAT:
            raise ValueError(f"its format is {state['format']!r}, not {FORMAT}")
        take(state)
    except torch.OutOfMemoryError:
        raise
    except _DAMAGE as error:
        words = str(error).splitlines()[0][:200] if str(error) else ""
        raise Damaged(f"{type(error).__name__}: {words}") from error
