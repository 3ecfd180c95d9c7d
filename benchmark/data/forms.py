"""The pictures of a suite, in whatever form they lie: class folders, one CSV of path, domain and class, or parquet shards.

    <root>/<domain>/<class>/*.jpg|jpeg|png|webp
    <root>/<any>.csv            a head line with path, domain, class and, if there is one, split; paths from the CSV's folder
    <root>/[data/]*.parquet     as Hugging Face lays them out: image, label, domain and, if there is one, split

A CSV goes first, then folders named after the domains, then shards. Shards are unpacked once, into the cache; from there on
every picture is a file, and who reads it need not know where it came from.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.data.cache import cache_root, make_folder
from benchmark.data.lists import PARTS, leads_out, scan
from benchmark.data.parquet import count, of_pictures, rows
from benchmark.data.prepared import stamp
from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.spec import Suite

COLUMNS = ("path", "domain", "class")


@dataclass(frozen=True)
class Entry:
    """One picture as its form tells it. `kind` is its class, by name or by number; `mark` its sha256 where that is known."""

    file: str
    name: str
    domain: str
    kind: str | int
    part: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Picture:
    """One picture of a suite: its file, what lists call it, its label, and the part that its form puts it in."""

    file: str
    name: str
    label: int
    part: str = ""
    mark: str = ""


@dataclass
class Found:
    """The pictures of each domain by its name, and what is wrong with the form that they came in."""

    form: str
    domains: dict[str, list[Picture]]
    faults: list[str] = field(default_factory=list)  # sentences; the same pictures without these rows are in `domains`


def table_of(root: Path) -> Path | None:
    """The CSV of a folder that says where its pictures are; a sentence when there are two."""
    found = [p for p in sorted(root.glob("*.csv")) if p.is_file() and {*COLUMNS} <= {*_head(p)[0]}]
    if len(found) > 1:
        raise UserError(
            f"{root} has two tables of pictures, {found[0].name} and {found[1].name}: leave the one that is meant."
        )
    return found[0] if found else None


def shards_of(root: Path) -> list[Path]:
    """The parquet shards with pictures in a folder, or one folder further down."""
    found = sorted([*root.glob("*.parquet"), *root.glob("*/*.parquet")])
    return [p for p in found if not p.relative_to(root).parts[0].startswith(".") and of_pictures(p)]


def pictures(suite: Suite, root: Path, classes: Sequence[str], data_root: Path | None) -> Found:
    """Every picture of the suite's domains below `root`."""
    names = [d.name for d in suite.domains]
    table = table_of(root)
    if table is not None:
        entries, faults = read_table(table)
        return _known(suite, classes, "csv", entries, faults, str(table))
    shards = [] if any((root / name).is_dir() for name in names) else shards_of(root)
    if shards:
        return _known(suite, classes, "parquet", unpacked(shards, data_root), [], str(shards[0].parent))
    return Found("tree", in_folders(suite, root, classes))


def in_folders(suite: Suite, root: Path, classes: Sequence[str]) -> dict[str, list[Picture]]:
    """The pictures in the class folders of each domain."""
    found = {d.name: scan(root, d.name, classes, {*suite.folders.left_out}) for d in suite.domains}
    return {d: [Picture(f"{root}/{i.name}", i.name, i.label) for i in items] for d, items in found.items()}


def _known(
    suite: Suite, classes: Sequence[str], form: str, entries: Iterable[Entry], faults: list[str], place: str
) -> Found:
    """Entries by domain, their classes as labels; what the suite does not know is a fault unless it is left out.

    A bare number is a class of that name first (`suite new` names them so), else the place among the classes.
    """
    label = {name: i for i, name in enumerate(classes)}
    found, left_out = Found(form, {d.name: [] for d in suite.domains}, list(faults)), {*suite.folders.left_out}
    strangers: dict[str, int] = {}
    no_domain, no_class = left_out - found.domains.keys(), left_out - label.keys()  # a class may be named like a domain
    for e in entries:
        if e.name in left_out or e.domain in no_domain or str(e.kind) in no_class:
            continue
        number = label.get(str(e.kind))
        if number is None and isinstance(e.kind, int) and 0 <= e.kind < len(classes):
            number = e.kind
        if e.domain not in found.domains or number is None:
            what = f"the domain {e.domain!r}" if e.domain not in found.domains else f"the class {str(e.kind)!r}"
            strangers[what] = strangers.get(what, 0) + 1
            continue
        found.domains[e.domain].append(Picture(e.file, e.name, number, e.part, e.mark))
    found.faults += [
        f"{place} has {what} ({n:,} pictures), which the suite has not; to pass over it, name it in left_out of [folders]"
        for what, n in strangers.items()
    ]
    return found


# -- one CSV ------------------------------------------------------------------------------------------------------------


def _head(file: Path) -> tuple[list[str], str]:
    """The names of a table's columns, in lower case, and what stands between them."""
    try:
        with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
            line = lines.readline(10_000)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from None
    between = max(",;\t", key=line.count)
    return [name.strip().lower() for name in next(csv.reader([line], delimiter=between), [])], between


def read_table(file: Path) -> tuple[list[Entry], list[str]]:
    """The rows of a table of pictures, and a sentence for each row that is not right."""
    head, between = _head(file)
    entries, faults = [], []
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        reader = csv.reader(lines, delimiter=between)
        next(reader)
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            values = dict(zip(head, (cell.strip() for cell in row), strict=False))
            name, domain, kind = (values.get(c, "") for c in COLUMNS)
            part = values.get("split", "")
            where = f"{file}, line {reader.line_num}"
            if not (name and domain and kind):
                faults.append(f"{where}: path, domain and class are wanted, found {','.join(row)[:80]!r}")
            elif leads_out(name):
                faults.append(f"{where}: the path {name!r} leads out of the table's folder")
            else:
                entries.append(Entry(f"{file.parent}/{name}", name, domain, kind, _part(part)))
    return entries, faults


def _part(split: str) -> str:
    """The part that a column `split` puts a picture in; another than train and test (`val`) is in neither."""
    return split if split in PARTS else ""


# -- parquet shards -----------------------------------------------------------------------------------------------------


def unpacked(
    shards: Sequence[Path], data_root: Path | None, tell: Callable[[int, int], None] | None = None
) -> list[Entry]:
    """The pictures of the shards as files of the cache, named after their contents; written on the first call."""
    folder = cache_root(data_root) / "shards" / stamp(shards)
    index = folder / "index.json"
    if not index.is_file():
        _unpack(shards, folder, tell)
    listed: list[list[Any]] = json.loads(index.read_text(encoding="utf-8"))
    return [
        Entry(f"{folder}/{file}", name, domain, kind, part, file.partition(".")[0])
        for file, name, domain, kind, part in listed
    ]


def _unpack(shards: Sequence[Path], folder: Path, tell: Callable[[int, int], None] | None) -> None:
    """Write every picture once, then the index, into a folder that appears whole or not at all."""
    make_folder(folder.parent)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        index = list[list[Any]]()
        total = sum(map(count, shards)) if tell else 0
        for shard in shards:
            for number, row in enumerate(rows(shard, ("label", "domain"), broken=True), start=1):
                file = hashlib.sha256(row.image).hexdigest() + (row.suffix or ".bin")
                if not (temporary / file).exists():
                    (temporary / file).write_bytes(row.image)
                kind = row.label if isinstance(row.label, int) else str(row.label)
                index.append([file, f"{shard.name}, row {number}", row.domain, kind, _part(row.split)])
                if tell:
                    tell(len(index), total)
        (temporary / "index.json").write_text(json.dumps(index), encoding="utf-8")
        temporary.chmod(0o755)
        if not folder.is_dir():  # another process may have been first, with the same pictures
            os.rename(temporary, folder)
    except OSError as error:
        if not (folder / "index.json").is_file():
            raise UserError(
                f"{shards[0].parent} cannot be unpacked into {folder}: {error.strerror or error}."
            ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
