"""Cost grows as it should: step time linear in the number of domains; the prox below 5 % of a ResNet-18 step at 345 classes."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmark.speed import keep_freed_memory
from benchmark.task import NetworkSpec, OptimiserSpec, Task
from methods.contract import LabeledBatch, UnlabeledBatch, build_hparams
from tests.perf.pairs import note
from tsvdnet.method import TSVDNet
from tsvdnet.tensor import rotate, shrink

pytestmark = pytest.mark.perf
PICTURE = Path(".benchmarks") / "growth.png"


def method(sources: int, classes: int, network: NetworkSpec, **hparams: object) -> TSVDNet:
    task = Task(
        num_classes=classes, num_sources=sources, network=network, optimiser=OptimiserSpec(), budget=100, seed=0
    )
    made = TSVDNet(task, build_hparams(TSVDNet, hparams))
    made.train()
    return made


def step_ms(made: TSVDNet, sources: int, classes: int, size: int, batch: int, steps: int) -> float:
    images = [torch.randn(batch, 3, size, size) for _ in range(sources + 1)]
    drawn = [LabeledBatch(x, torch.arange(batch) % classes) for x in images[:-1]]
    times = []
    for i in range(steps + 1):
        began = time.perf_counter()
        made.update(drawn, UnlabeledBatch(images[-1]), 0.5)
        if i:
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def test_growth() -> None:
    keep_freed_memory()
    torch.set_num_threads(2)
    try:
        counts = [1, 2, 3, 4, 5, 6]
        made = {m: method(m, 10, NetworkSpec("conv3fc2", 0.5)) for m in counts}
        rounds = [[step_ms(made[m], m, 10, 32, 32, 3) for m in counts] for _ in range(7)]
        steps = np.median(np.array(rounds), axis=0)
        domains = np.array(counts) + 1
        slope, intercept = np.polyfit(domains, steps, 1)
        fitted = slope * domains + intercept
        r2 = 1 - ((steps - fitted) ** 2).sum() / ((steps - steps.mean()) ** 2).sum()
        note("step time over domains, R² of a line", float(r2), "at least 0.97", slope_ms=slope, intercept_ms=intercept)

        shares = {}
        for classes in (10, 65, 126, 345):
            big = method(5, classes, NetworkSpec("resnet18", 1.0), lam=100.0)
            whole = step_ms(big, 5, classes, 112, 16, 3)
            g = torch.rand(classes, classes, 6, dtype=torch.float64)
            times = []
            for _ in range(9):
                began = time.perf_counter()
                shrink(rotate(g), 100.0)
                times.append(time.perf_counter() - began)
            shares[classes] = statistics.median(times) * 1e3 / whole
        note(
            "prox, share of a ResNet-18 step at 345 classes (112 px)",
            shares[345],
            "below 0.05",
            **{f"at_{c}": s for c, s in shares.items()},
        )
        draw(domains, steps, fitted, shares)
        assert r2 >= 0.97
        assert slope > 0
        assert shares[345] < 0.05
    finally:
        torch.set_num_threads(1)


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
