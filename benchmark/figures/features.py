"""t-SNE of features: by class above, by domain below, several methods side by side (the paper's Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmark.errors import UserError
from benchmark.figures import runs
from benchmark.figures.style import SOURCE, TARGET, Drawing, colour, new
from benchmark.paper import answers
from benchmark.spec import Suite

PER_DOMAIN = 150  # points: t-SNE is quadratic in them, and more hide each other


def tsne(
    frame: pd.DataFrame,
    suite: str | Suite,
    *,
    target: str | None = None,
    methods: Sequence[str] | None = None,
    seed: int | None = None,
    **only: Any,
) -> Drawing:
    """Two rows of panels, a column a method: the same embedding coloured by class, and by source or target."""
    selected = runs.select(frame, suite, **only)
    paper = answers.figure("tsne")
    names = list(methods or [name for name in paper.names if name in selected.rows] or list(selected.rows)[:3])
    rows = [selected.row([name], f"the method {name}") for name in names]
    where = runs.choose_target(selected, target, paper.targets, rows)
    which = runs.common_seed(rows, where, seed)
    figure = new(2.3 * len(rows) + 0.4, 4.7)
    axes = figure.subplots(2, len(rows), squeeze=False)
    classes = selected.condition.suite.classes
    for j, entry in enumerate(rows):
        points, labels, domain = _embed(runs.artifacts(entry, where, which), entry.name, where)
        axes[0, j].set_title(entry.label)
        for c in np.unique(labels):
            axes[0, j].scatter(*points[labels == c].T, s=4, color=colour(int(c)), linewidths=0, label=classes[int(c)])
        for is_target, shade, name in ((False, SOURCE, "source"), (True, TARGET, "target")):
            inside = (domain == where) == is_target
            axes[1, j].scatter(*points[inside].T, s=4, color=shade, linewidths=0, alpha=0.7, label=name)
        for row in (0, 1):
            axes[row, j].set(xticks=[], yticks=[])
            axes[row, j].grid(False)
    axes[0, 0].set_ylabel("by class")
    axes[1, 0].set_ylabel("by domain")
    if len(classes) <= 10:
        axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=2.5, handletextpad=0.1)
    axes[1, -1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=2.5, handletextpad=0.1)
    title = f"{selected.condition.suite.title} → {selected.condition.label(where)}: t-SNE of features"
    listed = ", ".join(e.label for e in rows)
    alt = f"Scatter plots of embedded features for {listed}: the upper row coloured by class, the lower by source and target."
    caption = f"Above by class, below by domain; seed {which}."
    return selected.drawing(figure, title, alt, caption, f"Up to {PER_DOMAIN} test images a domain.")


def _embed(stored: dict[str, np.ndarray], name: str, target: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, 2) embedding, (N,) labels, (N,) domain names of all stored features together."""
    from sklearn.manifold import TSNE

    found = runs.domains(stored, "features")
    if target not in found:
        raise UserError(
            f"{name} has no single feature space, so nothing of it was stored for a t-SNE. Leave it out: --methods …"
        )
    features = np.concatenate([stored[f"features_{d}"][:PER_DOMAIN].astype(np.float64) for d in found])
    labels = np.concatenate([stored[f"labels_{d}"][:PER_DOMAIN] for d in found])
    domain = np.concatenate([np.full(len(stored[f"labels_{d}"][:PER_DOMAIN]), d) for d in found])
    perplexity = float(min(30, max(2, (len(features) - 1) // 3)))
    embedding = TSNE(perplexity=perplexity, init="pca", random_state=0, max_iter=500).fit_transform(features)
    return embedding, labels, domain
