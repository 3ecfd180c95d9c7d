"""Figures, as PNG and PDF, from curves and artifacts that the loop stored alike for every method."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.errors import UserError, unknown
from benchmark.figures.curves import cost, curves, tnn
from benchmark.figures.features import tsne
from benchmark.figures.gains import gains
from benchmark.figures.log import log
from benchmark.figures.matrices import similarity
from benchmark.figures.ranks import critical_difference
from benchmark.figures.statistics import statistics
from benchmark.figures.style import Drawing, style
from benchmark.figures.uncertainty import uncertainty
from benchmark.files import write_bytes
from benchmark.spec import Suite

KINDS: dict[str, Callable[..., Drawing]] = {
    "tsne": tsne,
    "similarity": similarity,
    "uncertainty": uncertainty,
    "tnn": tnn,
    "curves": curves,
    "cost": cost,
    "gains": gains,
    "statistics": statistics,
    "log": log,
    "critical-difference": critical_difference,
}
# Which of the narrowing options a figure takes; the others would be ignored, so they are refused.
TAKES = {
    "tsne": ("target", "seed", "methods"),
    "similarity": ("target", "seed", "methods"),
    "uncertainty": ("target", "seed", "methods"),
    "tnn": ("target", "methods", "statistics"),
    "curves": ("target", "methods", "statistics"),
    "cost": ("statistics",),
    "gains": ("statistics", "over"),
    "statistics": (),
    "log": (),
    "critical-difference": ("statistics",),
}


def draw(kind: str, frame: pd.DataFrame, suite: str | Suite | None, **options: Any) -> Drawing:
    """The figure of a kind. Without a suite only `critical-difference` can be drawn: it looks over all of them."""
    if kind not in KINDS:
        raise unknown("kind of figure", kind, KINDS)
    options = {name: value for name, value in options.items() if value is not None}
    for name in ("target", "seed", "methods", "statistics", "over"):
        if name in options and name not in TAKES[kind]:
            takers = [k for k, taken in TAKES.items() if name in taken]
            raise UserError(f"--{name} does not go with --kind {kind}: leave it out. It goes with {', '.join(takers)}")
    with style():
        return KINDS[kind](frame, suite, **options)


def render(drawing: Drawing, form: str, dpi: int = 200) -> bytes:
    """`png` or `pdf`; the same records give the same bytes."""
    buffer = io.BytesIO()
    metadata = {"pdf": {"CreationDate": None, "Title": drawing.title}, "png": {"Title": drawing.title}}[form]
    with style():
        drawing.figure.savefig(buffer, format=form, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def write(drawing: Drawing, folder: Path | str, stem: str) -> list[Path]:
    """`<folder>/<stem>.png` and `.pdf`."""
    paths = [Path(folder) / f"{stem}.{form}" for form in ("png", "pdf")]
    for path in paths:
        write_bytes(path, render(drawing, path.suffix[1:]))
    return paths


__all__ = ["KINDS", "Drawing", "draw", "render", "write"]
