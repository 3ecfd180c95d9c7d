"""Tables: one object, five forms. Each kind (`make`) is a function of the records alone, each form a function of the object:
`markdown`, `latex`, `csv_text`, `figure` (HTML), `show` (a terminal), `document` (JSON); `write` writes them to files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.analysis.gains import gains
from benchmark.analysis.table import Cell, Column, Row, Table
from benchmark.errors import unknown
from benchmark.files import write_text
from benchmark.spec import Suite
from benchmark.tables.ablation import ablation, choices
from benchmark.tables.against import averages, reported
from benchmark.tables.comparison import comparison
from benchmark.tables.cost import cost
from benchmark.tables.html import figure, page
from benchmark.tables.latex import latex
from benchmark.tables.markdown import markdown
from benchmark.tables.per_class import per_class
from benchmark.tables.plain import csv_text, document, show
from benchmark.tables.selection import selection
from benchmark.tables.statistics import statistics
from benchmark.tables.validators import validators

KINDS: dict[str, Callable[..., Table]] = {
    "comparison": comparison,
    "gains": gains,
    "ablation": ablation,
    "choices": choices,
    "selection": selection,
    "statistics": statistics,
    "validators": validators,
    "per-class": per_class,
    "cost": cost,
    "reported": reported,
}
FORMS: dict[str, Callable[[Table], str]] = {"md": markdown, "tex": latex, "csv": csv_text, "html": page}


def make(kind: str, frame: pd.DataFrame, suite: str | Suite, **options: Any) -> Table:
    """The table of a kind; `averages` checks the printed tables and reads no records."""
    if kind == "averages":
        return averages()
    if kind not in KINDS:
        raise unknown("kind of table", kind, [*KINDS, "averages"])
    return KINDS[kind](frame, suite, **options)


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
    "csv_text", "document", "figure", "gains", "latex",
    "make", "markdown", "per_class", "reported", "selection", "show", "statistics", "validators", "write",
]  # fmt: skip
