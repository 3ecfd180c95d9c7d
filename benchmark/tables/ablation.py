"""Ablation (the paper's Table 4) and the disputed choices: what each part, or each reading, is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from benchmark.analysis import rows as s
from benchmark.analysis import stats
from benchmark.analysis.condition import Condition, narrow, one_split
from benchmark.analysis.family import family
from benchmark.analysis.notes import remarks, tuning_words
from benchmark.analysis.table import Cell, Column, Row, Table, words
from benchmark.errors import UserError
from benchmark.paper import answers
from benchmark.paper import printed as reported
from benchmark.paper.answers import Step
from benchmark.spec import Suite
from benchmark.tables.comparison import score_cells, score_columns


def ablation(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Table:
    """The paper's ablation, family by family: each part with its step over the row above it and its gains over the baselines.

    A family of which no row was run is left out.
    """
    paper, (_, method) = answers.ablation(), answers.own_method()
    runs, condition = narrow(frame, suite, selection=selection, **only)
    one_split(condition)
    found = s.by_name([e for e in s.multi_source(runs) if e.plain])
    shown = [group for group in paper.families if any(step.name in found for step in group.steps)]
    if not shown:
        wanted = [step.name for step in (*paper.baselines.steps, *paper.families[0].steps)]
        raise UserError(_nothing("ablation", condition, ",".join(wanted)))
    bases = [step for step in paper.baselines.steps if step.name in found]
    printed = _printed(paper.table, condition)
    columns = [
        Column("method", "Method"),
        *(replace(c, printed=c.key != "average_without_syn") for c in score_columns(condition)),
        Column("step", "Step", "signed"),
        Column("ci_step", "95 % interval", "interval"),
    ]
    for base in bases:
        columns += [
            Column(f"gain_{base.name}", f"Gain over {base.label}", "signed"),
            Column(f"ci_{base.name}", "95 % interval", "interval"),
        ]
    measured = len(columns) - 1
    if printed:
        columns += [Column("printed", "Printed Avg", "number"), Column("printed_gain", "Printed gain", "signed")]
    columns.append(Column("seeds", "n"))
    rows = []
    for group in (paper.baselines, *shown):
        above = None if group is paper.baselines else paper.baselines.steps[0]
        for step in group.steps:
            label, (beside, notes) = words(step.label, step.name), _beside(step, paper.table, printed)
            if step.name in found:
                cells, n, said = _measured(step, above, bases, found, condition)
                rows.append(Row((label, *cells, *beside, words(n)), group.title, notes=(*said, *notes)))
            else:
                cells = [words("not run")] * measured
                rows.append(Row((label, *cells, *beside, words("–")), group.title, notes=notes))
            above = step
    every = [step for group in (paper.baselines, *shown) for step in group.steps]
    first = paper.baselines.steps[0].label
    missing = [step.label for step in every if step.name not in found]
    caption = [
        "Step: over the row above; gain: over a baseline; paired over seeds, 95 % intervals.",
        f"INCOMPLETE: {len(missing)} of {len(every)} rows not run." if missing else "",
    ]
    conditions = [
        *condition.sentences(),
        tuning_words([found[step.name] for step in every if step.name in found]),
        f"Step: difference to the row above it in its block; the first row of {method} is held against {first}.",
        "Steps and gains: per-seed difference averaged over the targets that both rows have, paired, 95 % t interval over "
        "seeds, not corrected for their number.",
        *[group.note for group in (paper.baselines, *shown)],
        f"Printed: average and gain over {first} in the paper's Table {paper.table}, on split all." if printed else "",
        f"No runs of {', '.join(missing)}." if missing else "",
    ]
    title = f"{condition.suite.title}: what each part of {method} is worth, tier {condition.tier}"
    return condition.table("ablation", title, columns, rows, caption, conditions)


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
            cells += [words("–", "row above not run"), words("–")]
            continue
        cells += difference_cells(entry, other, condition, same=other is entry)
        common = common_targets(entry, other, condition)
        if common and common != list(condition.targets):
            where = ", ".join(condition.label(t) for t in common)
            notes.append(f"The difference to {other.label} is over the targets that both rows have: {where}.")
    notes = list(dict.fromkeys(notes))  # the row above may be a baseline too
    return cells, s.seeds({t: scores[t] for t in condition.targets}), notes


def _printed(table: int, condition: Condition) -> dict[str, dict[str, str]]:
    """The printed rows of the table as text by column; empty for a suite that it does not show."""
    numbers = reported.accuracies(condition.suite.reported or condition.suite.name)
    numbers = numbers[numbers["table"] == table]
    return {str(row): dict(zip(part["column"], part["printed"], strict=True)) for row, part in numbers.groupby("row")}


def _beside(step: Step, table: int, rows: dict[str, dict[str, str]]) -> tuple[list[Cell], tuple[str, ...]]:
    """The printed average and gain, and the whole printed row as a footnote."""
    if not rows:
        return [], ()
    printed = rows.get(step.printed, {})
    cells = [Cell(float(printed[key])) if key in printed else words("–") for key in ("Avg", "Gain")]
    listed = ", ".join(f"{column} {text}" for column, text in printed.items() if column != "Gain")
    return cells, (f"Printed in Table {table} as {step.printed}: {listed}.",) if printed else ()


def choices(
    frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", method: str = "", **only: Any
) -> Table:
    """One row for each way in which runs of `method` (the paper's own by default) differ from its default, with its effect.

    A preset that was changed by hand is held against that preset, where it was run as it comes.
    """
    method = method or answers.own_method()[0]
    runs, condition = narrow(frame, suite, selection=selection, **only)
    one_split(condition)
    found = [e for e in s.multi_source(runs) if e.method == method]
    pairs = with_bases(found)
    if not pairs:
        raise UserError(_nothing("choices", condition, f"{method},{method}:code"))
    columns = (
        Column("choice", "Choice"),
        Column("base", "Against"),
        Column("targets", "Targets"),
        Column("average", "Avg", "score"),
        Column("effect", "Effect", "signed"),
        Column("interval", "95 % interval", "interval"),
        Column("p_holm", "p (Holm)", "number", decimals=3),
        Column("verdict", "Reads as"),
        Column("seeds", "n"),
    )
    others, bases = [e for e, _ in pairs], [b for _, b in pairs]
    effects = [paired_averages(e, base, condition) for e, base in pairs]
    tested = family(bases, others, effects, condition)
    first = {id(base): base for base in bases if not any(base is entry for entry in others)}
    rows = [_base(base, condition) for base in first.values()]
    for i, ((entry, base), effect) in enumerate(zip(pairs, effects, strict=True)):
        common = common_targets(entry, base, condition)
        average = s.average(entry, condition, common or condition.targets)
        adjusted = tested.p.get(i)
        p = words("–") if adjusted is None else Cell(adjusted) if adjusted >= 0.001 else Cell(words="<0.001")
        said = "cannot differ: the same bits" if i in tested.same else reading(effect)
        label, where = (words(entry.label, entry.name), words(base.label, base.name)), _named(common, condition)
        cells = (*label, where, average, *effect_cells(effect), p, words(said), words(effect.n))
        rows.append(Row(cells, notes=tuple(remarks(entry, condition))))
    caption = ["Effect: the row minus the one it is held against, paired over seeds; p is adjusted for their number."]
    conditions = [
        *condition.sentences(),
        tuning_words([*bases, *others]),
        "Effect: this row minus the one that it is held against (a preset against the default, a preset changed by hand against "
        "that preset) on the targets that both have, per-seed difference averaged over them, paired.",
        f"«No difference seen»: the interval holds 0. Fewer than {stats.MIN_SEEDS} seeds decide nothing.",
        tested.sentence(f"each choice with {stats.MIN_SEEDS} or more seeds against its base"),
        "«Reads as» follows the interval, which is not corrected; p (Holm) is.",
    ]
    title = f"{condition.suite.title}: disputed choices of {bases[0].title} and their effect, tier {condition.tier}"
    return condition.table("choices", title, columns, rows, caption, conditions)


def with_bases(found: list[s.Entry]) -> list[tuple[s.Entry, s.Entry]]:
    """Each row that differs from another as that one comes, with it: the preset that it changes, else the default.

    Refused when a name stands for two rows: of which the difference is would be anybody's guess.
    """
    plain = s.by_name([e for e in found if e.plain and not e.some])
    pairs = []
    for entry in found:
        default = plain.get(entry.method)
        base = default if entry.plain and not entry.some else plain.get(entry.name, default)
        if base is not None and base is not entry and bool(base.tuned) == bool(entry.tuned):
            pairs.append((entry, base))
    return pairs


def _base(base: s.Entry, condition: Condition) -> Row:
    """A row that others are held against and that is held against none."""
    own = common_targets(base, base, condition)
    average = s.average(base, condition, own)
    label = words(base.label if base.preset else f"{base.title}, default", base.name)
    cells = (label, words("–"), _named(own, condition), average, *[words("–")] * 4, words(average.n or "–"))
    return Row(cells, notes=tuple(remarks(base, condition)))


def common_targets(ours: s.Entry, base: s.Entry, condition: Condition) -> list[str]:
    """The targets, in the table's order, on which both rows have a finished run."""
    both = set(ours.done["target"]) & set(base.done["target"])
    return [t for t in condition.targets if t in both]


def paired_averages(ours: s.Entry, base: s.Entry, condition: Condition) -> stats.Interval:
    """Per-seed difference of the averages over the targets that both rows have."""
    targets = common_targets(ours, base, condition)
    if not targets:
        return stats.t_interval([])
    both = [stats.seed_averages(e.scores(condition.selection), targets) for e in (ours, base)]
    return stats.paired(both[0], both[1])


def difference_cells(ours: s.Entry, base: s.Entry, condition: Condition, same: bool = False) -> list[Cell]:
    """Difference and its interval; a row has no difference to itself."""
    return [words("–"), words("–")] if same else effect_cells(paired_averages(ours, base, condition))


def _named(targets: list[str], condition: Condition) -> Cell:
    if targets == list(condition.targets):
        return words("all")
    return words(", ".join(condition.label(t) for t in targets) or "none in common")


def effect_cells(effect: stats.Interval) -> list[Cell]:
    """An effect and its interval."""
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


def _nothing(kind: str, condition: Condition, methods: str) -> str:
    return (
        f"There is nothing for the table {kind} of suite {condition.suite.name}, tier {condition.tier}. Type: "
        f"python -m benchmark run --suite {condition.suite.name} --tier {condition.tier} --methods {methods}"
    )
