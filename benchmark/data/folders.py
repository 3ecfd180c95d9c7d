"""PACS and DomainNet from folders of pictures, `<tree>/<domain>/<class>/*`, with the official lists where they are had.

PACS, option `reading`; the literature does not agree on which target images are adapted on and which are scored:
- "transductive" (default): all images of the target, without labels, in training; the same images are scored. The page
  the paper points to has images only, no lists, so this is its most natural reading;
- "split": training images adapt, the others are scored. The official k-fold lists (train, crossval) when they are in
  `PACS/splits/`; otherwise a seeded tenth of every class is held out, as large as the official crossval part.
DomainNet, option `lists`: "cleaned" (default; as most later work) or "original". Adapted on the train list, scored on
the test list. `cleaned/` or `original/` inside the tree goes before the lists that lie beside the domains.

Pixels: RGB, shorter side to the network's size (8/7 of it when crops are drawn: 256 for 224), centre square, uint8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmark.data.base import Dataset, Domain, ImageSet, Indexed, Preprocess, chosen
from benchmark.data.cache import cache_root
from benchmark.data.decoded import Rows, decoded
from benchmark.data.frozen import activations, weights_hash
from benchmark.data.lists import PARTS, Item, list_files, read_list, scan
from benchmark.data.prepared import check_words, choose, combine, known_options, suite_folder, tree_fingerprint
from benchmark.errors import UserError
from benchmark.spec.seeds import seed_of

if TYPE_CHECKING:
    from benchmark.spec import DomainInfo, Suite, TierSettings

READINGS = ("transductive", "split")
LISTS = ("cleaned", "original")
VERSIONS = {  # pictures in both lists; the other domains are the same in both versions
    "clipart": {"cleaned": 48_129, "original": 48_837},
    "painting": {"cleaned": 72_266, "original": 75_759},
}
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # torchvision's ImageNet weights want these
MIN_SCALE = 0.7  # ours: smallest share of the area that a training crop keeps (DomainBed's value)
FROZEN = "effnet-lite0-tail"  # the network that is fed activations instead of pixels
RULES = "folders 1"  # part of the fingerprint: other rules of splitting, other data


@dataclass(frozen=True)
class Files:
    """The pictures of one domain: relative names and labels of all, and which of them are trained on and scored."""

    info: DomainInfo
    names: tuple[str, ...]
    labels: np.ndarray
    train: np.ndarray
    test: np.ndarray


def load(suite: Suite, tier: str, split: str, data_root: Path | None, options: Mapping[str, str]) -> Dataset:
    """Every domain of PACS or DomainNet from the user's data folder."""
    tree = suite_folder(suite.reader, data_root)
    return load_tree(suite, suite.tier(tier), split, tree, data_root, options)


def fingerprint(suite: Suite, tier: str, split: str, data_root: Path | None, options: Mapping[str, str]) -> str:
    """Which pictures `load` would give, from names, sizes and contents; remembered while the files stay as they are."""
    tree = suite_folder(suite.reader, data_root)
    return _mark(tree_of(suite, tree, split, suite.classes, options), suite.tier(tier), data_root)


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
    found = tree_of(suite, tree, split, names, options)
    mark, cache = _mark(found, settings, data_root), cache_root(data_root)
    if settings.network.name == FROZEN:
        domains = {
            d.info.id: _domain(d, activations(tree, d.names, settings.network.image_size, data_root), generated)
            for d in found.domains
        }
        words = f"pacs-frozen: {note}, activations of a frozen EfficientNet-Lite0, {found.words}"
        return Dataset(domains, mark, words, Preprocess(), names)
    size = settings.network.image_size
    stored = round(size * 8 / 7) if settings.augment else size
    domains = {}
    for d in found.domains:
        files = [tree / name for name in d.names]
        try:
            pixels = decoded(files, stored, tree_fingerprint(tree, d.names, data_root), cache)
        except UserError as error:
            raise UserError(f"{error} {check_words(suite.reader, tree.parent)}") from None
        domains[d.info.id] = _domain(d, pixels, generated)
    crop = {"flip": True, "min_scale": MIN_SCALE} if settings.augment else {}
    return Dataset(domains, mark, f"{note}, {found.words}", Preprocess(**IMAGENET, size=size, **crop), names)  # type: ignore[arg-type]


def _mark(found: Tree, settings: TierSettings, data_root: Path | None) -> str:
    """The fingerprint of the pictures, and of the frozen weights when it is their activations that are trained on."""
    mark = found.fingerprint(data_root)
    if settings.network.name != FROZEN:
        return mark
    return combine(mark, FROZEN, settings.network.image_size, weights_hash())


def _domain(files: Files, pixels: Indexed, generated: bool) -> Domain:
    def part(rows: np.ndarray) -> ImageSet:
        whole = len(rows) == len(files.names)
        images = pixels if whole else Rows(pixels, rows)
        return ImageSet(images, torch.from_numpy(files.labels[np.arange(len(files.names)) if whole else rows]))

    return Domain(files.info.id, files.info.title, part(files.train), part(files.test), generated)


# -- which pictures -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tree:
    """What was found in a tree: files of each domain, and the words for captions."""

    suite: Suite
    root: Path
    split: str
    domains: tuple[Files, ...]
    words: str
    rule: str

    def fingerprint(self, data_root: Path | None) -> str:
        """Contents of the files, and which rows are trained on and scored."""
        parts = {}
        for d in self.domains:
            rows = combine(d.train.tolist(), d.test.tolist(), d.labels.tolist())
            parts[d.info.id] = (tree_fingerprint(self.root, d.names, data_root), rows)
        return combine(RULES, self.rule, self.split, parts)


def tree_of(suite: Suite, root: Path, split: str, classes: Sequence[str], options: Mapping[str, str]) -> Tree:
    """Look at names only: which pictures each domain has, and which of them are for training and for scoring."""
    if suite.reader == "pacs":
        known_options(options, ("reading",), "pacs")
        rule = choose(options, "reading", READINGS)
        domains = [_pacs(d, root, classes, rule) for d in suite.domains]
        official = all(list_files(root, d.name, "pacs") for d in suite.domains)
        held = "official k-fold lists" if official else "a seeded tenth of each class"
        words = {
            "transductive": "transductive (all target images adapted on and scored)",
            "split": f"split (scored on held-out images: {held})",
        }[rule]
    else:
        known_options(options, ("lists",), "domainnet")
        rule = choose(options, "lists", LISTS)
        domains = [_listed(d, root, classes, rule) for d in suite.domains]
        words = f"{rule} lists"
    if split == "part":
        domains = [_part(d) for d in domains]
        words += ", split part"
    return Tree(suite, root, split, tuple(domains), words, rule)


def _pacs(info: DomainInfo, root: Path, classes: Sequence[str], reading: str) -> Files:
    items = scan(root, info.name, classes)
    if not items:
        raise UserError(_nothing(root, info.name, "pacs"))
    missing = [c for i, c in enumerate(classes) if not any(item.label == i for item in items)]
    if missing:
        raise UserError(
            f"{root / info.name} has no picture of {', '.join(missing)}. {check_words('pacs', root.parent)}"
        )
    everything = np.arange(len(items))
    if reading == "transductive":
        return _files(info, items, everything, everything)
    lists = list_files(root, info.name, "pacs")
    if lists:
        place = {item.name: i for i, item in enumerate(items)}
        train, test = (_rows(lists[part], place, root, first_label=1) for part in PARTS)
        return _files(info, items, train, test)
    held = _tenth(items, info.id)
    return _files(info, items, np.setdiff1d(everything, held), held)


def _tenth(items: Sequence[Item], domain: str) -> np.ndarray:
    """A seeded tenth of every class, at least one picture."""
    labels = np.array([item.label for item in items])
    held = []
    for label in np.unique(labels):
        places = torch.from_numpy(np.flatnonzero(labels == label))
        generator = torch.Generator().manual_seed(seed_of("pacs split", domain, label))
        held.append(places[torch.randperm(len(places), generator=generator)[: max(1, round(len(places) / 10))]])
    return np.sort(torch.cat(held).numpy())


def _listed(info: DomainInfo, root: Path, classes: Sequence[str], version: str) -> Files:
    lists = list_files(root, info.name, "domainnet", version)
    if not lists:
        raise UserError(_nothing(root, info.name, "domainnet"))
    train, test = (read_list(lists[part]) for part in PARTS)
    items = train + test
    other = [v for v in LISTS if v != version and VERSIONS.get(info.name, {}).get(v) == len(items)]
    if other:
        raise UserError(
            f"{lists['train']} and its test list hold {len(items):,} pictures: they are the {other[0]} lists, and the "
            f"{version} ones are asked for. Type: --set run.options.lists={other[0]}, or get the others: python -m "
            f"benchmark data fetch --suite domainnet --lists {version} --data-root {root.parent}"
        )
    beyond = [item for item in items if item.label >= len(classes)]
    if beyond:
        raise UserError(
            f"{lists['train'].parent} has the label {beyond[0].label} ({beyond[0].name}), but there are {len(classes)} "
            f"classes, 0–{len(classes) - 1}. {check_words('domainnet', root.parent)}"
        )
    order = np.arange(len(items))
    return _files(info, items, order[: len(train)], order[len(train) :])


def _files(info: DomainInfo, items: Sequence[Item], train: np.ndarray, test: np.ndarray) -> Files:
    labels = np.array([item.label for item in items], np.int64)
    return Files(info, tuple(item.name for item in items), labels, train, test)


def _rows(file: Path, place: Mapping[str, int], root: Path, first_label: int) -> np.ndarray:
    rows = []
    for item in read_list(file, first_label):
        if item.name not in place:
            raise UserError(f"{file} names {item.name}, which is not in {root}. {check_words('pacs', root.parent)}")
        rows.append(place[item.name])
    return np.array(rows)


def _part(files: Files) -> Files:
    """Split `part` of a large domain: the first 25,000 / 9,000 of the seeded order."""
    rows = []
    for part, have in (("train", files.train), ("test", files.test)):
        keep = chosen(len(have), "part", part, files.info.id)
        rows.append(have if keep is None else have[keep.numpy()])
    return Files(files.info, files.names, files.labels, *rows)


def _nothing(root: Path, domain: str, reader: str) -> str:
    if reader == "domainnet":
        return (
            f"{root} has no {domain}_train.txt and {domain}_test.txt, the official lists that say which pictures are "
            f"trained on and which are scored. Type: python -m benchmark data fetch --suite domainnet --data-root "
            f"{root.parent}"
        )
    return f"{root / domain} has no pictures. {check_words(reader, root.parent)}"
