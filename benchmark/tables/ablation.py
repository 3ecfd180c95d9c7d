"""Ablation (the paper's Table 4) and the disputed choices: what each part, or each reading, is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from benchmark.analysis import rows as s
from benchmark.analysis import stats
from benchmark.analysis.condition import Condition, narrow
from benchmark.analysis.family import family
from benchmark.analysis.notes import remarks, tuning_words
from benchmark.analysis.table import Cell, Column, Row, Table, words
from benchmark.errors import UserError
from benchmark.paper import printed as reported
from benchmark.spec import Suite
from benchmark.tables.comparison import score_cells, score_columns


@dataclass(frozen=True)
class Step:
    """A row of the ablation, and the row of the paper's Table 4 that it answers (empty: none)."""

    name: str
    label: str
    printed: str = ""


BASELINES = (Step("source-only", "Source-Only", "Source-Only"), Step("source-only:bn", "Source-Only:bn"))
PAPER, RELEASE = "The paper's reading", "The release's weights"
FAMILIES = {
    PAPER: (
        Step("tsvdnet:e", "T-SVDNet (+E)", "T-SVDNet (+E)"),
        Step("tsvdnet:et", "T-SVDNet (+E+T)", "T-SVDNet (+E+T)"),
        Step("tsvdnet", "T-SVDNet (+E+T+U)", "T-SVDNet (+E+T+U)"),
    ),
    RELEASE: (
        Step("tsvdnet:code-e", "T-SVDNet:code-e (+E)", "T-SVDNet (+E)"),
        Step("tsvdnet:code-p", "T-SVDNet:code-p (+E+P)"),
        Step("tsvdnet:code", "T-SVDNet:code (+E+P+T)", "T-SVDNet (+E+T)"),
        Step("tsvdnet:code-u", "T-SVDNet:code-u (+E+P+T+U)", "T-SVDNet (+E+T+U)"),
    ),
}
STEP_WORDS = (
    "Step: difference to the row above it in its block; the first row of T-SVDNet is held against Source-Only.",
    "Steps and gains: per-seed difference averaged over the targets that both rows have, paired, 95 % t interval over "
    "seeds, not corrected for their number.",
    "Source-Only:bn forwards the target for batch-norm statistics only, already an adaptation: hence two baselines.",
)


def ablation(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Table:
    """Both families of Table 4, each part with its step over the row above it and its gains over both Source-Only rows.

    A family of which no row was run is left out.
    """
    runs, condition = narrow(frame, suite, selection=selection, **only)
    runs = _one_split(runs, condition)
    found = s.by_name([e for e in s.multi_source(runs) if e.plain])
    shown = {block: steps for block, steps in FAMILIES.items() if any(step.name in found for step in steps)}
    if not shown:
        raise UserError(_nothing("ablation", condition, "source-only,source-only:bn,tsvdnet:e,tsvdnet:et,tsvdnet"))
    bases = [step for step in BASELINES if step.name in found]
    table4 = _table4(condition)
    columns = [
        Column("method", "Method"),
        *score_columns(condition),
        Column("step", "Step", "signed"),
        Column("ci_step", "95 % interval", "interval"),
    ]
    for base in bases:
        columns += [
            Column(f"gain_{base.name}", f"Gain over {base.label}", "signed"),
            Column(f"ci_{base.name}", "95 % interval", "interval"),
        ]
    measured = len(columns) - 1
    if table4:
        columns += [Column("printed", "Printed Avg", "number"), Column("printed_gain", "Printed gain", "signed")]
    columns.append(Column("seeds", "n"))
    rows = []
    for block, steps in {"Baselines": BASELINES, **shown}.items():
        above = None if steps is BASELINES else BASELINES[0]
        for step in steps:
            label, (beside, notes) = words(step.label, step.name), _beside(step, table4)
            if step.name in found:
                cells, n, said = _measured(step, above, bases, found, condition)
                rows.append(Row((label, *cells, *beside, words(n)), block, notes=(*said, *notes)))
            else:
                cells = [words("not run")] * measured
                rows.append(Row((label, *cells, *beside, words("–")), block, notes=notes))
            above = step
    every = [step for steps in (BASELINES, *shown.values()) for step in steps]
    missing = [step.label for step in every if step.name not in found]
    caption = [
        *condition.sentences(),
        tuning_words([found[step.name] for step in every if step.name in found]),
        *STEP_WORDS,
        "P: the prototype loss, which the release has and the paper does not." if RELEASE in shown else "",
        "Printed: average and gain over Source-Only in the paper's Table 4, on split all." if table4 else "",
        f"INCOMPLETE: no runs of {', '.join(missing)}." if missing else "",
    ]
    title = f"{condition.suite.title}: what each part of T-SVDNet is worth, tier {condition.tier}"
    return condition.table("ablation", title, columns, rows, caption)


def _measured(
    step: Step, above: Step | None, bases: list[Step], found: dict[str, s.Entry], condition: Condition
) -> tuple[list[Cell], str, list[str]]:
    """Scores, the step over the row above, the gains over the baselines; the number of seeds; footnotes."""
    entry = found[step.name]
    scores = score_cells(entry, condition)
    cells, notes = list(scores.values()), remarks(entry, condition)
    against = [found.get(above.name) if above else entry, *[found[base.name] for base in bases]]
    for other in against:
        if other is None:
            cells += [words("row above not run"), words("–")]
            continue
        cells += difference_cells(entry, other, condition, same=other is entry)
        common = common_targets(entry, other, condition)
        if common and common != list(condition.targets):
            where = ", ".join(condition.label(t) for t in common)
            notes.append(f"The difference to {other.label} is over the targets that both rows have: {where}.")
    notes = list(dict.fromkeys(notes))  # the row above may be a baseline too
    return cells, s.seeds({t: scores[t] for t in condition.targets}), notes


def _table4(condition: Condition) -> dict[str, dict[str, str]]:
    """The printed rows of Table 4 as text by column; empty for a suite that it does not show."""
    numbers = reported.accuracies(condition.suite.reported or condition.suite.name)
    numbers = numbers[numbers["table"] == 4]
    return {str(row): dict(zip(part["column"], part["printed"], strict=True)) for row, part in numbers.groupby("row")}


def _beside(step: Step, table4: dict[str, dict[str, str]]) -> tuple[list[Cell], tuple[str, ...]]:
    """The printed average and gain, and the whole printed row as a footnote."""
    if not table4:
        return [], ()
    printed = table4.get(step.printed, {})
    cells = [Cell(float(printed[key])) if key in printed else words("–") for key in ("Avg", "Gain")]
    listed = ", ".join(f"{column} {text}" for column, text in printed.items() if column != "Gain")
    return cells, (f"Printed in Table 4 as {step.printed}: {listed}.",) if printed else ()


def choices(
    frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", method: str = "tsvdnet", **only: Any
) -> Table:
    """One row for each way in which runs of `method` differ from its default: preset or override, with its effect."""
    runs, condition = narrow(frame, suite, selection=selection, **only)
    runs = _one_split(runs, condition)
    found = [e for e in s.multi_source(runs) if e.method == method]
    base = s.by_name([e for e in found if e.plain]).get(method)
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
    tested = family(base, others, effects, condition)
    own = common_targets(base, base, condition)
    average = s.average(base, condition, own)
    label = words(f"{base.title}, default", base.name)
    first = (label, _named(own, condition), average, *[words("–")] * 4, words(average.n or "–"))
    rows = [Row(first, notes=tuple(remarks(base, condition)))]
    for i, (entry, effect) in enumerate(zip(others, effects, strict=True)):
        average = s.average(entry, condition, common[i] or condition.targets)
        adjusted = tested.p.get(i)
        p = words("–") if adjusted is None else Cell(adjusted) if adjusted >= 0.001 else Cell(words="<0.001")
        said = "cannot differ: the same bits" if i in tested.same else reading(effect)
        label, where = words(entry.label, entry.name), _named(common[i], condition)
        cells = (label, where, average, *_effect(effect), p, words(said), words(effect.n))
        rows.append(Row(cells, notes=tuple(remarks(entry, condition))))
    caption = [
        *condition.sentences(),
        tuning_words([base, *others]),
        f"Effect: this row minus the default {base.title} on the targets that both have, per-seed difference averaged over "
        "them, paired.",
        f"«No difference seen»: the interval holds 0. Fewer than {stats.MIN_SEEDS} seeds decide nothing.",
        tested.sentence(f"each choice with {stats.MIN_SEEDS} or more seeds against the default"),
        "«Reads as» follows the interval, which is not corrected; p (Holm) is.",
    ]
    title = f"{condition.suite.title}: disputed choices of {base.title} and their effect, tier {condition.tier}"
    return condition.table("choices", title, columns, rows, caption)


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
