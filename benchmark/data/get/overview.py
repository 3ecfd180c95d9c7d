"""Which suites there are: one line each, and whether their images are here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmark.spec import load_suite, suite_names


@dataclass(frozen=True)
class Line:
    """A built-in suite: what it has, and where its images belong."""

    suite: str
    title: str
    domains: int
    classes: int
    images: int  # as published; 0: the suite file does not say
    folder: str
    here: bool  # there is something in it
    empty: bool  # it is there, with nothing in it
    mini_offline: bool

    def words(self) -> str:
        """For people."""
        size = f", {self.images:,} images" if self.images else ""
        offline = "; tier mini needs no images" if self.mini_offline else ""
        state = "here" if self.here else ("empty" if self.empty else "not here") + offline
        return f"{self.domains} domains, {self.classes} classes{size}  [{self.folder}: {state}]"


def overview(root: Path) -> list[Line]:
    """Every built-in suite, by name; `root` is the data root."""
    lines = []
    for name in suite_names():
        suite = load_suite(name)
        listed = suite.folders.readings[0].counts.values()
        images = sum(sum(d.by_class) or d.images for d in suite.domains) or sum(map(sum, listed))
        offline = any(tier.data == "embedded" for tier in suite.tiers.values())
        place, shape = root / suite.folder, (len(suite.domains), len(suite.classes))
        here = place.is_dir() and any(place.iterdir())
        lines.append(Line(name, suite.title, *shape, images, str(place), here, place.is_dir() and not here, offline))
    return lines
