"""A small task for tests of T-SVDNet: vectors instead of images, as many classes and sources as wanted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmark.run.networks import BatchNorm1d, Extractor
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from benchmark.spec.seeds import seed_of
from methods.contract import LabeledBatch, UnlabeledBatch, build_hparams
from tsvdnet.method import TSVDNet

INPUTS, FEATURES, BATCH = 6, 16, 24


def network() -> Extractor:
    trunk = nn.Sequential(nn.Linear(INPUTS, 20), BatchNorm1d(20), nn.ReLU())
    return Extractor(trunk, nn.Sequential(nn.Linear(20, FEATURES), BatchNorm1d(FEATURES), nn.ReLU()), 20, FEATURES)


def build(preset: str = "", *, classes: int = 10, sources: int = 4, device: str = "cpu", **changes: Any) -> TSVDNet:
    """T-SVDNet in a preset, with changes, ready to train."""
    task = Task(
        num_classes=classes,
        num_sources=sources,
        network=NetworkSpec(),
        optimiser=OptimiserSpec(lr={"extractor": 0.01, "classifier": 0.02}),
        budget=20,
        seed=0,
        batch_size=BATCH,
        device=device,
        extractor_factory=network,
    )
    layer = TSVDNet.presets[preset] if preset else {}
    return TSVDNet(task, build_hparams(TSVDNet, layer, changes)).train()


def batches(t: int, classes: int = 10, sources: int = 4) -> tuple[list[LabeledBatch], UnlabeledBatch]:
    """Batch t: one cluster a class, moved a little in each domain."""
    centres = 2 * torch.randn(classes, INPUTS, generator=torch.Generator().manual_seed(1))
    g = torch.Generator().manual_seed(seed_of("batch", t))
    labels = [torch.randint(classes, (BATCH,), generator=g) for _ in range(sources + 1)]
    images = [centres[y] + 0.3 * d + 0.3 * torch.randn(BATCH, INPUTS, generator=g) for d, y in enumerate(labels)]
    found = [LabeledBatch(x, y) for x, y in zip(images, labels, strict=True)]
    return found[:-1], UnlabeledBatch(images[-1])


def train(method: TSVDNet, updates: int = 6, start: int = 0, total: int = 20) -> list[dict[str, Tensor]]:
    """Updates start … start + updates − 1 of a budget of `total`; what each returned."""
    classes, sources = method.task.num_classes, method.task.num_sources
    return [method.update(*batches(t, classes, sources), t / total) for t in range(start, start + updates)]


def weights(method: TSVDNet) -> dict[str, Tensor]:
    """Everything the method learned or remembers."""
    return {name: value.clone() for name, value in method.state_dict()["modules"].items()}


def equal(a: TSVDNet, b: TSVDNet) -> bool:
    """Bit for bit."""
    one, two = weights(a), weights(b)
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)
