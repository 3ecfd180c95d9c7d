"""Mini PACS and mini DomainNet: generated pictures, written to disk in the real layout and read by the real loader.

PACS/<domain>/<class>/*.jpg|png with the k-fold lists in splits/; DomainNet/<domain>/<class>/* with the lists
<domain>_train.txt and <domain>_test.txt. Four styles of seven things, six styles of twelve. Picture k of a class in a
domain is a function of (suite, domain, class, k) alone.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from benchmark.data.base import Dataset
from benchmark.data.cache import cache_root, make_folder, recipe_key, source_hash
from benchmark.data.folders import load_tree
from benchmark.data.made import embedded, fonts, shapes, strokes, styles, things
from benchmark.data.readings import tree_of
from benchmark.errors import UserError, unknown
from benchmark.spec.seeds import seed_of

if TYPE_CHECKING:
    from benchmark.spec import Suite

PACS = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
DOMAINNET = (
    "airplane", "bicycle", "butterfly", "clock", "cup", "fish",
    "flower", "key", "mushroom", "sailboat", "tree", "umbrella",
)  # fmt: skip
CLASSES = {"pacs": PACS, "domainnet": DOMAINNET}
COUNTS = {"pacs": (60, 30), "domainnet": (40, 20)}  # training and test pictures of a class in a domain
# Fingerprints of the pictures behind the published tables (default split and options).
KNOWN: tuple[str, ...] = ("05acd1a1bcc31171", "bb2b28624db113c0")
RECIPE = source_hash(__file__, *(module.__file__ for module in (embedded, fonts, shapes, strokes, styles, things)))


def load(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> Dataset:
    """The generated pictures through the loader of the real ones; drawn on the first call."""
    tree, classes = made(suite, data_root), CLASSES[suite.source]
    dataset = load_tree(suite, suite.tier(tier), split, tree, data_root, options or {}, classes=classes, generated=True)
    return dataclasses.replace(dataset, note=_note(suite, dataset.fingerprint, options or {}))


def _note(suite: Suite, mark: str, options: Mapping[str, Any]) -> str:
    held = suite.folders.reading(str(options.get(suite.folders.option, ""))).scored == "held-out"
    words = f"embedded mini {suite.title}: generated pictures, {len(suite.domains)} styles of "
    words += f"{len(CLASSES[suite.source])} things, "
    words += "scored on held-out ones" if held else "all target pictures adapted on and scored"
    if mark not in KNOWN:
        words += f"; pictures {mark} are not those of the published tables (other image libraries)"
    return words


def fingerprint(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> str:
    """What `load` would give; the loader remembers the hash of every tree it has read."""
    tree = made(suite, data_root)
    return tree_of(suite, tree, split, CLASSES[suite.source], options or {}, data_root).fingerprint()


def made(suite: Suite, data_root: Path | None = None) -> Path:
    """The folder PACS or DomainNet with the generated pictures in it; drawn if it is not in the cache."""
    if suite.source not in CLASSES:
        hint = 'A tier of pictures of your own has data = "prepared"'
        raise unknown("generator of pictures", suite.source, CLASSES, hint)
    domains = [d.name for d in suite.domains]
    key = recipe_key(RECIPE, suite.source, domains)
    home = cache_root(data_root) / f"mini-pictures-{key}"
    if not home.is_dir():
        _appear(home, suite, domains)
    return home / suite.folder


def _appear(home: Path, suite: Suite, domains: Sequence[str]) -> None:
    """Draw everything into a folder beside `home`, then give it its name: the whole tree is there, or nothing."""
    make_folder(home.parent)
    try:
        temporary = Path(tempfile.mkdtemp(dir=home.parent, prefix=f".{home.name}."))
        try:
            temporary.chmod(0o755)
            write(temporary / suite.folder, suite, domains, COUNTS[suite.source])
            os.sync()  # thousands of small files: one flush for all
            if not home.is_dir():
                os.rename(temporary, home)
        except FileExistsError:  # another process was first, with the same pictures
            pass
        except OSError:
            if not home.is_dir():
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"The generated pictures cannot be written to {home.parent} ({error.strerror}). Free some room or give "
            f"another folder: --data-root FOLDER."
        ) from None


def write(tree: Path, suite: Suite, domains: Sequence[str], counts: tuple[int, int]) -> None:
    """Every picture and list of a tree in the real layout; `counts` are training and test pictures of each class.

    Lists lie where the suite's own reading of lists looks last, with its first label.
    """
    reading = next(r for r in suite.folders.readings if r.lists)
    for domain in domains:
        train, test = list[str](), list[str]()
        for label, name in enumerate(CLASSES[suite.source]):
            folder = tree / domain / name
            folder.mkdir(parents=True)
            for k in range(sum(counts)):
                file = f"{domain}/{name}/{name}_{k:03d}.{styles.STYLES[domain].suffix}"
                draw(suite.source, domain, name, k).save(tree / file, quality=90)
                (train if k < counts[0] else test).append(f"{file} {label + reading.first_label}")
        for place, lines in zip(reading.list_names(domain)[-1], (train, test), strict=True):
            (tree / place).parent.mkdir(exist_ok=True)
            (tree / place).write_text("\n".join(lines) + "\n", encoding="utf-8")


def draw(dataset: str, domain: str, name: str, k: int) -> Image.Image:
    """Picture k of a thing in a domain."""
    rng = np.random.default_rng(seed_of("pictures", dataset, domain, name, k))
    style = styles.STYLES[domain]
    return style.draw(name, things.posed(name, rng, style.tilt, style.size), rng)
