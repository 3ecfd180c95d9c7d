"""Domains as tensors. `load` gives the images of a suite at a tier; `fingerprint` says which images those are.

A tier's setting `data` decides where they come from: "embedded" data is made offline by this package, "prepared" data
is read from the user's data folder. Each reader is a module with the same two functions, imported when it is wanted.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.data.base import Dataset, Domain, ImageSet, Preprocess
from benchmark.data.cache import cache_root

if TYPE_CHECKING:
    from benchmark.spec import Suite

__all__ = ["Dataset", "Domain", "ImageSet", "Preprocess", "cache_root", "fingerprint", "load"]

READERS = {
    ("digits", "embedded"): "benchmark.data.made.embedded",
    ("pacs", "embedded"): "benchmark.data.made.pictures",
    ("domainnet", "embedded"): "benchmark.data.made.pictures",
    ("digits", "prepared"): "benchmark.data.digits",
    ("pacs", "prepared"): "benchmark.data.folders",
    ("domainnet", "prepared"): "benchmark.data.folders",
}


def load(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> Dataset:
    """All domains of `suite` at `tier`. `options` go before the tier's own (PACS reading, DomainNet lists)."""
    reader, merged = _reader(suite, tier, options)
    return reader.load(suite, tier, split, data_root, merged)


def fingerprint(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> str:
    """The fingerprint that `load` would give, quickly when the data is in the cache."""
    reader, merged = _reader(suite, tier, options)
    return reader.fingerprint(suite, tier, split, data_root, merged)


def _reader(suite: Suite, tier: str, options: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    settings = suite.tier(tier)
    module = importlib.import_module(READERS[suite.reader, settings.data])
    return module, {**settings.options, **(options or {})}
