"""From what was fetched, or what the user has, to the prepared form. Says what it used; never writes over what is there."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.data.cache import make_folder, write_json, write_npz
from benchmark.data.digits import empty_classes, faults
from benchmark.data.get import archive, importers, trees
from benchmark.data.get.sources import downloads
from benchmark.data.prepared import FOLDERS, writable
from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.spec import Suite


@dataclass
class Prepared:
    """What `prepare` did, domain by domain, and what it could not do."""

    made: dict[str, str] = field(default_factory=dict)  # domain → what it was made from
    kept: list[str] = field(default_factory=list)  # domains that were there already
    missing: list[str] = field(default_factory=list)  # domains for which nothing was found
    refused: list[str] = field(default_factory=list)  # sentences
    lists: list[str] = field(default_factory=list)


def prepare(suite: Suite, root: Path, origin: Path | None = None, *, again: bool = False) -> Prepared:
    """Look through `origin` (default: the downloads) and put every domain that is found into the prepared form."""
    writable(root)
    top = origin or downloads(root, suite.reader)
    if not top.is_dir():
        what = "does not exist" if not top.exists() else "is not a folder"
        raise UserError(
            f"{top} {what}. Give the folder with your files: --from FOLDER, or fetch them first: "
            f"python -m benchmark data fetch --suite {suite.name} --data-root {root}"
        )
    done = Prepared()
    tops = [top, *_unpacked(suite, top, root, done)]
    if suite.reader == "digits":
        _digits(suite, root, tops, done, again)
    else:
        _tree(suite, root, tops, done)
    return done


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _unpacked(suite: Suite, top: Path, root: Path, done: Prepared) -> list[Path]:
    """Unpack every archive that lies in `top` under the downloads, once; a refused one is reported and passed over."""
    folders = []
    for path in _archives(top):
        name = str(path.relative_to(top)).replace(os.sep, "-")
        folder = downloads(root, suite.reader) / "unpacked" / name
        marker = folder.with_name(f"{name}.json")
        state = {"size": path.stat().st_size, "time": path.stat().st_mtime_ns}
        try:
            if folder.exists() and _read(marker) == state:
                folders.append(folder)
                continue
            folders.append(archive.unpack(path, folder))
            write_json(marker, state)
        except UserError as error:
            done.refused.append(str(error))
    return folders


def _archives(top: Path) -> list[Path]:
    found = [folder / e.name for folder, _ in trees.walk(top) for e in os.scandir(folder) if e.is_file()]
    return sorted(p for p in found if archive.is_archive(p) and "unpacked" not in p.relative_to(top).parts)


def _read(marker: Path) -> object:
    try:
        return json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


# -- digits -----------------------------------------------------------------------------------------------------------


def _digits(suite: Suite, root: Path, tops: list[Path], done: Prepared, again: bool) -> None:
    found = _names(tops)
    make_folder(root / FOLDERS["digits"])
    for domain in suite.domains:
        target = root / FOLDERS["digits"] / f"{domain.name}.npz"
        if target.is_file() and not again:
            done.kept.append(domain.name)
            continue
        try:
            result = importers.arrays_of(
                {k: p for k, p in found.items() if p.resolve() != target.resolve()}, domain.name
            )
            if result is None:
                done.missing.append(domain.name)
                continue
            arrays, words = result
            wrong = faults(arrays) or empty_classes(arrays)
            if wrong:
                raise UserError(f"{words} gives no sound {domain.name}: {'; '.join(wrong)}.")
            write_npz(target, arrays)
            done.made[domain.name] = f"{words}: {len(arrays['y_train']):,} / {len(arrays['y_test']):,} images"
        except UserError as error:
            done.refused.append(str(error))
    pickles = [p for p in found.values() if p.name.lower().endswith(importers.PICKLES)]
    done.refused += [importers.refuse_pickle(p) for p in pickles]


def _names(tops: list[Path]) -> dict[str, Path]:
    """Lower-case names of files and folders, the nearest to the top first; Dassl's by domain and folder."""
    found: dict[str, Path] = {}
    for top in tops:
        for folder, below in trees.walk(top):
            for name in below:
                found.setdefault(name.lower(), folder / name)
                if name == "train_images":
                    found.setdefault(f"{folder.name.lower()}/train_images", folder / name)
            for entry in sorted(os.scandir(folder), key=lambda e: e.name):
                if entry.is_file() and not entry.name.startswith("."):
                    found.setdefault(entry.name.lower(), Path(entry.path))
    return found


# -- folders of pictures ------------------------------------------------------------------------------------------------


def _tree(suite: Suite, root: Path, tops: list[Path], done: Prepared) -> None:
    tree, unpacked = make_folder(root / FOLDERS[suite.reader]), downloads(root, suite.reader) / "unpacked"
    for domain in suite.domains:
        places = [p for p in (trees.find_domain(top, domain.name, suite.classes) for top in tops) if p]
        places = [p for p in places if not _inside(p.folder, tree)]
        if not places:
            (done.kept if (tree / domain.name).is_dir() else done.missing).append(domain.name)
            continue
        best = max(places, key=lambda p: len(p.classes))
        n = trees.place_domain(best, tree / domain.name, ours=_inside(best.folder, unpacked))
        done.made[domain.name] = f"{best.folder}: {n} of {len(suite.classes)} classes"
    for top in tops:
        if not _inside(top, tree):
            done.lists += trees.place_lists(suite, top, tree)
