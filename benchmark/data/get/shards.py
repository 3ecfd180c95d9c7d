"""Parquet shards of a suite of pictures → a tree `<domain>/<class>/*` with the lists that the splits make.

The pictures' bytes are written as they are. A picture keeps its name where the shards tell it; otherwise it is named after
its row (`photo_000123.jpg`), the same on every machine, but not as its publisher named it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.data.cache import make_folder
from benchmark.data.get import archive
from benchmark.data.get.trees import names_of
from benchmark.data.lists import is_picture
from benchmark.data.parquet import Row, rows
from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.spec import Suite


@dataclass
class Written:
    """How many pictures of each domain were written, by split, and how many of them kept a name."""

    counts: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    named: int = 0


def unpack(shards: Sequence[Path], folder: Path, suite: Suite) -> Written:
    """Write every picture of the shards below `folder`, which appears whole or not at all."""
    make_folder(folder.parent)
    archive.room(shards[0], folder.parent, sum(s.stat().st_size for s in shards))
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    written, lists = Written(), defaultdict[tuple[str, str], list[str]](list)
    domains = {alias: d.name for d in suite.domains for alias in names_of(d)}
    classes = {name.lower(): name for name in suite.classes}
    try:
        number = 0
        for shard in shards:
            for row in rows(shard, ("label", "domain")):
                number += 1
                domain = _known(shard, "domain", row.domain, domains)
                kind = _class(shard, row, suite.classes, classes)
                place = temporary / domain / kind
                place.mkdir(parents=True, exist_ok=True)
                file = place / row.name
                own = is_picture(row.name) and not file.exists()
                file = file if own else place / f"{domain}_{number:06}{row.suffix}"
                file.write_bytes(row.image)
                written.named += own
                written.counts[domain][row.split or "train"] += 1
                label = suite.classes.index(kind)
                lists[domain, row.split].append(f"{domain}/{kind}/{file.name} {label}\n")
        for (domain, split), lines in lists.items():
            if all(lists.get((domain, s)) for s in ("train", "test")):
                (temporary / f"{domain}_{split}.txt").write_text("".join(lines), encoding="utf-8")
        temporary.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)  # of other shards than these
        temporary.rename(folder)
    except OSError as error:
        raise UserError(f"{shards[0].parent} cannot be unpacked into {folder}: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return written


def _class(shard: Path, row: Row, names: Sequence[str], known: Mapping[str, str]) -> str:
    """The class's own name; a bare number that is none is its place among the suite's classes."""
    if isinstance(row.label, int) and str(row.label) not in known and 0 <= row.label < len(names):
        return names[row.label]
    return _known(shard, "class", str(row.label), known)


def _known(shard: Path, what: str, name: str, known: Mapping[str, str]) -> str:
    if name.lower() not in known:
        raise UserError(f"{shard} has the {what} {name!r}, and the suite has none of that name: it is of other images.")
    return known[name.lower()]
