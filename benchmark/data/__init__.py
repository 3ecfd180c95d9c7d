"""Domains as tensors. `load` gives the images of a suite at a tier; `fingerprint` says which images those are.

Readers (`digits`, `folders`, those in `made`) have the same two functions and are found by name: `benchmark.spec.readers`.
`base` has the shapes, `batches` draws from them, `cache` is where made and decoded images are kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.spec import Suite, fingerprint, reader
from benchmark.spec.network import OURS, with_weights

if TYPE_CHECKING:  # torch comes with the reader
    from benchmark.data.base import Dataset

__all__ = ["fingerprint", "load", "ready"]


def load(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> Dataset:
    """All domains of `suite` at `tier`. `options` go before the tier's own (PACS reading, DomainNet lists).

    Whatever the reader, images come as the network wants them: its size and normalisation, or what the suite says instead.
    """
    merged = {**suite.tier(tier).options, **(options or {})}
    network = suite.tier(tier).network
    dataset: Dataset = reader(suite, tier).load(suite, tier, split, data_root, merged)
    mark = with_weights(dataset.fingerprint, network, data_root)
    wanted: dict[str, Any] = {"size": network.image_size} if network.name not in OURS else {}
    for key, value in (("mean", network.mean), ("std", network.std)):
        if value is not None:
            wanted[key] = tuple(value)
    preprocess = dataclasses.replace(dataset.preprocess, **wanted)
    return dataclasses.replace(dataset, fingerprint=mark, preprocess=preprocess)


def ready(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> bool:
    """Whether `load` is a matter of seconds; readers that make nothing on first use do not say."""
    says = getattr(reader(suite, tier), "ready", None)
    merged = {**suite.tier(tier).options, **(options or {})}
    return says is None or bool(says(suite, tier, split, data_root, merged))
