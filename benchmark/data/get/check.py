"""Is the prepared data sound? Every fault with its file, all at once; and how it compares with the official counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.data import digits, fingerprint, forms
from benchmark.data.decoded import read_image
from benchmark.data.get.sources import how_to_get
from benchmark.data.lists import Item, is_left_out, list_files, read_list, scan
from benchmark.data.prepared import choose, data_folder, is_ours
from benchmark.data.readings import tree_of
from benchmark.errors import UserError
from benchmark.machine import cores

if TYPE_CHECKING:
    from benchmark.spec import DomainInfo, Reading, Suite

# Train and test images as published: by the data sets' own papers and pages, then those of Digits-Five where they differ.
DIGITS = {
    "mnist": ((60_000, 10_000), (55_000, 10_000)),
    "mnistm": ((59_001, 9_001), (55_000, 10_000)),
    "usps": ((7_291, 2_007), (7_438, 1_860)),
    "svhn": ((73_257, 26_032),),
    "syn": ((25_000, 9_000),),
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
    unlike: list[str] = field(default_factory=list)  # domains of ours whose counts are not the published ones: no fault
    tier: str = ""
    reading: str = ""  # which pictures a run of this tier trains on and scores, in words
    fingerprint: str = ""
    next: str = ""  # how to get what is not there

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.faults

    def words(self, split: str, *, quick: bool) -> str:
        """What to say when nothing is wrong."""
        well = "All is well."
        if self.unlike:
            sound = "Nothing is wrong" if quick else "Every picture is sound"
            well = (
                f"{sound}, but the counts are not the published ones: {', '.join(self.unlike)}. A part of the images can be "
                "trained on, so that is no fault."
            )
        reading = f", {self.reading}" if self.reading else ""
        return f"{well} Fingerprint {self.fingerprint} (tier {self.tier}, split {split}{reading})."


def check(
    suite: Suite,
    data_root: Path | None,
    options: Mapping[str, str] | None = None,
    *,
    quick: bool = False,
    tier: str = "",
) -> Report:
    """Look at everything; `quick` leaves out the decoding of every picture. Counts and fingerprint are those of a run at
    `tier`, by default lite."""
    root, tier = data_folder(data_root), tier or _tier(suite)
    options = {**suite.tier(tier).options, **(options or {})}
    report = Report(suite.name, str(root), tier=tier)
    folder = root / suite.folder
    if not folder.is_dir():
        report.faults.append(Fault(str(folder), "the folder is not there"))
        report.next = how_to_get(suite, root)
        return report
    if suite.reader == "digits":
        _digits(suite, folder, report)
    else:
        described = suite.folders
        reading = described.reading(choose(options, described.option, [r.name for r in described.readings]))
        _folders(suite, folder, report, reading, quick, data_root)
        if any(not (folder / d.name).is_dir() for d in suite.domains) and not report.ok:
            report.next = how_to_get(suite, root)
    if report.ok:
        _as_run(suite, folder, report, options, data_root)
    return report


def _as_run(suite: Suite, folder: Path, report: Report, options: Mapping[str, str], data_root: Path | None) -> None:
    """Fingerprint and counts as a run of this tier has them: its options decide what is trained on and scored."""
    try:
        if suite.reader != "digits":
            tree = tree_of(suite, folder, suite.default_split, suite.classes, options, data_root)
            sizes = {d.info.id: (len(d.train), len(d.test)) for d in tree.domains}
            report.reading = tree.words
            report.domains = [replace(d, train=sizes[d.id][0], test=sizes[d.id][1]) for d in report.domains]
        report.fingerprint = fingerprint(suite, report.tier, suite.default_split, data_root, options)
    except UserError as error:  # the weights that this tier starts from, say
        report.faults.append(Fault(str(folder), str(error)))


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
            train, test = len(arrays["y_train"]), len(arrays["y_test"])
            known = DIGITS.get(domain.name, ())
            words = ", or in Digits-Five ".join(" / ".join(f"{n:,}" for n in pair) for pair in known)
            report.domains.append(DomainFacts(domain.id, domain.name, train, test, f"{size}; as published: {words}"))
            if known and (train, test) not in known:
                report.unlike.append(f"{domain.id} {train:,} / {test:,} of {words}")


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
    _count(suite, domain, root, report, count)


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
        _count(suite, domain, root, report, count)


def _count(suite: Suite, domain: DomainInfo, root: Path, report: Report, count: Mapping[int, int]) -> None:
    """How many pictures a domain has, beside how many it should have.

    Of a published set a part may be had; with one's own pictures something happened since the file was written.
    """
    have = [count[label] for label in range(len(suite.classes))]
    total, official = sum(have), published(suite, domain.name)
    same = have == domain.by_class if domain.by_class else total == official
    who = "as published" if is_ours(suite) else "as the suite file says"
    as_told = f"{who}, class by class" if domain.by_class else who
    note = (as_told if same else f"{who}: {official:,}") if official else ""
    report.domains.append(DomainFacts(domain.id, domain.name, total, total, note))
    if same or not official:
        return
    if is_ours(suite):
        report.unlike.append(f"{domain.id} {total:,} of {official:,}{' (other classes)' if total == official else ''}")
        return
    by_class = zip(suite.classes, have, domain.by_class, strict=False)
    told = [f"{name} {n:,}, not {wanted:,}" for name, n, wanted in by_class if n != wanted]
    words = "; ".join(told or [f"{total:,}, not {official:,}"])
    fault = f"its pictures are not those that the suite file counts: {words}. If that is meant, change by_class there"
    report.faults.append(Fault(str(root / domain.name), fault))


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
    first = suite.folders.readings[0].counts  # where a reading is silent, its version is as the first one
    official = reading.counts.get(domain.name) or first.get(domain.name) or [published(suite, domain.name)]
    whose = f"as published ({reading.name})" if reading.counts else "as published"
    total = sizes["train"] + (sizes["test"] if lists["train"] != lists["test"] else 0)
    same = official in ([sizes["train"], sizes["test"]], [total])
    words = " / ".join(f"{n:,}" for n in official)
    note = (whose if same else f"{whose}: {words}") if any(official) else ""
    report.domains.append(DomainFacts(domain.id, domain.name, sizes["train"], sizes["test"], note))
    if is_ours(suite) and any(official) and not same:
        came = f"{sizes['train']:,} / {sizes['test']:,}" if len(official) > 1 else f"{total:,}"
        report.unlike.append(f"{domain.id} {came} of {words}")


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
