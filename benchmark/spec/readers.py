"""Who reads the images of a suite: a reader is a module with `load` and `fingerprint`, named here, imported when wanted.

A suite says which reader understands its files, a tier's setting `data` where they come from: "embedded" images are made
offline, "prepared" ones are read from the user's data folder. The names stand beside the suites because a spec that has
not seen its data must ask for its fingerprint; the readers themselves are the business of `benchmark.data`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmark.spec.suite import Suite

READERS = {
    ("digits", "embedded"): "benchmark.data.made.embedded",
    ("pacs", "embedded"): "benchmark.data.made.pictures",
    ("domainnet", "embedded"): "benchmark.data.made.pictures",
    ("digits", "prepared"): "benchmark.data.digits",
    ("pacs", "prepared"): "benchmark.data.folders",
    ("domainnet", "prepared"): "benchmark.data.folders",
}


def reader(suite: Suite, tier: str) -> Any:
    """The module that reads the images of `suite` at `tier`."""
    return importlib.import_module(READERS[suite.reader, suite.tier(tier).data])


def fingerprint(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> str:
    """Which images a run would see, quickly when they are in the cache. `options` go before the tier's own."""
    merged = {**suite.tier(tier).options, **(options or {})}
    found: str = reader(suite, tier).fingerprint(suite, tier, split, data_root, merged)
    return found
