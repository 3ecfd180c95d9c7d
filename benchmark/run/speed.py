"""Settings of the process that make every step faster and change no number; and what `torch.compile` needs."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

from benchmark.errors import UserError

# <malloc.h>: M_TRIM_THRESHOLD = −1, M_MMAP_THRESHOLD = −3
_TRIM, _MMAP = -1, -3


_KEPT_MB = {"conv3fc2": 128}  # its largest block is the gradient of the first linear layer, 100 MB


def keep_freed_memory(network: str) -> bool:
    """Let malloc keep what a step frees for the next step.

    By default glibc hands every large tensor back to the kernel and gets it again, page fault by page fault: a fifth of
    a small step, a tenth of a large one. For deep networks blocks above 32 MB still go back: kept, they lie between
    others and cost a fifth more memory. Returns whether the C library took the advice (glibc does; others are left as
    they are).
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        return bool(libc.mallopt(_MMAP, _KEPT_MB.get(network, 32) << 20)) and bool(libc.mallopt(_TRIM, (1 << 31) - 1))
    return False


def needs_compiler(device: str) -> None:
    """A sentence when this machine lacks what `torch.compile` writes its kernels with."""
    compiler = os.environ.get("CXX", "g++")
    header = Path(sysconfig.get_path("include")) / "Python.h"
    lacking = {
        f"the C++ compiler {compiler} (apt-get install g++)": shutil.which(compiler) is None,
        f"{header} (apt-get install python3-dev)": not header.is_file(),
        "the package triton": device == "cuda" and importlib.util.find_spec("triton") is None,
    }
    if any(lacking.values()):
        missing = ", ".join(what for what, absent in lacking.items() if absent)
        raise UserError(f"run.compile=true needs what is not on this machine: {missing}. Or leave the setting out.")
