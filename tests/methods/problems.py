"""Three fixed problems on which adaptation must pay, and the smallest training loop that runs any method on them.

Each has three labelled sources and an unlabelled target, whose shift per-domain batch normalisation cannot undo:

- `rotation`   clusters in space; the target's space is turned
- `covariate`  vectors whose strongest cue is gone in the target, beside a weaker one that holds in all domains
- `colour`     small pictures of coloured stripes; the target has other colours and less contrast
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from benchmark.run.networks import BatchNorm1d, BatchNorm2d, Extractor
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from benchmark.spec.seeds import seed_of
from methods.contract import FullPass, LabeledBatch, Method, UnlabeledBatch, Views, build_hparams, load_method

TRAIN, TEST, BATCH, UPDATES = 600, 500, 32, 250


@dataclass(frozen=True)
class Problem:
    """Three labelled sources, an unlabelled target, and the labelled images that only the score sees."""

    classes: int
    sources: tuple[LabeledBatch, ...]
    target: UnlabeledBatch
    test: LabeledBatch
    network: Callable[[], Extractor]
    lr: float


class Whole(FullPass):
    """A domain in one batch."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __iter__(self) -> Iterator[Any]:
        yield self.batch

    def __len__(self) -> int:
        return len(self.batch.images)


def accuracy(method: str, preset: str, standard: str, problem: Problem, seed: int, **changes: Any) -> float:
    """Train `method` for 250 updates and return its accuracy on the target's test images, in percent."""
    learner = train(method, preset, standard, problem, seed, **changes)
    right = learner.predict(problem.test.images).argmax(1) == problem.test.labels
    return 100 * right.double().mean().item()


def train(method: str, preset: str, standard: str, problem: Problem, seed: int, **changes: Any) -> Method:
    """`method` after 250 updates.

    Hyper-parameters are each method's own defaults with `changes`: what suites set is fitted to their networks.
    """
    cls = load_method(method)
    hparams = build_hparams(cls, cls.presets[preset] if preset else {}, changes)
    task = Task(
        num_classes=problem.classes,
        num_sources=1 if standard == "combined" else len(problem.sources),
        network=NetworkSpec(),
        optimiser=OptimiserSpec(lr={"extractor": problem.lr, "classifier": problem.lr}),
        budget=UPDATES,
        seed=seed,
        batch_size=BATCH,
        lr_scale=hparams.lr_scale,
        extractor_factory=problem.network,
    )
    learner = cls(task, hparams).train()
    views = Views([Whole(s) for s in problem.sources], Whole(problem.target))
    edge, t = 0.0, 0
    for stage, share in learner.stages():
        start, edge = t, edge + share
        stop = round(edge * UPDATES)
        torch.manual_seed(seed_of("stage", seed, stage))
        learner.enter(stage, views)
        for t in range(start, stop):
            sources, target = batches(problem, standard, seed, t)
            torch.manual_seed(seed_of("update", seed, t))
            learner.update(sources, target, (t - start) / (stop - start))
        t = stop
    return learner


def batches(problem: Problem, standard: str, seed: int, t: int) -> tuple[list[LabeledBatch], UnlabeledBatch]:
    """Batch t of every domain: a pure function of (seed, t), equal for all methods."""
    g = torch.Generator().manual_seed(seed_of("batch", seed, t))
    index = torch.randint(TRAIN, (len(problem.sources) + 1, BATCH), generator=g)
    sources = [LabeledBatch(s.images[i], s.labels[i]) for s, i in zip(problem.sources, index, strict=False)]
    if standard == "combined":
        sources = [LabeledBatch(torch.cat([s.images for s in sources]), torch.cat([s.labels for s in sources]))]
    return sources, UnlabeledBatch(problem.target.images[index[-1]])


# -- the problems ---------------------------------------------------------------------------------------------------


def vectors(inputs: int, width: int = 32, features: int = 16) -> Extractor:
    """(N, inputs) → (N, features): two layers, batch-normalised as the real networks are."""
    trunk = nn.Sequential(nn.Linear(inputs, width), BatchNorm1d(width), nn.ReLU())
    last = nn.Sequential(nn.Linear(width, features), BatchNorm1d(features), nn.ReLU())
    return Extractor(trunk, last, width, features)


def pictures(width: int = 12, features: int = 24) -> Extractor:
    """(N, 3, 8, 8) → (N, features): one convolution, then two layers."""
    trunk = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16 * width, 32), BatchNorm1d(32), nn.ReLU(),
    )  # fmt: skip
    last = nn.Sequential(nn.Linear(32, features), BatchNorm1d(features), nn.ReLU())
    return Extractor(trunk, last, 32, features)


def assemble(
    domain: Callable[[int, Tensor, torch.Generator], Tensor], classes: int, network: Any, lr: float
) -> Problem:
    """`domain(d, labels, generator)` draws the images of domain d: 0, 1, 2 are sources, 3 is the target."""
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(TRAIN) % classes
    *sources, target = [domain(d, labels, g) for d in range(4)]
    test = torch.arange(TEST) % classes
    return Problem(
        classes,
        tuple(LabeledBatch(images, labels) for images in sources),
        UnlabeledBatch(target),
        LabeledBatch(domain(3, test, g), test),
        network,
        lr,
    )


@lru_cache
def rotation() -> Problem:
    """Five clusters in 12 dimensions; all of space is turned, a little for each source and far for the target.

    The turn is exp(t A), A antisymmetric. The target's clusters are still nearest to their own class, but at their
    noise a classifier of the sources takes many of their points for another's.
    """
    classes, dims, turns, noise = 5, 12, (-0.1, 0.0, 0.1, 0.75), 0.2
    g = torch.Generator().manual_seed(72)  # a turn that brings no cluster nearer to another class than to its own
    centres = torch.linalg.qr(torch.randn(dims, dims, generator=g))[0][:classes]
    a = torch.randn(dims, dims, generator=g) / math.sqrt(dims)

    def domain(d: int, labels: Tensor, g: torch.Generator) -> Tensor:
        turned = centres @ torch.linalg.matrix_exp(turns[d] * (a - a.T))
        return turned[labels] + noise * torch.randn(len(labels), dims, generator=g)

    return assemble(domain, classes, lambda: vectors(dims), 5e-3)


@lru_cache
def covariate() -> Problem:
    """A weak cue of 4 numbers that holds everywhere, and a strong one of 4 numbers that the target has not.

    The strong cue is a code of ±1 with little noise; in the target it is Gaussian noise of the same mean and variance,
    so a network that looks at it is misled, and a network that looks away has equal features on both sides.
    """
    classes = 4
    centres = torch.tensor([[1.0, 1, -1, -1], [1, -1, 1, -1], [-1, 1, 1, -1], [-1, -1, -1, 3]]) / 2
    codes = torch.tensor([[1.0, 1, 1, 1], [1, -1, 1, -1], [-1, 1, -1, 1], [-1, -1, -1, -1]])
    spread = (0.25, 0.3, 0.35, 0.3)

    def domain(d: int, labels: Tensor, g: torch.Generator) -> Tensor:
        noise = torch.randn(len(labels), 8, generator=g)
        weak = centres[labels] + spread[d] * noise[:, :4]
        strong = noise[:, 4:] if d == 3 else codes[labels] + 0.2 * noise[:, 4:]
        return torch.cat([weak, strong], 1)

    return assemble(domain, classes, lambda: vectors(8), 5e-3)


@lru_cache
def colour() -> Problem:
    """Noisy stripes of four directions on 8×8 pixels, each direction of its own colour; the target's colours are turned.

    The colour circle is turned by two thirds of the way to the next class: colour misleads, the direction is right.
    """
    classes, turns = 4, (-8.0, 0.0, 8.0, 60.0)
    rows, columns = torch.arange(8)[:, None].expand(8, 8), torch.arange(8)[None, :].expand(8, 8)
    places = torch.stack([rows, columns, rows + columns, rows - columns]) % 4  # (4, 8, 8): one pixel in four is painted

    def domain(d: int, labels: Tensor, g: torch.Generator) -> Tensor:
        shift = torch.randint(4, (len(labels), 1, 1), generator=g)
        masks = (places[labels] == shift).float()
        hue = labels * (2 * math.pi / classes) + math.radians(turns[d]) + 0.2 * torch.randn(len(labels), generator=g)
        angles = hue[:, None] + torch.tensor([0.0, 2 * math.pi / 3, 4 * math.pi / 3])
        colours = 0.5 + 0.5 * angles.cos()
        contrast = 0.7 if d == 3 else 1.0
        images = contrast * masks[:, None] * colours[:, :, None, None]
        return images + 0.35 * torch.randn(images.shape, generator=g)

    return assemble(domain, classes, pictures, 5e-3)


PROBLEMS = {"rotation": rotation, "covariate": covariate, "colour": colour}
