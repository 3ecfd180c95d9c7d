"""From runs to rows: which runs make one row, its cells, its averages, the choice of the single best source.

A row is a configuration: method, preset, standard, split, the method's own overrides, tuned or not, revision. Different
revisions are different rows, never averaged together.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from benchmark.analysis import stats
from benchmark.analysis.asked import outside_the_paper
from benchmark.analysis.condition import Condition
from benchmark.analysis.table import Cell, Row, words
from benchmark.errors import UserError
from benchmark.records.selection import column_of
from methods import BUILT_IN

BLOCKS = {
    "single-best": "Single-Best (oracle choice of the source)",
    "combined": "Source Combination",
    "multi-source": "Multi-Source",
    "upper-bound": "Upper bound (not a competitor)",
}
KEY = ["method", "preset", "standard", "split", "own", "tuned", "revision", "some"]
_ORDER = {name: i for i, (name, _, _) in enumerate(BUILT_IN)}


@dataclass(frozen=True)
class Entry:
    """The runs of one row. `runs` holds every status; `scores` the finished ones with the columns seed target score."""

    method: str
    preset: str
    standard: str
    split: str
    own: str
    tuned: str
    revision: str
    some: str  # the sources, when they are not all other domains
    title: str
    runs: pd.DataFrame = field(repr=False)
    label: str = ""
    label_free: bool = False
    _scores: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """`method:preset`, as in a request."""
        return f"{self.method}:{self.preset}" if self.preset else self.method

    @property
    def block(self) -> str:
        """Heading of its block."""
        return BLOCKS.get(self.standard, self.standard)

    @property
    def plain(self) -> bool:
        """True for a method as it comes: no override of its own except tuned values."""
        return not self.changes

    @property
    def changes(self) -> dict[str, Any]:
        """Its own overrides, without the tuned values."""
        return changes(self.own, self.tuned)

    def row(self, *cells: Cell, notes: Sequence[str] = ()) -> Row:
        """A table row with its label first."""
        competes = self.standard != "upper-bound" and not self.label_free
        said = (*notes, *outside_the_paper(self.method))
        return Row((words(self.label, self.name), *cells), self.block, competes, self.split, said)

    @cached_property
    def done(self) -> pd.DataFrame:
        """The finished runs."""
        return self.runs[self.runs["status"] == "done"]

    @property
    def statistics(self) -> str:
        """With which batch-norm statistics its numbers are scored."""
        return str(self.runs["statistics"].iloc[0])

    def scores(self, rule: str, statistics: str = "") -> pd.DataFrame:
        """Finished runs that `rule` has a choice for: seed, target, score (and sources, final_unsup).

        With the table's statistics at test, or with those named.
        """
        column = column_of(rule, statistics or self.statistics)
        if column not in self._scores:
            unsup = self.done[column_of("final_unsup", statistics or self.statistics)]
            kept = self.done[["run_id", "seed", "target", "sources"]].assign(
                final_unsup=unsup, score=self.done[column].astype(float)
            )
            self._scores[column] = kept[kept["score"].notna()]
        return self._scores[column]


def changes(overrides: str, tuned: str) -> dict[str, Any]:
    """What overrides (as JSON) change of a method: all but the settings of the run and the keys that `tuned` lists."""
    keys = tuned.partition(":")[2].split(",")
    pairs = json.loads(overrides).items()
    return {key: value for key, value in pairs if key not in keys and not key.startswith("run.")}


def entries(runs: pd.DataFrame) -> list[Entry]:
    """All rows that the runs make, in the order of the paper's blocks and methods, labelled so that no two are alike."""
    runs = runs.assign(
        preset=runs["preset"].fillna(""),
        tuned=runs["tuned"].fillna(""),
        revision=_revisions(runs),
        some=_some_sources(runs),
    )
    pairs = runs[["method", "title"]].drop_duplicates(keep="last").to_numpy().tolist()
    titles = {m: t for m, t in pairs if isinstance(t, str) and t}
    found = []
    for key, part in runs.groupby(KEY, sort=False):
        method, preset, standard, split, own, tuned, revision, some = map(str, key)
        named = titles.get(method) or _title(method)
        found.append(Entry(method, preset, standard, split, own, tuned, revision, some, named, part))
        _no_twins(found[-1])
    found.sort(key=_rank)
    return _labelled(found)


def _some_sources(runs: pd.DataFrame) -> list[str]:
    """`mt+sv` for a run that had fewer sources than there are; empty for the usual ones and for single sources."""
    usual = runs.groupby("target")["sources"].agg(
        lambda column: max(map(str, column.unique()), key=lambda text: text.count(","))
    )
    several = runs["standard"].isin(["multi-source", "combined"])
    differs = several & (runs["sources"] != runs["target"].map(usual))
    both = zip(runs["sources"].tolist(), differs.tolist(), strict=True)
    return [str(s).replace(",", "+") if d else "" for s, d in both]


def _no_twins(entry: Entry) -> None:
    """Two finished runs for one cell and seed differ in something that is not in their spec: the suite file."""
    place = ["sources", "target", "seed"]
    twins = entry.done[entry.done.duplicated(place, keep=False)]
    if len(twins):
        first = twins[(twins[place] == twins[place].iloc[0]).all(axis=1)]
        raise UserError(
            f"There are {len(first)} finished runs of {entry.name} for target {first['target'].iloc[0]}, seed "
            f"{first['seed'].iloc[0]}: {', '.join(first['run_id'])}. The settings of the suite changed between them, and "
            "one table shows one of them. Keep the runs of one in a results folder of their own"
        )


def _revisions(runs: pd.DataFrame) -> pd.Series:
    """Runs that are not done do not know their revision: they belong to the newest one of their method."""
    known = {str(m): newest(part) for m, part in runs.dropna(subset=["revision"]).groupby("method")["revision"]}
    return runs["revision"].fillna(runs["method"].map(known)).fillna("?").astype(str)


def newest(revisions: pd.Series) -> str:
    """The highest number; hashes of a user's file have no order, and the last record's stands."""
    texts = [str(r) for r in revisions.tolist()]
    numbers = [int(t) for t in texts if t.isdigit()]
    return str(max(numbers)) if numbers else texts[-1]


def _title(method: str) -> str:
    """The title of a method of which no run is done."""
    with contextlib.suppress(Exception):  # a user's file may be gone; its name still stands
        from methods.contract import load_method

        return load_method(method).title or method
    return method.rpartition(":")[2]


def _rank(entry: Entry) -> tuple[Any, ...]:
    block = list(BLOCKS).index(entry.standard) if entry.standard in BLOCKS else len(BLOCKS)
    split = {"part": 0, "all": 1}.get(entry.split, 2)
    place = _ORDER.get(entry.method, len(_ORDER))
    return block, place, entry.method, entry.preset, len(entry.changes), entry.own, split, entry.tuned, entry.revision


def _labelled(found: Sequence[Entry]) -> list[Entry]:
    """Title:preset [override], and split, tuned, revision only where the rows differ by them."""
    splits = {e.split for e in found}
    tuned = {bool(e.tuned) for e in found}
    revisions: dict[str, set[str]] = {}
    for e in found:
        revisions.setdefault(e.method, set()).add(e.revision)
    labelled = []
    for e in found:
        parts = [f"{e.title}:{e.preset}" if e.preset else e.title]
        parts += [f"[{', '.join(f'{k} = {v}' for k, v in e.changes.items())}]"] if not e.plain else []
        parts += [f"from {e.some}"] if e.some else []
        parts += [f"on {e.split}"] if len(splits) > 1 else []
        parts += ["tuned" if e.tuned else "untuned"] if len(tuned) > 1 else []
        parts += [f"rev. {e.revision}"] if len(revisions[e.method]) > 1 else []
        labelled.append(replace(e, label=" ".join(parts)))
    return _unlike(labelled)


def _unlike(found: list[Entry]) -> list[Entry]:
    """Two methods of the same title are told apart by their names."""
    seen: dict[tuple[str, str], set[str]] = {}
    for e in found:
        seen.setdefault((e.standard, e.label), set()).add(e.method)
    return [replace(e, label=f"{e.label} <{e.method}>") if len(seen[e.standard, e.label]) > 1 else e for e in found]


# -- cells ------------------------------------------------------------------------------------------------------------


def cell(scores: Sequence[float] | pd.Series, detail: str = "") -> Cell:
    """Mean ± standard deviation over seeds; one seed has no spread."""
    values = np.asarray(scores, dtype=float)
    spread = float(values.std(ddof=1)) if values.size > 1 else float("nan")
    return Cell(value=float(values.mean()), spread=spread, n=int(values.size), detail=detail)


def missing(runs: pd.DataFrame) -> Cell:
    """Why there is no number: the state of the runs that should give it."""
    if runs.empty:
        return Cell(words="not run")
    states = runs["status"].value_counts()
    for state in ("failed", "damaged", "running", "queued", "interrupted"):
        if state in states.index:
            reasons = [str(r) for r in runs.loc[runs["status"] == state, "reason"].dropna() if r]
            return Cell(words=state, detail=reasons[0] if reasons else "")
    return Cell(words="no score", detail="the selection rule has nothing to choose by")


def target_cells(entry: Entry, condition: Condition) -> dict[str, Cell]:
    """One cell a target."""
    scores = entry.scores(condition.selection)
    by_target: dict[str, list[float]] = {}
    runs: dict[str, list[str]] = {}
    for target, score, run_id in zip(*(scores[c].tolist() for c in ("target", "score", "run_id")), strict=True):
        by_target.setdefault(target, []).append(score)
        runs.setdefault(target, []).append(str(run_id))
    lacking = [t for t in condition.targets if t not in by_target]
    gaps = {t: missing(entry.runs[entry.runs["target"] == t]) for t in lacking}
    return {t: gaps[t] if t in gaps else replace(cell(by_target[t]), runs=tuple(runs[t])) for t in condition.targets}


def average(entry: Entry, condition: Condition, targets: Sequence[str]) -> Cell:
    """Mean over the targets, ± over the seeds that have all of them; never an average over fewer targets."""
    scores = entry.scores(condition.selection)
    per_seed = stats.seed_averages(scores, targets)
    if per_seed.empty:
        have = scores["target"].isin(targets)
        return Cell(
            words="incomplete", detail=f"{scores.loc[have, 'target'].nunique()} of {len(targets)} targets measured"
        )
    return cell(per_seed)


def mean(entry: Entry, column: str) -> Cell:
    """What the finished runs took, on average."""
    values = pd.to_numeric(entry.done[column], errors="coerce").dropna()
    return Cell(value=float(values.mean()), n=len(values)) if len(values) else words("–")


def seeds(cells: Mapping[str, Cell]) -> str:
    """`5`, or `3–5` when the cells differ, or `–`."""
    counts = sorted({c.n for c in cells.values() if c.measured})
    if not counts:
        return "–"
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


def methods_as_they_come(found: list[Entry]) -> list[Entry]:
    """Rows without hyper-parameters changed by hand, and without presets tried on fewer targets than their method.

    Both are readings of a method: the kind `choices` has them. Where there are no other rows, those that were changed by
    hand are what there is to show.
    """
    whole = {(e.method, e.standard, e.split): e.runs["target"].nunique() for e in found if e.plain and not e.preset}
    plain = [e for e in found if e.plain] or found
    return [e for e in plain if e.runs["target"].nunique() >= whole.get((e.method, e.standard, e.split), 0)]


def rows_to_show(runs: pd.DataFrame, condition: Condition) -> list[Entry]:
    """Methods as they come, each once; the single best source chosen on the target, as in the paper."""
    return _best_sources(methods_as_they_come(entries(runs)), condition)


def plain_rows(runs: pd.DataFrame, condition: Condition) -> list[Entry]:
    """Every row that nobody changed by hand, on however few targets it was run."""
    return _best_sources([e for e in entries(runs) if e.plain], condition)


def _best_sources(found: list[Entry], condition: Condition) -> list[Entry]:
    return [choose_source(e, condition, False)[0] if e.standard == "single-best" else e for e in found]


def multi_source(runs: pd.DataFrame) -> list[Entry]:
    """The rows with the standard multi-source."""
    return [e for e in entries(runs) if e.standard == "multi-source"]


def by_name(found: list[Entry]) -> dict[str, Entry]:
    """Rows by `method:preset`; refused when a name stands for two of them."""
    named: dict[str, Entry] = {}
    for entry in found:
        twin = named.setdefault(entry.name, entry)
        if twin is not entry and twin.revision != entry.revision:
            raise UserError(
                f"There are runs of {entry.name} of the revisions {twin.revision} and {entry.revision}, whose numbers are "
                "not comparable. Add --latest to use the newest revision of each method"
            )
        if twin is not entry:
            raise UserError(f"There are tuned and untuned runs of {entry.name}. Add --tuned or --untuned")
    return named


# -- the single best source -------------------------------------------------------------------------------------------


def choose_source(entry: Entry, condition: Condition, label_free: bool) -> tuple[Entry, dict[str, str]]:
    """The entry with one source a target, and which source that is.

    The oracle choice is the source with the highest mean over seeds on the target. The label-free choice is the one
    with the highest mean of H(mean p) − mean H(p) on target training images at the last evaluation point. It is one
    choice for all seeds, never the maximum per seed.
    """
    scores = entry.scores(condition.selection)
    merit = scores.groupby(["target", "sources"])["final_unsup" if label_free else "score"].mean().dropna().to_dict()
    order = {domain: i for i, domain in enumerate(condition.targets)}
    chosen: dict[str, str] = {}
    for target, source in sorted(merit, key=lambda pair: order.get(pair[1], len(order))):  # equals: the first column
        if target not in chosen or merit[target, source] > merit[target, chosen[target]]:
            chosen[target] = source
    keep = entry.runs["sources"] == entry.runs["target"].map(chosen)
    undecided = ~entry.runs["target"].isin(list(chosen))
    label = f"{entry.label} (unsup)" if label_free else entry.label
    return replace(entry, runs=entry.runs[keep | undecided], label=label, label_free=label_free, _scores={}), chosen


def candidates(entry: Entry, condition: Condition) -> str:
    """A warning when the best was chosen among fewer sources than there are; else empty."""
    have = entry.done.groupby("target")["sources"].nunique()
    wanted = len(condition.targets) - 1
    few = [f"{condition.label(str(t))}: {n}" for t, n in have.items() if n < wanted]
    return f"The single best is chosen among fewer than {wanted} sources for {', '.join(few)}." if few else ""
