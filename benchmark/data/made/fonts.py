"""Type faces that come inside Python packages, by family. Training and test images share no family."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

from PIL import ImageFont

from benchmark.errors import UserError

# family: (package, folder inside it, file pattern). Only faces that have all ten digits.
TRAIN = {
    "Roboto": ("font_roboto", "files", "Roboto-*.ttf"),
    "Source Sans Pro": ("font_source_sans_pro", "files", "*.ttf"),
    "Source Serif Pro": ("font_source_serif_pro", "files", "*.ttf"),
    "Hanken Grotesk": ("font_hanken_grotesk", "files", "*.otf"),
    "Amatic SC": ("font_amatic_sc", "files", "*-Bold.ttf"),
    "Fredoka One": ("font_fredoka_one", "files", "*.ttf"),
    "Intuitive": ("font_intuitive", "files", "*.ttf"),
    "DejaVu Sans": ("matplotlib", "mpl-data/fonts/ttf", "DejaVuSans[.-]*"),
    "DejaVu Serif": ("matplotlib", "mpl-data/fonts/ttf", "DejaVuSerif[.-]*"),
    "Computer Modern": ("matplotlib", "mpl-data/fonts/ttf", "cm[brst][10st]*.ttf"),
}
TEST = {
    "Caladea": ("font_caladea", "files", "*.ttf"),
    "Manrope": ("font_manrope", "files", "Manrope-[BELMRS]*.ttf"),
    "DejaVu Sans Mono": ("matplotlib", "mpl-data/fonts/ttf", "DejaVuSansMono*.ttf"),
    "STIX": ("matplotlib", "mpl-data/fonts/ttf", "STIXGeneral*.ttf"),
}


@lru_cache(maxsize=4)
def families(part: str) -> dict[str, list[Path]]:
    """The font files of each family of a part, "train" or "test", in a fixed order."""
    return {name: _files(name, *where) for name, where in {"train": TRAIN, "test": TEST}[part].items()}


def _files(family: str, package: str, folder: str, pattern: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    found: list[Path] = []
    if spec is not None and spec.origin is not None:
        found = sorted((Path(spec.origin).parent / folder).glob(pattern))
    if not found:
        name = package.replace("_", "-")
        raise UserError(f"The type face {family} is not installed. Type: pip install {name}")
    return found


@lru_cache(maxsize=256)
def face(path: Path, size: int) -> ImageFont.FreeTypeFont:
    """A font file at a size in pixels; the plain layout engine, so that no optional library moves a glyph."""
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)
