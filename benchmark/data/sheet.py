"""A contact sheet: every domain of a suite side by side, so that a person can look at the data.

One block a domain, one row a class, `per_class` images a row. Published sheets show generated domains only
(`generated_only=True`): pictures of real data stay where they are.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw
from PIL.ImageFont import FreeTypeFont

from benchmark.data.cache import replacing
from benchmark.data.made import fonts
from benchmark.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from benchmark.data.base import Dataset, Domain, ImageSet

GAP, MARGIN, HEAD, FOOT = 2, 24, 54, 56
WIDTH = 1760  # about as wide as a screen: blocks are put into rows that fit
INK, FAINT, PAPER = (33, 37, 41), (120, 126, 133), (255, 255, 255)


def sheet(
    dataset: Dataset,
    path: Path,
    per_class: int = 8,
    *,
    tile: int | None = None,
    max_classes: int = 12,
    generated_only: bool = False,
    title: str = "",
) -> Path:
    """Write the sheet of `dataset` to `path` (PNG) and return the path. Images come from the training part, in order.

    `tile` is the side of an image on the sheet (default: at least 48 pixels); of more than `max_classes` classes, as
    many are shown, evenly spread.
    """
    domains = [d for d in dataset.domains.values() if d.generated or not generated_only]
    if not domains:
        raise UserError("None of these domains is generated, and pictures of real data are not for publishing.")
    count = len(dataset.classes) or 1 + max(int(d.train.labels.max()) for d in domains)
    shown = [round(k * (count - 1) / max(1, min(count, max_classes) - 1)) for k in range(min(count, max_classes))]
    side = tile or _side(domains[0].train)
    blocks = [_block(d, shown, per_class, side) for d in domains]
    label = _label_width(dataset, shown)
    fit = max(1, (WIDTH - 2 * MARGIN - label) // (blocks[0].width + MARGIN))
    rows = -(-len(blocks) // fit)
    columns = -(-len(blocks) // rows)  # five blocks where four fit: three and two
    width = 2 * MARGIN + label + columns * (blocks[0].width + MARGIN) - MARGIN
    top = MARGIN + (40 if title else 0)
    page = Image.new("RGB", (width, top + rows * (blocks[0].height + MARGIN) + FOOT), PAPER)
    draw = ImageDraw.Draw(page)
    if title:
        draw.text((MARGIN, MARGIN - 6), title, fill=INK, font=_font(26, bold=True))
    for k, block in enumerate(blocks):
        x = MARGIN + label + (k % columns) * (block.width + MARGIN)
        y = top + (k // columns) * (block.height + MARGIN)
        page.paste(block, (x, y))
        if k % columns == 0:
            _class_names(draw, dataset, shown, y + HEAD, side)
    foot = textwrap.fill(f"{dataset.note} · images {dataset.fingerprint}", (width - 2 * MARGIN) // 7)
    draw.text((MARGIN, page.height - FOOT), foot, fill=FAINT, font=_font(13))
    with replacing(path) as temporary:
        page.save(temporary, format="PNG", optimize=True)
    return path


def _block(domain: Domain, classes: list[int], per_class: int, side: int) -> Image.Image:
    """The title of a domain and its images, a class a row."""
    step = side + GAP
    block = Image.new("RGB", (per_class * step - GAP, HEAD + len(classes) * step - GAP), PAPER)
    draw = ImageDraw.Draw(block)
    draw.text((0, 0), f"{domain.label}  {domain.title}", fill=INK, font=_font(19, bold=True))
    words = f"{len(domain.train):,} train · {len(domain.test):,} test" + (" · generated" if domain.generated else "")
    draw.text((0, 26), words, fill=FAINT, font=_font(14))
    for row, label in enumerate(classes):
        places = (domain.train.labels == label).nonzero().flatten()[:per_class]
        for column, image in enumerate(_pictures(domain.train, places)):
            block.paste(_fitted(image, side), (column * step, HEAD + row * step))
    return block


def _pictures(images: ImageSet, places: Tensor) -> list[Image.Image]:
    if not len(places):
        return []
    raw = images.take(places).numpy()
    if raw.dtype != np.uint8 or raw.ndim != 4 or raw.shape[1] not in (1, 3):
        raise UserError(
            "These are activations of a frozen network, not pictures: a sheet can be made of the tier mini."
        )
    pixels = np.broadcast_to(raw, (len(raw), 3, *raw.shape[2:])).transpose(0, 2, 3, 1)
    return [Image.fromarray(np.ascontiguousarray(image)) for image in pixels]


def _fitted(image: Image.Image, side: int) -> Image.Image:
    """Enlarged by whole pixels as far as that goes, so that small images look as they are; otherwise smoothly."""
    if image.width == side:
        return image
    exact = side % image.width == 0
    return image.resize((side, side), Image.Resampling.NEAREST if exact else Image.Resampling.LANCZOS)


def _side(images: ImageSet) -> int:
    """64 for digits of 32 pixels, the pictures' own size when they are larger, never above 96."""
    width = int(images.take(images.labels.new_tensor([0])).shape[-1])
    return min(96, width if width >= 48 else width * -(-48 // width))


def _class_names(draw: ImageDraw.ImageDraw, dataset: Dataset, shown: list[int], top: int, side: int) -> None:
    for row, label in enumerate(shown):
        y = top + row * (side + GAP) + side // 2
        draw.text((MARGIN, y), _class_name(dataset, label), fill=FAINT, font=_font(15), anchor="lm")


def _class_name(dataset: Dataset, label: int) -> str:
    return dataset.classes[label].replace("_", " ") if dataset.classes else str(label)


def _label_width(dataset: Dataset, shown: list[int]) -> int:
    return 14 + max(round(_font(15).getlength(_class_name(dataset, label))) for label in shown)


def _font(size: int, bold: bool = False) -> FreeTypeFont:
    files = {f.stem: f for f in fonts.families("train")["Roboto"]}
    return fonts.face(files["Roboto-Medium" if bold else "Roboto-Regular"], size)
