"""Cost grows as it should: step time linear in the number of domains; the prox below 5 % of a ResNet-18 step at 345 classes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmark.run.speed import keep_freed_memory
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from methods.contract import LabeledBatch, UnlabeledBatch, build_hparams
from tests.perf.pairs import PAIRS, holds, ratio
from tsvdnet.auxiliary import proximal
from tsvdnet.method import TSVDNet

pytestmark = pytest.mark.perf
PICTURE = Path(".benchmarks") / "growth.png"


def method(sources: int, classes: int, network: NetworkSpec) -> TSVDNet:
    task = Task(
        num_classes=classes, num_sources=sources, network=network, optimiser=OptimiserSpec(), budget=100, seed=0
    )
    made = TSVDNet(task, build_hparams(TSVDNet))
    made.train()
    return made


def stepper(made: TSVDNet, sources: int, classes: int, size: int, batch: int) -> Callable[[], object]:
    images = [torch.randn(batch, 3, size, size) for _ in range(sources + 1)]
    drawn = [LabeledBatch(x, torch.arange(batch) % classes) for x in images[:-1]]
    return lambda: made.update(drawn, UnlabeledBatch(images[-1]), 0.5)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def over_domains() -> tuple[np.ndarray, np.ndarray]:
    """(numbers of domains, ms of a step with each): medians of rounds in which each has its turn."""
    counts = range(1, 7)
    steps = [stepper(method(m, 10, NetworkSpec("conv3fc2", 0.5)), m, 10, 32, 32) for m in counts]
    rounds = [[seconds(step) for step in steps] for _ in range(PAIRS + 1)]
    return np.array(counts) + 1, 1e3 * np.median(np.array(rounds[1:]), axis=0)


def prox_share(classes: int) -> tuple[float, float, float]:
    """(A-step / training step, ms, ms) at six domains: ResNet-18 at half the side of PACS, so the step is a cheap one."""
    made = method(5, classes, NetworkSpec("resnet18", 1.0))
    step = stepper(made, 5, classes, 112, 16)
    step()
    rule, G = made.hparams.prox, made.G.clone()
    return ratio(lambda: proximal(G, rule, 1.0, 1.0), step)


def test_growth() -> None:
    keep_freed_memory("resnet18")
    torch.set_num_threads(2)
    try:
        domains, steps = over_domains()
        shares = {classes: prox_share(classes) for classes in (10, 126, 345)}
    finally:
        torch.set_num_threads(1)
    slope, intercept = np.polyfit(domains, steps, 1)
    fitted = slope * domains + intercept
    draw(domains, steps, fitted, {classes: share for classes, (share, _, _) in shares.items()})
    r2 = 1 - ((steps - fitted) ** 2).sum() / ((steps - steps.mean()) ** 2).sum()
    assert slope > 0
    holds("step time over domains, R² of a line", float(r2), at_least=0.97, slope_ms=slope, intercept_ms=intercept)
    share, prox, step = shares[345]
    holds("A-step, share of a ResNet-18 step at 345 classes", share, at_most=0.05, prox_ms=prox, step_ms=step)


def draw(domains: np.ndarray, steps: np.ndarray, fitted: np.ndarray, shares: dict[int, float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    left.plot(domains, steps, "o", color="#4477aa", label="measured")
    left.plot(domains, fitted, color="#bbbbbb", label="line")
    left.set(xlabel="domains", ylabel="ms a step", title="T-SVDNet step, 3Conv-2FC half width", ylim=(0, None))
    left.legend(frameon=False)
    right.plot(list(shares), [100 * s for s in shares.values()], "o-", color="#ee6677")
    right.axhline(5, color="#bbbbbb", linestyle="--")
    right.set(xlabel="classes", ylabel="% of the step", title="proximal step, ResNet-18, 6 × 16 images", ylim=(0, 6))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    plt.close(figure)
