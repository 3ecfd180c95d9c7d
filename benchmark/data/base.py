"""What data is to the rest: domains as tensors, and the one way from stored pixels to a network's input.

Images stay uint8 in memory (or memory-mapped on disk) until a batch is on the device; only there do they become
floats. Nothing in the training path runs Python for a single image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmark.spec.seeds import seed_of

PART = {"train": 25_000, "test": 9_000}  # images of a domain, at most, in split "part"


class Indexed(Protocol):
    """Pictures that are read when they are asked for: a length, and the rows of an index array."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> np.ndarray: ...


Pixels: TypeAlias = Tensor | np.ndarray | Indexed  # np.memmap is an ndarray


def send(x: Tensor, device: str | torch.device) -> Tensor:
    """`x` on the device. A GPU gets it from page-locked memory: only then does the host go on to the next batch while
    the copy waits for its turn behind the step that still runs."""
    if torch.device(device).type == "cuda" and x.device.type == "cpu":
        x = x.pin_memory()
    return x.to(device, non_blocking=True)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images (N, C, H, W), uint8 pixels or float16 activations, and their labels (N,) int64."""

    images: Pixels
    labels: Tensor

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise ValueError(f"{len(self.images)} images but {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> Tensor:
        """The raw images of `index` (B,), in its order, as a CPU tensor (B, C, H, W) of the stored type."""
        if isinstance(self.images, Tensor):
            return self.images[index]
        return torch.from_numpy(self.images[index.numpy()])  # fancy indexing copies: the batch owns its memory

    def subset(self, index: Tensor) -> ImageSet:
        """The images and labels of `index`, read now."""
        return ImageSet(self.take(index), self.labels[index])


@dataclass(frozen=True, eq=False)
class Domain:
    """One domain: what is trained on, what is scored, and whether its images are generated (shown as `id*`)."""

    id: str
    title: str
    train: ImageSet
    test: ImageSet
    generated: bool = False

    @property
    def label(self) -> str:
        """The id as tables show it: `syn*` when our own generator made the images of a real suite."""
        return self.id + "*" if self.generated else self.id


@dataclass(frozen=True)
class Preprocess:
    """From stored pixels to a network's input: x = (pixels/255 − mean) / std at `size` × `size`.

    `train` adds the augmentation that is switched on: a horizontal flip with probability ½ (`flip`), and a random
    square crop of `min_scale`…1 of the area at a random place, shifted by up to `shift` of the side. Activations
    (float16) pass unchanged: their pixels were normalised before the frozen trunk saw them.
    """

    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)  # with std ½: [−1, 1], as the digit suites want it
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    size: int | None = None  # side of the network's input; None keeps the stored size
    flip: bool = False
    min_scale: float = 1.0  # smallest share of the area that a random crop keeps
    shift: float = 0.0  # largest translation, as a share of the side

    def train(self, raw: Tensor, device: str | torch.device, generator: torch.Generator) -> Tensor:
        """(B, C, H, W) raw → (B, C, size, size) float, augmented. The same generator state gives the same batch."""
        x = self._floats(raw, device)
        if raw.dtype == torch.uint8 and (self.flip or self.min_scale < 1 or self.shift > 0):
            return _resample(x, self._views(len(x), generator), self.size or x.shape[-1])
        return self._resized(x) if raw.dtype == torch.uint8 else x

    def eval(self, raw: Tensor, device: str | torch.device) -> Tensor:
        """(B, C, H, W) raw → (B, C, size, size) float, the whole image, nothing random."""
        x = self._floats(raw, device)
        return self._resized(x) if raw.dtype == torch.uint8 else x

    def _floats(self, raw: Tensor, device: str | torch.device) -> Tensor:
        x = send(raw, device).float()
        if raw.dtype != torch.uint8:
            return x
        factor, offset = _affine(self.mean, self.std, torch.device(device))
        return x.mul_(factor).sub_(offset)

    def _resized(self, x: Tensor) -> Tensor:
        if self.size is None or x.shape[-2:] == (self.size, self.size):
            return x
        return F.interpolate(x, (self.size, self.size), mode="bilinear", align_corners=False, antialias=True)

    def _views(self, n: int, generator: torch.Generator) -> Tensor:
        """(n, 2, 3) affine maps from output to input coordinates in [−1, 1]; drawn on the CPU, so equal everywhere."""
        u = torch.rand(4, n, generator=generator)
        side = (self.min_scale + (1 - self.min_scale) * u[0]).sqrt()
        room = 1 - side + 2 * self.shift  # where the centre of the crop may lie
        sign = torch.where(u[3] < 0.5, -1.0, 1.0) if self.flip else torch.ones(n)
        theta = torch.zeros(n, 2, 3)
        theta[:, 0, 0], theta[:, 1, 1] = side * sign, side
        theta[:, 0, 2], theta[:, 1, 2] = (2 * u[1] - 1) * room, (2 * u[2] - 1) * room
        return theta


@lru_cache(maxsize=8)
def _affine(mean: tuple[float, ...], std: tuple[float, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """(factor, offset), each (3, 1, 1): (pixels/255 − mean) / std = factor · pixels − offset. Sent to the device once."""
    m, s = (torch.tensor(v).view(3, 1, 1) for v in (mean, std))
    return send(1 / (255 * s), device), send(m / s, device)


def _resample(x: Tensor, theta: Tensor, size: int) -> Tensor:
    """Flip, crop, shift and resize the whole batch in one pass; what lies outside repeats the border."""
    grid = F.affine_grid(send(theta, x.device), [len(x), x.shape[1], size, size], align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


@dataclass(frozen=True, eq=False)
class Dataset:
    """The domains of a suite at a tier, with the words for captions and the hash that identifies the images."""

    domains: dict[str, Domain]
    fingerprint: str
    note: str
    preprocess: Preprocess
    classes: Sequence[str] = field(default=())

    @property
    def generated(self) -> list[str]:
        """Ids of the domains that our own generator made in place of the real images."""
        return [d.id for d in self.domains.values() if d.generated]


def chosen(n: int, split: str, part: str, domain: str) -> Tensor | None:
    """Rows of split `part`: the first min(cap, n) of an order drawn from (domain, part). None: all rows as they are."""
    if split == "all" or n <= PART[part]:
        return None
    generator = torch.Generator().manual_seed(seed_of("split", domain, part))
    return torch.randperm(n, generator=generator)[: PART[part]]
