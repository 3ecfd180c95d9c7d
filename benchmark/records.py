"""Records: the only truth. One directory a run; `record.json` comes last, and its presence means done.

`load(root)` gives all runs below a folder as one DataFrame, a row a run, from an index that is made anew when a file
has changed. Nothing in a results tree is ever executed or unpickled by reading it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.errors import UserError
from benchmark.files import read_json, write_json, write_text
from benchmark.selection import RULES
from benchmark.spec import RunSpec, canonical_json

FORMAT = 1
COLUMNS = (
    "run_id suite tier method preset standard target split seed status last source_val unsup oracle updates seconds "
    "images_per_s commit data_fingerprint sources title revision protocol tuned threads overrides passes cpu_seconds "
    "peak_memory_mb reason path generated note dirty warnings eval_points weights"
).split()
HASHED = "record"


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

    @property
    def curve(self) -> list[dict[str, Any]]:
        """The evaluation points."""
        return read_curve(self.path)


def run_directory(root: Path, spec: RunSpec, run_id: str) -> Path:
    """`<root>/<suite>/<tier>/<run_id>`; a suite file of the user's own counts by the suite's name."""
    suite = Path(spec.suite).stem if spec.suite.endswith(".toml") else spec.suite
    return root / suite / spec.tier / run_id


def read(directory: Path) -> Record | None:
    """The record of a run directory, or None when there is none; a damaged one is an error that names it."""
    document = read_json(directory / "record.json")
    if document is None:
        if (directory / "record.json").exists():
            raise UserError(f"{directory / 'record.json'} is damaged. Type: python -m benchmark audit {directory}")
        return None
    fault = check(document)
    if fault:
        raise UserError(f"{directory / 'record.json'} is not a record of this suite: {fault}")
    return Record(directory, document)


def check(document: Any) -> str:
    """What is wrong with a record's document, in words; empty when it is right."""
    if not isinstance(document, dict):
        return "it is not a JSON object."
    if document.get("format") != FORMAT:
        return f"its format is {document.get('format')!r}, not {FORMAT}."
    wanted = {
        "run_id": str,
        "spec": dict,
        "accuracy": dict,
        "cost": dict,
        "data": dict,
        "provenance": dict,
        "hashes": dict,
    }
    for key, kind in wanted.items():
        if not isinstance(document.get(key), kind):
            return f"{key} is missing or not a {kind.__name__}."
    for rule in RULES:
        value = document["accuracy"].get(rule)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 100:
            return f"accuracy.{rule} is {value!r}, not a number from 0 to 100."
    for key in ("suite", "tier", "method", "target"):
        if not isinstance(document["spec"].get(key), str):
            return f"spec.{key} is missing or not text."
    if document["hashes"].get(HASHED) != document_hash(document):
        return "its content does not match its own hash: it was changed after the run."
    return ""


def document_hash(document: Mapping[str, Any]) -> str:
    """sha256 over everything but the hash itself."""
    rest = {**document, "hashes": {k: v for k, v in document["hashes"].items() if k != HASHED}}
    return hashlib.sha256(canonical_json(rest).encode()).hexdigest()


def write(directory: Path, document: dict[str, Any]) -> Record:
    """Seal a run: hashes over spec, curve and record, then record.json, last of all files."""
    hashes = {name: file_hash(directory / file) for name, file in (("spec", "spec.json"), ("curve", "curve.jsonl"))}
    document = {**document, "format": FORMAT, "hashes": hashes}
    document["hashes"] = {**hashes, HASHED: document_hash(document)}
    write_json(directory / "record.json", document)
    return Record(directory, document)


def file_hash(path: Path) -> str:
    """sha256 of a file; empty when it is absent."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def read_curve(directory: Path) -> list[dict[str, Any]]:
    """All whole rows of curve.jsonl; a torn last line is left out."""
    rows = []
    with contextlib.suppress(FileNotFoundError):
        for line in (directory / "curve.jsonl").read_text(encoding="utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
    return rows


def write_curve(directory: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the curve, atomically: it is a few kilobytes."""
    write_text(directory / "curve.jsonl", "".join(canonical_json(r) + "\n" for r in rows))


# -- everything as one table ---------------------------------------------------------------------------------------


def run_directories(root: Path) -> Iterator[os.DirEntry[str]]:
    """All run directories below a results folder, `<suite>/<tier>/<run_id>`, without following links."""
    for suite in _folders(root):
        for tier in _folders(suite.path):
            yield from _folders(tier.path)


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
    rows, changed = [], False
    for entry in run_directories(root):
        stamp = _stamp(entry.path)
        known = index.get(entry.path[len(str(root)) + 1 :])
        if known is not None and known["stamp"] == stamp and known["status"] in ("done", "damaged"):
            rows.append(known)
            continue
        row = _row(Path(entry.path))
        if row is None:
            continue
        changed = changed or row["status"] in ("done", "damaged")
        rows.append({**row, "stamp": stamp, "place": entry.path[len(str(root)) + 1 :]})
    if changed or len(index) > len(rows):
        _write_index(root, rows)
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "place"])
    frame["path"] = str(root) + os.sep + frame["place"].astype(str)
    return frame.drop(columns="place")


def _stamp(directory: str) -> str:
    try:
        stat = os.stat(f"{directory}/record.json")
    except OSError:
        return ""
    return f"{stat.st_mtime_ns}:{stat.st_size}"


def _row(directory: Path) -> dict[str, Any] | None:
    """One run as a row; None for a folder that holds no run."""
    try:
        record = read(directory)
    except UserError as error:
        spec = read_json(directory / "spec.json")
        return {
            **_spec_row(spec if isinstance(spec, dict) else {}, directory.name),
            "status": "damaged",
            "reason": str(error),
        }
    if record is not None:
        return record_row(record.document)
    spec = read_json(directory / "spec.json")
    if not isinstance(spec, dict):
        return None
    failure = read_json(directory / "failure.json")
    row = _spec_row(spec, directory.name)
    if isinstance(failure, dict):
        return {
            **row,
            "status": "failed",
            "reason": str(failure.get("reason", "")),
            "commit": str(failure.get("commit", "")),
        }
    claim = read_json(directory / "claim.json")
    from benchmark.claim import is_stale

    running = isinstance(claim, dict) and not is_stale(claim, directory / "claim.json")
    return {**row, "status": "running" if running else "interrupted"}


def _spec_row(spec: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    keys = ("suite", "tier", "method", "preset", "standard", "target", "split", "seed", "threads", "tuned")
    row = {k: spec.get(k) for k in keys}
    row["sources"] = ",".join(map(str, spec.get("sources") or ()))
    row["overrides"] = canonical_json(spec.get("overrides") or {})
    return {**dict.fromkeys(COLUMNS), **row, "run_id": run_id, "data_fingerprint": spec.get("data")}


def record_row(document: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a finished run."""
    cost, provenance, data = document["cost"], document["provenance"], document["data"]
    row = _spec_row(document["spec"], document["run_id"])
    row.update({rule: float(document["accuracy"][rule]) for rule in RULES})
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
    )
    return row


def _read_index(root: Path) -> dict[str, dict[str, Any]]:
    try:
        frame = pd.read_parquet(root / ".index.parquet")
        if set(frame.columns) != {*COLUMNS, "stamp", "place"}:
            return {}
        return {row["place"]: row for row in frame.astype(object).where(frame.notna(), None).to_dict("records")}
    except Exception:  # the index is a convenience: absent, torn or foreign, it is made anew
        return {}


def _write_index(root: Path, rows: list[dict[str, Any]]) -> None:
    from benchmark.files import replacing

    with contextlib.suppress(OSError), replacing(root / ".index.parquet", durable=False) as temporary:
        frame = pd.DataFrame(
            [r for r in rows if r["status"] in ("done", "damaged")], columns=[*COLUMNS, "stamp", "place"]
        )
        frame.to_parquet(temporary)
