"""Which images make batch t: a pure function of (domain, seed, t). Equal for every method, target and standard.

There is no sampler state to save: the endless sequence of a domain is one seeded permutation after another, and
batch t is its places t·B … (t+1)·B − 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

from benchmark.data.base import ImageSet, Preprocess, send
from benchmark.spec.seeds import seed_of
from methods.contract import FullPass, LabeledBatch, UnlabeledBatch

RESIDENT_MB = 256  # a domain of digits has 26 to 225; what is read from the disk has gigabytes


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
        if device.type != "cpu" and isinstance(images.images, Tensor) and _megabytes(images.images) <= RESIDENT_MB:
            self._live_on(device, images.images)
        self._seed, self._size, self._preprocess, self._device = seed, size, preprocess, device

    def _live_on(self, device: torch.device, images: Tensor) -> None:
        """Keep images and labels on the device: of a batch, only its places are sent."""
        there = (
            images[:, :1].to(device).expand_as(images) if images.stride(1) == 0 else images.to(device)
        )  # grey stays one
        self._take = lambda index: there[send(index, device)]
        self._labels = None if self._labels is None else self._labels.to(device)

    def images(self, t: int) -> Tensor:
        """(B, C, H, W) float images of batch t on the device."""
        index = batch_index(len(self._pool), self._size, self._domain, self._seed, t)
        generator = torch.Generator().manual_seed(seed_of("augment", self._domain, self._seed, t))
        return self._preprocess.train(self._take(self._pool[index]), self._device, generator)

    def labels(self, t: int) -> Tensor:
        """(B,) labels of batch t; an error for the target."""
        if self._labels is None:
            raise PermissionError("the target has no labels in training")
        index = batch_index(len(self._pool), self._size, self._domain, self._seed, t)
        return send(self._labels[send(index, self._labels.device)], self._device)

    def labeled(self, t: int) -> LabeledBatch:
        """Batch t of a source."""
        return LabeledBatch(self.images(t), self.labels(t))

    def unlabeled(self, t: int) -> UnlabeledBatch:
        """Batch t of the target."""
        return UnlabeledBatch(self.images(t))

    def full_pass(self, count: list[int], pause: Callable[[], None] = lambda: None) -> Pass:
        """Every image once; `count[0]` grows with the images handed out, and `pause` is called before each batch."""
        return Pass(self, count, pause)


class Pass(FullPass):
    """One pass over a stream's images in a fixed order, without augmentation."""

    def __init__(self, stream: Stream, count: list[int], pause: Callable[[], None], size: int = 256) -> None:
        self._stream, self._count, self._pause, self._size = stream, count, pause, size

    def __len__(self) -> int:
        return len(self._stream._pool)

    def __iter__(self):
        s = self._stream
        for start in range(0, len(self), self._size):
            self._pause()
            places = slice(start, start + self._size)
            images = s._preprocess.eval(s._take(s._pool[places]), s._device)
            self._count[0] += len(images)
            if s._labels is None:
                yield UnlabeledBatch(images)
            else:
                yield LabeledBatch(images, send(s._labels[places], s._device))


Batch: TypeAlias = tuple[list[LabeledBatch], UnlabeledBatch]  # of every source, and of the target


def batches_of(sources: Sequence[Stream], target: Stream, combined: bool) -> Callable[[int], Batch]:
    """t → batch t of every domain; `combined`: the sources as one."""

    def read(t: int) -> Batch:
        found = [s.labeled(t) for s in sources]
        if combined and len(found) > 1:
            found = [LabeledBatch(torch.cat([b.images for b in found]), torch.cat([b.labels for b in found]))]
        return found, target.unlabeled(t)

    return read


@contextmanager
def ahead(read: Callable[[int], Batch], device: torch.device, stop: int) -> Iterator[Callable[[int], Batch]]:
    """Within: `read`, but batch t+1 < `stop` is read and sent while update t computes, by a thread and on a stream of its own.

    A batch is a function of t alone: one that was made for another t is left and made anew, whoever asks when. What goes
    wrong while reading is raised where the batch is asked for.
    """
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None
    coming: dict[int, Future[tuple[Batch, Any]]] = {}

    def make(t: int) -> tuple[Batch, Any]:
        with torch.cuda.stream(stream) if stream else nullcontext():
            batch = read(t)
            return batch, stream.record_event() if stream else None

    def given(t: int) -> Batch:
        batch, sent = (coming.pop(t, None) or reader.submit(make, t)).result()
        coming.clear()
        if t + 1 < stop:
            coming[t + 1] = reader.submit(make, t + 1)
        if sent is not None:
            now = torch.cuda.current_stream(device)
            now.wait_event(sent)
            for x in (*(x for b in batch[0] for x in (b.images, b.labels)), batch[1].images):
                x.record_stream(now)  # its memory is not used again before this stream is done with it
        return batch

    with ThreadPoolExecutor(1, "reading-ahead") as reader:
        yield given


def supply(
    read: Callable[[int], Batch], device: torch.device, stop: int
) -> AbstractContextManager[Callable[[int], Batch]]:
    """`read` as a training loop wants it: ahead for a GPU; as it is for a CPU, which has nothing left over to read with."""
    return nullcontext(read) if device.type == "cpu" else ahead(read, device, stop)


def _megabytes(images: Tensor) -> float:
    """Of what is stored: grey pictures show one channel as three."""
    return images.untyped_storage().nbytes() / 2**20
