"""Unpacking what came from elsewhere: regular files inside the folder, of believable size, or a refusal.

Everything is judged from the table of contents before the first byte is written, and again while bytes flow, because
a table of contents can lie. The unpacked tree appears under its name whole or not at all.
"""

from __future__ import annotations

import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

from benchmark.data.cache import make_folder
from benchmark.errors import UserError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


@dataclass(frozen=True)
class Limits:
    """What is believable. DomainNet's largest archive unpacks to some 6 GB in 175,000 files; pictures hardly compress."""

    files: int = 1_000_000
    total: int = 60 * 2**30
    ratio: float = 100.0  # unpacked over packed, looked at above `small`
    small: int = 50 * 2**20


@dataclass(frozen=True)
class Member:
    """One regular file of an archive: its clean name, the size it claims, and the handle to read it with."""

    name: str
    size: int
    handle: Any


def is_archive(path: Path) -> bool:
    """By its name."""
    return path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, folder: Path, limits: Limits | None = None) -> Path:
    """Unpack into `folder`, which must not exist yet; returns it. A `UserError` names the member that is refused."""
    limits = limits or Limits()
    if folder.exists():
        raise UserError(
            f"{folder} is there already; {archive.name} is not unpacked over it. Remove it to unpack again."
        )
    make_folder(folder.parent)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        with _opened(archive) as source:
            members = _contents(archive, source, limits)
            _room(archive, folder.parent, sum(m.size for m in members))
            budget = min(limits.total, max(limits.small, int(limits.ratio * archive.stat().st_size)))
            for member in members:
                budget -= _write(archive, source, member, temporary, budget)
        temporary.chmod(0o755)
        temporary.rename(folder)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{archive} is damaged or not an archive that can be read: {error}. Fetch it again.") from None
    except OSError as error:
        raise UserError(f"{archive} cannot be unpacked into {folder}: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def verify(archive: Path) -> None:
    """Read an archive to its end; a `UserError` when it is damaged or holds something that `unpack` would refuse."""
    try:
        with _opened(archive) as source:
            for member in _contents(archive, source, Limits()):
                with _stream(source, member) as stream:
                    while stream.read(1 << 20):
                        pass
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{archive.name} is damaged: {error}") from None


def _opened(archive: Path) -> zipfile.ZipFile | tarfile.TarFile:
    """By content, not by name: a download has its final name only after it was verified."""
    return zipfile.ZipFile(archive) if zipfile.is_zipfile(archive) else tarfile.open(archive, "r:*")


def _members(archive: Path, source: zipfile.ZipFile | tarfile.TarFile) -> Iterator[Member]:
    """The regular files, in order; folders are passed over; anything else is refused by name."""
    if isinstance(source, zipfile.ZipFile):
        for info in source.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if info.is_dir():
                _clean(archive, info.filename.rstrip("/") or ".")
            elif kind not in (0, stat.S_IFREG):
                raise _refused(archive, info.filename, "is a link or a device")
            else:
                yield Member(_clean(archive, info.filename), info.file_size, info)
    else:
        for entry in source:
            if entry.isdir():
                _clean(archive, entry.name)
            elif not entry.isreg():
                raise _refused(archive, entry.name, "is a link or a device")
            else:
                yield Member(_clean(archive, entry.name), entry.size, entry)


def _clean(archive: Path, name: str) -> str:
    """The name if it stays inside the folder it is unpacked into, on every system."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.is_absolute() or windows.drive or name.startswith("\\"):
        raise _refused(archive, name, "has an absolute name")
    if ".." in posix.parts or ".." in windows.parts or "\0" in name:
        raise _refused(archive, name, "leads out of the folder")
    return str(posix)


def _refused(archive: Path, name: str, why: str) -> UserError:
    return UserError(
        f"{archive} is refused: its member {name!r} {why}. Nothing was unpacked; get the archive elsewhere."
    )


def _contents(archive: Path, source: zipfile.ZipFile | tarfile.TarFile, limits: Limits) -> list[Member]:
    """Every member, if all of them together are believable. Judged header by header: to reach the next header of a
    compressed tar, the data before it must be unpacked, and a bomb would go off in the reading."""
    members: list[Member] = []
    total, packed = 0, archive.stat().st_size
    for member in _members(archive, source):
        members.append(member)
        total += member.size
        if len(members) > limits.files:
            raise UserError(f"{archive} is refused: it claims more than {limits.files:,} files.")
        if total > limits.total or (total > limits.small and total > limits.ratio * packed):
            raise UserError(
                f"{archive} is refused: {packed:,} bytes claim to unpack to {total:,} or more, which no archive of "
                f"pictures does."
            )
    twice = [name for name, n in Counter(m.name.casefold() for m in members).items() if n > 1]
    if twice:
        raise UserError(f"{archive} is refused: it holds {twice[0]!r} twice.")
    return members


def _room(archive: Path, folder: Path, total: int) -> None:
    free = shutil.disk_usage(folder).free
    if total > free:
        raise UserError(
            f"{archive} needs {total:,} bytes unpacked, and {folder} has {free:,} free. Make room, or give another "
            f"folder: --data-root FOLDER."
        )


def _stream(source: zipfile.ZipFile | tarfile.TarFile, member: Member) -> IO[bytes]:
    if isinstance(source, zipfile.ZipFile):
        return source.open(member.handle)
    stream = source.extractfile(member.handle)
    assert stream is not None  # regular files have one
    return stream


def _write(archive: Path, source: Any, member: Member, folder: Path, budget: int) -> int:
    """One file, with plain permissions; stops when more bytes come than were claimed or than are believable."""
    target = folder / member.name
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with _stream(source, member) as stream, target.open("xb") as out:
        while block := stream.read(1 << 20):
            written += len(block)
            if written > min(member.size, budget):
                raise _refused(archive, member.name, "unpacks to more than it claims")
            out.write(block)
    if written != member.size:
        raise UserError(f"{archive} is damaged: {member.name!r} ends after {written:,} of {member.size:,} bytes.")
    return written
