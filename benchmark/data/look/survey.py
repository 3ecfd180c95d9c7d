"""What is in a folder of pictures: every file's domain, class, size and shape, and which of them are none. Headers only.

Nothing is decoded whole: of 40,000 files each is opened once for its first and last bytes. Files of equal length are hashed:
only they can be copies.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from benchmark.data.decoded import reason
from benchmark.data.forms import Entry, read_table, shards_of, table_of, unpacked
from benchmark.data.lists import PARTS, is_picture
from benchmark.data.prepared import hash_file
from benchmark.errors import UserError
from benchmark.files import is_plain, shown
from benchmark.machine import cores

Tell = Callable[[int, int], None]
ENDS = {"JPEG": (b"\xff\xd9", 4096), "PNG": (b"IEND", 64)}  # what stands near the end of a whole file
TAIL = 4096
SHORT = "it ends too early"
LARGEST_TABLE = 10**6  # files: a folder with more is not somebody's data set


@dataclass(frozen=True)
class Seen:
    """One picture, or what calls itself one: `fault` says why it is none."""

    entry: Entry
    size: int
    side: int  # the shorter one, in pixels; 0 when it is no picture
    fault: str = ""

    @property
    def kind(self) -> str:
        """Its class."""
        return str(self.entry.kind)


@dataclass
class Survey:
    """Everything that was seen below `root`."""

    root: Path
    form: str
    pictures: list[Seen]
    faults: list[str] = field(default_factory=list)  # rows of a table that are not right
    other: Counter[str] = field(default_factory=Counter)  # files of a kind that is not read, by suffix
    loose: Counter[str] = field(default_factory=Counter)  # pictures outside class folders, by folder
    copies: list[list[Seen]] = field(default_factory=list)  # sets of files with the same bytes
    lists: bool = False  # train and test lists, or a column split, for every domain

    @property
    def domains(self) -> list[str]:
        """The names of the domains, in order."""
        return sorted({s.entry.domain for s in self.pictures})

    def counts(self) -> dict[str, Counter[str]]:
        """domain → class → pictures that can be read."""
        found: dict[str, Counter[str]] = {domain: Counter() for domain in self.domains}
        for s in self.pictures:
            if not s.fault:
                found[s.entry.domain][s.kind] += 1
        return found


def survey(root: Path, data_root: Path | None = None, tell: Tell | None = None) -> Survey:
    """Look at everything below `root`; a sentence when it holds no domains of pictures."""
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise UserError(f"{root} {what}. Give the folder with your pictures: --from FOLDER")
    found = Survey(root, "tree", [])
    table, entries = table_of(root), list[Entry]()
    if table is not None:
        found.form = "csv"
        entries, found.faults = read_table(table)
        gone = [e for e in entries if not os.path.isfile(e.file)]
        found.faults += [f"{table} names {e.name}, which is not there" for e in gone]
        entries = [e for e in entries if os.path.isfile(e.file)]
    else:
        entries = _walk(root, found)
        shards = [] if entries else shards_of(root)
        if shards:
            found.form, entries = "parquet", unpacked(shards, data_root, tell)
    _plain(entries)
    if len({e.domain for e in entries}) < 2:
        raise UserError(_too_few(root, found, entries))
    found.pictures = _seen(entries, tell)
    found.copies = _copies(found.pictures)
    found.lists = _listed(root, entries)
    return found


def _walk(root: Path, found: Survey) -> list[Entry]:
    """The pictures in `<root>/<domain>/<class>/`, and what lies elsewhere."""
    entries: list[Entry] = []
    for domain in _folders(root):
        for kind in _folders(f"{root}/{domain}"):
            for file in sorted(e.name for e in os.scandir(f"{root}/{domain}/{kind}") if e.is_file()):
                name = f"{domain}/{kind}/{file}"
                if is_picture(file):
                    entries.append(Entry(f"{root}/{name}", name, domain, kind))
                elif not file.startswith("."):
                    found.other[Path(file).suffix.lower() or "(none)"] += 1
            if len(entries) > LARGEST_TABLE:
                raise UserError(f"{root} holds more than {LARGEST_TABLE:,} pictures: is it the right folder?")
        found.loose[f"{root}/{domain}"] = sum(is_picture(e.name) for e in os.scandir(f"{root}/{domain}"))
    found.loose[str(root)] = sum(is_picture(e.name) for e in os.scandir(root))
    return entries


def _folders(place: Path | str) -> list[str]:
    return sorted(e.name for e in os.scandir(place) if e.is_dir() and not e.name.startswith((".", "__")))


def _plain(entries: Sequence[Entry]) -> None:
    for name in {name for e in entries for name in (e.domain, str(e.kind))}:
        if not is_plain(name) or name != name.strip() or "\\" in name:
            raise UserError(f"The name {shown(name)!r} holds characters that cannot be shown. Rename it.")


def _too_few(root: Path, found: Survey, entries: Sequence[Entry]) -> str:
    """Why these are not two domains, by what people usually have instead."""
    wanted = f"{root}/DOMAIN/CLASS/*.jpg, for two domains or more"
    if entries:
        (domain,) = {e.domain for e in entries}
        return f"{root} has one domain only, {domain!r}: adapting needs two or more. Wanted: {wanted}."
    deeper = [f for f, n in found.loose.items() if n and f != str(root)]
    if deeper:
        return (
            f"{root} has pictures one folder deep ({Path(deeper[0]).name}, …), as classes of one domain. Wanted: {wanted}. "
            f"If they are classes, give the folder above: --from {root.parent}"
        )
    what = (
        f"its {found.loose[str(root)]:,} pictures lie in no folder" if found.loose[str(root)] else "it has no pictures"
    )
    also = ", or one CSV with the columns path, domain, class, or parquet with image, label, domain"
    return f"{root} is no data set yet: {what}. Wanted: {wanted}{also}."


# -- file by file -------------------------------------------------------------------------------------------------------


def _seen(entries: Sequence[Entry], tell: Tell | None) -> list[Seen]:
    found: list[Seen] = []
    with ThreadPoolExecutor(cores()) as pool:
        for seen in pool.map(look, entries, chunksize=64):
            found.append(seen)
            if tell and len(found) % 200 == 0:
                tell(len(found), len(entries))
    return found


def look(entry: Entry) -> Seen:
    """The head and the end of one file."""
    try:
        size = os.stat(entry.file).st_size
        if not size:
            return Seen(entry, 0, 0, "it is empty (0 bytes)")
        with open(entry.file, "rb") as file:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a large picture is no fault yet; decoding decides
                with Image.open(file) as image:
                    side, form = min(image.size), str(image.format)
            file.seek(max(0, size - TAIL))
            tail = file.read(TAIL)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return Seen(entry, 0, 0, SHORT if "truncated" in str(error).lower() else reason(error))
    mark, reach = ENDS.get(form, (b"", 0))
    if mark not in tail[-reach:]:
        return Seen(entry, size, 0, SHORT)
    return Seen(entry, size, side)


def _copies(pictures: Sequence[Seen]) -> list[list[Seen]]:
    """Sets of readable pictures with the same bytes, larger sets first."""
    by_size: dict[int, list[Seen]] = defaultdict(list)
    for s in pictures:
        if not s.fault:
            by_size[s.size].append(s)
    rivals = [s for same in by_size.values() if len(same) > 1 for s in same]
    by_mark: dict[str, list[Seen]] = defaultdict(list)
    with ThreadPoolExecutor(cores()) as pool:
        for s, mark in zip(
            rivals, pool.map(lambda s: s.entry.mark or hash_file(Path(s.entry.file)), rivals), strict=True
        ):
            by_mark[mark].append(s)
    return sorted((same for same in by_mark.values() if len(same) > 1), key=len, reverse=True)


def _listed(root: Path, entries: Sequence[Entry]) -> bool:
    """Whether every domain comes with a train and a test part."""
    parts: dict[str, set[str]] = defaultdict(set)
    for e in entries:
        parts[e.domain].add(e.part)
    places = ("", "splits/", "image_list/")
    return all(
        {*PARTS} <= own or any(all((root / f"{p}{d}_{part}.txt").is_file() for part in PARTS) for p in places)
        for d, own in parts.items()
    )
