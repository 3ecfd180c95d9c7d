"""Where the prepared images are, and which images they are: the data root, its names, fingerprints of files.

<data root>/digits/<domain>.npz                 x_train, y_train, x_test, y_test: uint8, native size, labels 0–9
<data root>/<root>/<domain>/<class>/*.jpg|png   folders of pictures, or a CSV, or parquet (`forms`); PACS:
                                                splits/<domain>_train_kfold.txt …, DomainNet: <domain>_train.txt …: the lists
<data root>/weights/*.pth                       ImageNet weights in torchvision's naming
<data root>/downloads/                          what `data fetch` brought, as it came
<data root>/fetch-lock.json                     the hash of each file as it was fetched first
<data root>/cache/                              what is made from the above; can be deleted at any time
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.data.cache import cache_root, write_json
from benchmark.errors import UserError, unknown
from benchmark.files import data_folder
from benchmark.machine import cores

if TYPE_CHECKING:
    from benchmark.spec import Suite


def suite_folder(suite: Suite, data_root: Path | None) -> Path:
    """`<data root>/PACS` and the like; a sentence with the ways out when it is not there."""
    root = data_folder(data_root)
    folder = root / suite.folder
    if not folder.is_dir():
        where = f"{root} has no folder {suite.folder}" if root.is_dir() else f"there is no folder {root}"
        made = any(tier.data == "embedded" for tier in suite.tiers.values())
        raise UserError(
            f"The real images of {suite.name} are wanted, but {where}. If you have them, name the folder above it: "
            f"--data-root FOLDER."
            + (f" If not, {get_words(suite, folder, 't')}." if is_ours(suite) else "")
            + (" To run without them: --tier mini." if made else "")
        )
    return folder


def is_ours(suite: Suite) -> bool:
    """Whether it is a suite of the repository: the list of sources then says where its images are."""
    return not suite.address.endswith(".toml")


def writable(root: Path) -> None:
    """A data folder that nobody may write by its mode is left alone, even by an administrator."""
    if root.is_dir() and not (os.access(root, os.W_OK) and root.stat().st_mode & 0o222):
        raise UserError(f"The data folder {root} is read-only. Give one that can be written: --data-root FOLDER.")


def check_words(suite: Suite, folder: Path) -> str:
    """What to type to see everything that is wrong at once; `folder` is the suite's."""
    return f"Type: python -m benchmark data check --suite {suite.address} --data-root {above(suite, folder)}"


def get_words(suite: Suite, folder: Path, first: str = "T") -> str:
    """What to type to get what is missing; for a suite of one's own, to see what is wrong."""
    if not is_ours(suite):
        return check_words(suite, folder)
    return f"{first}ype: python -m benchmark data fetch --suite {suite.address} --data-root {above(suite, folder)}"


def above(suite: Suite, folder: Path) -> Path:
    """The data root that has the suite's folder in it."""
    return folder.parents[suite.folder.count("/")]


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


def stamp(files: Sequence[str | Path], kind: str = "") -> str:
    """Stands for what is asked (`kind`) of these files for as long as none changes its path, size or time."""
    look = hashlib.sha256(kind.encode())
    for file in files:
        try:
            state = os.stat(file)
        except FileNotFoundError:
            raise UserError(f"The file {file} is named in a list, but it is not there.") from None
        look.update(f"{os.path.abspath(file)}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return look.hexdigest()[:32]


def remembered(files: Sequence[str | Path], data_root: Path | None, compute: Callable[[], str], kind: str = "") -> str:
    """`compute()`, remembered for as long as no file of `files` changes its path, size or time.

    Reading every byte of a data set takes minutes; asking for names, sizes and times takes a moment.
    """
    note = cache_root(data_root) / "fingerprints" / f"{stamp(files, kind)}.json"
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


def hashes(files: Sequence[str], data_root: Path | None) -> list[str]:
    """sha256 of each file's bytes, remembered while the files stay as they are."""

    def compute() -> str:
        with ThreadPoolExecutor(cores()) as pool:  # hashing lets go of Python's lock
            return " ".join(pool.map(lambda file: hash_file(Path(file)), files))

    return remembered(files, data_root, compute, "a hash each").split() if files else []


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
