"""A bundle is a study in one file: a zip archive of the study's files, stored as they are, that reads as the folder would.

| member | what |
|---|---|
| bundle.json | name, the code's version, and the size and sha256 of every other member |
| records.parquet, curves.parquet, artifacts.parquet, study.json | as in a study's folder; below trials/ too |
| merged.json, tuned-….toml | where merged runs came from; what `tune` chose |
| tables/….md, tables.tex, figures/….png, report.html | what was rendered |
| SUITE/TIER/RUN_ID/… | of runs that are not done: spec, curve, failure; of runs whose model is kept: the model |

`study.zip/digits/mini/<run_id>/failure.json` names bytes of a bundle as it names a file of a folder, and `read_bytes`
gives either. A bundle may come from a stranger. Nothing of it is executed or unpickled, and to read it nothing is written to
disk but the model that `predict` uses, into a folder that goes again. A member that the archive itself compresses, that is
encrypted, a link, there twice, not listed, or of a name that no study has refuses the whole, and no member is used whose
sha256 is not the listed one. What members hold compressed (pages of parquet, arrays of a run) is unpacked in memory, within the
bounds of `benchmark.records.study` and `benchmark.records.artifacts`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import shutil
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmark import files
from benchmark.errors import UserError

MANIFEST = "bundle.json"
FORMAT = 1
_RUN = r"[A-Za-z0-9_][\w.-]{0,254}/[A-Za-z0-9_][\w.-]{0,254}/[0-9a-f]{16}"  # as `files.PLACE` and `study.RUN` have it
MODEL = re.compile(r"model-([a-z]+(?:-[a-z]+)*)\.safetensors")  # of a run that kept one, by selection rule
UNFINISHED = ("spec.json", "curve.jsonl", "failure.json", "heartbeat.json")  # what is told of a run that is not done
NAME = re.compile(
    r"(trials/)?((records|curves|artifacts)\.parquet|study\.json)|merged\.json|tuned-[\w.-]{1,200}\.toml|tables\.tex|report\.html"
    rf"|tables/[\w.-]{{1,200}}\.md|figures/[\w.-]{{1,200}}\.png|{_RUN}/({'|'.join(map(re.escape, UNFINISHED))}|{MODEL.pattern})",
    re.ASCII,
)
BEGINS = b"PK\x03\x04"
DIRECTORY = 16 * 2**20  # bytes of the table of contents, which is held in memory: room for 100,000 members
LARGEST_MODEL = 64 * 2**30  # bytes; it is copied piece by piece, so that the disk alone sets a bound
LIMITS = files.Limits(files=100_000, total=2**40, ratio=1.0, small=0, kind="bundle")
_SHA = re.compile(r"[0-9a-f]{64}")


class Entry(NamedTuple):
    """Where a member is in the file, and what it must be."""

    header: int
    size: int
    sha256: str


# -- reading ----------------------------------------------------------------------------------------------------------


def is_bundle(path: Path | str) -> bool:
    """Whether this is a file that begins as a bundle does, whatever its name; `contents` says whether it is a sound one."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as stream:
            return stream.read(4) == BEGINS
    except (OSError, ValueError):
        return False


def read_bytes(path: Path | str, largest: int = files.LARGEST) -> bytes:
    """The content of a file, on disk or in the bundle that its path leads through; an OSError when it is in neither."""
    try:
        return files.read_bytes(path, largest)
    except NotADirectoryError:
        found = _found(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
        return b"".join(_member(*found, largest))


def pieces(path: Path | str, largest: float = math.inf) -> Iterator[bytes]:
    """The same of a file of any size, piece by piece, no link followed. The error that a member is not the listed one comes
    after its last piece."""
    try:
        yield from files.pieces(path, largest, links=False)
    except NotADirectoryError:
        found = _found(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
        yield from _member(*found, largest)


def transfer(source: Path, target: Path, *, durable: bool = True) -> None:
    """Write a model, on disk or in a bundle, to `target`: whole or not at all, and never whole in memory."""
    with files.replacing(target, durable=durable) as temporary, temporary.open("wb") as out:
        for piece in pieces(source, LARGEST_MODEL):
            out.write(piece)


def is_file(path: Path | str) -> bool:
    """Whether there is such a file, on disk or in a bundle."""
    return os.path.isfile(path) or (not os.path.exists(path) and bool(state(path)))


def state(path: Path | str) -> tuple[int, ...]:
    """Changes when the file changes, on disk or in a bundle; () when there is no such file."""
    try:
        return _stamp(os.stat(path))
    except NotADirectoryError:
        inside = _found(path)
        return (*_stamp(os.stat(inside[0])), inside[1].header) if inside else ()
    except (OSError, ValueError):
        return ()


def names(folder: Path | str) -> list[str]:
    """The names of the files of a folder, on disk (no links) or in a bundle; none when there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in entries if e.is_file(follow_symlinks=False))
    except NotADirectoryError:
        archive, inside = _split(folder)
        if not is_bundle(archive):
            return []
        prefix = f"{inside}/" if inside else ""
        found = (name.removeprefix(prefix) for name in contents(archive) if name.startswith(prefix))
        return sorted(name for name in found if "/" not in name)
    except OSError:
        return []


def runs(archive: Path | str) -> list[str]:
    """The run folders of a bundle that have files of their own, `<archive>/<suite>/<tier>/<run_id>`."""
    inside = {name.rpartition("/")[0] for name in contents(archive) if name.count("/") == 3}
    return [os.path.join(archive, *place.split("/")) for place in sorted(inside)]


def about(archive: Path | str) -> dict[str, Any]:
    """What a bundle says of itself: its name, the code that packed it, its members."""
    contents(archive)
    return dict(_opened(os.fspath(archive), _stamp(os.stat(archive)))[0])


def contents(archive: Path | str) -> dict[str, Entry]:
    """The members of a bundle by name, bundle.json apart; a UserError when it is none, or none that can be trusted."""
    try:
        found = os.stat(archive)
    except OSError as error:
        raise _unreadable(archive, error.strerror or str(error)) from None
    return _opened(os.fspath(archive), _stamp(found))[1]


@lru_cache(maxsize=8)
def _opened(archive: str, state: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Entry]]:
    """(bundle.json, the members) of a bundle, looked at once for each state of the file."""
    if not is_bundle(archive):
        raise _unreadable(archive, "it does not begin as one")
    try:
        with open(archive, "rb") as stream:
            if _directory_size(stream) > DIRECTORY:
                raise ValueError("its table of contents is larger than any bundle's")
            with zipfile.ZipFile(stream) as source:
                members = files.believable(Path(archive), _stored(Path(archive), source), LIMITS)
        infos = {m.name: m.handle for m in members}
        if MANIFEST not in infos:
            raise ValueError(f"it has no {MANIFEST}")
        manifest = infos[MANIFEST]
        if manifest.file_size > files.LARGEST:
            raise ValueError(f"its {MANIFEST} is larger than any bundle's")
        document = files.parse_json(b"".join(_content(archive, manifest.header_offset, manifest.file_size)))
        listed = _listed(document)
        if {n: i.file_size for n, i in infos.items() if n != MANIFEST} != {n: size for n, (size, _) in listed.items()}:
            raise ValueError(f"its members are not those that its {MANIFEST} lists")
    except (
        OSError, ValueError, EOFError, LookupError, OverflowError, MemoryError, RuntimeError, struct.error, zipfile.BadZipFile,
    ) as error:  # fmt: skip
        raise _unreadable(archive, str(error).split("\n")[0] or type(error).__name__) from None
    return document, {name: Entry(infos[name].header_offset, size, sha) for name, (size, sha) in listed.items()}


def _stored(archive: Path, source: zipfile.ZipFile) -> Iterator[files.Member]:
    """The members, as long as they are stored as they are and have names that a study's files have."""
    for member in files.zip_members(archive, source):
        info = member.handle
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(
                f"its member {member.name[:200]!r} is compressed: something else has packed it. Unpacked, its folder can be read"
            )
        if member.name != MANIFEST and not NAME.fullmatch(member.name):
            raise ValueError(f"no study has a file {member.name[:200]!r}")
        yield member


def _unreadable(archive: Path | str, words: str) -> UserError:
    return UserError(
        f"{archive} is no bundle that can be read: {files.shown(words)[:400].rstrip('. ')}. Ask for it again, or make it anew: "
        "python -m benchmark bundle STUDY"
    )


def _directory_size(stream: Any) -> int:
    """Bytes of the table of contents as the end of the archive claims them: known before it is read."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 42))
    end = stream.read(42)[-42:]
    if end[-22:-18] != b"PK\x05\x06" or end[-2:] != b"\0\0":
        raise ValueError("it is torn: its end is not that of an archive")
    claimed = int.from_bytes(end[-10:-6], "little")
    if end[:4] == b"PK\x06\x07":  # the larger form, for 4 GB and more: its own claim is what zipfile believes
        stream.seek(min(size, int.from_bytes(end[8:16], "little")))
        claimed = max(0 if claimed == 0xFFFFFFFF else claimed, int.from_bytes(stream.read(56)[40:48], "little"))
    return claimed


def _listed(document: Any) -> dict[str, tuple[int, str]]:
    """{name: (size, sha256)} of bundle.json; a ValueError in words when it is none."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"its {MANIFEST} is not of a format that this version knows")
    listed, name = document.get("files"), document.get("name")
    if not isinstance(listed, dict) or not isinstance(name, str) or not files.is_plain(name) or len(name) > 255:
        raise ValueError(f"its {MANIFEST} lists no files, or has no name")
    found = {}
    for key, entry in listed.items():
        size, sha = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
        if type(size) is not int or size < 0 or not isinstance(sha, str) or not _SHA.fullmatch(sha):
            raise ValueError(f"its {MANIFEST} says no size and sha256 of {key[:200]!r}")
        found[key] = (size, sha)
    return found


def _split(path: Path | str) -> tuple[str, str]:
    """(the nearest ancestor that is there, the rest of the path with slashes): `x.zip/tables/a.md` → (x.zip, tables/a.md)."""
    head, rest = os.fspath(path), ""
    while not os.path.lexists(head):
        above, tail = os.path.split(head)
        if above == head or not above:
            return head, rest
        head, rest = above, f"{tail}/{rest}" if rest else tail
    return head, rest


def _found(path: Path | str) -> tuple[str, Entry] | None:
    """The bundle and the member that a path leads to; a file that does not even begin as a bundle leads nowhere."""
    archive, name = _split(path)
    if not is_bundle(archive):
        return None
    entry = contents(archive).get(name)
    return (archive, entry) if entry else None


def _member(archive: str, entry: Entry, largest: float) -> Iterator[bytes]:
    """The pieces of a member; after the last one an error if it is not the listed one."""
    if entry.size > largest:
        raise OSError(f"a member of {archive} has {entry.size} bytes, more than {largest}")
    seen = hashlib.sha256()
    try:
        for piece in _content(archive, entry.header, entry.size):
            seen.update(piece)
            yield piece
    except ValueError as error:
        raise _unreadable(archive, str(error)) from None
    if seen.hexdigest() != entry.sha256:
        raise _unreadable(archive, f"a member is not what its {MANIFEST} says it was")


def _content(archive: str, header: int, size: int) -> Iterator[bytes]:
    """The stored bytes behind a member's own header, piece by piece: no decompressor has a part in it."""
    with open(archive, "rb") as stream:
        stream.seek(header)
        local = stream.read(30)
        if len(local) != 30 or local[:4] != BEGINS:
            raise ValueError("it is torn: a member does not begin where it should")
        stream.seek(sum(struct.unpack("<HH", local[26:30])), os.SEEK_CUR)
        while size:
            piece = stream.read(min(size, files.PIECE))
            if not piece:
                raise ValueError("it is torn: a member ends too early")
            size -= len(piece)
            yield piece


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


# -- writing ----------------------------------------------------------------------------------------------------------


def write(path: Path, members: Mapping[str, bytes | Path], about: Mapping[str, Any]) -> None:
    """Write a bundle of these members, each its content or the file that has it. The same members give the same bytes."""
    ordered = sorted(members.items())
    for name in members:
        if not NAME.fullmatch(name):
            raise UserError(
                f"{name} cannot go into a bundle: names there are made of letters, digits, dots and dashes."
            )
        if _size(members[name]) > LARGEST_MODEL:
            raise UserError(f"{name} cannot go into a bundle: it has more than {LARGEST_MODEL:,} bytes.")
    listed = {name: {"bytes": _size(content), "sha256": _hash(content)} for name, content in ordered}
    document = {**about, "format": FORMAT, "files": listed}
    manifest = json.dumps(document, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n"
    with files.replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, content in [(MANIFEST, manifest), *ordered]:
            info = zipfile.ZipInfo(name)  # of 1980, whenever it is written
            info.create_system, info.external_attr, info.file_size = 3, 0o100644 << 16, _size(content)
            with archive.open(info, "w") as target:
                if isinstance(content, bytes):
                    target.write(content)
                else:
                    with content.open("rb") as source:
                        shutil.copyfileobj(source, target, files.PIECE)


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _hash(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
