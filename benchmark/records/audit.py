"""Is everything below a folder what it says it is? Every record against its hashes, its curve, its identity, its place.

Nothing that is found is executed, followed or unpickled. `repair` does only what loses nothing: it removes what the
dead have left (temporary files, leases, checkpoints of finished runs) and moves runs whose record cannot be trusted to
`.quarantine/`, whole, with a note; they are run again when they are asked for again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark import records
from benchmark.errors import UserError
from benchmark.files import read_object, whole_zip, write_json
from benchmark.records import Record, Sent, State, StateName, artifacts, bundle, models, schema, study
from benchmark.records.lease import is_stale, server_time
from benchmark.records.selection import accuracies, scores
from benchmark.records.study import read_json
from benchmark.spec import canonical_json

FILES = (
    "spec.json", "curve.jsonl", "heartbeat.json", "checkpoint.pt", "failure.json", "artifacts.npz", "record.json",
    "lease.json",
)  # fmt: skip
QUARANTINE = ".quarantine"
TEMPORARY = re.compile(r"\..*\.(tmp|part)$")
OLD_SECONDS = 600.0  # a temporary file lives for the seconds of one write


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be. An `error` is evidence that cannot be trusted; the rest is for people."""

    level: str  # error, warning, note
    kind: str
    path: str
    words: str
    repair: str = ""  # what --repair does: remove, quarantine; empty when it is for people to decide
    repaired: bool = False


@dataclass(frozen=True)
class Audit:
    """What was looked at and what was found."""

    root: Path
    runs: int
    sound: int
    findings: list[Finding]
    states: dict[str, int]  # how many runs are done, failed, …


def audit(root: Path, queue: Mapping[str, Sent] | None = None) -> Audit:
    """Look at everything below `root`: a results folder, study, bundle, suite, or one run. `queue` as for `records.state`."""
    if not root.is_dir() and not bundle.is_bundle(root) and not study.names(root):
        raise UserError(f"There is no folder {root}. Type: python -m benchmark audit FOLDER")
    now = server_time(root)
    findings: list[Finding] = []
    sound: list[Record] = []
    states: Counter[str] = Counter()
    for folder, names in _folders(root):
        findings += _temporaries(folder, names, now)
        if study.RECORDS in names:
            findings += _unreadable(folder)
        findings += _of_no_run(folder, names) if bundle.is_bundle(root) else []
        if not set(names) & set(FILES):
            continue
        state = records.state(folder, queue, now)
        states[state.name.value] += 1
        found = _run(folder, names, state, now)
        if not folder.is_dir():  # in a study's files, which --repair leaves as they are
            found = [replace(f, repair="") for f in found]
        findings += found
        if state.record is not None and not any(f.level == "error" for f in found):
            sound.append(state.record)
    findings += _duplicates(sound) + _mixed(sound) + (_left_out(sound) if bundle.is_bundle(root) else [])
    order = {"error": 0, "warning": 1, "note": 2}
    findings.sort(key=lambda f: (order[f.level], f.kind, f.path))
    return Audit(root, states.total(), len(sound), findings, dict(states))


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Every folder with the names of its entries that are no folders; links are not followed, hidden ones left out."""
    if bundle.is_bundle(root):
        yield from _bundled(root)
        return
    packed: set[str] = set()
    for place, folders, _ in os.walk(root, followlinks=False):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        if place not in packed:
            with contextlib.suppress(OSError):
                yield Path(place), _beside(place)
        with contextlib.suppress(UserError):  # said by `_unreadable`
            runs = [run.path for run in study.places(place) if not os.path.lexists(f"{run.path}/record.json")]
            packed.update(runs)
            yield from ((Path(run), sorted({*study.names(run), *_beside(run)})) for run in runs)
    if not root.is_dir():
        yield root, study.names(root)


def _beside(place: str) -> list[str]:
    """The entries of a folder on disk that are no folders; of a run that a study has packed, a model may lie there."""
    if not os.path.isdir(place):
        return []
    with os.scandir(place) as entries:
        return sorted(e.name for e in entries if not e.is_dir(follow_symlinks=False))


def _bundled(archive: Path) -> Iterator[tuple[Path, list[str]]]:
    """The same of a bundle: the study, its trials, and every run, packed or with files of its own."""
    for place in (archive, archive / "trials"):
        yield place, bundle.names(place)
        runs = set(bundle.runs(archive)) if place == archive else set()
        with contextlib.suppress(UserError):  # said by `_unreadable`
            runs |= {run.path for run in study.places(place)}
        yield from ((Path(run), study.names(run)) for run in sorted(runs))


def _of_no_run(folder: Path, names: list[str]) -> list[Finding]:
    """Models of a bundle beside no record. On disk a run that was cut off at its end may have them; bundles leave those out."""
    bare = [] if study.exists(folder / "record.json") else [n for n in names if bundle.MODEL.fullmatch(n)]
    words = "a model of a run that has no record: no bundle of this suite has one"
    return [Finding("error", "model", str(folder / n), words) for n in bare]


def _left_out(sound: Iterable[Record]) -> list[Finding]:
    """Models that the records of a bundle seal and that it lacks: one note, since most go without."""
    lacking = [record.path / name for record in sound for name in models.absent(record)]
    words = f"{len(lacking)} models that records seal are not in the bundle (bundle --models takes them along)"
    return [Finding("note", "model", str(lacking[0]), words)] if lacking else []


def _unreadable(folder: Path) -> list[Finding]:
    """Files of a study that are none."""
    found = []
    for file in study.PARTS:
        try:
            study.stored(folder, file)
        except UserError as error:
            found.append(Finding("error", "study", str(folder / file), str(error)))
    return found


# -- one run --------------------------------------------------------------------------------------------------------


def _run(folder: Path, names: list[str], state: State, now: float) -> list[Finding]:
    """Everything that is wrong with one run directory."""
    found = [
        Finding("warning", "foreign", str(folder / n), "no run of this suite writes this file")
        for n in names
        if n not in FILES and not any(known.fullmatch(n) for known in (TEMPORARY, bundle.MODEL, models.CANDIDATE))
    ]
    links = [n for n in names if (folder / n).is_symlink()]
    found += [
        Finding("error", "link", str(folder / n), "a link: it may lead anywhere, and is not followed", "quarantine")
        for n in links
    ]
    found += _lease(folder, names, now)
    if not study.exists(folder / "record.json"):
        return found + _unfinished(folder, names, state)
    wrong = [state.fault] if state.record is None else _against(state.record)
    found += [Finding("error", "damaged", str(folder / "record.json"), words, "quarantine") for words in wrong]
    if not wrong:
        found += [
            Finding("warning", "leftover", str(folder / n), "of a run that is done", "remove")
            for n in names
            if n in ("checkpoint.pt", "failure.json") or models.CANDIDATE.fullmatch(n)
        ]
    if not wrong and "artifacts.npz" not in links and (fault := artifacts.examine(folder)[1]):
        words = f"{fault}: figures refuse these arrays. Take them away, and the record stands without"
        found.append(Finding("error", "artifacts", str(folder / "artifacts.npz"), words))
    others = models.faults(state.record, names) if state.record else {}
    return found + [Finding("error", "model", str(folder / n), words) for n, words in others.items()]


def _against(record: Record) -> list[str]:
    """Everything that speaks against a record that is sound by itself."""
    document = record.document
    wrong = [f"{file} is not the file that the record was made from" for file in record.changed_files()]
    if read_json(record.path / "spec.json") != document["spec"]:
        wrong.append("spec.json is another spec than the record's")
    curve = record.curve
    found = accuracies(curve) if curve else {}  # an older protocol had fewer rules
    if any(found.get(rule) != value for rule, value in document["accuracy"].items()):
        wrong.append("its accuracies are not those of its curve")
    for kind, said in document.get("statistics", {}).items():
        seen = accuracies(curve, kind) if curve and all(scores(row, kind) for row in curve) else {}
        if any(seen.get(rule) != value for rule, value in said["accuracy"].items()):
            wrong.append(f"its accuracies with {kind} statistics are not those of its curve")
    if identity(document) not in ("", document["run_id"]):
        wrong.append("its run_id is not the hash of its spec, values and data")
    return wrong


def identity(document: Mapping[str, Any]) -> str:
    """The run_id that follows from what a record holds; empty for a suite file of a user's own, whose name it lacks."""
    spec, resolved = dict(document["spec"]), document.get("resolved", {})
    if spec["suite"].endswith(".toml"):
        return ""
    if ".py:" in spec["method"]:
        spec["method"] = "file:" + spec["method"].rpartition(":")[2]
    parts = {
        "spec": spec,
        "hparams": resolved.get("hparams"),
        "settings": resolved.get("settings"),
        "protocol": document.get("protocol"),
        "revision": document.get("revision"),
    }
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]


def _lease(folder: Path, names: list[str], now: float) -> list[Finding]:
    path = folder / "lease.json"
    if "lease.json" not in names or not is_stale(read_object(path), path, now):
        return []
    return [Finding("warning", "lease", str(path), "of a process that is gone", "remove")]


def _unfinished(folder: Path, names: list[str], state: State) -> list[Finding]:
    """A run without a record: can it go on?"""
    found = []
    begins = state.name is StateName.RUNNING  # the lease is a run's first file, its spec the second
    fault = "" if state.spec or begins else state.fault or "there is none"
    if fault:
        found.append(Finding("error", "orphan", str(folder), f"files of a run, but no spec: {fault}", "quarantine"))
    elif not re.fullmatch(schema.RUN_ID, folder.name):
        found.append(Finding("warning", "orphan", str(folder), "its name is no run id: no command will find it"))
    if "checkpoint.pt" in names and not whole_zip(folder / "checkpoint.pt"):
        found.append(
            Finding("warning", "checkpoint", str(folder / "checkpoint.pt"), "damaged: the run will begin anew")
        )
    return found


def _temporaries(folder: Path, names: list[str], now: float) -> list[Finding]:
    """Temporary files whose writer is gone."""
    found = []
    for name in filter(TEMPORARY.match, names):
        with contextlib.suppress(OSError):
            if abs(now - (folder / name).lstat().st_mtime) > OLD_SECONDS:
                found.append(Finding("warning", "temporary", str(folder / name), "its writer is gone", "remove"))
    return found


# -- all runs together ------------------------------------------------------------------------------------------------


def _duplicates(sound: Iterable[Record]) -> list[Finding]:
    """The same run in several places: the same bits, or one of them is wrong."""
    places: dict[str, list[Record]] = defaultdict(list)
    for record in sound:
        places[record.run_id].append(record)
    found = []
    for run_id, same in places.items():
        if len(same) == 1:
            continue
        agree = len({(r.document["hashes"]["curve"], r.document.get("weights")) for r in same}) == 1
        words = f"{len(same)} records of this run, {'which agree' if agree else 'which do not agree'}: " + ", ".join(
            str(r.path) for r in same
        )
        found.append(Finding("note" if agree else "error", "duplicate", run_id, words))
    return found


def _mixed(sound: Iterable[Record]) -> list[Finding]:
    """What tables refuse to mix, and what a reader should know."""
    revisions: dict[tuple[str, ...], set[str]] = defaultdict(set)
    protocols: dict[tuple[str, ...], set[str]] = defaultdict(set)
    images: dict[tuple[str, ...], set[str]] = defaultdict(set)
    commits: set[str] = set()
    dirty = 0
    for record in sound:
        spec, provenance = record["spec"], record["provenance"]
        place: tuple[str, ...] = (spec["suite"], spec["tier"])
        revisions[(*place, spec["method"])].add(str(record.document.get("revision")))
        protocols[place].add(str(record.document.get("protocol")))
        images[(*place, spec.get("split", ""))].add(record["data"]["fingerprint"])
        commits.add(provenance["commit"])
        dirty += provenance["dirty"]
    found = []
    for what, groups in (("revisions", revisions), ("protocols", protocols), ("images", images)):
        for where, values in groups.items():
            if len(values) > 1:
                words = f"several {what}: {', '.join(sorted(values))}; tables refuse to mix them"
                found.append(Finding("warning", f"mixed {what}", " ".join(where), words))
    if dirty:
        found.append(
            Finding("warning", "dirty", "", f"{dirty} records were made by code that is in no commit (a dirty tree)")
        )
    if len(commits) > 1:
        found.append(Finding("note", "commits", "", f"records of {len(commits)} commits: {', '.join(sorted(commits))}"))
    return found


# -- repair -----------------------------------------------------------------------------------------------------------


def repair(result: Audit) -> Audit:
    """Do what each finding says can be done; runs that somebody is at are left alone."""
    done: list[Finding] = []
    for finding in result.findings:
        act = {"remove": _remove, "quarantine": _quarantine}.get(finding.repair)
        done.append(replace(finding, repaired=act(result.root, finding)) if act else finding)
    return replace(result, findings=done)


def _remove(root: Path, finding: Finding) -> bool:
    path = Path(finding.path)
    if finding.kind == "lease" and not is_stale(read_object(path), path):
        return False  # somebody has taken it over since
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _quarantine(root: Path, finding: Finding) -> bool:
    """Move the run's whole folder, so that what speaks against it stays together."""
    path = Path(finding.path)
    folder = path if finding.kind == "orphan" else path.parent
    if not folder.is_dir():
        return True  # another finding has moved it
    lease = folder / "lease.json"
    if lease.exists() and not is_stale(read_object(lease), lease):
        return False
    inside = folder.relative_to(root)
    home, place = (root, inside) if inside.parts else (root.parent, Path(root.name))
    target = home / QUARANTINE / place
    number = 1
    while os.path.lexists(target):
        number += 1
        target = home / QUARANTINE / place.with_name(f"{place.name}.{number}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(folder, target)
        write_json(target / "quarantine.json", {"from": str(folder), "why": finding.words, "time": time.time()})
    except OSError:
        return False
    return True
