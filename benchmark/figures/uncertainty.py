"""The estimated uncertainty σ: by domain, and on one domain under Gaussian noise (the paper's Figure 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import gaussian_kde

from benchmark.errors import UserError
from benchmark.figures import runs
from benchmark.figures.style import Drawing, colour, new
from benchmark.paper import answers
from benchmark.spec import Suite


def uncertainty(
    frame: pd.DataFrame,
    suite: str | Suite,
    *,
    target: str | None = None,
    seed: int | None = None,
    methods: Sequence[str] | None = None,
    **only: Any,
) -> Drawing:
    """Left: the density of σ for each domain. Right: on one domain, with noise r·ε added, r = 0, 0.1, 0.5, 1."""
    selected = runs.select(frame, suite, **only)
    paper = answers.figure("uncertainty")
    entry = selected.row(methods or paper.rows[0], "a method that estimates uncertainty")
    where = runs.choose_target(selected, target, paper.targets, [entry])
    which = runs.common_seed([entry], where, seed)
    stored = runs.artifacts(entry, where, which)
    names = runs.domains(stored, "sigma")
    if not names:
        raise UserError(
            f"The run of {entry.name} on {where}, seed {which} holds no uncertainty: was it trained without +U?"
        )
    figure = new(6.6, 2.6)
    left, right = figure.subplots(1, 2)
    for i, domain in enumerate(names):
        label = selected.condition.label(domain) + (" (target)" if domain == where else "")
        _density(left, stored[f"sigma_{domain}"], label, colour(i), dashed=domain == where)
    left.set(xlabel="σ", ylabel="density", title="by domain")
    left.legend()
    noisy = str(stored["noise_domain"]) if "noise_domain" in stored else ""
    levels = sorted((float(key.rpartition("_")[2]), key) for key in stored if key.startswith("sigma_noise_"))
    for i, (r, key) in enumerate(levels):
        _density(right, stored[key], f"r = {r:g}", colour(i))
    right.set(
        xlabel="σ",
        title=f"on {selected.condition.label(noisy)}, noise r·ε added" if levels else "no noisy images stored",
    )
    if levels:
        right.legend()
    for axis in (left, right):
        axis.set_ylim(bottom=0)
    title = f"{selected.condition.suite.title} → {selected.condition.label(where)}: uncertainty of {entry.label}"
    alt = f"Density curves of the estimated σ: one for each of {', '.join(names)}; and on {noisy} for growing noise."
    caption = f"Left: density of σ by domain; right: with noise r·ε added to the images; seed {which}."
    return selected.drawing(figure, title, alt, caption, "Noise ε ~ N(0, I) on normalised images.")


def _density(axis: Axes, values: np.ndarray, label: str, shade: str, dashed: bool = False) -> None:
    """A kernel density estimate; a single repeated value is a line, since it has no density."""
    values = values.astype(float)
    if np.ptp(values) < 1e-9:
        axis.axvline(float(values[0]), color=shade, label=label, linestyle="--" if dashed else "-")
        return
    margin = 0.15 * np.ptp(values)
    grid = np.linspace(values.min() - margin, values.max() + margin, 200)
    density = gaussian_kde(values)(grid)
    axis.plot(grid, density, color=shade, label=label, linestyle="--" if dashed else "-")
    axis.fill_between(grid, density, color=shade, alpha=0.08, linewidth=0)
