"""One run: data → method → the one training loop → evaluation curve → record. `execute(spec, results=…)` is the door.

torch comes in with the first run: launchers and readers, which take `failure` or `provenance` from this room, need not
wait for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmark.run.start import execute

__all__ = ["execute"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("benchmark.run.start"), name)
