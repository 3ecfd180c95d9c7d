"""What is in a folder of pictures: every file's domain, class, size and shape, and which of them are none. Headers only.

Of 40,000 files each is opened once for its first and last bytes; only what does not end as it should is decoded whole. Files
of equal length are hashed: only they can be copies.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from benchmark.data.decoded import read_image, reason
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
    gone: list[str] = field(default_factory=list)  # what a table names and is not there
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
        rows, faults = read_table(table)
        if faults:
            more = f" (and {len(faults) - 1} more like it)" if len(faults) > 1 else ""
            raise UserError(f"{faults[0]}{more}. Mend the table: no run would read it as it is.")
        entries = [e for e in rows if os.path.isfile(e.file)]
        found.gone = sorted({e.name for e in rows} - {e.name for e in entries})
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
    found.lists = _listed(root, entries, found.form)
    return found


def _walk(root: Path, found: Survey) -> list[Entry]:
    """The pictures in `<root>/<domain>/<class>/`, and what lies elsewhere."""
    entries: list[Entry] = []
    for domain in _folders(root):
        for kind in _folders(f"{root}/{domain}"):
            for e in sorted(os.scandir(f"{root}/{domain}/{kind}"), key=lambda e: e.name):
                name = f"{domain}/{kind}/{e.name}"
                if is_picture(e.name):
                    entries.append(Entry(f"{root}/{name}", name, domain, kind))
                elif e.is_file() and not e.name.startswith("."):
                    found.other[Path(e.name).suffix.lower() or "(none)"] += 1
            if len(entries) > LARGEST_TABLE:
                raise UserError(f"{root} holds more than {LARGEST_TABLE:,} pictures: is it the right folder?")
        found.loose[f"{root}/{domain}"] = _pictures_in(f"{root}/{domain}")
    found.loose[str(root)] = _pictures_in(root)
    return entries


def _pictures_in(place: Path | str) -> int:
    return sum(is_picture(e.name) and e.is_file() for e in os.scandir(place))


def _folders(place: Path | str) -> list[str]:
    return sorted(e.name for e in os.scandir(place) if e.is_dir() and not e.name.startswith((".", "__")))


def _plain(entries: Sequence[Entry]) -> None:
    for name in {name for e in entries for name in (e.domain, str(e.kind))}:
        if not is_plain(name) or "\\" in name:
            raise UserError(f"The name {shown(name)!r} holds characters that cannot be shown. Rename it.")
        if name != name.strip():
            raise UserError(f"The name {name!r} begins or ends with a space, which nobody sees. Rename it.")


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
    inner = next((f"{root}/{name}" for name in _folders(root) if _is_data_set(f"{root}/{name}")), "")
    if inner:
        return f"{root} has the domains one folder further down. Give that folder: --from {shlex.quote(inner)}"
    what = (
        f"its {found.loose[str(root)]:,} pictures lie in no folder" if found.loose[str(root)] else "it has no pictures"
    )
    also = ", or one CSV with the columns path, domain, class, or parquet with image, label, domain"
    return f"{root} is no data set yet: {what}. Wanted: {wanted}{also}."


def _is_data_set(place: str) -> bool:
    """Whether pictures lie in class folders of this folder."""
    try:
        return any(_pictures_in(f"{place}/{d}/{kind}") for d in _folders(place) for kind in _folders(f"{place}/{d}"))
    except OSError:  # a folder that nobody may look into is none to suggest
        return False


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
    if not os.path.isfile(entry.file):
        return Seen(entry, 0, 0, "it is a folder" if os.path.isdir(entry.file) else "it leads to no file")
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
    whole = mark in tail[-reach:] or _decodes(entry.file)
    return Seen(entry, size, side) if whole else Seen(entry, size, 0, SHORT)


def _decodes(file: str) -> bool:
    """Phones append films and depth maps to whole pictures, which then do not end as pictures do: the decoder decides."""
    try:
        read_image(Path(file), 8)
    except UserError:
        return False
    return True


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


def _listed(root: Path, entries: Sequence[Entry], form: str) -> bool:
    """Whether every domain comes with a train and a test part: by a column, or, beside class folders only, by lists."""
    parts: dict[str, set[str]] = defaultdict(set)
    for e in entries:
        parts[e.domain].add(e.part)
    places = ("", "splits/", "image_list/") if form == "tree" else ()
    return all(
        {*PARTS} <= own or any(all((root / f"{p}{d}_{part}.txt").is_file() for part in PARTS) for p in places)
        for d, own in parts.items()
    )
