"""Which pictures a folder tree holds: by looking into class folders, or by the official lists of names and labels."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.errors import UserError

SUFFIXES = (".jpg", ".jpeg", ".png")
PARTS = ("train", "test")


@dataclass(frozen=True)
class Item:
    """One picture: its name relative to the tree, with forward slashes, and its label."""

    name: str
    label: int


def scan(root: Path, domain: str, classes: Sequence[str]) -> list[Item]:
    """Every picture under `<root>/<domain>/<class>/`, by class and then by name: the same order on every machine."""
    items = []
    for label, name in enumerate(classes):
        folder = root / domain / name
        files = sorted(e.name for e in os.scandir(folder) if is_picture(e.name)) if folder.is_dir() else []
        items += [Item(f"{domain}/{name}/{file}", label) for file in files]
    return items


def is_picture(name: str) -> bool:
    """A picture by its suffix; hidden files (`._x.jpg` of another system) are none."""
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def list_files(root: Path, domain: str, reader: str, version: str = "") -> dict[str, Path]:
    """The train and test list of a domain, or {} when one of them is not there.

    PACS: `splits/<domain>_train_kfold.txt` and `_crossval_kfold.txt` (the official test list is both together).
    DomainNet: `<version>/<domain>_train.txt` if there is such a folder with that list, else `<domain>_train.txt`.
    """
    if reader == "pacs":
        found = {
            "train": root / "splits" / f"{domain}_train_kfold.txt",
            "test": root / "splits" / f"{domain}_crossval_kfold.txt",
        }
        return found if all(p.is_file() for p in found.values()) else {}
    for folder in (root / version, root):
        found = {part: folder / f"{domain}_{part}.txt" for part in PARTS}
        if all(p.is_file() for p in found.values()):
            return found
    return {}


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
        if name.startswith("/") or ".." in name.split("/"):
            raise UserError(f"{file}, line {number}: the name {name!r} leads out of the data folder.")
        items.append(Item(name, int(label) - first_label))
    return items
