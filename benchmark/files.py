"""Files that are either whole or not there: every write of the suite goes through here."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmark.faults import fault


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
            sync(temporary)
        os.chmod(temporary, 0o644)
        fault(f"replace:{path.name}", temporary)
        os.replace(temporary, path)
        if durable:
            sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """fsync a file or a directory."""
    fault(f"fsync:{path.name}")
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


def read_json(path: Path) -> Any | None:
    """The document, or None when the file is absent or torn."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
