"""The released training log beside the same settings run here, with and without the tensor term."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmark.analysis.logged import logged
from benchmark.figures.style import WITHOUT, Drawing, colour, new
from benchmark.spec import Suite

TITLES = {"running": "statistics that the loop leaves behind", "target": "statistics of target training images"}


def log(frame: pd.DataFrame, suite: str | Suite, **only: Any) -> Drawing:
    """Accuracy after each epoch; left: statistics at test as in the log, right: of the target, where the log has none."""
    found = logged(frame, suite, **only)
    where = found.condition.label(found.log.target)
    figure, bands = new(6.8, 2.8), False
    axes = figure.subplots(1, len(TITLES), sharey=True)
    for axis, (kind, title) in zip(axes, TITLES.items(), strict=True):
        axis.plot(found.epochs, found.logged, "s--", color=WITHOUT, markersize=3.5, label="released log (running)")
        for i, line in enumerate(found.lines):
            mean, shade = line.values[kind].mean(axis=0), colour(i)
            axis.plot(found.epochs, mean, "o-", color=shade, markersize=3.5, label=line.label)
            if line.seeds > 1:
                low, high = line.values[kind].min(axis=0), line.values[kind].max(axis=0)
                bands = True
                axis.fill_between(found.epochs, low, high, color=shade, alpha=0.12, linewidth=0)
        axis.set(xlabel="epoch", title=title, xticks=found.epochs)
    axes[0].set_ylabel(f"accuracy on {where} (%)")
    axes[0].legend(loc="lower right")
    name = f"{found.condition.suite.title} → {where}: the released log and the same settings run here"
    ends = ", ".join(f"{line.label}: {line.values['running'][:, -1].mean():.2f}" for line in found.lines)
    alt = (
        f"Two line charts of accuracy over {len(found.epochs)} epochs. At the end, with the statistics that the loop leaves "
        f"behind: released log: {found.logged[-1]:.2f}, {ends}."
    )
    caption = f"Accuracy after each epoch of {found.log.updates} updates; {found.seeds}."
    caption += " Lines: means; bands: from the lowest to the highest seed." if bands else ""
    conditions = (
        f"Released log: {found.log.title}: {found.log.words}.",
        *found.condition.sentences(rule=False, statistics=False),
        f"Batch-norm statistics at test: left {TITLES['running']}, as in the log; right {TITLES['target']}.",
    )
    return Drawing(figure, name, alt, found.condition.caption(caption), conditions)
