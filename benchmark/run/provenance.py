"""Where a number comes from: commit, package versions, hardware."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "torchvision", "numpy", "pandas", "scipy", "scikit-learn", "submitit", "pillow")


@functools.lru_cache(maxsize=1)
def commit() -> tuple[str, bool]:
    """(commit of this code, whether the tree had changes); ("unknown", False) outside a checkout."""
    here = Path(__file__).resolve().parents[2]

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != here:
            return "unknown", False
        code = ("benchmark", "methods", "tsvdnet", "pyproject.toml")
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no", "--", *code))
    except (OSError, subprocess.SubprocessError):
        return "unknown", False


@functools.lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions of the packages that can move a number."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@functools.lru_cache(maxsize=1)
def cpu_name() -> str:
    """The processor's name, family and model, and number of cores.

    One name can stand for several generations (a virtual machine says "AMD EPYC" for all), which round differently.
    """
    said: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            said.setdefault(key.strip(), value.strip())
    name = said.get("model name") or platform.processor() or platform.machine()
    kind = f" (family {said['cpu family']}, model {said['model']})" if {"cpu family", "model"} <= said.keys() else ""
    return f"{name}{kind} ×{os.cpu_count()}"


def hardware(device: str) -> str:
    """What a run was computed on."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(torch.device(device))
    return cpu_name()


def provenance(device: str, threads: int) -> dict[str, Any]:
    """Commit, versions, hardware, threads of this process."""
    sha, dirty = commit()
    return {
        "commit": sha,
        "dirty": dirty,
        "versions": versions(),
        "hardware": hardware(device),
        "device": device,
        "threads": threads,
        "slurm_job": os.environ.get("SLURM_JOB_ID", ""),
    }
