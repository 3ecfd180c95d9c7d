"""Folders of pictures as others arrange them → the prepared layout.

Recognised: the official trees, Dassl's (`pacs/images/…` with `splits/`), DomainBed's (`PACS/…`, `domain_net/clip…`), one
archive a domain. A domain is a folder with a known name (the suite's, or one of `also`) whose subfolders are classes of
the suite, wherever it lies; Office-31 has a folder `images` between. Where only lists know the classes, it is a folder of
pictures.
Folders of the user's own are linked, not copied; what this program unpacked itself is moved.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.data.cache import make_folder, replacing
from benchmark.data.lists import is_picture
from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.spec import DomainInfo, Suite

DEPTH = 6


@dataclass(frozen=True)
class Place:
    """Where a domain was found: its folder, and the folder of each of its classes."""

    folder: Path
    classes: dict[str, Path]


def names_of(domain: DomainInfo) -> set[str]:
    """What the folder of a domain may be called, in lower case."""
    return {name.lower() for name in (domain.name, *domain.also)}


def find_domain(top: Path, domain: DomainInfo, classes: Sequence[str]) -> Place | None:
    """The folder of a domain with the most classes of the suite in it; the one nearest the top among equals."""
    names = names_of(domain)
    wanted = {c.lower(): c for c in classes}
    best: Place | None = None
    for folder, below in walk(top):
        between = folder.name == "images" and folder.parent.name.lower() in names
        if folder.name.lower() not in names and not between:
            continue
        found = {wanted[b.lower()]: folder / b for b in sorted(below) if b.lower() in wanted}
        if len(found) > (len(best.classes) if best else 0):
            best = Place(folder, found)
    return best


def find_flat(top: Path, domain: DomainInfo) -> Path | None:
    """The folder of a domain that holds pictures and no classes, nearest the top."""
    for folder, _ in walk(top):
        if folder.name.lower() in names_of(domain) and any(is_picture(e.name) for e in os.scandir(folder)):
            return folder
    return None


def place_flat(found: Path, target: Path, *, ours: bool) -> int:
    """Give a folder of pictures its place at `target`; returns how many pictures are there then."""
    make_folder(target.parent)
    if not target.exists():
        place_folder(found, target, ours=ours)
    return sum(is_picture(e.name) for e in os.scandir(target))


def find_lists(top: Path, names: Sequence[str]) -> dict[str, list[Path]]:
    """Files of these names anywhere below."""
    found: dict[str, list[Path]] = {name: [] for name in names}
    for folder, _ in walk(top):
        for name in names:
            if (folder / name).is_file():
                found[name].append(folder / name)
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
        if not (target / name).is_dir():
            place_folder(folder, target / name, ours=ours)
    return len(found.classes)


def place_folder(folder: Path, place: Path, *, ours: bool) -> None:
    """Move what this program unpacked, link what is the user's."""
    if place.exists() or place.is_symlink():
        raise UserError(f"{place} is in the way: it is not a folder, or a link to one that is gone. Remove it.")
    if ours:
        os.rename(folder, place)
    else:
        place.symlink_to(folder.resolve(), target_is_directory=True)


def place_list(found: Path, target: Path, tree: Path) -> None:
    """Copy a list to its place, whole or not at all; one that fits the pictures does not give way to one that does not."""
    if found.resolve() != target.resolve() and (_fits(found, tree) or not _fits(target, tree)):
        with replacing(target) as temporary:
            temporary.write_bytes(found.read_bytes())


def _fits(listing: Path, tree: Path) -> bool:
    """The first picture that it names is there: pictures of another route have other names."""
    try:
        with listing.open(encoding="utf-8", errors="replace") as lines:
            return (tree / lines.readline().strip().rpartition(" ")[0]).is_file()
    except OSError:
        return False


def version_of(listing: Path, domain: str, suite: Suite) -> str:
    """The reading that a list is for (DomainNet: `cleaned` or `original`), by the folder it came in or by its length."""
    own = [r for r in suite.folders.readings if r.folder()]
    folders = {p.name.lower() for p in list(listing.parents)[:3]}
    for reading in own:
        if folders & {reading.name, *reading.also}:
            return reading.name
    if not own or any(domain not in r.counts for r in own):  # a domain that is the same in all versions has one list
        return ""
    lines = sum(1 for line in listing.read_bytes().splitlines() if line.strip())
    part = listing.stem.removeprefix(f"{domain}_")
    told = (
        r.name
        for r in own
        if len(r.counts[domain]) == 2 and lines == dict(zip(r.parts, r.counts[domain], strict=True)).get(part)
    )
    return next(told, "")


def place_lists(suite: Suite, top: Path, tree: Path) -> list[str]:
    """Every list that a reading of the suite names and that is found below `top`, in its place; returns their names."""
    placed = []
    for domain in suite.domains:
        wanted: dict[str, Path] = {}  # name → folder
        for reading in suite.folders.readings:
            for template in reading.lists:
                place = Path(template.replace("{domain}", domain.name))
                for part in dict.fromkeys([*reading.parts, "test"]):
                    wanted[place.name.replace("{part}", part)] = place.parent
        for name, paths in find_lists(top, list(wanted)).items():
            for path in paths:
                folder = tree / (version_of(path, domain.name, suite) or wanted[name])
                place_list(path, folder / name, tree)
                placed.append(str((folder / name).relative_to(tree)))
    return sorted(set(placed))
