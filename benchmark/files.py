"""Files that are either whole or not there: every write of the suite goes through here, and every small read.

What is read may come from a stranger: a file that is no plain file (a pipe would wait for ever), is too large, is
nested too deeply or is no JSON counts as absent, and its caller says so. An archive is judged by its table of contents
(`zip_members`, `believable`) before a byte of it is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import tempfile
import tomllib
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from benchmark.errors import UserError
from benchmark.faults import fault

DEFAULT_ROOT = Path("data")  # of prepared images and weights
LARGEST = 64 * 2**20  # bytes of a record, spec or curve; the largest real one has a few hundred kilobytes
PIECE = 1 << 20  # bytes that are read at once
PLACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")  # a suite's or a tier's folder: it leads nowhere else

# what can move a terminal's cursor or turn the direction of writing, and halves of character pairs
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def data_folder(data_root: Path | None) -> Path:
    """The data root that was meant: the given one, else BENCHMARK_DATA_ROOT, else `data` here."""
    return data_root or Path(os.environ.get("BENCHMARK_DATA_ROOT") or DEFAULT_ROOT)


def shown(text: object) -> str:
    """Text from somewhere else as it may be shown on a terminal."""
    return _UNSHOWABLE.sub("\ufffd", str(text))


def is_plain(text: str) -> bool:
    """Whether text can be shown as it is."""
    return _UNSHOWABLE.search(text) is None


def _umask() -> int:
    """The process's mask, which can be asked for only by setting it: once, at import, before there are threads."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


_UMASK = _umask()


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Write to the yielded temporary name; on success it takes the place of `path`, on an error nothing changed.

    Temporary name in the same directory, fsync, os.replace, fsync of the directory. `durable=False` leaves out the
    fsyncs, for files that a crash may take (heartbeats).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fault(f"open:{path.name}")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        fault(f"write:{path.name}", temporary)
        if durable:
            sync(temporary, path.name)
        os.chmod(temporary, 0o666 & ~_UMASK)  # a temporary file is private; what takes its place is for all
        fault(f"replace:{path.name}", temporary)
        os.replace(temporary, path)
        if durable:
            sync(path.parent, path.name)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def check_new(out: Path) -> None:
    """A UserError when `new_folder` could not put a folder there: said before the work, not after it."""
    if out.is_symlink():
        raise UserError(f"{out} is a link, and a new folder cannot take its place. Name a new folder: --out FOLDER")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already and not empty. Name a new folder: --out FOLDER")
    if out.resolve() == Path.cwd():
        raise UserError(f"{out} is the folder you stand in. Name a new folder: --out FOLDER")


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Fill the yielded folder; on success it becomes `out`, on an error nothing is left that a second try would meet."""
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        home = temporary / out.name  # what mkdtemp makes is private; this is for all
        home.mkdir()
        yield home
        if out.exists():
            out.rmdir()
        home.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sync(path: Path, point: str = "") -> None:
    """fsync a file or a directory; `point` names it for the fault switch."""
    fault(f"fsync:{point or path.name}")
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace `path` by `text`, atomically."""
    with replacing(path, durable=durable) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace `path` by `content`, atomically."""
    with replacing(path, durable=durable) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, document: Any, *, durable: bool = True) -> None:
    """Replace `path` by JSON, atomically; NaN and Infinity are refused."""
    write_text(path, json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n", durable=durable)


def read_bytes(path: Path | str, largest: int = LARGEST) -> bytes:
    """The content of a plain file of at most `largest` bytes; an OSError otherwise, never a wait."""
    return b"".join(pieces(path, largest))


def pieces(path: Path | str, largest: float, *, links: bool = True) -> Iterator[bytes]:
    """The same piece by piece, for files that are not held in memory; without `links` a link is no plain file."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW))
    try:  # no file object: a look at a hundred thousand runs opens two files for each
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(f"{path} is not a plain file")
        if state.st_size > largest:
            raise OSError(f"{path} has {state.st_size} bytes, more than {largest}")
        while piece := os.read(handle, PIECE):
            yield piece
    finally:
        os.close(handle)


def read_json(path: Path | str) -> Any | None:
    """The document, or None when the file is absent, torn, or nothing that this suite can have written."""
    try:
        return parse_json(read_bytes(path))
    except (OSError, ValueError, RecursionError):
        return None


def parse_json(content: bytes) -> Any:
    """The document; a ValueError or RecursionError when it is none, NaN and Infinity included."""
    return _DECODER.decode(content.decode("utf-8"))


def read_object(path: Path | str) -> dict[str, Any]:
    """The JSON object of a file, or {} when there is none: for small notes whose absence means nothing."""
    document = read_json(path)
    return document if isinstance(document, dict) else {}


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The content of a TOML file that a user named; whatever is wrong with it is a sentence that begins with `what`."""
    try:
        return tomllib.loads(read_bytes(path).decode("utf-8"))
    except OSError as error:
        raise UserError(f"{what} {path} cannot be read: {error.strerror or error}.") from None
    except RecursionError:
        raise UserError(f"{what} {path} is not valid TOML: it is nested too deeply.") from None
    except ValueError as error:
        raise UserError(f"{what} {path} is not valid TOML: {error}.") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


# -- archives from elsewhere ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """What is believable. DomainNet's largest archive unpacks to some 6 GB in 175,000 files; pictures hardly compress."""

    files: int = 1_000_000
    total: int = 60 * 2**30
    ratio: float = 100.0  # unpacked over packed, looked at above `small`
    small: int = 50 * 2**20
    kind: str = "archive of pictures"


@dataclass(frozen=True)
class Member:
    """One regular file of an archive: its clean name, the size it claims, and the handle to read it with."""

    name: str
    size: int
    handle: Any


def whole_zip(path: Path) -> bool:
    """Whether a file is an archive whose members all have the checksums that it lists."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return False


def zip_members(archive: Path, source: zipfile.ZipFile) -> Iterator[Member]:
    """The regular files, in order; folders are passed over; anything else is refused by name."""
    for info in source.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.is_dir():
            clean_name(archive, info.filename.rstrip("/") or ".")
        elif kind not in (0, stat.S_IFREG):
            raise refused(archive, info.filename, "is a link or a device")
        elif info.flag_bits & 0x1:
            raise refused(archive, info.filename, "is encrypted")
        else:
            yield Member(clean_name(archive, info.filename), info.file_size, info)


def clean_name(archive: Path, name: str) -> str:
    """The name of a member if it stays inside the folder it is unpacked into, on every system."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.is_absolute() or windows.drive or name.startswith("\\"):
        raise refused(archive, name, "has an absolute name")
    if ".." in posix.parts or ".." in windows.parts or "\0" in name:
        raise refused(archive, name, "leads out of the folder")
    return str(posix)


def refused(archive: Path, name: str, why: str) -> UserError:
    """The sentence for a member that no honest archive holds."""
    return UserError(
        f"{archive} is refused: its member {name[:200]!r} {why}. Nothing was unpacked; get the archive elsewhere."
    )


def believable(archive: Path, members: Iterable[Member], limits: Limits) -> list[Member]:
    """Every member, if all of them together are believable. Judged header by header: to reach the next header of a
    compressed tar, the data before it must be unpacked, and a bomb would go off in the reading."""
    found: list[Member] = []
    total, packed = 0, archive.stat().st_size
    for member in members:
        found.append(member)
        total += member.size
        if len(found) > limits.files:
            raise UserError(f"{archive} is refused: it claims more than {limits.files:,} files.")
        if total > limits.total or (total > limits.small and total > limits.ratio * packed):
            raise UserError(
                f"{archive} is refused: {packed:,} bytes claim to unpack to {total:,} or more, which no {limits.kind} does."
            )
    twice = [name for name, n in Counter(m.name.casefold() for m in found).items() if n > 1]
    if twice:
        raise UserError(f"{archive} is refused: it holds {twice[0][:200]!r} twice.")
    return found
