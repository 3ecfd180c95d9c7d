"""What a kept model is to look at: files and folders of a user's, or the test images of its run, read as in training.

Pictures are decoded by the rule of the suite that the model was trained on: digits keep their native pixels and become
32 × 32 as the domains of Digits-Five do; others get their shorter side to the stored size, then the centre square. An
.npz has uint8 images as `x_test` (or `images`), with labels as `y_test` (or `labels`) if there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from benchmark import data
from benchmark.data import digits
from benchmark.data.decoded import Files, read_image
from benchmark.data.lists import SUFFIXES, is_picture
from benchmark.errors import UserError
from benchmark.machine import cores
from benchmark.spec import Resolved

NAMES = (("x_test", "y_test"), ("images", "labels"))  # of the arrays of an .npz, images and labels


class Raw(Protocol):
    """Images as they are stored."""

    def take(self, index: Tensor, /) -> Tensor:
        """(B, C, H, W) of the images at `index`."""


@dataclass(frozen=True)
class Pictures:
    """Images to look at: their names, their classes where somebody knows them (−1: nobody does), and how to get them."""

    names: Sequence[str]
    truth: Sequence[int]
    raw: Raw

    def __len__(self) -> int:
        return len(self.names)


class Decoded:
    """Picture files, read when they are asked for."""

    def __init__(self, files: Sequence[Path], preprocess: dict[str, Any]) -> None:
        self.files, self._how = files, preprocess

    def take(self, index: Tensor) -> Tensor:
        """(B, 3, S, S) uint8."""
        wanted = [self.files[i] for i in index.tolist()]
        if self._how["reader"] != "digits":
            return torch.from_numpy(Files(wanted, int(self._how["side"]))[np.arange(len(wanted))])
        with ThreadPoolExecutor(cores()) as pool:
            native = list(pool.map(lambda file: read_image(file, None), wanted))
        return torch.cat([digits.to_rgb32(x.transpose(1, 2, 0)[None].copy()) for x in native])


class Stack:
    """Images that are in memory."""

    def __init__(self, images: Tensor) -> None:
        self._images = images

    def take(self, index: Tensor) -> Tensor:
        """(B, C, H, W)."""
        return self._images[index]


def own(resolved: Resolved, data_root: Path | None) -> Pictures:
    """The test images of the run's target, in the order in which they were scored."""
    spec = resolved.spec
    dataset = data.load(resolved.suite, spec.tier, spec.split, data_root, resolved.settings.options)
    if spec.data != dataset.fingerprint:
        raise UserError(
            f"The images here have fingerprint {dataset.fingerprint}, those of the run {spec.data}: its accuracy cannot be "
            "had from them. Name the folder of its images with --data-root, or name files of yours to predict."
        )
    test = dataset.domains[spec.target].test
    return Pictures([f"{spec.target} test {i}" for i in range(len(test))], test.labels.tolist(), test)


def found(paths: Sequence[Path], preprocess: dict[str, Any], classes: Sequence[str]) -> list[Pictures]:
    """The pictures of files and folders, sorted within a folder; one in a folder named like a class is of that class."""
    groups, files = list[Pictures](), list[Path]()
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if is_picture(p.name) and p.is_file())
            if not inside:
                raise UserError(f"{path} has no pictures ({', '.join(SUFFIXES)}) in it.")
            files += inside
        elif not path.is_file():
            raise UserError(f"There is no file {path}. Name pictures, folders of pictures, or an .npz of digits.")
        elif path.suffix.lower() == ".npz":
            groups.append(_arrays(path, preprocess, len(classes)))
        else:
            files.append(path)
    places = {name: i for i, name in enumerate(classes)}
    truth = [places.get(file.parent.name, -1) for file in files]
    read = [Pictures([str(f) for f in files], truth, Decoded(files, preprocess))] if files else []
    return [*read, *groups]


def _arrays(path: Path, preprocess: dict[str, Any], classes: int) -> Pictures:
    """The images of an .npz; never unpickled."""
    try:
        arrays = digits.read(path)
        image, label = next((pair for pair in NAMES if pair[0] in arrays), ("", ""))
        if not image:
            raise ValueError(f"it has no array x_test or images (it has: {', '.join(arrays) or 'nothing'})")
        if preprocess["reader"] != "digits":
            raise ValueError("the model is of a suite of pictures; give it picture files")
        x = arrays[image]
        if x.dtype != np.uint8 or not (x.ndim == 3 or (x.ndim == 4 and x.shape[3] in (1, 3))) or not x.size:
            raise ValueError(
                f"{image} is {x.dtype} of shape {x.shape}, not uint8 (n, height, width[, 3]), none of them 0"
            )
        y = arrays.get(label, np.full(len(x), -1))
        if y.shape != (len(x),) or y.dtype.kind not in "iu" or y.max() >= classes:
            raise ValueError(f"{label} is no list of {len(x)} classes")
    except ValueError as error:
        raise UserError(f"{path} cannot be predicted: {error}.") from None
    return Pictures([f"{path}[{i}]" for i in range(len(x))], y.tolist(), Stack(digits.to_rgb32(x)))
