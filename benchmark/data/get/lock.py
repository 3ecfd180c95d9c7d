"""What the first fetch of each file brought: `<data root>/fetch-lock.json`, binding for every later one.

{"downloads/digits/usps.bz2": {"sha256": …, "size": …, "url": …, "time": …}, …}; names are relative to the data root.
Copied to another machine with the data root empty, it makes that machine fetch the same bytes or none.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from filelock import FileLock

from benchmark.data.cache import write_json
from benchmark.errors import UserError

NAME = "fetch-lock.json"
Entry = dict[str, object]


def read(root: Path) -> dict[str, Entry]:
    """Every entry; {} before the first fetch."""
    path = root / NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(e, dict) and "sha256" in e for e in found.values()):
        raise UserError(
            f"{path} cannot be read, and it says which files were fetched first. Bring it back from a copy, or remove it: "
            f"the next fetch notes what it gets."
        )
    return found


def known(root: Path, file: Path) -> Entry:
    """What is noted about a file of this data root; {} when nothing is."""
    return read(root).get(file.relative_to(root).as_posix(), {})


def note(root: Path, file: Path, sha256: str, url: str) -> None:
    """Write down what was seen; `url` is empty for a file that somebody put there by hand."""
    entry = {
        "sha256": sha256,
        "size": file.stat().st_size,
        "url": url,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    with FileLock(str(root / f".{NAME}.lock")):
        write_json(root / NAME, {**read(root), file.relative_to(root).as_posix(): entry})
