"""Speed options leave the numbers alone: fused against separate passes, channels-last against the usual order."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import nn

from benchmark.run.networks import conv3fc2, initialise
from benchmark.run.speed import keep_freed_memory
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task


def models(dtype: torch.dtype) -> tuple[Task, nn.Module, nn.Module, nn.Module, nn.Module]:
    task = Task(
        num_classes=5, num_sources=3, network=NetworkSpec("conv3fc2", 1 / 16), optimiser=OptimiserSpec(), budget=50, seed=0
    )  # fmt: skip
    fast, head = task.extractor().to(dtype), task.classifier().to(dtype)
    slow = conv3fc2(1 / 16)
    initialise(slow, 0, "main")
    slow = slow.to(dtype)
    for net in (fast, slow):
        for m in net.modules():
            if isinstance(m, nn.Dropout):
                m.p = 0.0
    return task, fast, head, slow, copy.deepcopy(head)


def batch(t: int, dtype: torch.dtype) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    g = torch.Generator().manual_seed(t)
    return (
        [torch.randn(6, 3, 32, 32, generator=g).to(dtype) * (d + 1) for d in range(4)],
        [torch.randint(0, 5, (6,), generator=g) for _ in range(3)],
    )


def loss_of(features: list[torch.Tensor], head: nn.Module, labels: list[torch.Tensor]) -> torch.Tensor:
    p = head(features[-1]).softmax(1)
    return (
        sum(F.cross_entropy(head(f), y) for f, y in zip(features, labels, strict=False)) - (p * p.log()).sum(1).mean()
    )


def largest(ours: Iterable[torch.Tensor], theirs: Iterable[torch.Tensor]) -> float:
    """The largest difference of any two entries."""
    return max(float((p.double() - q.double()).abs().max()) for p, q in zip(ours, theirs, strict=True))


def relative(ours: Iterable[torch.Tensor], theirs: Iterable[torch.Tensor]) -> float:
    """‖ours − theirs‖ / ‖theirs‖ of all entries together."""
    a, b = (torch.cat([x.double().flatten() for x in side]) for side in (ours, theirs))
    return float((a - b).norm() / b.norm())


def after_steps(steps: int, dtype: torch.dtype) -> tuple[float, float]:
    """Largest difference of (the last loss, weights and running statistics) between fused and separate passes."""
    task, fast, head, slow, slow_head = models(dtype)
    ours = [task.optimiser(fast, "extractor"), task.optimiser(head, "classifier")]
    theirs = [torch.optim.Adam(m.parameters(), lr=5e-4, weight_decay=5e-4, foreach=False) for m in (slow, slow_head)]
    for t in range(steps):
        images, labels = batch(t, dtype)
        a = loss_of(task.forward_domains(images, fast), head, labels)
        b = loss_of([slow(x) for x in images], slow_head, labels)
        for loss, optimisers in ((a, ours), (b, theirs)):
            for o in optimisers:
                o.zero_grad()
            loss.backward()
            for o in optimisers:
                o.step()
    state = largest(
        [*fast.state_dict().values(), *head.state_dict().values()],
        [*slow.state_dict().values(), *slow_head.state_dict().values()],
    )
    return abs(float((a - b).detach())), state


def first_gradients(dtype: torch.dtype) -> tuple[float, list[torch.Tensor], list[torch.Tensor]]:
    """(difference of the loss, gradients of the fused pass, gradients of separate passes) at the first step."""
    task, fast, head, slow, slow_head = models(dtype)
    images, labels = batch(0, dtype)
    a = loss_of(task.forward_domains(images, fast), head, labels)
    b = loss_of([slow(x) for x in images], slow_head, labels)
    a.backward()
    b.backward()
    ours, theirs = ([p.grad for m in pair for p in m.parameters()] for pair in ((fast, head), (slow, slow_head)))
    return abs(float((a - b).detach())), ours, theirs


def test_fused_and_separate_passes_agree_to_1e_10_after_50_steps_in_double_precision() -> None:
    loss, state = after_steps(50, torch.float64)
    assert loss < 1e-10
    assert state < 1e-10


def test_fused_and_separate_passes_agree_in_single_precision_at_the_first_step() -> None:
    loss, ours, theirs = first_gradients(torch.float32)
    assert loss < 1e-5
    for p, q in zip(ours, theirs, strict=True):
        assert torch.allclose(p, q, rtol=1e-4, atol=1e-5)
    assert relative(ours, theirs) < 1e-5


def test_memory_advice_is_taken_or_left_without_an_error() -> None:
    assert keep_freed_memory("conv3fc2") in (True, False)
