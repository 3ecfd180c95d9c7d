"""Domains as tensors. `load` gives the images of a suite at a tier; `fingerprint` says which images those are.

Readers (`digits`, `folders`, those in `made`) have the same two functions and are found by name: `benchmark.spec.readers`.
`base` has the shapes, `batches` draws from them, `cache` is where made and decoded images are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.spec import Suite, fingerprint, reader

if TYPE_CHECKING:  # torch comes with the reader
    from benchmark.data.base import Dataset

__all__ = ["fingerprint", "load"]


def load(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> Dataset:
    """All domains of `suite` at `tier`. `options` go before the tier's own (PACS reading, DomainNet lists)."""
    merged = {**suite.tier(tier).options, **(options or {})}
    dataset: Dataset = reader(suite, tier).load(suite, tier, split, data_root, merged)
    return dataset
