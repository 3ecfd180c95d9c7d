"""`tsvdnet:code` is the released algorithm: 3 epochs of 7 batches beside a second writing of it, digit by digit."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from methods.contract import LabeledBatch, UnlabeledBatch, build_hparams
from tests.replay.released_tsvdnet import SGD, Adam, Released, network
from tsvdnet.method import TSVDNet
from tsvdnet.options import PRESETS

CLASSES, SOURCES, BATCH, UPDATES = 10, 4, 8, 21
LR, DECAY = 5e-4, 5e-4
SURE = 15.0  # multiplies the first weights of the classifier: pseudo labels begin within 21 updates, not at the first
LAM_ETA = {"published": (1000.0, 1e-5), "small": (0.01, 0.5)}  # A = 0; A ≠ 0 and a tensor term that is felt at once


@functools.cache
def batch(t: int) -> tuple[list[Tensor], list[Tensor]]:
    """Images of the sources and of the target, labels of the sources: a pattern a class, an offset a domain, noise."""
    patterns = torch.randn(CLASSES, 3, 32, 32, generator=torch.Generator().manual_seed(1)).double()
    g = torch.Generator().manual_seed(100 + t)
    labels = [torch.randint(CLASSES, (BATCH,), generator=g) for _ in range(SOURCES + 1)]
    noise = [torch.randn(BATCH, 3, 32, 32, generator=g).double() for _ in labels]
    images = [patterns[y] + 0.2 * d + 0.3 * e for d, (y, e) in enumerate(zip(labels, noise, strict=True))]
    return images, labels[:-1]


def fresh(optimiser: str, lam: str, epoch: int, **changes: Any) -> TSVDNet:
    """`:code` with the release's own schedule and kernel, before its first update; float64, no dropout."""
    task = Task(
        num_classes=CLASSES, num_sources=SOURCES, network=NetworkSpec(width=1 / 16),
        optimiser=OptimiserSpec(optimiser, {"extractor": LR, "classifier": LR}, DECAY, momentum=0.9),
        budget=UPDATES, seed=0, batch_size=BATCH,
    )  # fmt: skip
    literal = {"eta_schedule": "released", "aux_restart": epoch, "kernel_dim": 0}
    numbers = dict(zip(("lam", "eta0"), LAM_ETA[lam], strict=True))
    method = TSVDNet(task, build_hparams(TSVDNet, PRESETS["code"], literal, numbers, changes)).double().train()
    for layer in method.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    with torch.no_grad():
        method.classifier.weight *= SURE
    return method


def ours(optimiser: str, lam: str, epoch: int = 7, **changes: Any) -> TSVDNet:
    """After 21 updates; the count to the next A-step starts anew after `epoch` of them."""
    method = fresh(optimiser, lam, epoch, **changes)
    for t in range(UPDATES):
        images, labels = batch(t)
        sources = [LabeledBatch(x, y) for x, y in zip(images, labels, strict=False)]
        method.update(sources, UnlabeledBatch(images[-1]), t / UPDATES)
    return method


@functools.cache
def released(optimiser: str, lam: str, epoch: int = 7) -> Released:
    """The second writing, from the same weights, on the same batches."""
    start = fresh(optimiser, lam, epoch)
    extractor, classifier = network(4, 8, 192, 128), nn.Linear(128, CLASSES).double()
    for copy, module in ((extractor, start.extractor), (classifier, start.classifier)):
        copy.load_state_dict(dict(zip(copy.state_dict(), module.state_dict().values(), strict=True)))
    step = {"adam": Adam, "sgd": SGD}[optimiser]([*extractor.parameters(), *classifier.parameters()], LR, DECAY)
    number, eta = LAM_ETA[lam]
    theirs = Released(
        extractor, classifier, step, classes=CLASSES, sources=SOURCES, features=128,
        lam=number, eta=eta, eta_max=1.0, max_entropy=0.7,
    )  # fmt: skip
    for t in range(UPDATES):
        images, labels = batch(t)
        theirs.iteration(images, labels, t % epoch)
    return theirs


def differences(method: TSVDNet, theirs: Released) -> dict[str, float]:
    """The largest difference of what belongs together."""

    def worst(a: list[Tensor], b: list[Tensor]) -> float:
        return max((x.double() - y.double()).abs().max().item() for x, y in zip(a, b, strict=True))

    modules = (method.extractor, method.classifier), (theirs.extractor, theirs.classifier)
    state = [[value for module in side for value in module.state_dict().values()] for side in modules]
    return {
        "parameters and batch-norm statistics": worst(*state),
        "prototypes": worst(list(method.prototypes), theirs.prototypes),
        "G": worst(list(method.G.unbind(2)), theirs.G),
        "A": worst(list(method.A.unbind(2)), theirs.A),
        "η": abs(method.eta - theirs.eta),
    }


@pytest.mark.parametrize("lam", LAM_ETA)
@pytest.mark.parametrize("optimiser, digits", [("adam", 1e-10), ("sgd", 1e-13)])
def test_code_equals_the_released_algorithm_after_21_updates(optimiser, digits, lam):
    """Adam divides gradients by their own size, rounding included: hence its fewer digits."""
    method, theirs = ours(optimiser, lam), released(optimiser, lam)
    found = differences(method, theirs)
    assert all(value <= digits for value in found.values()), found
    assert found["η"] == 0
    assert method.eta == pytest.approx(LAM_ETA[lam][1] * 1.1**3)  # one A-step at the start of each epoch
    assert bool((method.A != 0).any()) == (lam == "small")
    first = next(t for t, n in enumerate(theirs.confident) if n)
    assert 2 < first < 12, "the gate must open, and not at once"
    assert 0 < sum(theirs.confident[first:]) < BATCH * (UPDATES - first)


def test_in_a_longer_epoch_the_second_a_step_comes_after_16_updates():
    method, theirs = ours("adam", "small", epoch=233), released("adam", "small", epoch=233)
    assert max(differences(method, theirs).values()) <= 1e-10
    assert method.eta == theirs.eta == pytest.approx(0.5 * 1.1**2)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilons": "none"}, {"repeat_top": False}, {"kernel_dim": 2048}, {"normalise": "never"}, {"alpha": 0.4},
        {"source_loss": "mean"}, {"prototype_loss": False}, {"entropy_mean": "samples"}, {"entropy": "all"},
        {"prox": "paper"}, {"gate": False}, {"aux_every": 5}, {"aux_restart": 6}, {"pseudo": "probability"},
    ],
    ids=lambda c: "=".join(map(str, *c.items())),
)  # fmt: skip
def test_any_other_reading_parts_from_the_released_algorithm(change):
    """The control: no choice of `:code` is free."""
    found = differences(ours("sgd", "small", **change), released("sgd", "small"))
    assert found["parameters and batch-norm statistics"] > 1e-9
