"""Which runs a figure is drawn from: one condition, one row a name, and the artifacts that the loop stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from benchmark.analysis.condition import Condition, narrow
from benchmark.analysis.rows import Entry, by_name, multi_source
from benchmark.errors import UserError, unknown
from benchmark.figures.style import Drawing
from benchmark.paper.answers import Figure
from benchmark.records import read_curve
from benchmark.records.artifacts import read as read_artifacts
from benchmark.records.selection import scores
from benchmark.spec import Suite


@dataclass(frozen=True)
class Selected:
    """The multi-source rows of one condition, by `method:preset`."""

    condition: Condition
    rows: dict[str, Entry]

    def row(self, names: Sequence[str], what: str) -> Entry:
        """The first of `names` that was run; else a refusal that says what to run."""
        for name in names:
            if name in self.rows and len(self.rows[name].done):
                return self.rows[name]
        suite, tier = self.condition.suite.name, self.condition.tier
        raise UserError(
            f"There is no finished run for {what} in suite {suite}, tier {tier}. "
            f"Type: python -m benchmark run --suite {suite} --tier {tier} --methods {names[0]}"
        )

    def drawing(self, figure: Canvas, title: str, alt: str, caption: str, *conditions: str) -> Drawing:
        """The figure with its words: `conditions` of its own before those that all figures of this condition share."""
        said = (*conditions, *self.condition.sentences(rule=False))
        return Drawing(figure, title, alt, self.condition.caption(caption), said)


def select(frame: pd.DataFrame, suite: str | Suite, usual: str = "running", **only: Any) -> Selected:
    """The rows that figures are drawn from; mixed conditions are refused as for tables.

    The paper's own figures, and the arrays that the loop stores for them, have the statistics that it leaves behind.
    """
    runs, condition = narrow(frame, suite, usual=usual, **only)
    if len(condition.splits) > 1 and only.get("split") is None:
        raise UserError(
            f"Suite {condition.suite.name} has runs on part and on all of the data. Add --split part or --split all"
        )
    return Selected(condition, by_name([e for e in multi_source(runs) if e.plain]))


def without_and_with(selected: Selected, methods: Sequence[str] | None, paper: Figure) -> list[Entry]:
    """A row without the low-rank term and one with it: the two asked for, or the paper's, or a pair that stands for them.

    A pair, so that the two differ by what the paper's two differ by, wherever that was run.
    """
    if methods is not None and len(methods) != 2:
        raise UserError(
            f"This figure sets two rows side by side. Type: --methods {','.join(paper.names)} (without +T, with +T)"
        )
    pairs = [tuple(methods)] if methods else list(zip(*paper.rows, strict=True))
    for names in pairs:
        rows = [selected.rows[name] for name in names if name in selected.rows]
        if len(rows) == len(names) and set.intersection(*(set(row.done["target"]) for row in rows)):
            return rows
    return [
        selected.row([name], what) for name, what in zip(pairs[0], ("a row without +T", "a row with +T"), strict=True)
    ]


def choose_target(selected: Selected, target: str | None, preferred: Sequence[str], rows: Sequence[Entry]) -> str:
    """The target asked for, or the paper's, or the first that all rows have."""
    shared = [t for t in selected.condition.targets if all(t in set(e.done["target"]) for e in rows)]
    if target is not None:
        selected.condition.suite.domain(target)
        if target not in shared:
            raise unknown("target that all shown rows have run", target, shared)
        return target
    if not shared:
        raise UserError(f"The rows {', '.join(e.name for e in rows)} have no target in common.")
    return next((t for t in preferred if t in shared), shared[0])


def common_seed(rows: Sequence[Entry], target: str, seed: int | None = None) -> int:
    """The lowest seed (or the one asked for) that every row has on this target."""
    sets = [set(e.done.loc[e.done["target"] == target, "seed"].astype(int)) for e in rows]
    shared = sorted(set.intersection(*sets)) if sets else []
    if seed is not None and seed not in shared:
        raise unknown("seed that all shown rows have run", seed, map(str, shared))
    if not shared:
        raise UserError(f"The rows {', '.join(e.name for e in rows)} have no seed in common on target {target}.")
    return shared[0] if seed is None else seed


def run_path(entry: Entry, target: str, seed: int) -> Path:
    """Directory of one finished run."""
    done = entry.done
    return Path(str(done.loc[(done["target"] == target) & (done["seed"] == seed), "path"].iloc[0]))


def artifacts(entry: Entry, target: str, seed: int) -> dict[str, np.ndarray]:
    """What the loop stored for the figures; never unpickled."""
    path = run_path(entry, target, seed)
    stored = read_artifacts(path)
    if not stored:
        raise UserError(
            f"The run of {entry.name} on target {target}, seed {seed} has no artifacts.npz to draw from: {path}"
        )
    return stored


def domains(stored: dict[str, np.ndarray], prefix: str) -> list[str]:
    """Domains with an array `prefix_<domain>`, in the order in which the loop stored them: sources, then target."""
    return [
        key[len(prefix) + 1 :] for key in stored if key.startswith(prefix + "_") and not key.startswith("sigma_noise")
    ]


def curves(entry: Entry, target: str) -> dict[int, list[dict[str, Any]]]:
    """Evaluation curves by seed."""
    done = entry.done[entry.done["target"] == target]
    return {int(seed): read_curve(Path(str(path))) for seed, path in zip(done["seed"], done["path"], strict=True)}


def series(
    found: dict[int, list[dict[str, Any]]], key: str, statistics: str = "running"
) -> tuple[np.ndarray, np.ndarray]:
    """(P,) updates and (S, P) values of `target`, `source_val` or `probes.NAME` at the points that all seeds have."""
    head, _, rest = key.partition(".")
    rows = []
    updates: np.ndarray = np.zeros(0)
    for curve in found.values():
        points = [scores(row, statistics) for row in curve]
        values = [(point.get(head) or {}).get(rest) if rest else point.get(head) for point in points]
        if any(v is None for v in values) or not values:
            continue
        rows.append(np.asarray(values, dtype=float))
        updates = np.asarray([row["update"] for row in curve], dtype=float)
    shared = min((len(r) for r in rows), default=0)
    return updates[:shared], np.stack([r[:shared] for r in rows]) if rows else np.zeros((0, 0))
