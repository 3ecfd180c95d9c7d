"""From «table4» to runs: what a table or figure of the paper needs run, row by row, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmark import plan as planning
from benchmark.errors import UserError, unknown
from benchmark.paper import answers
from benchmark.paper.answers import Figure
from benchmark.paper.folders import DEFAULT
from benchmark.plan import Plan, Request


@dataclass(frozen=True)
class Need:
    """Rows of ours in one standard, on one split and some targets (none: all)."""

    methods: tuple[str, ...]
    standard: str
    split: str
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    """A table or a figure that can be asked for."""

    name: str  # as it is typed: table4, figure3
    title: str  # as the paper calls it: Table 4
    suite: str
    needs: tuple[Need, ...]
    table: int = 0
    figure: Figure | None = None


def items(folder: Path = DEFAULT) -> dict[str, Item]:
    """All tables and figures of a paper by the name that is typed, in the order of print."""
    found = {}
    for number in sorted({row.table for row in answers.rows(folder=folder)}):
        rows = answers.rows(number, folder)
        groups: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            groups.setdefault((row.standard, row.split), []).extend(row.answers)
        needs = tuple(Need(tuple(dict.fromkeys(names)), *how) for how, names in groups.items() if names)
        found[f"table{number}"] = Item(f"table{number}", f"Table {number}", rows[0].suite, needs, table=number)
    for figure in answers.figures(folder):
        need = Need(tuple(figure.names), "multi-source", figure.split, (figure.target,))
        name, title = f"figure{figure.number}", f"Figure {figure.number}"
        found[name] = Item(name, title, figure.suite, (need,), figure=figure)
    return found


def chosen(what: str, folder: Path = DEFAULT) -> list[Item]:
    """The item of that name, or all of them."""
    known = items(folder)
    if what == "all":
        return list(known.values())
    if what not in known:
        raise unknown("table or figure", what, [*known, "all"])
    return [known[what]]


def plan(item: Item, base: Request, data_root: Path | None = None, *, bind: bool = True) -> Plan:
    """Exactly the runs of one item; `base` gives tier, seeds and settings. With bind=False missing data is no mistake."""
    parts = []
    for need in item.needs:
        request = dataclasses.replace(
            base, suite=item.suite, split=need.split, methods=need.methods, standards=[need.standard],
            targets=need.targets,
        )  # fmt: skip
        part = planning.make(request, data_root, bind=bind)
        if part.skipped:
            raise UserError(f"{item.title} cannot be run as its paper's folder says: {' '.join(part.skipped[0])}.")
        parts.append(part)
    return together(parts)[0]


def together(plans: Iterable[Plan]) -> list[Plan]:
    """One plan a suite: what several items share is one run."""
    by_suite: dict[str, list[Plan]] = {}
    for part in plans:
        by_suite.setdefault(part.suite.name, []).append(part)
    return [
        dataclasses.replace(
            parts[0],
            specs=list(dict.fromkeys(spec for part in parts for spec in part.specs)),
            unbound=next((part.unbound for part in parts if part.unbound), ""),
        )
        for parts in by_suite.values()
    ]
