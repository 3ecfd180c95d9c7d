"""Tables: one object, five forms. Each kind (`make`) is a function of the records alone, each form a function of the object:
`markdown`, `latex`, `csv_text`, `figure` (HTML), `show` (a terminal), `document` (JSON); `write` writes them to files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.analysis import asked
from benchmark.analysis.at_test import statistics
from benchmark.analysis.gains import gains
from benchmark.analysis.table import Cell, Column, Row, Table
from benchmark.errors import unknown
from benchmark.files import write_text
from benchmark.spec import Suite
from benchmark.tables.ablation import ablation, choices
from benchmark.tables.against import averages, log, reported, reproduction
from benchmark.tables.comparison import comparison
from benchmark.tables.cost import cost
from benchmark.tables.html import figure, page
from benchmark.tables.inside import inside
from benchmark.tables.latex import latex
from benchmark.tables.markdown import markdown
from benchmark.tables.per_class import per_class
from benchmark.tables.plain import csv_text, document, show
from benchmark.tables.selection import selection
from benchmark.tables.validators import validators

KINDS: dict[str, Callable[..., Table]] = {
    "comparison": comparison,
    "gains": gains,
    "ablation": ablation,
    "choices": choices,
    "inside": inside,
    "selection": selection,
    "statistics": statistics,
    "validators": validators,
    "per-class": per_class,
    "cost": cost,
    "reported": reported,
    "log": log,
}
FORMS: dict[str, Callable[[Table], str]] = {"md": markdown, "tex": latex, "csv": csv_text, "html": page}


READ = ("comparison", "gains")  # these have rows that read another row's runs; elsewhere those runs would count twice


def make(
    kind: str,
    frame: pd.DataFrame,
    suite: str | Suite,
    *,
    methods: Sequence[str] = (),
    readings: Sequence[str] = (),
    **options: Any,
) -> Table:
    """The table of a kind; `averages` checks the printed tables and reads no records.

    `methods` are the rows to show, by name or group, the default all that have runs; `readings` rows beside them that
    read another row's runs.
    """
    if kind == "averages":
        return averages()
    if kind not in KINDS:
        raise unknown("kind of table", kind, [*KINDS, "averages"])
    read = kind in READ
    shown = asked.only(frame, methods, read=read) if methods else frame
    shown = asked.with_readings(shown, readings) if read else shown
    if kind == "reported":
        options["others"] = methods
    return marked(KINDS[kind](shown, suite, **options), frame)


def marked(table: Table, frame: pd.DataFrame) -> Table:
    """A table of a study that was published before it was whole says so first of all."""
    missing = frame.attrs.get("incomplete")
    return replace(table, title=f"Incomplete study: {missing.rstrip('.')}. {table.title}") if missing else table


def write(table: Table, folder: Path | str, stem: str) -> list[Path]:
    """`<folder>/<stem>.md .tex .csv .html`, each replaced as a whole."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, render in FORMS.items():
        path = folder / f"{stem}.{suffix}"
        write_text(path, render(table))
        paths.append(path)
    return paths


__all__ = [
    "FORMS", "KINDS", "Cell", "Column", "Row", "Table", "ablation", "averages", "choices", "comparison", "cost",
    "csv_text", "document", "figure", "gains", "inside", "latex", "log",
    "make", "markdown", "marked", "per_class", "reported", "reproduction", "selection", "show", "statistics", "validators",
    "write",
]  # fmt: skip
