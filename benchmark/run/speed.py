"""Settings of the process: what makes every step faster and changes no number; the arithmetic that a run asks for; and
what a machine must have for `torch.compile` and for each precision."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmark.errors import UserError

# <malloc.h>: M_TRIM_THRESHOLD = −1, M_MMAP_THRESHOLD = −3
_TRIM, _MMAP = -1, -3


AMPERE = (8, 0)  # the first compute capability with TF32 and bfloat16

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


@contextlib.contextmanager
def arithmetic(precision: str, device: str) -> Iterator[None]:
    """Within: TF32 in matrix products and convolutions if the run says so, else not; put back afterwards.

    torch's own defaults are half and half: on in cuDNN's convolutions, off in matrix products.
    """
    import torch  # here: launchers read this module before they need torch

    needs_precision(precision, device)
    backends: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn]
    before = [backend.allow_tf32 for backend in backends]
    try:
        for backend in backends:
            backend.allow_tf32 = precision == "tf32"
        yield
    finally:
        for backend, allowed in zip(backends, before, strict=True):
            backend.allow_tf32 = allowed


def needs_precision(precision: str, device: str) -> None:
    """A sentence when this device does not compute so."""
    if precision == "fp32":
        return
    import torch

    place = torch.device(device)
    if precision == "tf32" and place.type != "cuda":
        raise UserError(
            "run.precision=tf32 is arithmetic of NVIDIA's GPUs since Ampere, and the runs are to be on the CPU. Type "
            "--device cuda where there is one, or leave the setting out."
        )
    if place.type == "cuda" and torch.cuda.get_device_capability(place) < AMPERE:
        raise UserError(
            f"run.precision={precision} needs a GPU of compute capability 8.0 (Ampere) or later, and "
            f"{torch.cuda.get_device_name(place)} has less. Leave the setting out."
        )


@contextlib.contextmanager
def quiet_torch(threads: int, device: str, *, strict: bool = True) -> Iterator[None]:
    """Threads as the spec says (sums depend on them), deterministic algorithms; put back afterwards.

    Every operator of the methods of this repository has a deterministic form on a GPU, so one that has none is an error.
    A user's own method is not `strict`: what it uses without such a form is named in the record's warnings. Fresh memory
    is not filled first (thousands of launches an update): nothing here reads what it has not written.
    """
    import torch
    from torch.utils import deterministic as memory

    fresh_memory: Any = memory  # its switch is a property of the module, which type checkers do not see
    before, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warned, filled = torch.is_deterministic_algorithms_warn_only_enabled(), fresh_memory.fill_uninitialized_memory
    if device.startswith("cuda"):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=not strict and device.startswith("cuda"))
    fresh_memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(deterministic, warn_only=warned)
        fresh_memory.fill_uninitialized_memory = filled
