"""What the generated pictures show: each thing as a list of parts with variation in its build, not yet in any style.

A thing lies within about [−1, 1]²; `posed` brings it to its place in the picture, the unit square.
Long because it is a picture book: one short drawing after another.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from benchmark.data.made.shapes import DARK, LIGHT, MAIN, SECOND, Build, Part, arc, curve, form, limb, line, oval

# -- animals ------------------------------------------------------------------------------------------------------


def _legs(b: Build, xs: tuple[float, float], top: float, ground: float, wide: float, thin: float) -> list[Part]:
    """Four legs in stride, the far pair first and darker by its tone."""
    stride = b(-0.16, 0.16)
    far = [
        limb((x + 0.06, top), (x + 0.06 - stride * s, ground), wide, thin, SECOND)
        for x, s in zip(xs, (1, -1), strict=True)
    ]
    near = [limb((x, top), (x + stride * s, ground), wide, thin) for x, s in zip(xs, (1, -1), strict=True)]
    return far + near


def dog(b: Build) -> list[Part]:
    """Short neck, hanging ears, a snout with a nose, the tail up."""
    length, leg = b(0.42, 0.55), b(0.32, 0.46)
    ground, head = b(0.62, 0.72), b(0.2, 0.27)
    back = ground - leg - 0.2
    hx, hy = length + b(0.05, 0.15), back - b(0.18, 0.32)
    tail = b(-0.55, -0.25)
    return [
        limb((-length, back), (-length - 0.3, back + tail), 0.12, 0.05),
        *_legs(b, (-length + 0.06, length - 0.1), back + 0.1, ground, 0.2, 0.12),
        oval(0, back, length + 0.12, b(0.21, 0.27)),
        limb((length - 0.1, back), (hx, hy), 0.34, 0.28),
        oval(hx, hy, head, head * 0.95),
        limb((hx + 0.08, hy + 0.06), (hx + head + b(0.12, 0.22), hy + 0.09), 0.22, 0.15),
        oval(hx + head + 0.2, hy + 0.05, 0.05, 0.045, DARK),
        oval(hx - 0.12, hy + 0.08, 0.09, b(0.18, 0.26), SECOND, b(-5, 25)),
        oval(hx + 0.07, hy - 0.06, 0.035, 0.04, DARK),
    ]


def elephant(b: Build) -> list[Part]:
    """A heavy body, thick legs, one great ear, the trunk, a tusk."""
    rx, ry, ground = b(0.5, 0.6), b(0.36, 0.44), b(0.66, 0.74)
    hx, hy = rx + b(0.02, 0.12), b(-0.28, -0.1)
    swing, drop = b(-0.1, 0.3), b(0.3, 0.5)
    trunk = [
        (hx + 0.2, hy + 0.05),
        (hx + 0.33, hy + 0.35),
        (hx + 0.3 + swing / 2, hy + 0.4 + drop / 2),
        (hx + 0.3 + swing, hy + 0.4 + drop * 0.8),
    ]
    return [
        line((-rx - 0.02, -0.1), (-rx - 0.16, b(0.15, 0.4)), width=0.05, tone=SECOND),
        *_legs(b, (-rx + 0.16, rx - 0.2), 0.15, ground, 0.32, 0.27),
        oval(-0.05, 0.0, rx + 0.08, ry),
        *(limb(p, q, 0.24 - 0.05 * k, 0.19 - 0.05 * k) for k, (p, q) in enumerate(itertools.pairwise(trunk))),
        oval(hx, hy, b(0.27, 0.32), b(0.27, 0.33)),
        line((hx + 0.14, hy + 0.2), (hx + 0.3, hy + 0.34), (hx + 0.48, hy + 0.3), width=0.06, tone=LIGHT),
        oval(hx - 0.2, hy + 0.04, b(0.18, 0.27), b(0.27, 0.38), SECOND, b(-15, 15)),
        oval(hx + 0.14, hy - 0.08, 0.035, 0.04, DARK),
    ]  # fmt: skip


def giraffe(b: Build) -> list[Part]:
    """A very long neck, long legs, spots, two horns."""
    ground, leg, length = b(0.82, 0.9), b(0.5, 0.62), b(0.3, 0.4)
    back = ground - leg - 0.16
    hx, hy = length + b(0.15, 0.4), back - b(0.7, 0.9)
    spots = []
    for _ in range(9):
        t = b(0, 1)
        x, y = (
            (b(-length, length), back + b(-0.12, 0.12))
            if b.chance(0.5)
            else (length + t * (hx - length), back + t * (hy - back))
        )
        spots.append(oval(x, y, b(0.04, 0.07), b(0.04, 0.07), DARK, n=7))
    return [
        line((-length - 0.05, back), (-length - 0.14, back + b(0.25, 0.4)), width=0.045, tone=SECOND),
        *_legs(b, (-length + 0.04, length - 0.04), back + 0.05, ground, 0.14, 0.09),
        oval(0, back, length + 0.12, b(0.17, 0.21), MAIN, -6),
        limb((length - 0.02, back), (hx, hy), 0.26, 0.14),
        *spots,
        limb((hx - 0.04, hy), (hx + b(0.2, 0.27), hy + b(0.04, 0.1)), 0.18, 0.11),
        line((hx - 0.02, hy - 0.06), (hx - 0.05, hy - 0.2), width=0.05),
        line((hx + 0.05, hy - 0.06), (hx + 0.06, hy - 0.2), width=0.05),
        oval(hx + 0.05, hy - 0.02, 0.03, 0.03, DARK),
    ]  # fmt: skip


def horse(b: Build) -> list[Part]:
    """A raised neck with a mane, a long head, slender legs, a long tail."""
    ground, leg, length = b(0.72, 0.8), b(0.48, 0.58), b(0.42, 0.52)
    back = ground - leg - 0.18
    hx, hy = length + b(0.2, 0.34), back - b(0.42, 0.56)
    nose = (hx + b(0.2, 0.28), hy + b(0.16, 0.28))
    tail = b(-0.2, 0.0)
    return [
        form(
            (-length - 0.05, back - 0.1), (-length - 0.2 + tail, back + 0.1),
            (-length - 0.16 + tail, back + b(0.4, 0.55)), (-length, back + 0.12), tone=DARK,
        ),
        *_legs(b, (-length + 0.05, length - 0.06), back + 0.05, ground, 0.19, 0.09),
        oval(0, back, length + 0.14, b(0.2, 0.25)),
        limb((length - 0.06, back - 0.02), (hx, hy), 0.36, 0.2),
        form(
            (length - 0.2, back - 0.2), (hx - 0.2, hy - 0.02), (hx - 0.04, hy - 0.14), (hx - 0.02, hy + 0.02),
            (length - 0.04, back - 0.12), tone=DARK,
        ),
        limb((hx, hy), nose, 0.22, 0.13),
        form((hx - 0.06, hy - 0.08), (hx - 0.02, hy - 0.24), (hx + 0.05, hy - 0.08), tone=SECOND),
        oval(hx + 0.07, hy + 0.02, 0.03, 0.035, DARK),
    ]  # fmt: skip


def butterfly(b: Build) -> list[Part]:
    """Two pairs of wings about a body with feelers."""
    up, low, lift = b(0.38, 0.5), b(0.26, 0.36), b(15, 40)
    parts = []
    for side in (-1, 1):
        parts += [
            oval(side * 0.42, 0.28, low * 1.1, low, SECOND, side * lift),
            oval(side * 0.46, -0.24, up, up * b(0.62, 0.8), MAIN, -side * lift),
            oval(side * 0.5, -0.26, up * 0.42, up * 0.3, LIGHT, -side * lift),
            line((side * 0.02, -0.4), (side * 0.1, -0.6), (side * 0.24, -0.74), width=0.04),
        ]
    return [*parts, oval(0, 0.02, 0.08, b(0.42, 0.5), DARK)]


def fish(b: Build) -> list[Part]:
    """An oval body, a forked tail, a fin on the back, an eye, a gill."""
    rx, ry = b(0.5, 0.62), b(0.24, 0.4)
    return [
        form((-rx + 0.08, 0), (-rx - 0.36, -b(0.24, 0.38)), (-rx - 0.22, 0), (-rx - 0.36, b(0.24, 0.38)), tone=SECOND),
        form((-0.2, -ry * 0.8), (0.0, -ry - b(0.16, 0.28)), (0.26, -ry * 0.8), tone=SECOND),
        oval(0, 0, rx, ry),
        form((0, 0.06), (-0.22, b(0.16, 0.26)), (-0.02, 0.2), tone=SECOND),
        arc(rx * 0.42, 0, 0.1, ry * 0.62, 110, 250, 0.04),
        oval(rx * 0.66, -ry * 0.25, 0.075, 0.075, LIGHT),
        oval(rx * 0.68, -ry * 0.25, 0.038, 0.038, DARK),
    ]  # fmt: skip


# -- people and things --------------------------------------------------------------------------------------------


def person(b: Build) -> list[Part]:
    """Head, hair, trunk, arms and legs in many poses."""
    wide, hip = b(0.2, 0.28), b(0.12, 0.26)
    parts = []
    for side in (-1, 1):
        foot = (side * b(0.1, 0.32), b(0.84, 0.92))
        elbow = (side * (wide + b(0.08, 0.2)), b(-0.16, 0.06))
        hand = (elbow[0] + side * b(-0.12, 0.18), elbow[1] + b(-0.36, 0.28))
        parts += [
            limb((side * 0.1, hip), foot, 0.2, 0.13, SECOND),
            limb((side * wide * 0.8, -0.34), elbow, 0.15, 0.12),
            limb(elbow, hand, 0.12, 0.1, LIGHT),
        ]
    head = b(0.16, 0.2)
    return [
        *parts,
        form((-wide, -0.4), (wide, -0.4), (wide * 0.8, hip + 0.06), (-wide * 0.8, hip + 0.06)),
        limb((0, -0.42), (0, -0.54), 0.13, 0.13, LIGHT),
        oval(0, -0.66, head, head * 1.15, LIGHT),
        form((-head, -0.66), (-head * 0.8, -0.86), (0, -0.92), (head * 0.8, -0.86), (head, -0.66), (0, -0.77), tone=DARK),
        oval(-0.06, -0.65, 0.022, 0.028, DARK),
        oval(0.06, -0.65, 0.022, 0.028, DARK),
    ]  # fmt: skip


def guitar(b: Build) -> list[Part]:
    """A waisted body with a sound hole, a long neck with a head, strings."""
    lower, upper, neck = b(0.32, 0.4), b(0.24, 0.3), b(0.06, 0.08)
    return [
        form((-neck, -0.25), (-neck, -0.78), (neck, -0.78), (neck, -0.25), tone=SECOND),
        form((-neck * 1.5, -0.76), (-neck * 2, -0.98), (neck * 2, -0.98), (neck * 1.5, -0.76), tone=DARK),
        oval(0, 0.48, lower, lower * 0.95),
        oval(0, 0.06, upper, upper * 0.95),
        form((-upper * 0.82, 0.1), (upper * 0.82, 0.1), (upper * 0.85, 0.42), (-upper * 0.85, 0.42)),
        oval(0, 0.2, 0.12, 0.12, DARK),
        form((-0.15, 0.56), (0.15, 0.56), (0.15, 0.63), (-0.15, 0.63), tone=DARK),
        line((-0.025, -0.8), (-0.025, 0.58), width=0.02, tone=LIGHT),
        line((0.025, -0.8), (0.025, 0.58), width=0.02, tone=LIGHT),
    ]


def house(b: Build) -> list[Part]:
    """Walls, a pitched roof, a door, windows, a chimney."""
    w, top, base = b(0.5, 0.7), b(-0.2, 0.0), b(0.6, 0.75)
    peak, over = top - b(0.4, 0.65), b(0.06, 0.14)
    door = b(-0.12, 0.12)
    at = b(0.2, 0.5) * w
    return [
        form((at, peak * 0.6 + top * 0.4), (at, peak - 0.04), (at + 0.16, peak - 0.04), (at + 0.16, top), tone=SECOND),
        form((-w, top), (w, top), (w, base), (-w, base)),
        form((-w - over, top + 0.02), (b(-0.15, 0.15), peak), (w + over, top + 0.02), tone=SECOND),
        form((door - 0.11, base), (door - 0.11, base - b(0.34, 0.44)), (door + 0.11, base - 0.4), (door + 0.11, base), tone=DARK),
        *(_window(x, top + b(0.14, 0.22)) for x in (-w * 0.6, w * 0.6)),
    ]  # fmt: skip


def _window(x: float, y: float) -> Part:
    return form((x - 0.11, y), (x + 0.11, y), (x + 0.11, y + 0.22), (x - 0.11, y + 0.22), tone=LIGHT)


def airplane(b: Build) -> list[Part]:
    """Seen from above: fuselage, swept wings, tail."""
    span, sweep = b(0.7, 0.9), b(0.15, 0.4)
    wing = [
        form((0.22, s * 0.06), (0.02 - sweep, s * span), (-0.14 - sweep, s * span), (-0.14, s * 0.06), tone=SECOND)
        for s in (-1, 1)
    ]
    tail = [
        form((-0.6, s * 0.03), (-0.86, s * 0.32), (-0.96, s * 0.32), (-0.82, s * 0.03), tone=SECOND) for s in (-1, 1)
    ]
    return [*wing, *tail, limb((-0.85, 0), (0.78, 0), 0.1, b(0.17, 0.22)), oval(0.72, 0, 0.08, 0.06, DARK)]


def bicycle(b: Build) -> list[Part]:
    """Two wheels, a diamond frame, saddle and handlebar."""
    r, y = b(0.32, 0.38), 0.34
    left, right = -b(0.5, 0.58), b(0.5, 0.58)
    seat, bar, pedal = (left + 0.3, -0.22), (right - 0.18, -0.26), (-0.04, y)
    frame = [
        line(p, q, width=0.06, tone=MAIN)
        for p, q in (((left, y), seat), (seat, bar), (bar, pedal), (pedal, seat), ((left, y), pedal), (bar, (right, y)))
    ]
    wheels = [arc(x, y, r, r, 0, 360, 0.06) for x in (left, right)]
    return [
        *wheels, *frame,
        line((seat[0], seat[1]), (seat[0] - 0.03, seat[1] - 0.14), width=0.05, tone=MAIN),
        line((seat[0] - 0.14, seat[1] - 0.14), (seat[0] + 0.1, seat[1] - 0.14), width=0.09),
        line(bar, (bar[0] - 0.04, bar[1] - 0.18), (bar[0] + 0.14, bar[1] - b(0.14, 0.26)), width=0.06),
        oval(*pedal, 0.08, 0.08, DARK),
    ]  # fmt: skip


def clock(b: Build) -> list[Part]:
    """A round dial with marks and two hands."""
    r = b(0.62, 0.76)
    parts = [oval(0, 0, r, r), oval(0, 0, r * 0.82, r * 0.82, LIGHT)]
    for k in range(12):
        c, s = math.cos(math.radians(30 * k)), math.sin(math.radians(30 * k))
        parts.append(line((c * r * 0.66, s * r * 0.66), (c * r * 0.76, s * r * 0.76), width=0.05))
    for reach, width in ((0.42, 0.09), (0.62, 0.06)):
        t = math.radians(b(0, 360))
        parts.append(line((0, 0), (r * reach * math.cos(t), r * reach * math.sin(t)), width=width))
    return parts


def cup(b: Build) -> list[Part]:
    """A cup with a handle, a rim, steam."""
    w, foot, h = b(0.38, 0.46), b(0.24, 0.38), b(0.38, 0.5)
    steam = [line((x, -h - 0.12), (x + 0.06, -h - 0.24), (x - 0.04, -h - 0.36), width=0.04) for x in (-0.14, 0.1)]
    return [
        arc(w * 0.9, 0.02, b(0.24, 0.3), b(0.2, 0.26), -80, 100, 0.1, MAIN),
        form((-w, -h), (w, -h), (foot, h), (-foot, h)),
        oval(0, -h, w, 0.1, DARK),
        form((-w * 0.9, -0.06), (w * 0.9, -0.06), (w * 0.82, 0.12), (-w * 0.82, 0.12), tone=SECOND),
        *(steam if b.chance(0.6) else []),
    ]


def flower(b: Build) -> list[Part]:
    """Petals about a centre, a stem with leaves."""
    n, r, y = int(b(5, 9)), b(0.26, 0.34), -0.36
    turn = b(0, 60)
    petals = []
    for k in range(n):
        t = turn + 360 * k / n
        petals.append(oval(r * math.cos(math.radians(t)), y + r * math.sin(math.radians(t)), 0.24, 0.13, MAIN, t))
    return [
        line((0, y), (b(-0.1, 0.1), 0.3), (b(-0.08, 0.08), 0.92), width=0.07, tone=SECOND),
        oval(0.2, b(0.3, 0.5), 0.22, 0.09, SECOND, -b(15, 45)),
        oval(-0.2, b(0.4, 0.65), 0.22, 0.09, SECOND, b(15, 45)),
        *petals,
        oval(0, y, 0.15, 0.15, DARK),
    ]


def key(b: Build) -> list[Part]:
    """A ring, a shaft, a bit with teeth."""
    r, end = b(0.24, 0.32), b(0.7, 0.85)
    teeth = [
        form((x, 0.02), (x + 0.09, 0.02), (x + 0.09, b(0.16, 0.32)), (x, b(0.16, 0.32)))
        for x in (end - 0.12, end - 0.3)
    ]
    return [
        *teeth,
        limb((-0.4, 0), (end, 0), 0.12, 0.12),
        oval(-0.52, 0, r, r * b(0.8, 1.1)),
        oval(-0.56, 0, r * 0.45, r * 0.45, DARK),
    ]  # fmt: skip


def mushroom(b: Build) -> list[Part]:
    """A domed cap with dots on a stalk."""
    w, top = b(0.55, 0.72), b(0.5, 0.7)
    cap = curve(0, 0.06, w, top, 180, 360, 20)
    dots = [oval(b(-0.6, 0.6) * w, -b(0.12, 0.38), b(0.05, 0.1), b(0.05, 0.09), LIGHT, n=12) for _ in range(5)]
    return [limb((0, 0.0), (b(-0.08, 0.08), 0.68), b(0.24, 0.34), b(0.3, 0.42), SECOND), Part(cap), *dots]


def sailboat(b: Build) -> list[Part]:
    """A hull, a mast, a main sail and a jib."""
    top, deck = -b(0.75, 0.9), 0.4
    return [
        line((0, deck), (0, top), width=0.06),
        form((0.05, top + 0.04), (b(0.5, 0.68), deck - 0.12), (0.05, deck - 0.12), tone=LIGHT),
        form((-0.06, top + b(0.1, 0.3)), (-b(0.4, 0.56), deck - 0.12), (-0.06, deck - 0.12), tone=SECOND),
        form((-b(0.66, 0.78), deck), (b(0.66, 0.8), deck), (0.5, deck + b(0.24, 0.34)), (-0.48, deck + 0.28)),
    ]


def tree(b: Build) -> list[Part]:
    """A trunk with a branch and a crown of several rounds."""
    trunk = b(0.14, 0.22)
    crown = [oval(b(-0.4, 0.4), -0.3 + b(-0.3, 0.18), b(0.26, 0.36), b(0.24, 0.32), MAIN, n=14) for _ in range(5)]
    return [
        limb((0, 0.88), (b(-0.08, 0.08), -0.2), trunk * 1.4, trunk * 0.8, SECOND),
        limb((0, 0.3), (b(0.2, 0.3) * (1 if b.chance(0.5) else -1), -0.05), trunk * 0.7, trunk * 0.4, SECOND),
        *crown,
        oval(0, -0.34, 0.42, 0.36),
    ]


def umbrella(b: Build) -> list[Part]:
    """A dome in panels, a shaft with a hook."""
    r, drop, y = b(0.68, 0.82), b(0.5, 0.68), 0.0
    dome = curve(0, y, r, drop, 180, 360, 20)
    middle = np.concatenate([curve(0, y, r * 0.4, drop, 180, 360, 14)])
    hook = 0.12 * (1 if b.chance(0.5) else -1)
    return [
        line((0, y), (0, 0.74), (hook * 0.4, 0.86), (hook, 0.86), (hook * 1.4, 0.74), width=0.06),
        Part(dome), Part(middle, SECOND),
        line((0, -drop), (0, -drop - 0.1), width=0.05),
    ]  # fmt: skip


THINGS: dict[str, Callable[[Build], list[Part]]] = {
    f.__name__: f
    for f in (
        dog, elephant, giraffe, guitar, horse, house, person,
        airplane, bicycle, butterfly, clock, cup, fish, flower, key, mushroom, sailboat, tree, umbrella,
    )
}  # fmt: skip


def posed(name: str, rng: np.random.Generator, tilt: float, size: tuple[float, float]) -> list[Part]:
    """The thing in a random build, flipped or not, tilted by up to `tilt` degrees, at a random size and place.

    Coordinates are now those of the picture: the unit square.
    """
    b = Build(rng)
    parts = THINGS[name](b)
    everything = np.concatenate([p.points for p in parts])
    low, high = everything.min(0), everything.max(0)
    turn = math.radians(b(-tilt, tilt))
    side = b(*size)
    stretch = b(0.88, 1.12)
    scale = np.array([stretch, 1 / stretch]) * side / float((high - low).max())
    if b.chance(0.5):
        scale[0] = -scale[0]
    c, s = math.cos(turn), math.sin(turn)
    room = (1 - side) / 2
    place = np.array([0.5 + b(-room, room) * 0.9, 0.5 + b(-room, room) * 0.9])
    out = []
    for part in parts:
        x, y = ((part.points - (low + high) / 2) * scale).T
        points = np.stack([c * x - s * y, s * x + c * y], 1) + place
        out.append(Part(points, part.tone, part.width * abs(float(scale[1]))))
    return out
