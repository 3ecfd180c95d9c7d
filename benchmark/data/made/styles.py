"""The styles of the generated pictures: how a thing looks as a photograph, a painting, a cartoon, a sketch, …

Each style is a function (name, parts, rng) → small picture. What makes the domains of PACS and DomainNet differ is
here: colour or none, texture or flat, outlines, grounds, clutter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from benchmark.data.made import fonts, strokes
from benchmark.data.made.embedded import photograph_parts
from benchmark.data.made.shapes import DARK, MAIN, SECOND, Part
from benchmark.data.made.strokes import CANVAS, Colour, blank, by_hand, finished, jittered, paint, silhouette

Draw = Callable[[str, list[Part], np.random.Generator], Image.Image]
BLACK: Colour = (18, 16, 20)

# What a photograph shows of each thing: main, second, dark and light colour.
NATURAL: dict[str, tuple[Colour, Colour, Colour, Colour]] = {
    "dog": ((150, 105, 65), (110, 75, 45), (35, 28, 25), (225, 210, 190)),
    "elephant": ((125, 120, 118), (100, 96, 95), (40, 38, 38), (230, 222, 200)),
    "giraffe": ((214, 172, 100), (180, 140, 80), (120, 70, 35), (240, 225, 190)),
    "guitar": ((176, 104, 48), (90, 55, 35), (40, 26, 20), (230, 220, 200)),
    "horse": ((120, 76, 46), (95, 60, 38), (40, 28, 22), (220, 205, 190)),
    "house": ((205, 192, 170), (150, 70, 55), (75, 50, 38), (150, 185, 205)),
    "person": ((70, 95, 140), (60, 60, 75), (50, 36, 28), (222, 176, 148)),
    "airplane": ((225, 228, 232), (185, 190, 198), (55, 65, 80), (240, 240, 240)),
    "bicycle": ((170, 45, 45), (90, 90, 95), (35, 35, 38), (200, 200, 200)),
    "butterfly": ((225, 130, 40), (200, 95, 35), (35, 28, 28), (245, 225, 170)),
    "clock": ((120, 90, 60), (150, 120, 80), (30, 30, 32), (240, 236, 224)),
    "cup": ((215, 210, 200), (90, 120, 160), (70, 45, 30), (245, 245, 245)),
    "fish": ((220, 140, 60), (190, 100, 45), (30, 30, 35), (245, 240, 230)),
    "flower": ((220, 70, 110), (75, 130, 55), (225, 180, 50), (250, 235, 240)),
    "key": ((178, 150, 86), (150, 125, 70), (45, 42, 40), (220, 205, 160)),
    "mushroom": ((186, 60, 45), (226, 212, 186), (80, 50, 40), (245, 240, 228)),
    "sailboat": ((130, 60, 45), (215, 205, 190), (60, 45, 35), (240, 240, 236)),
    "tree": ((70, 110, 50), (95, 70, 48), (40, 60, 30), (150, 180, 110)),
    "umbrella": ((175, 50, 60), (130, 35, 50), (40, 38, 42), (235, 215, 215)),
}
VIVID: tuple[Colour, ...] = (
    (235, 64, 52), (250, 150, 40), (252, 214, 60), (110, 190, 70), (40, 160, 120),
    (60, 170, 230), (60, 90, 200), (140, 80, 190), (235, 110, 170), (150, 110, 80),
)  # fmt: skip


@lru_cache(maxsize=1)
def _photographs() -> list[np.ndarray]:
    return [p for part in ("train", "test") for p in photograph_parts(part)[::3]]  # those at full size


def _natural(name: str, rng: np.random.Generator, by: float) -> list[Colour]:
    return [jittered(c, rng, by) for c in NATURAL[name]]


def _vivid(rng: np.random.Generator) -> list[Colour]:
    first, second, light = rng.choice(len(VIVID), 3, replace=False)
    pale = tuple(128 + c // 2 for c in VIVID[light])
    return [jittered(VIVID[first], rng, 15), jittered(VIVID[second], rng, 15), BLACK, jittered(pale, rng, 10)]


# -- photographs ----------------------------------------------------------------------------------------------------


def photo(name: str, parts: list[Part], rng: np.random.Generator) -> Image.Image:
    """Natural colours, texture and rounded light, a shadow, before a photographed ground out of focus."""
    ground = strokes.photograph(_photographs(), rng, float(rng.uniform(3, 8)))
    bright = sum(NATURAL[name][MAIN]) > 3 * 150
    haze = blank(
        (40, 44, 50) if bright else (222, 226, 228)
    )  # a photographer looks for a ground that sets the thing off
    return _lit(name, parts, Image.blend(ground, haze, float(rng.uniform(0.3, 0.65))), rng)


def studio(name: str, parts: list[Part], rng: np.random.Generator) -> Image.Image:
    """Half the pictures of `real` are of this kind: the thing before a plain backdrop."""
    if rng.random() < 0.5:
        return photo(name, parts, rng)
    grey = float(rng.uniform(150, 245))
    return _lit(name, parts, blank(jittered((grey, grey, grey), rng, 14)), rng)


def _lit(name: str, parts: list[Part], ground: Image.Image, rng: np.random.Generator) -> Image.Image:
    mask = silhouette(parts)
    cast = mask.filter(ImageFilter.GaussianBlur(6)).point([v * 5 // 10 for v in range(256)])
    ground.paste((20, 20, 24), (int(rng.integers(-8, 9)), int(rng.integers(3, 10))), cast)
    thing = ground.copy()
    draw = ImageDraw.Draw(thing)
    colours = _natural(name, rng, 32)
    for part in parts:
        paint(draw, part, jittered(colours[part.tone], rng, 8))
    texture = np.asarray(strokes.photograph(_photographs(), rng, 1).convert("L"), np.float32)[..., None]
    light = strokes.relief(mask, rng) * (1 + (texture - 110) * np.float32(rng.uniform(0.001, 0.003)))
    shaded = Image.fromarray(np.clip(np.asarray(thing, np.float32) * light, 0, 255).astype(np.uint8))
    ground.paste(shaded, mask=mask.filter(ImageFilter.GaussianBlur(1)))
    exposure = (rng.uniform(0.75, 1.25) * rng.uniform(0.85, 1.15, 3)).astype(np.float32)  # and white balance
    picture = np.asarray(finished(ground), np.float32) * exposure
    picture += np.float32(rng.uniform(2, 7)) * rng.standard_normal(picture.shape, np.float32)
    return Image.fromarray(np.clip(np.rint(picture), 0, 255).astype(np.uint8))


# -- paintings ------------------------------------------------------------------------------------------------------


def painting(name: str, parts: list[Part], rng: np.random.Generator) -> Image.Image:
    """Light things on a dark ground, a palette of its own, visible brush strokes."""
    mood = np.array(VIVID[rng.integers(len(VIVID))])
    far, near = (jittered(mood * 0.3 + np.array(VIVID[rng.integers(len(VIVID))]) * 0.2, rng, 22) for _ in range(2))
    canvas = blank(far)
    draw = ImageDraw.Draw(canvas)
    horizon = int(rng.uniform(0.35, 0.8) * CANVAS)
    draw.rectangle((0, horizon, CANVAS, CANVAS), fill=near)
    canvas = strokes.brushed(canvas, rng, 160, 44, 13)
    draw = ImageDraw.Draw(canvas)
    colours = [jittered(np.array(c) * 0.6 + mood * 0.25 + 70, rng, 25) for c in NATURAL[name]]
    for part in parts:
        paint(draw, part, jittered(colours[part.tone], rng, 10), jittered(np.array(colours[DARK]) * 0.8, rng, 8), 3)
    return finished(strokes.brushed(canvas, rng, 380, 10, 4))


# -- flat colour ----------------------------------------------------------------------------------------------------


def cartoon(name: str, parts: list[Part], rng: np.random.Generator) -> Image.Image:
    """Flat bright colours, thick black outlines, a flat ground: plain, with a horizon, or with rays."""
    ground, other = (jittered(170 + np.array(VIVID[rng.integers(len(VIVID))]) * 0.33, rng, 12) for _ in range(2))
    canvas = blank(ground)
    draw = ImageDraw.Draw(canvas)
    kind = rng.integers(3)
    if kind == 1:
        draw.rectangle((0, int(rng.uniform(0.55, 0.85) * CANVAS), CANVAS, CANVAS), fill=other)
    elif kind == 2:
        for start in range(0, 360, 40):
            draw.pieslice((-CANVAS, -CANVAS, 2 * CANVAS, 2 * CANVAS), start, start + 20, fill=other)
    colours, width = _vivid(rng), int(rng.integers(5, 9))
    for part in parts:
        paint(draw, part, colours[part.tone], BLACK, width)
    return finished(canvas)


def clipart(name: str, parts: list[Part], rng: np.random.Generator) -> Image.Image:
    """Clean glossy forms on white: vivid colours without outlines, lighter towards the top, a soft shadow below."""
    mask = silhouette(parts)
    canvas = blank((255, 255, 255))
    canvas.paste((190, 190, 198), (0, 7), mask.filter(ImageFilter.BoxBlur(4)))
    flat = canvas.copy()
    draw = ImageDraw.Draw(flat)
    colours = _vivid(rng)
    for part in parts:
        paint(draw, part, colours[part.tone])
    gloss = (1.25 - 0.5 * np.arange(CANVAS, dtype=np.float32) / CANVAS)[:, None, None]
    shiny = Image.fromarray(np.clip(np.asarray(flat, np.float32) * gloss, 0, 255).astype(np.uint8))
    canvas.paste(shiny, mask=mask)
    return finished(canvas)


def infograph(name: str, parts: list[Part], rng: np.random.Generator) -> Image.Image:
    """A pictogram in one colour, its inner parts cut out, among headings, lines of text, bars and pies."""
    pale = rng.random() < 0.5
    base = np.array(VIVID[rng.integers(len(VIVID))])
    ground = jittered(190 + base * 0.25 if pale else base * 0.8, rng, 10)
    canvas = blank(ground)
    draw = ImageDraw.Draw(canvas)
    ink = jittered((60, 60, 70) if pale else (240, 240, 240), rng, 15)
    _clutter(draw, rng, ink)
    second, light = (jittered((np.array(ink) * k + np.array(ground) * (4 - k)) / 4, rng, 0) for k in (3, 2))
    colours = [ink, second, ground, light]
    for part in parts:
        paint(draw, part, ink if part.width else colours[part.tone])
    if rng.random() < 0.5:
        _words(draw, rng, ink, int(rng.integers(0, CANVAS - 30)), int(rng.integers(0, CANVAS - 20)), 15)
    return finished(canvas)


def _clutter(draw: ImageDraw.ImageDraw, rng: np.random.Generator, ink: Colour) -> None:
    """Panels, a heading, lines of text, bars, a pie: along the borders, and sometimes behind the thing."""
    if rng.random() < 0.7:
        x, y, w, h = (int(v) for v in rng.integers((0, 0, 40, 20), (150, 150, 140, 90)))
        draw.rectangle((x, y, x + w, y + h), fill=jittered(VIVID[rng.integers(len(VIVID))], rng, 20))
    _words(draw, rng, ink, int(rng.integers(2, 40)), int(rng.integers(0, 8)), int(rng.integers(16, 26)))
    for _ in range(int(rng.integers(1, 4))):
        _words(draw, rng, ink, int(rng.integers(0, 130)), int(rng.integers(20, 180)), int(rng.integers(9, 14)))
    x, y = int(rng.integers(0, 140)), int(rng.integers(100, 190))
    for k in range(int(rng.integers(3, 6))):
        colour = jittered(VIVID[rng.integers(len(VIVID))], rng, 15)
        draw.rectangle((x + 12 * k, y - int(rng.integers(8, 60)), x + 12 * k + 8, y), fill=colour)
    if rng.random() < 0.6:
        x, y, r = int(rng.integers(0, 160)), int(rng.integers(0, 160)), int(rng.integers(20, 46))
        for start, k in zip((0, 110, 240), rng.integers(len(VIVID), size=3), strict=True):
            draw.pieslice((x, y, x + r, y + r), start, start + 120, fill=VIVID[k])


def _words(draw: ImageDraw.ImageDraw, rng: np.random.Generator, ink: Colour, x: int, y: int, size: int) -> None:
    faces = fonts.families("train")["Source Sans Pro"]
    letters = "".join(chr(97 + k) for k in rng.integers(26, size=int(rng.integers(3, 9))))
    draw.text((x, y), letters.upper() if size > 15 else letters, fill=ink, font=fonts.face(faces[2], size))


# -- lines ----------------------------------------------------------------------------------------------------------


def sketch(name: str, parts: list[Part], rng: np.random.Generator) -> Image.Image:
    """Pencil on paper: grey lines drawn twice, dark parts hatched, no colour."""
    paper = int(rng.integers(236, 256))
    canvas = blank((paper, paper, paper))
    draw = ImageDraw.Draw(canvas)
    tone = int(rng.integers(30, 90))
    width = int(rng.integers(3, 6))
    shaded = rng.random() < 0.5
    for part in parts:
        if not part.width:
            dot = part.tone == DARK and float(np.ptp(part.points, 0).max()) < 0.12  # too small for hatching
            draw.polygon(strokes.pixels(part.points), fill=(tone + 40,) * 3 if dot else (paper,) * 3)
            if not dot and (part.tone == DARK or (shaded and part.tone == SECOND)):
                strokes.hatch(canvas, silhouette([part]), rng, (tone, tone, tone), 6 if part.tone == DARK else 12)
        for _ in range(2):
            grey = int(np.clip(tone + rng.integers(-25, 40), 0, 200))
            draw.line(strokes.pixels(by_hand(part, rng, 0.006)), fill=(grey, grey, grey), width=width, joint="curve")
    return finished(canvas)


def quickdraw(name: str, parts: list[Part], rng: np.random.Generator) -> Image.Image:
    """Twenty seconds with a mouse: thin black strokes, nothing hidden, coarse, details left out."""
    canvas = blank((255, 255, 255))
    draw = ImageDraw.Draw(canvas)
    for part in parts:
        if part.tone != MAIN and rng.random() < 0.15:
            continue
        points = by_hand(part, rng, 0.014, step=0.11) + rng.uniform(-0.012, 0.012, 2)
        draw.line(strokes.pixels(points), fill=(0, 0, 0), width=4, joint="curve")
    return finished(canvas)


@dataclass(frozen=True)
class Style:
    """How a domain draws, how far it tilts things, how large they are (share of the side), its file type."""

    draw: Draw
    tilt: float
    size: tuple[float, float]
    suffix: str = "png"


STYLES: dict[str, Style] = {
    "photo": Style(photo, 8, (0.72, 0.98), "jpg"),
    "art_painting": Style(painting, 10, (0.72, 0.98), "jpg"),
    "cartoon": Style(cartoon, 12, (0.72, 0.98)),
    "sketch": Style(sketch, 10, (0.75, 0.98)),
    "clipart": Style(clipart, 12, (0.7, 0.98)),
    "infograph": Style(infograph, 6, (0.62, 0.88)),
    "painting": Style(painting, 10, (0.72, 0.98), "jpg"),
    "quickdraw": Style(quickdraw, 12, (0.75, 0.98)),
    "real": Style(studio, 8, (0.7, 0.98), "jpg"),
}
