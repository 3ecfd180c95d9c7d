"""What would have to be the same to get a study's bits again, and how this machine stands to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark import records
from benchmark.errors import UserError
from benchmark.run.provenance import commit, cpu_name, lock, versions

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
        Condition("commit", _said(p.get("commit") for p in done), commit()[0]),
        *(Condition(n, _said(p.get("versions", {}).get(n) for p in done), here.get(n, "not installed")) for n in names),
        Condition("requirements.lock", _said(p.get("lock") for p in done), lock()[0] or "no lock file"),
        Condition("processor", _said(p.get("hardware") for p in done), cpu_name()),
    ]


def _provenance(directory: Path) -> dict[str, Any]:
    record = records.read(directory)
    return dict(record["provenance"]) if record else {}


def _said(values: Any) -> tuple[str, ...]:
    return tuple(value for value, _ in Counter(str(v or UNRECORDED) for v in values).most_common())


NEXT = {  # what to type, or to know, when something differs
    "commit": "git checkout that commit",
    "processor": "another processor may round differently",
}


def findings(root: Path) -> list[dict[str, Any]]:
    """Where this environment differs from that of a study, in the form in which `doctor` speaks."""
    found = [
        {
            "what": c.what,
            "ok": False,
            "found": f"{c.here}; {root} has {', '.join(c.study)}",
            "next": NEXT.get(c.what, "at the study's commit: make clean setup LOCKED=1"),
        }
        for c in conditions(root)
        if not c.same
    ]
    return found or [{"what": "environment", "ok": True, "found": f"that of {root}", "next": ""}]
