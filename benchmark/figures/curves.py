"""What changes with training: accuracy, the tensor nuclear norm (the paper's Figure 3), accuracy against time."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

from benchmark.analysis import machines, stats
from benchmark.analysis import rows as s
from benchmark.analysis.condition import narrow
from benchmark.errors import UserError
from benchmark.figures import runs
from benchmark.figures.style import WITH, WITHOUT, Drawing, Look, colour, looks, new
from benchmark.paper import answers
from benchmark.spec import Suite


def _band(axis: Axes, updates: np.ndarray, values: np.ndarray, label: str, look: Look) -> None:
    """Mean over seeds with ± one standard deviation."""
    mean, shade = values.mean(axis=0), look.colour
    (line,) = axis.plot(updates, mean, color=shade, label=label, linestyle=look.dash)
    line.set(marker=look.marker, markersize=3.5, markeredgewidth=0.8, markerfacecolor="white" if look.hollow else shade)
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        axis.fill_between(updates, mean - spread, mean + spread, color=shade, alpha=0.12, linewidth=0)


def tnn(
    frame: pd.DataFrame,
    suite: str | Suite,
    *,
    target: str | None = None,
    methods: Sequence[str] | None = None,
    **only: Any,
) -> Drawing:
    """Left: the tensor nuclear norm with and without +T, and the bound below which it cannot fall. Right: accuracy."""
    selected = runs.select(frame, suite, **only)
    paper = answers.figure("tnn")
    rows = runs.without_and_with(selected, methods, paper)
    where = runs.choose_target(selected, target, paper.targets, rows)
    figure = new(6.6, 2.6)
    left, right = figure.subplots(1, 2)
    n = 0
    for entry, look in zip(rows, (Look(WITHOUT, marker="s"), Look(WITH)), strict=True):
        found = runs.curves(entry, where)
        updates, norms = runs.series(found, "probes.tnn_rotated", entry.statistics)
        if not norms.size:
            raise UserError(f"The runs of {entry.name} on {where} hold no probe of the tensor nuclear norm.")
        n = max(n, len(norms))
        _band(left, updates, norms, entry.label, look)
        _band(right, *runs.series(found, "target", entry.statistics), entry.label, look)
    classes, parts = len(selected.condition.suite.classes), len(selected.condition.targets)
    left.axhline(classes * sqrt(classes * parts), color="#999999", linestyle=":", label="lower bound C√(C·D)")
    left.set(xlabel="update", ylabel="tensor nuclear norm (rotated)")
    at_test = rows[0].statistics  # the tensors were measured under these, so the accuracy beside them is too
    right.set(xlabel="update", ylabel=f"accuracy on {selected.condition.label(where)} (%), {at_test}")
    left.legend()
    title = f"{selected.condition.suite.title} → {selected.condition.label(where)}: tensor nuclear norm and accuracy"
    alt = f"Two line charts over training: tensor nuclear norm and target accuracy of {rows[0].label} and {rows[1].label}."
    return selected.drawing(figure, title, alt, f"Mean ± standard deviation over up to {n} seeds.")


def curves(frame: pd.DataFrame, suite: str | Suite, *, methods: Sequence[str] | None = None, **only: Any) -> Drawing:
    """Target accuracy over training: one panel a target, one line a method."""
    wanted = only.pop("target", None)
    selected = runs.select(frame, suite, usual="target", **only)
    names = list(methods or [name for name, e in selected.rows.items() if len(e.done)])
    rows = [selected.row([name], f"the method {name}") for name in names]
    if not rows:
        raise UserError(f"Suite {selected.condition.suite.name} has no finished multi-source run to draw curves of.")
    targets = (
        [wanted]
        if wanted
        else [t for t in selected.condition.targets if any((e.done["target"] == t).any() for e in rows)]
    )
    across = min(3, len(targets))
    figure = new(2.4 * across + 1.3, 2.1 * ceil(len(targets) / across) + 0.2)
    axes = figure.subplots(ceil(len(targets) / across), across, squeeze=False)
    for axis in axes.flat[len(targets) :]:
        axis.set_visible(False)
    for axis, where in zip(axes.flat, targets, strict=False):
        for entry, look in zip(rows, looks([(e.method, e.preset) for e in rows]), strict=True):
            updates, values = runs.series(runs.curves(entry, where), "target", entry.statistics)
            if values.size:
                _band(axis, updates, values, entry.label, look)
        axis.set_title(f"→ {selected.condition.label(where)}")
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy (%)")
    handles = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", handlelength=3.2)
    figure.supxlabel("update", fontsize=8)
    title = f"{selected.condition.suite.title}: accuracy on the target during training"
    alt = (
        f"Line charts of target accuracy over updates, one for each of {', '.join(targets)}, with {len(rows)} methods."
    )
    return selected.drawing(figure, title, alt, "Mean ± standard deviation over seeds.")


def cost(frame: pd.DataFrame, suite: str | Suite, *, selection: str = "last", **only: Any) -> Drawing:
    """Average accuracy against CPU seconds a run: what a point costs."""
    found, condition = narrow(frame, suite, selection=selection, **only)
    figure = new(5.2, 3.4)
    axis = figure.subplots()
    places: list[tuple[float, float, str]] = []
    kinds: set[int] = set()
    elsewhere: list[str] = []
    for entry in s.rows_to_show(found, condition):
        average = stats.seed_averages(entry.scores(condition.selection), condition.targets)
        seconds = machines.times(entry, condition, "cpu_seconds")
        if average.empty or entry.standard == "upper-bound":
            continue
        if seconds.empty:
            elsewhere.append(f"{entry.label} ({entry.standard})")
            continue
        kind = list(s.BLOCKS).index(entry.standard)
        spread = float(average.std(ddof=1)) if len(average) > 1 else 0.0
        x, y = float(seconds.mean()), float(average.mean())
        axis.errorbar(x, y, yerr=spread, color=colour(kind), marker="^sod"[kind], markersize=5, capsize=2)
        places.append((x, y, entry.label))
        kinds.add(kind)
    if not places:
        raise UserError(f"No row of suite {condition.suite.name} has all targets and a time: there is nothing to draw.")
    axis.set(xscale="log", xlabel="CPU seconds a run", ylabel=f"average accuracy (%), selection {condition.selection}")
    axis.margins(y=0.1)
    times = [x for x, _, _ in places]
    axis.set_xlim(min(times) / 1.4, 2 * max(times))  # room for the names, also when all cost the same
    few = (1.0, 2.0, 5.0) if max(times) > 10 * min(times) else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.xaxis.set_major_locator(LogLocator(subs=few))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(ScalarFormatter())  # plain numbers instead of powers of ten
    _labels(axis, places)
    for kind in sorted(kinds):
        axis.plot([], [], color=colour(kind), marker="^sod"[kind], linestyle="", label=list(s.BLOCKS)[kind])
    axis.legend(loc="best")
    title = f"{condition.suite.title}: accuracy against time"
    alt = f"Scatter plot of average target accuracy against CPU seconds for {len(places)} rows, marked by standard."
    caption = condition.caption("Average over all targets, mean ± standard deviation over seeds.")
    lacking = f"Not drawn, for all their runs ran on others: {', '.join(elsewhere)}." if elsewhere else ""
    return Drawing(figure, title, alt, caption, tuple(filter(None, [*condition.sentences(), condition.timed, lacking])))


def _labels(axis: Axes, places: list[tuple[float, float, str]]) -> None:
    """Names beside their points, pushed apart from below to above where points crowd."""
    low, high = axis.get_ylim()
    height = 0.045 * (high - low)
    taken: list[tuple[float, float]] = []
    for x, y, name in sorted(places, key=lambda place: place[1]):
        at = y
        for other_x, other_y in taken:
            if abs(np.log(x / other_x)) < 0.35 and at < other_y + height:
                at = other_y + height
        taken.append((x, at))
        arrow = {"arrowstyle": "-", "color": "#999999", "linewidth": 0.5}
        axis.annotate(name, (x, y), xytext=(x * 1.06, at), fontsize=7, va="center", arrowprops=arrow)
