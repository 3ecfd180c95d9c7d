"""What the report shows of each suite and tier: tables, figures, sheets; what cannot be shown, with the reason."""

from __future__ import annotations

import base64
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from benchmark import data, tables
from benchmark import figures as drawing
from benchmark.analysis.verdict import TIERS
from benchmark.data.sheet import sheet
from benchmark.errors import UserError
from benchmark.report.charts import SHARES, averages
from benchmark.spec import load_suite
from benchmark.tables.html import figure as table_html
from benchmark.tables.html import folded

FIGURES = ("gains", "statistics", "log", "curves", "tsne", "similarity", "uncertainty", "tnn", "cost")
TITLES = {
    "comparison": "Comparison", "gains": "Gains", "ablation": "Ablation", "choices": "Disputed choices",
    "inside": "Inside the method",
    "selection": "Selection rules", "statistics": "Statistics at test", "validators": "Validators",
    "per-class": "By class", "cost": "Cost",
    "reported": "Ours beside reported", "log": "The released log",
}  # fmt: skip


@dataclass
class Picture:
    """An image inside the page."""

    title: str
    alt: str
    caption: str
    source: str  # data URI
    conditions: Markup = field(default_factory=Markup)  # folded below the caption


@dataclass
class Section:
    """One suite in one tier, on one split when its tables cannot show both."""

    suite: str
    title: str
    tier: str
    counts: list[tuple[str, int, str]]
    overview: Markup = field(default_factory=Markup)
    headline: str = ""
    tables: list[tuple[str, str, Markup]] = field(default_factory=list)  # kind, title, html
    pictures: list[Picture] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """Fragment of its heading."""
        return f"{self.suite}-{self.tier}"


def sections(frame: pd.DataFrame, *, figures: bool, sheets: bool) -> list[Section]:
    """All suites and tiers that have runs, the larger tiers first."""
    found = []
    for suite in sorted(frame["suite"].dropna().unique()):
        tiers = frame.loc[frame["suite"] == suite, "tier"].dropna().unique()
        for tier in sorted(tiers, key=lambda t: TIERS.index(t) if t in TIERS else len(TIERS)):
            runs = frame[(frame["suite"] == suite) & (frame["tier"] == tier)]
            found.append(_section(runs, str(suite), str(tier), figures, sheets))
    return found


def _section(runs: pd.DataFrame, suite: str, tier: str, figures: bool, sheets: bool) -> Section:
    counts = runs["status"].value_counts()
    listed = [(s, int(counts[s]), shade) for s, shade in SHARES.items() if s in counts.index]
    section = Section(suite, _title(suite), tier, listed)
    for kind in tables.KINDS:
        try:
            table = tables.make(kind, runs, suite, **_split(runs, kind))
        except UserError as error:
            section.refused.append((TITLES[kind], str(error)))
            continue
        section.tables.append((kind, TITLES[kind], Markup(table_html(table, runs=True))))
        if kind == "comparison":
            section.overview, section.headline = averages(table), _headline(table)
    if figures:
        _figures(section, runs)
    if sheets:
        _sheet(section, runs)
    return section


def _title(suite: str) -> str:
    try:
        return load_suite(suite).title
    except UserError:  # a suite file of the user's own that is no longer there
        return suite


def _split(runs: pd.DataFrame, kind: str) -> dict[str, Any]:
    """Tables that compare rows on the same images take the split with more runs; the others show both."""
    if kind in ("ablation", "choices", "inside", "log") and runs["split"].nunique() > 1:
        return {"split": str(runs["split"].value_counts().index[0])}
    return {}


def _headline(table: tables.Table) -> str:
    """The best row of those with the most seeds in a sentence, with what qualifies it."""
    place = next(j for j, c in enumerate(table.columns) if c.key == "average")
    whole = sorted(
        (r for r in table.rows if r.competes and r.cells[place].measured), key=lambda r: -r.cells[place].value
    )
    most = max((r.cells[place].n for r in whole), default=0)
    ranked = [r for r in whole if r.cells[place].n == most]  # a lead of one lucky seed is none
    if len(ranked) < 2:
        return "No average over all targets yet, or a single row: nothing is best."
    best, method = ranked[0].cells, ranked[0].cells[0].detail.partition(":")[0]
    text = f"{best[0].words} has the highest average, {best[place].value:.1f}\u00a0% (n\u00a0=\u00a0{best[place].n})"
    rival = next((r.cells for r in ranked if r.cells[0].detail.partition(":")[0] != method), None)
    if rival is not None:
        text += f"; the next method is {rival[0].words} with {rival[place].value:.1f}\u00a0%"
    higher = [r.cells[0].words for r in whole[: whole.index(ranked[0])]]
    text += f". Higher, with fewer seeds: {', '.join(higher)}" if higher else ""
    untuned = any("untuned" in sentence for sentence in table.conditions)
    return text + (". All rows untuned: a lead is not a finding about the methods." if untuned else ".")


def _figures(section: Section, runs: pd.DataFrame) -> None:
    for kind in FIGURES:
        try:
            found = drawing.draw(kind, runs, section.suite, **_split(runs, "ablation"))
        except UserError as error:
            section.refused.append((f"Figure {kind}", str(error)))
            continue
        source = _data_uri(drawing.render(found, "png", dpi=140))
        below = Markup(folded(found.conditions))
        section.pictures.append(Picture(found.title, found.alt, found.caption, source, below))


def _sheet(section: Section, runs: pd.DataFrame) -> None:
    """A contact sheet of the domains that this suite generated; pictures of real data are never shown."""
    if not runs["generated"].fillna("").ne("").any():
        return
    suite = load_suite(section.suite)
    try:
        dataset = data.load(suite, section.tier, str(runs["split"].iloc[0]), None)
        with tempfile.TemporaryDirectory() as folder:
            path = sheet(dataset, Path(folder) / "sheet.png", per_class=6, generated_only=True)
            source = _data_uri(path.read_bytes())
    except (UserError, OSError) as error:
        section.refused.append(("Contact sheet", str(error)))
        return
    generated = [d.label for d in dataset.domains.values() if d.generated]
    alt = f"Sample images of the generated domains {', '.join(generated)}, one row a class."
    caption = f"{dataset.note}."
    if dataset.fingerprint not in set(runs["data_fingerprint"]):
        caption += f" This version makes the images {dataset.fingerprint}; the runs above used others."
    section.pictures.append(Picture(f"{suite.title}, tier {section.tier}: generated images", alt, caption, source))


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def provenance(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """One row for each suite, tier and split: data, commits, methods' revisions, warnings."""
    rows = []
    for key, runs in frame[frame["status"] == "done"].groupby(["suite", "tier", "split"], sort=True):
        suite, tier, split = map(str, key)
        revisions = runs.groupby("method")["revision"].agg(lambda r: ", ".join(sorted(set(map(str, r)))))
        rows.append(
            {
                "suite": suite,
                "tier": tier,
                "split": split,
                "runs": len(runs),
                "data": [str(d) for d in runs["data_fingerprint"].dropna().unique()],
                "note": "; ".join(str(n) for n in runs["note"].dropna().unique()),
                "commits": [str(c) for c in runs["commit"].dropna().unique()],
                "dirty": int(runs["dirty"].fillna(False).astype(bool).sum()),
                "revisions": ", ".join(f"{method} {revision}" for method, revision in revisions.items()),
                "tuned": int(runs["tuned"].fillna("").astype(str).ne("").sum()),
            }
        )
    return rows
