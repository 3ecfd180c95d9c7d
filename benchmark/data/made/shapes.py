"""The forms that the things of the generated pictures are built from.

A part is a closed form or a line, and has a tone: which colour of the picture's palette it takes. x goes to the right,
y down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

Point = tuple[float, float]
MAIN, SECOND, DARK, LIGHT = range(4)


@dataclass(frozen=True)
class Part:
    """A closed form (`width` 0) or an open line of a width, through `points` (n, 2)."""

    points: np.ndarray
    tone: int = MAIN
    width: float = 0.0


class Build:
    """Draws of the numbers in which two things of one kind differ."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return bool(self.rng.random() < p)


def form(*points: Point, tone: int = MAIN) -> Part:
    """A polygon."""
    return Part(np.array(points, float), tone)


def line(*points: Point, width: float = 0.06, tone: int = DARK) -> Part:
    """An open line."""
    return Part(np.array(points, float), tone, width)


def oval(x: float, y: float, rx: float, ry: float, tone: int = MAIN, turn: float = 0.0, n: int = 28) -> Part:
    """An ellipse with half axes rx, ry, turned by `turn` degrees."""
    return Part(curve(x, y, rx, ry, 0, 360 - 360 / n, n, turn), tone)


def arc(x: float, y: float, rx: float, ry: float, start: float, stop: float, width: float, tone: int = DARK) -> Part:
    """A piece of an ellipse as a line; degrees, 0 to the right, growing downwards."""
    return Part(curve(x, y, rx, ry, start, stop, 16), tone, width)


def limb(a: Point, b: Point, wa: float, wb: float, tone: int = MAIN) -> Part:
    """A leg, a neck, a branch: from a to b, width wa there and wb here, round ends."""
    angle = math.degrees(math.atan2(b[1] - a[1], b[0] - a[0]))
    start = curve(a[0], a[1], wa / 2, wa / 2, 90, 270, 6, angle)
    end = curve(b[0], b[1], wb / 2, wb / 2, -90, 90, 6, angle)
    return Part(np.concatenate([start, end]), tone)


def curve(x: float, y: float, rx: float, ry: float, start: float, stop: float, n: int, turn: float = 0.0) -> np.ndarray:
    """n points of a turned ellipse from angle `start` to `stop`, in degrees."""
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    points = []
    for k in range(n):
        t = math.radians(start + (stop - start) * k / (n - 1))
        u, v = rx * math.cos(t), ry * math.sin(t)
        points.append((x + c * u - s * v, y + s * u + c * v))
    return np.array(points)
