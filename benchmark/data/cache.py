"""Where made or decoded data is kept, and how it gets there: whole or not at all, for many processes at once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmark import files
from benchmark.errors import UserError


def cache_root(data_root: Path | None = None) -> Path:
    """`<data root>/cache` if that can be written, otherwise `msda-benchmark` in the user's cache folder.

    A shared data folder is often read-only for those who compute on it; then each user has a cache of their own. A
    folder that nobody may write by its mode is left alone even by an administrator, whom the system would not stop.
    """
    root = data_root or (Path(os.environ["BENCHMARK_DATA_ROOT"]) if os.environ.get("BENCHMARK_DATA_ROOT") else None)
    if root is not None and root.is_dir() and os.access(root, os.W_OK) and root.stat().st_mode & 0o222:
        return root / "cache"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "msda-benchmark"


def make_folder(path: Path) -> Path:
    """The folder, made if it is not there; a sentence if that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"The data cache {path} cannot be made ({error.strerror}). Give a folder that can be written: "
            f"--data-root FOLDER, or set XDG_CACHE_HOME."
        ) from None
    return path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`; what is written there takes its place when the block ends without an error.

    Two processes that make the same file at once both write a whole file, and the later one wins: same bytes.
    """
    make_folder(path.parent)
    try:
        with files.replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}). Free some room or give another folder: --data-root FOLDER."
        ) from None


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Arrays by name into an uncompressed .npz (fast to read), atomically."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def write_json(path: Path, document: Any) -> None:
    """A small JSON file, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def digest(arrays: Iterable[tuple[str, np.ndarray]]) -> str:
    """sha256 over names, types, shapes and bytes, in the given order; sixteen hex digits."""
    total = hashlib.sha256()
    for name, array in arrays:
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()[:16]


def source_hash(*files: str | None) -> str:
    """The source files of a recipe. Taken when the recipe is imported: what is on the disk later may not be what runs."""
    total = hashlib.sha256()
    for file in files:
        total.update(Path(str(file)).read_bytes())
    return total.hexdigest()


def recipe_key(source: str, *settings: object) -> str:
    """Names a cache entry after how it was made: the `source_hash` of the recipe, its settings, the image libraries.

    A changed recipe or another library version never finds an old entry, and never has to be told to forget one.
    """
    import PIL
    from PIL import features

    versions = (PIL.__version__, features.version("freetype2"), np.__version__)
    return hashlib.sha256(repr((source, versions, settings)).encode()).hexdigest()[:12]
