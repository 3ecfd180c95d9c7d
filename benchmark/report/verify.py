"""Trust, but verify: run a finished spec again and compare bit by bit; render a study's tables again and compare."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from benchmark import records
from benchmark.errors import UserError
from benchmark.records import bundle
from benchmark.records import study as archive
from benchmark.records.merge import TRIALS
from benchmark.report.publish import documents, quoted, rendered
from benchmark.run import execute
from benchmark.spec import RunSpec, load_suite
from methods.contract import method_revision

# of the larger number. Another kind of processor adds in another order where a library picks its kernels by the processor (the
# domain classifier of DEV): measured 6e-9 between two generations of one maker, with every weight of the network the same bits
ROUNDING = 1e-6


@dataclass(frozen=True)
class Finding:
    """One thing that was compared."""

    what: str
    same: bool
    words: str


def rerun(directory: Path, *, data_root: Path | None, device: str = "cpu", watch: Any = None) -> list[Finding]:
    """Execute the spec of a finished run in a fresh folder: accuracies, curve and weights must be the same bits.

    Other numbers of the curve may be rounded otherwise on another kind of machine; accuracies and weights may not.
    """
    record = records.read(directory)
    if record is None:
        raise UserError(f"{directory} has no record yet: only a finished run can be verified.")
    check_revision(record)
    spec = RunSpec.from_json(record["spec"])
    with tempfile.TemporaryDirectory(prefix="verify-") as folder:
        again = execute(spec, results=folder, data_root=data_root, device=device, watch=watch)
        there, here = record["provenance"]["hardware"], again["provenance"]["hardware"]
        machines = "" if there == here else f" (made on {there}; this is {here})"
        accuracy = {rule: again["accuracy"][rule] for rule in record["accuracy"]}
        curve = [{k: row[k] for k in old} for old, row in zip(record.curve, again.curve, strict=False)]
        checks = {  # a later protocol says more of a run: what the record says must be the same
            "accuracies": (record["accuracy"], accuracy, 0.0),
            "curve": (record.curve, curve, ROUNDING if machines else 0.0),
            "weights": (record["weights"], again["weights"], 0.0),
        }
        return [_compared(f"{record.run_id} {name}", *check, machines) for name, check in checks.items()]


def _compared(what: str, then: Any, now: Any, tolerance: float, machines: str) -> Finding:
    """The same bits; or, where rounding is borne, the same numbers, with the names of those that are not the same bits."""
    apart = list(_apart(then, now))
    if not apart:
        return Finding(what, True, "the same bits")
    if all(share <= tolerance for _, share in apart):
        names, most = ", ".join(sorted({name for name, _ in apart})), max(share for _, share in apart)
        return Finding(what, True, f"the same but for rounding, at most {most:.0e} of a number, in {names}{machines}")
    return Finding(what, False, f"different{machines}")


def _apart(then: Any, now: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Where two values differ, and by which share of the larger number; by infinity where they are no two numbers."""
    if isinstance(then, dict) and isinstance(now, dict) and then.keys() == now.keys():
        for key in then:
            yield from _apart(then[key], now[key], str(key))
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for one, other in zip(then, now, strict=True):
            yield from _apart(one, other, name)
    elif isinstance(then, float) and isinstance(now, float) and then != now:
        yield name, abs(then - now) / max(abs(then), abs(now))
    elif then != now:
        yield name, inf


def check_revision(record: records.Record) -> None:
    """Only the protocol and the revision that made a record can make it again."""
    if older(record["spec"]["suite"], record.document.get("protocol")):
        raise UserError(
            f"{record.run_id} was made under protocol {record['protocol']} of suite {record['spec']['suite']}, which has "
            f"moved on since. Type: git checkout {record['provenance']['commit'][:12]}"
        )
    now = method_revision(record["spec"]["method"])
    if record["revision"] != now:
        raise UserError(
            f"{record.run_id} was made by revision {record['revision']} of {record['spec']['method']}, this is revision "
            f"{now}: its numbers moved since. Type: git checkout {record['provenance']['commit'][:12]}"
        )


def studies(root: Path) -> list[Path]:
    """The published studies of a folder, bundles among them; or the one bundle that `root` is."""
    if bundle.is_bundle(root):
        return [root]
    found = (path for path in root.glob("*") if path.is_dir() or bundle.is_bundle(path))
    return sorted(path for path in found if any(records.run_directories(path)))


def published(study: Path) -> list[Finding]:
    """The seal of every record of a study, and every table rendered again.

    The suites have moved on since a study of an older protocol: it keeps the tables that it was published with.
    """
    runs, trials = ([Path(r.path) for r in records.run_directories(p)] for p in (study, study / TRIALS[1]))
    if not runs:
        raise UserError(f"{study} holds no records. Publish a study with: python -m benchmark publish NAME")
    # a run that is not done has nothing that could be sealed
    found = [_sealed(run) for run in (*runs, *trials) if archive.exists(run / "record.json")]
    broken = [f for f in found if isinstance(f, Finding)]
    documents = [f.document for f in found if isinstance(f, records.Record)]
    sealed = Finding(study.name, True, f"{len(documents)} records, each with the files and the hash it was sealed with")
    made = {(document["spec"]["suite"], document.get("protocol")) for document in documents}
    if made and all(older(*pair) for pair in made):
        then = ", ".join(sorted({f"protocol {protocol}" for _, protocol in made}))
        return [*broken, sealed, *_kept(study, f"as published under {then}; the suites have moved on since")]
    return [*broken, sealed, *_current(study)]


def _sealed(run: Path) -> records.Record | Finding:
    """The record of a run, or what speaks against it."""
    try:
        record = records.read(run)
    except UserError as error:
        return Finding(str(run), False, str(error))
    changed = record.changed_files() if record else ["record.json"]
    if record is None or changed:
        return Finding(str(run), False, f"{', '.join(changed)}: not what the record was sealed with")
    return record


def older(suite: str, protocol: int | None) -> bool:
    """Whether a run is of an older protocol than its suite is now."""
    try:
        now = load_suite(suite).protocol
    except UserError:  # a suite file of the user's own that is no longer there
        return False
    return int(protocol or 0) < now


def _kept(study: Path, words: str) -> list[Finding]:
    """The tables of a study as study.json has their hashes."""
    then, now = archive.read_object(study / "study.json").get("tables"), archive.tables(study)
    names = sorted({*(then if isinstance(then, dict) else {}), *now})
    same = {name: isinstance(then, dict) and then.get(name) == now.get(name) for name in names}
    return [Finding(f"{study.name}/{name}", ok, words if ok else "not as published") for name, ok in same.items()]


def _current(study: Path) -> list[Finding]:
    findings = []
    for name, content in rendered(study).items():
        there = bundle.is_file(study / name)
        same = there and bundle.read_bytes(study / name) == content
        words = "current" if same else "missing" if not there else "not what the records say"
        findings.append(Finding(str(Path(study.name) / name), same, words))
    return findings


def texts(studies: Path) -> list[Finding]:
    """README.md and the texts among the studies: what they quote is what was published."""
    findings = []
    for path in documents(studies):
        text = path.read_text(encoding="utf-8")
        same = quoted(text, studies.parent) == text
        findings.append(Finding(path.name, same, "quotes what was published" if same else "quotes other numbers"))
    return findings
