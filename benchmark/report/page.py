"""The report: one HTML file that needs nothing else, opens from disk, and shows everything that the records hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup

from benchmark import records
from benchmark.analysis import verdict
from benchmark.errors import UserError
from benchmark.files import write_text
from benchmark.report.charts import SHARES
from benchmark.report.data import embed, run_data
from benchmark.report.sections import provenance, sections
from benchmark.tables.html import folded

FOLDER = Path(__file__).parent


def write(
    results: Path | str,
    path: Path | str,
    *,
    figures: bool = False,
    sheets: bool = False,
    title: str = "Benchmark report",
) -> Path:
    """Write the report of all runs below `results` to `path`; `figures` and `sheets` take longer and are left out by default.

    The file holds no link to anything outside itself.
    """
    frame = records.load(results)
    if frame.empty:
        raise UserError(
            f"There are no records in {results} to report on. "
            f"Type: python -m benchmark run --suite digits --results {results}"
        )
    path = Path(path)
    write_text(path, render(frame, figures=figures, sheets=sheets, title=title))
    return path


@dataclass(frozen=True)
class Live:
    """What makes the page a served one: it asks for `version` and loads itself again when that is another."""

    version: str
    words: str  # when it was rendered

    @property
    def script(self) -> str:
        """The part of the page that asks."""
        return (FOLDER / "live.js").read_text(encoding="utf-8")


def render(
    frame: pd.DataFrame,
    *,
    figures: bool = False,
    sheets: bool = False,
    title: str = "Benchmark report",
    live: Live | None = None,
) -> str:
    """The page as text."""
    loader, strict = jinja2.FileSystemLoader(FOLDER), jinja2.StrictUndefined
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=strict
    )
    verdicts = verdict.judge(frame) if verdict.concerns(frame) else []
    counts = frame["status"].value_counts().to_dict()
    return environment.get_template("page.html.j2").render(
        title=title,
        live=live,
        incomplete=frame.attrs.get("incomplete", ""),
        total=len(frame),
        counts=[(status, int(counts[status])) for status in SHARES if status in counts],
        verdicts=verdicts,
        reading=Markup(folded(verdict.conditions(verdicts))),
        answers={a: n for a in verdict.ANSWERS if (n := sum(v.answer == a for v in verdicts))},
        sections=sections(frame, figures=figures, sheets=sheets),
        provenance=provenance(frame),
        data=embed(run_data(frame)),
        style=(FOLDER / "page.css").read_text(encoding="utf-8"),
        script=(FOLDER / "page.js").read_text(encoding="utf-8"),
    )
