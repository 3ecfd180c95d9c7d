"""Which of our rows answer a printed row, which make the ablation, and which a figure shows: rows.toml and figures.toml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmark.errors import UserError, unknown
from benchmark.files import read_toml
from benchmark.paper.folders import DEFAULT


@dataclass(frozen=True)
class PrintedRow:
    """A printed row of an accuracy table and what answers it: `method[:preset]` in `standard` on `split`."""

    table: int
    suite: str
    block: str
    row: str
    standard: str
    split: str
    answers: tuple[str, ...]  # what is run for it, the paper's reading first
    also: tuple[str, ...] = ()  # held against it where it was run
    why_not: str = ""  # why nothing answers it


@dataclass(frozen=True)
class Step:
    """A row of the ablation, and the printed row that it answers (empty: none)."""

    name: str
    label: str
    printed: str = ""


@dataclass(frozen=True)
class Family:
    """Rows of an ablation of which each adds a part to the one above it."""

    title: str
    steps: tuple[Step, ...]
    note: str = ""


@dataclass(frozen=True)
class Ablation:
    """What our table of the ablation shows beside which printed table."""

    table: int
    baselines: Family
    families: tuple[Family, ...]


@dataclass(frozen=True)
class Figure:
    """A printed figure: the kind that draws it, of which suite and target, and its rows with their stand-ins."""

    number: int
    label: str
    kind: str
    shows: str
    suite: str
    split: str
    target: str
    elsewhere: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The paper's target, then those that stand for it in other suites."""
        return (self.target, *self.elsewhere)

    @property
    def names(self) -> list[str]:
        """The rows themselves, without stand-ins."""
        return [row[0] for row in self.rows]


@dataclass(frozen=True)
class Measure:
    """A number of a run, or a list of them by place, beside its accuracy: `times` × `key`, or that over `over`.

    `of` is the part of the record it stands in: what the method measures of itself, or what the loop measured of it.
    """

    key: str
    title: str
    of: str = "diagnostics"
    times: float = 1.0
    over: str = ""
    decimals: int = 2
    significant: int = 0  # digits of a number that spans magnitudes, instead of decimals
    mirrored: bool = False  # a list whose second half repeats the first: entry k is entry n − k


@dataclass(frozen=True)
class Inside:
    """What the table of the method's own state is about, its columns, and how to read them."""

    title: str
    note: str
    without: str  # the row that lacks the measured thing and nothing else
    measures: tuple[Measure, ...]


@cache
def _document(file: Path) -> dict[str, Any]:
    return read_toml(file, "The file")


def _fields(entry: dict[str, Any], keys: tuple[str, ...], what: str, file: Path) -> list[Any]:
    lacking = [key for key in keys if key not in entry]
    if lacking:
        raise UserError(f"A {what} in {file} lacks {', '.join(lacking)}: {entry}.")
    return [entry[key] for key in keys]


def own_method(folder: Path = DEFAULT) -> tuple[str, str]:
    """Name and title of the method that the paper is about."""
    file = folder / "rows.toml"
    name, title = _fields(_document(file), ("method", "title"), "paper", file)
    return name, title


def rivals_of(folder: Path = DEFAULT) -> list[str]:
    """The readings of the paper's method that a study holds all other rows against."""
    file = folder / "rows.toml"
    (names,) = _fields(_document(file), ("rivals_of",), "paper", file)
    return list(names)


def rows(table: int | None = None, folder: Path = DEFAULT) -> list[PrintedRow]:
    """The printed rows of one accuracy table, or of all, in the order of the file, which is the order of print."""
    file = folder / "rows.toml"
    keys = ("table", "suite", "block", "standard", "split", "answers")
    found = []
    for entry in _document(file).get("block", []):
        number, suite, block, standard, split, named = _fields(entry, keys, "block", file)
        also = entry.get("also", {})
        for row, names in named.items():
            answering, why = ((), names) if isinstance(names, str) else (tuple(names), "")
            readings = tuple(also.get(row, ()))
            found.append(PrintedRow(number, suite, block, row, standard, split, answering, readings, why))
    return [row for row in found if table in (None, row.table)]


@cache
def systems(folder: Path = DEFAULT, suite: str | None = None) -> frozenset[str]:
    """The methods that answer its printed rows: what the paper's tables compare, on one suite or on any."""
    printed = [row for row in rows(folder=folder) if suite in (None, row.suite)]
    return frozenset(name.partition(":")[0] for row in printed for name in row.answers)


def ablation(folder: Path = DEFAULT) -> Ablation:
    """The rows of our ablation, each with the printed row that it answers."""
    file = folder / "rows.toml"
    document = _document(file).get("ablation", {})
    table, baselines, families = _fields(document, ("table", "baselines", "family"), "table of the ablation", file)
    printed = {name: row.row for row in rows(table, folder) for name in row.answers}

    def family(title: str, steps: list[list[str]], note: str) -> Family:
        return Family(title, tuple(Step(name, label, printed.get(name, "")) for name, label in steps), note)

    return Ablation(
        table,
        family("Baselines", baselines, document.get("note", "")),
        tuple(family(f["title"], f["steps"], f.get("note", "")) for f in families),
    )


def inside(folder: Path = DEFAULT) -> Inside:
    """What the paper's method measures of itself that a reader of its tables asks for."""
    file = folder / "rows.toml"
    keys = ("title", "note", "without", "measure")
    title, note, without, listed = _fields(_document(file).get("inside", {}), keys, "table inside", file)
    return Inside(title, note, without, tuple(Measure(**entry) for entry in listed))


def figures(folder: Path = DEFAULT) -> list[Figure]:
    """The figures that show measured things, in the order of print."""
    file = folder / "figures.toml"
    keys = ("number", "label", "kind", "shows", "suite", "split", "target", "elsewhere", "rows")
    found = []
    for entry in _document(file).get("figure", []):
        number, label, kind, shows, suite, split, target, elsewhere, shown = _fields(entry, keys, "figure", file)
        names = tuple(tuple(row) for row in shown)
        found.append(Figure(number, label, kind, shows, suite, split, target, tuple(elsewhere), names))
    return found


def figure(kind: str, folder: Path = DEFAULT) -> Figure:
    """The figure that a kind of drawing answers."""
    by_kind = {figure.kind: figure for figure in figures(folder)}
    if kind not in by_kind:
        raise unknown("figure of the paper of the kind", kind, by_kind)
    return by_kind[kind]
