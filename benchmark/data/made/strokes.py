"""The pens and brushes of the generated pictures: forms and lines on a canvas, hand tremor, hatching, grounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from benchmark.data.made.embedded import liveliness
from benchmark.data.made.shapes import Part

SIDE = 73  # of a finished picture: what the crops of a 64-pixel network are drawn from (8/7)
FINE = 3  # it is drawn this many times larger
CANVAS = SIDE * FINE
Colour = tuple[int, int, int]


def blank(colour: Colour) -> Image.Image:
    """A canvas of one colour."""
    return Image.new("RGB", (CANVAS, CANVAS), colour)


def finished(canvas: Image.Image) -> Image.Image:
    """The canvas at the size of a picture."""
    return canvas.reduce(FINE)


def jittered(colour: Sequence[float] | np.ndarray, rng: np.random.Generator, by: float) -> Colour:
    """A colour near another: brightness and tint move by up to `by`."""
    moved = np.array(colour) + rng.uniform(-by, by) + rng.uniform(-by, by, 3) * 0.6
    r, g, b = np.clip(np.rint(moved), 0, 255).astype(int)
    return int(r), int(g), int(b)


def pixels(points: np.ndarray) -> list[tuple[float, float]]:
    """Points of the unit square on the canvas."""
    return [(float(x), float(y)) for x, y in points * CANVAS]


def paint(draw: ImageDraw.ImageDraw, part: Part, colour: Colour, outline: Colour | None = None, width: int = 0) -> None:
    """A form filled, or a line drawn, in one colour; around both an outline of `width` canvas pixels."""
    points = pixels(part.points)
    if part.width:
        thick = max(2, round(part.width * CANVAS))
        if outline is not None:
            _polyline(draw, points, outline, thick + width)
        _polyline(draw, points, colour, thick)
        return
    draw.polygon(points, fill=colour)
    if outline is not None:
        _polyline(draw, [*points, points[0]], outline, width)


def _polyline(draw: ImageDraw.ImageDraw, points: list[tuple[float, float]], colour: Colour, width: int) -> None:
    draw.line(points, fill=colour, width=width, joint="curve")
    r = width / 2 - 0.5
    if r >= 1:
        for x, y in (points[0], points[-1]):
            draw.ellipse((x - r, y - r, x + r, y + r), fill=colour)


def silhouette(parts: Sequence[Part]) -> Image.Image:
    """The mask (L) of the whole thing."""
    mask = Image.new("L", (CANVAS, CANVAS))
    draw = ImageDraw.Draw(mask)
    for part in parts:
        points = pixels(part.points)
        if part.width:
            draw.line(points, fill=255, width=max(2, round(part.width * CANVAS)), joint="curve")
        else:
            draw.polygon(points, fill=255)
    return mask


def by_hand(part: Part, rng: np.random.Generator, tremor: float, step: float = 0.05) -> np.ndarray:
    """The part's border as a hand draws it: points every `step`, off by up to `tremor`, closed but not exactly."""
    points = part.points if part.width else np.concatenate([part.points, part.points[:1]])
    steps = points[1:] - points[:-1]
    counts = np.maximum(1, np.rint(np.sqrt((steps * steps).sum(1)) / step)).astype(int)
    edge = np.repeat(np.arange(len(steps)), counts)
    share = (np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts)) / counts[edge]
    dense = np.concatenate([points[edge] + steps[edge] * share[:, None], points[-1:]])
    return dense + rng.uniform(-tremor, tremor, dense.shape)


def hatch(canvas: Image.Image, mask: Image.Image, rng: np.random.Generator, colour: Colour, gap: int) -> None:
    """Parallel strokes of the pencil inside a mask, in place."""
    lines = Image.new("L", (CANVAS, CANVAS))
    draw = ImageDraw.Draw(lines)
    lean = int(rng.integers(30, 120)) * (1 if rng.random() < 0.5 else -1)
    for x in range(-CANVAS, 2 * CANVAS, gap):
        start = x + int(rng.integers(-1, 2))
        draw.line((start, 0, start + lean, CANVAS), fill=255, width=2)
    canvas.paste(colour, mask=Image.composite(lines, Image.new("L", lines.size), mask))


def photograph(photographs: Sequence[np.ndarray], rng: np.random.Generator, blur: float) -> Image.Image:
    """A random square of a photograph, enlarged to the canvas, flipped or not, out of focus by `blur`."""
    source = photographs[int(rng.integers(len(photographs)))]
    side = int(rng.integers(70, min(source.shape[:2])))
    squares = []
    for _ in range(3):  # the liveliest of three: much of the two photographs is sky or out of focus
        y, x = (int(rng.integers(length - side + 1)) for length in source.shape[:2])
        squares.append(source[y : y + side, x : x + side])
    square = Image.fromarray(max(squares, key=liveliness))
    if rng.random() < 0.5:
        square = square.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    square = square.resize((CANVAS, CANVAS), Image.Resampling.BILINEAR)
    return square.filter(ImageFilter.GaussianBlur(blur)) if blur else square


def relief(mask: Image.Image, rng: np.random.Generator) -> np.ndarray:
    """Light on a rounded thing, (H, W, 1) about 1: brighter towards one side, darker along the border."""
    inner = np.asarray(mask.filter(ImageFilter.GaussianBlur(10)), np.float32) / 255
    ramp = (np.arange(CANVAS, dtype=np.float32) / CANVAS - 0.5) * 2
    slope_x, slope_y = rng.uniform(-0.3, 0.3), rng.uniform(-0.35, 0.0)
    return (0.55 + 0.5 * inner + np.float32(slope_x) * ramp + np.float32(slope_y) * ramp[:, None])[..., None]


def brushed(picture: Image.Image, rng: np.random.Generator, strokes: int, length: float, width: float) -> Image.Image:
    """The picture again in brush strokes along a slowly turning direction, each of the colour under its middle."""
    canvas = picture.filter(ImageFilter.BoxBlur(2))
    draw = ImageDraw.Draw(canvas)
    places = rng.uniform(0, CANVAS, (strokes, 2))
    base, bend_x, bend_y = rng.uniform(0, math.pi), rng.uniform(-2, 2), rng.uniform(-2, 2)
    turn, size, shade = (
        rng.uniform(-0.4, 0.4, strokes),
        rng.uniform(0.6, 1.4, strokes),
        rng.uniform(-20, 20, (strokes, 3)),
    )
    column, row = places.astype(int).T
    colours = np.clip(np.asarray(picture)[row, column] + shade, 0, 255).astype(int).tolist()
    angles = (base + (bend_x * places[:, 0] + bend_y * places[:, 1]) / CANVAS + turn).tolist()
    for (x, y), colour, angle, scale in zip(places.tolist(), colours, angles, size.tolist(), strict=True):
        dx, dy = math.cos(angle) * length * scale / 2, math.sin(angle) * length * scale / 2
        draw.line((x - dx, y - dy, x + dx, y + dy), fill=tuple(colour), width=max(2, round(width * scale)))
    return canvas
