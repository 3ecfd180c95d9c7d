"""Digits-Five from the prepared form: `<data root>/digits/<name>.npz` → five domains of 3×32×32 uint8 in memory.

Choices, each the same for every method:
- size: native 28×28 or 16×16 (or any other) to 32×32, bilinear, half-pixel centres, rounded to uint8 once, at loading;
- colour: grey is repeated in three channels (as a view: it takes the memory of one);
- range: uint8 until the batch is on the device, then [−1, 1];
- split `all`: everything; `part`: the first min(25,000, n) training and min(9,000, n) test images of a seeded order;
- USPS is not repeated: batches are drawn by domain, so its size does not change its weight;
- `syn`: where `syn.npz` is missing, our own generator makes the domain under the data cache, marked `syn*`.
"""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from tokenize import TokenError  # of numpy's reader of headers
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmark.data.base import Dataset, Domain, ImageSet, Preprocess, chosen
from benchmark.data.cache import digest
from benchmark.data.made.typeset import syn_file
from benchmark.data.prepared import combine, known_options, remembered, suite_folder
from benchmark.errors import UserError

if TYPE_CHECKING:
    from benchmark.spec import Suite

# What numpy and the decompressors raise for a file that is no .npz: a header may claim any shape (MemoryError, TypeError),
# a member may be encrypted (RuntimeError).
UNREADABLE = (
    OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, TokenError, MemoryError, TypeError,
    OverflowError, RuntimeError,
)  # fmt: skip
KEYS = ("x_train", "y_train", "x_test", "y_test")
SIDE = 32
GENERATED = {"lite": (20_000, 5_000), "paper": (25_000, 9_000)}  # our syn*; the second is the size in Digits-Five
RULES = "digits 1: bilinear to 32, part = seeded 25000/9000"  # part of the fingerprint: other rules, other data


def load(suite: Suite, tier: str, split: str, data_root: Path | None, options: Mapping[str, str]) -> Dataset:
    """Every domain of the suite, in memory."""
    files = _files(suite, tier, data_root, options)
    domains = {}
    for info in suite.domains:
        file, generated = files[info.id]
        arrays = _sound(file)
        train, test = (_image_set(arrays, part, split, info.id) for part in ("train", "test"))
        domains[info.id] = Domain(info.id, info.title, train, test, generated)
    made = [d.label for d in domains.values() if d.generated]
    note = f"real images, split {split}" + (f"; {', '.join(made)} made by our generator" if made else "")
    return Dataset(domains, _fingerprint(files, split, data_root), note, Preprocess(), tuple(suite.classes))


def fingerprint(suite: Suite, tier: str, split: str, data_root: Path | None, options: Mapping[str, str]) -> str:
    """sha256 over the arrays of all files and the split's rule; read once, then remembered while the files stay."""
    return _fingerprint(_files(suite, tier, data_root, options), split, data_root)


def _fingerprint(files: Mapping[str, tuple[Path, bool]], split: str, data_root: Path | None) -> str:
    return combine(RULES, split, {id: file_fingerprint(file, data_root) for id, (file, _) in files.items()})


def file_fingerprint(file: Path, data_root: Path | None) -> str:
    """sha256 over the four arrays of one file."""
    return remembered([file], data_root, lambda: digest(_sound(file).items()))


def _files(suite: Suite, tier: str, data_root: Path | None, options: Mapping[str, str]) -> dict[str, tuple[Path, bool]]:
    """The file of each domain and whether our generator made it; all that is missing in one sentence."""
    known_options(options, (), "digits")
    folder = suite_folder(suite, data_root)
    found = {d.id: (folder / f"{d.name}.npz", False) for d in suite.domains}
    missing = [file.name for id, (file, _) in found.items() if not file.is_file() and id != "syn"]
    if missing:
        raise UserError(
            f"{folder} has no {' and no '.join(missing)}. To get them: python -m benchmark data fetch --suite digits "
            f"--data-root {folder.parent}. To turn what you have into this form: python -m benchmark data prepare "
            f"--suite digits --data-root {folder.parent} --from FOLDER."
        )
    if "syn" in found and not found["syn"][0].is_file():
        found["syn"] = (syn_file(data_root, *GENERATED.get(tier, GENERATED["lite"])), True)
    return found


# -- reading one file ---------------------------------------------------------------------------------------------


def read(file: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz, without pickle; a `ValueError` in words when it cannot be read."""
    try:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is damaged, or something else under this name")
        with np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        strange = [key for key, value in arrays.items() if not isinstance(value, np.ndarray)]
        if strange:  # numpy gives the bytes of a member that does not begin as an array does
            raise ValueError(f"{strange[0]} is no array")
        return arrays
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise ValueError("it holds Python objects (object arrays), which are never unpickled here") from None
        raise _unreadable(error) from None
    except UNREADABLE as error:
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> ValueError:
    """In words of a length that can be read: some errors hold what they found in the file."""
    return ValueError(f"it cannot be read as .npz: {str(error)[:300]}")


def faults(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Everything that is wrong with the arrays of one domain, in words; empty when all is well."""
    missing = [key for key in KEYS if key not in arrays]
    if missing:
        return [f"it has no array {', '.join(missing)} (it has: {', '.join(arrays) or 'nothing'})"]
    found: list[str] = []
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if x.dtype != np.uint8:
            found.append(f"x_{part} is {x.dtype}, not uint8 with values 0–255")
        if not (x.ndim == 3 or (x.ndim == 4 and x.shape[3] in (1, 3))):
            found.append(f"x_{part} has the shape {x.shape}, not (n, height, width) or (n, height, width, 3)")
        elif min(x.shape[1:3]) < 2:
            found.append(f"x_{part} has images of {x.shape[1]}×{x.shape[2]} pixels")
        if y.ndim != 1 or y.dtype.kind not in "iu":
            found.append(f"y_{part} has the shape {y.shape} and type {y.dtype}, not n whole numbers")
            continue
        if len(x) != len(y):
            found.append(f"x_{part} has {len(x)} images but y_{part} {len(y)} labels")
        if len(y) == 0:
            found.append(f"y_{part} is empty")
            continue
        if y.min() < 0 or y.max() > 9:
            ten = (y.min(), y.max()) == (1, 10)
            hint = " (a 10 that means 0, as in SVHN's files? `data prepare` turns it)" if ten else ""
            found.append(f"y_{part} has labels {y.min()}–{y.max()}, not 0–9{hint}")
    return found


def empty_classes(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Classes without an image, in words: a small subset may be trained on like that, but `data check` says so."""
    found = []
    for part in ("train", "test"):
        absent = sorted(set(range(10)) - set(np.unique(arrays[f"y_{part}"]).tolist()))
        if absent:
            found.append(f"y_{part} has no image of the class {', '.join(map(str, absent))}")
    return found


def _sound(file: Path) -> dict[str, np.ndarray]:
    """The arrays of a file that has no fault."""
    try:
        arrays = read(file)
        wrong = faults(arrays)
    except ValueError as error:
        wrong = [str(error)]
    if wrong:
        raise UserError(
            f"{file} is not right: {'; '.join(wrong)}. Type: python -m benchmark data check --suite digits --data-root "
            f"{file.parent.parent}"
        )
    return {key: arrays[key] for key in KEYS}


# -- from native arrays to 3×32×32 --------------------------------------------------------------------------------


def _image_set(arrays: Mapping[str, np.ndarray], part: str, split: str, domain: str) -> ImageSet:
    x, y = arrays[f"x_{part}"], torch.from_numpy(arrays[f"y_{part}"].astype(np.int64))
    rows = chosen(len(y), split, part, domain)
    if rows is not None:
        x, y = x[rows.numpy()], y[rows]
    return ImageSet(to_rgb32(x), y)


def to_rgb32(x: np.ndarray, chunk: int = 4096) -> Tensor:
    """(n, h, w[, 1 or 3]) uint8 → (n, 3, 32, 32) uint8; grey as a view of one channel, bilinear where h, w differ."""
    images = torch.from_numpy(np.ascontiguousarray(x))
    images = images[:, None] if images.dim() == 3 else images.permute(0, 3, 1, 2)
    if images.shape[-2:] != (SIDE, SIDE):
        shrink = min(images.shape[-2:]) > SIDE
        out = torch.empty(len(images), images.shape[1], SIDE, SIDE, dtype=torch.uint8)
        for start in range(0, len(images), chunk):
            piece = images[start : start + chunk].float()
            piece = F.interpolate(piece, (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=shrink)
            out[start : start + chunk] = piece.round_().clamp_(0, 255).to(torch.uint8)
        images = out
    return images.contiguous().expand(-1, 3, -1, -1)
