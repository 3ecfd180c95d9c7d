"""Folders of pictures: any suite whose images lie below one root, by domain and class (PACS, DomainNet, Office-Home, yours).

Where they lie and in which form: `forms`; which are trained on and which are scored: `readings`, from what the suite file
says in `[folders]`. Here they become domains.

Pixels: RGB, shorter side to the network's size (8/7 of it when crops are drawn: 256 for 224), centre square, uint8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmark.data.base import Dataset, Domain, ImageSet, Indexed, Preprocess
from benchmark.data.cache import cache_root
from benchmark.data.decoded import Rows, decoded, is_decoded
from benchmark.data.frozen import activations, weights_hash
from benchmark.data.prepared import check_words, combine, suite_folder
from benchmark.data.readings import Files, Tree, tree_of
from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.spec import Suite, TierSettings

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # torchvision's ImageNet weights want these
MIN_SCALE = 0.7  # ours: smallest share of the area that a training crop keeps (DomainBed's value)
FROZEN = "effnet-lite0-tail"  # the network that is fed activations instead of pixels


def load(suite: Suite, tier: str, split: str, data_root: Path | None, options: Mapping[str, str]) -> Dataset:
    """Every domain of the suite from the user's data folder."""
    tree = suite_folder(suite, data_root)
    return load_tree(suite, suite.tier(tier), split, tree, data_root, options)


def fingerprint(suite: Suite, tier: str, split: str, data_root: Path | None, options: Mapping[str, str]) -> str:
    """Which pictures `load` would give, from names, sizes and contents; remembered while the files stay as they are."""
    tree = suite_folder(suite, data_root)
    return _mark(tree_of(suite, tree, split, suite.classes, options, data_root), suite.tier(tier))


def ready(suite: Suite, tier: str, split: str, data_root: Path | None, options: Mapping[str, str]) -> bool:
    """Whether `load` finds every picture decoded. The activations of a frozen trunk are made where the runs are."""
    settings, tree = suite.tier(tier), suite_folder(suite, data_root)
    if settings.network.name == FROZEN:
        return True
    return all(
        is_decoded(len(d.files), _stored(settings), d.mark(), cache_root(data_root))
        for d in tree_of(suite, tree, split, suite.classes, options, data_root).domains
    )


def _stored(settings: TierSettings) -> int:
    size = settings.network.image_size
    return round(size * 8 / 7) if settings.augment else size


def load_tree(
    suite: Suite,
    settings: TierSettings,
    split: str,
    tree: Path,
    data_root: Path | None,
    options: Mapping[str, str],
    *,
    classes: Sequence[str] | None = None,
    note: str = "real images",
    generated: bool = False,
) -> Dataset:
    """The domains of a tree in the prepared layout; also how generated pictures are read."""
    names = list(classes or suite.classes)
    found = tree_of(suite, tree, split, names, options, data_root)
    mark, cache = _mark(found, settings), cache_root(data_root)
    if settings.network.name == FROZEN:
        domains = {
            d.info.id: _domain(d, activations(d.files, d.mark(), settings.network.image_size, data_root), generated)
            for d in found.domains
        }
        words = f"{suite.name}: {note}, activations of a frozen EfficientNet-Lite0, {found.words}"
        return Dataset(domains, mark, words, Preprocess(), names)
    size = settings.network.image_size
    domains = {}
    for d in found.domains:
        try:
            pixels = decoded([Path(file) for file in d.files], _stored(settings), d.mark(), cache)
        except UserError as error:
            raise UserError(f"{error} {check_words(suite, tree)}") from None
        domains[d.info.id] = _domain(d, pixels, generated)
    crop = {"flip": True, "min_scale": MIN_SCALE} if settings.augment else {}
    return Dataset(domains, mark, f"{note}, {found.words}", Preprocess(**IMAGENET, size=size, **crop), names)  # type: ignore[arg-type]


def _mark(found: Tree, settings: TierSettings) -> str:
    """The fingerprint of the pictures, and of the frozen weights when it is their activations that are trained on."""
    mark = found.fingerprint()
    if settings.network.name != FROZEN:
        return mark
    return combine(mark, FROZEN, settings.network.image_size, weights_hash())


def _domain(files: Files, pixels: Indexed, generated: bool) -> Domain:
    def part(rows: np.ndarray) -> ImageSet:
        whole = len(rows) == len(files.files)
        images = pixels if whole else Rows(pixels, rows)
        return ImageSet(images, torch.from_numpy(files.labels[np.arange(len(files.files)) if whole else rows]))

    return Domain(files.info.id, files.info.title, part(files.train), part(files.test), generated)
