"""Which images make batch t: a pure function of (domain, seed, t). Equal for every method, target and standard.

There is no sampler state to save: the endless sequence of a domain is one seeded permutation after another, and
batch t is its places t·B … (t+1)·B − 1.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from benchmark.data.base import ImageSet, Preprocess, send
from benchmark.spec.seeds import seed_of
from methods.contract import FullPass, LabeledBatch, UnlabeledBatch


@lru_cache(maxsize=64)
def _order(n: int, domain: str, seed: int, epoch: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed_of("order", domain, seed, epoch))
    return torch.randperm(n, generator=generator)


def batch_index(n: int, size: int, domain: str, seed: int, t: int) -> Tensor:
    """(size,) places in 0…n−1 of batch t."""
    parts, place, missing = [], t * size, size
    while missing:
        epoch, start = divmod(place, n)
        part = _order(n, domain, seed, epoch)[start : start + missing]
        parts.append(part)
        place, missing = place + len(part), missing - len(part)
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def hold_out(n: int, wanted: int, domain: str) -> tuple[Tensor, Tensor]:
    """(training places, held-out places): at most `wanted` and at most a fifth are held out, the same for every seed."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed_of("hold-out", domain)))
    held = min(wanted, n // 5)
    return order[held:].sort().values, order[:held].sort().values


class Stream:
    """The batches of one domain. A stream made without labels cannot give any."""

    def __init__(
        self,
        images: ImageSet,
        pool: Tensor,
        domain: str,
        *,
        seed: int,
        size: int,
        preprocess: Preprocess,
        device: torch.device,
        labelled: bool,
    ) -> None:
        self._take, self._pool, self._domain = images.take, pool, domain
        self._labels = images.labels[pool] if labelled else None
        self._seed, self._size, self._preprocess, self._device = seed, size, preprocess, device

    def images(self, t: int) -> Tensor:
        """(B, C, H, W) float images of batch t on the device."""
        index = batch_index(len(self._pool), self._size, self._domain, self._seed, t)
        generator = torch.Generator().manual_seed(seed_of("augment", self._domain, self._seed, t))
        return self._preprocess.train(self._take(self._pool[index]), self._device, generator)

    def labels(self, t: int) -> Tensor:
        """(B,) labels of batch t; an error for the target."""
        if self._labels is None:
            raise PermissionError("the target has no labels in training")
        return send(self._labels[batch_index(len(self._pool), self._size, self._domain, self._seed, t)], self._device)

    def labeled(self, t: int) -> LabeledBatch:
        """Batch t of a source."""
        return LabeledBatch(self.images(t), self.labels(t))

    def unlabeled(self, t: int) -> UnlabeledBatch:
        """Batch t of the target."""
        return UnlabeledBatch(self.images(t))

    def full_pass(self, count: list[int]) -> Pass:
        """Every image once; `count[0]` grows with the images handed out."""
        return Pass(self, count)


class Pass(FullPass):
    """One pass over a stream's images in a fixed order, without augmentation."""

    def __init__(self, stream: Stream, count: list[int], size: int = 256) -> None:
        self._stream, self._count, self._size = stream, count, size

    def __len__(self) -> int:
        return len(self._stream._pool)

    def __iter__(self):
        s = self._stream
        for start in range(0, len(self), self._size):
            places = slice(start, start + self._size)
            images = s._preprocess.eval(s._take(s._pool[places]), s._device)
            self._count[0] += len(images)
            if s._labels is None:
                yield UnlabeledBatch(images)
            else:
                yield LabeledBatch(images, send(s._labels[places], s._device))
