"""Is the prepared data sound? Every fault with its file, all at once; and how it compares with the official counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.data import digits, folders, forms
from benchmark.data.decoded import read_image
from benchmark.data.lists import Item, is_left_out, list_files, read_list, scan
from benchmark.data.prepared import choose, data_folder, is_ours
from benchmark.errors import UserError
from benchmark.machine import cores

if TYPE_CHECKING:
    from benchmark.spec import DomainInfo, Reading, Suite

# Train and test images as published, by the data sets' own papers and pages.
DIGITS = {
    "mnist": "60,000 / 10,000 (55,000 / 10,000 in Digits-Five)",
    "mnistm": "59,001 / 9,001 (55,000 / 10,000 in Digits-Five)",
    "usps": "7,291 / 2,007 (7,438 / 1,860 in Digits-Five)",
    "svhn": "73,257 / 26,032",
    "syn": "25,000 / 9,000 in Digits-Five",
}


def count_words(suite: Suite, domain: str, train: int, test: int) -> str:
    """How many pictures came, and whose count that is: the published one, or that of one of several versions."""
    came = f"{train:,} / {test:,} images" if test else f"{train:,} images"
    readings = [r for r in suite.folders.readings if r.counts]
    if not readings:
        official = published(suite, domain)
        return f"{came}: {'as published' if train + test == official else f'published are {official:,}'}"
    first = readings[0].counts[domain]
    totals = {r.name: sum(r.counts.get(domain, first)) for r in readings}
    if [train, test] == first:
        return f"{came}: the counts of the {readings[0].name} version"
    other = next((name for name, total in list(totals.items())[1:] if total == train + test), "")
    if other:
        return f"{came}: the count of the {other} version"
    words = [f"the {r.name}{' version' if r is readings[0] else ''}'s" for r in readings]
    said = [" / ".join(f"{n:,}" for n in first), *(f"{totals[r.name]:,}" for r in readings[1:])]
    return f"{came}: neither " + " nor ".join(f"{w} {n}" for w, n in zip(words, said, strict=True))


def published(suite: Suite, domain: str) -> int:
    """How many pictures a domain should have; 0 when nobody said."""
    info = next(d for d in suite.domains if d.name == domain)
    return sum(info.by_class) or info.images


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
    folder = root / suite.folder
    if not folder.is_dir():
        report.faults.append(Fault(str(folder), "the folder is not there"))
        return report
    if suite.reader == "digits":
        _digits(suite, folder, report)
    else:
        described = suite.folders
        reading = described.reading(choose(options, described.option, [r.name for r in described.readings]))
        _folders(suite, folder, report, reading, quick, data_root)
    if report.ok:
        reader = digits if suite.reader == "digits" else folders
        report.fingerprint = reader.fingerprint(suite, _tier(suite), suite.default_split, data_root, options)
    return report


def _tier(suite: Suite) -> str:
    """The tier whose images are asked for: lite, or what there is of real images."""
    real = [name.value for name, tier in suite.tiers.items() if tier.data == "prepared"]
    return "lite" if "lite" in real else real[0]


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


def _folders(suite: Suite, root: Path, report: Report, reading: Reading, quick: bool, data_root: Path | None) -> None:
    """Every domain of a folder of pictures, by lists, by class folders, or by a table or shards."""
    if reading.pictures == "tree" and suite.folders.identity == "contents":
        try:
            found = forms.pictures(suite, root, suite.classes, data_root)
        except UserError as error:
            report.faults.append(Fault(str(root), str(error)))
            return
        if found.form != "tree":
            _formed(suite, root, report, found, quick)
            return
    for domain in suite.domains:
        if not (root / domain.name).is_dir():
            report.faults.append(Fault(str(root / domain.name), "the folder of this domain is not there"))
        elif reading.pictures == "lists":
            _by_lists(suite, domain, root, report, reading, quick)
        else:
            _by_classes(suite, domain, root, report, quick)


def _by_classes(suite: Suite, domain: DomainInfo, root: Path, report: Report, quick: bool) -> None:
    items = scan(root, domain.name, suite.classes, {*suite.folders.left_out})
    count = Counter(item.label for item in items)
    for label, name in enumerate(suite.classes):
        if not count[label]:
            report.faults.append(Fault(str(root / domain.name / name), "this class has no pictures"))
    report.faults += _strange_folders(root / domain.name, (*suite.classes, *suite.folders.left_out))
    report.faults += _pictures([root / item.name for item in items], quick)
    for reading in suite.folders.readings:
        for part, file in list_files(root, domain.name, reading).items():
            report.faults += _list(file, root, suite, reading, needed=part == "train")[1]
    report.domains.append(_facts(suite, domain, count))


def _formed(suite: Suite, root: Path, report: Report, found: forms.Found, quick: bool) -> None:
    """A table or shards: faults of their rows, then as for folders."""
    report.faults += [Fault(str(root), sentence) for sentence in found.faults]
    for domain in suite.domains:
        items = found.domains[domain.name]
        count = Counter(p.label for p in items)
        missing = [name for label, name in enumerate(suite.classes) if not count[label]]
        if missing:
            report.faults.append(Fault(f"{root}: {domain.name}", f"it has no pictures of {', '.join(missing)}"))
        gone = [p for p in items if not Path(p.file).is_file()]
        report.faults += [Fault(p.file, "the table names it, and it is not there") for p in gone]
        names = {p.file for p in gone}
        report.faults += _pictures([Path(p.file) for p in items if p.file not in names], quick)
        report.domains.append(_facts(suite, domain, count))


def _facts(suite: Suite, domain: DomainInfo, count: Mapping[int, int]) -> DomainFacts:
    """How many pictures a domain has, beside how many it should have."""
    total, official = sum(count.values()), published(suite, domain.name)
    who = "as published" if is_ours(suite) else "as the suite file says"
    note = f"{who}: {official:,}" if official else ""
    if domain.by_class and [count[i] for i in range(len(suite.classes))] == domain.by_class:
        note = f"{who}, class by class"
    elif official and total == official and not domain.by_class:
        note = who
    return DomainFacts(domain.id, domain.name, total, total, note)


def _by_lists(suite: Suite, domain: DomainInfo, root: Path, report: Report, reading: Reading, quick: bool) -> None:
    lists = list_files(root, domain.name, reading)
    if not lists:
        missing = root / reading.list_names(domain.name)[-1][0]
        report.faults.append(Fault(str(missing), "this list, or the test list beside it, is not there"))
        return
    sizes = {}
    for part, file in lists.items():
        items, wrong = _list(file, root, suite, reading, needed=True)
        sizes[part] = len(items)
        if file == lists["train"] and part == "test":
            break  # one list of all pictures
        report.faults += wrong
        report.faults += _pictures([p for p in (root / item.name for item in items) if p.is_file()], quick)
    official = reading.counts.get(domain.name) or [published(suite, domain.name)]
    whose = f"as published ({reading.name})" if reading.counts else "as published"
    same = official in ([sizes["train"], sizes["test"]], [sizes["train"]])
    note = whose if same else f"{whose}: {' / '.join(f'{n:,}' for n in official)}"
    report.domains.append(DomainFacts(domain.id, domain.name, sizes["train"], sizes["test"], note))


def _strange_folders(folder: Path, classes: Sequence[str]) -> list[Fault]:
    names = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    return [Fault(str(folder / n), "this folder is none of the classes") for n in names if n not in classes]


def _list(file: Path, tree: Path, suite: Suite, reading: Reading, *, needed: bool) -> tuple[list[Item], list[Fault]]:
    """The items of a list, and every line of it that is wrong; what a suite of class folders leaves out may stand in it."""
    by_folder, classes = reading.pictures == "tree", suite.classes
    left_out = {*suite.folders.left_out} - {*classes} if by_folder else set[str]()
    numbered = not any(
        "/" not in name for name in left_out
    )  # without a class of theirs, the labels count others than ours
    try:
        items = read_list(file, reading.first_label)
    except UserError as error:
        return [], [Fault(str(file), str(error).removeprefix(f"{file}, "))]
    faults = [Fault(str(file), "the list is empty")] if needed and not items else []
    for number, item in enumerate(items, start=1):
        if is_left_out(item.name, left_out):
            continue
        wrong = [_label_fault(item, classes)] if numbered else []
        if not (tree / item.name).is_file():
            wrong.append(f"names {item.name}, which is not there")
        faults += [Fault(str(file), f"line {number}: {what}") for what in wrong if what]
    return items, faults


def _label_fault(item: Item, classes: Sequence[str]) -> str:
    """What is wrong with the label of a list's line; empty when nothing is."""
    if item.label >= len(classes):
        return f"the label {item.label} is not in 0–{len(classes) - 1}"
    folders = item.name.split("/")[:-1]
    if len(folders) > 1 and folders[-1] != classes[item.label]:
        return f"{item.name} has the label of {classes[item.label]}, not of {folders[-1]}"
    return ""


def _pictures(files: Sequence[Path], quick: bool) -> Iterator[Fault]:
    """Every picture that cannot be decoded."""
    if quick:
        return

    def look(file: Path) -> Fault | None:
        try:
            read_image(file, 8)
        except UserError as error:
            what = str(error).partition(" cannot be read: ")[2]
            return Fault(str(file), f"cannot be decoded: {what.rstrip('.')}")
        return None

    with ThreadPoolExecutor(cores()) as pool:
        yield from (fault for fault in pool.map(look, files) if fault)
