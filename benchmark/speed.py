"""Settings of the process that make every step faster and change no number."""

from __future__ import annotations

import contextlib
import ctypes
import functools

# <malloc.h>: M_TRIM_THRESHOLD = −1, M_MMAP_THRESHOLD = −3
_TRIM, _MMAP = -1, -3


@functools.lru_cache(maxsize=1)
def keep_freed_memory() -> bool:
    """Let malloc keep what a step frees for the next step.

    By default glibc hands every large tensor back to the kernel and gets it again, page fault by page fault: a fifth of
    a small step. Returns whether the C library took the advice (glibc does; others are left as they are).
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        return bool(libc.mallopt(_MMAP, 1 << 30)) and bool(libc.mallopt(_TRIM, (1 << 31) - 1))
    return False
