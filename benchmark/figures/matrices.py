"""Similarity matrices of the class prototypes, domain by domain, with and without +T (the paper's Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from benchmark.errors import UserError
from benchmark.figures import runs
from benchmark.figures.style import SOURCE, TARGET, Drawing, new
from benchmark.paper import answers
from benchmark.spec import Suite


def similarity(
    frame: pd.DataFrame,
    suite: str | Suite,
    *,
    target: str | None = None,
    seed: int | None = None,
    methods: Sequence[str] | None = None,
    **only: Any,
) -> Drawing:
    """Above without +T, below with it; one column a domain, the target last; one colour scale for all."""
    selected = runs.select(frame, suite, **only)
    paper = answers.figure("similarity")
    rows = runs.without_and_with(selected, methods, paper)
    where = runs.choose_target(selected, target, paper.targets, rows)
    which = runs.common_seed(rows, where, seed)
    stored = [runs.artifacts(entry, where, which) for entry in rows]
    names = runs.domains(stored[0], "similarity")
    if not names or names != runs.domains(stored[1], "similarity"):
        raise UserError(
            f"The runs of {rows[0].name} and {rows[1].name} on {where} hold no matrices of the same domains."
        )
    low = min(float(s[f"similarity_{d}"].min()) for s in stored for d in names)
    figure = new(1.45 * len(names) + 0.7, 3.4)
    axes = figure.subplots(2, len(names), squeeze=False)
    image = None
    for i, (entry, held) in enumerate(zip(rows, stored, strict=True)):
        for j, domain in enumerate(names):
            axis = axes[i, j]
            image = axis.imshow(
                held[f"similarity_{domain}"], vmin=low, vmax=1.0, cmap="viridis", interpolation="nearest"
            )
            axis.set(xticks=[], yticks=[])
            axis.grid(False)
            for spine in axis.spines.values():
                spine.set(visible=True, color=TARGET if domain == where else SOURCE, linewidth=1.4)
            if i == 0:
                kind = "target" if domain == where else "source"
                axis.set_title(
                    f"{selected.condition.label(domain)} ({kind})", color=TARGET if domain == where else SOURCE
                )
        axes[i, 0].set_ylabel(entry.label)
    assert image is not None
    figure.colorbar(image, ax=axes, shrink=0.75, pad=0.015, label="similarity")
    title = f"{selected.condition.suite.title} → {selected.condition.label(where)}: similarity of class prototypes"
    alt = (
        f"Heat maps of class-by-class similarity for {len(names)} domains: the upper row {rows[0].label} without the tensor "
        f"constraint, the lower row {rows[1].label} with it."
    )
    caption = f"Above {rows[0].label}, below {rows[1].label}, one colour scale; seed {which}."
    return selected.drawing(figure, title, alt, caption, "Class means of unit features, one kernel for all methods.")
