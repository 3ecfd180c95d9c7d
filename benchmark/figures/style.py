"""One look for all figures: colours that colour-blind readers can tell apart, small type, no clutter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from methods import BUILT_IN

# Okabe and Ito's palette without yellow (too light on white), then three darker ones of ours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A5195", "#8C6D31", "#5B7553")
# One for each method by its place in the list of them, what is left for methods of the user's own; far apart in CIELAB, for
# deuteranopes too.
METHODS = (
    "#000000", "#E69F00", "#D55E00", "#660011", "#BBAA66", "#009E73", "#117700", "#56B4E9",
    "#CC79A7", "#BB1199", "#550055", "#8A6BFF", "#0072B2", "#0000FF", "#225544", "#1100AA",
    "#002277", "#6644FF", "#3344BB", "#EE9999",
)  # fmt: skip
MARKERS = "osDv^<>PXph*d"  # 13 of them and 20 colours: both come again together after 260 methods only
DASHES = ("-", "--", "-.", ":")
TINTS = (0.0, 0.45, -0.45)  # towards white, towards black: with the dashes, 12 presets of a method
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
    """A figure with the words that go with it: a title, what it shows for those who cannot see it, a short caption, and
    the conditions that it rests on.
    """

    figure: Figure
    title: str
    alt: str
    caption: str
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Look:
    """How the line of one row is drawn."""

    colour: str
    dash: str = "-"
    marker: str = "o"
    hollow: bool = False


def looks(rows: Sequence[tuple[str, str]]) -> list[Look]:
    """A look for each (method, preset), no two alike; a method keeps its own in every figure.

    Its presets differ in dash, tint and hollow markers, in the order in which they come; the method as it comes is solid.
    """
    built_in = [name for name, _, _ in BUILT_IN]
    order = list(dict.fromkeys([*built_in, *(method for method, _ in rows)]))
    presets: dict[str, list[str]] = {}
    found = []
    for method, preset in rows:
        seen = presets.setdefault(method, [""])
        seen += [preset] if preset not in seen else []
        place, k = order.index(method), seen.index(preset)
        shade = _tinted(METHODS[place % len(METHODS)], TINTS[k % len(TINTS)])
        marker = MARKERS[(place + 3 * k) % len(MARKERS)]
        found.append(Look(shade, DASHES[k % len(DASHES)], marker, hollow=k > 0))
    return found


def _tinted(colour: str, share: float) -> str:
    """The colour mixed with white (share > 0) or with black (share < 0)."""
    end = 1.0 if share > 0 else 0.0
    red, green, blue = ((1 - abs(share)) * part + abs(share) * end for part in to_rgb(colour))
    return to_hex((red, green, blue))


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
