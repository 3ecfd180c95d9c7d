"""One directory a run; `record.json` comes last, and its presence means done.

Nothing in a results tree is ever executed or unpickled by reading it, and nothing in it is trusted: every record is
checked against its schema, its own hash and the folder it lies in.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.errors import UserError
from benchmark.files import write_json, write_text
from benchmark.records import bundle, schema, study
from benchmark.records.study import read_bytes, read_json
from benchmark.spec import RunSpec, canonical_json

FORMAT = 1
HASHED = "record"
SEALED = {"spec": "spec.json", "curve": "curve.jsonl", "artifacts": "artifacts.npz"}  # `hashes` of a record
TORN = "it is torn, or no JSON"
_RUN_ID = re.compile(schema.RUN_ID)


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
    document, fault = examine(directory)
    if fault:
        raise UserError(complaint(directory, fault))
    return None if document is None else Record(directory, document)


def examine(directory: Path) -> tuple[Any, str]:
    """(record.json as it was read, what is wrong with it in words); (None, "") when there is none."""
    document = read_json(directory / "record.json")
    if document is None:
        return None, TORN if study.exists(directory / "record.json") else ""
    return document, check(document) or misplaced(document, directory) or study.mislabelled(directory, document)


def complaint(directory: Path, fault: str) -> str:
    """What is wrong with a record, as a sentence that names it and says what to type."""
    what = "is damaged" if fault == TORN else "is not a record of this suite"
    return f"{directory / 'record.json'} {what}: {fault}. Type: python -m benchmark audit {directory}"


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


def write_curve(directory: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the curve, atomically: it is a few kilobytes."""
    write_text(directory / "curve.jsonl", "".join(canonical_json(r) + "\n" for r in rows))


# -- the folders of runs ---------------------------------------------------------------------------------------------


def run_directories(root: Path) -> Iterator[os.DirEntry[str] | study.Place]:
    """All runs of a results folder, `<suite>/<tier>/<run_id>`, the one walk: directories, no links, and what a study packed.

    A file in place of the folder is a bundle, or a UserError says what is wrong with it.
    """
    on_disk: Iterable[os.DirEntry[str] | study.Place]
    if os.path.isfile(root):
        on_disk = [study.Place(path, os.path.basename(path)) for path in bundle.runs(root)]
    else:
        folders = (run for suite in _folders(root) for tier in _folders(suite.path) for run in _folders(tier.path))
        on_disk = (run for run in folders if _RUN_ID.fullmatch(run.name))
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
