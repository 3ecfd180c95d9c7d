"""Bringing the public files to this machine: route after route, mirror after mirror, hash-checked, resumable, never a bad
file under a good name, never other bytes than the first fetch brought.

pooch compares published hashes and gives the file its name atomically. The routes, the mirrors, the going on after an
interruption and the words for failures are here; one request to one address is in `download.py`, the first fetch's hashes
in `lock.py`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pooch
from filelock import FileLock

from benchmark.data.cache import make_folder
from benchmark.data.get import archive, lock
from benchmark.data.get.download import DiskFull, MirrorFailed, Patience, Resumable, Tell, is_full
from benchmark.data.get.sources import ROUTES, Source, things
from benchmark.data.prepared import hash_file, writable
from benchmark.errors import UserError, unknown

TRIES = 2  # at each mirror: a connection that breaks half-way is taken up again once before the next mirror's turn


@dataclass(frozen=True)
class Fetched:
    """A file that is here now."""

    source: Source
    path: Path
    sha256: str
    url: str  # empty: it was here already


@dataclass
class Outcome:
    """What a fetch of many files came to."""

    got: list[Fetched] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # sentences about what no route gives
    passed: list[str] = field(default_factory=list)  # sentences about files whose place another route took


def fetch_all(
    wanted: Sequence[Source],
    root: Path,
    *,
    route: str = "",
    accept: Collection[str] = (),
    patience: Patience | None = None,
    tell: Callable[[Source, int, int], None] | None = None,
) -> Outcome:
    """Everything that the files give, each by the first route that gives it whole; a full disk ends it at once.

    `route` goes before the others. `accept` names files whose new content is taken although the lock knows another; a
    changed file that is not accepted is refused, and no other route takes its place.
    """
    if route and route not in ROUTES:
        raise unknown("route", route, ROUTES)
    for name in accept:
        if name not in {s.file for s in wanted}:
            raise unknown("file of this suite", name, [s.file for s in wanted])
    writable(root)
    outcome, tried, changed = Outcome(), dict[Path, Fetched | str](), set[Path]()

    def have(source: Source) -> bool:
        path = source.path(root)
        if path not in tried:
            report = (lambda done, total: tell(source, done, total)) if tell else None
            try:
                tried[path] = fetch(source, root, accept=source.file in accept, patience=patience, tell=report)
            except UserError as error:
                tried[path] = str(error)
                if isinstance(error.__cause__, DiskFull):
                    raise
                if isinstance(error.__cause__, Changed):
                    changed.add(path)
        return isinstance(tried[path], Fetched)

    try:
        for thing in things(wanted):
            order = thing.order(route)
            here = [files for files in order[: 1 if route else None] if all(s.path(root).is_file() for s in files)]
            good = False
            for files in here + order:
                good = all([have(s) for s in files])
                if good or changed.intersection(s.path(root) for s in files):
                    break
            said = [words for files in order for s in files if isinstance(words := tried.get(s.path(root)), str)]
            (outcome.passed if good else outcome.failed).extend(said)
    except UserError as full:
        outcome.failed.append(str(full))
    outcome.got = [fetched for fetched in tried.values() if isinstance(fetched, Fetched)]
    outcome.failed = list(dict.fromkeys(outcome.failed))
    outcome.passed = [words for words in dict.fromkeys(outcome.passed) if words not in outcome.failed]
    return outcome


def fetch(
    source: Source,
    root: Path,
    *,
    accept: bool = False,
    patience: Patience | None = None,
    tell: Tell | None = None,
) -> Fetched:
    """One file: there already and right, or from the first mirror that gives it whole."""
    path = source.path(root)
    writable(root)
    make_folder(path.parent)
    pooch.get_logger().setLevel("WARNING")
    try:
        with FileLock(f"{path}.lock"):
            noted = lock.known(root, path)
            binding = {} if accept else noted
            return _here(source, root, noted) or _from_mirrors(source, root, binding, patience or Patience(), tell)
    except DiskFull as full:
        raise UserError(
            f"The disk is full: {path} could not be stored ({full}). What came so far is kept; make room and give the "
            f"same command again, or choose another folder: --data-root FOLDER."
        ) from full
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None


def _here(source: Source, root: Path, noted: lock.Entry) -> Fetched | None:
    """The file if it is there and right: as published, else as first fetched, else (put there by hand) as it looks."""
    path = source.path(root)
    if not path.is_file():
        return None
    sha256 = hash_file(path)
    if source.hash:
        right = not _hash_fault(source, path)
    elif noted:
        right = noted["sha256"] == sha256
    else:
        right = _plausible(source, path) == ""
    if right and not noted:
        lock.note(root, path, sha256, "")
    return Fetched(source, path, sha256, "") if right else None


def _from_mirrors(source: Source, root: Path, noted: lock.Entry, patience: Patience, tell: Tell | None) -> Fetched:
    path = source.path(root)
    part, complaints = path.with_name(path.name + ".part"), []
    other: Changed | None = None
    if path.exists():
        os.replace(path, path.with_name(path.name + ".bad"))  # a wrong file must not keep the good name
    for place, url in enumerate(source.urls):
        downloader = Resumable(
            part,
            hashed=bool(source.hash),
            verify=lambda file: _verify(source, file, noted),
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
                other = error if isinstance(error, Changed) else other
                if attempt + 1 == TRIES or not _worth_another_try(part, why):
                    complaints.append(f"{urlsplit(url).netloc}: {why}")
                    break
            except OSError as error:
                if is_full(error):
                    raise DiskFull(error.strerror) from None
                raise
            else:
                sha256 = hash_file(path)
                lock.note(root, path, sha256, url)
                return Fetched(source, path, sha256, url)
    if other:
        raise UserError(
            f"{source.file} ({source.about}) is not what it was: the first fetch ({noted.get('time', 'no date')}) noted "
            f"sha256 {noted['sha256']}, what comes now has {other.sha256}. {'; '.join(complaints)}. Nothing was kept of it. "
            f"To take the new one, knowing that runs on it are other runs, type: python -m benchmark data fetch --suite "
            f"{source.suite} --data-root {root} --accept {source.file}"
        ) from other
    raise UserError(
        f"{source.file} ({source.about}) could not be fetched. {'; '.join(complaints)}. What came so far is kept: the same "
        f"command goes on from it. By hand: download {source.urls[0]} and put it at {path}."
    )


def _worth_another_try(part: Path, why: str) -> bool:
    """The same mirror again: when something came and can be continued, or when mixed parts gave a wrong hash."""
    return part.exists() or "another hash" in why or "thrown away" in why


# -- is it the right file? -------------------------------------------------------------------------------------------


class Changed(MirrorFailed):
    """This address gives a sound file, but not the one that the first fetch brought."""

    def __init__(self, sha256: str) -> None:
        super().__init__("it gives other content than before")
        self.sha256 = sha256


def _verify(source: Source, file: Path, noted: lock.Entry) -> None:
    """Before the file gets its name: what pooch does not check (a hash's beginning; contents; what came at first)."""
    whole = source.hash.startswith(("md5:", "sha256:"))
    if not whole:
        fault = _plausible(source, file) or (_hash_fault(source, file) if source.hash else "")
        if fault:
            raise MirrorFailed(fault)
    if noted and (sha256 := hash_file(file)) != noted["sha256"] and not (whole and _hash_fault(source, file)):
        raise Changed(sha256)


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
    return "" if _sound(source.file, file) else f"it gives no {Path(source.file).suffix.removeprefix('.')} file"


def _sound(name: str, file: Path) -> bool:
    """Parquet begins and ends with its mark; safetensors begins with the length of a JSON header."""
    with file.open("rb") as stream:
        head = stream.read(9)
        stream.seek(max(0, file.stat().st_size - 4))
        tail = stream.read()
    if name.endswith(".parquet"):
        return head[:4] == tail == b"PAR1"
    if name.endswith(".safetensors"):
        return head[8:] == b"{" and int.from_bytes(head[:8], "little") < file.stat().st_size
    return True
