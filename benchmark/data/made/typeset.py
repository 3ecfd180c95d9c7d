"""Rendered digits: type in the manner of Synthetic Digits, and house numbers in the manner of SVHN.

Ganin and Lempitsky (ICML 2015) set one-, two- and three-digit numbers in many fonts and vary position, orientation,
colours of ground and stroke, and blur; the label is the digit in the middle. So do we: a `Style` says how widely each
of these varies. Every number is drawn from the generator of (style, part), glyphs are set by FreeType, and the
arithmetic on pixels is elementwise or on whole numbers: the same on every processor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from PIL.ImageFont import FreeTypeFont

from benchmark.data.cache import cache_root, recipe_key, source_hash, write_npz
from benchmark.data.made import fonts
from benchmark.spec.seeds import seed_of

SIDE = 32
EM = 56  # font size at which glyphs are drawn, before the affine map brings them to the wanted height
CANVAS = 192
CHUNK = 2000  # images whose pixels are mixed at once: bounds the memory of 20,000


@dataclass(frozen=True)
class Style:
    """How widely each property of a rendered number varies: (low, high) of a uniform draw, or a probability."""

    name: str
    height: tuple[float, float]  # of the digit, in pixels of the 32
    aspect: tuple[float, float]  # width over the face's own width
    rotation: float  # degrees either way
    shear: float
    offset: float  # pixels either way
    neighbours: float  # chance of another digit on each side
    spacing: tuple[float, float]  # distance to the neighbours, in the face's own advance
    outline: float  # chance of an outline in a colour of its own
    shadow: float  # chance of a dark copy behind, shifted by a pixel or two
    contrast: tuple[float, float]  # distance in brightness between ground and digit, 0…255
    colour: float  # spread of the three channels around the brightness, 0…255
    warmth: float  # the same along one line, from warm (brick, sand) to cool (shade, slate)
    gradient: float  # change of the light across the picture, 0…255
    clutter: float  # amplitude of the soft spots of the ground, 0…255
    edge: float  # chance that a straight edge (a frame, a plate) crosses the picture
    blur: tuple[float, float]  # standard deviation in pixels
    noise: tuple[float, float]  # standard deviation, 0…255


TYPE = Style(
    "type", height=(15, 26), aspect=(0.85, 1.2), rotation=15, shear=0.12, offset=2.0, neighbours=0.4,
    spacing=(0.95, 1.15), outline=0.35, shadow=0.0, contrast=(80, 200), colour=80, warmth=0, gradient=25, clutter=0,
    edge=0.0, blur=(0.0, 1.1), noise=(0, 8),
)  # fmt: skip
STREET = Style(
    "street", height=(19, 28), aspect=(0.7, 1.05), rotation=7, shear=0.18, offset=2.0, neighbours=0.6,
    spacing=(0.9, 1.25), outline=0.1, shadow=0.35, contrast=(28, 110), colour=8, warmth=24, gradient=60, clutter=22,
    edge=0.3, blur=(0.4, 1.5), noise=(2, 9),
)  # fmt: skip


def render(style: Style, part: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """`n` images (n, 3, 32, 32) uint8 and labels (n,) int64, ten classes in equal numbers, faces of `part` only."""
    rng = np.random.default_rng(seed_of("typeset", style.name, part))
    labels = rng.permutation(np.arange(n) % 10)
    fill, line = _glyphs(style, part, labels, rng)
    images = np.empty((n, 3, SIDE, SIDE), np.uint8)
    for start in range(0, n, CHUNK):
        here = slice(start, start + CHUNK)
        images[here] = _paint(style, fill[here], line[here], rng)
    return images, labels.astype(np.int64)


# -- glyphs: what the type setter does ----------------------------------------------------------------------------


def _glyphs(style: Style, part: str, labels: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Coverage (n, 32, 32) of the digits, and of their outlines (0 where a number has none), 0…255."""
    n = len(labels)
    families = list(fonts.families(part).values())
    family, member = rng.integers(len(families), size=n), rng.random(n)
    left, right = rng.random((2, n)) < style.neighbours
    others = rng.integers(10, size=(2, n))
    height, aspect = rng.uniform(*style.height, n), rng.uniform(*style.aspect, n)
    angle, shear = rng.uniform(-style.rotation, style.rotation, n), rng.uniform(-style.shear, style.shear, n)
    offset = rng.uniform(-style.offset, style.offset, (2, n))
    spacing = rng.uniform(*style.spacing, n)
    stroke = np.where(rng.random(n) < style.outline, rng.integers(2, 6, n), 0)
    fill, line = np.zeros((2, n, SIDE, SIDE), np.uint8)
    for i, label in enumerate(labels):
        faces = families[family[i]]
        font = fonts.face(faces[int(member[i] * len(faces))], EM)
        number = [str(others[0, i]) if left[i] else "", str(label), str(others[1, i]) if right[i] else ""]
        x0, y0, x1, y1 = font.getbbox(number[1])
        centre = ((x0 + x1) / 2, (y0 + y1) / 2)
        zoom = (y1 - y0) / height[i] / 2  # canvas pixels for each pixel of the 64 × 64 that is then halved
        view = _view(zoom, aspect[i], angle[i], shear[i], offset[:, i])
        fill[i] = _set(font, number, centre, spacing[i], 0, view)
        if stroke[i]:
            line[i] = _set(font, number, centre, spacing[i], int(stroke[i]), view)
    return fill, line


def _view(zoom: float, aspect: float, angle: float, shear: float, offset: np.ndarray) -> tuple[float, ...]:
    """The affine map from the 64 × 64 picture back to the canvas whose centre is the digit's centre."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    a, b = zoom * (cos / aspect + shear * sin), zoom * (sin / aspect - shear * cos)
    d, e = -zoom * sin, zoom * cos
    x, y = SIDE + 2 * offset[0], SIDE + 2 * offset[1]
    return (a, b, CANVAS / 2 - a * x - b * y, d, e, CANVAS / 2 - d * x - e * y)


def _set(
    font: FreeTypeFont,
    number: list[str],
    centre: tuple[float, float],
    spacing: float,
    stroke: int,
    view: tuple[float, ...],
) -> np.ndarray:
    """The number on a canvas, the middle digit in its centre, seen through `view`: (32, 32) coverage."""
    canvas = Image.new("L", (CANVAS, CANVAS))
    draw = ImageDraw.Draw(canvas)
    x, y = CANVAS / 2 - centre[0], CANVAS / 2 - centre[1]
    before = font.getlength(number[0]) if number[0] else 0.0
    for text, place in zip(number, (x - before * spacing, x, x + font.getlength(number[1]) * spacing), strict=True):
        if text:
            draw.text((place, y), text, fill=255, font=font, stroke_width=stroke)
    seen = canvas.transform((2 * SIDE, 2 * SIDE), Image.Transform.AFFINE, view, Image.Resampling.BILINEAR)
    return np.asarray(seen.reduce(2))


# -- paint: colours, light, blur, noise; all images at once -------------------------------------------------------


def _paint(style: Style, fill: np.ndarray, line: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Coverages (n, 32, 32) → pictures (n, 3, 32, 32) uint8."""
    n = len(fill)
    ground, ink, rim = _colours(style, n, rng)
    picture = ground + _light(style, n, rng)
    if style.shadow:
        strength = np.where(rng.random(n) < style.shadow, rng.uniform(0.3, 0.7, n), 0).astype(np.float32)
        cover = _moved(fill, rng) * strength[:, None, None]
        picture = picture * (1 - cover[:, None])
    for cover, colour in ((line, rim), (fill, ink)):
        share = (cover.astype(np.float32) / 255)[:, None]
        picture = picture * (1 - share) + colour * share
    picture = _blurred(_bytes(picture), style, rng).astype(np.float32)
    sigma = rng.uniform(*style.noise, (n, 1, 1, 1)).astype(np.float32)
    return _bytes(picture + sigma * rng.standard_normal(picture.shape, np.float32))


def _colours(style: Style, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ground, digit and outline, (n, 3, 1, 1) each: ground and digit differ in brightness by the style's contrast."""
    contrast = rng.uniform(*style.contrast, n) * np.where(rng.random(n) < 0.5, -1, 1)
    room = 255 - np.abs(contrast)
    ground = rng.random(n) * room + np.where(contrast < 0, -contrast, 0)
    brightness = np.stack([ground, ground + contrast, rng.random(n) * 255])
    tint = rng.uniform(-style.colour, style.colour, (3, n, 3))
    tint += rng.uniform(-style.warmth, style.warmth, (3, n, 1)) * np.array([1.0, 0.2, -1.2])
    tint -= (tint[..., :1] + tint[..., 1:2] + tint[..., 2:]) / 3  # colour without brightness
    colours = np.clip(brightness[..., None] + tint, 0, 255).astype(np.float32)[..., None, None]
    return colours[0], colours[1], colours[2]


def _light(style: Style, n: int, rng: np.random.Generator) -> np.ndarray:
    """What the ground is beside one colour: a slope of light, soft spots, an edge; (n, 3 or 1, 32, 32)."""
    ramp = (np.arange(SIDE, dtype=np.float32) - 15.5) / SIDE
    slope = rng.uniform(-style.gradient, style.gradient, (2, n, 1, 1, 1)).astype(np.float32)
    light = slope[0] * ramp[:, None] + slope[1] * ramp
    if style.clutter:
        grid = rng.integers(-16, 17, (n, 3, 5, 5)).astype(np.float32)
        grey = grid[:, :1] * 3 + grid  # mostly brightness, a little colour
        spots = _lerp(_lerp(grey, 2), 3)  # whole numbers up to 64 · 64, exact in any order of summation
        light = light + spots * np.float32(style.clutter / 4096)
    if style.edge:
        there = (rng.random(n) < style.edge) * rng.uniform(-60, 60, n)
        side, tilt = rng.uniform(-0.5, 0.5, (2, n, 1, 1)).astype(np.float32)
        upright = (rng.random(n) < 0.5)[:, None, None]
        across = np.where(upright, ramp + tilt * ramp[:, None], ramp[:, None] + tilt * ramp)
        light = light + ((across > side) * there.astype(np.float32)[:, None, None])[:, None]
    return light


def _lerp(grid: np.ndarray, axis: int) -> np.ndarray:
    """5 knots → 32 samples along an axis, linear, in whole numbers (×8)."""
    step, part = np.divmod(np.arange(SIDE), 8)
    shape = [1] * grid.ndim
    shape[axis] = SIDE
    weight = part.astype(np.float32).reshape(shape)
    return grid.take(step, axis) * (8 - weight) + grid.take(step + 1, axis) * weight


def _moved(cover: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The coverage one or two pixels down and aside: where the shadow falls; (n, 32, 32) in 0…1."""
    dx, dy = rng.integers(-2, 3, len(cover)), rng.integers(1, 3, len(cover))
    rows = np.clip(np.arange(SIDE) - dy[:, None], 0, SIDE - 1)
    columns = np.clip(np.arange(SIDE) - dx[:, None], 0, SIDE - 1)
    return cover[np.arange(len(cover))[:, None, None], rows[:, :, None], columns[:, None, :]].astype(np.float32) / 255


def _blurred(picture: np.ndarray, style: Style, rng: np.random.Generator) -> np.ndarray:
    """Gaussian blur with a σ for each image, from sixteen kernels whose weights are whole numbers out of 256."""
    sigmas = np.linspace(*style.blur, 16)
    kernels = np.stack([_kernel(float(s)) for s in sigmas])[rng.integers(16, size=len(picture))]
    for axis in (2, 3):
        width = [(0, 0)] * 4
        width[axis] = (3, 3)
        padded = np.pad(picture, width, mode="edge").astype(np.int32)
        total = np.full(picture.shape, 128, np.int32)
        for tap in range(7):
            part = padded[:, :, tap : tap + SIDE] if axis == 2 else padded[..., tap : tap + SIDE]
            total += kernels[:, tap, None, None, None] * part
        picture = (total >> 8).astype(np.uint8)
    return picture


def _kernel(sigma: float) -> np.ndarray:
    """Seven taps of a Gaussian, whole numbers that sum to 256."""
    raw = [math.exp(-(x * x) / (2 * sigma * sigma)) if sigma > 0 else float(x == 0) for x in range(-3, 4)]
    taps = np.array([round(256 * r / sum(raw)) for r in raw], np.int32)
    taps[3] += 256 - taps.sum()
    return taps


def _bytes(picture: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


# -- the `syn` of the lite tier -----------------------------------------------------------------------------------


def syn_file(data_root: Path | None = None, train: int = 20_000, test: int = 5_000) -> Path:
    """The generated `syn` in the prepared form (x_train (n, 32, 32, 3) uint8, y_train, x_test, y_test), made once.

    It takes the place of Synthetic Digits where that cannot be had, and is marked `syn*` wherever a number is shown.
    """
    path = cache_root(data_root) / f"syn-{train}-{test}-{recipe_key(RECIPE)}.npz"
    if not path.exists():
        arrays: dict[str, np.ndarray] = {}
        for part, n in (("train", train), ("test", test)):
            images, labels = render(TYPE, part, n)
            arrays[f"x_{part}"] = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
            arrays[f"y_{part}"] = labels
        write_npz(path, arrays)
    return path


RECIPE = source_hash(__file__, fonts.__file__)
