"""One run: data → method → the one training loop → evaluation curve → record. `execute(spec, results=…)` is the door;
`load_model(run)` gives a model that a run kept.

torch comes in with the first run: launchers and readers, which take `failure` or `provenance` from this room, need not
wait for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmark.run.model.loading import load_model
    from benchmark.run.start import execute

__all__ = ["execute", "load_model"]
_HOME = {"execute": "benchmark.run.start", "load_model": "benchmark.run.model.loading"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
