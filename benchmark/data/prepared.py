"""Where the prepared images are, and which images they are: the data root, its names, fingerprints of files.

<data root>/digits/<domain>.npz                 x_train, y_train, x_test, y_test: uint8, native size, labels 0–9
<data root>/PACS/<domain>/<class>/*.jpg|png     [splits/<domain>_train_kfold.txt … : the official lists, if had]
<data root>/DomainNet/<domain>/<class>/*        <domain>_train.txt, <domain>_test.txt: the official lists
<data root>/weights/*.pth                       ImageNet weights in torchvision's naming
<data root>/downloads/                          what `data fetch` brought, as it came
<data root>/cache/                              what is made from the above; can be deleted at any time
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmark.data.cache import cache_root, write_json
from benchmark.errors import UserError, unknown

FOLDERS = {"digits": "digits", "pacs": "PACS", "domainnet": "DomainNet"}  # reader of a suite → folder of the data root
DEFAULT_ROOT = Path("data")


def data_folder(data_root: Path | None) -> Path:
    """The data root that was meant: the given one, else BENCHMARK_DATA_ROOT, else `data` here."""
    return data_root or Path(os.environ.get("BENCHMARK_DATA_ROOT") or DEFAULT_ROOT)


def suite_folder(reader: str, data_root: Path | None) -> Path:
    """`<data root>/PACS` and the like; a sentence with the three ways out when it is not there."""
    root = data_folder(data_root)
    folder = root / FOLDERS[reader]
    if not folder.is_dir():
        where = f"{root} has no folder {FOLDERS[reader]}" if root.is_dir() else f"there is no folder {root}"
        raise UserError(
            f"The real images of {reader} are wanted, but {where}. If you have them, name the folder above it: "
            f"--data-root FOLDER. If not, type: python -m benchmark data fetch --suite {reader} --data-root {root}. "
            f"To run without them: --tier mini."
        )
    return folder


def writable(root: Path) -> None:
    """A data folder that nobody may write by its mode is left alone, even by an administrator."""
    if root.is_dir() and not (os.access(root, os.W_OK) and root.stat().st_mode & 0o222):
        raise UserError(f"The data folder {root} is read-only. Give one that can be written: --data-root FOLDER.")


def check_words(reader: str, root: Path) -> str:
    """What to type to see everything that is wrong at once."""
    return f"Type: python -m benchmark data check --suite {reader} --data-root {root}"


def choose(options: Mapping[str, str], key: str, allowed: Sequence[str]) -> str:
    """The value of a reader's option; the first allowed value is the default."""
    value = str(options.get(key, allowed[0]))
    if value not in allowed:
        example = f"Type for example: --set run.options.{key}={allowed[0]}"
        raise unknown(f"value of the option {key}", value, allowed, example)
    return value


def known_options(options: Mapping[str, str], allowed: Iterable[str], reader: str) -> None:
    """Refuse options that nobody reads."""
    names = list(allowed)
    for key in options:
        if key not in names:
            raise unknown(f"data option of {reader}", key, names)


# -- fingerprints ---------------------------------------------------------------------------------------------------


def remembered(files: Sequence[str | Path], data_root: Path | None, compute: Callable[[], str]) -> str:
    """`compute()`, remembered for as long as no file of `files` changes its path, size or time.

    Reading every byte of a data set takes minutes; asking for names, sizes and times takes a moment.
    """
    look = hashlib.sha256()
    for file in files:
        try:
            state = os.stat(file)
        except FileNotFoundError:
            raise UserError(f"The file {file} is named in a list, but it is not there.") from None
        look.update(f"{os.path.abspath(file)}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    note = cache_root(data_root) / "fingerprints" / f"{look.hexdigest()[:32]}.json"
    try:
        return str(json.loads(note.read_text(encoding="utf-8"))["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        value = compute()
    write_json(note, {"fingerprint": value, "files": len(files), "first": str(files[0]) if files else ""})
    return value


def hash_file(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_fingerprint(root: Path, names: Sequence[str], data_root: Path | None) -> str:
    """sha256 over relative names, sizes and contents of the files, in the given order; sixteen hex digits."""

    def compute() -> str:
        total = hashlib.sha256()
        for name in names:
            file = root / name
            total.update(f"{name} {file.stat().st_size} {hash_file(file)}\n".encode())
        return total.hexdigest()[:16]

    return remembered([f"{root}/{name}" for name in names], data_root, compute)  # plain text: Path is slow by 100,000


def combine(*parts: object) -> str:
    """One fingerprint from several."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]
