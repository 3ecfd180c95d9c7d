"""Bringing the public files to this machine: mirror after mirror, hash-checked, resumable, never a bad file under a good name.

pooch keeps the books: it compares hashes and gives the file its name atomically. The mirrors, the going on after an
interruption and the words for failures are here; one request to one address is in `download.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pooch
from filelock import FileLock

from benchmark.data.cache import make_folder, write_json
from benchmark.data.get import archive
from benchmark.data.get.download import DiskFull, MirrorFailed, Patience, Resumable, Tell, is_full
from benchmark.data.get.sources import Source
from benchmark.data.prepared import hash_file, writable
from benchmark.errors import UserError

TRIES = 2  # at each mirror: a connection that breaks half-way is taken up again once before the next mirror's turn
RECORD = "fetched.json"


@dataclass(frozen=True)
class Fetched:
    """A file that is here now."""

    source: Source
    path: Path
    sha256: str
    url: str  # empty: it was here already


def fetch_all(
    wanted: Sequence[Source],
    root: Path,
    *,
    patience: Patience | None = None,
    tell: Callable[[Source, int, int], None] | None = None,
) -> tuple[list[Fetched], list[str]]:
    """Every file that can be had, and a sentence for each that cannot; a full disk ends it at once."""
    writable(root)
    got, failed = [], []
    for source in wanted:
        try:
            report = (lambda done, total, source=source: tell(source, done, total)) if tell else None
            got.append(fetch(source, root, patience=patience, tell=report))
        except UserError as error:
            failed.append(str(error))
            if isinstance(error.__cause__, DiskFull):
                break
    return got, failed


def fetch(source: Source, root: Path, *, patience: Patience | None = None, tell: Tell | None = None) -> Fetched:
    """One file: there already and right, or from the first mirror that gives it whole."""
    path = source.path(root)
    writable(root)
    make_folder(path.parent)
    pooch.get_logger().setLevel("WARNING")
    try:
        with FileLock(f"{path}.lock"):
            known = _here(source, path)
            return known or _from_mirrors(source, path, patience or Patience(), tell)
    except DiskFull as full:
        raise UserError(
            f"The disk is full: {path} could not be stored ({full}). What came so far is kept; make room and give the "
            f"same command again, or choose another folder: --data-root FOLDER."
        ) from full
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None


def _here(source: Source, path: Path) -> Fetched | None:
    """The file if it is there and right. Without a published hash, right is what was seen when it was fetched."""
    if not path.is_file():
        return None
    sha256 = hash_file(path)
    seen = _record(path).get(path.name, {}).get("sha256")
    if source.hash:
        right = not _hash_fault(source, path)
    elif seen:
        right = seen == sha256
    else:
        right = _plausible(source, path) == ""  # put there by hand
    return Fetched(source, path, sha256, "") if right else None


def _from_mirrors(source: Source, path: Path, patience: Patience, tell: Tell | None) -> Fetched:
    part, complaints = path.with_name(path.name + ".part"), []
    if path.exists():
        os.replace(path, path.with_name(path.name + ".bad"))  # a wrong file must not keep the good name
    for place, url in enumerate(source.urls):
        downloader = Resumable(
            part,
            hashed=bool(source.hash),
            verify=lambda file: _verify(source, file),
            patience=patience,
            impatient=place + 1 < len(source.urls),
            tell=tell,
        )
        for attempt in range(TRIES):
            try:
                full = source.hash if source.hash.startswith(("md5:", "sha256:")) else None
                pooch.retrieve(url, known_hash=full, fname=path.name, path=path.parent, downloader=downloader)
            except (MirrorFailed, ValueError) as error:  # ValueError: pooch found another hash
                why = str(error) if isinstance(error, MirrorFailed) else "what it gives has another hash"
                if attempt + 1 == TRIES or not _worth_another_try(part, why):
                    complaints.append(f"{urlsplit(url).netloc}: {why}")
                    break
            except OSError as error:
                if is_full(error):
                    raise DiskFull(error.strerror) from None
                raise
            else:
                sha256 = hash_file(path)
                _remember(path, {"sha256": sha256, "size": path.stat().st_size, "url": url})
                return Fetched(source, path, sha256, url)
    raise UserError(
        f"{source.file} ({source.about}) could not be fetched. {'; '.join(complaints)}. What came so far is kept: the same "
        f"command goes on from it. By hand: download {source.urls[0]} and put it at {path}."
    )


def _worth_another_try(part: Path, why: str) -> bool:
    """The same mirror again: when something came and can be continued, or when mixed parts gave a wrong hash."""
    return part.exists() or "another hash" in why or "thrown away" in why


# -- is it the right file? -------------------------------------------------------------------------------------------


def _verify(source: Source, file: Path) -> None:
    """Before the file gets its name: what pooch does not check (a hash's beginning; contents when no hash is known)."""
    fault = _plausible(source, file)
    if source.hash.startswith("sha256-prefix:"):
        fault = fault or _hash_fault(source, file)
    if fault and not source.hash.startswith(("md5:", "sha256:")):
        raise MirrorFailed(fault)


def _hash_fault(source: Source, file: Path) -> str:
    kind, _, wanted = source.hash.partition(":")
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, kind.removesuffix("-prefix")).hexdigest()
    return "" if found.startswith(wanted) else "what it gives has another hash"


def _plausible(source: Source, file: Path) -> str:
    """What is visibly wrong with a file, or "": a web page in its place, a damaged archive, an empty list."""
    with file.open("rb") as stream:
        head = stream.read(512).lstrip().lower()
    if not head:
        return "it gives an empty file"
    if head.startswith((b"<!doctype", b"<html")):
        return "it gives a web page instead of the file"
    if archive.is_archive(source.path(Path())):
        try:
            archive.verify(file)
        except UserError:
            return "it gives a damaged archive"
    return ""


# -- what was seen ---------------------------------------------------------------------------------------------------


def _record(path: Path) -> dict[str, dict[str, object]]:
    try:
        found = json.loads((path.parent / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remember(path: Path, entry: dict[str, object]) -> None:
    """Write down the sha256 that was seen: for files without a published one it is all there is."""
    with FileLock(str(path.parent / f"{RECORD}.lock")):
        stamped = {**entry, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        write_json(path.parent / RECORD, {**_record(path), path.name: stamped})
