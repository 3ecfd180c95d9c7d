"""A reproducibility benchmark for multi-source domain adaptation. In Python: `benchmark.load_model(run)`, a model that a run
kept; `benchmark.records.load(root)`, all runs as one DataFrame; the rest is behind the doors of the rooms.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmark.run import load_model

__all__ = ["load_model"]


def __getattr__(name: str) -> Any:
    """What a user takes from here comes by name when it is asked for: the ground floor imports no room."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("benchmark.run"), name)
