"""Trust, but verify: run a finished spec again and compare bit by bit; render a study's tables again and compare."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark import records
from benchmark.errors import UserError
from benchmark.report.publish import documents, quoted, rendered
from benchmark.run import execute
from benchmark.spec import RunSpec, load_suite
from methods.contract import method_revision


@dataclass(frozen=True)
class Finding:
    """One thing that was compared."""

    what: str
    same: bool
    words: str


def rerun(directory: Path, *, data_root: Path | None, device: str = "cpu", watch: Any = None) -> list[Finding]:
    """Execute the spec of a finished run in a fresh folder: accuracies, curve and weights must be the same bits."""
    record = records.read(directory)
    if record is None:
        raise UserError(f"{directory} has no record yet: only a finished run can be verified.")
    check_revision(record)
    spec = RunSpec.from_json(record["spec"])
    with tempfile.TemporaryDirectory(prefix="verify-") as folder:
        again = execute(spec, results=folder, data_root=data_root, device=device, watch=watch)
        same_machine = again["provenance"]["hardware"] == record["provenance"]["hardware"]
        note = "" if same_machine else " (another kind of machine: small differences are expected)"
        accuracy = {rule: again["accuracy"][rule] for rule in record["accuracy"]}
        curve = [{k: row[k] for k in old} for old, row in zip(record.curve, again.curve, strict=False)]
        checks = {  # a later protocol says more of a run: what the record says must be the same
            "accuracies": (record["accuracy"], accuracy),
            "curve": (record.curve, curve),
            "weights": (record["weights"], again["weights"]),
        }
        return [
            Finding(f"{record.run_id} {name}", old == new, ("the same bits" if old == new else f"different{note}"))
            for name, (old, new) in checks.items()
        ]


def check_revision(record: records.Record) -> None:
    """Only the revision that made a record can make it again."""
    now = method_revision(record["spec"]["method"])
    if record["revision"] != now:
        raise UserError(
            f"{record.run_id} was made by revision {record['revision']} of {record['spec']['method']}, this is revision "
            f"{now}: its numbers moved since. Type: git checkout {record['provenance']['commit'][:12]}"
        )


def published(study: Path) -> list[Finding]:
    """Every table of the study rendered again from its records."""
    if not any(study.glob("*/*/*/record.json")):
        raise UserError(f"{study} holds no records. Publish a study with: python -m benchmark publish NAME")
    older = older_protocol(study)
    if older:
        return [Finding(study.name, True, f"made under protocol {older}: its tables stay as they were published")]
    findings = []
    for name, content in rendered(study).items():
        path = study / name
        same = path.exists() and path.read_bytes() == content
        words = "current" if same else "missing" if not path.exists() else "not what the records say"
        findings.append(Finding(str(Path(study.name) / name), same, words))
    return findings


def older_protocol(study: Path) -> int:
    """The protocol of a study that was measured in an older way than the suites measure now; 0 for one of today's.

    The suites' files have changed since, and with them what a caption says: rendered again, the tables would say it wrongly.
    """
    frame = records.load(study)
    done = frame[frame.status == "done"]
    pairs = {(str(suite), int(protocol)) for suite, protocol in zip(done.suite, done.protocol, strict=True)}
    older = [protocol for suite, protocol in pairs if protocol < load_suite(suite).protocol]
    return max(older) if len(older) == len(pairs) else 0


def texts(studies: Path) -> list[Finding]:
    """README.md and the texts among the studies: what they quote is what was published."""
    findings = []
    for path in documents(studies):
        text = path.read_text(encoding="utf-8")
        same = quoted(text, studies.parent) == text
        findings.append(Finding(path.name, same, "quotes what was published" if same else "quotes other numbers"))
    return findings
