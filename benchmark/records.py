"""Records: the only truth. One directory a run; `record.json` comes last, and its presence means done.

`load(root)` gives all runs below a folder as one DataFrame, a row a run. Nothing in a results tree is ever executed
or unpickled by reading it, and nothing in it is trusted: every record is checked against its schema, its own hash and
the folder it lies in. What was checked is remembered in the user's own cache, not in the tree, which may be a stranger's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark import schema, study
from benchmark.claim import is_stale
from benchmark.errors import UserError
from benchmark.files import read_object, replacing, shown, write_json, write_text
from benchmark.selection import RULES, STATISTICS, VALIDATORS, column_of
from benchmark.spec import RunSpec, canonical_json
from benchmark.study import read_bytes, read_json

FORMAT = 1
# accuracies by rule and the validators' scores at the last point: `last`, `final_unsup`, … with the statistics that the
# loop leaves behind, `target_last`, `target_final_unsup`, … with those of target training images
ACCURACIES = [column_of(rule, statistics) for statistics in STATISTICS for rule in RULES]
FINAL = [column_of(f"final_{validator}", statistics) for statistics in STATISTICS for validator in VALIDATORS]
COLUMNS = [
    "run_id", "suite", "tier", "method", "preset", "standard", "target", "split",
    "seed", "status", *ACCURACIES, *FINAL, "updates", "seconds",
    "images_per_s", "commit", "data_fingerprint", "sources", "title", "revision", "protocol", "tuned",
    "threads", "overrides", "passes", "cpu_seconds", "peak_memory_mb", "reason", "path", "generated",
    "note", "dirty", "warnings", "eval_points", "weights", "target_share", "a_zero",
]  # fmt: skip
WHOLE = ("seed", "updates", "protocol", "threads", "eval_points")
YES_NO = ("dirty", "a_zero")
REAL = (*ACCURACIES, *FINAL, "seconds", "images_per_s", "passes", "cpu_seconds", "peak_memory_mb", "target_share")
TYPES = {
    **dict.fromkeys([*(c for c in COLUMNS if c != "path"), "stamp", "place"], "str"),
    **dict.fromkeys(WHOLE, "Int64"),
    **dict.fromkeys(YES_NO, "boolean"),
    **dict.fromkeys(REAL, "float64"),
}
HASHED = "record"
SEALED = {"spec": "spec.json", "curve": "curve.jsonl", "artifacts": "artifacts.npz"}  # `hashes` of a record
INDEX_FROM = 50  # runs; a smaller tree is read at once


@dataclass(frozen=True)
class Record:
    """A finished run: its directory and the document of `record.json`."""

    path: Path
    document: Mapping[str, Any]

    @property
    def run_id(self) -> str:
        """Identity of the run."""
        return str(self.document["run_id"])

    @property
    def accuracy(self) -> Mapping[str, float]:
        """Target-test accuracy in percent by selection rule."""
        return self.document["accuracy"]

    def __getitem__(self, key: str) -> Any:
        return self.document[key]

    def changed_files(self) -> list[str]:
        """Files of the run that are not what its record says they were; artifacts may be absent."""
        changed = []
        for name, file in SEALED.items():
            wanted, found = self.document["hashes"].get(name), file_hash(self.path / file)
            gone = name == "artifacts" and not study.exists(self.path / file)
            if wanted is not None and wanted != found and not gone:
                changed.append(file)
        return changed

    @property
    def curve(self) -> list[dict[str, Any]]:
        """The evaluation points."""
        return read_curve(self.path)


def run_directory(root: Path, spec: RunSpec, run_id: str) -> Path:
    """`<root>/<suite>/<tier>/<run_id>`; a suite file of the user's own counts by its name."""
    return root / suite_folder(spec.suite) / spec.tier / run_id


def suite_folder(suite: str) -> str:
    """The folder of a suite."""
    return Path(suite).stem if suite.endswith(".toml") else suite


def read(directory: Path) -> Record | None:
    """The record of a run directory, or None when there is none; a damaged one is an error that names it."""
    path = directory / "record.json"
    document = read_json(path)
    if document is None:
        if study.exists(path):
            raise UserError(f"{path} is damaged. Type: python -m benchmark audit {directory}")
        return None
    fault = check(document) or misplaced(document, directory) or study.mislabelled(directory, document)
    if fault:
        raise UserError(f"{path} is not a record of this suite: {fault}.")
    return Record(directory, document)


def check(document: Any) -> str:
    """What is wrong with a record's document, in words; empty when it is right."""
    fault = schema.record_fault(document)
    if not fault and document["hashes"][HASHED] != document_hash(document):
        fault = "its content does not match its own hash: it was changed after the run"
    return fault


def misplaced(document: Mapping[str, Any], directory: Path) -> str:
    """A record lies in `<suite>/<tier>/<run_id>`: what is wrong with its place, in words."""
    *_, suite, tier, name = directory.absolute().parts
    there = (suite, tier, name)
    wanted = (suite_folder(document["spec"]["suite"]), document["spec"]["tier"], document["run_id"])
    return "" if there == wanted else f"it belongs into {'/'.join(wanted)}, not {'/'.join(there)}"


def document_hash(document: Mapping[str, Any]) -> str:
    """sha256 over everything but the hash itself."""
    rest = {**document, "hashes": {k: v for k, v in document["hashes"].items() if k != HASHED}}
    return hashlib.sha256(canonical_json(rest).encode()).hexdigest()


def write(directory: Path, document: dict[str, Any]) -> Record:
    """Seal a run: hashes over its files and the record, then record.json, last of all files."""
    hashes = {name: file_hash(directory / file) for name, file in SEALED.items()}
    document = {**document, "format": FORMAT, "hashes": hashes}
    document["hashes"] = {**hashes, HASHED: document_hash(document)}
    write_json(directory / "record.json", document)
    return Record(directory, document)


def file_hash(path: Path) -> str:
    """sha256 of a file; empty when it is absent or no plain file."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except OSError:
        return ""


def read_curve(directory: Path) -> list[dict[str, Any]]:
    """All whole rows of curve.jsonl; a torn or senseless line ends it."""
    rows: list[dict[str, Any]] = []
    try:
        text = read_bytes(directory / "curve.jsonl").decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return rows
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            break
        if schema.row_fault(row):
            break
        rows.append(row)
    return rows


def final_scores(directory: Path) -> dict[str, float]:
    """The validators' scores at the last evaluation point of a finished run, by column; what its curve lacks is left out."""
    try:
        row = json.loads(read_bytes(directory / "curve.jsonl").rstrip(b"\n").rpartition(b"\n")[2])
    except (OSError, ValueError, RecursionError):
        return {}
    if schema.row_fault(row):
        return {}
    points = {"running": row, **row.get("statistics", {})}
    return {
        column_of(f"final_{validator}", statistics): float(points[statistics][validator])
        for statistics in STATISTICS
        for validator in VALIDATORS
        if points.get(statistics, {}).get(validator) is not None
    }


def write_curve(directory: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the curve, atomically: it is a few kilobytes."""
    write_text(directory / "curve.jsonl", "".join(canonical_json(r) + "\n" for r in rows))


# -- everything as one table ---------------------------------------------------------------------------------------


def run_directories(root: Path) -> Iterator[os.DirEntry[str] | study.Place]:
    """All runs of a results folder, `<suite>/<tier>/<run_id>`: its directories, without following links, and its study's."""
    on_disk = (run for suite in _folders(root) for tier in _folders(suite.path) for run in _folders(tier.path))
    if not study.is_study(root):
        yield from on_disk
        return
    found: dict[str, os.DirEntry[str] | study.Place] = {place.path: place for place in study.places(root)}
    found.update((entry.path, entry) for entry in on_disk)
    yield from (found[path] for path in sorted(found))


def _folders(path: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            found = [e for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(found, key=lambda e: e.name)


def load(root: str | Path) -> pd.DataFrame:
    """All runs below `root`, a row a run; accuracies in percent. Runs that are not done have a status and a reason."""
    root = Path(root)
    index = _read_index(root)
    known = dict(zip(index["place"].tolist(), enumerate(index["stamp"].tolist()), strict=True))
    order: list[int] = []  # of the runs on disk, by their position in the index and, behind it, in `fresh`
    fresh: list[dict[str, Any]] = []
    packed = study.stamp(root)
    for entry in run_directories(root):
        place = entry.path[len(str(root)) + 1 :]
        stamp = packed if isinstance(entry, study.Place) else _stamp(entry.path)
        position, then = known.get(place, (0, ""))
        if stamp and stamp == then:
            order.append(position)
        elif row := _row(Path(entry.path)):
            order.append(len(index) + len(fresh))
            fresh.append({**row, "stamp": stamp, "place": place})
    frame = (pd.concat([index, _typed(fresh)]) if fresh else index).iloc[order].reset_index(drop=True)
    if len(frame) >= INDEX_FROM and (len(frame) - len(fresh) < len(index) or any(r["status"] == "done" for r in fresh)):
        _write_index(root, frame[frame["status"] == "done"])
    frame["path"] = str(root) + os.sep + frame["place"]
    frame = _plain(frame)[COLUMNS]
    if words := study.missing(root):
        frame.attrs["incomplete"] = words  # goes where the rows go: every table says it first
    return frame


def _typed(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as the index stores them: one type a column, whatever is missing."""
    return pd.DataFrame(rows, columns=list(TYPES), dtype=object).astype(TYPES)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Whole numbers and switches as numpy has them; floats and objects where some are missing."""
    for column in (*WHOLE, *YES_NO):
        whole = "int64" if column in WHOLE else "bool"
        some = "float64" if column in WHOLE else "object"
        frame[column] = frame[column].astype(some if frame[column].hasnans else whole)
    return frame


def _stamp(directory: str) -> str:
    """Changes when a file changes that the row of a finished run is made from; empty without a record."""
    record = _file_stamp(f"{directory}/record.json")
    return record and f"{record} {_file_stamp(f'{directory}/curve.jsonl')}"


def _file_stamp(path: str) -> str:
    """The inode's own clock is in it: a file that was given back its old date is still another one."""
    try:
        s = os.stat(path)
    except OSError:
        return ""
    return f"{s.st_mtime_ns}:{s.st_ctime_ns}:{s.st_size}:{s.st_ino}"


def _row(directory: Path) -> dict[str, Any] | None:
    """One run as a row; None for a folder that holds no run."""
    if not re.fullmatch(schema.RUN_ID, directory.name):
        return None
    spec = read_json(directory / "spec.json")
    fault = schema.spec_fault(spec)
    row = _spec_row(spec if isinstance(spec, dict) and not fault else {}, directory.name)
    try:
        record = read(directory)
    except UserError as error:
        return {**row, "status": "damaged", "reason": str(error)}
    if record is not None:
        return {**record_row(record.document), **final_scores(directory)}
    if not study.exists(directory / "spec.json"):
        return None
    if fault:
        return {**row, "status": "damaged", "reason": f"{directory / 'spec.json'} is no spec of this suite: {fault}."}
    failure = read_object(directory / "failure.json")
    if failure:
        told = {key: _text(failure.get(key)) for key in ("reason", "commit")}
        return {**row, "status": "failed", **told}
    claim = read_object(directory / "claim.json")
    running = bool(claim) and not is_stale(claim, directory / "claim.json", time.time())
    return {**row, "status": "running" if running else "interrupted"}


def _text(value: Any) -> str:
    """Text from a file whose shape nobody checked, fit for a table."""
    return shown(value or "")[:4096]


def _spec_row(spec: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    keys = ("suite", "tier", "method", "preset", "standard", "target", "split", "seed", "threads", "tuned")
    row = {k: spec.get(k) for k in keys}
    row["sources"] = ",".join(map(str, spec.get("sources") or ()))
    row["overrides"] = canonical_json(spec.get("overrides") or {})
    return {**dict.fromkeys(COLUMNS), **row, "run_id": run_id, "data_fingerprint": spec.get("data")}


def record_row(document: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a finished run."""
    cost, provenance, data = document["cost"], document["provenance"], document["data"]
    zero = document.get("diagnostics", {}).get("a_zero_whole_run")
    row = _spec_row(document["spec"], document["run_id"])
    scored = {"running": document, **document.get("statistics", {})}
    for statistics in STATISTICS:
        accuracy = scored.get(statistics, {}).get("accuracy", {})
        row.update({column_of(rule, statistics): accuracy.get(rule) for rule in RULES})
    for key in ("updates", "seconds", "images_per_s", "passes", "cpu_seconds", "peak_memory_mb"):
        row[key] = cost.get(key)
    row.update(
        status="done",
        commit=provenance.get("commit"),
        dirty=bool(provenance.get("dirty")),
        data_fingerprint=data.get("fingerprint"),
        generated=",".join(map(str, data.get("generated") or ())),
        note=data.get("note"),
        title=document.get("title"),
        revision=str(document.get("revision")),
        protocol=document.get("protocol"),
        warnings=json.dumps(document.get("warnings") or []),
        eval_points=cost.get("eval_points"),
        weights=document.get("weights"),
        target_share=data.get("target_share"),
        a_zero=None if zero is None else bool(zero),
    )
    return row


# -- what was checked before: an index in the user's cache ----------------------------------------------------------


def _index_path(root: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "msda-benchmark" / "records"
    return cache / f"{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:24]}.parquet"


def _read_index(root: Path) -> pd.DataFrame:
    """Finished runs as they were last seen; a row counts as long as its stamp is that of the files."""
    with contextlib.suppress(Exception):  # a convenience: absent, torn or of another version, it is made anew
        frame = pd.read_parquet(_index_path(root))
        if frame.dtypes.astype(str).to_dict() == TYPES:
            return frame
    return _typed([])


def _write_index(root: Path, frame: pd.DataFrame) -> None:
    """Replaced as a whole: of several processes the last one stands, and what it lacks is read again."""
    path = _index_path(root)
    with contextlib.suppress(OSError), replacing(path, durable=False) as temporary:
        frame.to_parquet(temporary, index=False)
    with contextlib.suppress(OSError):
        for old in path.parent.glob("*.parquet"):  # of trees that nobody has looked at for long
            if time.time() - old.stat().st_mtime > 30 * 86400:
                old.unlink(missing_ok=True)
