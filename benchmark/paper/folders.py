"""Which papers there are: each is a folder of data in this room."""

from __future__ import annotations

from pathlib import Path

from benchmark.errors import unknown

ROOT = Path(__file__).parent
DEFAULT = ROOT / "tsvdnet"
RIVALS = ROOT / "rivals"  # no paper: what others printed for systems that the paper left out, and for Source-Only


def papers() -> list[str]:
    """The names of all papers."""
    return sorted(path.parent.name for path in ROOT.glob("*/rows.toml"))


def folder(name: str) -> Path:
    """The folder of one paper."""
    if name not in papers():
        raise unknown("paper", name, papers())
    return ROOT / name
