"""From what was fetched, or what the user has, to the prepared form. Says what it used; never writes over what is there."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.data.cache import make_folder, write_json, write_npz
from benchmark.data.digits import empty_classes, faults
from benchmark.data.get import archive, importers, shards, trees, weights
from benchmark.data.get.check import count_words
from benchmark.data.get.sources import datasets, downloads, how_to_get, sources
from benchmark.data.parquet import of_pictures
from benchmark.data.prepared import writable
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
    notes: list[str] = field(default_factory=list)  # sentences: what is as it should be, and worth knowing


def prepare(suite: Suite, root: Path, origin: Path | None = None, *, again: bool = False) -> Prepared:
    """Look through `origin` (default: the downloads) and put every domain that is found into the prepared form."""
    writable(root)
    top = origin or downloads(root, suite.source)
    if not top.is_dir():
        what = "does not exist" if not top.exists() else "is not a folder"
        public = f" {how_to_get(suite, root)}" if suite.source in datasets() else ""
        raise UserError(f"{top} {what}. Give the folder with your files: --from FOLDER.{public}")
    done = Prepared()
    tops = [top, *_unpacked(suite, top, root, done)]
    if suite.reader == "digits":
        _digits(suite, root, tops, done, again)
    else:
        words = _shards(suite, top, root, done)
        _tree(suite, root, [*tops, *words], done, words)
        _weights(root, done)
    return done


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _unpacked(suite: Suite, top: Path, root: Path, done: Prepared) -> list[Path]:
    """Unpack every archive that lies in `top` under the downloads, once; a refused one is reported and passed over."""
    folders = []
    for path in _archives(top):
        name = str(path.relative_to(top)).replace(os.sep, "-")
        folder = downloads(root, suite.source) / "unpacked" / name
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
    return [p for p in _files(top) if archive.is_archive(p)]


def _files(top: Path) -> list[Path]:
    """Every file below `top` but what was unpacked there."""
    found = [folder / e.name for folder, _ in trees.walk(top) for e in os.scandir(folder) if e.is_file()]
    return sorted(p for p in found if "unpacked" not in p.relative_to(top).parts)


def _read(marker: Path) -> object:
    try:
        return json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


# -- digits -----------------------------------------------------------------------------------------------------------


def _digits(suite: Suite, root: Path, tops: list[Path], done: Prepared, again: bool) -> None:
    found = _names(tops)
    make_folder(root / suite.folder)
    for domain in suite.domains:
        target = root / suite.folder / f"{domain.name}.npz"
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
                if entry.name.endswith(".parquet"):
                    owner = folder.parent if folder.name == "data" else folder
                    found.setdefault(f"{owner.name.lower()}/*.parquet", folder)
    return found


# -- folders of pictures ------------------------------------------------------------------------------------------------


def _shards(suite: Suite, top: Path, root: Path, done: Prepared) -> dict[Path, dict[str, str]]:
    """Unpack the parquet shards that lie in `top`, once: {their tree: {domain: its counts in words}}."""
    found = [p for p in _files(top) if p.suffix == ".parquet" and of_pictures(p)]
    folder = downloads(root, suite.source) / "unpacked" / "parquet"
    marker = folder.with_name("parquet.json")
    state = {str(p): [p.stat().st_size, p.stat().st_mtime_ns] for p in found}
    if not found:
        return {}
    if folder.exists() and _read(marker) == state:
        return {folder: {}}  # what was not yet given its place is still there
    try:
        written = shards.unpack(found, folder, suite)
        write_json(marker, state)
    except UserError as error:
        done.refused.append(str(error))
        return {}
    counts = {d: (n.get("train", 0), n.get("test", 0)) for d, n in written.counts.items()}
    total = sum(map(sum, counts.values()))
    if written.named < total:
        done.notes.append(
            f"{total - written.named:,} of {total:,} pictures came without their file names and are named after their rows: "
            f"official lists do not fit them. For those, take the archives: python -m benchmark data fetch --suite "
            f"{suite.name} --route {_archives_by(suite)} --data-root {root}"
        )
    return {folder: {d: count_words(suite, d, *n) for d, n in counts.items()}}


def _archives_by(suite: Suite) -> str:
    """The first route by which the pictures come with their names."""
    routes = [s.route for s in sources(suite.source) if not s.file.endswith(".parquet") and not s.place]
    return next(iter(routes), "publisher")


def _weights(root: Path, done: Prepared) -> None:
    try:
        done.made |= weights.convert(root)
    except UserError as error:
        done.refused.append(str(error))


def _tree(suite: Suite, root: Path, tops: list[Path], done: Prepared, words: dict[Path, dict[str, str]]) -> None:
    tree, unpacked = make_folder(root / suite.folder), downloads(root, suite.source) / "unpacked"
    listed = suite.folders.readings[0].pictures == "lists"
    for domain in suite.domains:
        places = [p for p in (trees.find_domain(top, domain, suite.classes) for top in tops) if p]
        places = [p for p in places if not _inside(p.folder, tree)]
        flat = [p for p in (trees.find_flat(top, domain) for top in tops) if p] if not places and listed else []
        flat = [p for p in flat if not _inside(p, tree)]
        if flat:
            n = trees.place_flat(flat[0], tree / domain.name, ours=_inside(flat[0], unpacked))
            done.made[domain.name] = f"{flat[0]}: {n:,} pictures, whose classes stand in the lists"
            continue
        if not places:
            (done.kept if (tree / domain.name).is_dir() else done.missing).append(domain.name)
            continue
        best = max(places, key=lambda p: len(p.classes))
        n = trees.place_domain(best, tree / domain.name, ours=_inside(best.folder, unpacked))
        counted = words.get(best.folder.parent, {}).get(domain.name, "")
        done.made[domain.name] = f"{best.folder}: {n} of {len(suite.classes)} classes{counted and ', ' + counted}"
    for top in tops:
        if not _inside(top, tree):
            done.lists += trees.place_lists(suite, top, tree)
