"""Which pictures a folder tree holds: by looking into class folders, or by the official lists of names and labels."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.spec import Reading

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
PARTS = ("train", "test")


@dataclass(frozen=True)
class Item:
    """One picture: its name relative to the tree, with forward slashes, and its label."""

    name: str
    label: int


def scan(root: Path, domain: str, classes: Sequence[str], left_out: Collection[str] = ()) -> list[Item]:
    """Every picture under `<root>/<domain>/<class>/`, by class and then by name: the same order on every machine."""
    items = []
    for label, name in enumerate(classes):
        folder = root / domain / name
        entries = os.scandir(folder) if folder.is_dir() else ()
        # a link to nothing stays: who reads it says so, instead of training on fewer pictures without a word
        files = sorted(e.name for e in entries if is_picture(e.name) and not e.is_dir())
        items += [Item(f"{domain}/{name}/{file}", label) for file in files]
    return [item for item in items if item.name not in left_out] if left_out else items


def is_picture(name: str) -> bool:
    """A picture by its suffix; hidden files (`._x.jpg` of another system) are none."""
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def list_files(root: Path, domain: str, reading: Reading) -> dict[str, Path]:
    """The train and the test list of a domain, from the first place that has both; {} when there is none."""
    for names in reading.list_names(domain):
        found = {part: root / name for part, name in zip(PARTS, names, strict=True)}
        if all(path.is_file() for path in found.values()):
            return found
    return {}


def is_left_out(name: str, left_out: Collection[str]) -> bool:
    """Whether a suite leaves out a picture of a list: by its name, or by its class, which is the folder that it lies in."""
    return name in left_out or any(folder in left_out for folder in name.split("/")[-2:-1])


def leads_out(name: str) -> bool:
    """Whether a name from a list leads out of the folder that it is relative to."""
    return name.startswith("/") or ".." in name.split("/")


def read_list(file: Path, first_label: int = 0) -> list[Item]:
    """Lines `name label` of an official list; names may hold spaces. Labels of PACS start at 1."""
    items = []
    text = file.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, _, label = line.strip().rpartition(" ")
        if not name or not re.fullmatch(r"-?[0-9]{1,6}", label):
            raise UserError(f"{file}, line {number}: expected 'name label', found {line.strip()[:80]!r}.")
        if int(label) < first_label:
            raise UserError(f"{file}, line {number}: the label {label} is below {first_label}.")
        if leads_out(name):
            raise UserError(f"{file}, line {number}: the name {name!r} leads out of the data folder.")
        items.append(Item(name, int(label) - first_label))
    return items
