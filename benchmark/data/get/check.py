"""Is the prepared data sound? Every fault with its file, all at once; and how it compares with the official counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.data import digits, folders
from benchmark.data.decoded import read_image
from benchmark.data.lists import Item, list_files, read_list, scan
from benchmark.data.prepared import FOLDERS, choose, data_folder
from benchmark.errors import UserError
from benchmark.machine import cores

if TYPE_CHECKING:
    from benchmark.spec import Suite

# Train and test images as published, by the data sets' own papers and pages.
DIGITS = {
    "mnist": "60,000 / 10,000 (55,000 / 10,000 in Digits-Five)",
    "mnistm": "59,001 / 9,001 (55,000 / 10,000 in Digits-Five)",
    "usps": "7,291 / 2,007 (7,438 / 1,860 in Digits-Five)",
    "svhn": "73,257 / 26,032",
    "syn": "25,000 / 9,000 in Digits-Five",
}
PACS = {  # pictures of dog, elephant, giraffe, guitar, horse, house, person
    "art_painting": (379, 255, 285, 184, 201, 295, 449),
    "cartoon": (389, 457, 346, 135, 324, 288, 405),
    "photo": (189, 202, 182, 186, 199, 280, 432),
    "sketch": (772, 740, 753, 608, 816, 80, 160),
}
DOMAINNET = {  # train and test lists of the cleaned version
    "clipart": (33_525, 14_604),
    "infograph": (36_023, 15_582),
    "painting": (50_416, 21_850),
    "quickdraw": (120_750, 51_750),
    "real": (120_906, 52_041),
    "sketch": (48_212, 20_916),
}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: which file, and what."""

    file: str
    fault: str


@dataclass(frozen=True)
class DomainFacts:
    """What a domain holds."""

    id: str
    name: str
    train: int
    test: int
    note: str = ""


@dataclass
class Report:
    """Everything that `data check` found."""

    suite: str
    data_root: str
    faults: list[Fault] = field(default_factory=list)
    domains: list[DomainFacts] = field(default_factory=list)
    fingerprint: str = ""

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.faults


def check(
    suite: Suite, data_root: Path | None, options: Mapping[str, str] | None = None, *, quick: bool = False
) -> Report:
    """Look at everything; `quick` leaves out the decoding of every picture."""
    root, options = data_folder(data_root), dict(options or {})
    report = Report(suite.name, str(root))
    folder = root / FOLDERS[suite.reader]
    if not folder.is_dir():
        report.faults.append(Fault(str(folder), "the folder is not there"))
        return report
    if suite.reader == "digits":
        _digits(suite, folder, report)
    elif suite.reader == "pacs":
        _pacs(suite, folder, report, quick)
    else:
        _domainnet(suite, folder, report, choose(options, "lists", folders.LISTS), quick)
    if report.ok:
        reader = digits if suite.reader == "digits" else folders
        report.fingerprint = reader.fingerprint(suite, "lite", suite.default_split, data_root, options)
    return report


def _digits(suite: Suite, folder: Path, report: Report) -> None:
    for domain in suite.domains:
        file = folder / f"{domain.name}.npz"
        if not file.is_file():
            if domain.id == "syn":
                report.domains.append(
                    DomainFacts("syn", "syn", 0, 0, "not there: made by our generator, shown as syn*")
                )
            else:
                report.faults.append(Fault(str(file), "the file is not there"))
            continue
        try:
            arrays = digits.read(file)
            wrong = digits.faults(arrays) or digits.empty_classes(arrays)
        except ValueError as error:
            wrong = [str(error)]
        report.faults += [Fault(str(file), what) for what in wrong]
        if not wrong:
            size = "×".join(str(n) for n in arrays["x_train"].shape[1:])
            note = f"{size}; as published: {DIGITS.get(domain.name, 'unknown')}"
            report.domains.append(
                DomainFacts(domain.id, domain.name, len(arrays["y_train"]), len(arrays["y_test"]), note)
            )


def _pacs(suite: Suite, tree: Path, report: Report, quick: bool) -> None:
    for domain in suite.domains:
        if not (tree / domain.name).is_dir():
            report.faults.append(Fault(str(tree / domain.name), "the folder of this domain is not there"))
            continue
        items = scan(tree, domain.name, suite.classes)
        count = Counter(item.label for item in items)
        for label, name in enumerate(suite.classes):
            if not count[label]:
                report.faults.append(Fault(str(tree / domain.name / name), "this class has no pictures"))
        report.faults += _strange_folders(tree / domain.name, suite.classes)
        report.faults += _pictures(tree, items, quick)
        for part, file in list_files(tree, domain.name, "pacs").items():
            report.faults += _list(file, tree, suite.classes, first_label=1, needed=part == "train")[1]
        official = PACS.get(domain.name, ())
        same = tuple(count[i] for i in range(len(suite.classes))) == official
        note = "as published, class by class" if same else f"as published: {sum(official):,}"
        report.domains.append(DomainFacts(domain.id, domain.name, len(items), len(items), note))


def _domainnet(suite: Suite, tree: Path, report: Report, version: str, quick: bool) -> None:
    for domain in suite.domains:
        if not (tree / domain.name).is_dir():
            report.faults.append(Fault(str(tree / domain.name), "the folder of this domain is not there"))
            continue
        lists = list_files(tree, domain.name, "domainnet", version)
        if not lists:
            missing = tree / f"{domain.name}_train.txt"
            report.faults.append(Fault(str(missing), "this list, or the test list beside it, is not there"))
            continue
        sizes = {}
        for part, file in lists.items():
            items, wrong = _list(file, tree, suite.classes, first_label=0, needed=True)
            sizes[part] = len(items)
            report.faults += wrong
            there = [item for item in items if (tree / item.name).is_file()]
            report.faults += _pictures(tree, there, quick)
        official = DOMAINNET.get(domain.name, (0, 0))
        same = (sizes["train"], sizes["test"]) == official
        note = "as published (cleaned)" if same else f"as published (cleaned): {official[0]:,} / {official[1]:,}"
        report.domains.append(DomainFacts(domain.id, domain.name, sizes["train"], sizes["test"], note))


def _strange_folders(folder: Path, classes: Sequence[str]) -> list[Fault]:
    names = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    return [Fault(str(folder / n), "this folder is none of the classes") for n in names if n not in classes]


def _list(
    file: Path, tree: Path, classes: Sequence[str], *, first_label: int, needed: bool
) -> tuple[list[Item], list[Fault]]:
    """The items of a list, and every line of it that is wrong."""
    try:
        items = read_list(file, first_label)
    except UserError as error:
        return [], [Fault(str(file), str(error).removeprefix(f"{file}, "))]
    faults = [Fault(str(file), "the list is empty")] if needed and not items else []
    for number, item in enumerate(items, start=1):
        if item.label >= len(classes):
            faults.append(Fault(str(file), f"line {number}: the label {item.label} is not in 0–{len(classes) - 1}"))
        elif len(item.name.split("/")) > 1 and item.name.split("/")[-2] != classes[item.label]:
            folder = item.name.split("/")[-2]
            faults.append(
                Fault(str(file), f"line {number}: {item.name} has the label of {classes[item.label]}, not of {folder}")
            )
        if not (tree / item.name).is_file():
            faults.append(Fault(str(file), f"line {number}: names {item.name}, which is not there"))
    return items, faults


def _pictures(tree: Path, items: Sequence[Item], quick: bool) -> Iterator[Fault]:
    """Every picture that cannot be decoded."""
    if quick:
        return

    def look(item: Item) -> Fault | None:
        try:
            read_image(tree / item.name, 8)
        except UserError as error:
            what = str(error).partition(" cannot be read: ")[2]
            return Fault(str(tree / item.name), f"cannot be decoded: {what.rstrip('.')}")
        return None

    with ThreadPoolExecutor(cores()) as pool:
        yield from (fault for fault in pool.map(look, items) if fault)
