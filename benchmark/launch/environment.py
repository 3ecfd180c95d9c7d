"""What would have to be the same to get a study's bits again, and how this machine stands to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark import records
from benchmark.errors import UserError
from benchmark.launch import device
from benchmark.run.provenance import commit, cpu_name, driver, lock, versions

UNRECORDED = "not recorded"


@dataclass(frozen=True)
class Condition:
    """One thing that can move a number: what the study's runs had (most frequent first), and what is here."""

    what: str
    study: tuple[str, ...]
    here: str

    @property
    def same(self) -> bool:
        """Whether every run of the study had what is here."""
        return self.study == (self.here,)


def conditions(root: Path) -> list[Condition]:
    """Code, packages, lock, processor of the finished runs below `root`, each beside this machine's."""
    found = [_provenance(Path(run.path)) for run in records.run_directories(root)]
    done = [p for p in found if p]
    if not done:
        raise UserError(f"There is no finished run in {root}. Name a study, e.g. results/study, or a results folder.")
    here = versions()
    names = sorted({name for p in done for name in p.get("versions", {})} | here.keys())
    return [
        Condition("commit", _said(_state(p.get("commit"), p.get("dirty")) for p in done), _state(*commit())),
        *(Condition(n, _said(p.get("versions", {}).get(n) for p in done), here.get(n, "not installed")) for n in names),
        Condition("requirements.lock", _said(p.get("lock") for p in done), lock()[0] or "no lock file"),
        Condition("off the lock", _said(_names(p.get("off_lock", ())) for p in done), _names(lock()[1])),
        *_hardware(done),
    ]


def _hardware(done: list[dict[str, Any]]) -> list[Condition]:
    """The processor of runs on CPUs; of runs on GPUs the GPU, and the driver that chooses its kernels."""
    on_gpu = [p for p in done if str(p.get("device", "")).startswith("cuda")]
    on_cpu = [p for p in done if p not in on_gpu]
    found = [Condition("processor", _said(p.get("hardware") for p in on_cpu), cpu_name())] if on_cpu else []
    if on_gpu:
        names = sorted({re.sub(r"^GPU \d+ \((.*)\)$", r"\1", gpu.name) for gpu in device.survey() if not gpu.fault})
        drivers = _said(start.get("driver") for p in on_gpu for start in p.get("starts", [{}])[-1:])
        found.append(Condition("GPU", _said(p.get("hardware") for p in on_gpu), ", ".join(names) or "none"))
        found.append(Condition("driver", drivers, driver() or "none"))
    return found


def _state(sha: Any, dirty: Any) -> str:
    return f"{sha or UNRECORDED}{' with changes' if dirty else ''}"


def _names(packages: Iterable[str]) -> str:
    return ", ".join(sorted(packages)) or "none"


def _provenance(directory: Path) -> dict[str, Any]:
    record = records.read(directory)
    return dict(record["provenance"]) if record else {}


def _said(values: Any) -> tuple[str, ...]:
    return tuple(value for value, _ in Counter(str(v or UNRECORDED) for v in values).most_common())


NEXT = {  # what to type, or to know, when something differs
    "commit": "git checkout that commit",
    "processor": "another processor may round differently",
    "GPU": "another GPU may round differently",
    "driver": "another driver may choose other kernels",
}


def _install(condition: Condition, locked: bool) -> str:
    """How to come to a package's version; a study from before the lock file has only its versions to go by."""
    if locked:
        return "at the study's commit: make clean setup LOCKED=1"
    version = condition.study[0]
    if version == UNRECORDED:
        return "the study does not say"
    return f"pip install {condition.what}=={version}"


def findings(root: Path) -> list[dict[str, Any]]:
    """Where this environment differs from that of a study, in the form in which `doctor` speaks."""
    every = conditions(root)
    locked = next(c for c in every if c.what == "requirements.lock").study != (UNRECORDED,)
    found = [
        {
            "what": c.what,
            "ok": False,
            "found": f"{c.here}; {root} has {', '.join(c.study)}",
            "next": NEXT.get(c.what) or _install(c, locked),
        }
        for c in every
        if not c.same
    ]
    return found or [{"what": "environment", "ok": True, "found": f"that of {root}", "next": ""}]
