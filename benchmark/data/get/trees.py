"""PACS and DomainNet as others arrange them → the prepared layout.

Recognised: the official trees, Dassl's (`pacs/images/…` with `splits/`), DomainBed's (`PACS/…`, `domain_net/clip…`), one
archive a domain. A domain is a folder with a known name whose subfolders are classes of the suite, wherever it lies.
Folders of the user's own are linked, not copied; what this program unpacked itself is moved.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.data.cache import make_folder, replacing
from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.spec import Suite

ALIASES = {
    "art_painting": ("art_painting", "artpainting", "art"),
    "clipart": ("clipart", "clip"),
    "infograph": ("infograph", "info"),
    "painting": ("painting", "paint"),
    "quickdraw": ("quickdraw", "quick"),
}
DEPTH = 6


@dataclass(frozen=True)
class Place:
    """Where a domain was found: its folder, and the folder of each of its classes."""

    folder: Path
    classes: dict[str, Path]


def find_domain(top: Path, domain: str, classes: Sequence[str]) -> Place | None:
    """The folder of a domain with the most classes of the suite in it; the one nearest the top among equals."""
    names = ALIASES.get(domain, (domain,))
    wanted = {c.lower(): c for c in classes}
    best: Place | None = None
    for folder, below in walk(top):
        if folder.name.lower() not in names:
            continue
        found = {wanted[b.lower()]: folder / b for b in sorted(below) if b.lower() in wanted}
        if len(found) > (len(best.classes) if best else 0):
            best = Place(folder, found)
    return best


def find_lists(top: Path, domain: str, endings: Sequence[str]) -> dict[str, list[Path]]:
    """Files `<domain><ending>` anywhere below, by ending."""
    found: dict[str, list[Path]] = {ending: [] for ending in endings}
    for folder, _ in walk(top):
        for ending in endings:
            path = folder / f"{domain}{ending}"
            if path.is_file():
                found[ending].append(path)
    return found


def walk(top: Path) -> list[tuple[Path, list[str]]]:
    """Folders below `top`, nearest first, with the names of their subfolders; hidden ones are passed over."""
    rows, level = [], [top]
    for _ in range(DEPTH):
        deeper = []
        for folder in level:
            try:
                below = sorted(e.name for e in os.scandir(folder) if e.is_dir() and not e.name.startswith((".", "__")))
            except OSError:
                continue
            rows.append((folder, below))
            deeper += [folder / b for b in below]
        level = deeper
    return rows


def place_domain(found: Place, target: Path, *, ours: bool) -> int:
    """Give the classes of a domain their place under `target`; returns how many are there then."""
    make_folder(target)
    for name, folder in found.classes.items():
        place = target / name
        if place.exists() or place.is_symlink():
            if place.is_dir():
                continue
            raise UserError(f"{place} is in the way: it is not a folder, or a link to one that is gone. Remove it.")
        if ours:
            os.rename(folder, place)
        else:
            place.symlink_to(folder.resolve(), target_is_directory=True)
    return len(found.classes)


def place_list(found: Path, target: Path) -> None:
    """Copy a list to its place, whole or not at all."""
    if found.resolve() != target.resolve():
        with replacing(target) as temporary:
            temporary.write_bytes(found.read_bytes())


def version_of(listing: Path) -> str:
    """`cleaned` or `original` for DomainNet's clipart and painting lists, by the folder they came in or by their length."""
    folders = {p.name.lower() for p in list(listing.parents)[:3]}
    if folders & {"cleaned", "groundtruth"}:
        return "cleaned"
    if "original" in folders:
        return "original"
    lines = sum(1 for line in listing.read_bytes().splitlines() if line.strip())
    return "cleaned" if lines in CLEANED.get(listing.stem, ()) else ""


CLEANED = {
    "clipart_train": (33_525,),
    "clipart_test": (14_604,),
    "painting_train": (50_416,),
    "painting_test": (21_850,),
}


def place_lists(suite: Suite, top: Path, tree: Path) -> list[str]:
    """Every official list that is found below `top`, in its place; returns their names."""
    placed = []
    for domain in suite.domains:
        if suite.reader == "pacs":
            endings = [f"_{part}_kfold.txt" for part in ("train", "crossval", "test")]
            targets = {ending: tree / "splits" for ending in endings}
        else:
            endings = ["_train.txt", "_test.txt"]
            targets = {ending: tree for ending in endings}
        for ending, paths in find_lists(top, domain.name, endings).items():
            for path in paths:
                folder = targets[ending]
                if suite.reader == "domainnet":
                    folder = tree / version_of(path)
                place_list(path, folder / path.name)
                placed.append(str((folder / path.name).relative_to(tree)))
    return sorted(set(placed))
