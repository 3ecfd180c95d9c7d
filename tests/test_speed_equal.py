"""Speed options leave the numbers alone: fused against separate passes, channels-last against the usual order."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

from benchmark.networks import conv3fc2, initialise
from benchmark.speed import keep_freed_memory
from benchmark.task import NetworkSpec, OptimiserSpec, Task


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


def test_fused_and_separate_passes_agree_to_1e_10_after_50_steps_in_double_precision() -> None:
    task, fast, head, slow, slow_head = models(torch.float64)
    ours = [task.optimiser(fast, "extractor"), task.optimiser(head, "classifier")]
    theirs = [torch.optim.Adam(m.parameters(), lr=5e-4, weight_decay=5e-4, foreach=False) for m in (slow, slow_head)]
    for t in range(50):
        images, labels = batch(t, torch.float64)
        a = loss_of(task.forward_domains(images, fast), head, labels)
        b = loss_of([slow(x) for x in images], slow_head, labels)
        for loss, optimisers in ((a, ours), (b, theirs)):
            for o in optimisers:
                o.zero_grad()
            loss.backward()
            for o in optimisers:
                o.step()
    assert abs(float((a - b).detach())) < 1e-10
    for (name, p), q in zip(fast.state_dict().items(), slow.state_dict().values(), strict=True):
        assert torch.allclose(p, q, rtol=0, atol=1e-10), name


def test_fused_and_separate_passes_agree_in_single_precision_at_the_first_step() -> None:
    task, fast, head, slow, slow_head = models(torch.float32)
    images, labels = batch(0, torch.float32)
    a = loss_of(task.forward_domains(images, fast), head, labels)
    b = loss_of([slow(x) for x in images], slow_head, labels)
    a.backward()
    b.backward()
    assert abs(float((a - b).detach())) < 1e-5
    for p, q in zip(fast.parameters(), slow.parameters(), strict=True):
        assert torch.allclose(p.grad, q.grad, rtol=1e-4, atol=1e-5)


def test_memory_advice_is_taken_or_left_without_an_error() -> None:
    assert keep_freed_memory() in (True, False)
