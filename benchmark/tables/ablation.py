"""Ablation (the paper's Table 4) and the disputed choices: what each part, or each reading, is worth."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmark import stats
from benchmark.errors import UserError
from benchmark.spec import Suite
from benchmark.tables import scores as s
from benchmark.tables.comparison import score_cells, score_columns
from benchmark.tables.condition import Condition, narrow
from benchmark.tables.table import Cell, Column, Row, Table, words

STEPS = (
    ("source-only", "Source-Only"),
    ("source-only:bn", "Source-Only:bn"),
    ("tsvdnet:e", "T-SVDNet (+E)"),
    ("tsvdnet:et", "T-SVDNet (+E+T)"),
    ("tsvdnet", "T-SVDNet (+E+T+U)"),
)


def ablation(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Table:
    """Rows Source-Only, Source-Only with the target in batch norm, +E, +E+T, +E+T+U; gains against both Source-Only."""
    runs, condition = narrow(frame, suite, selection=selection, **only)
    runs = _one_split(runs, condition)
    found = by_name([e for e in multi_source(runs) if e.plain])
    if not any(name in found for name, _ in STEPS):
        raise UserError(_nothing("ablation", condition, "source-only,source-only:bn,tsvdnet:e,tsvdnet:et,tsvdnet"))
    bases: list[str] = [name for name in ("source-only", "source-only:bn") if name in found]
    columns = [Column("method", "Method"), *score_columns(condition)]
    for name in bases:
        short = "Source-Only" if name == "source-only" else "Source-Only:bn"
        columns += [
            Column(f"gain_{name}", f"Gain over {short}", "signed"),
            Column(f"ci_{name}", "95 % interval", "interval"),
        ]
    columns.append(Column("seeds", "n"))
    rows = []
    for name, label in STEPS:
        entry = found.get(name)
        if entry is None:
            rows.append(Row((words(label), *[Cell(words="not run") for _ in columns[1:-1]], words("–"))))
            continue
        cells = score_cells(entry, condition)
        gains: list[Cell] = []
        notes = s.remarks(entry, condition)
        for base in bases:
            gains += difference_cells(entry, found[base], condition, same=base == name)
            common = common_targets(entry, found[base], condition)
            if common and common != list(condition.targets):
                where = ", ".join(condition.label(t) for t in common)
                notes.append(f"The gain over {found[base].label} is over the targets that both rows have: {where}.")
        n = s.seeds({t: cells[t] for t in condition.targets})
        rows.append(Row((words(label, name), *cells.values(), *gains, words(n)), notes=tuple(notes)))
    missing = [label for name, label in STEPS if name not in found]
    caption = [
        *condition.sentences(),
        s.tuning_words(list(found.values())),
        "Gains: per-seed difference averaged over the targets that both rows have, paired, 95 % t interval over seeds.",
        "Source-Only:bn forwards the target for batch-norm statistics only, already an adaptation: hence two baselines.",
        *([f"INCOMPLETE: no runs of {', '.join(missing)}."] if missing else []),
    ]
    title = f"{condition.suite.title}: what each part of T-SVDNet is worth, tier {condition.tier}"
    return condition.table("ablation", title, columns, rows, caption)


def choices(
    frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", method: str = "tsvdnet", **only: Any
) -> Table:
    """One row for each way in which runs of `method` differ from its default: preset or override, with its effect."""
    runs, condition = narrow(frame, suite, selection=selection, **only)
    runs = _one_split(runs, condition)
    found = [e for e in multi_source(runs) if e.method == method]
    base = by_name([e for e in found if e.plain]).get(method)
    others = [e for e in found if e is not base and base is not None and bool(e.tuned) == bool(base.tuned)]
    if base is None or not others:
        raise UserError(_nothing("choices", condition, f"{method},{method}:code"))
    columns = (
        Column("choice", "Choice"),
        Column("targets", "Targets"),
        Column("average", "Avg", "score"),
        Column("effect", "Effect", "signed"),
        Column("interval", "95 % interval", "interval"),
        Column("p_holm", "p (Holm)", "number", decimals=3),
        Column("verdict", "Reads as"),
        Column("seeds", "n"),
    )
    common = [common_targets(e, base, condition) for e in others]
    effects = [paired_averages(e, base, condition) for e in others]
    testable = [i for i, effect in enumerate(effects) if effect.n > 1]
    adjusted = dict(zip(testable, stats.holm([effects[i].p for i in testable]), strict=True))
    own = common_targets(base, base, condition)
    average = s.average(base, condition, own)
    label = words(f"{base.title}, default", base.name)
    first = (label, _named(own, condition), average, *[words("–")] * 4, words(average.n or "–"))
    rows = [Row(first, notes=tuple(s.remarks(base, condition)))]
    for i, (entry, effect) in enumerate(zip(others, effects, strict=True)):
        average = s.average(entry, condition, common[i] or condition.targets)
        p = words("–") if i not in adjusted else Cell(adjusted[i]) if adjusted[i] >= 0.001 else Cell(words="<0.001")
        label, where = words(entry.label, entry.name), _named(common[i], condition)
        cells = (label, where, average, *_effect(effect), p, words(reading(effect)), words(effect.n))
        rows.append(Row(cells, notes=tuple(s.remarks(entry, condition))))
    caption = [
        *condition.sentences(),
        s.tuning_words([base, *others]),
        f"Effect: this row minus the default {base.title} on the targets that both have, per-seed difference averaged over "
        "them, paired.",
        f"«No difference seen»: the interval holds 0. Fewer than {stats.MIN_SEEDS} seeds decide nothing.",
    ]
    title = f"{condition.suite.title}: disputed choices of {base.title} and their effect, tier {condition.tier}"
    return condition.table("choices", title, columns, rows, caption)


def multi_source(runs: pd.DataFrame) -> list[s.Entry]:
    """The rows with the standard multi-source."""
    return [e for e in s.entries(runs) if e.standard == "multi-source"]


def by_name(found: list[s.Entry]) -> dict[str, s.Entry]:
    """Rows by `method:preset`; refused when a name stands for two of them."""
    named: dict[str, s.Entry] = {}
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


def common_targets(ours: s.Entry, base: s.Entry, condition: Condition) -> list[str]:
    """The targets, in the table's order, on which both rows have a finished run."""
    both = set(ours.done["target"]) & set(base.done["target"])
    return [t for t in condition.targets if t in both]


def paired_averages(ours: s.Entry, base: s.Entry, condition: Condition) -> stats.Interval:
    """Per-seed difference of the averages over the targets that both rows have."""
    targets = common_targets(ours, base, condition)
    both = [stats.seed_averages(e.scores(condition.selection), targets) for e in (ours, base)]
    return stats.paired(both[0], both[1]) if targets else stats.t_interval([])


def difference_cells(ours: s.Entry, base: s.Entry, condition: Condition, same: bool = False) -> list[Cell]:
    """Difference and its interval; a row has no difference to itself."""
    return [words("–"), words("–")] if same else _effect(paired_averages(ours, base, condition))


def _named(targets: list[str], condition: Condition) -> Cell:
    if targets == list(condition.targets):
        return words("all")
    return words(", ".join(condition.label(t) for t in targets) or "none in common")


def _effect(effect: stats.Interval) -> list[Cell]:
    if effect.n == 0:
        return [Cell(words="no common seed"), words("–")]
    interval = Cell(low=effect.low, high=effect.high) if effect.n > 1 else words("one seed")
    return [Cell(value=effect.mean, n=effect.n), interval]


def reading(effect: stats.Interval) -> str:
    """What an interval says, in words."""
    if not effect.enough:
        return "undecided: too few seeds"
    if effect.above(0):
        return "better"
    return "worse" if effect.below(0) else "no difference seen"


def _one_split(runs: pd.DataFrame, condition: Condition) -> pd.DataFrame:
    if len(condition.splits) > 1:
        raise UserError(
            f"The records of suite {condition.suite.name} hold the splits part and all; this table compares rows on the "
            "same images. Add --split all (the paper's Table 4) or --split part"
        )
    return runs


def _nothing(kind: str, condition: Condition, methods: str) -> str:
    return (
        f"There is nothing for the table {kind} of suite {condition.suite.name}, tier {condition.tier}. Type: "
        f"python -m benchmark run --suite {condition.suite.name} --tier {condition.tier} --methods {methods}"
    )
