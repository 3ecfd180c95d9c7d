"""Where a number comes from: commit, package versions, hardware."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

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


LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"


@functools.lru_cache(maxsize=1)
def lock() -> tuple[str, dict[str, tuple[str, str]]]:
    """(sha256 of the lock file, installed packages that differ from it: name → (locked, here)); ("", {}) without one.

    A package that the lock names and that is not installed is no difference: it belongs to an extra that nobody asked for.
    """
    if not LOCK.is_file():
        return "", {}
    content = LOCK.read_bytes()
    differs = {}
    for line in content.decode().splitlines():
        if "==" not in line or line.startswith((" ", "#")):
            continue
        requirement = Requirement(line.rstrip(" \\"))
        if requirement.marker is None or requirement.marker.evaluate():
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                here = importlib.metadata.version(requirement.name)
                if not requirement.specifier.contains(here, prereleases=True):
                    differs[requirement.name] = (str(requirement.specifier).removeprefix("=="), here)
    return hashlib.sha256(content).hexdigest(), differs


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


def driver() -> str:
    """Version of NVIDIA's driver as the kernel module says it; empty when it says none."""
    with contextlib.suppress(OSError):
        found = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", Path("/proc/driver/nvidia/version").read_text())
        return found[1] if found else ""
    return ""


def start(device: str, update: int) -> dict[str, Any]:
    """One start of a run: at which update, where, and on what; of a GPU also driver, CUDA and cuDNN, which choose kernels."""
    found: dict[str, Any] = {
        "update": update,
        "node": os.environ.get("SLURMD_NODENAME") or platform.node(),
        "hardware": hardware(device),
    }
    if device.startswith("cuda"):
        import torch

        found |= {"driver": driver(), "cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    return found


def provenance(device: str, threads: int, precision: str) -> dict[str, Any]:
    """Commit, versions, hardware, threads and arithmetic of this process."""
    sha, dirty = commit()
    return {
        "commit": sha,
        "dirty": dirty,
        "versions": versions(),
        "lock": lock()[0],
        "off_lock": sorted(lock()[1]),  # packages whose version is not the lock's
        "hardware": hardware(device),
        "device": device,
        "threads": threads,
        "precision": precision,
        "slurm_job": os.environ.get("SLURM_JOB_ID", ""),
    }
