"""A task small enough to train a method on many times in a minute, and the loop without data, time and disk."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmark.run.networks import Extractor
from benchmark.run.stages import divide
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from benchmark.spec import NetworkSettings
from methods.contract import FullPass, LabeledBatch, Method, UnlabeledBatch, Views

UPDATES = 4  # of each stage
NARROW = NetworkSpec("conv3fc2", 1 / 32, "", 32)
_earlier = itertools.count(1000)  # every method finds torch's own generator in another state


@dataclass(frozen=True)
class Toy:
    """A network, the shape of its images and the number of classes; `extractor` instead of a network by name."""

    network: NetworkSpec = NARROW
    extractor: Callable[[], Extractor] | None = None
    shape: tuple[int, ...] = (3, 32, 32)
    classes: int = 4
    size: int = 8  # images in a batch

    @classmethod
    def of(cls, network: NetworkSettings) -> Toy:
        """The toy with a network by name, at its own size of images or the given one."""
        side = network.described().image_size
        return cls(NetworkSpec(network.name, network.width, "", side), shape=(3, side, side))

    def task(self, sources: int = 3, seed: int = 0, **changes: Any) -> Task:
        """What a method is given; a stage of it has UPDATES updates unless `changes` say otherwise."""
        settings: dict[str, Any] = {"budget": UPDATES, "stage_budget": "full", **changes}
        return Task(
            num_classes=self.classes,
            num_sources=sources,
            network=self.network,
            optimiser=OptimiserSpec(lr={"extractor": 0.01, "classifier": 0.01}),
            seed=seed,
            batch_size=self.size,
            extractor_factory=self.extractor,
            **settings,
        )

    def batches(self, sources: int = 3, seed: int = 0, size: int = 0) -> tuple[list[LabeledBatch], UnlabeledBatch]:
        """A cluster for each class; each source has an offset, and the target's channels are mixed, so that it looks
        different even after normalisation."""
        g = torch.Generator().manual_seed(seed)
        size, channels = size or self.size, self.shape[0]
        centres, mix = torch.randn(self.classes, *self.shape, generator=g), torch.randn(channels, channels, generator=g)
        labels = torch.arange(size) % self.classes
        clusters = [centres[labels] + 0.5 * torch.randn(size, *self.shape, generator=g) for _ in range(sources + 1)]
        drawn = [LabeledBatch(images + m, labels) for m, images in enumerate(clusters[:-1])]
        return drawn, UnlabeledBatch((clusters[-1].movedim(1, -1) @ mix).movedim(-1, 1))


class Trainer:
    """A method, its data and the number of the update: the loop without data, time and disk."""

    def __init__(
        self, build: Callable[[Task], Method], toy: Toy, sources: int, *, seed: int = 0, shift: float = 0.0
    ) -> None:
        torch.manual_seed(next(_earlier))
        self.method = build(toy.task(sources, seed))
        self.method.train()
        self.toy, self.sources, self.shift, self.t = toy, sources, shift, 0
        self.stages = divide(self.method.stages(), UPDATES, "full")
        self.total = self.stages[-1].stop
        self.around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext

    def data(self, seed: int) -> tuple[list[LabeledBatch], UnlabeledBatch]:
        """Batch `seed` of every domain."""
        sources, target = self.toy.batches(self.sources, seed=seed)
        return sources, UnlabeledBatch(target.images * (1 + self.shift) + self.shift)

    def enter(self, stage: str) -> None:
        """A stage begins, with passes over two batches of every domain."""
        (s1, t1), (s2, t2) = self.data(1000), self.data(1001)
        torch.manual_seed(0)
        self.method.enter(stage, Views([Pass(a, b) for a, b in zip(s1, s2, strict=True)], Pass(t1, t2)))

    def update(self, progress: float) -> dict[str, Tensor]:
        """One update on the batches of its number, seeded by it."""
        sources, target = self.data(self.t)
        torch.manual_seed(self.t)
        with self.around():
            terms = self.method.update(sources, target, progress)
        self.given = sources, target
        self.t += 1
        return terms

    def step(self) -> dict[str, Tensor]:
        """The next update; at the start of a stage the method is told first."""
        stage = next(s for s in self.stages if self.t < s.stop)
        if self.t == stage.start:
            self.enter(stage.name)
        return self.update((self.t - stage.start) / (stage.stop - stage.start))

    def train(self, look: Callable[[dict[str, Tensor]], None] = lambda terms: None) -> Trainer:
        """All stages to their ends; `look` sees what every update returns."""
        while self.t < self.total:
            look(self.step())
        return self


class Pass(FullPass):
    """A full pass over a domain of two batches."""

    def __init__(self, *parts: LabeledBatch | UnlabeledBatch) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return sum(len(part.images) for part in self._parts)
