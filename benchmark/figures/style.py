"""One look for all figures: colours that colour-blind readers can tell apart, small type, no clutter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Okabe and Ito's palette without yellow (too light on white), then three darker ones of ours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A5195", "#8C6D31", "#5B7553")
SOURCE, TARGET = "#D55E00", "#5E3C99"  # the paper's red and purple
WITH, WITHOUT = "#0072B2", "#8A8A8A"
RC: Any = {
    "font.size": 8,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.5,
    "pdf.fonttype": 42,  # text stays text in the PDF
    "text.parse_math": False,  # a method may be called "$x_1$" and means it
}


@dataclass(frozen=True)
class Drawing:
    """A figure with the words that go with it: a title, what it shows for those who cannot see it, what it rests on."""

    figure: Figure
    title: str
    alt: str
    caption: str


@contextmanager
def style() -> Iterator[None]:
    """The look, for as long as a figure is drawn; the user's own matplotlib settings stay as they were."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)
        yield


def colour(index: int) -> str:
    """Colours in order, again from the start after the last."""
    return COLOURS[index % len(COLOURS)]


def new(width: float, height: float) -> Figure:
    """An empty figure in inches that keeps its parts apart."""
    return Figure(figsize=(width, height), layout="constrained")
