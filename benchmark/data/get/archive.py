"""Unpacking what came from elsewhere: regular files inside the folder, of believable size, or a refusal.

Everything is judged from the table of contents before the first byte is written, and again while bytes flow, because
a table of contents can lie. The unpacked tree appears under its name whole or not at all.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from benchmark.data.cache import make_folder
from benchmark.errors import UserError
from benchmark.files import Limits, Member, believable, clean_name, refused, zip_members

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


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
            members = believable(archive, _members(archive, source), limits)
            room(archive, folder.parent, sum(m.size for m in members))
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
            for member in believable(archive, _members(archive, source), Limits()):
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
        yield from zip_members(archive, source)
        return
    for entry in source:
        if entry.isdir():
            clean_name(archive, entry.name)
        elif not entry.isreg():
            raise refused(archive, entry.name, "is a link or a device")
        else:
            yield Member(clean_name(archive, entry.name), entry.size, entry)


def room(archive: Path, folder: Path, total: int) -> None:
    """A sentence when what comes out of an archive does not fit on the disk."""
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
                raise refused(archive, member.name, "unpacks to more than it claims")
            out.write(block)
    if written != member.size:
        raise UserError(f"{archive} is damaged: {member.name!r} ends after {written:,} of {member.size:,} bytes.")
    return written
