"""Which pictures of each domain are trained on and which are scored, by the reading that the suite file describes.

`scored = "all"`: all images of the target, without labels, in training, and the same images are scored. Otherwise the lists
decide (or the column `split` of a CSV or of parquet); where there are none, a seeded tenth of every class is held out.
The option `subset` takes at most so many pictures of a class, of each part.

The order of a domain's pictures is part of what a run sees. Identity "contents": by class, then by the hash of the file, so
that a tree, a CSV and parquet of the same images are the same data; "names": as folders or lists have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmark.data.base import chosen
from benchmark.data.forms import Picture, in_folders, pictures
from benchmark.data.lists import PARTS, is_left_out, list_files, read_list
from benchmark.data.prepared import (
    check_words,
    choose,
    combine,
    get_words,
    hashes,
    known_options,
    tree_fingerprint,
)
from benchmark.errors import UserError
from benchmark.spec.seeds import seed_of

if TYPE_CHECKING:
    from benchmark.spec import DomainInfo, Reading, Suite

RULES = "folders 1"  # part of the fingerprint: other rules of splitting, other data
SUBSET = "subset"


@dataclass(frozen=True)
class Files:
    """The pictures of one domain: files and labels of all, which of them are trained on and scored, and who they are."""

    info: DomainInfo
    files: tuple[str, ...]
    labels: np.ndarray
    train: np.ndarray
    test: np.ndarray
    mark: Callable[[], str]  # of the contents; to be asked for, because it may take a while


@dataclass(frozen=True)
class Tree:
    """What was found in a tree: files of each domain, and the words for captions."""

    split: str
    domains: tuple[Files, ...]
    words: str
    rule: str

    def fingerprint(self) -> str:
        """Contents of the files, and which rows are trained on and scored."""
        parts = {}
        for d in self.domains:
            rows = combine(d.train.tolist(), d.test.tolist(), d.labels.tolist())
            parts[d.info.id] = (d.mark(), rows)
        return combine(RULES, self.rule, self.split, parts)


def tree_of(
    suite: Suite,
    root: Path,
    split: str,
    classes: Sequence[str],
    options: Mapping[str, str],
    data_root: Path | None = None,
) -> Tree:
    """Which pictures each domain has, and which of them are for training and for scoring; nothing is decoded."""
    described = suite.folders
    known_options(options, (described.option, SUBSET), suite.name)
    reading = described.reading(choose(options, described.option, [r.name for r in described.readings]))
    most = _most(options)
    if described.identity == "names":
        domains, lists = _by_names(suite, root, classes, reading, data_root)
    else:
        domains, lists = _by_contents(suite, root, classes, reading, data_root)
    rule, words = reading.name, _words(reading, lists)
    if most:
        domains = [_few(d, most) for d in domains]
        rule, words = f"{rule}, subset {most}", f"{words}, at most {most} pictures of a class"
    if split == "part":
        domains = [_part(d) for d in domains]
        words += ", split part"
    return Tree(split, tuple(domains), words, rule)


def _words(reading: Reading, lists: bool) -> str:
    if reading.scored == "all":
        return f"{reading.name} (all target images adapted on and scored)"
    if reading.pictures == "lists":
        return f"{reading.name} lists"
    held = reading.held if lists else "a seeded tenth of each class"
    return f"{reading.name} (scored on held-out images: {held})"


def _most(options: Mapping[str, str]) -> int:
    """The option `subset`: at most so many pictures of a class, of each part; 0: all."""
    text = str(options.get(SUBSET, "0"))
    if not text.isascii() or not text.isdigit():
        raise UserError(
            f"The option {SUBSET} is a number of pictures, not {text!r}. Type: --set run.options.{SUBSET}=40"
        )
    return int(text)


# -- by names: as folders or lists have them ----------------------------------------------------------------------------


def _by_names(
    suite: Suite, root: Path, classes: Sequence[str], reading: Reading, data_root: Path | None
) -> tuple[list[Files], bool]:
    """The domains of a tree, and whether lists say what is held out in every one of them."""
    listed = [bool(list_files(root, d.name, reading)) for d in suite.domains]
    if reading.pictures == "lists":
        found = {d.name: _listed(suite, d, root, classes, reading) for d in suite.domains}
    else:
        found = in_folders(suite, root, classes)
        for d in suite.domains:
            _complete(suite, d, root, found[d.name], classes)

    def files(info: DomainInfo) -> Files:
        items = found[info.name]
        train, test = _parts(suite, info, root, items, reading)
        names = [p.name for p in items]
        return _files(info, items, train, test, lambda: tree_fingerprint(root, names, data_root))

    return [files(d) for d in suite.domains], all(listed)


def _listed(suite: Suite, info: DomainInfo, root: Path, classes: Sequence[str], reading: Reading) -> list[Picture]:
    """Every picture that the lists of a domain name: the train list's, then the test list's."""
    lists = list_files(root, info.name, reading)
    if not lists:
        names = " and ".join(dict.fromkeys(reading.list_names(info.name)[-1]))
        raise UserError(
            f"{root} has no {names}, the official lists that say which pictures are trained on and which are scored. "
            f"{get_words(suite, root)}"
        )
    parts = PARTS if lists["train"] != lists["test"] else PARTS[:1]  # one list of all pictures
    items = [(part, item) for part in parts for item in read_list(lists[part], reading.first_label)]
    other = [r for r in suite.folders.readings if r != reading and sum(r.counts.get(info.name, [])) == len(items)]
    if other and sum(reading.counts.get(info.name, [])) != len(items):
        raise UserError(
            f"{lists['train']} and its test list hold {len(items):,} pictures: they are the {other[0].name} lists, and the "
            f"{reading.name} ones are asked for. Type: --set run.options.{suite.folders.option}={other[0].name}, or get the "
            f"others: python -m benchmark data fetch --suite {suite.address} --lists {reading.name} --data-root {root.parent}"
        )
    beyond = [item for _, item in items if item.label >= len(classes)]
    if beyond:
        raise UserError(
            f"{lists['train'].parent} has the label {beyond[0].label} ({beyond[0].name}), but there are {len(classes)} "
            f"classes, 0–{len(classes) - 1}. {check_words(suite, root)}"
        )
    return [Picture(f"{root}/{item.name}", item.name, item.label, part) for part, item in items]


# -- by contents: the same images are the same data in every form ---------------------------------------------------------


def _by_contents(
    suite: Suite, root: Path, classes: Sequence[str], reading: Reading, data_root: Path | None
) -> tuple[list[Files], bool]:
    """The domains in the order of their contents, and whether anything but a seed says what is held out."""
    if reading.pictures == "lists":
        found = {d.name: _listed(suite, d, root, classes, reading) for d in suite.domains}
    else:
        form = pictures(suite, root, classes, data_root)
        if form.faults:
            more = f" (and {len(form.faults) - 1} more like it)" if len(form.faults) > 1 else ""
            raise UserError(f"{form.faults[0]}{more}. {check_words(suite, root)}")
        found = form.domains
        if form.form == "tree" and reading.scored == "held-out":
            found = {d.name: _with_parts(suite, d, root, found[d.name], reading) for d in suite.domains}
    domains, parted = [], []
    for info in suite.domains:
        _complete(suite, info, root, found[info.name], classes)
        items = _ordered(found[info.name], data_root)
        parted.append({p.part for p in items} >= {*PARTS})
        train, test = _parts(suite, info, root, items, reading)
        marks = [p.mark for p in items]
        domains.append(_files(info, items, train, test, lambda marks=marks: combine(marks)))  # type: ignore[misc]
    return domains, all(parted)


def _ordered(items: Sequence[Picture], data_root: Path | None) -> list[Picture]:
    unknown = [p.file for p in items if not p.mark]
    marks = dict(zip(unknown, hashes(unknown, data_root), strict=True))
    whole = [p if p.mark else replace(p, mark=marks[p.file]) for p in items]
    return sorted(whole, key=lambda p: (p.label, p.mark, p.part))


def _with_parts(
    suite: Suite, info: DomainInfo, root: Path, items: Sequence[Picture], reading: Reading
) -> list[Picture]:
    """The pictures of a tree with the parts that its lists give them; a picture in no list is in no part."""
    lists = list_files(root, info.name, reading)
    if not lists:
        return list(items)
    place = {p.name: i for i, p in enumerate(items)}
    return [
        replace(items[row], part=part)
        for part in PARTS
        for row in _rows(suite, lists[part], place, root, reading.first_label)
    ]


# -- both ---------------------------------------------------------------------------------------------------------------


def _complete(suite: Suite, info: DomainInfo, root: Path, items: Sequence[Picture], classes: Sequence[str]) -> None:
    """Refuse a domain without pictures, or with none of some class."""
    if not items:
        raise UserError(f"{root / info.name} has no pictures. {check_words(suite, root)}")
    there = {p.label for p in items}
    missing = [name for label, name in enumerate(classes) if label not in there]
    if missing:
        raise UserError(f"{root / info.name} has no picture of {', '.join(missing)}. {check_words(suite, root)}")


def _parts(
    suite: Suite, info: DomainInfo, root: Path, items: Sequence[Picture], reading: Reading
) -> tuple[np.ndarray, np.ndarray]:
    """The rows that are trained on and those that are scored."""
    everything = np.arange(len(items))
    if reading.scored == "all":
        return everything, everything
    parts = np.array([p.part for p in items])
    if {*PARTS} <= {*parts.tolist()}:
        return np.flatnonzero(parts == "train"), np.flatnonzero(parts == "test")
    lists = list_files(root, info.name, reading) if suite.folders.identity == "names" else {}
    if lists:
        place = {p.name: i for i, p in enumerate(items)}
        train, test = (_rows(suite, lists[part], place, root, reading.first_label) for part in PARTS)
        return np.array(train), np.array(test)
    held = _tenth([p.label for p in items], info.id)
    return np.setdiff1d(everything, held), held


def _rows(suite: Suite, file: Path, place: Mapping[str, int], root: Path, first_label: int) -> list[int]:
    rows = []
    for item in read_list(file, first_label):
        if item.name in place:
            rows.append(place[item.name])
        elif not is_left_out(item.name, suite.folders.left_out):
            raise UserError(f"{file} names {item.name}, which is not in {root}. {check_words(suite, root)}")
    return rows


def _tenth(labels: Sequence[int], domain: str) -> np.ndarray:
    """A seeded tenth of every class, at least one picture. Its seed has the name of its first user, whose split is published."""
    return _seeded(np.arange(len(labels)), np.array(labels), "pacs split", domain, lambda n: max(1, round(n / 10)))


def _seeded(rows: np.ndarray, labels: np.ndarray, what: str, domain: str, count: Callable[[int], int]) -> np.ndarray:
    """`count(n)` of the n rows of every class, in the order of the rows."""
    kept = []
    for label in np.unique(labels):
        places = torch.from_numpy(rows[labels == label])
        generator = torch.Generator().manual_seed(seed_of(what, domain, label))
        kept.append(places[torch.randperm(len(places), generator=generator)[: count(len(places))]])
    return np.sort(torch.cat(kept).numpy())


def _files(
    info: DomainInfo, items: Sequence[Picture], train: np.ndarray, test: np.ndarray, mark: Callable[[], str]
) -> Files:
    labels = np.array([p.label for p in items], np.int64)
    return Files(info, tuple(p.file for p in items), labels, train, test, mark)


def _few(files: Files, most: int) -> Files:
    """At most so many pictures of a class, of each part; the others are not even decoded."""
    train, test = (
        _seeded(rows, files.labels[rows], "subset", files.info.id, lambda n: min(n, most))
        for rows in (files.train, files.test)
    )
    used = np.union1d(train, test)
    return replace(
        files,
        files=tuple(files.files[i] for i in used),
        labels=files.labels[used],
        train=np.searchsorted(used, train),
        test=np.searchsorted(used, test),
        mark=lambda: combine(files.mark(), used.tolist()),
    )


def _part(files: Files) -> Files:
    """Split `part` of a large domain: the first 25,000 / 9,000 of the seeded order."""
    rows = []
    for part, have in (("train", files.train), ("test", files.test)):
        keep = chosen(len(have), "part", part, files.info.id)
        rows.append(have if keep is None else have[keep.numpy()])
    return replace(files, train=rows[0], test=rows[1])
